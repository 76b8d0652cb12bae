"""A scenario begun from a recording: the fleet, its jobs and log lines as they were, what was found as comments."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.decode import Scanner
from stethoscope.model.ids import fold
from stethoscope.model.logs import Origin
from stethoscope.model.metric import Missing, Scope
from stethoscope.session.open import session_maker
from stethoscope.session.player import Player
from stethoscope.sim.board import boards
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.specs.scenario import SCHEMA
from stethoscope.specs.signature import load_signatures
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.event import LogEvent
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job
    from stethoscope.store.tape import Tape

LOOK_S = 10.0
MOST_LINES = 120
"""Log lines of each kind that are taken over; a flood is one line."""
MOST_FOUND = 60
_LONGEST_S = 6 * 3600.0
_STEP_S, _BATCH = 1.0, 256.0
"""Of a job whose log was not read."""
_NAME = re.compile(r"[^a-z0-9-]+")
_DEFAULT_GPU = "H100-SXM5-80GB"


@dataclass(slots=True)
class _Told:
    """A finding, and when it was found and over (seconds of the recording)."""

    finding: Finding
    from_s: float
    to_s: float | None = None


@dataclass(slots=True)
class _Seen:
    """What was seen while the recording was played."""

    last: FleetSnapshot | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    steps: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """By job: healthy seconds and samples of a step."""
    found: dict[str, _Told] = field(default_factory=dict)
    kernel: list[tuple[float, LogEvent]] = field(default_factory=list)
    gpus: Counter[str] = field(default_factory=Counter)
    drivers: Counter[str] = field(default_factory=Counter)


def scenario_from(tape: Tape, name: str) -> str:
    """Return the text of a scenario of what was recorded; it can be played, and expects `unknown`."""
    player = Player(tape, session_maker(remember=False))
    end_s = min(tape.end, _LONGEST_S)
    seen = _Seen()
    held: set[int] = set()
    t_s = 0.0
    while True:
        t_s = min(end_s, t_s + LOOK_S)
        player.play(t_s)
        snapshot = player.session.snapshot(latest=True)
        _look(seen, snapshot, t_s)
        for event in snapshot.events:
            if id(event) not in held:
                seen.kernel.append((max(0.0, t_s - max(0.0, snapshot.wall - event.at)), event))
        held = set(map(id, snapshot.events))
        if t_s >= end_s:
            break
    return _Text(tape, name, end_s, seen).text()


def _look(seen: _Seen, snapshot: FleetSnapshot, t_s: float) -> None:
    seen.last = snapshot
    for job in snapshot.jobs:
        seen.jobs.setdefault(job.id, job)
        standing = snapshot.standings.get(job.id)
        if standing is not None and standing.last is not None:
            known = seen.steps.get(job.id, (None, None))
            step_s = standing.usual.get("job_step_time") or standing.values.get("job_step_time") or known[0]
            seen.steps[job.id] = step_s, standing.last.batch or known[1]
    for node in snapshot.nodes:
        if node.gpus:
            seen.gpus[node.gpus[0].name] += 1
        if driver := node.words.get("driver_version"):
            seen.drivers[driver] += 1
    active = {finding.id for finding in snapshot.findings if finding.state == "active"}
    for finding in snapshot.findings:
        if finding.id in active and finding.severity.value.startswith("P"):
            told = seen.found.setdefault(finding.id, _Told(finding, t_s))
            told.finding, told.to_s = finding, None
    for id_, told in seen.found.items():
        if id_ not in active and told.to_s is None:
            told.to_s = t_s


class _Text:
    """Writes one scenario."""

    def __init__(self, tape: Tape, name: str, end_s: float, seen: _Seen) -> None:
        assert seen.last is not None
        self._tape, self._end_s, self._seen, self._last = tape, end_s, seen, seen.last
        self._id = _NAME.sub("-", name.lower()).strip("-") or "recorded"
        width = max(3, len(str(len(self._last.nodes))))
        self._names = {node.name: f"gpu-{at:0{width}d}" for at, node in enumerate(self._last.nodes, 1)}
        self._jobs: dict[str, list[str]] = {}

    def text(self) -> str:
        duration_s = max(60, math.ceil(self._end_s))
        # What is written of jobs decides which ranks log lines can be of.
        jobs = self._job_lines()
        lines = [
            f"schema: {SCHEMA}",
            f"id: {self._id}",
            f"title: {_quoted(f'What was recorded on {self._last.fleet}')}",
            "source: recorded",
            "seed: 1",
            f"duration: {duration_s}s",
            *self._fleet_lines(),
            *jobs,
            *self._found_lines(),
            *self._event_lines(duration_s),
            "background: []",
            "# What a right diagnosis says. Until you know it stays unknown.",
            "expect:",
            "  scope: unknown            # global: all ranks are hit alike; local: one is late or gone; none: healthy",
            "  layer: none               # the layer of the root cause",
            "  root_cause: unknown       # an id of root_causes.yaml, such as ib_link_fault",
            "  culprits: []              # the smallest part to drain, swap, reset or set right: gpu-007/ib/mlx5_3",
            "  not_blamed: []",
            "  detect_within: null       # such as 90s, from the start of the fault",
            f"  severity: {self._worst()}",
        ]
        return "\n".join(lines) + "\n"

    def _worst(self) -> str:
        severities = [told.finding.severity for told in self._seen.found.values()]
        return min(severities, key=lambda one: one.rank).value if severities else "P2"

    def _fleet_lines(self) -> list[str]:
        nodes = self._last.nodes
        gpus = max((len(node.gpus) for node in nodes), default=0) or 8
        ports = min(16, max((len(node.ports) for node in nodes), default=0))
        racks, pods = (Counter(words) for words in ([node.rack for node in nodes], [node.pod for node in nodes]))
        gpu, remark = self._gpu()
        lines = [f"# {self._names[name]} was {clean(name, 80)}" for name in self._names if self._names[name] != name]
        lines += [
            "fleet:",
            f"  nodes: {len(nodes)}",
            f"  gpus_per_node: {min(16, gpus)}",
            f"  gpu: {gpu}{remark}",
            f"  ib_ports_per_node: {ports}",
            f"  ib_rate_gbps: {self._rate():g}",
            f"  nodes_per_rack: {max(racks.values()) if any(racks) else 4}",
            f"  nodes_per_pod: {max(pods.values()) if any(pods) else len(nodes)}",
        ]
        if self._seen.drivers:
            lines.append(f"  driver: {_quoted(self._seen.drivers.most_common(1)[0][0])}")
        return lines

    def _gpu(self) -> tuple[str, str]:
        known = {board.name: key for key, board in boards().items()}
        if not self._seen.gpus:
            return _DEFAULT_GPU, "   # no GPU was seen"
        name = self._seen.gpus.most_common(1)[0][0]
        if name in known:
            return known[name], ""
        return _DEFAULT_GPU, f"   # it was {clean(name, 60)}, which has no model here"

    def _rate(self) -> float:
        table = self._last.tables[Scope.PORT]
        if "ib_port_rate" not in table.index:
            return 400.0
        rates: Counter[float] = Counter()
        for node in self._last.nodes:
            for row in self._last.rows(node, Scope.PORT):
                rate = table.get("ib_port_rate", row)
                if not isinstance(rate, Missing) and rate > 0:
                    rates[rate] += 1
        return rates.most_common(1)[0][0] if rates else 400.0

    def _job_lines(self) -> list[str]:
        lines: list[str] = []
        taken: set[str] = set()
        for job in self._seen.jobs.values():
            nodes = [name for name in job.nodes if name in self._names]
            if not nodes or re.fullmatch(r"[A-Za-z0-9_.:+@-]+", job.id) is None:
                continue
            if taken & set(nodes):
                lines.append(f"# job {job.id} had nodes that another one had before; it is left out")
                continue
            taken.update(nodes)
            self._jobs[job.id] = nodes
            step_s, batch = self._seen.steps.get(job.id, (None, None))
            guessed = "   # nothing is known of its steps" if step_s is None else ""
            lines += [
                f"- id: {_quoted(job.id)}",
                f'  nodes: "{fold(self._names[name] for name in nodes)}"',
                f"  step_time_s: {step_s or _STEP_S:.4g}{guessed}",
                "  shares: {compute: 0.62, comm: 0.25, data: 0.05, other: 0.08}   # usual ones: nobody measured them",
                f"  samples_per_step: {batch or _BATCH:g}",
            ]
        return ["jobs:", *lines] if self._jobs else [*lines, "jobs: []"]

    def _found_lines(self) -> list[str]:
        told = sorted(self._seen.found.values(), key=lambda one: one.from_s)
        if not told:
            return ["# Nothing was found in it."]
        lines = ["# What was found, and kinds of faults that lead to it (stethoscope sim --list says more of them):"]
        for one in told[:MOST_FOUND]:
            finding = one.finding
            until = "to the end" if one.to_s is None else f"until {one.to_s:.0f}s"
            places = ", ".join(self._place(place) for place in finding.where[:3])
            more = f" and {len(finding.where) - 3} more" if len(finding.where) > 3 else ""
            lines.append(
                f"#   {one.from_s:.0f}s {until}: {finding.severity.value} {finding.rule} {places}{more}: "
                f"{clean(finding.summary, 160)}"
            )
            kinds = [name for name, kind in KINDS.items() if kind.root_cause == finding.root_cause != "healthy"]
            if kinds and finding.where:
                at_s = max(0.0, one.from_s - 2 * LOOK_S)
                lines += [
                    f"#     - {{at: {at_s:.0f}s, fault: {kind}, where: {self._place(finding.where[0])}}}"
                    for kind in kinds[:4]
                ]
        if len(told) > MOST_FOUND:
            lines.append(f"#   and {len(told) - MOST_FOUND} more")
        return lines

    def _place(self, place: str) -> str:
        node, slash, rest = place.partition("/")
        return f"{self._names.get(node, node)}{slash}{rest}"

    def _event_lines(self, duration_s: int) -> list[str]:
        lines = ["# Put the cause here: - {at: 300s, fault: ib_optic_degraded, where: gpu-007/ib/mlx5_3}", "events:"]
        events = sorted([*self._kernel(), *self._printed()], key=lambda one: one[0])
        for at_s, sink, where, text in events:
            at = f"{min(at_s, duration_s):.1f}".rstrip("0").rstrip(".")
            lines.append(f"- {{at: {at}s, {sink}: {{where: {where}, line: {_quoted(text)}}}}}")
        if not events:
            lines[-1] = "events: []"
        return lines

    def _kernel(self) -> list[tuple[float, str, str, str]]:
        return _once(
            [
                (at_s, "kernel_log", self._names[event.node], event.text)
                for at_s, event in sorted(self._seen.kernel, key=lambda one: one[0])
                if event.source == "kernel" and event.node in self._names
            ]
        )

    def _printed(self) -> list[tuple[float, str, str, str]]:
        """Return what jobs printed that means something; the twin prints their steps by itself."""
        signatures = load_signatures()
        found: list[tuple[float, str, str, str]] = []
        for t_s, note in _job_notes(self._tape):
            if note["id"] not in self._jobs or not note.get("is_new", True) or t_s > self._end_s:
                continue
            scanner = Scanner(signatures, now=self._tape.wall_span[0])
            for line in note.get("lines", ()):
                for event in scanner.feed_line(str(line), Origin()):
                    if event.role not in ("benign", "context"):
                        found.append(
                            (t_s, "job_log", self._rank(note["id"], event.origin.rank), clean(str(line), 2000))
                        )
                        break
        return _once(found)

    def _rank(self, job: str, rank: int | None) -> str:
        gpus = min(16, max((len(node.gpus) for node in self._last.nodes), default=0) or 8)
        if rank is None or rank >= gpus * len(self._jobs[job]):
            return f"job/{job}"
        return f"job/{job}/rank/{rank}"


def _job_notes(tape: Tape) -> list[tuple[float, Mapping[str, Any]]]:
    """Return when lines of logs of jobs were read, with the note about them."""
    from stethoscope.session.job_notes import JOB_LOG
    from stethoscope.store.format import RecordType

    notes: list[tuple[float, Mapping[str, Any]]] = []
    for played in tape.play(0.0):
        if played.record.type != RecordType.NOTE:
            continue
        try:
            note = json.loads(played.record.payload)
        except ValueError:
            continue
        value = note.get("value") if isinstance(note, dict) and note.get("kind") == JOB_LOG else None
        if isinstance(value, dict) and isinstance(value.get("id"), str) and isinstance(value.get("lines"), list):
            notes.append((played.t, value))
    return notes


def _once(lines: Sequence[tuple[float, str, str, str]]) -> list[tuple[float, str, str, str]]:
    """Return the first of lines that differ in numbers alone, at the same place."""
    kept: dict[tuple[str, str], tuple[float, str, str, str]] = {}
    for line in lines:
        kept.setdefault((line[2], re.sub(r"[0-9]+", "#", line[3])), line)
    return list(kept.values())[:MOST_LINES]


def _quoted(text: str) -> str:
    """Return a text as YAML reads it back whatever is in it."""
    return json.dumps(clean(text, 4000), ensure_ascii=True)
