"""The triage playbooks in reach: what is known of root causes, what pictures and tool output mean, and the flows.

Files of `triage/` in each playbook directory; of what has an id, the nearest definition counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import msgspec

from stethoscope.errors import DataError, did_you_mean
from stethoscope.paths import bundled, config_dir
from stethoscope.specs.load import Spec, convert, load, refuse_hidden, several
from stethoscope.specs.playbook_forms import (
    FACTS,
    AnswerSpec,
    CauseSpec,
    FlowSpec,
    HeardSpec,
    PictureSpec,
    RightSpec,
    SignSpec,
    StepSpec,
    WhenSpec,
)
from stethoscope.specs.root_cause import load_root_causes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from stethoscope.specs.load import Loaded
    from stethoscope.specs.root_cause import RootCause

DIRECTORY = "triage"
SCHEMA = "stethoscope.triage/1"
LONGEST_PATTERN = 300


class TriageFile(Spec, frozen=True):
    """One file of `triage/`: any of its parts may be missing."""

    schema: Literal["stethoscope.triage/1"]
    symptoms: list[list[str]] = msgspec.field(default_factory=list)
    causes: list[CauseSpec] = msgspec.field(default_factory=list)
    pictures: list[PictureSpec] = msgspec.field(default_factory=list)
    signs: list[SignSpec] = msgspec.field(default_factory=list)
    heard: list[HeardSpec] = msgspec.field(default_factory=list)
    confidence: list[RightSpec] = msgspec.field(default_factory=list)
    flow: FlowSpec | None = None


@dataclass(frozen=True)
class Playbooks:
    """Everything that an operator may edit of the diagnosis."""

    classes: Mapping[str, RootCause]
    """The vocabulary of root causes by id."""
    causes: Mapping[str, CauseSpec] = field(default_factory=dict)
    symptoms: frozenset[str] = frozenset()
    """Rules that show that something is wrong and not what."""
    pictures: tuple[PictureSpec, ...] = ()
    signs: tuple[SignSpec, ...] = ()
    heard: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Signature of a verdict over logs and what it says (empty: whatever) -> the root cause that it means here."""
    confidence: tuple[tuple[float, float], ...] = ()
    """Weight of the evidence for a verdict -> how often such were right, rising; empty: what it weighs is said."""
    flows: Mapping[str, FlowSpec] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """File of each flow, by its id."""

    @cached_property
    def shows(self) -> Mapping[str, tuple[tuple[str, float, int], ...]]:
        """Return rule -> root causes that it may show, how much that weighs, and on how many nodes it has to be."""
        shows: dict[str, list[tuple[str, float, int]]] = {}
        for cause in self.causes.values():
            for shown in cause.shown_by:
                for rule in shown.rules:
                    shows.setdefault(rule, []).append((cause.root_cause, shown.weight, shown.nodes))
        return {rule: tuple(causes) for rule, causes in shows.items()}

    @cached_property
    def patterns(self) -> Mapping[str, re.Pattern[str]]:
        """Return sign -> what it looks for in the output of its tool."""
        return {sign.id: re.compile(sign.find, re.MULTILINE) for sign in self.signs}


def load_playbooks(*directories: Path) -> Playbooks:
    """Return the playbooks of `directories`, the user's and the bundled ones, the nearest first; raises DataError (or
    SeveralDataError) with positions."""
    classes = load_root_causes(*directories)
    books = Playbooks(classes)
    errors: list[DataError] = []
    for path in playbook_paths(*directories):
        try:
            books = _with(books, path)
        except DataError as error:
            errors.append(error)
    if errors:
        raise several(errors)
    return books


def playbook_paths(*directories: Path) -> tuple[Path, ...]:
    """Return the files of `triage/` in each directory, in the user's and in the bundled one, the nearest first."""
    places = [*directories, config_dir() / "playbooks", bundled("playbooks")]
    return tuple(path for place in places for path in sorted((place / DIRECTORY).glob("*.yaml")))


