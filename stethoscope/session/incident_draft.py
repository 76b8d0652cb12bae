"""What is known of a trouble, written down as an incident: from a verdict, a finding, what a log says, or by hand.

A draft has no id: whoever saves it gives one. Only what fixed it is left to a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.clock import from_iso
from stethoscope.model.finding import Severity
from stethoscope.model.ids import fold, node_of
from stethoscope.model.incident import NO_NODES, Clues, Incident, Times
from stethoscope.model.logs import HEALTHY, UNKNOWN
from stethoscope.session.incident_signs import entry_signs, log_signs, verdict_signs
from stethoscope.session.incident_words import component_of, entry_body, log_body, title_of, verdict_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.model.finding import Fact
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.logs import Culprit, Event, LogVerdict
    from stethoscope.model.night import Entry
    from stethoscope.model.verdict import Diagnosis
    from stethoscope.session.decode import Decoded

_MOST_PLACES, _MOST_LEAVES = 12, 2
_BEFORE_S = 3600.0
"""What ended so long before the trouble began has nothing to do with it."""
_OF_NOW_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class LogSaid:
    """What a log says, as far as an incident and the search for similar ones need it."""

    verdict: LogVerdict
    events: Sequence[Event] = ()
    alternatives: Sequence[LogVerdict] = ()
    meaning: Callable[[str], str] = lambda signature: ""
    """Says what an event of a signature means."""
    files: tuple[str, ...] = ()
    """Names of what was read."""
    job: str = ""


def log_said(decoded: Decoded, job: str = "") -> LogSaid:
    """Return what decoded logs say, of the job `job` where it is one's."""
    files = tuple(file.name for file in decoded.log.files)
    return LogSaid(decoded.verdict, decoded.log.events, decoded.alternatives, decoded.meaning, files, job)


def draft_of_verdict(
    found: Diagnosis,
    now: float,
    *,
    snapshot: FleetSnapshot | None = None,
    entries: Iterable[Entry] = (),
    author: str = "",
    say: Callable[[Fact], str] | None = None,
) -> Incident:
    """Return the incident that a diagnosis found at wall second `now`; `say` writes a fact as people read it."""
    verdict = found.verdict
    near = _near(entries, verdict.places, verdict.affected, verdict.since)
    first = min((entry.spans[0][0] for entry in near), default=None)
    seen = [at for fact in verdict.supports if fact.at and (at := from_iso(fact.at)) is not None]
    named = verdict.root_cause not in (HEALTHY, UNKNOWN)
    nodes = _nodes((*verdict.places, *verdict.affected))
    return Incident(
        id="",
        title=title_of(verdict.summary, verdict.places) if verdict.root_cause != HEALTHY else "Nothing found wrong",
        severity=_severity(verdict.severity),
        root_cause=verdict.root_cause if named else "",
        component=component_of(verdict.root_cause, verdict.places),
        fleet=snapshot.fleet if snapshot is not None else "",
        times=Times(
            began=_before(verdict.since, first),
            detected=first if first is not None else verdict.since or min(seen, default=now),
            located=now if named else None,
            recorded=now,
        ),
        nodes=fold(sorted(nodes or {node for entry in near for node in _nodes(entry.finding.where)})),
        places=verdict.places[:_MOST_PLACES],
        around=around_of(verdict.places, snapshot),
        job=_job(verdict.affected),
        symptoms=verdict_signs(verdict, near, snapshot),
        confidence=round(verdict.confidence, 3) if named else None,
        author=author,
        body=verdict_body(found, say),
    )


def draft_of_entry(
    entry: Entry,
    now: float,
    *,
    snapshot: FleetSnapshot | None = None,
    author: str = "",
    say: Callable[[Fact], str] | None = None,
) -> Incident:
    """Return the incident of one finding of the night."""
    finding = entry.finding
    nodes = _nodes(finding.where)
    places = tuple(dict.fromkeys((*_cause_place(finding.cause), *finding.where)))[:_MOST_PLACES]
    return Incident(
        id="",
        title=title_of(finding.summary, finding.where),
        severity=_severity(min((finding.severity, entry.worst), key=lambda one: one.rank)),
        root_cause=finding.root_cause or "",
        component=component_of(finding.root_cause or "", finding.where),
        fleet=snapshot.fleet if snapshot is not None else "",
        # Nobody knows what was before a finding: that the fault began with it would make every detection take no time.
        times=Times(
            detected=entry.spans[0][0],
            located=now if finding.root_cause else None,
            mitigated=entry.cleared_at,
            recorded=now,
        ),
        nodes=fold(sorted(nodes)) if nodes else "",
        places=places,
        around=around_of(finding.where, snapshot),
        job=_job((*finding.where, *_cause_place(finding.cause))) or _job_on(nodes, snapshot),
        symptoms=entry_signs(entry, snapshot),
        confidence=round(finding.confidence, 3) if finding.root_cause else None,
        author=author,
        body=entry_body(entry, say),
    )


