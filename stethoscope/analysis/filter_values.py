"""Names and values of a filter: which metric or field a name is, and what a value stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.filter_tree import Absent, Codes, Number, Pattern
from stethoscope.errors import did_you_mean
from stethoscope.model.fields import FIELDS
from stethoscope.model.finding import Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import DEVICE_SCOPES, REASON_WORDS, Kind, Metric, Reason, Scope
from stethoscope.model.scheduler import Standing
from stethoscope.model.units import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_WORDS = ("live", "stale", "lost", "connecting", "hung", "idle", "drained")
"""What a node can be called at a glance; words of its link and of Slurm come beside them."""
MISSING, NONE = "missing", "none"
"""Values that stand for: not known; and known, and there is not one."""
TOTAL, NEW = "total", "new"
"""What may stand behind a counter's name: its raw total, what came since the first reading."""

_BLANKS = re.compile(r"[\s_-]+")


def bare(text: str) -> str:
    """Return a word as it is compared: small letters, and `_`, `-` and blanks alike."""
    return _BLANKS.sub("_", text.strip().lower())


def state_word(text: str) -> str:
    """Return the word of a filter for a state of the link or of Slurm: auth_refused, flooding."""
    return bare(text.partition(",")[0])


VALUE_WORDS: dict[str, tuple[str, ...]] = {
    "state": tuple(dict.fromkeys([*STATE_WORDS, *(state_word(state.value) for state in (*LinkState, *Standing))])),
    "severity": tuple(severity.value for severity in Severity),
}
"""Fields that have no other words than these."""
_FIELD_SCOPES: dict[str, tuple[Scope, ...]] = {
    "leaf": (Scope.PORT,),
    "model": (Scope.GPU, *DEVICE_SCOPES),
    "device": (Scope.GPU, Scope.PORT, *DEVICE_SCOPES),
    "finding": (Scope.GPU, Scope.PORT, *DEVICE_SCOPES),
    "severity": (Scope.GPU, Scope.PORT, *DEVICE_SCOPES),
}


def fits_field(name: str, scope: Scope) -> bool:
    """Tell whether a field says something of each device of `scope` by itself."""
    return scope in _FIELD_SCOPES.get(name, ())


def names(catalogue: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return every metric by its alias and by its id, aliases first."""
    aliases = {metric.alias: metric for metric in catalogue.values() if metric.alias}
    return {**aliases, **catalogue}


def read_name(name: str, known: Mapping[str, Metric]) -> str | tuple[Metric, str] | None:
    """Return the field `name`, or the metric and which of its numbers (`value`, TOTAL, NEW); None for what is
    neither."""
    if name in FIELDS:
        return name
    if name in known:
        return known[name], "value"
    base, _, which = name.rpartition(".")
    if which in (TOTAL, NEW) and base in known and known[base].kind is Kind.COUNTER:
        return known[base], which
    return None


def test_of(metric: Metric, which: str, operator: str, text: str) -> Number | Codes | Absent | str:
    """Return what is asked of `metric`, or the words of why that cannot be asked."""
    said = bare(text)
    equal, negative = operator in ("=", "!="), operator.startswith("!")
    if equal and said == MISSING:
        return Absent(tuple(reason for reason in Reason if reason is not Reason.PRESENT), negative)
    if metric.words and (equal or operator in ("~", "!~")):
        codes = _codes(metric, text, part=not equal)
        if codes:
            return Codes(codes, metric.bitmask, negative)
        if equal and metric.bitmask and said == NONE:
            return Codes((0,), False, negative)
    if operator in ("~", "!~"):
        if metric.words:
            return _unknown_word(metric, text)
        return f"{operator} looks for words, and {metric.id} is a number: use = != > >= < <="
    if equal and (reason := _REASONS.get(said)) is not None:
        return Absent((reason,), negative)
    unit = metric.shown_unit if which == "value" else ("" if metric.kind is Kind.COUNTER else metric.unit)
    if said in ("warn", "critical") and which == "value":
        limit: float | None = getattr(metric, said)
        return Number(operator, limit) if limit is not None else f"{metric.id} has no level {said}"
    number = quantity(text, unit)
    if number is not None:
        return Number(operator, number)
    if metric.words:
        return _unknown_word(metric, text)
    shown = f" in {unit}" if unit else ""
    return f'"{text}" is no number{shown}, as {metric.id} is' + (
        did_you_mean(said, (MISSING, *_REASONS)) if equal else ""
    )


_REASONS = {bare(word): reason for reason, word in REASON_WORDS.items() if reason is not Reason.PRESENT}
REASON_VALUES = tuple(_REASONS)
"""Reasons for which a value can be missing, as a filter writes them."""


def _codes(metric: Metric, text: str, *, part: bool) -> tuple[int, ...]:
    fits = Pattern(bare(text), part).matcher()
    return tuple(code for code, word in metric.words if fits(bare(word)))


def _unknown_word(metric: Metric, text: str) -> str:
    words = [bare(word) for _, word in metric.words]
    near = did_you_mean(bare(text), words) or f"; known: {' '.join(words[:8])}"
    return f'{metric.id} is never "{text}"{near}'
