"""What each condition becomes before it is evaluated: a plan that is found without looking the condition up again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.windows import Hold, Verdicts
    from stethoscope.model.metric import Scope
    from stethoscope.specs.condition import Condition, Leaf


NO_ANSWER: Answer = (np.empty(0, np.int8), None)
NO_ANSWER[0].flags.writeable = False


@dataclass(eq=False, slots=True)
class LeafPlan:
    """One leaf, whatever the scopes of the conditions that it is a part of."""

    leaf: Leaf
    scope: Scope
    look: int = 0
    """Number of the moment of which the answer is."""
    verdicts: Verdicts = field(default_factory=lambda: NO_ANSWER[0])
    """What it says: the same array as long as every row says the same."""
    answer: Answer = field(default_factory=lambda: NO_ANSWER)


@dataclass(eq=False, slots=True)
class Plan:
    """One condition on the rows of one scope. Two equal conditions have one plan, which is itself a key."""

    condition: Condition
    scope: Scope
    of: Plan | None = None
    """The condition on the rows of the devices that it is about, where these are others."""
    leaf: LeafPlan | None = None
    hold: Hold | None = None
    how: str = ""
    """How parts are combined; empty for what has no parts."""
    parts: tuple[Plan, ...] = ()
    watches: bool = False
    """Whether a part must see every moment."""
    look: int = 0
    """Number of the moment of which the verdicts are."""
    verdicts: Verdicts = field(default_factory=lambda: NO_ANSWER[0])
