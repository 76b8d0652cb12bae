"""Drills: scenarios are played, the unattended diagnosis is asked as a person would ask it, and what it says is scored.

The diagnosis gets a scene, which holds what a real fleet shows; what a scenario expects is looked at only behind it.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.analysis.triage import diagnose
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.model.finding import Severity
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.session.drill_score import Got, Row, is_related, is_within, points
from stethoscope.session.played import Played, kit
from stethoscope.sim import board
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.scenarios import bundled, open_scenario
from stethoscope.specs.duration import duration_s
from stethoscope.specs.load import load
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.scenario import SCHEMA, Fault, LogLine, ProbeOutput, SetValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from stethoscope.model.finding import Finding
    from stethoscope.model.verdict import Diagnosis
    from stethoscope.specs.playbook import Playbooks
    from stethoscope.specs.scenario import Event, Expect, Scenario

URGENT = (Severity.P0, Severity.P1)
ASK_AGAIN_S = 15.0
"""While what is urgent changes, the diagnosis is asked no more often than this."""
ROUTINE_S = 300.0
"""And this often while nothing is urgent: what is measured on demand alone would not be seen."""
ROUNDS, AT_ONCE = 4, 32
"""So often it may ask for measurements in a row, and for so many at once."""
STALE_S = 120.0
"""What was measured longer ago is measured again when it is wanted."""


@lru_cache(maxsize=1)
def _playbooks() -> Playbooks:
    return load_playbooks()


def ready() -> None:
    """Read all that a drill needs, once; DataError when a file of it is broken."""
    kit()
    _playbooks()


class Drilled:
    """One scenario being played, and what was found and said so far."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin at its start."""
        self.played = Played(scenario)
        self.first: dict[str, tuple[float, Finding]] = {}
        """By (id of the finding, place): when it was found there first."""
        self.named: list[tuple[float, Finding, str]] = []
        """Second, finding and place, in the order in which they were found: causes that places share are places."""
        self.diagnosis: Diagnosis | None = None
        self.told: list[tuple[float, str, tuple[str, ...]]] = []
        """Second, root cause and places of each verdict that was another one than before."""
        self.asked: dict[tuple[str, str], float] = {}
        """When each measurement was made last."""
        self._known: set[tuple[str, str]] = set()
        self._urgent: frozenset[str] = frozenset()
        self._version = 0
        self._asked_s = 0.0

    def run(self) -> Diagnosis:
        """Play to the end, and return what the diagnosis says there."""
        self.played.advance(self.played.twin.scenario.duration_s, self._look)
        return self._diagnosed()

    def _look(self) -> None:
        t_s, snapshot = self.played.t_s, self.played.snapshot
        active = [finding for finding in snapshot.findings if finding.state == "active"]
        for finding in active:
            self.first.setdefault(finding.id, (t_s, finding))
            for place in (*finding.where, *((finding.cause,) if "/" in finding.cause else ())):
                if (finding.id, place) not in self._known:
                    self._known.add((finding.id, place))
                    self.named.append((t_s, finding, place))
        urgent = frozenset(finding.id for finding in active if finding.severity in URGENT)
        version = self.played.watch.version
        is_other = version != self._version or (urgent and urgent != self._urgent)
        if t_s - self._asked_s >= (ASK_AGAIN_S if is_other else ROUTINE_S):
            self._urgent, self._version, self._asked_s = urgent, version, t_s
            self._diagnosed()

    def _diagnosed(self) -> Diagnosis:
        """Ask, measure what would settle it, and ask again, until nothing more is wanted that was not asked for."""
        found = diagnose(self.played.scene(), _playbooks())
        t_s = self.played.t_s
        for _ in range(ROUNDS):
            wanted = [
                (one.place, one.probe)
                for one in found.wanted
                if t_s - self.asked.get((one.place, one.probe), -STALE_S) >= STALE_S
            ][:AT_ONCE]
            if not wanted:
                break
            self.asked.update(dict.fromkeys(wanted, t_s))
            answers = [self.played.measure(place, probe) for place, probe in wanted]
            if any(answers):
                found = diagnose(self.played.scene(), _playbooks())
        verdict = found.verdict
        if not self.told or self.told[-1][1:] != (verdict.root_cause, verdict.places):
            self.told.append((t_s, verdict.root_cause, verdict.places))
        self.diagnosis = found
        return found


def drill(name: str) -> Row:
    """Play the scenario of a file, or a bundled one by its name, and score what was said; what cannot be played is a
    row with its error."""
    started = time.perf_counter()
    try:
        scenario = open_scenario(name)
    except (StethoscopeError, OSError) as error:
        return Row(_id_of(name), name, error=str(error))
    drilled = Drilled(scenario)
    found = drilled.run()
    return scored(name, scenario, drilled, found, time.perf_counter() - started)


def scored(name: str, scenario: Scenario, drilled: Drilled, found: Diagnosis, seconds: float) -> Row:
    """Return the row of a scenario that was played to its end."""
    expect = scenario.expect
    detect_s = None
    alarms: tuple[Finding, ...] = ()
    if expect is not None:
        detect_s = _detect_s(scenario, expect.culprits, drilled)
        alarms = _false(scenario, expect, drilled)
    verdict = found.verdict
    got = Got(
        scope=found.scope,
        layer=found.layer,
        root_cause=verdict.root_cause,
        severity=verdict.severity.value,
        culprits=verdict.places,
        confidence=verdict.confidence,
        detect_s=detect_s,
        false_alarms=len(alarms),
        summary=verdict.summary,
        false=tuple(f"{one.severity.value} {one.rule}: {one.summary} [{', '.join(one.where[:3])}]" for one in alarms),
        asked=tuple(f"{place} {probe}" for place, probe in drilled.asked),
    )
    limit_s = None if expect is None or expect.detect_within is None else duration_s(expect.detect_within)
    return Row(
        scenario.id, name, expect, got, "", limit_s, seconds, {} if expect is None else points(expect, got, limit_s)
    )


