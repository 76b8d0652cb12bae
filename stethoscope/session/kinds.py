"""Which files are no logs although they were given as such."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from stethoscope.collect.files import STDIN, LogSource, find_logs
from stethoscope.parse.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.parse.kinds import Kind

_HEAD = 8192
_LOOKED_INTO = 8


def kind_of_files(names: Sequence[str]) -> Kind:
    """Return what the first of these files that is no log holds; what can be read only once is not looked into."""
    if not names or STDIN in names:
        return ""
    for source in find_logs(names)[:_LOOKED_INTO]:
        kind = kind_of(_head(source)) if source.size else ""
        if kind:
            return kind
    return ""


def _head(source: LogSource) -> bytes:
    assert source.path is not None
    try:
        with open(source.path, "rb") as file:
            head = file.read(_HEAD)
        return zlib.decompressobj(31).decompress(head, _HEAD) if head[:2] == b"\x1f\x8b" else head
    except (OSError, zlib.error):
        return b""
