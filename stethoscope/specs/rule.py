"""Rules: what operators write (`specs.rule_spec`), checked and ready to be evaluated. The condition language is
`specs.condition`; the files in reach are `specs.rule_book`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Metric, Scope
from stethoscope.specs.condition import Combined, Condition, Held, scopes_of
from stethoscope.specs.condition_read import ConditionReader
from stethoscope.specs.load import Loaded, SeveralDataError, convert_part, several
from stethoscope.specs.rule_check import PLACEHOLDER, call_of, evidence_of, own_words, severity_of
from stethoscope.specs.rule_forms import Written, written_rules
from stethoscope.specs.rule_spec import ActionSpec, ExplainsSpec, OffSpec, RuleSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stethoscope.specs.root_cause import RootCause
    from stethoscope.specs.rule_test import TestSpec

T = TypeVar("T")

_ID = re.compile(r"[a-z][a-z0-9_]{1,63}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, ready to be evaluated."""

    id: str
    description: str
    severity: Severity
    confidence: float
    trigger: Condition
    scope: Scope
    """Scope of the first condition that is not about the node: what one finding is about."""
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
    each: str | None = None
    """The metric that it was made for, of a template."""
    enabled: bool = True
    offers: tuple[str, ...] = ()
    """What can be started from its findings."""
    message: str = ""
    """What its alert says, with placeholders."""
    logs: tuple[str, ...] = ()
    """What goes to the log once a finding, with placeholders."""
    held: tuple[str, ...] = ()
    """Calls that it asks for, which are never made: `POST https://example.org/drain`."""
    tests_at: tuple[int, ...] = ()
    """Position of each test in the file, where a template has others too."""

    @property
    def base(self) -> str:
        """Return the id in the file: of a template, without the metric."""
        return self.id if self.each is None else self.id.removesuffix(f".{self.each}")

    @property
    def where(self) -> str:
        """Return `file:line:column` of the rule."""
        return self.file.where(*self.path)

    def test_where(self, number: int) -> str:
        """Return `file:line:column` of one of its tests."""
        at = self.tests_at[number] if self.tests_at else number
        return self.file.where(*self.path, "tests", at)


def read_rules(
    loaded: Loaded, catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause]
) -> tuple[Rule, ...]:
    """Return the rules of one file; raises DataError or SeveralDataError with positions."""
    rules, errors = read_file(loaded, catalogue, root_causes)
    if errors:
        raise several(errors)
    return rules


def read_file(
    loaded: Loaded, catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause]
) -> tuple[tuple[Rule, ...], list[DataError]]:
    """Return the rules of one file that are right, and what is wrong with the others, with positions."""
    rules: list[Rule] = []
    errors: list[DataError] = []
    for written in written_rules(loaded, catalogue, errors):
        try:
            rules.append(_read(loaded, written, catalogue, root_causes))
        except DataError as error:
            errors.append(error)
    return tuple(rules), list({str(error): error for error in _flat(errors)}.values())


def _flat(errors: Iterable[DataError]) -> list[DataError]:
    return [one for error in errors for one in (error.errors if isinstance(error, SeveralDataError) else (error,))]


def _read(
    loaded: Loaded, written: Written, catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause]
) -> Rule:
    data, path = written.data, written.path
    if data.get("enabled") is False and "trigger" not in data:
        off = convert_part(loaded, data, path, OffSpec)
        return _off(loaded, written, off.rule_id, off.description)
    errors: list[DataError] = []
    try:
        spec = convert_part(loaded, data, path, RuleSpec)
    except DataError as error:
        # What else is wrong is told with it.
        if "trigger" in data:
            _condition(ConditionReader(loaded, catalogue), data["trigger"], (*path, "trigger"), [error])
        raise
    rule = _made(loaded, spec, written, catalogue, root_causes, errors)
    if errors:
        raise several(errors)
    assert rule is not None
    return rule


def _condition(reader: ConditionReader, data: Any, path: tuple[str | int, ...], errors: list[DataError]) -> Condition:
    """Return the condition; what is wrong with it is put into `errors`, or raised with what is there already."""
    try:
        return reader.trigger(data, path)
    except DataError as error:
        errors.append(error)
        raise several(errors) from None


