"""Lines that grep printed of several files: `path:line`, and `grep: path: why` of one that it cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ERRORS = {
    "No such file or directory": "unsupported",
    "Not a directory": "unsupported",
    "Operation not supported": "unsupported",
    "Not supported": "unsupported",
    "Permission denied": "permission",
    "Operation not permitted": "permission",
}
"""What the C libraries say of a file that cannot be read, as in probes/files.py."""

_ON_PCI = re.compile(r"([^:]*/[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]/[^:]*):(.*)", re.ASCII)
"""A path with the address of a PCI device in it has colons of its own."""


class Files:
    """The lines of each file by its path, or why it cannot be read."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Take lines as they came."""
        self.texts: dict[str, list[str]] = {}
        self.words: dict[str, str] = {}
        for line in lines:
            name, mark, text = line.partition(":")
            if name == "grep" and mark:
                name, _, said = text.strip().rpartition(": ")
                self.words[name] = ERRORS.get(said, "error")
            elif mark:
                if text[2:3] == ":" and (match := _ON_PCI.match(line)):
                    name, text = match.groups()
                self.texts.setdefault(name, []).append(text)

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file; none when it cannot be read."""
        return self.texts.get(name, [])

    def word(self, name: str, otherwise: str) -> str:
        """Return why a file has no value; `otherwise` when it can be read."""
        return self.words.get(name, otherwise)
