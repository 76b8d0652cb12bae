"""Rules: `rules/*.yaml` of each playbook directory, the nearest definition of a rule id first.

A file holds one rule as a mapping, or many under `rules:`. The condition language is `specs.condition`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Metric, Scope
from stethoscope.paths import bundled, config_dir
from stethoscope.specs.condition import Compare, Condition, Held, leaves, scope_of
from stethoscope.specs.condition_long import Long
from stethoscope.specs.condition_read import ConditionReader
from stethoscope.specs.load import Loaded, SeveralDataError, convert, load
from stethoscope.specs.rule_spec import ActionSpec, ExplainsSpec, RuleFile, RuleSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from stethoscope.specs.root_cause import RootCause
    from stethoscope.specs.rule_test import TestSpec

DIRECTORY = "rules"
PLACEHOLDERS = (
    "value", "node_id", "place", "device", "timestamp", "xid", "link", "detail", "peers", "total", "log", "word",
    "before", "after", "changed_at",
)  # fmt: skip
"""What a text may quote between {{ }}, beside the ids of metrics."""

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z0-9_.]*)\s*\}\}")
_ID = re.compile(r"[a-z][a-z0-9_]{1,63}")
_SPOKEN = {
    Scope.GPU: "GPUs", Scope.PORT: "ports", Scope.NVLINK: "NVLinks", Scope.PCIE: "PCIe devices",
    Scope.NET: "network interfaces", Scope.DISK: "disks", Scope.FS: "file systems", Scope.JOB: "jobs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, ready to be evaluated."""

    id: str
    description: str
    severity: Severity
    confidence: float
    trigger: Condition
    scope: Scope
    """Finest scope of the conditions: what one finding is about."""
    root_cause: str | None
    summary: str
    """Text with placeholders, in parts divided by ` · `: the headline, then details; a part whose value is not known is
    left out."""
    per_node: bool
    """One finding for all places of a node."""
    evidence: tuple[str, ...]
    more_sure: Condition | None
    sure: float
    """Confidence when `more_sure` is true."""
    explains: ExplainsSpec
    actions: tuple[ActionSpec, ...]
    tests: tuple[TestSpec, ...]
    file: Loaded
    path: tuple[str | int, ...]
    """Where in the file the rule stands."""

    @property
    def where(self) -> str:
        """Return `file:line:column` of the rule."""
        return self.file.where(*self.path)

    def test_where(self, number: int) -> str:
        """Return `file:line:column` of one of its tests."""
        return self.file.where(*self.path, "tests", number)


def load_rules(
    catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause], *directories: Path
) -> tuple[Rule, ...]:
    """Return every rule, in the order of their ids, the nearest definition of an id alone.

    Raises DataError (or SeveralDataError) with positions for broken files.
    """
    rules: dict[str, Rule] = {}
    errors: list[DataError] = []
    for directory in (*directories, config_dir() / "playbooks", bundled("playbooks")):
        here: dict[str, Rule] = {}
        for path in sorted((directory / DIRECTORY).glob("*.yaml")):
            try:
                for rule in read_rules(load(path), catalogue, root_causes):
                    if rule.id in here:
                        errors.append(DataError(f'the rule "{rule.id}" is defined twice', where=rule.where))
                    here[rule.id] = rule
            except SeveralDataError as error:
                errors += error.errors
            except DataError as error:
                errors.append(error)
        rules = {**here, **rules}
    if not errors:
        errors = _unknown_explained(rules)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return tuple(rules[id_] for id_ in sorted(rules))


def _unknown_explained(rules: Mapping[str, Rule]) -> list[DataError]:
    return [
        DataError(f'{rule.id} explains an unknown rule "{other}"{did_you_mean(other, rules)}', where=rule.where)
        for rule in rules.values()
        for named in (rule.explains.same_place, rule.explains.same_node)
        for other in (named if isinstance(named, list) else ())
        if other not in rules
    ]


def read_rules(
    loaded: Loaded, catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause]
) -> tuple[Rule, ...]:
    """Return the rules of one file; raises DataError or SeveralDataError with positions."""
    data = loaded.data
    many = isinstance(data, dict) and "rules" in data
    if many:
        for key in data:
            if key not in ("schema", "rules"):
                raise DataError(f'unknown key "{key}"', where=loaded.where_key(key))
        if data.get("schema", "stethoscope.rules/1") != "stethoscope.rules/1":
            raise loaded.error("the schema is stethoscope.rules/1", "schema")
    elif not isinstance(data, dict):
        raise DataError("a rule file is one rule, or a list of them under rules:", where=loaded.name)
    specs = convert(loaded, RuleFile).rules if many else [convert(loaded, RuleSpec)]
    rules, errors = [], []
    for position, spec in enumerate(specs):
        path: tuple[str | int, ...] = ("rules", position) if many else ()
        try:
            rules.append(_rule(loaded, spec, path, catalogue, root_causes))
        except DataError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return tuple(rules)


