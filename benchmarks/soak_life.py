"""A healthy fleet as it lives: jobs that come and go, warm up, save and evaluate, nodes that are drained and restarted.

Everything follows from the seed. The twin of the simulated fleet does the machines; what happens to them is decided
here, at ticks of the console.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.scheduler import Job as SlurmJob
from stethoscope.model.scheduler import SchedulerReading, SchedulerState
from stethoscope.sim.machine import BUSY, CONTEXT, IDLE
from stethoscope.sim.twin import Twin
from stethoscope.specs.place import FleetShape, place
from stethoscope.specs.scenario import Fault, Job, Scenario, Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_S = 3600.0
SAVE_S, EVALUATE_S = 1800.0, 6300.0
"""How often a job saves a checkpoint, and evaluates."""
LOADING_S, INITIAL_S, WARM_S = 35.0, 120.0, 240.0
"""Ages until which a job loads its program, then data and communicators, then compiles and warms up."""
SIZES = (1, 2, 2, 4, 4, 8, 8, 16)
OFF_S, REPAIR_S = 360.0, 2400.0
"""A node in maintenance is off for so long, and out of service for so long."""
SLOT_S = 600.0
"""In each of these a port somewhere damages one symbol, and all count a little of what counts on any busy link."""
OLD_PORTS = 0.06
"""Share of ports that have high old counts, or counters that stand at their end."""
DAY_K = 2.5
"""By so much the air of the room swings around its mean in a day."""


@dataclass(slots=True)
class Run:
    """One job of this life."""

    job: Job
    start_s: float
    end_s: float
    lags_s: dict[int, float]
    """How late each node is with everything."""
    saving_s: float
    evaluating_s: float
    shares: dict[int, float]
    """Power of each node's stage of the model, as a share of the usual."""
    unused: tuple[int, int] | None = None
    """Node and GPU that it holds and leaves alone."""
    printed_step: int = 0
    printed_phase: str = "steps"

    def phase(self, node: int, t_s: float) -> str:
        """Return what the node's ranks do."""
        age_s = t_s - self.start_s - self.lags_s[node]
        for until_s, name in ((LOADING_S, "loading"), (INITIAL_S, "initial"), (WARM_S, "warm")):
            if age_s < until_s:
                return name
        if age_s % SAVE_S < self.saving_s and age_s > SAVE_S:
            return "saving"
        return "evaluating" if age_s % EVALUATE_S < self.evaluating_s and age_s > EVALUATE_S else "steps"


@dataclass(frozen=True, slots=True)
class Visit:
    """One node in maintenance."""

    node: int
    asked_s: float
    """When it was drained; its job may go on to its end."""


