"""The rule files in reach: `rules/*.yaml` of each playbook directory, the nearest definition of a rule id first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.errors import DataError, did_you_mean
from stethoscope.paths import bundled, config_dir, is_there
from stethoscope.specs.compiled import cached
from stethoscope.specs.load import load, several
from stethoscope.specs.rule import Rule, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from stethoscope.model.metric import Metric
    from stethoscope.specs.root_cause import RootCause

DIRECTORY = "rules"
_READERS = ("stethoscope.specs.load", "stethoscope.specs.rule_book")
"""What the compiled form of the files depends on beside them."""
PATTERNS = ("*.yaml", "*.yml")
OTHERS = (
    "signatures", "triage", "baselines", "metrics.yaml", "metric_names.yaml", "root_causes.yaml", "xid.yaml",
    "sxid.yaml",
)  # fmt: skip
"""Parts of a playbooks tree that are no rules."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules in reach, and what is wrong with files."""

    rules: tuple[Rule, ...]
    """Those that are evaluated, in the order of their ids."""
    others: tuple[tuple[Rule, str], ...]
    """Those that are not, each with why: `overridden by FILE`, `switched off by FILE`."""
    errors: tuple[DataError, ...]


def load_rules(
    catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause], *directories: Path
) -> tuple[Rule, ...]:
    """Return every rule, in the order of their ids, the nearest definition of an id alone.

    Raises DataError (or SeveralDataError) with positions for broken files.
    """
    book = load_book(catalogue, root_causes, *directories)
    if book.errors:
        raise several(book.errors)
    return book.rules


def rule_places(*directories: Path) -> tuple[Path, ...]:
    """Return the directories of rule files, the nearest first: those given, the user's, the bundled one."""
    near = tuple(_own(place) for place in directories)
    return (*near, *(place / DIRECTORY for place in (config_dir() / "playbooks", bundled("playbooks"))))


def _own(place: Path) -> Path:
    """Return where the rule files of a directory that was named are: in its `rules`, or in itself when it holds no
    other part of a playbooks tree."""
    if is_there(place / DIRECTORY) or any(is_there(place / other) for other in OTHERS):
        return place / DIRECTORY
    return place


def rule_files(*directories: Path) -> tuple[tuple[Path, ...], ...]:
    """Return the rule files of each directory, of the user's and of the bundled ones, the nearest directory first."""
    places = rule_places(*directories)
    return tuple(tuple(sorted(each for form in PATTERNS for each in place.glob(form))) for place in places)


def load_book(catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause], *directories: Path) -> RuleBook:
    """Return all rules in reach; the nearest definition of an id is the one that counts, and of a template the nearest
    template."""
    chosen: dict[str, Rule] = {}
    nearer: dict[str, Rule] = {}
    others: list[tuple[Rule, str]] = []
    errors: list[DataError] = []
    switches: list[Rule] = []
    places = rule_files(*directories)
    compiled = _compiled(places[-1])
    for files in places:
        here: dict[str, Rule] = {}
        for path in files:
            rules, wrong = _read(path, catalogue, root_causes, compiled.get(path))
            errors += wrong
            for rule in rules:
                if rule.id in here:
                    errors.append(DataError(f'the rule "{rule.id}" is defined twice', where=rule.where))
                here[rule.id] = rule
        for rule in here.values():
            switches += [] if rule.enabled else [rule]
            stronger = nearer.get(rule.id) or nearer.get(rule.base)
            if stronger is not None:
                how = "overridden" if stronger.enabled else "switched off"
                others.append((rule, f"{how} by {stronger.file.name}"))
            elif rule.enabled:
                chosen[rule.id] = rule
            elif rule.tests:
                others.append((rule, "switched off"))
        nearer = {**{name: rule for rule in here.values() for name in (rule.base, rule.id)}, **nearer}
    known = {name for rule in (*chosen.values(), *(rule for rule, _ in others)) for name in (rule.id, rule.base)}
    if not errors:
        errors = [*_unknown_switched(switches, known), *_unknown_explained(chosen.values(), known)]
    return RuleBook(tuple(chosen[id_] for id_ in sorted(chosen)), tuple(others), tuple(errors))


def _as_json(data: Any) -> Any:
    """Return the content of a file as JSON has it, where keys are text: mappings are lists with all their keys and
    values, lists stand in one."""
    if isinstance(data, dict):
        return [part for key, value in data.items() for part in (key, _as_json(value))]
    return [[_as_json(one) for one in data]] if isinstance(data, list) else data


def _from_json(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    if len(data) == 1:
        return [_from_json(one) for one in data[0]]
    return {data[at]: _from_json(data[at + 1]) for at in range(0, len(data), 2)}


def _compiled(files: Sequence[Path]) -> dict[Path, Any]:
    """Return what is in the bundled files, compiled: half of the time of reading their rules is reading YAML."""

    def build() -> list[Any]:
        return [_as_json(load(path, many=True).data) for path in files]

    try:
        return dict(zip(files, map(_from_json, cached("rules", files, _READERS, build)), strict=True))
    except DataError:
        # Said of each file by itself.
        return {}


def _read(
    path: Path, catalogue: Mapping[str, Metric], root_causes: Mapping[str, RootCause], data: Any = None
) -> tuple[tuple[Rule, ...], list[DataError]]:
    try:
        return read_file(load(path, many=True, data=data), catalogue, root_causes)
    except DataError as error:
        return (), [error]


def _unknown_switched(switches: list[Rule], known: set[str]) -> list[DataError]:
    return [
        DataError(f"{rule.id} switches off an unknown rule{did_you_mean(rule.id, known)}", where=rule.where)
        for rule in switches
        if rule.id not in known
    ]


def _unknown_explained(rules: Iterable[Rule], known: set[str]) -> list[DataError]:
    return [
        DataError(f'{rule.id} explains an unknown rule "{other}"{did_you_mean(other, known)}', where=rule.where)
        for rule in rules
        for named in (rule.explains.same_place, rule.explains.same_node)
        for other in (named if isinstance(named, list) else ())
        if other not in known and other != "gpus"
    ]
