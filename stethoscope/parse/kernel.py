"""What a kernel line says about a GPU: the Xid, in the forms of all driver branches."""

from __future__ import annotations

from typing import NamedTuple

from stethoscope.parse.xid import find_xid_line


class Xid(NamedTuple):
    """An error that the NVIDIA driver reported; `pci` is the slot of the GPU, `0000:4f:00`."""

    code: int
    pci: str


def find_xid(line: str) -> Xid | None:
    """Return the Xid of a cleaned kernel line, or None when it is not one.

    The `XID 641` of an r8169 network card, and an `Xid` that a program talks about, are not.
    """
    found = find_xid_line(line)
    return Xid(found.code, found.pci) if found else None
