"""What kinds of kernel lines live nodes had: the decoder's signatures and codes, each text read once."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from stethoscope.analysis.decode_codes import find_code
from stethoscope.specs.signature import Signatures, load_signatures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.event import LogEvent

_KEPT = 16_384
"""Texts whose kinds are remembered: lines that repeat are the rule."""


def newest_by_kind(events: Iterable[LogEvent]) -> dict[str, dict[str, LogEvent]]:
    """Return for each kind of line the newest event of each node, by the name of the node."""
    found: dict[str, dict[str, LogEvent]] = {}
    for event in events:
        if event.source != "kernel" or event.xid is not None:
            continue
        for kind in kinds_of(event.text):
            by_node = found.setdefault(kind, {})
            known = by_node.get(event.node)
            if known is None or event.at >= known.at:
                by_node[event.node] = event
    return found


@lru_cache(maxsize=_KEPT)
def kinds_of(text: str) -> tuple[str, ...]:
    """Return the ids of the signatures that a kernel line has; of an NVSwitch's the code and how bad this line is, as
    `sxid.20034` and `sxid.P0`."""
    code = find_code(text)
    if code is not None:
        return (code.signature, f"{code.signature.partition('.')[0]}.{code.severity.value}")
    return tuple(dict.fromkeys(signature.id for signature, _ in _signatures().find(text)))


@cache
def _signatures() -> Signatures:
    return load_signatures()
