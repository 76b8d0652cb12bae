"""What stands in a rule file, as operators write it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from stethoscope.specs.load import Spec
from stethoscope.specs.rule_test import TestSpec  # noqa: TC001  msgspec reads it from the annotations

Confidence = Annotated[float, msgspec.Meta(ge=0, le=1)]


class ActionSpec(Spec, frozen=True):
    """One entry of `action:`. An alert or log is text for people; an api_call is read and held back."""

    type: Literal["alert", "log", "api_call"]
    message: str = ""
    url: str = ""
    method: str = ""
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    body: Any = None
    timeout: int | float | str | None = None
    """Read, as everything about a call, and of no effect."""


class MoreSureSpec(Spec, frozen=True):
    """What makes the finding surer, and how sure."""

    trigger: Any
    confidence: Confidence


class ExplainsSpec(Spec, frozen=True):
    """Whose findings this one makes unnecessary: `all`, or a list of rule ids."""

    same_place: Literal["all"] | list[str] = msgspec.field(default_factory=list)
    same_node: Literal["all", "gpus"] | list[str] = msgspec.field(default_factory=list)


class RuleSpec(Spec, frozen=True):
    """One rule, as an operator writes it."""

    rule_id: str
    description: str
    severity: str
    trigger: Any
    enabled: bool = True
    """False switches the rule off, and one of the same id in a farther directory."""
    confidence: Confidence = 1.0
    root_cause: str | None = None
    summary: str = ""
    per: Literal["place", "node"] = "place"
    evidence: list[str] = msgspec.field(default_factory=list)
    more_sure: MoreSureSpec | None = None
    explains: ExplainsSpec = ExplainsSpec()
    offers: list[Literal["triage"]] = msgspec.field(default_factory=list)
    """What can be started from a finding."""
    action: list[ActionSpec] = msgspec.field(default_factory=list)
    tests: list[TestSpec] = msgspec.field(default_factory=list)
    # `for` is a word of Python.
    for_: int | float | str = msgspec.field(default=0, name="for")


class OffSpec(Spec, frozen=True):
    """A rule that is switched off, and says no more than that."""

    rule_id: str
    enabled: Literal[False]
    description: str = ""
