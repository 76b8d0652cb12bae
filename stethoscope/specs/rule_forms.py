"""The many ways in which people write rule files, brought to one: one rule, a list, several documents, templates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.metric import Kind, Metric
from stethoscope.specs.metric_names import find, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.specs.load import Loaded

    Path = tuple[str | int, ...]

SCHEMA = "stethoscope.rules/1"
EACH = "each"
"""The word in a template that stands for the value of each rule that is made of it."""
MAX_EACH = 200
"""A template makes no more rules than this."""
_FILE_KEYS = ("schema", "rules")
_KEYS = {
    "id": "rule_id", "ruleid": "rule_id", "desc": "description", "level": "severity", "when": "trigger",
    "condition": "trigger", "conditions": "trigger", "triggers": "trigger", "actions": "action",
    "cause": "root_cause", "test": "tests",
}  # fmt: skip
_ACTION_KEYS = {
    "endpoint": "url",
    "payload": "body",
    "data": "body",
    "json": "body",
    "text": "message",
    "msg": "message",
}
_FILTERS = ("tier", "scope", "kind", "group", "worse", "except")


@dataclass(frozen=True, slots=True)
class Written:
    """One rule as it is written, its keys in the words of the reader."""

    data: dict[Any, Any]
    path: Path
    each: str | None = None
    """The value of a template that it was made for."""


def written_rules(loaded: Loaded, catalogue: Mapping[str, Metric], errors: list[DataError]) -> Iterator[Written]:
    """Yield each rule of a file, whatever form the file has; what is none is put into `errors`."""
    documents = loaded.data if loaded.many else [loaded.data]
    found = 0
    for number, document in enumerate(documents or []):
        path: Path = (number,) if loaded.many else ()
        for data, here in _entries(loaded, document, path, errors):
            found += 1
            try:
                yield from _each(loaded, _renamed(loaded, data, here, _KEYS), here, catalogue)
            except DataError as error:
                errors.append(error)
    if not found and not errors:
        errors.append(DataError("there is no rule in this file", where=loaded.name))


def _entries(
    loaded: Loaded, document: Any, path: Path, errors: list[DataError]
) -> Iterator[tuple[dict[Any, Any], Path]]:
    """Yield the rules of one document: a mapping, a list of them, or a list under `rules:`."""
    if document is None:
        return
    rules, here = document, path
    if isinstance(document, dict) and "rules" in document:
        for key in document:
            if key not in _FILE_KEYS:
                where = loaded.where_key(*path, key)
                errors.append(DataError(f'unknown key "{key}"{did_you_mean(str(key), _FILE_KEYS)}', where=where))
        if document.get("schema", SCHEMA) != SCHEMA:
            errors.append(loaded.error(f"the schema is {SCHEMA}", *path, "schema"))
        rules, here = document["rules"], (*path, "rules")
        if not isinstance(rules, list):
            errors.append(loaded.error("rules: is a list of rules", *here))
            return
    if isinstance(rules, dict):
        yield rules, here
    elif isinstance(rules, list):
        for position, rule in enumerate(rules):
            if isinstance(rule, dict):
                yield rule, (*here, position)
            else:
                errors.append(loaded.error("a rule is a mapping with rule_id, description, ...", *here, position))
    else:
        errors.append(loaded.error("a rule file is one rule, or a list of them under rules:", *here))


def _renamed(loaded: Loaded, data: dict[Any, Any], path: Path, keys: Mapping[str, str]) -> dict[Any, Any]:
    """Return a mapping with other names of keys replaced by ours, where ours is not there as well."""
    found: dict[Any, Any] = {}
    for key, value in data.items():
        low = re.sub(r"[\s-]+", "_", key.strip().lower()) if isinstance(key, str) else key
        name = keys.get(low, low)
        # Who writes both has said the same twice: the unknown one is told.
        name = key if name in found or (name != key and name in data) else name
        found[name] = value
        if name != key:
            loaded.written[*path, name] = key
    if keys is _KEYS:
        found = _with_actions(loaded, found, path)
    return found


def _with_actions(loaded: Loaded, data: dict[Any, Any], path: Path) -> dict[Any, Any]:
    actions = data.get("action")
    if isinstance(actions, dict):
        # A single action: its position in the file is that of the key.
        loaded.written[*path, "action", 0] = "action"
        return {**data, "action": [_action(loaded, actions, (*path, "action"))]}
    if isinstance(actions, list):
        named = [
            _action(loaded, each, (*path, "action", at)) if isinstance(each, dict) else each
            for at, each in enumerate(actions)
        ]
        return {**data, "action": named}
    return data


def _action(loaded: Loaded, data: dict[Any, Any], path: Path) -> dict[Any, Any]:
    found = _renamed(loaded, data, path, _ACTION_KEYS)
    if isinstance(found.get("type"), str):
        found["type"] = re.sub(r"[\s-]+", "_", found["type"].strip().lower())
    return found


def _each(loaded: Loaded, data: dict[Any, Any], path: Path, catalogue: Mapping[str, Metric]) -> Iterator[Written]:
    """Yield the rule, or one rule for each value of a template."""
    if EACH not in data:
        yield Written(data, path)
        return
    here = (*path, EACH)
    each = data[EACH]
    if not isinstance(each, dict) or list(each) != ["metric"]:
        raise loaded.error("each is {metric: [gpu_temp, ...]} or {metric: {tier: fast, scope: gpu}}", *here)
    rest = {key: value for key, value in data.items() if key != EACH}
    for metric in _chosen(loaded, each["metric"], (*here, "metric"), catalogue):
        made = _filled(rest, metric)
        made["rule_id"] = f"{data.get('rule_id')}.{metric.id}"
        yield Written(made, path, metric.id)


def _chosen(loaded: Loaded, said: Any, path: Path, catalogue: Mapping[str, Metric]) -> list[Metric]:
    if isinstance(said, dict):
        for key in said:
            if key not in _FILTERS:
                where = loaded.where_key(*path, key)
                raise DataError(f'unknown key "{key}"{did_you_mean(str(key), _FILTERS)}', where=where)
        wanted = {key: _listed(value) for key, value in said.items() if key != "except"}
        without = {_named(loaded, name, (*path, "except"), catalogue).id for name in _listed(said.get("except", []))}
        kinds = wanted.setdefault("kind", [Kind.GAUGE, Kind.COUNTER])
        for value in kinds:
            if value not in list(Kind):
                raise loaded.error(f'unknown kind "{value}"{did_you_mean(str(value), list(Kind))}', *path, "kind")
        chosen = [
            metric
            for metric in catalogue.values()
            if metric.id not in without
            and not metric.bitmask
            and all(str(getattr(metric, key)) in map(str, values) for key, values in wanted.items())
        ]
    else:
        chosen = [_named(loaded, name, (*path, at), catalogue) for at, name in enumerate(_listed(said))]
    if not 0 < len(chosen) <= MAX_EACH:
        raise loaded.error(f"each is for 1 to {MAX_EACH} metrics, and these are {len(chosen)}", *path)
    return list(dict.fromkeys(chosen))


def _named(loaded: Loaded, name: Any, path: Path, catalogue: Mapping[str, Metric]) -> Metric:
    other = find(name, catalogue)
    if other is None or len(other.metrics) != 1:
        raise loaded.error(f'unknown metric "{name}"{nearest(name, catalogue)}', *path)
    return catalogue[other.metrics[0]]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _filled(data: Any, metric: Metric, *, named: bool = False) -> Any:
    """Return a template with `each` as a word (as a key only where metrics are `named`) replaced by the metric,
    `{{each}}` by its value and `{{metric}}` by its title."""
    if isinstance(data, dict):
        return {
            (metric.id if named and key == EACH else key): _filled(value, metric, named=key in ("series", "peers"))
            for key, value in data.items()
        }
    if isinstance(data, list):
        return [_filled(item, metric) for item in data]
    if not isinstance(data, str):
        return data
    if data == EACH:
        return metric.id
    return re.sub(r"\{\{\s*(each|metric)\s*\}\}", lambda m: _stands_for(m[1], metric), data)


def _stands_for(word: str, metric: Metric) -> str:
    return f"{{{{{metric.id}}}}}" if word == EACH else metric.title
