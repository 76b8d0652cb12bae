"""The page of keys in the documentation."""

from __future__ import annotations

import sys

from stethoscope.ui.keys import KEYS, shown


def markdown() -> str:
    """Return the table of keys for the documentation."""
    lines = [
        "# Keys",
        "",
        "Generated from `stethoscope/ui/keys.py`. `ctrl+p` finds everything in this table by its name.",
        "",
        "| key | where | what it does | name |",
        "|---|---|---|---|",
    ]
    for key in KEYS:
        names = ", ".join(f"`{shown(name)}`" for name in key.keys)
        where = "in a replay" if key.replay else ", ".join(key.where) + (", not in a replay" if key.live else "")
        lines.append(f"| {names} | {where} | {key.help} | {key.title} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