def _with(books: Playbooks, path: Path) -> Playbooks:
    loaded = load(path)
    refuse_hidden(loaded, _without_samples(loaded.data))
    file = convert(loaded, TriageFile)
    errors = [*_causes_wrong(file, loaded, books.classes), *_signs_wrong(file, loaded, books.classes)]
    errors += _pictures_wrong(file, loaded, books.classes)
    errors += [
        _unknown(loaded, "root cause", one.root_cause, books.classes, "heard", number, "root_cause")
        for number, one in enumerate(file.heard)
        if one.root_cause not in books.classes
    ]
    errors += [
        _unknown(loaded, "root cause", one.was, books.classes, "heard", number, "was")
        for number, one in enumerate(file.heard)
        if one.was and one.was not in books.classes
    ]
    errors += _confidence_wrong(file, loaded)
    if file.flow is not None:
        errors += _flow_wrong(file.flow, loaded, books.classes)
    if errors:
        raise several(errors)
    flows, files = dict(books.flows), dict(books.files)
    if file.flow is not None and file.flow.id not in flows:
        flows[file.flow.id], files[file.flow.id] = file.flow, str(path)
    known = {picture.id for picture in books.pictures}
    known_signs = {sign.id for sign in books.signs}
    return replace(
        books,
        causes={**{cause.root_cause: cause for cause in file.causes}, **books.causes},
        symptoms=books.symptoms | {rule for group in file.symptoms for rule in group},
        pictures=(*books.pictures, *(picture for picture in file.pictures if picture.id not in known)),
        signs=(*books.signs, *(sign for sign in file.signs if sign.id not in known_signs)),
        heard={**{(one.signature, one.was): one.root_cause for one in file.heard}, **books.heard},
        confidence=books.confidence or tuple((one.evidence, one.right) for one in file.confidence),
        flows=flows,
        files=files,
    )


def _without_samples(data: object) -> object:
    """Return the content of a file without samples of tools: these have several lines and are never shown."""
    if not isinstance(data, dict) or not isinstance(data.get("signs"), list):
        return data
    signs = [
        {key: value for key, value in sign.items() if key not in ("finds", "leaves")}
        if isinstance(sign, dict)
        else sign
        for sign in data["signs"]
    ]
    return {**data, "signs": signs}


def _unknown(loaded: Loaded, what: str, word: str, known: Collection[str], *path: str | int) -> DataError:
    return loaded.error(f'unknown {what} "{word}"{did_you_mean(word, known)}', *path)


def _causes_wrong(file: TriageFile, loaded: Loaded, classes: Collection[str]) -> Iterator[DataError]:
    seen: set[str] = set()
    for number, cause in enumerate(file.causes):
        here = ("causes", number)
        if cause.root_cause not in classes:
            yield _unknown(loaded, "root cause", cause.root_cause, classes, *here, "root_cause")
        if cause.root_cause in seen:
            yield loaded.error(f'the root cause "{cause.root_cause}" stands here twice', *here, "root_cause")
        seen.add(cause.root_cause)
        for position, follows in enumerate(cause.explains):
            for at, named in enumerate(follows.causes):
                if named not in classes:
                    yield _unknown(loaded, "root cause", named, classes, *here, "explains", position, "causes", at)
        for position, other in enumerate(cause.unlike):
            if other.root_cause not in classes:
                yield _unknown(loaded, "root cause", other.root_cause, classes, *here, "unlike", position, "root_cause")


def _signs_wrong(file: TriageFile, loaded: Loaded, classes: Collection[str]) -> Iterator[DataError]:
    for number, sign in enumerate(file.signs):
        here = ("signs", number)
        try:
            pattern = re.compile(sign.find, re.MULTILINE)
        except re.error as error:
            yield loaded.error(f"no regular expression: {error}", *here, "find")
            continue
        if len(sign.find) > LONGEST_PATTERN:
            yield loaded.error(f"longer than {LONGEST_PATTERN} characters", *here, "find")
        for name in re.findall(r"\{(\w+)\}", sign.says + sign.part):
            if name not in pattern.groupindex and name not in ("place", "node"):
                yield loaded.error(f'the expression has no group "{name}"', *here)
        for named in (*sign.shows, *sign.rules_out):
            if named not in classes:
                yield _unknown(loaded, "root cause", named, classes, *here, "shows")


