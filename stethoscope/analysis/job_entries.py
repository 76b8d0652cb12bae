"""The steps of one job as entries of a bounded series: each step once, whoever prints it, with what lay between.

What a step's line does not say is worked out where nothing is guessed: the time of a step from two stamps of the log's
own clock, the rate from batch and step time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stethoscope.model.job import SAME, PhaseKind

if TYPE_CHECKING:
    from stethoscope.model.job import Phase, Step

MOST, DROPPED = 2000, 500
"""Entries that are kept, and how many of the oldest go at once when there are more."""
WARM_UP = 20
"""First steps of a run that are slower than all others: compilation, caches, autotuning."""
_LEAST_STAMPED_S = 2.0
"""Stamps of whole seconds tell no shorter time."""
_KEPT_CHECKPOINTS = 20
_RANKS = {
    "megatron": 5,
    "nemo": 5,
    "torchtitan": 5,
    "nanotron": 5,
    "composer": 5,
    "fairseq": 5,
    "deepspeed": 4,
    "bar": 3,
    "plain": 1,
}
"""How sure it is that such a line is about the steps of training: what a lower one says beside it is left alone."""


@dataclass(slots=True)
class Entry:
    """One step, or the mean of those since the entry before."""

    step: int
    at: float | None = None
    is_own_time: bool = False
    step_time_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    batch: float | None = None
    loss: float | None = None
    lr: float | None = None
    grad_norm: float | None = None
    data_time_s: float | None = None
    total: int | None = None
    skipped: bool = False
    is_apart: bool = False
    """Says nothing of the usual speed: warm-up, or a checkpoint or an evaluation lay before it."""
    is_restart: bool = False


class Entries:
    """Takes steps and phases in the order of the log."""

    def __init__(self, *, batch: float | None = None) -> None:
        """`batch` is how many samples a step has where the log does not say it."""
        self.entries: list[Entry] = []
        self.first = 0
        """How many entries there were before those that are kept."""
        self.epoch = 0
        """Grows when all entries were forgotten, because they counted something else."""
        self.checkpoints: list[tuple[float, float]] = []
        """Wall seconds of their end and duration of the last ones."""
        self.family = ""
        self.restarts = 0
        self.phase = ""
        """What goes on beside steps now."""
        self.phase_since: float | None = None
        self.version = 0
        """Grows with everything that is taken."""
        self._batch = batch
        self._run_from: int | None = None
        """First step of this run, None where the log that was read does not begin with it."""
        self._is_loaded = False
        self._between = False
        self._checkpoint_step: int | None = None
        self._back: int | None = None
        """A step behind the last one: a slow rank, or a restart if the next one goes on from there."""

    def begin(self, *, is_start: bool) -> None:
        """Say that what comes is the start of a log, or a part of one."""
        self._is_loaded = is_start
        self._between = True

    # ---- steps

    def take_step(self, step: Step) -> None:
        """Take one step, or more about the one before."""
        last = self.entries[-1] if self.entries else None
        if step.step == SAME:
            if last is not None:
                self._fill(last, step)
            return
        if not self._counts(step, last):
            return
        if last is not None and step.step <= last.step and not self._is_loaded:
            if step.step == last.step:
                self._fill(last, step)
                return
            if not self._goes_back(step.step):
                return
            self._restart()
        elif last is not None and step.step <= last.step:
            self._restart()
        self._back = None
        self._add(step)

    def _counts(self, step: Step, last: Entry | None) -> bool:
        """Tell whether steps of this family are those of the series."""
        mine, other = _RANKS.get(self.family, 0), _RANKS.get(step.family, 0)
        if other < mine:
            if last is not None and step.step == last.step:
                self._fill(last, step)
            return False
        if other > mine:
            if self.entries and (last is None or abs(step.step - last.step) > 1):
                # What was taken for steps counts something else.
                self.entries.clear()
                self.epoch += 1
            elif last is not None and step.step == last.step:
                self._fill(last, step, over=True)
            self.family = step.family
        return True

    def _goes_back(self, step: int) -> bool:
        """Tell whether a step behind the last one is that of a run which began again."""
        before, self._back = self._back, step if self._back is None or step < self._back else self._back
        return before is not None and before < step

    def _restart(self) -> None:
        self.restarts += 1
        self._run_from = None
        self._is_loaded = True

    def _add(self, step: Step) -> None:
        last = self.entries[-1] if self.entries else None
        is_new_run = self._is_loaded
        if is_new_run:
            self._run_from, self._is_loaded = step.step, False
        is_warm_up = self._run_from is not None and step.step < self._run_from + WARM_UP
        entry = Entry(
            step=step.step,
            at=step.at,
            is_own_time=step.is_own_time,
            batch=self._batch,
            is_apart=is_warm_up or self._between,
            is_restart=is_new_run and last is not None,
        )
        self._fill(entry, step)
        if entry.step_time_s is None and last is not None and not is_new_run:
            entry.step_time_s = _between_s(last, entry)
            self._complete(entry)
        self._between = False
        self.phase, self.phase_since = ("warm-up", entry.at) if is_warm_up else ("", None)
        self.entries.append(entry)
        if len(self.entries) > MOST:
            del self.entries[:DROPPED]
            self.first += DROPPED

    def _fill(self, entry: Entry, step: Step, *, over: bool = False) -> None:
        """Put into an entry what it does not have yet, or with `over` all that the step says."""
        tokens = None if step.per_gpu and entry.tokens_per_s is not None else step.tokens_per_s
        for name, value in (
            ("step_time_s", step.step_time_s), ("samples_per_s", step.samples_per_s), ("tokens_per_s", tokens),
            ("loss", step.loss), ("lr", step.lr), ("grad_norm", step.grad_norm), ("data_time_s", step.data_time_s),
            ("total", step.total),
        ):  # fmt: skip
            if value is not None and (over or getattr(entry, name) is None):
                setattr(entry, name, value)
        entry.batch = step.batch or entry.batch
        entry.skipped |= step.skipped
        self._complete(entry)
        self.version += 1

    @staticmethod
    def _complete(entry: Entry) -> None:
        """Work out the third of batch, time and rate from the other two."""
        if entry.samples_per_s is None and entry.batch and entry.step_time_s:
            entry.samples_per_s = entry.batch / entry.step_time_s
        elif entry.step_time_s is None and entry.batch and entry.samples_per_s:
            entry.step_time_s = entry.batch / entry.samples_per_s

    def correct_loss(self, step: int, loss: float) -> None:
        """Put the loss that a bar shows later for the last step."""
        if self.entries and self.entries[-1].step == step:
            self.entries[-1].loss = loss
            self.version += 1

    # ---- phases

    def take_phase(self, phase: Phase) -> None:
        """Take what the job does beside its steps: the step behind it is not like others."""
        self._between = True
        self.version += 1
        if phase.at is None and self.entries:
            # A line of long ago without a stamp is about as old as the step above it.
            phase = replace(phase, at=self.entries[-1].at)
        match phase.kind:
            case PhaseKind.CHECKPOINT_BEGIN:
                if self.phase != "checkpoint":
                    self.phase, self.phase_since = "checkpoint", phase.at
            case PhaseKind.EVALUATION_BEGIN:
                self.phase, self.phase_since = "evaluation", phase.at
            case PhaseKind.LOADED:
                self._is_loaded = True
            case PhaseKind.CHECKPOINT_END:
                self._end_checkpoint(phase)
            case PhaseKind.EVALUATION_END:
                self.phase, self.phase_since = "", None

    def _end_checkpoint(self, phase: Phase) -> None:
        took, began = phase.duration_s, self.phase_since if self.phase == "checkpoint" else None
        if took is None and began is not None and phase.at is not None and phase.at >= began:
            took = phase.at - began
        self.phase, self.phase_since = "", None
        at = phase.at if phase.at is not None else 0.0
        if not took:
            return
        if self.checkpoints and self._is_same_checkpoint():
            # Several ranks, or the timers behind the line that said it was saved.
            last_at, last_s = self.checkpoints[-1]
            self.checkpoints[-1] = last_at, took if phase.duration_s is not None else max(took, last_s)
            return
        self.checkpoints = [*self.checkpoints[1 - _KEPT_CHECKPOINTS :], (at, took)]
        self._checkpoint_step = self.entries[-1].step if self.entries else None

    def _is_same_checkpoint(self) -> bool:
        here = self.entries[-1].step if self.entries else None
        return here == self._checkpoint_step

    def shift(self, seconds: float) -> None:
        """Move all own times: the log's clock turned out to be that of another zone."""
        for entry in self.entries:
            if entry.is_own_time and entry.at is not None:
                entry.at += seconds
        self.checkpoints = [(at + seconds if at else at, took) for at, took in self.checkpoints]
        if self.phase_since is not None:
            self.phase_since += seconds


def _between_s(last: Entry, entry: Entry) -> float | None:
    """Return the time of a step by the log's own stamps, None where they are too near for that."""
    steps = entry.step - last.step
    if not (last.is_own_time and entry.is_own_time) or last.at is None or entry.at is None or steps <= 0:
        return None
    passed_s = entry.at - last.at
    is_exact = entry.at != int(entry.at) or last.at != int(last.at)
    return passed_s / steps if passed_s > 0 and (is_exact or passed_s >= _LEAST_STAMPED_S * 5) else None
