"""Reads a job's log as it grows: bytes in, steps out. Pure; what a log says of time is told apart from when it came."""

from __future__ import annotations

import re
from dataclasses import replace

from stethoscope.analysis.job_entries import Entries
from stethoscope.model.job import Phase, PhaseKind, Step
from stethoscope.parse import steps
from stethoscope.parse.prefix import PeelState
from stethoscope.parse.steps_bars import Bar

LONGEST = 8192
"""Bytes of a line that are looked at."""
KEPT_LINES = 400
"""Last lines that told something, as they came: what a recording needs to know the past of a job."""
_QUARTER_S = 900.0
_NEAR_S = 120.0
_BAR_EVERY_S = 10.0
_END = re.compile(rb"[\r\n]")


class JobReader:
    """One job's log."""

    def __init__(self, now: float, *, batch: float | None = None) -> None:
        """Read what is written at about `now` (wall seconds); `batch` is the samples of a step, where the log does not
        say it."""
        self.entries = Entries(batch=batch)
        self.lines = 0
        self.arrived_at: float | None = None
        """Wall seconds at which the last step was seen to be printed, and ..."""
        self.longest_gap_s = 0.0
        """... the longest time between two such arrivals: logs are flushed in bursts."""
        self.told: list[bytes] = []
        """The last lines that told something."""
        self._state = PeelState(newest=now)
        self._rest = b""
        self._offset_s: float | None = None
        """What must be added to the log's stamps; None until a line was seen to be printed."""
        self._bar_total = 0
        self._bar_at: tuple[int, float] = (-1, 0.0)

    def begin(self, *, is_start: bool) -> None:
        """Say that what comes is not the continuation of what came: the start of a file, or a part of it."""
        self._rest = b""
        self._bar_total, self._bar_at = 0, (-1, 0.0)
        self.entries.begin(is_start=is_start)

    def feed(self, data: bytes, *, now: float, is_new: bool) -> None:
        """Take bytes that follow those before; `is_new`: they were written just now, not long ago. Never raises."""
        *lines, self._rest = _END.split(self._rest + data)
        if len(self._rest) > LONGEST * 4:
            lines, self._rest = [*lines, self._rest], b""
        before = len(self.entries.entries), self._last_step
        for line in lines:
            if line:
                self.lines += 1
                if steps.may_tell(line[:LONGEST]):
                    self._take(line[:LONGEST], now if is_new else None)
        if is_new and (len(self.entries.entries), self._last_step) != before:
            if self.arrived_at is not None:
                # The longest of before fades: one pause must not hide a hang for ever.
                self.longest_gap_s = max(0.8 * self.longest_gap_s, now - self.arrived_at)
            self.arrived_at = now
        elif not is_new:
            self._settle_old(now)

    @property
    def _last_step(self) -> int:
        return self.entries.entries[-1].step if self.entries.entries else -1

    def _take(self, raw: bytes, arrived: float | None) -> None:
        # Megatron puts a blank before its stamp.
        peeled = self._state.peel(raw.lstrip() if raw.lstrip()[:1] == b"[" else raw)
        text, at = peeled.text, None if peeled.at_is_near else peeled.at
        inner = steps.stamped_at(text) if at is None else 0
        if inner:
            again = self._state.peel(text[inner:])
            text, at = again.text, None if again.at_is_near else again.at
        found = steps.read(text)
        if found is None:
            return
        self.told.append(raw)
        if len(self.told) > 2 * KEPT_LINES:
            del self.told[:KEPT_LINES]
        if at is not None and arrived is not None:
            self._fit_clock(at, arrived)
        when = at + (self._offset_s or 0.0) if at is not None else arrived
        self._put(found, when, is_own=at is not None)

    def _put(self, found: Step | Phase | Bar, at: float | None, *, is_own: bool) -> None:
        if isinstance(found, Bar):
            self._take_bar(found, at, is_own=is_own)
        elif isinstance(found, Step):
            self.entries.take_step(replace(found, at=at, is_own_time=is_own))
        else:
            self.entries.take_phase(replace(found, at=at))

    def _take_bar(self, bar: Bar, at: float | None, *, is_own: bool) -> None:
        # The bar of an evaluation has no words of its own in the Hugging Face Trainer, but another length.
        if bar.evaluation or (bar.epoch is None and bar.total < self._bar_total):
            self.entries.take_phase(Phase(PhaseKind.EVALUATION_BEGIN, at=at))
            return
        if bar.total != self._bar_total:
            self._bar_total, self._bar_at = bar.total, (-1, 0.0)
        n, elapsed_s = self._bar_at
        if bar.step == n or bar.n == 0:
            if bar.step == n and bar.loss is not None:
                # Lightning draws the bar before the loss of the step is known, and again.
                self.entries.correct_loss(n, bar.loss)
            return
        step_time_s = bar.step_time_s
        passed_s = bar.elapsed_s - elapsed_s
        if n >= 0 and 0 <= passed_s < _BAR_EVERY_S and bar.loss is None and bar.n < bar.total:
            return
        if n >= 0 and passed_s >= _BAR_EVERY_S and bar.step > n:
            # The clock of the bar is exact to a second; its own rate is smoothed over many steps.
            step_time_s = passed_s / (bar.step - n)
        self._bar_at = bar.step, bar.elapsed_s
        total = bar.total or None if bar.epoch is None else None
        self.entries.take_step(Step(bar.step, total, at, is_own, step_time_s=step_time_s, loss=bar.loss, family="bar"))

    def _fit_clock(self, at: float, arrived: float) -> None:
        """Learn by how many quarters of an hour the log's clock is off: its zone is not written anywhere."""
        off_s = arrived - at
        quarters = round(off_s / _QUARTER_S) * _QUARTER_S
        if abs(off_s - quarters) <= _NEAR_S and quarters != (self._offset_s or 0.0):
            self.entries.shift(quarters - (self._offset_s or 0.0))
            self._offset_s = quarters
        elif self._offset_s is None and abs(off_s - quarters) <= _NEAR_S:
            self._offset_s = quarters

    def _settle_old(self, now: float) -> None:
        """Move stamps out of the future: they are those of another zone."""
        last = self.entries.entries[-1] if self.entries.entries else None
        if self._offset_s is None and last is not None and last.at is not None and last.at > now + _NEAR_S:
            quarters = -(-(last.at - now - _NEAR_S) // _QUARTER_S) * _QUARTER_S
            self.entries.shift(-quarters)
            self._offset_s = -quarters