def _rule(
    loaded: Loaded,
    spec: RuleSpec,
    path: tuple[str | int, ...],
    catalogue: Mapping[str, Metric],
    root_causes: Mapping[str, RootCause],
) -> Rule:
    if not _ID.fullmatch(spec.rule_id):
        raise loaded.error("a rule id is lower-case letters, digits and _", *path, "rule_id")
    if spec.root_cause is not None and spec.root_cause not in root_causes:
        near = did_you_mean(spec.root_cause, root_causes)
        raise loaded.error(f'unknown root cause "{spec.root_cause}"{near}', *path, "root_cause")
    reader = ConditionReader(loaded, catalogue)
    trigger = reader.trigger(spec.trigger, (*path, "trigger"))
    held_s = reader.duration(spec.for_, (*path, "for"))
    more_sure = None
    if spec.more_sure is not None:
        more_sure = reader.trigger(spec.more_sure.trigger, (*path, "more_sure", "trigger"))
    scopes = scope_of(trigger, catalogue) | (scope_of(more_sure, catalogue) if more_sure else set())
    if len(scopes) > 1:
        said = " and of ".join(_SPOKEN[scope] for scope in Scope if scope in scopes)
        raise loaded.error(f"one rule cannot speak of {said} at once", *path, "trigger")
    scope = next(iter(scopes), Scope.NODE)
    _check_evidence(loaded, spec, path, catalogue, scope)
    summary = spec.summary or next(
        (a.message for a in spec.action if a.type == "alert" and a.message), spec.description
    )
    _check_texts(loaded, spec, path, catalogue)
    return Rule(
        id=spec.rule_id,
        description=spec.description,
        severity=_severity(spec, root_causes),
        confidence=spec.confidence,
        trigger=Held(trigger, held_s) if held_s else trigger,
        scope=scope,
        root_cause=spec.root_cause,
        summary=summary,
        per_node=spec.per == "node",
        evidence=tuple(spec.evidence),
        more_sure=more_sure,
        sure=spec.more_sure.confidence if spec.more_sure else spec.confidence,
        explains=spec.explains,
        actions=tuple(spec.action),
        tests=tuple(spec.tests),
        file=loaded,
        path=path,
    )


def _severity(spec: RuleSpec, root_causes: Mapping[str, RootCause]) -> Severity:
    if spec.severity == "critical":
        cause = root_causes.get(spec.root_cause or "")
        return cause.severity if cause is not None and cause.severity is not Severity.NONE else Severity.P1
    return Severity.P2 if spec.severity == "warning" else Severity(spec.severity)


def _check_evidence(
    loaded: Loaded, spec: RuleSpec, path: tuple[str | int, ...], catalogue: Mapping[str, Metric], scope: Scope
) -> None:
    for position, name in enumerate(spec.evidence):
        if name not in catalogue:
            message = f'unknown metric "{name}"{did_you_mean(name, catalogue)}'
            raise loaded.error(message, *path, "evidence", position)
        if catalogue[name].scope not in (scope, Scope.NODE):
            raise loaded.error(f"{name} is not known of a {scope}", *path, "evidence", position)


def _check_texts(loaded: Loaded, spec: RuleSpec, path: tuple[str | int, ...], catalogue: Mapping[str, Metric]) -> None:
    texts: list[tuple[str, tuple[str | int, ...]]] = [(spec.summary, ("summary",))]
    for position, action in enumerate(spec.action):
        if action.type != "api_call" and not action.message:
            raise loaded.error(f"{action.type} needs a message", *path, "action", position)
        texts.append((action.message, ("action", position, "message")))
    for text, here in texts:
        for name in placeholders(text):
            if name not in PLACEHOLDERS and name not in catalogue:
                near = did_you_mean(name, (*PLACEHOLDERS, *catalogue))
                raise loaded.error(f'unknown placeholder "{name}"{near}', *path, *here)


def placeholders(text: str) -> Iterable[str]:
    """Return the names between {{ }} in `text`, in order."""
    return [match[1] for match in _PLACEHOLDER.finditer(text)]


def fill(text: str, value: Callable[[str], str | None]) -> str:
    """Return `text` with each placeholder replaced by its `value`; a part between ` · ` with a value that is not known
    is left out, the first part apart."""
    parts = []
    for position, part in enumerate(_parts(text)):
        # Literal text stands at the even positions, names of placeholders between.
        found = [value(piece) if at % 2 else piece for at, piece in enumerate(part)]
        if position == 0 or None not in found:
            parts.append("".join("?" if piece is None else piece for piece in found))
    return " · ".join(parts)


@lru_cache(maxsize=1024)
def _parts(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(_PLACEHOLDER.split(part)) for part in text.split(" · "))


def first_metric(rule: Rule) -> str | None:
    """Return the metric of the first condition that has one: `{{value}}` is its value."""
    return next((leaf.metric for leaf, _ in leaves(rule.trigger) if isinstance(leaf, Compare | Long)), None)