def draft_of_log(
    said: LogSaid,
    now: float,
    *,
    fleet: str = "",
    snapshot: FleetSnapshot | None = None,
    author: str = "",
    say: Callable[[Fact], str] | None = None,
) -> Incident:
    """Return the incident that a log tells of."""
    verdict = said.verdict
    named = verdict.root_cause not in (HEALTHY, UNKNOWN)
    places = culprit_places(verdict.culprits)
    times = [event.at for event in said.events if event.at is not None and event.role in ("cause", "either", "symptom")]
    nodes = _nodes(places)
    is_of_now = bool(times) and now - max(times) < _OF_NOW_S
    return Incident(
        id="",
        title=title_of(verdict.summary, places) if verdict.root_cause != HEALTHY else "Nothing found wrong",
        severity=_severity(verdict.severity),
        root_cause=verdict.root_cause if named else "",
        component=component_of(verdict.root_cause, places),
        fleet=fleet or (snapshot.fleet if snapshot is not None else ""),
        times=Times(
            began=min(times, default=None),
            # A log does not tell when somebody was called: its first line would make every detection take no time.
            detected=None if times else now,
            # An old log, or one without times, is read long after somebody found what was broken.
            located=now if named and is_of_now else None,
            recorded=now,
        ),
        nodes=fold(sorted(nodes)) if nodes else "",
        places=places,
        around=around_of(places, snapshot),
        job=said.job or _job_on(nodes, snapshot),
        symptoms=log_signs(verdict.signature, said.events),
        confidence=round(verdict.confidence, 3) if named else None,
        author=author,
        body=log_body(said.verdict, said.events, said.meaning, said.files, say),
    )


def draft_by_hand(
    now: float, *, fleet: str = "", place: str = "", snapshot: FleetSnapshot | None = None, author: str = ""
) -> Incident:
    """Return an incident of which nobody knows more than when and where it is written down."""
    node = _on_node(place)
    return Incident(
        id="",
        title="",
        fleet=fleet or (snapshot.fleet if snapshot is not None else ""),
        times=Times(detected=now, recorded=now),
        nodes=node,
        places=(place,) if place else (),
        around=around_of((place,), snapshot) if place else (),
        job=_job_on({node}, snapshot) if node else "",
        author=author,
    )


# ---- what is compared with the past


def clues_of(
    thing: Diagnosis | Entry | LogSaid,
    snapshot: FleetSnapshot | None = None,
    entries: Iterable[Entry] = (),
    *,
    fleet: str = "",
) -> Clues:
    """Return what is known of something that happens now, to be compared with the past."""
    fleet = fleet or (snapshot.fleet if snapshot is not None else "")
    if isinstance(thing, LogSaid):
        places = culprit_places(thing.verdict.culprits)
        causes = [thing.verdict.root_cause, *(one.root_cause for one in thing.alternatives)]
        texts = [event.text for event in thing.events if event.role in ("cause", "either")][:3]
        return Clues(
            symptoms=log_signs(thing.verdict.signature, thing.events),
            root_causes=_named(causes),
            places=places,
            around=around_of(places, snapshot),
            job=thing.job,
            fleet=fleet,
            component=component_of(thing.verdict.root_cause, places),
            text=" ".join([thing.verdict.summary, *texts]),
        )
    # What decodes a log does not load what a diagnosis is.
    from stethoscope.model.verdict import Diagnosis

    if isinstance(thing, Diagnosis):
        verdict = thing.verdict
        causes = [verdict.root_cause, *(one.root_cause for one in thing.alternatives)]
        near = _near(entries, verdict.places, verdict.affected, verdict.since)
        return Clues(
            symptoms=verdict_signs(verdict, near, snapshot),
            root_causes=_named(causes),
            places=verdict.places[:_MOST_PLACES],
            around=around_of(verdict.places, snapshot),
            job=_job(verdict.affected),
            fleet=fleet,
            component=component_of(verdict.root_cause, verdict.places),
            text=" ".join([verdict.summary, *(str(fact.value) for fact in verdict.supports[:6] if _is_words(fact))]),
        )
    finding = thing.finding
    where = tuple(dict.fromkeys((*_cause_place(finding.cause), *finding.where)))[:_MOST_PLACES]
    return Clues(
        symptoms=entry_signs(thing, snapshot),
        root_causes=_named([finding.root_cause or ""]),
        places=where,
        around=around_of(where, snapshot),
        job=_job(where),
        fleet=fleet,
        component=component_of(finding.root_cause or "", where),
        text=" ".join([finding.summary, finding.message]).strip(),
    )


