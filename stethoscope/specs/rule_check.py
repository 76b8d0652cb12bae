"""What is checked of a rule beside its conditions: its names, its texts, and the calls that it asks for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stethoscope.errors import did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Metric, Scope
from stethoscope.specs.condition_share import SHARES
from stethoscope.specs.metric_names import find, nearest
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.errors import DataError
    from stethoscope.specs.load import Loaded
    from stethoscope.specs.root_cause import RootCause
    from stethoscope.specs.rule_spec import ActionSpec, RuleSpec

    Path = tuple[str | int, ...]

PLACEHOLDERS = (
    "value", "node_id", "place", "device", "timestamp", "xid", "link", "detail", "peers", "total", "log", "word",
    "changed_at", "before", "after",
)  # fmt: skip
"""What a text may quote between {{ }}, beside the ids of metrics."""
OTHER_PLACEHOLDERS = {
    "node": "node_id", "host": "node_id", "hostname": "node_id", "nodename": "node_id", "where": "place",
    "time": "timestamp", "since": "timestamp",
}  # fmt: skip
"""Other words for them."""
PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z0-9_.]*)\s*\}\}")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
_SEVERITIES = {
    "critical": "critical", "crit": "critical", "warning": "warning", "warn": "warning", "info": "info",
    "information": "info", "informational": "info", "p0": "P0", "p1": "P1", "p2": "P2",
}  # fmt: skip


def severity_of(loaded: Loaded, spec: RuleSpec, path: Path, causes: Mapping[str, RootCause]) -> Severity:
    """Return the severity: `critical` is the default of the root cause, else P1, and `warning` P2."""
    word = _SEVERITIES.get(spec.severity.strip().lower())
    if word is None:
        known = ("critical", "warning", "info", "P0", "P1", "P2")
        near = did_you_mean(spec.severity, known) or f"; known: {', '.join(known)}"
        raise loaded.error(f'unknown severity "{spec.severity}"{near}', *path, "severity")
    if word == "critical":
        cause = causes.get(spec.root_cause or "")
        return cause.severity if cause is not None and cause.severity is not Severity.NONE else Severity.P1
    return Severity.P2 if word == "warning" else Severity(word)


def evidence_of(
    loaded: Loaded,
    spec: RuleSpec,
    path: Path,
    catalogue: Mapping[str, Metric],
    scopes: Sequence[Scope] | None,
    errors: list[DataError],
) -> tuple[str, ...]:
    """Return the ids of the metrics to quote; `scopes` are what the rule speaks of beside the node, what it is about
    first, where that is known."""
    found = []
    for position, name in enumerate(spec.evidence):
        other = find(name, catalogue)
        if other is None:
            message = f'unknown metric "{name}"{nearest(name, catalogue)}'
            errors.append(loaded.error(message, *path, "evidence", position))
            continue
        for id_ in other.metrics:
            if scopes is not None and catalogue[id_].scope not in (*scopes, Scope.NODE):
                message = f"{id_} is not known of a {next(iter(scopes), Scope.NODE)}"
                errors.append(loaded.error(message, *path, "evidence", position))
            found.append(id_)
    return tuple(found)


def own_words(text: str, loaded: Loaded, path: Path, catalogue: Mapping[str, Metric], errors: list[DataError]) -> str:
    """Return a text with the placeholders that we have; one that means nothing is put into `errors`."""

    def stands_for(match: re.Match[str]) -> str:
        name = match[1]
        if name in PLACEHOLDERS:
            return match[0]
        if name.lower() in OTHER_PLACEHOLDERS:
            return f"{{{{{OTHER_PLACEHOLDERS[name.lower()]}}}}}"
        other = find(name, catalogue)
        if other is not None and other.name in SHARES:
            # What a rule says of a share is what it compares.
            return "{{value}} %"
        if other is None or len(other.metrics) != 1:
            near = did_you_mean(name, (*PLACEHOLDERS, *catalogue))
            errors.append(loaded.error(f'unknown placeholder "{clean(name, 60)}"{near}', *path))
            return match[0]
        return f"{{{{{other.metrics[0]}}}}}"

    return PLACEHOLDER.sub(stands_for, text)


def call_of(action: ActionSpec, loaded: Loaded, path: Path, errors: list[DataError]) -> str:
    """Return what an api_call would do, in one line: `POST https://example.org/drain {"node": "{{node_id}}"}`."""
    method = action.method.strip().upper() or ("POST" if action.body is not None else "GET")
    if method not in METHODS:
        near = did_you_mean(method, METHODS) or f"; known: {', '.join(METHODS)}"
        errors.append(loaded.error(f'unknown method "{clean(action.method, 40)}"{near}', *path, "method"))
    try:
        parts = urlsplit(action.url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        said = f'"{clean(action.url, 80)}" is no address' if action.url else "api_call needs a url"
        errors.append(
            loaded.error(f"{said} such as https://example.org/drain", *path, *(("url",) if action.url else ()))
        )
    body = "" if action.body is None else " " + _one_line(action.body)
    return clean(f"{method} {action.url.strip()}{body}", 500)


def _one_line(body: Any) -> str:
    if isinstance(body, str):
        return body
    return json.dumps(body, ensure_ascii=False, default=str)
