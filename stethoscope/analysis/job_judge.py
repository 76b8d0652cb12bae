"""How a job goes: the numbers of the table of jobs, from the steps in its log. Pure; the time is a parameter."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING

from stethoscope.analysis.job_loss import DIVERGING, NOT_A_NUMBER, loss_state, loss_variance
from stethoscope.analysis.job_pace import Pace
from stethoscope.analysis.job_reader import JobReader
from stethoscope.model.job import Curve, JobLog, Standing, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.analysis.job_entries import Entry

CURVE = 240
"""Steps of a curve."""
_NOW = 5
_WINDOW = 50
_LEAST_WINDOW = 20
_LEAST_LIMIT_S = 300.0
"""Evaluations and checkpoints of some minutes are often not announced."""
_LIMIT = 10.0
_PAUSE, _LONGEST_PAUSE_S = 1.5, 1800.0
"""A pause of the log that ended by itself may come again, and take this much longer."""
_EVALUATION_S, _CHECKPOINT_S = 1800.0, 900.0
"""So long an evaluation or a checkpoint may take before anybody asks."""
_LEAST_CHECKPOINTS = 3


class JobJudge:
    """Reads the log of one job and says how it goes."""

    def __init__(self, now: float, *, batch: float | None = None) -> None:
        """Know nothing yet."""
        self.reader = JobReader(now, batch=batch)
        self._past = Pace()
        """Has seen all entries but the last, to which more may be added."""
        self._seen = (0, 0)
        self._version = -1
        self._longest_pause_s = 0.0
        self._pace = Pace()
        self._judged = Standing()

    def standing(self, log: JobLog, now: float, *, may_hang: bool) -> Standing:
        """Return how the job goes at wall second `now`; `may_hang` says that it is to run and its log can be read, so
        that a step which does not come means something."""
        entries = self.reader.entries
        if entries.version != self._version:
            self._version = entries.version
            self._judged = self._judge()
            self._longest_pause_s = _longest_pause_s(entries.entries)
        standing = self._judged
        values, since = dict(standing.values), dict(standing.since)
        limit_s = self._limit_s(entries.entries, entries.phase)
        last_at = self._last_at()
        if may_hang and limit_s is not None and last_at is not None:
            values["job_step_age"] = max(0.0, now - last_at)
            values["job_step_limit"] = limit_s
            since["job_step_age"] = last_at
        return replace(
            standing,
            log=replace(log, lines=self.reader.lines, family=entries.family),
            phase=entries.phase,
            phase_since=entries.phase_since,
            values=values,
            # The log's clock may be ahead.
            since={name: min(at, now) for name, at in since.items()},
        )

    def _last_at(self) -> float | None:
        """Return when the last step was printed: as it was seen to arrive, else by the log's own stamp."""
        if self.reader.arrived_at is not None:
            return self.reader.arrived_at
        entries = self.reader.entries.entries
        return entries[-1].at if entries else None

    def _limit_s(self, entries: Sequence[Entry], phase: str) -> float | None:
        """Return how long the next step may take to be printed; None while nobody knows how often they are."""
        times = [
            (entry.at - before.at)
            for before, entry in zip(entries[-_WINDOW:], entries[-_WINDOW + 1 :], strict=False)
            if entry.at is not None and before.at is not None and not entry.is_apart and not entry.is_restart
        ]
        if len(times) < 2:
            return None
        pause_s = min(_LONGEST_PAUSE_S, _PAUSE * self._longest_pause_s)
        limit_s = max(_LEAST_LIMIT_S, _LIMIT * median(times), 3.0 * self.reader.longest_gap_s, pause_s)
        if phase == "evaluation":
            return max(limit_s, _EVALUATION_S)
        if phase == "checkpoint":
            took = [seconds for _, seconds in self.reader.entries.checkpoints]
            return max(limit_s, _CHECKPOINT_S, _LIMIT * median(took) if took else 0.0)
        return limit_s

    def _judge(self) -> Standing:
        entries = self.reader.entries.entries
        if not entries:
            return Standing()
        self._walk(entries)
        values: dict[str, float] = {}
        since: dict[str, float] = {}
        usual: dict[str, float] = {}
        self._judge_pace(entries, values, since, usual)
        self._judge_loss(entries, values, since)
        self._judge_checkpoints(values, usual)
        last = entries[-1]
        shown = entries[-CURVE:]
        return Standing(
            last=_step(last),
            values=values,
            since=since,
            usual=usual,
            step_time=_curve(shown, lambda entry: entry.step_time_s),
            throughput=_curve(shown, lambda entry: entry.samples_per_s or entry.tokens_per_s),
            loss=_curve(shown, lambda entry: entry.loss),
            checkpoints=tuple(self.reader.entries.checkpoints),
            skipped=sum(entry.skipped for entry in shown),
            restarts=self.reader.entries.restarts,
        )

    def _walk(self, entries: Sequence[Entry]) -> None:
        """Let the pace see the entries that are new."""
        first, epoch = self.reader.entries.first, self.reader.entries.epoch
        seen, of_epoch = self._seen
        if epoch != of_epoch:
            seen, self._past = first, Pace()
        for entry in entries[max(0, seen - first) : -1]:
            self._past.take(entry)
        self._seen = first + len(entries) - 1, epoch
        self._pace = self._past.copy()
        self._pace.take(entries[-1])

    def _judge_pace(
        self, entries: Sequence[Entry], values: dict[str, float], since: dict[str, float], usual: dict[str, float]
    ) -> None:
        usable = [entry for entry in entries if not entry.is_apart]
        _put(values, "job_step_time", _now(usable, lambda entry: entry.step_time_s))
        _put(values, "job_throughput", _now(usable, lambda entry: entry.samples_per_s))
        _put(values, "job_data_share", _data_share(usable[-2 * _NOW :]))
        times = [entry.step_time_s for entry in usable[-_WINDOW:] if entry.step_time_s is not None]
        if len(times) >= _LEAST_WINDOW:
            values["job_step_time_variation"] = pstdev(times) / fmean(times)
        change = self._pace.change
        if change is not None:
            values["job_throughput_change"] = 100.0 * change
        if self._pace.slow_since is not None:
            since["job_throughput_change"] = since["job_throughput"] = since["job_step_time"] = self._pace.slow_since
            before = [entry for entry in usable if entry.at is not None and entry.at < self._pace.slow_since]
            _put(usual, "job_data_share", _data_share(before[-_WINDOW:]))
        known = self._pace.usual
        if known is None:
            return
        kind, speed = known
        batch = entries[-1].batch
        if kind == "samples":
            usual["job_throughput"] = speed
            _put(usual, "job_step_time", batch / speed if batch else None)
        elif kind == "steps":
            usual["job_step_time"] = 1.0 / speed
        if "job_step_time" not in usual:
            healthy = [entry.step_time_s for entry in usable if entry.step_time_s is not None]
            now = values.get("job_step_time")
            if change is not None and now is not None and healthy:
                usual["job_step_time"] = now * (1.0 + change)

    def _judge_loss(self, entries: Sequence[Entry], values: dict[str, float], since: dict[str, float]) -> None:
        losses = [entry.loss for entry in entries if entry.loss is not None]
        norms = [entry.grad_norm for entry in entries if entry.grad_norm is not None]
        _put(values, "job_loss", losses[-1] if losses and math.isfinite(losses[-1]) else None)
        _put(values, "job_grad_norm", norms[-1] if norms and math.isfinite(norms[-1]) else None)
        _put(values, "job_loss_variance", loss_variance(entries))
        state = loss_state(entries)
        if state is not None:
            values["job_loss_state"] = float(state[0])
            if state[0] in (DIVERGING, NOT_A_NUMBER) and state[1] is not None:
                since["job_loss_state"] = state[1]

    def _judge_checkpoints(self, values: dict[str, float], usual: dict[str, float]) -> None:
        took = [seconds for _, seconds in self.reader.entries.checkpoints]
        if not took:
            return
        values["job_checkpoint_write_time"] = took[-1]
        if len(took) > _LEAST_CHECKPOINTS:
            usual["job_checkpoint_write_time"] = median(took[:-1])
            values["job_checkpoint_ratio"] = took[-1] / median(took[:-1])


