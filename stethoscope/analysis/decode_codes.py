"""The events of Xid and SXid lines: what they are called and how bad they are comes from the tables of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.finding import Severity
from stethoscope.parse.kernel import find_xid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.logs import Role

CODE_ANCHORS = (b"Xid (", b"SXid (")


class Code(NamedTuple):
    """An Xid or SXid in a line."""

    signature: str
    role: Role
    severity: Severity
    fields: Mapping[str, str | int | float]
    pci: str


def find_code(text: str) -> Code | None:
    """Return the code that a line without its prefixes reports."""
    xid = find_xid(text)
    if xid is None:
        return None
    return Code(f"xid.{xid.code}", "either", Severity.P1, {"xid": xid.code, "pci": xid.pci}, xid.pci)
