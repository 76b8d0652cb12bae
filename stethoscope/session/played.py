"""A scenario played in virtual time: the twin speaks the probe's wire, and everything behind it is what live data meet.

Lines go through the link, parsing and folding into a session; rules look every few seconds, logs of jobs and Slurm's
answers are read at the times of a console. Nothing here knows what the scenario expects.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stethoscope.analysis.triage_watch import Watch
from stethoscope.clock import FixedClock
from stethoscope.collect.command import Answer
from stethoscope.collect.slurm import EVERY_S, reading
from stethoscope.collect.watchlist import watch_groups
from stethoscope.errors import UsageError
from stethoscope.model.verdict import Measured, Scene
from stethoscope.parse.slurm import SQUEUE_FORMAT, read_squeue
from stethoscope.parse.slurm_json import read_json
from stethoscope.session.aims import aims_of, refusal
from stethoscope.session.heard import Hearing
from stethoscope.session.job_notes import JobNote
from stethoscope.session.open import session_maker
from stethoscope.session.played_node import PlayedNode, PlayedSpec
from stethoscope.session.probe_result import Result, Status, measured_of, read_answer
from stethoscope.sim import slurm, tools
from stethoscope.sim.logs import SharedLogs, path_of
from stethoscope.sim.parts import Order
from stethoscope.sim.readings import Readings
from stethoscope.sim.twin import Twin
from stethoscope.specs.codes import load_codes
from stethoscope.specs.probes import load_manifest
from stethoscope.specs.signature import load_signatures
from stethoscope.text import clean_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Sink, Source
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.night import Entry
    from stethoscope.model.scheduler import Job
    from stethoscope.session.session import Session
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.probes import OnDemand
    from stethoscope.specs.scenario import Scenario
    from stethoscope.specs.signature import Signatures

TICK_S = 5.0
"""How often nodes send, rules look, and the logs of jobs are read."""
_LONGEST_TEXT = 262_144
_ALSO = {
    "ipmitool_sel": ("ipmi_sel",),
    "dcgm_diag_r1": ("dcgmi_diag",),
    "nvidia_smi_nvlink": ("nvlink_e", "nvlink_s"),
}
"""Probe of ours -> names of the same tool in scenarios."""
_FLEET = "drill"
"""The name of a scenario would tell what it is about."""


class Kit(NamedTuple):
    """What every scenario is looked at with: read once a process."""

    make: Callable[[Source, Clock], Session]
    signatures: Signatures
    codes: Codes
    orders: tuple[Order, ...]
    probes: dict[str, OnDemand]


@lru_cache(maxsize=1)
def kit() -> Kit:
    """Return the rules, signatures and probes that stand nearest; DataError when a file of them is broken."""
    return Kit(
        session_maker(remember=False),
        load_signatures(),
        load_codes(),
        msgspec.convert(watch_groups(sudo=True), tuple[Order, ...]),
        {probe.id: probe for probe in load_manifest().ondemand},
    )


class PlayedSource:
    """The fleet of a scenario; what it gives comes from `Played`."""

    simulated = True

    def __init__(self, fleet: str, nodes: Sequence[PlayedSpec]) -> None:
        """Be the fleet of that name."""
        self.fleet = fleet
        self.nodes = tuple(nodes)
        self.asked: list[str | None] = []

    async def run(self, sink: Sink) -> None:
        """What it gives is not run: it is moved."""

    def ask_full(self, node: str | None = None) -> None:
        """Note which node is to send everything."""
        self.asked.append(node)


class Played:
    """A scenario, and a console that has watched it since its start."""

    def __init__(self, scenario: Scenario) -> None:
        """Stand before the first second, with nothing heard yet."""
        self._kit = kit()
        self.twin = Twin(scenario)
        self.t_s = 0.0
        self.clock = FixedClock(self.twin.wall_at_0)
        fleet = scenario.fleet
        specs = [PlayedSpec(fleet, name, node, TICK_S) for node, name in enumerate(self.twin.layout.nodes)]
        self._source = PlayedSource(_FLEET, specs)
        self.session = self._kit.make(self._source, self.clock)
        drawn: dict[tuple[str, int], list[list[float]]] = {}
        self._nodes = {
            spec.name: PlayedNode(self.twin, spec, node, self.clock, self.session, self._kit.orders, drawn)
            for node, spec in enumerate(specs)
        }
        self._names = tuple((spec.name, None) for spec in specs)
        self._logs = SharedLogs(self.twin)
        self._read_to: dict[str, int] = {}
        self._heard_to: dict[str, int] = {}
        self._jobs: tuple[Job, ...] = ()
        self._scheduler_due = 0.0
        self._next_s = 0.0
        self.watch = Watch()
        self._hearing = Hearing(self._kit.signatures, self._kit.codes, self.twin.wall_at_0)
        self._measured: dict[tuple[str, str], Measured] = {}
        self.snapshot: FleetSnapshot

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return the night's list: what is found now, and what was and has ended."""
        return tuple(self.session.night.entries.values())

    def advance(self, to_s: float, look: Callable[[], object] = lambda: None) -> None:
        """Play on up to scenario second `to_s`, calling `look` after each look of the rules."""
        while self._next_s <= to_s:
            self._tick(self._next_s)
            self._next_s += TICK_S
            look()

    def scene(self, focus: str = "") -> Scene:
        """Return all that the diagnosis may read at this moment."""
        return Scene(
            now_s=self.clock.wall(),
            snapshot=self.snapshot,
            entries=self.entries,
            logs=self._hearing.judged(self.clock.wall()),
            jobs=self.watch.jobs,
            measured=tuple(self._measured.values()),
            focus=focus,
            seen=self.watch.seen,
        )

    # ---- one moment

    def _tick(self, t_s: float) -> None:
        self.clock.advance(t_s - self.t_s)
        self.t_s = t_s
        said = self.twin.advance_to(t_s)
        self._logs.take(said)
        for line in said:
            if line.sink == "kernel" and line.node in self._nodes:
                self._nodes[line.node].tell(line)
        readings = Readings(self.twin)
        for name in self._source.asked:
            for node in self._nodes.values() if name is None else (self._nodes[name],):
                node.ask_full()
        self._source.asked.clear()
        for node in self._nodes.values():
            node.tick(readings)
        if t_s >= self._scheduler_due:
            self._scheduler_due = t_s + EVERY_S
            self._ask_slurm()
        self._read_logs()
        # Full frames that are missing are asked for, the rules look, and who listens is told.
        self.session.tend()
        self.snapshot = self.session.snapshot()
        self.watch.look(self.snapshot)
        self._hear()

    def _ask_slurm(self) -> None:
        nodes = read_json(slurm.answer(self.twin, ["scontrol", "show", "node", "--json"])[1])
        jobs = read_squeue(slurm.answer(self.twin, ["squeue", "-o", SQUEUE_FORMAT])[1])
        self._jobs = jobs.jobs
        self.session.on_scheduler(reading(self._names, nodes.nodes, jobs.jobs))

    def _read_logs(self) -> None:
        """Read on in the logs of the jobs that Slurm says run, where one of their nodes can be reached."""
        wall = self.clock.wall()
        for job in self._jobs:
            path = path_of(job.id)
            held = self._logs.files.get(path)
            if held is None or not any(self.twin.link(self.twin.layout.numbers[name]) == "up" for name in job.nodes):
                continue
            first = path not in self._read_to
            text = held[self._read_to.get(path, 0) :].decode("utf-8", "replace")
            self._read_to[path] = len(held)
            lines = tuple(text.splitlines())
            note = JobNote(
                id=job.id, nodes=job.nodes, path=path, at=wall, lines=lines, is_new=not first, name=job.name,
                user=job.user, state=job.state, node=job.nodes[0], line_at=wall if lines else None,
            )  # fmt: skip
            self.session.jobs.take_note(note, wall)

    def _hear(self) -> None:
        """Give what was written since the last look to what decodes logs: a log is read to its end, whatever became of
        its job."""
        self._hearing.kernels(self.snapshot, {job.id: job.nodes for job in self.watch.jobs})
        for job in self.watch.jobs:
            path = path_of(job.id)
            held = self._logs.files.get(path, b"")
            self._hearing.printed(job.id, bytes(held[self._heard_to.get(path, 0) :]), name=path)
            self._heard_to[path] = len(held)

    # ---- on demand

    def measure(self, place: str, probe: str) -> tuple[Measured, ...]:
        """Run an on-demand probe at a place now and return what it says; nothing where nobody can run it there."""
        known = self._kit.probes.get(probe)
        # Under another name than ours a scenario says what the same tool prints; that is meant.
        text = next((text for name in _ALSO.get(probe, ()) if (text := self._printed(place, name))), None)
        found = self._run(place, known) if known is not None and text is None else ()
        if not found:
            text = text or self._printed(place, probe)
            found = () if text is None else (Measured(place, probe, self.clock.wall(), _cleaned(text)),)
        for one in found:
            self._measured[one.place, one.probe] = one
        return found

    def _run(self, place: str, probe: OnDemand) -> tuple[Measured, ...]:
        try:
            aims = aims_of(self.snapshot, probe, [place])
        except UsageError:
            return ()
        found = []
        for aim in aims:
            why = refusal(self.snapshot, probe, aim)
            wall = self.clock.wall()
            if why is not None and not why.can_force:
                found.append(Measured(aim.place, probe.id, wall, why.words, status=Status.REFUSED.value))
                continue
            ran = tools.output(self.twin, self.twin.layout.numbers[aim.node], probe.id, aim.arguments)
            # One that hangs is ended at its limit, and not even then where the kernel holds it.
            answer = Answer(None, b"", "", late=True) if ran is None else Answer(ran[0], ran[1].encode(), ran[2])
            status, words, sections = read_answer(answer, probe, aim.node)
            result = Result(probe.id, aim, wall, 0.0, status, words, sections)
            found.append(measured_of(result, aim.place or place))
        return tuple(found)

    def _printed(self, place: str, probe: str) -> str | None:
        """Return what a tool that has no script here would print there: at the place itself, else on one of its
        nodes."""
        head, _, name = place.partition("/")
        job = next((job for job in self.watch.jobs if job.id == name), None) if head == "job" else None
        nodes = job.nodes if job is not None else (head,) if head in self._nodes else ()
        for where in dict.fromkeys((place, *nodes)):
            text = self.twin.printed_at(where, probe)
            if text is not None:
                return text
        return None


def _cleaned(text: str) -> str:
    return clean_lines(text, _LONGEST_TEXT)