def _longest_pause_s(entries: Sequence[Entry]) -> float:
    """Return the longest time between two steps that went on behind it."""
    return max(
        (
            entry.at - before.at
            for before, entry in pairwise(entries)
            if entry.at is not None and before.at is not None and not entry.is_restart
        ),
        default=0.0,
    )


def _now(entries: Sequence[Entry], of: Callable[[Entry], float | None]) -> float | None:
    """Return the median of the last few values that are known."""
    known = [value for entry in entries[-_NOW:] if (value := of(entry)) is not None]
    return median(known) if known else None


def _data_share(entries: Sequence[Entry]) -> float | None:
    """Return the share of a step that waits for data, None where no step tells it."""
    shares = [
        entry.data_time_s / entry.step_time_s
        for entry in entries
        if entry.data_time_s is not None and entry.step_time_s
    ]
    return min(1.0, median(shares)) if shares else None


def _put(into: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        into[name] = value


def _curve(entries: Sequence[Entry], of: Callable[[Entry], float | None]) -> Curve:
    return Curve(tuple(entry.step for entry in entries), tuple(of(entry) for entry in entries))


def _step(entry: Entry) -> Step:
    return Step(
        step=entry.step,
        total=entry.total,
        at=entry.at,
        is_own_time=entry.is_own_time,
        step_time_s=entry.step_time_s,
        samples_per_s=entry.samples_per_s,
        tokens_per_s=entry.tokens_per_s,
        batch=entry.batch,
        loss=entry.loss,
        lr=entry.lr,
        grad_norm=entry.grad_norm,
        data_time_s=entry.data_time_s,
        skipped=entry.skipped,
    )
