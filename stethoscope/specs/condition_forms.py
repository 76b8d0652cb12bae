"""The many ways in which people write conditions, brought to one: keys, operators, aggregates, names of metrics.

Only what can mean one thing is taken; for anything else the reader names the nearest right word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stethoscope.errors import did_you_mean
from stethoscope.specs.condition import AGGREGATES, OPERATORS

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

_KEYS = {
    "and": "all", "all_of": "all", "allof": "all", "or": "any", "any_of": "any", "anyof": "any",
    "op": "operator", "comparison": "operator", "comparator": "operator", "cmp": "operator",
    "value": "threshold", "limit": "threshold", "agg": "aggregate", "aggregation": "aggregate",
    "function": "aggregate", "func": "aggregate", "duration": "for", "peer": "peers",
}  # fmt: skip
_OPERATORS = {
    "gt": ">", "greater": ">", "greater_than": ">", "above": ">", "over": ">", "more_than": ">",
    "ge": ">=", "gte": ">=", "at_least": ">=", "≥": ">=", "greater_or_equal": ">=", "greater_than_or_equal": ">=",
    "lt": "<", "less": "<", "less_than": "<", "below": "<", "under": "<",
    "le": "<=", "lte": "<=", "at_most": "<=", "≤": "<=", "less_or_equal": "<=", "less_than_or_equal": "<=",
    "eq": "==", "=": "==", "equal": "==", "equals": "==", "equal_to": "==", "===": "==",
    "ne": "!=", "neq": "!=", "≠": "!=", "<>": "!=", "not_equal": "!=", "not_equals": "!=",
    "&": "has", "has_bit": "has", "has_any": "has", "contains": "has",
}  # fmt: skip
_TURNED = {"=>": ">=", "=<": "<=", "=!": "!="}
_AGGREGATES = {
    "mean": "avg", "average": "avg", "maximum": "max", "minimum": "min", "std": "stddev", "stdev": "stddev",
    "standard_deviation": "stddev", "deriv": "slope", "trend": "slope", "increase": "delta", "change": "delta",
    "latest": "last", "now": "last", "current": "last", "always": "every",
}  # fmt: skip
_LISTS = ("conditions", "rules", "clauses")
_LOGIC = ("logic", "match", "operator")
_SHORT = re.compile(
    r"(?P<metric>[A-Za-z][\w.:-]*)\s*(?P<operator>>=|<=|==|!=|≥|≤|≠|>|<|=)\s*(?P<threshold>[^\s].*?)"
    r"(?:\s+(?P<how>for|over)\s+(?P<window>[0-9][0-9a-z. ]*))?"
)


def canonical(reader: ConditionReader, data: Any, path: Path) -> Any:
    """Return the condition `data`, at `path`, in the words of the reader; its parts stay as they are."""
    if isinstance(data, str):
        return _from_text(data)
    if not isinstance(data, dict):
        return data
    found: dict[Any, Any] = {}
    written: dict[Any, Any] = {}
    for key, value in data.items():
        name = _plain(key)
        name = _KEYS.get(name, name) if isinstance(name, str) else name
        if name in found:
            raise reader.error_key(f'"{key}" says again what "{written[name]}" says', (*path, key))
        found[name] = value
        written[name] = key
    reader.loaded.written.update({(*path, name): key for name, key in written.items() if name != key})
    found = _listed(reader, found, path)
    if isinstance(found.get("operator"), str):
        found["operator"] = _operator(reader, found["operator"], path)
    if isinstance(found.get("aggregate"), str):
        word = _plain(found["aggregate"]).removesuffix("_over_time")
        if word not in AGGREGATES and word not in _AGGREGATES and word != "growth":
            # What is near to none is refused by who reads the condition.
            near = did_you_mean(word, (*AGGREGATES, *_AGGREGATES))
            if near:
                raise reader.error(f'unknown aggregate "{found["aggregate"]}"{near}', (*path, "aggregate"))
        found["aggregate"] = _AGGREGATES.get(word, word)
    return found


def _plain(word: Any) -> Any:
    return re.sub(r"[\s-]+", "_", word.strip().lower()) if isinstance(word, str) else word


def _operator(reader: ConditionReader, text: str, path: Path) -> str:
    word = _plain(text)
    if word in _TURNED:
        raise reader.error(f'unknown operator "{text}"; did you mean "{_TURNED[word]}"?', (*path, "operator"))
    return _OPERATORS.get(word, word if word in OPERATORS else text)


def _listed(reader: ConditionReader, found: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """Return `{operator: AND, conditions: [...]}` as `{all: [...]}`."""
    key = next((key for key in _LISTS if key in found), None)
    if key is None or "metric" in found:
        return found
    said = next((logic for logic in _LOGIC if logic in found), None)
    how = _plain(str(found[said])) if said else "and"
    how = {"&&": "all", "||": "any"}.get(how, _KEYS.get(how, how))
    if how not in ("all", "any"):
        raise reader.error(f'"{found[said]}" joins no conditions: AND or OR', (*path, said or key))
    reader.loaded.written[*path, how] = reader.written(path, key)
    return {how: found[key], **{other: value for other, value in found.items() if other not in (key, said)}}


def _from_text(text: str) -> Any:
    """Return what `gpu_temp > 90 for 5m` says, or the text itself."""
    match = _SHORT.fullmatch(text.strip())
    if match is None:
        return text
    said = {"metric": match["metric"], "operator": match["operator"], "threshold": match["threshold"].strip()}
    if match["window"]:
        said["window" if match["how"] == "over" else "for"] = match["window"].strip()
    said["operator"] = _OPERATORS.get(said["operator"], said["operator"])
    return said
