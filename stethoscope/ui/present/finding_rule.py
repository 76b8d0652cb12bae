"""A rule as a page: what it looks for, how sure it is, and its text as it is written."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from stethoscope.text import clean
from stethoscope.ui.present.finding_words import sure_words
from stethoscope.ui.present.spans import Row, Span, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.specs.rule import Rule

_LABEL = 10
_WIDEST = 120
_LEFT_OUT = ("tests", "rule_id", "description", "severity", "confidence", "root_cause")
_MOST_LINES = 400


def rule_rows(rule: Rule, cells: int) -> list[Row]:
    """Return the page of a rule."""
    said = [
        ("", rule.description),
        ("severity", rule.severity.value),
        ("sure", f"{rule.confidence:.2f}  {sure_words(rule.confidence)}"),
        ("about", f"each {rule.scope.value}" + (", one finding for all of a node" if rule.per_node else "")),
        ("cause", rule.root_cause or ""),
        ("file", rule.where),
        ("tests", f"{len(rule.tests)} in the file"),
    ]
    rows: list[Row] = []
    for label, text in said:
        for line in textwrap.wrap(clean(text), max(20, min(cells, _WIDEST) - _LABEL - 2), break_on_hyphens=False):
            rows.append((Span(f" {label:<{_LABEL}}", Tone.QUIET), Span(line)))
            label = ""
    return [*rows, (), *((Span(f" {line}", Tone.PLAIN),) for line in _written(rule))]


def _written(rule: Rule) -> Iterator[str]:
    """Yield the lines of the rule as YAML, but for what stands above."""
    data: Any = rule.file.data
    for step in rule.path:
        data = data[step]
    shown = {key: value for key, value in data.items() if key not in _LEFT_OUT} if isinstance(data, dict) else {}
    lines = list(_yaml(shown, 0))
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"and {len(lines) - _MOST_LINES} lines more"


def _yaml(value: Any, depth: int) -> Iterator[str]:
    """Yield a mapping or list as YAML; what is short stands on one line."""
    blank = "  " * depth
    if isinstance(value, dict):
        for key, part in value.items():
            if isinstance(part, dict | list) and part and len(_flow(part)) > 90 - 2 * depth:
                yield f"{blank}{clean(str(key))}:"
                yield from _yaml(part, depth + 1)
            else:
                yield f"{blank}{clean(str(key))}: {_flow(part)}"
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, dict) and len(_flow(part)) > 90 - 2 * depth:
                inner = list(_yaml(part, depth + 1))
                yield f"{blank}- {inner[0].lstrip()}"
                yield from inner[1:]
            else:
                yield f"{blank}- {_flow(part)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{clean(str(key))}: {_flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(part) for part in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return clean(str(value))
