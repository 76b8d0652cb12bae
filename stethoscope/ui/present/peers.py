"""Which nodes are unlike the others in the chosen metric, and which use no GPU: held steady, so that rows stay put."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Kind, Reason, Scope

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment

    Flags = npt.NDArray[np.bool_]

HOLD_S = 8.0
"""A node has to differ for so long before it counts: when a whole job stops, its nodes do not all report at once."""
MOST = 0.25
"""Where more nodes than this share differ, they are no exceptions."""
_DEVIATION = 0.05
"""A value at least this share of the scale away from the others is drawn plain instead of quiet."""


class Peers:
    """What is usual for the chosen metric, and who is not."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self._metric: Metric | None = None
        self._median = 0.0
        self._far: float | None = None
        """Distance from the median that is worth a look; None while there is no value."""
        self._odd = Held()
        self._idle = Held()

    def update(self, assessment: Assessment, metric: Metric, scale: float) -> None:
        """Take a snapshot; `scale` is the length of the metric's colour scale in the unit that is shown."""
        if self._metric is not metric:
            self._metric, self._far = metric, None
            self._odd = Held()
        table = assessment.snapshot.tables[metric.scope]
        column = table.index[metric.id]
        values, present = table.values[column], table.reasons[column] == Reason.PRESENT
        self._learn(values[present], scale / (metric.rate_scale if metric.kind is Kind.COUNTER else 1.0))
        self._odd.update(self._find_odd(assessment, values), assessment.now_mono)
        self._idle.update(_find_idle(assessment), assessment.now_mono)

    def deviates(self, value: float) -> bool:
        """Tell whether a value of the chosen metric is far enough from the others to be worth a look."""
        metric = self._metric
        if self._far is None or metric is None or metric.bitmask or metric.kind is Kind.STATE:
            return False
        return abs(value - self._median) > self._far

    def deviating(self, values: npt.NDArray[np.float64]) -> Flags:
        """Tell of each value of the chosen metric whether it is far enough from the others to be worth a look."""
        metric = self._metric
        if self._far is None or metric is None or metric.bitmask or metric.kind is Kind.STATE:
            return np.zeros(values.shape, dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            return np.abs(values - self._median) > self._far

    @property
    def usual(self) -> tuple[float, float | None]:
        """Return the median and the distance from it that is worth a look: what a drawn cell depends on."""
        return self._median, self._far

    @property
    def odd(self) -> Flags:
        """Return, by node, whether it is one of few that are unlike the others; nodes that use no GPU apart."""
        odd = self._odd.held & ~self._idle.held
        return odd if np.count_nonzero(odd) <= MOST * odd.size else np.zeros_like(odd)

    @property
    def idle(self) -> Flags:
        """Return, by node, whether none of its GPUs is in use."""
        return self._idle.held

    def _learn(self, values: npt.NDArray[np.float64], scale: float) -> None:
        """Note what is usual, and how far from it is worth a look; both stand still under a little noise."""
        if not values.size:
            self._far = None
            return
        median = float(np.median(values))
        far = max(5.0 * float(np.median(np.abs(values - median))), _DEVIATION * scale)
        if self._far is None or abs(median - self._median) > 0.2 * far or not 0.6 < far / self._far < 1.2:
            self._median, self._far = median, far

    def _find_odd(self, assessment: Assessment, values: npt.NDArray[np.float64]) -> Flags:
        odd = np.zeros(len(assessment.snapshot.nodes), dtype=np.bool_)
        metric = self._metric
        if self._far is not None and metric is not None and not metric.words:
            # Twice as far as what is worth a look, so that rows do not wander because of noise.
            with np.errstate(invalid="ignore"):
                far = np.flatnonzero(np.abs(values - self._median) > 2 * self._far)
            owners = far if metric.scope is Scope.NODE else assessment.owners[metric.scope][0][far]
            odd[owners[owners >= 0]] = True
        return odd


class Held:
    """A flag by node that counts once it has stood for HOLD_S, and from the first look on where it stood then."""

    def __init__(self) -> None:
        """Start without a look."""
        self.held: Flags = np.empty(0, dtype=np.bool_)
        self._since: npt.NDArray[np.float64] = np.empty(0)

    def update(self, flags: Flags, now_mono: float) -> None:
        """Take the flags of this moment."""
        if self._since.size != flags.size:
            self._since = np.where(flags, -np.inf, np.inf)
            self.held = flags
            return
        self._since[flags & np.isposinf(self._since)] = now_mono
        self._since[~flags] = np.inf
        self.held = now_mono - self._since >= HOLD_S


def _find_idle(assessment: Assessment) -> Flags:
    snapshot = assessment.snapshot
    table = snapshot.tables[Scope.GPU]
    owner = assessment.owners[Scope.GPU][0]
    size = len(snapshot.nodes)
    column = table.index["gpu_util"]
    known = (owner >= 0) & (table.reasons[column] == Reason.PRESENT)
    unused = known & (table.values[column] == 0)
    of_all = np.bincount(owner[owner >= 0], minlength=size)
    idle: Flags = (of_all > 0) & (np.bincount(owner[unused], minlength=size) == of_all)
    return idle
