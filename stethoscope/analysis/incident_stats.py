"""What the incidents of a fleet add up to: how many, of what, how long they took, and what keeps coming back.

References are no nights of this fleet and are never counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from stethoscope.clock import iso
from stethoscope.errors import UsageError
from stethoscope.model.ids import expand, node_of
from stethoscope.model.incident import NO_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.model.incident import Incident

UNKNOWN = "unknown"
"""Stands for a cause or a component that nobody has written down."""
_LEAST_REPEATS = 2
_MOST_NODES = 8


@dataclass(frozen=True, slots=True)
class Spans:
    """How long what took; None where a time is not known, or stands before the one it is counted from."""

    detect_s: float | None
    """From the fault to the first that was seen of it."""
    locate_s: float | None
    """From there to the verdict. Where nobody knows when it was seen, this and what follows count from the fault."""
    mitigate_s: float | None
    """From there until the work went on."""
    repair_s: float | None
    """From there until what was broken is whole again."""


def spans_of(incident: Incident) -> Spans:
    """Return how long detecting, locating, mitigating and repairing took."""
    times = incident.times
    start = times.began if times.detected is None else times.detected
    return Spans(
        _between(times.began, times.detected),
        _between(start, times.located),
        _between(start, times.mitigated),
        _between(start, times.resolved),
    )


@dataclass(frozen=True, slots=True)
class Took:
    """How long one stage took over several incidents."""

    mean_s: float
    median_s: float
    longest_s: float
    n: int
    """Of how many incidents it is known."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often one thing came."""

    name: str
    n: int
    over_time: tuple[int, ...]
    """As `Stats.periods`; what has no time is in `n` alone."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A node or a part that came more than once."""

    place: str
    n: int
    first: float | None
    last: float | None
    causes: tuple[tuple[str, int], ...]
    """The most frequent first."""
    incidents: tuple[str, ...]
    """The latest first."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What incidents add up to."""

    n: int
    first: float | None
    last: float | None
    references: int
    """Left out."""
    same: int
    """Left out: `same_as` another that is counted."""
    by_status: tuple[tuple[str, int], ...]
    by_severity: tuple[tuple[str, int], ...]
    step: str
    """`day`, `week`, `month`, `quarter` or `year`: of one period."""
    periods: tuple[str, ...]
    """The first day of each (UTC), without gaps."""
    total: tuple[int, ...]
    causes: tuple[Count, ...]
    components: tuple[Count, ...]
    detect: Took | None
    locate: Took | None
    mitigate: Took | None
    repair: Took | None
    repeats: tuple[Repeat, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form, stethoscope.kb.stats/1 without its schema."""
        return {
            "incidents": self.n,
            "first": None if self.first is None else iso(self.first),
            "last": None if self.last is None else iso(self.last),
            "references_left_out": self.references,
            "same_as_left_out": self.same,
            "by_status": dict(self.by_status),
            "by_severity": dict(self.by_severity),
            "step": self.step,
            "periods": list(self.periods),
            "total": list(self.total),
            "causes": [_count_json(one) for one in self.causes],
            "components": [_count_json(one) for one in self.components],
            "time_to": {
                name: _took_json(took)
                for name, took in (
                    ("detect", self.detect),
                    ("locate", self.locate),
                    ("mitigate", self.mitigate),
                    ("repair", self.repair),
                )
            },
            "repeats": [
                {
                    "place": one.place,
                    "incidents": list(one.incidents),
                    "n": one.n,
                    "first": None if one.first is None else iso(one.first),
                    "last": None if one.last is None else iso(one.last),
                    "causes": dict(one.causes),
                }
                for one in self.repeats
            ],
        }


def _count_json(count: Count) -> dict[str, Any]:
    return {"name": count.name, "n": count.n, "over_time": list(count.over_time)}


def _took_json(took: Took | None) -> dict[str, Any] | None:
    if took is None:
        return None
    return {"mean_s": took.mean_s, "median_s": took.median_s, "longest_s": took.longest_s, "n": took.n}


def stats(incidents: Iterable[Incident], *, step: str = "") -> Stats:
    """Return what incidents add up to; without a `step` the one that gives at most 18 periods is taken."""
    every = list(incidents)
    nights = [one for one in every if not one.is_reference]
    counted = sorted(_once(nights), key=lambda one: (one.at or 0.0, one.id))
    times = [when for one in counted if (when := one.at) is not None]
    first, last = (min(times), max(times)) if times else (None, None)
    step = step or _fitting(first, last)
    periods = _periods(first, last, step)
    spans = [spans_of(one) for one in counted]
    return Stats(
        n=len(counted),
        first=first,
        last=last,
        references=len(every) - len(nights),
        same=len(nights) - len(counted),
        by_status=_sizes(one.status.value for one in counted),
        by_severity=tuple(sorted(Counter(one.severity.value for one in counted).items())),
        step=step,
        periods=tuple(_start(period, "day").isoformat()[:10] for period in periods),
        total=_over_time(counted, periods),
        causes=_counts(counted, lambda one: one.root_cause, periods),
        components=_counts(counted, lambda one: one.component, periods),
        detect=_took(one.detect_s for one in spans),
        locate=_took(one.locate_s for one in spans),
        mitigate=_took(one.mitigate_s for one in spans),
        repair=_took(one.repair_s for one in spans),
        repeats=repeats(counted),
    )


def _once(incidents: Sequence[Incident]) -> list[Incident]:
    """Return the incidents without those that say that they are the same as another one here."""
    same = {one.id: {link.to for link in one.links if link.how == "same_as"} for one in incidents}
    # Of two that name each other the first stays.
    return [
        one
        for one in incidents
        if not any(to in same and to != one.id and (one.id not in same[to] or to < one.id) for to in same[one.id])
    ]


def repeats(incidents: Sequence[Incident]) -> tuple[Repeat, ...]:
    """Return the nodes and parts that came more than once, the most frequent first; a node of which one part alone
    came stands there as that part."""
    by_place: defaultdict[str, list[Incident]] = defaultdict(list)
    for one in incidents:
        if one.is_reference:
            continue
        for place in _touched(one):
            by_place[place].append(one)
    found = {place: them for place, them in by_place.items() if len(them) >= _LEAST_REPEATS}
    for place, them in list(found.items()):
        node = node_of(place)
        if node != place and len(found.get(node, ())) == len(them):
            del found[node]
    made = [_repeat(place, them) for place, them in found.items()]
    return tuple(sorted(made, key=lambda one: (-one.n, -(one.last or 0.0), one.place)))


def _touched(one: Incident) -> set[str]:
    """Return the culprits and their nodes; without culprits the nodes that it names, unless they are many."""
    touched = set(one.places)
    touched |= {node for place in one.places if (node := node_of(place)) not in NO_NODES}
    return touched or set(_few(one.nodes))


@lru_cache(maxsize=4096)
def _few(nodes: str) -> tuple[str, ...]:
    if not nodes.strip("-._") or not any(sign in nodes for sign in "[,;&!^@*?% "):
        return (nodes,) if nodes else ()
    try:
        found = expand(nodes)
    except UsageError:
        return ()
    # What befell many nodes at once says nothing about any of them.
    return tuple(found) if len(found) <= _MOST_NODES else ()


def _repeat(place: str, them: Sequence[Incident]) -> Repeat:
    latest = sorted(them, key=lambda one: (one.at or 0.0, one.id), reverse=True)
    times = [when for one in latest if (when := one.at) is not None]
    return Repeat(
        place,
        len(them),
        min(times, default=None),
        max(times, default=None),
        _sizes(one.root_cause or UNKNOWN for one in latest),
        tuple(one.id for one in latest),
    )


def _between(start: float | None, end: float | None) -> float | None:
    return end - start if start is not None and end is not None and end >= start else None


def _took(spans: Iterable[float | None]) -> Took | None:
    known = [span for span in spans if span is not None]
    if not known:
        return None
    from statistics import fmean, median  # loading it takes longer than a list of incidents

    return Took(fmean(known), median(known), max(known), len(known))


def _sizes(names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items(), key=lambda one: (-one[1], one[0])))


def _counts(
    incidents: Sequence[Incident], name_of: Callable[[Incident], str], periods: Sequence[float]
) -> tuple[Count, ...]:
    groups: defaultdict[str, list[Incident]] = defaultdict(list)
    for one in incidents:
        groups[name_of(one) or UNKNOWN].append(one)
    made = [Count(name, len(them), _over_time(them, periods)) for name, them in groups.items()]
    # What nobody knows is no cause: it stands last.
    return tuple(sorted(made, key=lambda one: (one.name == UNKNOWN, -one.n, one.name)))


# ---- time

_DAYS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
STEPS = tuple(_DAYS)
"""Names of the lengths that a period may have."""
_MOST_PERIODS = 18
_LONGEST = 1200


def _fitting(first: float | None, last: float | None) -> str:
    if first is None or last is None:
        return "month"
    days = (last - first) / 86400
    return next((step for step in ("week", "month", "quarter") if days / _DAYS[step] < _MOST_PERIODS - 1), "year")


def _periods(first: float | None, last: float | None, step: str) -> tuple[float, ...]:
    """Return when each period begins, wall seconds; the latest, where a wrong date would make them endless."""
    if first is None or last is None:
        return ()
    day, begin = _start(last, step), _start(first, step)
    found: list[float] = []
    while day >= begin and len(found) < _LONGEST:
        found.append(day.timestamp())
        if day.year <= 1:
            break
        day = _start(day.timestamp() - 1, step)
    return tuple(reversed(found))


def _start(when: float, step: str) -> datetime:
    """Return the first day of the period in which a moment is."""
    day = datetime.fromtimestamp(when, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if step == "week":
        return day - timedelta(days=day.weekday())
    if step == "month":
        return day.replace(day=1)
    if step == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1) if step == "year" else day


def _over_time(incidents: Iterable[Incident], periods: Sequence[float]) -> tuple[int, ...]:
    counted = Counter(bisect_right(periods, when) - 1 for one in incidents if (when := one.at) is not None)
    return tuple(counted[number] for number in range(len(periods)))
