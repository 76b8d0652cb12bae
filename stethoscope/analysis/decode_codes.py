"""The events of Xid and SXid lines: what they are called and how bad they are comes from the tables of codes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from stethoscope.analysis.xid import CodeEvent, code_event
from stethoscope.specs.codes import Codes, load_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

CODE_ANCHORS: Sequence[bytes] = (b"Xid (",)
"""In each line that reports an Xid or an SXid."""


def find_code(text: str, codes: Codes | None = None) -> CodeEvent | None:
    """Return the code that a line without its prefixes reports, read with `codes` or the tables that stand nearest."""
    return code_event(text, codes or own_codes())


@cache
def own_codes() -> Codes:
    """Return the codes of the user's configuration and the bundled ones."""
    return load_codes()
