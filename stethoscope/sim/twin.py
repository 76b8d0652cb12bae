"""The digital twin of a GPU fleet in virtual time: faults are causes, symptoms follow from how synchronous jobs work.

Time is cut at the moments at which something changes; between two of them everything has a closed form. So what the
twin shows at a time depends on the scenario and its seed alone, not on how it was brought there, and a quiet stretch
of any length costs nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stethoscope.errors import InternalError
from stethoscope.model.metric import Reason
from stethoscope.sim import life, lines, machine
from stethoscope.sim.build import Builds
from stethoscope.sim.columns import ETHERNET_ONLY, LIMITS, PINNED, PORT_COUNTERS, SLOW_COUNTERS
from stethoscope.sim.effects import Effects
from stethoscope.sim.first import first_totals
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.layout import Layout
from stethoscope.sim.noise import Floats, Noise
from stethoscope.sim.overrides import Override
from stethoscope.sim.printed import jobs
from stethoscope.sim.run import START_S, WATCHDOG_S, JobRun, JobState
from stethoscope.sim.told import Told
from stethoscope.specs.scenario import Fault, LogLine, ProbeOutput, Scenario, SetValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.sim.kinds.kind import Count, Kind, Line
    from stethoscope.sim.lines import Said
    from stethoscope.specs.scenario import Job

Totals = npt.NDArray[np.int64]

_MOST_WRITTEN = 2000
"""Lines of a node's logs that are kept."""
LOAD_TAU_S = 60.0
_JITTER_S = 0.06
"""How unevenly counters are read: far less than a tick, so that a rate stays within a few percent of the truth."""


