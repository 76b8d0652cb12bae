"""What kind of line a raw line of a probe is, as far as its first bytes tell without parsing it."""

from __future__ import annotations

_BEGINNING = 64


def is_hello(raw: bytes) -> bool:
    """Tell whether this is the greeting of a probe, the one in Python or the one in sh."""
    return b'"hello"' in raw[:_BEGINNING] or raw.startswith(b"@hello ")


def is_full(raw: bytes) -> bool:
    """Tell whether this line has every value."""
    return b'"full"' in raw[:_BEGINNING] or raw.startswith(b"@full ")


def is_delta(raw: bytes) -> bool:
    """Tell whether this line has only what changed, and means nothing alone."""
    return b'"delta"' in raw[:_BEGINNING]
