"""Events of logs as rows: the kinds that went wrong by time with floods folded, then what else was seen."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.clock import hms
from stethoscope.model.finding import Severity
from stethoscope.ui.present.spans import Glyphs, Level, Row, Span, Tone, cut, fit, level_tone, row_width, spread, width

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from stethoscope.model.logs import Event, Log
    from stethoscope.session.decode import Decoded
    from stethoscope.specs.signature import Signature, Signatures

SEVERITY_LEVELS = {
    Severity.P0: Level.CRITICAL,
    Severity.P1: Level.WARNING,
    Severity.P2: Level.PLANNED,
    Severity.INFO: Level.NORMAL,
    Severity.NONE: Level.NORMAL,
}
_MOST_KINDS = 12
_MOST_ALSO = 12
_MOST_PLACES = 3
"""More devices than so many that say the same are one row."""
_WIDE = 130
_PIPED = 500
"""Characters of a line when nobody looks at the terminal's width."""
_TIME = 10
_WRONG = ("cause", "either", "symptom")
_DAY_S = 86_400


@dataclass(slots=True)
class Kind:
    """Events that say the same, of one device or of many ranks."""

    first: Event
    count: int = 0
    last_at: float | None = None
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    is_cited: bool = False
    """The verdict rests on it."""
    others: int = 0
    """So many more devices say the same."""

    def join(self, other: Kind) -> None:
        """Take in what another device says alike."""
        self.count += other.count
        self.ranks |= other.ranks
        self.hosts |= other.hosts
        self.is_cited |= other.is_cited
        self.others += 1 + other.others
        if other.last_at is not None and (self.last_at is None or other.last_at > self.last_at):
            self.last_at = other.last_at

    def add(self, event: Event, signature: Signature | None = None) -> None:
        """Count one more."""
        self.count += event.count
        last = event.last_at if event.last_at is not None else event.at
        if last is not None and (self.last_at is None or last > self.last_at):
            self.last_at = last
        rank = event.origin.rank
        if rank is None and signature is not None and signature.culprit.blame != "peer":
            # Who says its rank in the message instead of in front of it.
            said = event.fields.get(signature.culprit.rank)
            rank = said if isinstance(said, int) else None
        if rank is not None:
            self.ranks.add(rank)
        if event.origin.host or event.origin.pod:
            self.hosts.add(event.origin.host or event.origin.pod or "")


