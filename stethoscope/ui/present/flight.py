"""The answer over flight recorder dumps as rows: the verdict, then each group at the call that it stands in."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.analysis.flight_verdict import ranks_in_words
from stethoscope.ui.present.decoded import verdict_rows
from stethoscope.ui.present.decoded_read import bytes_text
from stethoscope.ui.present.spans import Span, Tone, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.analysis.flight import Flight, GroupState
    from stethoscope.session.flight import FlightDecoded
    from stethoscope.ui.present.spans import Glyphs, Row

_MOST_GROUPS = 12
_MOST_TROUBLES = 5
_NARROWEST_NAME, _WIDEST_NAME = 12, 36
_CALL = 60
"""Cells that the rest of a group's line takes."""


def flight_rows(answer: FlightDecoded, glyphs: Glyphs, cells: int, *, every: bool = False) -> list[Row]:
    """Return the whole answer for a terminal of `cells`; with `every`, all groups instead of the telling ones."""
    rows = verdict_rows(answer.decoded, glyphs, cells)
    rows += _groups(answer.flight, glyphs, cells, every=every)
    return [*rows, (), *_read(answer, glyphs, cells)]


def _groups(flight: Flight, glyphs: Glyphs, cells: int, *, every: bool) -> Iterator[Row]:
    pending = [state for state in flight.groups() if state.seq is not None]
    if not pending:
        return
    apart = [state for state in pending if state.late or state.absent or state.done]
    shown = pending if every else (apart or pending)[:_MOST_GROUPS]
    total = len(flight.descriptions)
    yield ()
    yield _heading("Groups with a call that is not finished", f"{len(pending):,} of {total:,}", glyphs, cells)
    for state in shown:
        yield from _group(state, flight, glyphs, cells)
    if len(pending) > len(shown):
        alike = " in which all ranks wait alike" if len(shown) >= len(apart) and apart else ""
        yield (Span(f"  and {len(pending) - len(shown):,} more{alike}: --all", Tone.QUIET),)


def _group(state: GroupState, flight: Flight, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    name = state.description if state.description not in ("", "undefined") else f"group {state.key.name}"
    room = max(_NARROWEST_NAME, min(_WIDEST_NAME, cells - _CALL))
    name = name if len(name) <= room else f"{name[: room - 1]}{glyphs.ellipsis}"
    call = f"{state.op} number {state.seq}{f', {state.sizes}' if state.sizes else ''}"
    yield (
        Span(f"  {name:<{room}} ", Tone.PLAIN),
        Span(f"{len(state.key.ranks):>4} ranks  ", Tone.QUIET),
        Span(call, Tone.STRONG),
    )
    parts = [
        (f"{ranks_in_words(state.late)} never came", Tone.WARNING) if state.late else None,
        (f"no dump of {ranks_in_words(state.absent)}", Tone.WARNING) if state.absent else None,
        (_in_it(state), Tone.QUIET),
        (f"{ranks_in_words(state.done)} finished", Tone.QUIET) if state.done else None,
        (f"at {where}", Tone.QUIET) if (where := _where(state, flight)) else None,
    ]
    for text, tone in filter(None, parts):
        for line in textwrap.wrap(text, max(20, cells - 6), break_on_hyphens=False):
            yield (Span(f"      {line}", tone),)


def _in_it(state: GroupState) -> str:
    begun = ""
    if state.started:
        begun = ", begun on the GPU" if len(state.started) == len(state.waiting) else f", {len(state.started)} begun"
    return f"{ranks_in_words(state.waiting)} in it{begun}"


def _where(state: GroupState, flight: Flight) -> str:
    for rank in state.waiting:
        call = flight.calls(rank, state.key).get(state.seq or 0)
        if call is not None and call.where:
            return call.where
    return ""


def _read(answer: FlightDecoded, glyphs: Glyphs, cells: int) -> Iterator[Row]:
    flight, log = answer.flight, answer.decoded.log
    versions = sorted({dump.version for dump in flight.dumps.values()})
    nccl = sorted({dump.nccl_version for dump in flight.dumps.values() if dump.nccl_version})
    parts = [
        f"dumps of {len(flight.dumps):,} of {len(flight.world):,} ranks",
        f"format {', '.join(versions)}",
        f"NCCL {', '.join(nccl)}" if nccl else "",
        bytes_text(log.bytes),
        f"{log.seconds:.2f} s",
    ]
    yield from _labelled("read", f" {glyphs.dot} ".join(filter(None, parts)), cells, Tone.QUIET)
    if flight.absent:
        yield from _labelled("not here", f"dumps of {ranks_in_words(flight.absent)}", cells, Tone.WARNING)
    troubles = [file for file in log.files if file.trouble]
    for number, file in enumerate(troubles[:_MOST_TROUBLES]):
        yield from _labelled("" if number else "not read", f"{file.name}: {file.trouble}", cells, Tone.WARNING)
    if len(troubles) > _MOST_TROUBLES:
        yield from _labelled("", f"and {len(troubles) - _MOST_TROUBLES:,} more files", cells, Tone.WARNING)


def _labelled(label: str, text: str, cells: int, tone: Tone) -> Iterator[Row]:
    for line in textwrap.wrap(text, max(20, cells - 11), break_on_hyphens=False):
        yield (Span(f"  {label:<9}", Tone.QUIET), Span(line, tone))
        label = ""


def _heading(title: str, note: str, glyphs: Glyphs, cells: int) -> Row:
    left, right = Span(f"{title} ", Tone.TITLE), Span(f" {note}", Tone.QUIET)
    return (left, Span(glyphs.rule * max(0, cells - width(left.text) - width(right.text)), Tone.RULE), right)
