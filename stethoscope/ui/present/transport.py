"""The transport of a job as rows: what NCCL chose, what is odd about it, and each rank when it is asked for."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.analysis.transport import transport_of
from stethoscope.ui.present.spans import Level, Span, Tone, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.analysis.transport import RankTransport, Transport
    from stethoscope.model.logs import Log
    from stethoscope.ui.present.spans import Glyphs, Row

_TITLE = "Transport, as NCCL chose it"
_WIDEST = 120


def transport_rows(log: Log, glyphs: Glyphs, cells: int, *, each: bool = False) -> list[Row]:
    """Return the block about the transport, empty when no line of the log is about it; `each` shows every rank."""
    transport = transport_of(log)
    return list(_rows(transport, glyphs, cells, each=each)) if transport is not None else []


def _rows(transport: Transport, glyphs: Glyphs, cells: int, *, each: bool) -> Iterator[Row]:
    title = Span(f"{_TITLE} ", Tone.TITLE)
    yield (title, Span(glyphs.rule * max(0, cells - width(title.text)), Tone.RULE))
    for warning in transport.warnings:
        sign = f"  {glyphs.level(Level.WARNING)} "
        for line in _wrapped(warning, cells):
            yield (Span(sign, Tone.WARNING), Span(line, Tone.PLAIN))
            sign = "    "
    for text in transport.lines:
        for line in _wrapped(text, cells):
            yield (Span(f"    {line}", Tone.QUIET),)
    if each:
        for rank in transport.ranks:
            for number, line in enumerate(_wrapped(_rank(rank), cells)):
                yield (Span("    " if not number else "      "), Span(line, Tone.PLAIN))


def _rank(rank: RankTransport) -> str:
    listed = rank.adapters or rank.sockets
    used = ", ".join(rank.adapters[nic] if nic < len(rank.adapters) else f"adapter {nic}" for nic in sorted(rank.nics))
    ways = ", ".join(f"{way} {count}" for way, count in sorted(rank.hops.items()))
    parts = [
        f"rank {rank.rank}" if rank.rank is not None else "rank unknown",
        rank.host or "",
        rank.network or "network unknown",
        f"has {', '.join(listed)}" if listed else "",
        f"sends with {used}" if used else "",
        ways,
        f"first contact over {rank.rendezvous}" if rank.rendezvous else "",
    ]
    return "  ".join(part for part in parts if part)


def _wrapped(text: str, cells: int) -> list[str]:
    return textwrap.wrap(text, max(20, min(cells, _WIDEST) - 4), break_on_hyphens=False)