class Life(Twin):
    """The twin with a life of its own; `move` brings it to the next tick."""

    def __init__(self, nodes: int, seed: int, faults: tuple[Fault, ...] = (), rails: int = 8) -> None:
        """Begin at midnight with a fleet that has worked for days."""
        self._random = Random(seed)
        self.active: dict[str, Run] = {}
        self._visits: dict[int, Visit] = {}
        self._off: set[int] = set()
        self._restarted: set[int] = set()
        self._free_at = dict.fromkeys(range(nodes), 0.0)
        self._number = 4200
        self._wanted = self._random.choice(SIZES)
        self._next_visit_s = 2 * HOUR_S * self._random.random()
        self._state: object = None
        shape = FleetShape(nodes=nodes, gpus_per_node=8, gpu="H100-SXM5-80GB", ib_ports_per_node=rails)
        old = tuple(_old(nodes, rails, Random(seed + 1)))
        super().__init__(
            Scenario("soak", "a healthy day", "constructed", seed, 48 * HOUR_S, shape, (), (*old, *faults), None),
            1_773_446_400.0,
        )
        self.move(0.0)

    # ------------------------------------------------------------ what happens

    def move(self, t_s: float) -> bool:
        """Go to `t_s`; return whether jobs or nodes changed, which the scheduler knows."""
        self.advance_to(t_s)
        changed = self._end_jobs(t_s) | self._maintain(t_s) | self._start_jobs(t_s)
        if changed:
            self.run_jobs(run.job for run in self.active.values())
        state = (
            tuple((id_, run.phase(node, t_s)) for id_, run in self.active.items() for node in run.job.nodes),
            t_s // 600,
            tuple(self._off),
        )
        if state != self._state and not changed:
            self.run_jobs(run.job for run in self.active.values())
        self._state = state
        return changed

    def _end_jobs(self, t_s: float) -> bool:
        ended = [id_ for id_, run in self.active.items() if t_s >= run.end_s]
        for id_ in ended:
            for node in self.active.pop(id_).job.nodes:
                self._free_at[node] = t_s + 60 + 900 * self._random.random()
        return bool(ended)

    def _start_jobs(self, t_s: float) -> bool:
        free = [node for node, at_s in self._free_at.items() if at_s <= t_s and node not in self._visits]
        started = False
        # The first of the queue waits until there are enough nodes for it.
        while free and (t_s == 0 or self._wanted <= len(free)):
            self._start(tuple(sorted(self._random.sample(free, min(self._wanted, len(free))))), t_s)
            self._wanted = self._random.choice(SIZES)
            free = [node for node in free if self._free_at[node] <= t_s]
            started = True
        return started

    def _start(self, nodes: tuple[int, ...], t_s: float) -> None:
        random = self._random
        self._number += 1
        compute, comm = random.uniform(0.5, 0.7), random.uniform(0.12, 0.28)
        step_s = random.uniform(1.5, 9.0)
        job = Job(
            str(self._number), nodes, step_s, Shares(compute, comm, 0.06, 1 - compute - comm - 0.06),
            8.0 * len(nodes) * random.choice((4, 8, 16)), "megatron",
        )  # fmt: skip
        staged = random.random() < 0.4 and len(nodes) >= 4
        self.active[job.id] = Run(
            job,
            t_s if t_s > 0 else -HOUR_S * random.uniform(0.3, 3.0),
            t_s + HOUR_S * random.uniform(0.8, 7.0),
            {node: random.uniform(0.0, 9.0) for node in nodes},
            random.uniform(25.0, 75.0),
            random.uniform(120.0, 280.0),
            {node: random.choice((0.93, 1.0, 1.05)) if staged else 1.0 for node in nodes},
            (nodes[0], random.randrange(8)) if len(nodes) == 1 and random.random() < 0.4 else None,
        )
        for node in nodes:
            self._free_at[node] = np.inf

    def _maintain(self, t_s: float) -> bool:
        """Drain a node now and then, switch it off and on again once its job is over, and give it back."""
        changed = False
        if t_s >= self._next_visit_s:
            self._next_visit_s = t_s + HOUR_S * self._random.uniform(2.0, 5.0)
            node = self._random.choice([node for node in self._free_at if node not in self._visits])
            self._visits[node] = Visit(node, t_s)
            changed = True
        busy = {node for run in self.active.values() for node in run.job.nodes}
        for node, visit in list(self._visits.items()):
            if node in busy:
                self._visits[node] = Visit(node, t_s)
                continue
            age_s = t_s - visit.asked_s
            if age_s >= REPAIR_S:
                del self._visits[node]
                self._free_at[node] = t_s
                self._restarted.discard(node)
                changed = True
            elif 300 <= age_s < 300 + OFF_S:
                self._off.add(node)
            elif node in self._off:
                self._off.discard(node)
                self._restarted.add(node)
                self.boots[node] = t_s
                self._restart(node)
        return changed

    def is_off(self, node: int) -> bool:
        """Tell whether a node has no power now."""
        return node in self._off or self.link(node) != "up"

    # ------------------------------------------------------------ what the machines make of it

    def _enter(self, at_s: float) -> None:
        super()._enter(at_s)
        now = self.machine
        now.heat_to_c = now.heat_to_c + DAY_K * np.sin(2 * np.pi * (at_s / (24 * HOUR_S) - 0.3))
        self._count(at_s)
        limit_w = self.layout.board.power_w
        for run in self.active.values():
            for node in run.job.nodes:
                if self.runs.get(run.job.id) is None:
                    continue
                now.power_w[node] *= run.shares[node]
                self._apply(run.phase(node, at_s), node, limit_w)
            if run.unused is not None:
                node, gpu = run.unused
                now.context[node, gpu] = False
                now.util[node, gpu] = now.copy_util[node, gpu] = 0.0
                now.power_w[node, gpu] = IDLE * limit_w
                now.clock_mhz[node, gpu] = 345.0
                now.reasons[node, gpu] = 1
                for metric in ("nvlink_rx", "nvlink_tx"):
                    now.rates[metric][node, gpu] = 0.0
                now.pace[node, gpu] = 0.0

    def _count(self, at_s: float) -> None:
        """Let counters grow that grow on a healthy fleet too."""
        slot = int(at_s // SLOT_S)
        random = Random(f"{self.scenario.seed} {slot}")
        rates, nodes, ports = self.machine.rates, *self.layout.port_shape
        busy = self.machine.working.any(axis=1)[:, None]
        for metric, rate in (("ib_hw_out_of_sequence", 0.4), ("ib_hw_packet_seq_err", 0.002)):
            rates[metric] = rate * np.broadcast_to(busy, self.layout.port_shape).astype(np.float64)
        rates["ib_symbol_error"] = np.zeros(self.layout.port_shape)
        rates["ib_symbol_error"][random.randrange(nodes), random.randrange(ports)] = 1.2 / SLOT_S
        self._read_s.setdefault(self.layout.port_shape, self._read_at(self.layout.port_shape, at_s))
        # A corrected error of memory, and packets that were sent again, once in some hours.
        for metric, every_s in (("gpu_ecc_corr_volatile_dram", 4 * HOUR_S), ("gpu_pcie_replay", 2 * HOUR_S)):
            for number in range(int(at_s // every_s)):
                chosen = Random(f"{self.scenario.seed} {metric} {number}")
                place = f"{self.layout.nodes[chosen.randrange(nodes)]}/gpu/{chosen.randrange(8)}"
                before = self.effects.shown.get((place, metric), 2.0)
                self.effects.shown[place, metric] = float(before or 0.0) + 1.0

    def _apply(self, phase: str, node: int, limit_w: float) -> None:
        now = self.machine
        if phase == "steps":
            return
        util, power, pace = {
            "loading": (0.0, IDLE, 0.0), "initial": (4.0, CONTEXT, 0.0), "warm": (70.0, 0.35, 0.3),
            "saving": (99.0, 0.24 * BUSY, 0.0), "evaluating": (86.0, 0.55, 0.5),
        }[phase]  # fmt: skip
        now.util[node], now.power_w[node] = util, power * limit_w
        now.copy_util[node] *= pace
        now.pace[node] *= pace
        now.working[node] = pace > 0
        now.loading[node] *= max(pace, 0.1)
        now.clock_mhz[node] = self.layout.board.sm_mhz
        now.reasons[node] = 0
        if phase == "loading":
            now.context[node] = False
            now.clock_mhz[node], now.reasons[node] = 345.0, 1
        for metric in ("ib_port_xmit_data", "ib_port_rcv_data", "ib_port_xmit_wait", "nvlink_rx", "nvlink_tx"):
            now.rates[metric][node] *= pace
        if phase in ("saving", "initial"):
            much = 1.0 if phase == "saving" else 0.15
            for metric, value in (
                ("cpu_iowait", 9.0), ("psi_io_some", 30.0), ("psi_io_full", 22.0), ("mem_dirty_writeback", 90_000.0),
                ("procs_blocked", 6.0),
            ):  # fmt: skip
                self.effects.add(metric, much * value, node)
            now.rates["disk_writes"][node, 1:] += 4000 * much
            now.rates["disk_write_time"][node, 1:] += 4000 * 0.4 * much
            now.rates["disk_io_time"][node, 1:] += 600 * much

    # ------------------------------------------------------------ what others say

    def scheduler(self) -> SchedulerReading:
        """Return what Slurm says now."""
        nodes, wall = {}, self.wall_at_0
        jobs_of = {node: run.job.id for run in self.active.values() for node in run.job.nodes}
        for node, name in enumerate(self.layout.nodes):
            words = ["allocated" if node in jobs_of else "idle"]
            visit = self._visits.get(node)
            reason = {"reason": "maint: firmware", "owner": "root", "since": wall + visit.asked_s} if visit else {}
            jobs = (jobs_of[node],) if node in jobs_of else ()
            nodes[name] = SchedulerState((*words, "drain") if visit else tuple(words), jobs=jobs, **reason)  # type: ignore[arg-type]
        jobs = tuple(
            SlurmJob(
                run.job.id, f"train-{run.job.id}", "running", "alice", "train",
                tuple(self.layout.nodes[node] for node in run.job.nodes), started=wall + run.start_s,
            )
            for run in self.active.values()
        )  # fmt: skip
        return SchedulerReading(nodes, jobs)

    def log_lines(self, t_s: float) -> Iterator[tuple[Run, bytes]]:
        """Yield what each job printed since the last call: every tenth step, and that it saves; that it evaluates every
        other job alone says."""
        for run in self.active.values():
            phase = run.phase(run.job.nodes[0], t_s)
            before, run.printed_phase = run.printed_phase, phase
            step = self.runs[run.job.id].steps_at(t_s)
            if phase != before:
                words = {
                    "saving": f"saving checkpoint at iteration {step:7d} to /shared/train in torch_dist format",
                    "evaluating": f"Evaluating on {64 * 8} samples" if int(run.job.id) % 2 else "",
                }.get(phase, "")
                if before == "saving":
                    words = f"  successfully saved checkpoint from iteration {step:7d} to /shared/train"
                if words:
                    yield run, words.encode() + b"\n"
            if phase == "steps" and step >= run.printed_step + 10:
                run.printed_step = step
                yield run, self._step_line(run, step)

    def _step_line(self, run: Run, step: int) -> bytes:
        twin_step = self.runs[run.job.id].step
        step_s = run.job.step_time_s if twin_step is None else twin_step.step_s
        noise = float(self.noise.normal(f"log {run.job.id}", (1,), step)[0])
        batch = round(run.job.samples_per_step)
        text = (
            f" iteration {step:8d}/  500000 | consumed samples: {step * batch:12d} | elapsed time per iteration (ms): "
            f"{step_s * 1000 * (1 + 0.01 * noise):.1f} | learning rate: 3.000000E-04 | global batch size: {batch:5d} | "
            f"lm loss: {2.0 + 0.02 * noise:.6E} | grad norm: {0.4 + 0.02 * noise:.3f} |"
        )
        return text.encode() + b"\n"


def _old(nodes: int, rails: int, random: Random) -> Iterator[Fault]:
    """Yield what was counted before anybody looked."""
    for node in range(1, nodes + 1):
        for port in range(rails):
            if random.random() < OLD_PORTS:
                yield fault(
                    nodes, "historic_counters", f"gpu-{node:03d}/ib/mlx5_{port}", 0.0,
                    {
                        "link_downed": random.choice((2.0, 31.0, 255.0)), "discards": 0.0, "xmit_wait": 0.0, "sbe": 0.0,
                        "symbol_errors": random.choice((0.0, 70.0, 65535.0)), "recoveries": random.choice((0.0, 9.0)),
                        "crc": 0.0,
                    },
                )  # fmt: skip


def fault(life_nodes: int, kind: str, where: str, at_s: float, params: dict[str, object]) -> Fault:
    """Return one fault of the simulated fleet's kinds."""
    shape = FleetShape(nodes=life_nodes, gpus_per_node=8, gpu="H100-SXM5-80GB")
    numbers = {name: position for position, name in enumerate(shape.node_names())}
    return Fault(at_s, None, kind, place(where, shape, numbers, {}), params)  # type: ignore[arg-type]
