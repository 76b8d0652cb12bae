"""The logs screen as rows: what happened, then the time line, each line with what it leads to."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.clock import duration, hms
from stethoscope.model.ids import gpu_place
from stethoscope.parse.pci import slot_of
from stethoscope.ui.present.decoded import culprits_text, verdict_rows
from stethoscope.ui.present.decoded_events import SEVERITY_LEVELS, Kind, kinds_of, ranks_text
from stethoscope.ui.present.decoded_read import read_rows
from stethoscope.ui.present.incident_alike import alike_rows
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import Glyphs, Row, Span, Tone, cut, fit, level_tone, pad, row_width, spread, width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.logs import Culprit, Event, LogVerdict
    from stethoscope.session.decode import Decoded
    from stethoscope.session.logbook import OpenLog
    from stethoscope.specs.codes import Codes
    from stethoscope.ui.present.replay import ReplayStanding

_WIDE, _WIDEST = 100, 150
LABEL_CELLS = 11
_MOST_INCIDENTS = 40
_MOST_EVENTS = 5_000
"""More lines than this nobody scrolls through; the newest of them are shown."""
_PLACE_WIDE, _PLACE = 26, 16
_LEAST_TITLE = 16


class LogRow(NamedTuple):
    """One line, and what it is about."""

    row: Row
    event: Event | None = None
    verdict: LogVerdict | None = None
    node: str = ""
    """The node that it leads to."""

    @property
    def leads(self) -> bool:
        """Tell whether the cursor can stand on it."""
        return self.event is not None or self.verdict is not None


class Places:
    """Names for what events are about, as the fleet calls it."""

    def __init__(self, snapshot: FleetSnapshot | None) -> None:
        """Know the nodes of `snapshot`."""
        self._snapshot = snapshot
        self._short = {} if snapshot is None else {one.name.partition(".")[0]: one.name for one in snapshot.nodes}

    def node(self, host: str | None) -> str:
        """Return the node of the fleet that a host is, else nothing."""
        name = host
        if self._snapshot is None or not name:
            return ""
        return name if name in self._snapshot.by_name else self._short.get(name.partition(".")[0], "")

    def place(self, event: Event) -> str:
        """Return where it happened: `gpu-007/gpu/3`, `gpu-007 rank 17`, whatever of it is known."""
        host = event.origin.host or event.origin.pod
        node = self.node(host)
        device = event.device or self._gpu(node, event.pci) or event.pci
        where = f"{node or host}/{device}" if host and device else node or host or device or ""
        return " ".join(
            part for part in (where, ranks_text(() if event.origin.rank is None else (event.origin.rank,))) if part
        )

    def named(self, verdict: LogVerdict) -> LogVerdict:
        """Return the verdict with the numbers of GPUs that it names by their slot, where their node is known."""
        return replace(verdict, culprits=tuple(map(self._numbered, verdict.culprits)))

    def _numbered(self, culprit: Culprit) -> Culprit:
        node, device = self.node(culprit.host), culprit.device or ""
        gpu = self._gpu(node, device.removeprefix("gpu/")) if device.startswith("gpu/") else ""
        return replace(culprit, host=node, device=gpu, place=f"{node}/{gpu}") if gpu else culprit

    def _gpu(self, node: str, pci: str | None) -> str:
        if not node or not pci or self._snapshot is None:
            return ""
        gpus = self._snapshot.node(node).gpus
        return next((gpu_place("", gpu.index).lstrip("/") for gpu in gpus if slot_of(gpu.pci) == pci), "")


def log_rows(
    log: OpenLog,
    places: Places,
    codes: Codes | None,
    glyphs: Glyphs,
    cells: int,
    wall: float,
    *,
    every: bool = False,
    similar: Sequence[Mapping[str, Any]] = (),
) -> list[LogRow]:
    """Return what a log says, a row a line of `cells` cells; `every` shows each event, also those that mean no harm.

    `similar` is what looks like it in the past, as `Match.as_json` writes it.
    """
    decoded = log.decoded
    if decoded is None or codes is None:
        return [LogRow((Span(f" {log.trouble or log.state}", Tone.WARNING if log.trouble else Tone.QUIET),))]
    rows: list[LogRow] = []
    if log.of_fleet:
        rows += _incidents(log, places, glyphs, cells, wall)
    else:
        named = replace(decoded, verdict=places.named(decoded.verdict))
        rows += [LogRow(row) for row in verdict_rows(named, glyphs, cells)]
    if similar:
        rows += [LogRow(()), *(LogRow(row) for row in alike_rows(similar, min(cells, _WIDEST), LABEL_CELLS))]
    events = _events(decoded, places, codes, glyphs, cells, every=every)
    rows += [LogRow(()), LogRow(_heading(decoded, len(events), glyphs, cells, every=every)), *events]
    if not log.of_fleet:
        rows += [LogRow(()), *(LogRow(row) for row in read_rows(decoded, glyphs, cells))]
    return rows


def log_title(
    log: OpenLog,
    snapshot: FleetSnapshot | None,
    fleet: str,
    wall: float,
    cells: int,
    glyphs: Glyphs,
    *,
    replay: ReplayStanding | None = None,
) -> Row:
    """Return the top line: which log it is, how it stands, and the time."""
    lead = " stethoscope  " if cells >= _WIDE else " "
    state = f"{log.state}: {log.trouble}" if log.trouble else log.state
    before: Row = (
        Span(lead, Tone.QUIET),
        Span(f"{fleet}  logs" if cells >= _WIDE else "logs", Tone.TITLE),
        Span("  "),
    )
    after: Row = (Span(f" {glyphs.dot} {state}", Tone.WARNING if log.trouble else Tone.QUIET),)
    if log.of_fleet and snapshot is not None and (unread := unreadable(snapshot)):
        after = (*after, Span(f" {glyphs.dot} unreadable on {unread}", Tone.WARNING))
    marks = replay_marks(replay, wall) if replay is not None else ((Span(f"{hms(wall)} UTC ", Tone.QUIET),),) * 2
    for mark in marks:
        if row_width((*before, Span(log.title), *after, *mark)) + 2 <= cells:
            return spread((*before, Span(log.title), *after), mark, cells)
    # How it stands matters more than the whole name, of which the end says most.
    room = cells - row_width((*before, *after, *marks[1])) - 2
    left = fit((*before, Span(_end(log.title, max(_LEAST_TITLE, room), glyphs)), *after), cells, glyphs.ellipsis)
    return spread(left, marks[1], cells)


def _end(text: str, cells: int, glyphs: Glyphs) -> str:
    """Return `text`, cut at its start to at most `cells`."""
    if width(text) <= cells:
        return text
    while width(text) > cells - 1:
        text = text[1:]
    return glyphs.ellipsis + text


def unreadable(snapshot: FleetSnapshot) -> str:
    """Return on how many nodes the kernel log cannot be read: `14 nodes`; nothing when it can everywhere."""
    count = sum(bool(node.notes.get("kernel_log")) for node in snapshot.nodes)
    return f"{count:,} node{'s' if count > 1 else ''}" if count else ""


def detail_rows(
    row: LogRow | None, decoded: Decoded | None, codes: Codes | None, glyphs: Glyphs, cells: int
) -> list[Row]:
    """Return the two lines below: what the line under the cursor means, and the line as it was written."""
    if row is None or decoded is None or codes is None:
        return [(), ()]
    if row.event is None:
        checks = row.verdict.next_checks if row.verdict is not None else ()
        text = f"check: {'; '.join(check.rstrip('.') for check in checks)}" if checks else ""
        first, *rest = textwrap.wrap(text, cells - 2, break_on_hyphens=False) or [""]
        second = cut(" ".join(rest), cells - 2, glyphs.ellipsis)
        return [(Span(f" {first}"),), (Span(f" {second}"),)]
    event = row.event
    meaning = meaning_of(event.signature, decoded, codes)
    file = decoded.log.files[event.file].name if event.file < len(decoded.log.files) else ""
    source = f"{file}:{event.line}" if file else ""
    return [
        (
            Span(f" {cut(event.signature, 30)}  ", Tone.STRONG),
            Span(cut(meaning, cells - 4 - min(30, width(event.signature)), glyphs.ellipsis)),
        ),
        spread(
            (Span(f" {cut(event.text, max(20, cells - width(source) - 4), glyphs.ellipsis)}", Tone.QUIET),),
            (Span(f"{source} ", Tone.QUIET),),
            cells,
        ),
    ]


def meaning_of(signature: str, decoded: Decoded, codes: Codes) -> str:
    """Return what a signature means in one sentence."""
    code = codes.explain(signature)
    if code is not None:
        return f"{code.label}: {code.meaning}"
    known = decoded.signatures.by_id.get(signature)
    return known.meaning if known is not None else ""


def _incidents(log: OpenLog, places: Places, glyphs: Glyphs, cells: int, wall: float) -> list[LogRow]:
    """Return a line for each incident that the kernels tell of, the most urgent first."""
    rows = []
    found = [verdict for verdict in _verdicts(log) if verdict.root_cause != "healthy"]
    for verdict in found[:_MOST_INCIDENTS]:
        level = SEVERITY_LEVELS[verdict.severity]
        who = culprits_text(places.named(verdict).culprits) or "somewhere"
        room = _PLACE_WIDE if cells >= _WIDE else _PLACE
        left = (
            Span(f" {glyphs.level(level)} {verdict.severity.value:<3}", level_tone(level)),
            Span(pad(who, room, glyphs.ellipsis) + "  ", Tone.STRONG),
        )
        age = _age(verdict, wall)
        right = (Span(f"{age}  sure {verdict.confidence:.2f} " if cells >= _WIDE else f"{age} ", Tone.QUIET),)
        words = Span(cut(verdict.summary, cells - row_width(left) - row_width(right) - 2, glyphs.ellipsis))
        host = next((culprit.host for culprit in verdict.culprits if culprit.host), None)
        rows.append(LogRow(spread((*left, words), right, cells), verdict=verdict, node=places.node(host)))
    if len(found) > _MOST_INCIDENTS:
        rows.append(LogRow((Span(f"   and {len(found) - _MOST_INCIDENTS:,} more", Tone.QUIET),)))
    if not found:
        has_lines = log.decoded is not None and log.decoded.log.lines > 0
        said = "The kernel logs tell of nothing wrong" if has_lines else "No kernel said anything yet"
        rows.append(LogRow((Span(f" {said}", Tone.PLAIN),)))
    return rows


def _verdicts(log: OpenLog) -> list[LogVerdict]:
    return [] if log.decoded is None else [log.decoded.verdict, *log.decoded.alternatives]


def _age(verdict: LogVerdict, wall: float) -> str:
    times = [fact.at for fact in verdict.supports if fact.at]
    if not times:
        return ""
    try:
        at = datetime.fromisoformat(min(times)).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return ""
    return f"{duration(max(0.0, wall - at))} ago"


def _events(decoded: Decoded, places: Places, codes: Codes, glyphs: Glyphs, cells: int, *, every: bool) -> list[LogRow]:
    log = decoded.log
    if every:
        kinds = []
        for event in log.events[-_MOST_EVENTS:]:
            kind = Kind(event)
            kind.add(event, decoded.signatures.by_id.get(event.signature))
            kinds.append(kind)
    else:
        kinds = kinds_of(log, decoded.signatures)[:_MOST_EVENTS]
    return [_event_row(kind, places, codes, glyphs, cells) for kind in kinds]


def _event_row(kind: Kind, places: Places, codes: Codes, glyphs: Glyphs, cells: int) -> LogRow:
    event = kind.first
    level = SEVERITY_LEVELS[event.severity]
    code = codes.explain(event.signature)
    words = f"{code.label} {code.title}" if code is not None else event.text
    place = places.place(event)
    if len(kind.ranks) > 1:
        place = ranks_text(kind.ranks)
    room = _PLACE_WIDE if cells >= _WIDE else _PLACE
    count = f" ×{kind.count:,}" if kind.count > 1 else ""
    if (
        kind.count > 1
        and cells >= _WIDE
        and kind.last_at is not None
        and event.at is not None
        and kind.last_at >= event.at + 1
    ):
        count += f" until {hms(kind.last_at)}"
    right: Row = (Span(f"{count} ", Tone.QUIET),)
    left: Row = (
        Span(f" {_time(event):<8} ", Tone.QUIET),
        Span(f"{glyphs.level(level)} ", level_tone(level)),
        Span(pad(place, room, glyphs.ellipsis) + "  ", Tone.STRONG if event.role == "cause" else Tone.PLAIN),
    )
    tone = Tone.QUIET if event.role in ("context", "benign", "symptom") else Tone.PLAIN
    text = Span(cut(words, max(10, cells - row_width(left) - row_width(right) - 2), glyphs.ellipsis), tone)
    return LogRow(spread((*left, text), right, cells), event=event, node=places.node(event.origin.host))


def _time(event: Event) -> str:
    if event.at is not None:
        return hms(event.at)
    return f"+{event.uptime_s:.0f}s" if event.uptime_s is not None else ""


def _heading(decoded: Decoded, shown: int, glyphs: Glyphs, cells: int, *, every: bool) -> Row:
    what = "Every event" if every else "What went wrong, in the order of time"
    total = len(decoded.log.events)
    note = f" {total:,} events, a shows what went wrong " if every else f" {shown:,} of {total:,} events, a shows all "
    left = f" {what} "
    middle = glyphs.rule * max(0, cells - width(left) - width(note) - 1)
    return (Span(left, Tone.TITLE), Span(middle, Tone.RULE), Span(note, Tone.QUIET))