def _off(loaded: Loaded, written: Written, id_: str, description: str) -> Rule:
    nothing = Combined("any", (Combined("all", ()),))
    return Rule(
        id=id_, description=description, severity=Severity.NONE, confidence=0.0, trigger=nothing, scope=Scope.NODE,
        root_cause=None, summary="", per_node=False, evidence=(), more_sure=None, sure=0.0, explains=ExplainsSpec(),
        actions=(), tests=(), file=loaded, path=written.path, enabled=False,
    )  # fmt: skip


def _made(
    loaded: Loaded,
    spec: RuleSpec,
    written: Written,
    catalogue: Mapping[str, Metric],
    root_causes: Mapping[str, RootCause],
    errors: list[DataError],
) -> Rule | None:
    path = written.path
    if not _ID.fullmatch(spec.rule_id.removesuffix(f".{written.each}")):
        errors.append(loaded.error("a rule id is lower-case letters, digits and _", *path, "rule_id"))
    if spec.root_cause is not None and spec.root_cause not in root_causes:
        near = did_you_mean(spec.root_cause, root_causes)
        errors.append(loaded.error(f'unknown root cause "{spec.root_cause}"{near}', *path, "root_cause"))
    severity = _tried(lambda: severity_of(loaded, spec, path, root_causes), errors)
    reader = ConditionReader(loaded, catalogue)
    trigger = _tried(lambda: reader.trigger(spec.trigger, (*path, "trigger")), errors)
    held_s = _tried(lambda: reader.duration(spec.for_, (*path, "for")), errors)
    more, more_sure = spec.more_sure, None
    if more is not None:
        more_sure = _tried(lambda: reader.trigger(more.trigger, (*path, "more_sure", "trigger")), errors)
    scopes = [scope for part in (trigger, more_sure) if part is not None for scope in scopes_of(part, catalogue)]
    scope = next(iter(scopes), Scope.NODE)
    evidence = evidence_of(loaded, spec, path, catalogue, scopes if trigger is not None else None, errors)
    summary = own_words(spec.summary, loaded, (*path, "summary"), catalogue, errors)
    actions, held = _actions(loaded, spec, path, catalogue, errors)
    if trigger is None or severity is None or held_s is None:
        return None
    alert = next((action.message for action in actions if action.type == "alert"), "")
    return Rule(
        id=spec.rule_id,
        description=spec.description,
        severity=severity,
        confidence=spec.confidence,
        trigger=Held(trigger, held_s) if held_s else trigger,
        scope=scope,
        root_cause=spec.root_cause,
        summary=summary or alert or spec.description,
        per_node=spec.per == "node",
        evidence=evidence,
        more_sure=more_sure,
        sure=more.confidence if more else spec.confidence,
        explains=spec.explains,
        actions=actions,
        tests=tuple(test for test in spec.tests if test.each in (None, written.each)),
        file=loaded,
        path=path,
        each=written.each,
        enabled=spec.enabled,
        offers=tuple(spec.offers),
        message=alert,
        logs=tuple(action.message for action in actions if action.type == "log"),
        held=held,
        tests_at=tuple(at for at, test in enumerate(spec.tests) if test.each in (None, written.each)),
    )


def _tried(read: Callable[[], T], errors: list[DataError]) -> T | None:
    try:
        return read()
    except DataError as error:
        errors.append(error)
        return None


def _actions(
    loaded: Loaded,
    spec: RuleSpec,
    path: tuple[str | int, ...],
    catalogue: Mapping[str, Metric],
    errors: list[DataError],
) -> tuple[tuple[ActionSpec, ...], tuple[str, ...]]:
    """Return the actions with texts in our words, and what the calls among them would do."""
    actions, held = [], []
    for position, action in enumerate(spec.action):
        here = (*path, "action", position)
        if action.type == "api_call":
            held.append(own_words(call_of(action, loaded, here, errors), loaded, here, catalogue, errors))
        elif not action.message:
            errors.append(loaded.error(f"{action.type} needs a message", *here))
        message = own_words(action.message, loaded, (*here, "message"), catalogue, errors)
        actions.append(msgspec.structs.replace(action, message=message))
    return tuple(actions), tuple(held)


def placeholders(text: str) -> Iterable[str]:
    """Return the names between {{ }} in `text`, in order."""
    return [match[1] for match in PLACEHOLDER.finditer(text)]


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
    return tuple(tuple(PLACEHOLDER.split(part)) for part in text.split(" · "))
