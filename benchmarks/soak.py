"""A day of a healthy fleet, and what is falsely found in it: `python -m benchmarks.soak [--hours 24] [--nodes 32]`.

Frames, parts, job logs and the scheduler go the way of real ones through parsing and folding into all bundled rules, in
virtual time. Prints what was found, and how many findings a day that is; remarks count apart: about nodes that the
scheduler has out of service, and about old counts. `--fault KIND` injects three faults of a kind and prints which were
found, where, and after how long.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import msgspec

from benchmarks.soak_life import HOUR_S, Life, fault
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.job_gpus import with_gpus
from stethoscope.analysis.job_judge import JobJudge
from stethoscope.analysis.job_list import known_nodes
from stethoscope.analysis.job_table import job_table
from stethoscope.analysis.rules import Engine
from stethoscope.collect.watchlist import watch_groups
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.ids import node_of
from stethoscope.model.job import JobLog
from stethoscope.model.metric import Scope
from stethoscope.parse.stream import parse
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.parts import Order
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from stethoscope.specs.duration import duration_s
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.specs.scenario import Fault

TICK_S, LOOK_S = 5.0, 10.0
"""How often nodes send, and rules look."""
LATE, BROKEN = 5e-4, 2e-5
"""Shares of lines that do not come, and of times at which the connection breaks for a moment."""
PACE = 4.0
"""What is read every half a minute is read so many times less often: a day has enough of it."""
SCHEDULER_S = 30.0
_OUT = ("drained", "draining", "maintenance")


@dataclass(slots=True)
class Seen:
    """One finding of the day."""

    finding: Finding
    from_s: float
    to_s: float | None = None


class Spec:
    """A node as the fleet file would name it."""

    def __init__(self, life: Life, node: int) -> None:
        """Take names from the simulated fleet."""
        fleet = life.scenario.fleet
        self.name = life.layout.nodes[node]
        self.tick_s = TICK_S
        self.expected_gpus = 8
        self.rack, self.pod = fleet.rack(node), fleet.pod(node)
        self.leaves = tuple((f"mlx5_{port}", fleet.leaf(node, port)) for port in range(life.layout.port_shape[1]))


class Soak:
    """A console that watches a life in virtual time."""

    def __init__(self, life: Life) -> None:
        """Connect to every node."""
        self.life = life
        catalogue = load_catalogue()
        self.rules = load_rules(catalogue, load_root_causes())
        self.catalogue = catalogue
        self.state = FleetState(catalogue, [Spec(life, node) for node in range(len(life.layout.nodes))], "soak")
        self.engine = Engine(self.rules, catalogue)
        self.seen: dict[str, Seen] = {}
        self.past: list[Seen] = []
        self._orders = msgspec.convert(watch_groups(sudo=True, pace=PACE), tuple[Order, ...])
        self._speakers: dict[int, Speaker] = {}
        self._drawn: dict[tuple[str, int], list[list[float]]] = {}
        self._judges: dict[str, JobJudge] = {}
        self._version = 0
        self._random = Random(life.scenario.seed)

    def tick(self, t_s: float) -> None:
        """Let everybody speak at `t_s`, then look."""
        life = self.life
        changed = life.move(t_s)
        if changed or t_s % SCHEDULER_S == 0:
            self.state.set_scheduler(life.scheduler())
        readings = Readings(life)
        for node, name in enumerate(life.layout.nodes):
            self._speak(node, name, readings, t_s)
        if t_s % LOOK_S == 0:
            self.look(self._with_jobs(self.state.snapshot(life.wall_at_0 + t_s, t_s), t_s), t_s)

    def _speak(self, node: int, name: str, readings: Readings, t_s: float) -> None:
        wall = self.life.wall_at_0 + t_s
        if self.life.is_off(node):
            if self._speakers.pop(node, None) is not None:
                self.state.set_link(name, Link(LinkState.UNREACHABLE, since=wall, detail="no answer"))
            return
        # Lines are late now and then, and a connection breaks.
        chance = self._random.random()
        if chance < LATE:
            return
        if chance > 1 - BROKEN and node in self._speakers:
            del self._speakers[node]
            self.state.set_link(name, Link(LinkState.CLOSED, since=wall, detail="connection lost"))
            return
        speaker = self._speakers.get(node)
        lines = []
        if speaker is None:
            speaker = self._speakers[node] = Speaker(self.life, node, TICK_S, self._drawn)
            speaker.watch(self._orders)
            self.state.set_link(name, Link(LinkState.STARTING, since=wall))
            self.state.set_link(name, Link(LinkState.LIVE, since=wall))
            lines = [speaker.hello()]
        lines += [speaker.frame(readings), *speaker.parts(readings, t_s, 16)]
        for line in lines:
            raw = line.rstrip(b"\n")
            self.state.apply(Frame(name, wall, t_s, raw), parse(raw))

    def _with_jobs(self, snapshot: FleetSnapshot, t_s: float) -> FleetSnapshot:
        """Return the snapshot with what the logs of jobs say."""
        life, wall = self.life, snapshot.wall
        for run, line in life.log_lines(t_s):
            judge = self._judges.setdefault(run.job.id, JobJudge(wall))
            judge.reader.feed(line, now=wall, is_new=True)
        for id_ in self._judges.keys() - life.active.keys():
            del self._judges[id_]
        log = JobLog(path="/shared/log", read_at=wall)
        jobs = {job.id: job for job in snapshot.jobs}
        standings = {
            id_: with_gpus(judge.standing(log, wall, may_hang=True), known_nodes(jobs[id_], snapshot), snapshot)
            for id_, judge in self._judges.items()
            if id_ in jobs
        }
        self._version += 1
        rows = [standings[job.id].values if job.id in standings else {} for job in snapshot.jobs]
        table = job_table(rows, self.catalogue, version=self._version)
        return replace(snapshot, standings=standings, tables={**snapshot.tables, Scope.JOB: table})

    def look(self, snapshot: FleetSnapshot, t_s: float) -> None:
        """Note which findings are new, and which are over."""
        active = {finding.id: finding for finding in self.engine.evaluate(snapshot) if finding.state == "active"}
        for id_, finding in active.items():
            if id_ not in self.seen:
                self.seen[id_] = Seen(finding, t_s)
                self.past.append(self.seen[id_])
            self.seen[id_].finding = finding
        for id_ in self.seen.keys() - active.keys():
            self.seen.pop(id_).to_s = t_s


def is_excused(finding: Finding) -> bool:
    """Tell whether the finding is a remark: about nodes that somebody took out of service, or of something that is
    healthy by its own words."""
    out = any(f" · {word}" in finding.summary for word in _OUT)
    return finding.severity is Severity.INFO and (out or finding.root_cause == "healthy")


def hms(seconds: float) -> str:
    """Return a time of the simulated day."""
    return f"{int(seconds // 3600):02d}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"


def watched(soak: Soak, hours: float, *, quiet: bool = False) -> None:
    """Play the life of `soak`, telling on stderr what is found and how far it is."""
    before, told_before = time.perf_counter(), 0
    for number in range(1, int(hours * HOUR_S / TICK_S) + 1):
        soak.tick(number * TICK_S)
        for found in () if quiet else soak.past[told_before:]:
            print(f"  {told(found)}", file=sys.stderr, flush=True)
        told_before = len(soak.past)
        if not quiet and number % int(HOUR_S / TICK_S) == 0:
            spent = time.perf_counter() - before
            print(f"  {number * TICK_S / HOUR_S:.0f} h in {spent:.0f} s", file=sys.stderr, flush=True)


def faults(kind: str, nodes: int, hours: float, seed: int) -> tuple[Fault, ...]:
    """Return three faults of a kind at random places, spread over the time behind the first half hour."""
    random, form = Random(seed), KINDS[kind].form()
    parts = {"gpu": lambda: f"/gpu/{random.randrange(8)}", "ib": lambda: f"/ib/mlx5_{random.randrange(8)}"}
    target = next((name for name in parts if name in form.targets), "node")
    params = {
        name: duration_s(param.default) if param.unit == "s" and isinstance(param.default, str) else param.default
        for name, param in form.params.items()
    }
    made = []
    for number in range(3):
        where = f"gpu-{random.randrange(nodes) + 1:03d}" + (parts[target]() if target in parts else "")
        made.append(fault(nodes, kind, where, HOUR_S * (0.5 + (hours - 0.5) * number / 3), params))
    return tuple(made)


def of_fault(one: Fault, seen: Sequence[Seen]) -> list[Seen]:
    """Return what was found on the node of a fault after it began."""
    node = one.where.text.split("/")[0]
    return [
        found
        for found in seen
        if found.from_s >= one.at_s and any(node_of(place) == node for place in found.finding.where)
    ]


def report(soak: Soak, hours: float, injected: Sequence[Fault], spent_s: float) -> int:
    """Print what was found; return how much of it falsely."""
    rest = [one for one in soak.past if not is_excused(one.finding)]
    remarks = len(soak.past) - len(rest)
    for one in injected:
        hits = of_fault(one, rest)
        said = "not found"
        if hits:
            said = f"{hits[0].finding.rule} after {hits[0].from_s - one.at_s:.0f} s: {hits[0].finding.summary}"
        print(f"{hms(one.at_s)} {one.kind} at {one.where.text}: {said}")
        rest = [found for found in rest if found not in hits]
    for found in rest:
        print(told(found))
    counts = Counter(found.finding.rule for found in rest)
    listed = ", ".join(f"{count} {rule}" for rule, count in counts.most_common()) or "none"
    print(
        f"{hours:g} h of {len(soak.life.layout.nodes)} nodes in {spent_s:.0f} s, {len(soak.rules)} rules: "
        f"{len(rest)} findings ({listed}), {len(rest) * 24 / hours:.1f} in 24 h; {remarks} remarks"
    )
    return len(rest)


def told(found: Seen) -> str:
    """Return one finding as a line."""
    finding = found.finding
    until = "" if found.to_s is None else f" until {hms(found.to_s)}"
    more = f" and {len(finding.where) - 3} more" if len(finding.where) > 3 else ""
    where = ", ".join(finding.where[:3]) + more
    return f"{hms(found.from_s)}{until} {finding.severity.value} {finding.rule}: {finding.summary} [{where}]"


def main() -> int:
    """Play a day and print what was found; fail when anything was found falsely."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=sorted(KINDS), help="inject three faults of this kind")
    options = parser.parse_args()
    injected = faults(options.fault, options.nodes, options.hours, options.seed) if options.fault else ()
    before = time.perf_counter()
    soak = Soak(Life(options.nodes, options.seed, injected))
    watched(soak, options.hours)
    return int(report(soak, options.hours, injected, time.perf_counter() - before) > 0)


if __name__ == "__main__":
    sys.exit(main())
