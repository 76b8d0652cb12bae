"""What was found and said while a scenario was played, and whether that was the culprit, in time, or nobody's fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.session.drill_score import is_related, is_within
from stethoscope.sim import board
from stethoscope.sim.files.mounts import LOCAL
from stethoscope.sim.files.net import name_of
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.specs.scenario import Fault, LogLine, ProbeOutput, SetValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Diagnosis
    from stethoscope.specs.scenario import Event, Expect, Scenario

URGENT = (Severity.P0, Severity.P1)
_OF_MANY = ("leaf", "rack", "pod", "storage", "job")
"""Places that findings name by what is behind them: their ports, nodes, mounts, ranks."""


class Record:
    """What happened in a drill, by scenario second."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.first: dict[str, Finding] = {}
        """Each finding as it was found first."""
        self.named: list[tuple[float, Finding, str]] = []
        """Second, finding and place, in the order in which they were found: causes that places share are places."""
        self.told: list[tuple[float, str, tuple[str, ...]]] = []
        """Second, root cause and places of each verdict that was another one than before."""
        self.loud: frozenset[str] = frozenset()
        """Ids of what is found now, remarks left out."""
        self.urgent = 0
        """How many of them are urgent."""
        self._known: set[tuple[str, str]] = set()

    def look(self, t_s: float, snapshot: FleetSnapshot) -> None:
        """Take what the rules found by now."""
        active = [finding for finding in snapshot.findings if finding.state == "active"]
        for finding in active:
            self.first.setdefault(finding.id, finding)
            for place in (*finding.where, *((finding.cause,) if "/" in finding.cause else ())):
                if (finding.id, place) not in self._known:
                    self._known.add((finding.id, place))
                    self.named.append((t_s, finding, place))
        self.loud = frozenset(finding.id for finding in active if finding.severity.value.startswith("P"))
        self.urgent = sum(finding.severity in URGENT for finding in active)

    def hear(self, t_s: float, found: Diagnosis) -> None:
        """Take what the diagnosis says by now."""
        verdict = found.verdict
        if not self.told or self.told[-1][1:] != (verdict.root_cause, verdict.places):
            self.told.append((t_s, verdict.root_cause, verdict.places))


def detect_s(scenario: Scenario, expect: Expect, record: Record) -> float | None:
    """Return the time from the start of the latest fault at a culprit to the first finding, or the first verdict, that
    names that place or its cause; None when there was none."""
    same = {place: same_places(scenario, place) for place in expect.culprits}
    if not same:
        return None
    starts = [
        (event.at_s, place)
        for event in _causes(scenario)
        if isinstance(event, Fault)
        for place in expect.culprits
        if any(is_related(event.where.text, one) for one in same[place])
    ]
    told = (
        ()
        if starts
        else [
            event.at_s
            for event in scenario.events
            if event.at_s > 0
            and isinstance(event, SetValue | LogLine)
            and any(is_related(event.where.text, one) for place in expect.culprits for one in same[place])
        ]
    )
    if told:
        # What is told by values and lines alone has no one start: each begins what may be found from then on.
        return _since_last(sorted(told), _moments(expect, record, expect.culprits, same))
    # A culprit may be known by what its fault does elsewhere alone.
    began = max(at_s for at_s, _ in starts) if starts else max((one.at_s for one in _causes(scenario)), default=0.0)
    meant = [place for at_s, place in starts if at_s == began] or list(expect.culprits)
    moments = _moments(expect, record, meant, same)
    return min((t_s - began for t_s in moments if t_s >= began), default=None)


def _moments(expect: Expect, record: Record, meant: Sequence[str], same: Mapping[str, tuple[str, ...]]) -> list[float]:
    """Return when places, or what they share, were named."""
    names = {one for place in meant for one in same[place]}
    by_cause = any(place.partition("/")[0] in _OF_MANY for place in meant)
    moments = [
        t_s
        for t_s, finding, place in record.named
        if finding.severity.value.startswith("P")
        and (any(is_related(place, one) for one in names) or (by_cause and finding.root_cause == expect.root_cause))
    ]
    moments += [
        t_s
        for t_s, cause, places in record.told
        if cause not in (HEALTHY, UNKNOWN) and any(is_related(place, one) for place in places for one in names)
    ]
    return moments


def _since_last(starts: Sequence[float], moments: Sequence[float]) -> float | None:
    """Return how long the first moment is behind the last start before it."""
    first = min((t_s for t_s in moments if t_s >= starts[0]), default=None)
    return None if first is None else first - max(at_s for at_s in starts if at_s <= first)


def false_alarms(scenario: Scenario, expect: Expect, record: Record) -> tuple[Finding, ...]:
    """Return the urgent findings that are false alarms: in a healthy fleet all of them, else those that find a cause
    which is not there at a place that must not be blamed. A symptom of the true cause is told where it is felt."""
    causes = {expect.root_cause, *expect.accept.get("root_cause", ())}
    causes |= {KINDS[event.kind].root_cause for event in scenario.events if isinstance(event, Fault)}
    found = []
    for finding in record.first.values():
        if finding.severity not in URGENT:
            continue
        blames = any(is_within(place, bad) for place in finding.where for bad in expect.not_blamed)
        is_right = any(is_related(place, one) for place in (*finding.where, finding.cause) for one in expect.culprits)
        is_told = finding.root_cause is None or finding.root_cause in causes
        if expect.root_cause == HEALTHY or (blames and not is_right and not is_told):
            found.append(finding)
    return tuple(found)


def _causes(scenario: Scenario) -> Iterator[Event]:
    """Yield what happens behind the start, faults alone where there are any."""
    events = [event for event in scenario.events if event.at_s > 0 and not isinstance(event, ProbeOutput)]
    faults = [event for event in events if isinstance(event, Fault)]
    yield from faults or events


def same_places(scenario: Scenario, place: str) -> tuple[str, ...]:
    """Return the names of a place: a rank is also the GPU that it has, a GPU or an adapter also its slot, an adapter
    its interface, a disk the file systems on it."""
    head, _, rest = place.partition("/")
    job = next((job for job in scenario.jobs if head == "job" and rest.startswith(f"{job.id}/rank/")), None)
    if job is not None:
        rank, gpus = int(place.rsplit("/", 1)[-1]), scenario.fleet.gpus_per_node
        node = scenario.fleet.node_names()[job.nodes[rank // gpus]]
        return (place, f"{node}/gpu/{rank % gpus}")
    kind, _, name = rest.partition("/")
    if kind == "gpu" and name.isdecimal():
        return (place, f"{head}/pcie/{board.gpu_pci(int(name))}.0")
    if kind == "ib" and name[5:].isdecimal():
        port = int(name[5:])
        nets = [f"{head}/net/{name_of(port, on_ethernet=ethernet)}" for ethernet in (False, True)]
        return (place, f"{head}/pcie/{board.port_pci(port)}", *nets)
    if kind == "disk" and name in board.DISKS:
        number = board.DISKS.index(name)
        return (place, *(f"{head}/fs{mount.path}" for mount in LOCAL if number in mount.disks))
    return (place,)
