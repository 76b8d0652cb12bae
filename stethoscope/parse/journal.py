"""Entries of the journal that take several lines: `journalctl -o export`, `verbose` and `json-pretty`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Form = Literal["export", "verbose", "pretty"]

_MOST_BYTES = 1024 * 1024
_HEAD = 64 * 1024
"""How far into a file its form is looked for."""
_VERBOSE = re.compile(
    rb"^[^\W\d_]{2,4} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? \S{1,9} \[s=[0-9a-f]{1,32};", re.MULTILINE
)
_EXPORT = re.compile(rb"^__REALTIME_TIMESTAMP=\d{10,20}$", re.MULTILINE)
_PRETTY = re.compile(rb'^\{\n[ \t]+"[A-Z_]{2,64}" : ?|^\{\n[ \t]+"[A-Z_]{2,64}": ', re.MULTILINE)


def form_of(data: bytes) -> Form | None:
    """Return the form of the entries that a file begins with, None when it has no entries of several lines."""
    head = data[:_HEAD]
    if b"\n" not in head:
        return None
    if _EXPORT.search(head):
        return "export"
    if b"[s=" in head and _VERBOSE.search(head):
        return "verbose"
    return "pretty" if b"{\n" in head and _PRETTY.search(head) else None


class Entries:
    """Gathers the lines of entries, one after the other."""

    def __init__(self, form: Form) -> None:
        """Begin before the first line."""
        self.form = form
        self._lines: list[bytes] = []
        self._began = 0
        self._bytes = 0

    def take(self, raw: bytes, number: int) -> Iterator[tuple[list[bytes], int]]:
        """Take a line, and yield the entry that it ends, with the line it began on."""
        if self.form == "pretty":
            if raw == b"{":
                yield from self.rest()
            self._add(raw, number)
            if raw in (b"}", b"},"):
                yield from self.rest()
            return
        ends = not raw if self.form == "export" else _VERBOSE.match(raw) is not None
        if ends:
            yield from self.rest()
        if raw:
            self._add(raw, number)

    def rest(self) -> Iterator[tuple[list[bytes], int]]:
        """Yield the entry that is not ended, if there is one."""
        if self._lines:
            yield self._lines, self._began
        self._lines, self._bytes = [], 0

    def _add(self, raw: bytes, number: int) -> None:
        if not self._lines:
            self._began = number
        self._bytes += len(raw)
        if self._bytes <= _MOST_BYTES:
            self._lines.append(raw)


def fields_of(lines: list[bytes]) -> dict[str, str]:
    """Return the fields of an entry whose lines are KEY=value; the first of several with one name.

    A value with a control character in it comes in binary, behind its name alone on a line, and is left out.
    """
    found: dict[str, str] = {}
    for raw in lines:
        name, mark, value = raw.strip().partition(b"=")
        if mark and name.isascii():
            found.setdefault(name.decode("ascii"), value.decode("utf-8", "replace"))
    return found