class Twin:
    """A scenario at one moment of its virtual time. `wall_at_0` is the wall time (seconds since 1970) of its start."""

    def __init__(self, scenario: Scenario, wall_at_0: float = 1_773_454_447.0) -> None:
        """Stand at time 0, with every job in full swing."""
        self.scenario = scenario
        self.layout = Layout(scenario)
        self.noise = Noise(scenario.seed)
        self.wall_at_0 = wall_at_0
        self.t_s = 0.0
        self.runs = {job.id: JobRun(job, self.layout, self.noise) for job in scenario.jobs}
        self._faults: list[Kind] = [KINDS[event.kind](event) for event in scenario.events if isinstance(event, Fault)]
        of_ethernet = any(event.metric in ETHERNET_ONLY for event in scenario.events if isinstance(event, SetValue))
        self.layout.on_ethernet = of_ethernet or any(kind.on_ethernet for kind in self._faults)
        self.layout.management_gbps = next((rate for kind in self._faults if (rate := kind.management_gbps)), 10.0)
        self.overrides = [Override(event, self.layout) for event in scenario.events if isinstance(event, SetValue)]
        self.told = Told(self)
        self.builds = Builds(self)
        self._probes = [event for event in scenario.events if isinstance(event, ProbeOutput)]
        self._writer = lines.Writer(self.layout, self.runs, lambda at_s: self.wall_at_0 + at_s)
        self._order = itertools.count()
        self._lines: list[tuple[float, int, Callable[[], Iterable[Said]]]] = []
        self._changes: list[float] = []
        self._written: dict[str, deque[Said]] = {}
        self.boots: dict[int, float] = {}
        """Nodes that started again, and when (scenario seconds)."""
        self.character_c = 2.0 * self.noise.normal("character gpu_temp", self.layout.gpu_shape)
        self._thirst = self.noise.uniform("character power cap", self.layout.gpu_shape)
        self._schedule()
        self.effects = Effects(self.layout)
        self._start_s = 0.0
        self._base: dict[str, Totals] = {}
        self._sums: dict[str, Floats] = {}
        self.grown: dict[tuple[str, str], float] = {}
        """(Place, counter) -> what faults have counted before the present state, of what no column carries."""
        self._enter(0.0)
        # At the start every board has its working temperature and every load average has settled.
        self._temp_c = self.machine.heat_to_c.copy()
        self._load = machine.load(self.machine)
        self._base = first_totals(self.layout, self.noise, self.effects, self.machine, self._thirst)

    # ------------------------------------------------------------ time

    def advance_to(self, t_s: float) -> list[Said]:
        """Move to `t_s` scenario seconds; return the lines that were written since the last call, in order."""
        if t_s < self.t_s:
            raise InternalError(f"the twin cannot go back from {self.t_s} to {t_s} s")
        said: list[Said] = []
        while True:
            change = self._changes[0] if self._changes else np.inf
            line = self._lines[0][0] if self._lines else np.inf
            if min(change, line) > t_s:
                break
            if change <= line:
                while self._changes and self._changes[0] == change:
                    heapq.heappop(self._changes)
                self._leave(change)
                self._enter(change)
            else:
                said.extend(heapq.heappop(self._lines)[2]())
        self.t_s = t_s
        for one in said:
            if one.sink != "job":
                self._written.setdefault(one.node, deque(maxlen=_MOST_WRITTEN)).append(one)
        return said

    def written(self, node: str, *sinks: str) -> list[Said]:
        """Return what was written by now into the logs of a node, the last lines of them: kernel, syslog, fm, sel."""
        return [one for one in self._written.get(node, ()) if one.sink in sinks]

    def run_jobs(self, jobs: Iterable[Job]) -> None:
        """Run these jobs from now on: those that ran before go on, others begin, what is not named is gone."""
        self._leave(self.t_s)
        wanted = {job.id: job for job in jobs}
        kept = {id_: run for id_, run in self.runs.items() if id_ in wanted}
        # What writes lines holds these as well.
        self.layout.jobs.clear()
        self.layout.jobs.update(wanted)
        self.runs.clear()
        for id_, job in wanted.items():
            self.runs[id_] = kept.get(id_) or JobRun(job, self.layout, self.noise)
        self._enter(self.t_s)

    def inject(self, fault: Fault) -> None:
        """Let a fault come that the scenario does not have; it begins now at the earliest."""
        kind = KINDS[fault.kind](fault)
        if fault.at_s < self.t_s:
            raise InternalError(f"the twin cannot go back from {self.t_s} to {fault.at_s} s")
        self._leave(self.t_s)
        self._faults.append(kind)
        self.layout.on_ethernet |= kind.on_ethernet
        self.layout.management_gbps = kind.management_gbps or self.layout.management_gbps
        self._schedule_fault(kind)
        self._enter(self.t_s)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return every fault of the scenario, and those that came in beside it."""
        return tuple(kind.fault for kind in self._faults)

    def _schedule(self) -> None:
        """Note every moment that the scenario itself says, and the lines that come with it."""
        for kind in self._faults:
            self._schedule_fault(kind)
        for override in self.overrides:
            self._note(*override.moments())
        for event in self.scenario.events:
            if isinstance(event, LogLine):
                self._say(event.at_s, self._scenario_line(event))

    def _schedule_fault(self, kind: Kind) -> None:
        fault = kind.fault
        end_s = fault.until_s if fault.until_s is not None else np.inf
        first_s, last_s = kind.ramp()
        ramp = np.arange(first_s, last_s, 1.0) if last_s > first_s else ()
        moments = [0.0, *kind.changes(), *ramp, *((last_s,) if last_s > first_s else ())]
        moments.append(-kind.lead_s())
        # What would have shown before it was asked for did not.
        self._note(end_s, *(fault.at_s + float(age) for age in moments if self.t_s <= fault.at_s + age < end_s))
        for count in kind.counts(self.layout):
            if fault.at_s + count.at < end_s:
                self._say(fault.at_s + count.at, self._counted(count))
        for line in kind.written():
            if isinstance(line.at, str) and not kind.given(line.at):
                continue
            age_s = kind.number(line.at) if isinstance(line.at, str) else line.at
            if fault.at_s + age_s < end_s:
                self._say(fault.at_s + age_s, self._fault_line(kind, line, fault.at_s + age_s))

    def _note(self, *moments: float) -> None:
        for moment in moments:
            if moment < np.inf:
                heapq.heappush(self._changes, moment)

    def _say(self, at_s: float, make: Callable[[], Iterable[Said]]) -> None:
        heapq.heappush(self._lines, (at_s, next(self._order), make))

    def _fault_line(self, kind: Kind, line: Line, at_s: float) -> Callable[[], Iterable[Said]]:
        return lambda: self._writer.of_fault(kind, line, at_s)

    def _counted(self, count: Count) -> Callable[[], Iterable[Said]]:
        def add() -> Iterable[Said]:
            sums = self._sums.setdefault(count.metric, np.zeros(self.layout.port_shape))
            sums[count.place] += count.amount
            return ()

        return add

    def _scenario_line(self, event: LogLine) -> Callable[[], Iterable[Said]]:
        rank = None
        node = event.where.node
        if event.sink == "job":
            rank = max(0, event.where.index)
            node = self.layout.jobs[event.where.name].nodes[rank // self.layout.gpu_shape[1]]
        said = lines.Said(event.at_s, event.sink, self.layout.nodes[node], rank, event.line)
        return _one(said)

    # ------------------------------------------------------------ state between two changes

    def _enter(self, at_s: float) -> None:
        """Work out the state that holds from `at_s` to the next change."""
        effects = Effects(self.layout)
        for kind in self._faults:
            fault = kind.fault
            # A moment is a sum of numbers like 300 and 0.2; its age must not fall short of the 0.2 that it stands for.
            age_s = at_s - fault.at_s + 1e-9
            if age_s >= -kind.lead_s() and (fault.until_s is None or at_s < fault.until_s):
                kind.apply(effects, age_s)
        self.effects = effects
        for run in self.runs.values():
            was_hung, was_ended, was_lost, began_s = run.hung_since, run.ended_at, run.lost_at, run.began_s
            run.enter(at_s, effects)
            if run.began_s is not None and run.began_s != began_s:
                self._note(run.began_s + START_S)
                self._say_all(life.starting(self._writer, self.layout, run, effects, run.began_s))
                was_ended = was_lost = None
            if run.lost_at is not None and was_lost is None:
                self._say_all(life.peers_lost(self._writer, run, run.lost_at))
            if run.hung_since is not None and was_hung is None:
                self._note(run.hung_since + WATCHDOG_S)
            if run.ended_at is not None and was_ended is None:
                self._end(run, run.ended_at)
        self.machine = machine.machine(self.layout, effects, self.runs.values(), self.character_c, self._thirst)
        for override in self.overrides:
            override.force_rate(self.machine.rates, at_s)
            override.force_disks(self.machine.rates, at_s)
        for node, boot_s in effects.boots.items():
            if self.boots.get(node) != boot_s:
                self.boots[node] = boot_s
                self._restart(node)
        self._start_s = at_s
        shapes = {rate.shape for rate in self.machine.rates.values()}
        self._read_s = {shape: self._read_at(shape, at_s) for shape in shapes}

    def _leave(self, at_s: float) -> None:
        """Carry what has memory over to the next state."""
        self._temp_c = self.temp_c(at_s)
        self._load = self.load1(at_s)
        for metric in self.machine.rates:
            self._sums[metric] = self._sum(metric, at_s)
        for key, per_s in self.effects.grows.items():
            self.grown[key] = self.grown.get(key, 0.0) + per_s * (at_s - self._start_s)

    def _end(self, run: JobRun, at_s: float) -> None:
        """Let a job end: its ranks go one node after the other, each with its lines, Slurm's step last."""
        self._note(*(at_s + delay_s for delay_s in set(run.delay_s().tolist())))
        if run.by_watchdog:
            self._say_all(life.timed_out(self._writer, run, at_s))
        elif run.end is None and run.lost_at is None:
            self._say_all(life.peers_lost(self._writer, run, at_s))
        self._say_all(life.ending(self._writer, run, self.effects, at_s))

    def _say_all(self, said: Iterable[Said]) -> None:
        for line in said:
            self._say(line.at_s, _one(line))

    def _restart(self, node: int) -> None:
        for metric, base in self._base.items():
            base[node] = 0
            if metric in self._sums:
                self._sums[metric][node] = 0.0
        name = self.layout.nodes[node]
        # Disks keep what they count themselves.
        self.grown = {
            key: count for key, count in self.grown.items() if key[0].split("/")[0] != name or "/disk/" in key[0]
        }

    # ------------------------------------------------------------ readings with memory

    def temp_c(self, at_s: float) -> Floats:
        """Return the temperature of every GPU, without the sensor's noise."""
        now = self.machine
        return now.heat_to_c + (self._temp_c - now.heat_to_c) * np.exp(-(at_s - self._start_s) / now.heat_tau_s)

    def load1(self, at_s: float) -> Floats:
        """Return the load average of every node, without noise."""
        goal = machine.load(self.machine) + self.effects.plus.get("load1", 0.0)
        return np.asarray(goal + (self._load - goal) * np.exp(-(at_s - self._start_s) / LOAD_TAU_S))

    def total(self, metric: str, at_s: float) -> Totals:
        """Return the total of a counter at every GPU or port."""
        base = self._base[metric]
        if metric in self.machine.rates or metric in self._sums:
            total = base + self._sum(metric, at_s).astype(np.int64)
            if metric in PORT_COUNTERS and not metric.endswith("_data"):
                total = np.where(np.isin(base, PINNED), base, total)
            return np.minimum(total, LIMITS[metric])
        return base

    def grown_at(self, key: tuple[str, str]) -> float:
        """Return what faults have counted by now of a (place, counter) that no column carries."""
        return self.grown.get(key, 0.0) + self.effects.grows.get(key, 0.0) * (self.t_s - self._start_s)

    def _sum(self, metric: str, at_s: float) -> Floats:
        rate = self.machine.rates.get(metric)
        sums = self._sums.get(metric)
        if rate is None:
            return np.zeros(self._base[metric].shape) if sums is None else sums
        if metric in SLOW_COUNTERS:
            # What counts time cannot count more of it than has passed.
            grown = rate * (at_s - self._start_s)
        else:
            grown = rate * (self._read_at(rate.shape, at_s) - self._read_s[rate.shape])
        return grown if sums is None else sums + grown

    def _read_at(self, shape: tuple[int, ...], at_s: float) -> Floats:
        return at_s + _JITTER_S * self.noise.smooth("counter time", shape, at_s)

    # ------------------------------------------------------------ what is not a number of a column

    def job_states(self) -> tuple[JobState, ...]:
        """Return how each job stands."""
        return tuple(run.state(self.t_s) for run in self.runs.values())

    def slurm_state(self, node: int) -> str:
        """Return Slurm's word for a node (by position): allocated, idle, down*, inval ..."""
        forced = self.effects.slurm.get(node)
        if forced is not None:
            return forced
        busy = any(run.ended_at is None and node in run.job.nodes for run in self.runs.values())
        if node in self.effects.drains:
            return "draining" if busy else "drained"
        return "allocated" if busy else "idle"

    def slurm_reason(self, node: int) -> tuple[str, str, float] | None:
        """Return why a node (by position) is out of service, who said so and when (scenario seconds), None where nobody
        did."""
        if node in self.effects.drains:
            return self.effects.drains[node]
        word = self.effects.slurm.get(node, "")
        since_s = self.effects.slurm_since.get(node, 0.0)
        if word.startswith("down"):
            return "Not responding", "slurm", since_s
        if word == "inval":
            gpus = self.layout.gpu_shape[1]
            left = gpus - int((self.effects.gpu_missing[node] == Reason.LOST).sum())
            return f"gres/gpu count reported lower than configured ({left} < {gpus})", "slurm", since_s
        return None

    def link(self, node: int) -> str:
        """Return how a node can be reached: up, or power, hang, panic, silent."""
        if any(override.silences(node, self.t_s) for override in self.overrides):
            return "hang"
        return self.effects.links.get(node, "up")

    def probe_text(self, node: int, probe: str) -> str | None:
        """Return what an on-demand probe prints on a node (by position), or None when the scenario does not say."""
        return self.printed_at(self.layout.nodes[node], probe)

    def printed_at(self, place: str, probe: str) -> str | None:
        """Return what a tool prints about a place by its name: a node, `leaf/X`, `job/X`, `storage/X`; None when nobody
        says it."""
        for event in reversed(self._probes):
            active = event.at_s <= self.t_s and (event.until_s is None or self.t_s < event.until_s)
            if active and event.where.text == place and event.probe == probe:
                return event.text
        return self.effects.probes.get((place, probe)) or jobs.printed(self, place, probe)

    def shown(self) -> dict[tuple[str, str], float | str | None]:
        """Return (place, metric) -> value of what no column carries and a fault or the scenario gives."""
        values = dict(self.effects.shown)
        values.update(
            {
                (override.event.where.text, override.event.metric): override.event.value
                for override in self.overrides
                if override.scope is None and override.is_active(self.t_s)
            }
        )
        return values


def _one(said: Said) -> Callable[[], Iterable[Said]]:
    return lambda: (said,)
