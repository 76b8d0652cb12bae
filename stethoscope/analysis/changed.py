"""Rows that left their own level of before: detectors that are shown the samples of what works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.alike import settled
from stethoscope.analysis.changes import Detector
from stethoscope.analysis.distant import GRACE_S, RESOLUTION, group_means_by_row, peers_of
from stethoscope.analysis.occupation import BUSY, Occupation
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, fitted
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Metric
    from stethoscope.specs.condition_change import Changed

TOGETHER_EVERY_S = 4.0
"""How often the mean of a group is a new sample: nodes send every two to five seconds."""
TOGETHER_S = 15.0
"""Rows that changed within so many seconds of the one before changed at the same moment."""


class Told:
    """The last change of each row, told for as long as its finding may stand: also when it came back."""

    def __init__(self) -> None:
        """Know of none."""
        self._last = [np.zeros(0)] * 3

    def fit(self, changed: Flags) -> None:
        """Take the rows of a new layout."""
        self._last = [settled(fitted(array, changed, np.nan)) for array in self._last]

    def of(self, at: Floats, before: Floats, after: Floats) -> list[Floats]:
        """Take what is known now, NaN for nothing; return what is to be told."""
        known = ~np.isnan(at)
        if not known.any():
            return self._last
        now = (at, before, after)
        self._last = [settled(np.where(known, new, old)) for new, old in zip(now, self._last, strict=True)]
        return self._last


class Watch:
    """The detector of one metric, and which samples it is shown."""

    def __init__(self, metric: Metric, leaf: Changed, occupation: Occupation) -> None:
        """Know nothing yet."""
        self._metric, self._leaf = metric, leaf
        self.occupation = occupation
        resolution = max(RESOLUTION.get(metric.shown_unit, 0.0), leaf.amount) / leaf.sure
        self.detector = Detector(leaf.sure, leaf.lasting_s, share=leaf.share, resolution=resolution)
        self._read_at = np.zeros(0)
        self._since = np.zeros(0)
        self._last = np.zeros(0)
        """Value that was read last of each job."""
        self._taken = -np.inf
        self.told = Told()

    @property
    def nbytes(self) -> int:
        """Return the memory of the detector."""
        return self.detector.nbytes

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        flags = changed[self._metric.scope]
        self.detector.fit(flags)
        self.told.fit(flags)
        self._read_at = fitted(self._read_at, flags, np.nan).astype(np.float64)
        self._since = fitted(self._since, flags, -np.inf).astype(np.float64)
        if self._metric.scope is Scope.JOB:
            self._last = fitted(self._last, flags, np.nan).astype(np.float64)

    def forget(self, *, samples: bool) -> None:
        """Go on: levels outlast a pause of the console, unless it was long."""
        if samples:
            self.detector.forget(np.ones(len(self._read_at), dtype=bool))

    def take(self, moment: Moment) -> None:
        """Show the detector every reading once, of rows that have done the same for some time."""
        scope = self._metric.scope
        owner = moment.layout.owner[scope]
        since = self.occupation.since(scope, owner)
        if since is not self._since:
            self.detector.forget(since != self._since)
            self._since = since
        works = (self.occupation.role(scope, owner) == BUSY) & (moment.mono - since >= GRACE_S)
        values = moment.values(self._metric.id)
        if self._leaf.of:
            self._take_groups(moment, values, (owner >= 0) & works)
            return
        at = _read_at(self._metric, moment)
        new = (owner >= 0) & works & ~np.isnan(at) & (at != self._read_at)
        if scope is Scope.JOB:
            # A log gives a number when a step ends, and steps beside the ordinary ones say nothing about speed.
            new &= (values != self._last) & ~_in_phase(moment)
            self._last = np.where(new, values, self._last)
        self.detector.take(values, at, new)
        self._read_at = np.where(new, at, self._read_at)

    def _take_groups(self, moment: Moment, values: Floats, works: Flags) -> None:
        """Show the detector the mean of each row's group, which is as new as the moment."""
        if moment.mono - self._taken < TOGETHER_EVERY_S:
            return
        self._taken = moment.mono
        grouping = self.occupation.grouping(moment, self._metric.scope, peers_of(self._leaf))
        means = group_means_by_row(values, grouping)
        self.detector.take(means, np.full(len(values), moment.mono), works)


def changed_memory(leaf: Changed, evaluator: Evaluator) -> Watch:
    """Return the detector; leaves that differ in direction or time alone share one."""
    metric = evaluator.catalogue[leaf.metric]
    occupation = evaluator.shared(Occupation, Occupation)
    assert isinstance(occupation, Occupation)
    key = (Watch, metric.id, leaf.of, leaf.sure, leaf.share, leaf.amount, leaf.lasting_s)
    watch = evaluator.shared(key, lambda: Watch(metric, leaf, occupation))
    assert isinstance(watch, Watch)
    return watch


def changed(leaf: Changed, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which rows changed their level lately and have not come back."""
    watch = evaluator.memory(leaf)
    assert isinstance(watch, Watch)
    detector = watch.detector
    verdicts = np.where(detector.knows, np.int8(FALSE), np.int8(UNKNOWN))
    lately = np.flatnonzero(moment.mono - detector.at <= leaf.within_s)
    if len(lately):
        step = detector.after[lately] - detector.before[lately]
        wanted = {"low": step < 0, "high": step > 0, "both": step != 0}[leaf.direction]
        lately = lately[wanted & detector.knows[lately]]
        verdicts[lately] = TRUE
    scope = moment.catalogue[leaf.metric].scope
    # What does not work any more has not slowed down.
    idle = watch.occupation.unoccupied(scope, moment.layout.owner[scope])
    np.copyto(verdicts, np.int8(FALSE), where=idle)
    moment.keep_changes(leaf, *watch.told.of(moments_of(detector.at), detector.before, detector.after))
    return verdicts, detector.after


def moments_of(at: Floats) -> Floats:
    """Return for each row the time that stands for all that changed together with it: the middle one of theirs."""
    known = np.flatnonzero(~np.isnan(at))
    shared = np.full(len(at), np.nan)
    if len(known):
        order = known[np.argsort(at[known], kind="stable")]
        starts = np.append(0, np.flatnonzero(np.diff(at[order]) > TOGETHER_S) + 1)
        counts = np.diff(np.append(starts, len(order)))
        shared[order] = np.repeat(at[order[starts + (counts - 1) // 2]], counts)
    return shared


def _in_phase(moment: Moment) -> Flags:
    """Return which jobs do something beside their steps: a checkpoint, an evaluation, a warm-up."""
    standings = [moment.snapshot.standings.get(job.id) for job in moment.snapshot.jobs]
    phases = [standing is not None and bool(standing.phase) for standing in standings]
    return np.array(phases[: moment.rows(Scope.JOB)] + [False] * (moment.rows(Scope.JOB) - len(phases)), dtype=bool)


def _read_at(metric: Metric, moment: Moment) -> Floats:
    """Return when the value of each row was read (console's monotonic seconds), NaN for never."""
    if metric.scope is Scope.JOB:
        return np.full(moment.rows(metric.scope), moment.mono)
    if metric.group:
        parts = [node.parts.get(metric.group) for node in moment.snapshot.nodes]
        by_node = np.array([np.nan if part is None else part.mono for part in parts], dtype=np.float64)
    else:
        by_node = moment.frame_mono
    at: Floats = by_node if metric.scope is Scope.NODE else by_node[moment.layout.owner[metric.scope]]
    return at
