"""What conditions keep of the past, shared by all that need the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stethoscope.analysis.windows import SLOT_S, Ring
from stethoscope.model.metric import Scope
from stethoscope.specs.condition import TIER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.metric import Metric


class Memory(Protocol):
    """What a leaf remembers between two moments, by row of whatever scopes it reads."""

    @property
    def nbytes(self) -> int:
        """Return how much memory that takes."""

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout: as many of each scope as its flags, and forget those that are set in them."""

    def forget(self, *, samples: bool) -> None:
        """Start counting again because moments were missed; with `samples`, drop what was kept too."""

    def take(self, moment: Moment) -> None:
        """Take a new moment, before anything is evaluated on it."""


class Samples:
    """A ring of the samples of one metric."""

    def __init__(self, metric: Metric, keep: str) -> None:
        """Keep the `min`, `max` or `last` value of each slot, or its first total (`total first`)."""
        self._metric = metric
        self._of_totals = keep == "total first"
        # There are hundreds of thousands of links.
        is_short = metric.scope is Scope.NVLINK
        self.ring = Ring(keep.removeprefix("total "), max(SLOT_S, TIER_S[metric.tier]), is_short=is_short)
        self._taken = 0
        """Version of the table that was taken last, of a metric that comes in parts."""

    @property
    def nbytes(self) -> int:
        """Return the memory of the samples."""
        return self.ring.nbytes

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Take the rows of a new layout."""
        self.ring.fit(changed[self._metric.scope])

    def forget(self, *, samples: bool) -> None:
        """Drop the samples, if they shall be."""
        if samples:
            self.ring.forget()

    def take(self, moment: Moment) -> None:
        """Put the samples of the moment into their slot."""
        name = self._metric.id
        version = moment.table(name)[0].version if self._metric.group else 0
        if version and version == self._taken and self.ring.has(moment.mono):
            return
        self._taken = version
        self.ring.put(moment.totals(name) if self._of_totals else moment.values(name), moment.mono)