def _detect_s(scenario: Scenario, culprits: Sequence[str], drilled: Drilled) -> float | None:
    """Return the time from the start of the latest fault at a culprit to the first finding, or the first verdict, that
    names that place."""
    if not culprits:
        return None
    same = {place: _same(scenario, place) for place in culprits}
    starts = [
        (event.at_s, place)
        for event in _causes(scenario)
        for place in culprits
        if any(is_related(_where(event), one) for one in same[place])
    ]
    if starts:
        began, _ = max(starts)
        names = {one for at_s, place in starts if at_s == began for one in same[place]}
    else:
        # The culprit is named by what its fault does elsewhere: a leaf by its ports.
        began = max((event.at_s for event in _causes(scenario)), default=0.0)
        names = {one for place in culprits for one in same[place]}
    named: list[tuple[float, tuple[str, ...]]] = [
        (t_s, (place,)) for t_s, finding, place in drilled.named if finding.severity.value.startswith("P")
    ]
    named += [(t_s, places) for t_s, cause, places in drilled.told if cause not in (HEALTHY, UNKNOWN)]
    return min(
        (
            t_s - began
            for t_s, places in named
            if t_s >= began and any(is_related(place, one) for place in places for one in names)
        ),
        default=None,
    )


def _causes(scenario: Scenario) -> Iterator[Event]:
    """Yield what happens behind the start, faults alone where there are any."""
    events = [event for event in scenario.events if event.at_s > 0 and not isinstance(event, ProbeOutput)]
    faults = [event for event in events if isinstance(event, Fault)]
    yield from faults or events


def _where(event: Event) -> str:
    assert isinstance(event, Fault | SetValue | LogLine)
    return event.where.text


def _same(scenario: Scenario, place: str) -> tuple[str, ...]:
    """Return the names of a place: a rank is also the GPU that it has, a GPU or an adapter also its slot."""
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
        return (place, f"{head}/pcie/{board.port_pci(int(name[5:]))}")
    return (place,)


def _false(scenario: Scenario, expect: Expect, drilled: Drilled) -> tuple[Finding, ...]:
    """Return the urgent findings that are false alarms: in a healthy fleet all of them, else those that find a cause
    which is not there at a place that must not be blamed. A symptom of the true cause is told where it is felt."""
    causes = {expect.root_cause, *expect.accept.get("root_cause", ())}
    causes |= {KINDS[event.kind].root_cause for event in scenario.events if isinstance(event, Fault)}
    found = []
    for _, finding in drilled.first.values():
        if finding.severity not in URGENT:
            continue
        blames = any(is_within(place, bad) for place in finding.where for bad in expect.not_blamed)
        is_right = any(is_related(place, one) for place in (*finding.where, finding.cause) for one in expect.culprits)
        is_told = finding.root_cause is None or finding.root_cause in causes
        if expect.root_cause == HEALTHY or (blames and not is_right and not is_told):
            found.append(finding)
    return tuple(found)


# ---- many


def scenario_files(paths: Sequence[Path], skipped: Callable[[str], None] = lambda _: None) -> list[str]:
    """Return the scenarios that people name: files, every scenario of a directory, or bundled ones by their names;
    `skipped` gets what lies in a directory and is none. UsageError for what is not there."""
    names: list[str] = []
    for path in paths:
        if path.is_dir():
            found = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml"))
            for one in found:
                if is_scenario(one):
                    names.append(str(one))
                else:
                    skipped(f"{one}: not a scenario ({SCHEMA}), left out")
            if not found:
                raise UsageError(f"{path}: no scenario in this directory")
        elif path.exists():
            # A file called as no scenario is called is no name of a bundled one.
            names.append(str(path) if path.suffix in (".yaml", ".yml") or path.name != str(path) else f"./{path}")
        elif str(path) in bundled():
            names.append(str(path))
        else:
            raise UsageError(f"{path}: no such file or directory, and no bundled scenario")
    return list(dict.fromkeys(names))


def is_scenario(path: Path) -> bool:
    """Tell whether a file means to be a scenario; one that cannot be read as YAML may be one."""
    try:
        data = load(path).data
    except StethoscopeError:
        return True
    return isinstance(data, dict) and ("expect" in data or str(data.get("schema", "")).startswith(SCHEMA[:-1]))


def _id_of(name: str) -> str:
    """Return what a scenario that cannot be played calls itself, else what its file is called."""
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    try:
        data = load(name).data
    except (StethoscopeError, OSError):
        return stem
    said = data.get("id") if isinstance(data, dict) else None
    return said if isinstance(said, str) else stem


def drill_all(names: Sequence[str], jobs: int = 1) -> Iterator[Row]:
    """Yield the rows of scenarios in their order, played by so many processes; DataError when rules, signatures or
    playbooks are broken."""
    ready()
    if jobs <= 1 or len(names) <= 1:
        for name in names:
            yield _drill_safely(name)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_drill_safely, names)


def _drill_safely(name: str) -> Row:
    try:
        return drill(name)
    except Exception as error:  # noqa: BLE001  a defect that one scenario meets must not cost the others
        return Row(_id_of(name), name, error=f"a defect: {type(error).__name__}: {error}")
