"""A rule as a page: what it looks for in words, how sure it is, what it does, and where it is written."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.session.rule_words import in_words, unmeasured
from stethoscope.text import clean
from stethoscope.ui.present.finding_words import sure_words
from stethoscope.ui.present.spans import Row, Span, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.model.metric import Metric
    from stethoscope.specs.condition import Condition
    from stethoscope.specs.rule import Rule

_LABEL = 10
_WIDEST = 120


def rule_rows(rule: Rule, catalogue: Mapping[str, Metric], cells: int) -> list[Row]:
    """Return the page of a rule."""
    about = f"each {rule.scope.value.replace('_', ' ')}" + (", one finding for all of a node" if rule.per_node else "")
    said = [
        ("looks for", rule.description),
        ("severity", rule.severity.value),
        ("sure", f"{rule.confidence:.2f}  {sure_words(rule.confidence)}"),
        ("about", about),
        ("cause", rule.root_cause or ""),
        ("says", rule.summary),
        ("file", rule.where),
        ("tests", f"{len(rule.tests)} in the file"),
    ]
    rows = [row for label, text in said if text for row in _wrapped(label, text, cells)]
    rows += _condition("asks", rule, rule.trigger, catalogue, cells)
    if rule.more_sure is not None:
        rows += _condition(f"{rule.sure:.2f} when", rule, rule.more_sure, catalogue, cells)
    for label, names in (("hides", rule.explains.same_place), ("on a node", rule.explains.same_node)):
        if names:
            rows += _wrapped(label, names if isinstance(names, str) else ", ".join(names), cells)
    for metric in unmeasured(rule):
        rows += _wrapped("unknown", f"nothing here measures {metric}", cells)
    return rows


def _condition(
    label: str, rule: Rule, condition: Condition, catalogue: Mapping[str, Metric], cells: int
) -> Iterator[Row]:
    yield ()
    for depth, text in in_words(condition, catalogue, scope=rule.scope):
        yield from _wrapped(label, text, cells, "  " * depth)
        label = ""


def _wrapped(label: str, text: str, cells: int, blank: str = "") -> Iterator[Row]:
    room = max(20, min(cells, _WIDEST) - _LABEL - 2 - len(blank))
    for number, line in enumerate(textwrap.wrap(clean(text), room, break_on_hyphens=False) or [""]):
        yield (Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(f"{blank}{'  ' if number and blank else ''}{line}"))
        label = ""
