"""A piece of evidence as it is written down for later: with its unit, where it was, and the time instead of an age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import from_iso, hms
from stethoscope.ui.present.numbers import fact_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model.finding import Fact
    from stethoscope.model.metric import Metric


def fact_writer(catalogue: Mapping[str, Metric]) -> Callable[[Fact], str]:
    """Return what writes a fact in one line: what, value, what it should be, where, when."""

    def say(fact: Fact) -> str:
        what, value = fact_cells(fact, catalogue)
        at = from_iso(fact.at) if fact.at else None
        parts = (
            f"{what}: {value}" if value else what,
            f"expected {fact.expected}" if fact.expected else "",
            f"at {fact.where}" if fact.where else "",
            f"{hms(at)} UTC" if at is not None else "",
        )
        return ", ".join(part for part in parts if part)

    return say
