"""What kind of line a raw line of a probe is, as far as its first bytes tell without parsing it."""

from __future__ import annotations

import re

_BEGINNING = 64
_HEAD = 256
"""Bytes in which the name of a part stands."""
_NAME = re.compile(rb'"name": ?"([^"\\]{1,64})"')
_SH_NAME = re.compile(rb"@part [^\n]{1,100}\n@name ([^\n]{1,64})(?:\n|$)")
_SAME = re.compile(rb'"same": ?true|\n@same(?: |\n|$)')


def is_hello(raw: bytes) -> bool:
    """Tell whether this is the greeting of a probe, the one in Python or the one in sh."""
    return b'"hello"' in raw[:_BEGINNING] or raw.startswith(b"@hello ")


def is_full(raw: bytes) -> bool:
    """Tell whether this line has every value."""
    return b'"full"' in raw[:_BEGINNING] or raw.startswith(b"@full ")


def is_delta(raw: bytes) -> bool:
    """Tell whether this line has only what changed, and means nothing alone."""
    return b'"delta"' in raw[:_BEGINNING]


def part_group(raw: bytes) -> str:
    """Return the group of a part line, of the probe in Python or the one in sh; empty for every other line."""
    if raw.startswith(b"@part "):
        match = _SH_NAME.match(raw[:_HEAD])
    elif raw.startswith((b'{"t":"part"', b'{"t": "part"')):
        match = _NAME.search(raw[:_HEAD])
    else:
        return ""
    return match[1].decode("ascii", "replace") if match is not None else ""


def is_same(raw: bytes) -> bool:
    """Tell whether this part line says only that nothing has changed, and means nothing alone."""
    return len(raw) <= _HEAD and _SAME.search(raw) is not None
