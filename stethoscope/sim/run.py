"""The life of one job in the twin: running, hung since, ended, and what its ranks measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.job_effects import JobEffect
from stethoscope.sim.step import Step, step

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.job_effects import JobEnd
    from stethoscope.sim.layout import Layout
    from stethoscope.sim.noise import Noise
    from stethoscope.specs.scenario import Job

WATCHDOG_S = 600.0
"""PyTorch's time-out of a collective."""
START_S = 12.0
"""From its start on a job takes so long to its first step: programs, communicators, the checkpoint."""
CHECKPOINT_S = 300.0
"""How often it saves a checkpoint, which is written beside the steps."""
DONE_BEFORE = 41_200
"""Steps that every job had done when the scenario begins."""
_NO_EFFECT = JobEffect()


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as its own log and Slurm show it."""

    id: str
    state: str
    """RUNNING, FAILED, COMPLETED, PREEMPTED ..., Slurm's words; a hung job is RUNNING."""
    step_time_s: float | None
    """None while no step ends."""
    throughput: float
    """Samples per second."""
    steps: int
    """Steps done since the start of the scenario."""
    rank_alive: tuple[bool, ...]


class JobRun:
    """One job while the twin plays; rows of its arrays are the job's nodes in order."""

    def __init__(self, job: Job, layout: Layout, noise: Noise) -> None:
        """Start running and healthy."""
        self.job = job
        self.rows: npt.NDArray[np.intp] = np.array(job.nodes, dtype=np.intp)
        self.hung_since: float | None = None
        self.ended_at: float | None = None
        self.by_watchdog = False
        self.culprits: frozenset[int] = frozenset()
        """Nodes (by position) whose ranks stopped first."""
        self.severed: frozenset[int] = frozenset()
        """Nodes (by position) with a port through which nothing goes; all ranks wait for it."""
        self.is_connected = True
        """False while its ranks wait in vain for each other to connect."""
        self.began_s: float | None = None
        """When this run of it began (scenario seconds), None for long ago."""
        self.lost_at: float | None = None
        """When its other ranks met the death of one, None where they have not, or only as the job ended."""
        self.end: JobEnd | None = None
        """How it ended where it did not fail by itself."""
        self.is_paused = False
        """Its ranks start, or write a checkpoint, and none is in a collective."""
        self.effect: JobEffect = _NO_EFFECT
        self.waits_at_barrier = False
        """What the others wait in is a collective of one element."""
        self.step: Step | None = None
        self._steps = 0.0
        self._since = 0.0
        self._first_step = 0.0
        spread = noise.uniform(f"job {job.id} end", (layout.gpu_shape[0],))[self.rows]
        # Half-second steps keep the number of moments at which something dies small.
        self._delay_s = np.round((0.5 + 4.5 * spread) * 2) / 2
        self.alive: npt.NDArray[np.bool_] = np.ones((len(job.nodes), layout.gpu_shape[1]), dtype=np.bool_)
        self.absent: npt.NDArray[np.bool_] = ~self.alive
        """Ranks that do not take part in the collective in which the others wait."""

    def enter(self, at_s: float, effects: Effects) -> None:
        """Work out the job's state from `at_s` on."""
        if self.step is not None:
            self._steps += (at_s - self._since) / self.step.step_s
        self._since = at_s
        began_s = effects.restarts.get(self.job.id)
        if began_s is not None and (self.began_s is None or began_s > self.began_s):
            self._begin(began_s)
        self.effect = effects.jobs.get(self.job.id, _NO_EFFECT)
        is_starting = self.began_s is not None and at_s < self.began_s + START_S
        self.is_paused = is_starting or self.effect.is_saving
        stopped = (effects.stuck[self.rows] & (not is_starting)) | effects.dead[self.rows]
        if self.ended_at is None:
            self.is_connected = self.job.id not in effects.unconnected
            # Over sockets nobody misses a port of the fabric.
            cut = (effects.bandwidth[self.rows] <= 0).any(axis=1) & (self.job.id not in effects.over_ethernet)
            self.severed = frozenset(int(node) for node in self.rows[cut])
            self._judge(at_s, effects, stopped)
        self.alive = ~(effects.dead[self.rows] | self._ended(at_s)[:, None])
        halted = self.hung_since is not None or self.ended_at is not None
        if halted or self.is_paused or not self.is_connected:
            self.step = None
            return
        fabric = 1.0 if self.job.id in effects.over_ethernet else float(effects.bandwidth[self.rows].min(initial=1.0))
        bandwidth = min(fabric, effects.job_bandwidth.get(self.job.id, 1.0))
        rows = self.rows
        self.step = step(
            self.job,
            compute=effects.compute[rows],
            data=effects.data[rows],
            other=effects.other[rows],
            stall_s=effects.stall_s[rows],
            bandwidth=bandwidth,
        )

    def _begin(self, at_s: float) -> None:
        """Start anew from the last checkpoint."""
        self.began_s, self.hung_since, self.lost_at, self.ended_at, self.end = at_s, None, None, None, None
        self.by_watchdog, self.culprits = False, frozenset()
        saved = max(1.0, CHECKPOINT_S / self.job.step_time_s)
        self._steps = self._first_step = float(int(self._steps / saved) * saved)

    @property
    def is_fresh(self) -> bool:
        """Tell whether this run of the job has not come to its first step yet."""
        return self.began_s is not None and self.step is None and self._steps <= self._first_step

    def _judge(self, at_s: float, effects: Effects, stopped: npt.NDArray[np.bool_]) -> None:
        self.absent = stopped
        if self.lost_at is None and self.effect.is_broken:
            self.lost_at = at_s
        spots = [(int(self.rows[row]), int(gpu)) for row, gpu in np.argwhere(stopped)] if stopped.any() else ()
        self.waits_at_barrier = any(effects.doing.get(spot) in ("save", "prepare") for spot in spots)
        if self.effect.end is not None:
            self.ended_at, self.end, self.culprits = at_s, self.effect.end, frozenset()
            return
        if not stopped.any() and not self.severed and self.effect.mismatch is None:
            self.hung_since = None
            self.culprits = frozenset()
        elif self.hung_since is None:
            self.hung_since = at_s
        if stopped.any():
            self.culprits = frozenset(int(node) for node in self.rows[stopped.any(axis=1)])
        late = self.hung_since is not None and at_s >= self.hung_since + WATCHDOG_S
        self.by_watchdog = late and not self.effect.is_patient
        if self.job.id in effects.ended or self.by_watchdog:
            self.ended_at = at_s

    def _ended(self, at_s: float) -> npt.NDArray[np.bool_]:
        if self.ended_at is None:
            return np.zeros(len(self.rows), dtype=np.bool_)
        return np.array(at_s >= self.ended_at + self.delay_s())

    def delay_s(self) -> npt.NDArray[np.float64]:
        """Return how long after the end of the job each node's ranks die; those that stopped first die at once."""
        most_s = 1.0 if self.by_watchdog else 5.0 if self.end is None else 2.0
        delay_s = np.minimum(self._delay_s, most_s)
        delay_s[np.isin(self.rows, list(self.culprits))] = 0.0
        return delay_s

    def progress_at(self, at_s: float) -> float:
        """Return the number of steps done at `at_s`, with the part of the one under way."""
        return self._steps + ((at_s - self._since) / self.step.step_s if self.step is not None else 0.0)

    def steps_at(self, at_s: float) -> int:
        """Return the number of steps done at `at_s`."""
        return int(self.progress_at(at_s))

    def sequence_at(self, at_s: float) -> int:
        """Return the number of the collective in which its ranks are."""
        return self.steps_at(at_s) - int(self._first_step) + (self.began_s is not None)

    def state(self, at_s: float) -> JobState:
        """Return what the job shows at `at_s`."""
        step_s = None if self.step is None else self.step.step_s
        return JobState(
            id=self.job.id,
            state="RUNNING" if self.ended_at is None else "FAILED" if self.end is None else self.end.state,
            step_time_s=step_s,
            throughput=0.0 if step_s is None else self.job.samples_per_step / step_s,
            steps=self.steps_at(at_s),
            rank_alive=tuple(bool(alive) for alive in self.alive.ravel()),
        )
