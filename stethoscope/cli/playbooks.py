"""The option for an operator's own playbooks, the same for every verb."""

from __future__ import annotations

from pathlib import Path

import click

from stethoscope.errors import UsageError

playbooks_option = click.option(
    "--playbooks", metavar="DIR", multiple=True, help="Directory whose files stand before the bundled ones."
)


def directories(playbooks: tuple[str, ...]) -> list[Path]:
    """Return the directories that were given; UsageError for what is none."""
    from stethoscope.paths import is_directory

    found = [Path(name) for name in playbooks]
    for directory in found:
        if not is_directory(directory):
            raise UsageError(f"--playbooks: {directory} is not a directory")
    return found
