"""PCI addresses in the forms that drivers, kernel and tools print, to the one form that compares."""

from __future__ import annotations

import re
from functools import lru_cache

_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{1,2})(?:[.:](?P<function>[0-7]))?",
    re.ASCII | re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def normal_pci(text: str) -> str:
    """Return `0000:4f:00.0` for `00000000:4F:00.0`, `4f:00.0`, `0000:4f:00` and the like, or "" for what is none.

    A domain of more than four digits stays whole when it does not fit into four.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if not match:
        return ""
    domain, device = int(match["domain"] or "0", 16), int(match["device"], 16)
    if device > 0x1F:
        return ""
    return f"{domain:04x}:{match['bus'].lower()}:{device:02x}.{match['function'] or 0}"


def slot_of(pci: str) -> str:
    """Return a normal address without its function: `0000:4f:00`."""
    return pci.partition(".")[0]