def _facts_wrong(facts: Iterable[str], loaded: Loaded, path: tuple[str | int, ...]) -> Iterator[DataError]:
    for name in facts:
        if name not in FACTS:
            yield loaded.error(f'unknown fact "{name}"{did_you_mean(name, FACTS)}', *path, name)


def _pictures_wrong(file: TriageFile, loaded: Loaded, classes: Collection[str]) -> Iterator[DataError]:
    for number, picture in enumerate(file.pictures):
        here = ("pictures", number)
        if picture.root_cause not in classes:
            yield _unknown(loaded, "root cause", picture.root_cause, classes, *here, "root_cause")
        if picture.at not in (*FACTS, "job"):
            yield _unknown(loaded, "fact", picture.at, FACTS, *here, "at")
        yield from _when_wrong(picture.when, loaded, (*here, "when"))
        for key, groups in (("holds", picture.holds), ("fails", picture.fails)):
            for position, facts in enumerate(groups):
                yield from _facts_wrong(facts, loaded, (*here, key, position))


def _confidence_wrong(file: TriageFile, loaded: Loaded) -> Iterator[DataError]:
    for number, (one, after) in enumerate(pairwise(file.confidence), 1):
        if after.evidence <= one.evidence or after.right < one.right:
            yield loaded.error("more evidence than before, and right as often at least", "confidence", number)


def _when_wrong(when: WhenSpec, loaded: Loaded, path: tuple[str | int, ...]) -> Iterator[DataError]:
    if when.fact and when.fact not in FACTS:
        yield _unknown(loaded, "fact", when.fact, FACTS, *path, "fact")
    parts = [
        bool(when.fact),
        bool(when.finding),
        bool(when.event),
        bool(when.all),
        bool(when.any),
        when.none is not None,
    ]
    if sum(parts) != 1:
        yield loaded.error("a condition has one of: fact, finding, event, all, any, not", *path)
    for key, inner in (("all", when.all), ("any", when.any), ("not", [when.none] if when.none is not None else [])):
        for number, each in enumerate(inner):
            yield from _when_wrong(each, loaded, (*path, key) if key == "not" else (*path, key, number))


def _flow_wrong(flow: FlowSpec, loaded: Loaded, classes: Collection[str]) -> Iterator[DataError]:
    steps = [step.id for step in flow.steps]
    for number, step in enumerate(flow.steps):
        here = ("flow", "steps", number)
        if step.id in steps[:number]:
            yield loaded.error(f'the step "{step.id}" stands here twice', *here, "id")
        for position, answer in enumerate(step.answers):
            at = (*here, "answers", position)
            if answer.then and answer.then not in steps:
                yield _unknown(loaded, "step", answer.then, steps, *at, "then")
            for named in answer.causes:
                if named not in classes:
                    yield _unknown(loaded, "root cause", named, classes, *at, "causes")
            if answer.when is not None:
                yield from _when_wrong(answer.when, loaded, (*at, "when"))
    for number, each in enumerate(flow.starts):
        yield from _when_wrong(each, loaded, ("flow", "starts", number))
    for number, case in enumerate(flow.cases):
        yield from _facts_wrong(case.facts, loaded, ("flow", "cases", number, "facts"))
    for left in _unreached(flow):
        yield loaded.error(f'no answer leads to the step "{left}"', "flow", "steps", steps.index(left), "id")


def _unreached(flow: FlowSpec) -> Iterable[str]:
    reached, asked = set(), [flow.steps[0].id] if flow.steps else []
    by_id = {step.id: step for step in flow.steps}
    while asked:
        step = by_id.get(asked.pop())
        if step is None or step.id in reached:
            continue
        reached.add(step.id)
        asked += [answer.then for answer in step.answers if answer.then]
        asked += [step.else_then] if step.else_then else []
    return [step.id for step in flow.steps if step.id not in reached]


__all__ = ["AnswerSpec", "CauseSpec", "FlowSpec", "PictureSpec", "Playbooks", "SignSpec", "StepSpec", "WhenSpec"]