def evidence_rows(decoded: Decoded, glyphs: Glyphs, cells: int, *, every: bool, is_cut: bool) -> list[Row]:
    """Return the events that went wrong as rows, each kind once; with `every` all events, each on its own."""
    log = decoded.log
    cited = _cited(decoded)
    if every:
        kinds, hidden = [_alone(event, decoded.signatures) for event in log.events], 0
    else:
        kinds, hidden = _chosen(kinds_of(log, decoded.signatures, cited))
    if not kinds:
        return []
    title = "Every event" if every else "Evidence, in the order of time"
    rows = [_heading(title, glyphs, cells, _days(kinds))]
    day = None
    several = len({int(kind.first.at // _DAY_S) for kind in kinds if kind.first.at is not None}) > 1
    for kind in kinds:
        if several and kind.first.at is not None and int(kind.first.at // _DAY_S) != day:
            day = int(kind.first.at // _DAY_S)
            rows.append((Span(f"  {_date(kind.first.at)}", Tone.QUIET),))
        is_first = kind.first.signature == decoded.verdict.signature and kind.first.role != "symptom"
        source = _source(kind.first, log, 28)
        rows += _kind_rows(kind, source, glyphs, cells, is_first=is_first, is_cut=is_cut)
    if hidden:
        more = f"and {hidden:,} more kind{'s' if hidden > 1 else ''} of line that came later: --all shows every event"
        rows.append((Span(f"  {more}", Tone.QUIET),))
    return rows


def also_rows(decoded: Decoded, glyphs: Glyphs, cells: int) -> list[Row]:
    """Return what was recognised and is nothing to worry about, each signature once."""
    shown = _cited(decoded)
    kinds: dict[str, Kind] = {}
    for event in decoded.log.events:
        if event.role not in _WRONG and not (shown and any(place in shown for place in places_of(event, decoded.log))):
            kinds.setdefault(event.signature, Kind(event)).add(event)
    if not kinds:
        return []
    # What looks bad and is not comes first: it is what somebody will ask about.
    order = sorted(
        kinds.values(), key=lambda kind: (kind.first.role != "benign", kind.first.severity.rank, -kind.count)
    )
    rows = [_heading("Also seen", glyphs, cells, "")]
    for kind in order[:_MOST_ALSO]:
        meaning = decoded.meaning(kind.first.signature) or kind.first.text
        words = "looks bad and is not: " if kind.first.role == "benign" else ""
        count = f"×{kind.count:,}" if kind.count > 1 else ""
        room = cells - 12
        rows.append(
            (Span(f"  {count:>8}  ", Tone.QUIET), Span(cut(words + meaning, room, glyphs.ellipsis), Tone.QUIET))
        )
    if len(order) > _MOST_ALSO:
        rows.append((Span(f"{'':12}and {len(order) - _MOST_ALSO:,} more kinds: --all", Tone.QUIET),))
    return rows


def kinds_of(log: Log, signatures: Signatures, cited: Container[str] = ()) -> list[Kind]:
    """Return what went wrong, one Kind for each signature and device, in the order of their first lines; `cited` are
    places of events that the verdict rests on, which count too."""
    kinds: dict[tuple[object, ...], Kind] = {}
    for event in log.events:
        is_cited = any(place in cited for place in places_of(event, log))
        if event.role not in _WRONG and not is_cited:
            continue
        # A device is one of its host; ranks that say the same are one crowd.
        place = (event.origin.host, event.pci, event.device) if event.pci or event.device else ()
        kind = kinds.setdefault((event.signature, *place), Kind(event))
        kind.add(event, signatures.by_id.get(event.signature))
        kind.is_cited |= is_cited
    places = Counter(signature for signature, *_ in kinds)
    return _crowded(kinds, {signature for signature, count in places.items() if count > _MOST_PLACES})


def _crowded(kinds: Mapping[tuple[object, ...], Kind], crowds: Container[object]) -> list[Kind]:
    """Return the kinds with those of `crowds` made one each: the same on very many devices is one thing."""
    found: dict[tuple[object, ...], Kind] = {}
    for key, kind in kinds.items():
        short = key[:1] if key[0] in crowds else key
        if short in found:
            found[short].join(kind)
        else:
            found[short] = kind
    return list(found.values())


def places_of(event: Event, log: Log) -> Iterator[str]:
    """Yield what the source of a fact about an event may be."""
    name = log.files[event.file].name
    yield f"{name}:{event.line}"
    if len(log.files) == 1:
        yield f"line {event.line}"


def _cited(decoded: Decoded) -> set[str]:
    return {fact.source for fact in (*decoded.verdict.supports, *decoded.verdict.contradicts) if fact.source}


def ranks_text(ranks: Iterable[int]) -> str:
    """Return `rank 7`, `ranks 0-30,32-511`; many pieces are cut short: `512 ranks`."""
    order = sorted(ranks)
    if not order:
        return ""
    if len(order) == 1:
        return f"rank {order[0]}"
    spans: list[list[int]] = []
    for rank in order:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"ranks {text}" if len(text) <= 24 else f"{len(order):,} ranks"


def _alone(event: Event, signatures: Signatures) -> Kind:
    kind = Kind(event)
    kind.add(event, signatures.by_id.get(event.signature))
    return kind


def _chosen(kinds: list[Kind]) -> tuple[list[Kind], int]:
    """Return the kinds to show, in order, and how many are left out: what the verdict rests on stays, then causes, then
    what came early."""
    wanted = sorted(range(len(kinds)), key=lambda n: (not kinds[n].is_cited, kinds[n].first.role == "symptom", n))
    kept = sorted(wanted[:_MOST_KINDS])
    return [kinds[n] for n in kept], len(kinds) - len(kept)


def news_rows(events: Iterable[Event], glyphs: Glyphs, cells: int, *, is_cut: bool) -> list[Row]:
    """Return events that just came, as rows."""
    rows: list[Row] = []
    for event in events:
        kind = Kind(event)
        kind.add(event)
        rows += _kind_rows(kind, "", glyphs, cells, is_first=False, is_cut=is_cut)
    return rows


def _kind_rows(kind: Kind, place: str, glyphs: Glyphs, cells: int, *, is_first: bool, is_cut: bool) -> Iterator[Row]:
    event = kind.first
    level = SEVERITY_LEVELS[event.severity]
    time = Span(f" {_time(event):<{_TIME + 1}}", Tone.QUIET)
    glyph = Span(f"{glyphs.level(level)} ", level_tone(level))
    name = Span(event.signature, Tone.STRONG if is_first else Tone.PLAIN)
    who = Span(_who(kind))
    times = Span(_times(kind, glyphs), Tone.QUIET)
    source = Span(place, Tone.QUIET)
    if cells >= _WIDE:
        left: Row = (time, glyph, _padded(name, 30), Span("  "), _padded(who, 22), Span("  "))
        right: Row = (Span("  "), times, Span("  " if times.text and source.text else ""), source)
        room = cells - row_width(left) - row_width(right)
        text = cut(event.text, max(20, room) if is_cut else _PIPED, glyphs.ellipsis)
        yield (*left, Span(text), Span(" " * max(0, room - width(text))), *right)
        return
    head: Row = (time, glyph, name, Span("  " if who.text else ""), who)
    tail: Row = (times, Span("  " if times.text and source.text else ""), source)
    yield fit(spread(head, tail, cells), cells, glyphs.ellipsis)
    room = cells - _TIME - 4
    lines = (
        textwrap.wrap(event.text, room, break_on_hyphens=False)
        if is_cut
        else [cut(event.text, _PIPED, glyphs.ellipsis)]
    )
    for number, line in enumerate(lines[:2]):
        last = number == 1 and len(lines) > 2
        yield (Span(" " * (_TIME + 4)), Span(cut(line + glyphs.ellipsis, room, glyphs.ellipsis) if last else line))


def _padded(span: Span, cells: int) -> Span:
    return span._replace(text=cut(span.text, cells) + " " * max(0, cells - width(span.text)))


def _who(kind: Kind) -> str:
    ranks = ranks_text(kind.ranks)
    hosts = sorted(kind.hosts)
    place = kind.first.device or (kind.first.pci or "")
    if kind.others:
        ranks = f"{ranks}, {kind.others + 1:,} devices" if ranks else f"{kind.others + 1:,} devices"
        place = ""
    host = "" if not hosts else hosts[0] if len(hosts) == 1 else f"{len(hosts):,} hosts"
    where = (
        f"{host}/{place}" if host and place and kind.first.device else " ".join(part for part in (host, place) if part)
    )
    return " ".join(part for part in (where, ranks) if part)


def _times(kind: Kind, glyphs: Glyphs) -> str:
    if kind.count <= 1:
        return ""
    count = f"×{kind.count:,}"
    first, last = kind.first.at, kind.last_at
    if first is None or last is None or int(last) == int(first):
        return count
    return f"{count} until {hms(last) if last - first < _DAY_S else f'{_date(last)} {hms(last)}'}"


def _time(event: Event) -> str:
    if event.at is not None:
        return f"{'~' if event.at_is_near else ' '}{hms(event.at)}"
    return f" {event.uptime_s:.1f}" if event.uptime_s is not None else ""


def _source(event: Event, log: Log, cells: int) -> str:
    """Return file and line, the end of a long path."""
    line = f"{event.line}"
    if len(log.files) < 2:
        return f"line {line}"
    name = log.files[event.file].name
    room = cells - len(line) - 1
    return f"{name if len(name) <= room else '…' + name[1 - room :]}:{line}"


def _heading(title: str, glyphs: Glyphs, cells: int, note: str) -> Row:
    left = Span(f"{title} ", Tone.TITLE)
    right = Span(f" {note}" if note else "", Tone.QUIET)
    room = max(0, cells - width(left.text) - width(right.text))
    return fit((left, Span(glyphs.rule * room, Tone.RULE), right), cells, glyphs.ellipsis)


def _days(kinds: Sequence[Kind]) -> str:
    times = [kind.first.at for kind in kinds if kind.first.at is not None]
    if not times:
        return "seconds since boot" if any(kind.first.uptime_s is not None for kind in kinds) else "no times"
    first, last = _date(min(times)), _date(max(times))
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def _date(at: float) -> str:
    from stethoscope.clock import iso

    return iso(at)[:10]
