"""What a kernel line says about a GPU: the Xid, in the forms of all driver branches."""

from __future__ import annotations

import re
from typing import NamedTuple

from stethoscope.parse.pci import normal_pci, slot_of

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})(?: GPU-I:\d{1,4})?(?: GPU-CI:\d{1,4})?\): "
    r"(?P<code>\d{1,4})(?!\d)",
    re.ASCII,
)


class Xid(NamedTuple):
    """An error that the NVIDIA driver reported; `pci` is the slot of the GPU, `0000:4f:00`."""

    code: int
    pci: str


def find_xid(line: str) -> Xid | None:
    """Return the Xid of a cleaned kernel line, or None when it is not one.

    The `XID 641` of an r8169 network card, and an `Xid` that a program talks about, are not.
    """
    if "Xid" not in line:
        return None
    match = _XID.search(line)
    if not match:
        return None
    pci = normal_pci(match["pci"])
    return Xid(int(match["code"]), slot_of(pci)) if pci else None