def clues_of_incident(one: Incident) -> Clues:
    """Return what is known of a written incident, to be compared with all others."""
    return Clues(
        symptoms=one.symptoms,
        root_causes=(one.root_cause,) if one.root_cause else (),
        places=one.places,
        around=one.around,
        job=one.job,
        fleet=one.fleet,
        component=one.component,
        text=" ".join([one.title, one.resolution]).strip(),
        but=one.id,
    )


# ---- places


def around_of(places: Iterable[str], snapshot: FleetSnapshot | None) -> tuple[str, ...]:
    """Return where places hang: leaf of a port, rack and pod of its node; of a node without a port its few leaves."""
    found: dict[str, None] = {}
    for place in places:
        name, _, device = place.partition("/")
        if snapshot is None or name not in snapshot.by_name:
            continue
        node = snapshot.node(name)
        port = device.removeprefix("ib/") if device.startswith("ib/") else ""
        leaves = list(dict.fromkeys(node.leaves.values()))
        if port:
            leaves = [node.leaves[port]] if port in node.leaves else []
        elif len(leaves) > _MOST_LEAVES:
            leaves = []
        for kind, names in (("leaf", leaves), ("rack", [node.rack]), ("pod", [node.pod])):
            found.update({f"{kind}/{one}": None for one in names if one})
    return tuple(found)[:_MOST_PLACES]


def culprit_places(culprits: Iterable[Culprit]) -> tuple[str, ...]:
    """Return the places of culprits; of one with a host alone, the host."""
    return tuple(dict.fromkeys(one.place or one.host or "" for one in culprits if one.place or one.host))[:_MOST_PLACES]


def _on_node(place: str) -> str:
    node = node_of(place)
    return "" if node in NO_NODES else node


def _nodes(places: Iterable[str]) -> set[str]:
    return {node for place in places if (node := _on_node(place))}


def _cause_place(cause: str) -> tuple[str, ...]:
    """Return what places share where that is a place, and not words such as `driver 550.90.07`."""
    return (cause,) if "/" in cause and " " not in cause else ()


def _job(places: Iterable[str]) -> str:
    return next((place.split("/")[1] for place in places if place.startswith("job/")), "")


def _job_on(nodes: set[str], snapshot: FleetSnapshot | None) -> str:
    """Return the id of the job that has all of these nodes, where there is just one."""
    if snapshot is None or not nodes:
        return ""
    on = [job.id for job in snapshot.jobs if nodes <= set(job.nodes)]
    return on[0] if len(on) == 1 else ""


# ---- symptoms


def _near(entries: Iterable[Entry], places: Sequence[str], affected: Sequence[str], since: float | None) -> list[Entry]:
    """Return the findings on the same nodes or of the same place, the most urgent first."""
    nodes, named = _nodes(places), {*places, *(place for place in affected if place.startswith("job/"))}
    found = []
    for entry in entries:
        if entry.cleared_at is not None and (since is None or entry.cleared_at < since - _BEFORE_S):
            continue
        where = {*entry.finding.where, *_cause_place(entry.finding.cause)}
        if named & where or nodes & _nodes(where):
            found.append(entry)
    return sorted(found, key=lambda one: (one.finding.severity.rank, one.since, one.id))


def _before(since: float | None, first: float | None) -> float | None:
    """Return when the fault began where that was before it was found; None where nothing tells."""
    return since if since is not None and first is not None and since < first else None


def _named(causes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cause for cause in causes if cause and cause not in (HEALTHY, UNKNOWN)))


def _is_words(fact: Fact) -> bool:
    return isinstance(fact.value, str) and " " in fact.value


def _severity(severity: Severity) -> Severity:
    return severity if severity.rank <= Severity.P2.rank else Severity.P2
