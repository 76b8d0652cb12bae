"""Everything that `lint` checks: every data file in reach, and the tests that rules carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.triage_selftest import count_cases, wrong_cases
from stethoscope.errors import DataError, did_you_mean
from stethoscope.paths import bundled
from stethoscope.session.lint_incidents import lint_incidents
from stethoscope.session.lint_signatures import check_signatures, check_times, samples_of
from stethoscope.session.lint_tree import look
from stethoscope.session.selftest import check_rule
from stethoscope.specs.codes import load_codes
from stethoscope.specs.compiled import playbook_files
from stethoscope.specs.load import SeveralDataError, load
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.probes import load_manifest
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_book
from stethoscope.specs.signature import PATTERN
from stethoscope.specs.signature_file import read_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.session.lint_tree import Tree

SCHEMA = "stethoscope.lint/1"
_POSITION = re.compile(r"(.*?)(?::(\d+))?(?::(\d+))?", re.DOTALL)
_CHANGES_ALL = ("metrics.yaml", "root_causes.yaml", "metric_names.yaml")
"""Files that change what every rule means."""


@dataclass(frozen=True, slots=True)
class LintResult:
    """What was read, and what is wrong with it."""

    counts: dict[str, int]
    errors: tuple[DataError, ...]
    """In the order of files and lines."""
    untested: tuple[str, ...] = ()
    """Rules of operators that carry no test."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        places = [(error, *_position(error)) for error in self.errors]
        errors = [
            {"file": file, "line": line or None, "column": column or None, "message": error.message}
            for error, file, line, column in places
        ]
        return {"schema": SCHEMA, "counts": self.counts, "errors": errors, "untested": list(self.untested)}


def lint(*directories: Path) -> LintResult:
    """Return what is wrong with the data files of `directories`, of the user's configuration and the bundled ones.

    With directories, what is bundled is only checked as far as they change what it means. A file that is broken costs
    only itself.
    """
    counts: dict[str, int] = {}
    trees = [look(directory) for directory in directories]
    errors = [error for tree in trees for error in tree.errors]
    roots = [tree.root for tree in trees if tree.parts]
    parts = {part for tree in trees for part in tree.parts}
    untested = _lint_rules(counts, errors, roots, every=not trees or bool(parts.intersection(_CHANGES_ALL)))
    if not trees or "signatures" in parts:
        _lint_signatures(counts, errors, roots, trees)
    for path in playbook_files("baselines/*.yaml", *roots):
        try:
            load(path)
        except DataError as error:
            errors += _each(error)
    if not trees or "triage" in parts:
        _lint_triage(counts, errors, roots)
    if not trees or "incidents" in parts:
        counts["incidents"] = lint_incidents(errors, roots, {path for tree in trees for path in tree.broken})
    if not trees or parts.intersection(("xid.yaml", "sxid.yaml")):
        _lint_codes(counts, errors, roots)
    if not trees:
        try:
            manifest = load_manifest()
            counts["probes"] = len(manifest.probes) + len(manifest.watch) + len(manifest.ondemand)
        except DataError as error:
            errors += _each(error)
        counts["scenarios"] = _lint_scenarios(errors)
    once = {(error.where, error.message): error for error in errors if not _is_told(error, trees)}
    return LintResult(counts, tuple(sorted(once.values(), key=_position)), untested)


def _lint_triage(counts: dict[str, int], errors: list[DataError], roots: list[Path]) -> None:
    """Check the triage playbooks, that the rules which they name exist, and run their cases."""
    try:
        books = load_playbooks(*roots)
    except DataError as error:
        errors += _each(error)
        return
    counts["triage cases"] = count_cases(books)
    errors += [DataError(f"triage: {wrong}") for wrong in wrong_cases(books)]
    try:
        catalogue, causes = load_catalogue(*roots), load_root_causes(*roots)
        book = load_book(catalogue, causes, *roots)
    except DataError:
        # What is wrong there is told there.
        return
    known = {rule.id for rule in (*book.rules, *(rule for rule, _ in book.others))}
    for rule in sorted({*books.shows, *books.symptoms} - known):
        errors.append(DataError(f'triage: no rule is called "{rule}"{did_you_mean(rule, known)}'))


def _lint_rules(counts: dict[str, int], errors: list[DataError], roots: list[Path], *, every: bool) -> tuple[str, ...]:
    """Check metrics, root causes and rules, and run the tests of rules; return the rules that have none."""
    catalogue = _of_sound(load_catalogue, roots, errors)
    causes = _of_sound(load_root_causes, roots, errors)
    if catalogue is None or causes is None:
        # What is bundled or the user's is broken: rules name metrics and causes.
        return ()
    counts["metrics"], counts["root causes"] = len(catalogue), len(causes)
    try:
        len(catalogue.others)
    except DataError as error:
        errors += _each(error)
        catalogue = type(catalogue)(catalogue, dict)
    book = load_book(catalogue, causes, *roots)
    errors += book.errors
    ours = str(bundled("playbooks"))
    checked = [rule for rule in book.rules if every or not rule.file.name.startswith(ours)]
    counts["rules"] = len(book.rules)
    counts["rule tests"] = sum(len(rule.tests) for rule in checked)
    for rule in checked:
        errors += check_rule(rule, catalogue)
    return tuple(rule.id for rule in checked if not rule.tests)


def _of_sound(read: Callable[..., Any], roots: list[Path], errors: list[DataError]) -> Any:
    """Return what `read` makes of all directories, or of those that it can read; None when even that is broken."""
    try:
        return read(*roots)
    except DataError as error:
        errors += _each(error)
    sound = []
    for root in roots:
        try:
            read(root)
        except DataError:
            continue
        sound.append(root)
    try:
        return read(*sound)
    except DataError as error:
        errors += _each(error)
        return None


def _lint_signatures(counts: dict[str, int], errors: list[DataError], roots: list[Path], trees: list[Tree]) -> None:
    """Check signatures with their samples; a file that cannot be read is left out."""
    broken = {path for tree in trees for path in tree.broken}
    sources = [path for path in playbook_files(PATTERN, *roots) if str(path) not in broken]
    for _ in range(2):
        try:
            written = read_written(sources, *roots)
        except DataError as error:
            errors += _each(error)
            named = {_position(one)[0] for one in _each(error)}
            sources = [path for path in sources if str(path) not in named]
            continue
        counts["signatures"] = len(written)
        counts["samples"] = sum(map(samples_of, written))
        errors += check_signatures(written)
        # How long a bundled one takes does not depend on others.
        ours = str(bundled("playbooks"))
        errors += check_times([one for one in written if not trees or not one.signature.source.startswith(ours)])
        return


def _lint_codes(counts: dict[str, int], errors: list[DataError], roots: list[Path]) -> None:
    try:
        codes = load_codes(*roots)
        counts["codes"] = len(codes.all("xid")) + len(codes.all("sxid"))
    except DataError as error:
        errors += _each(error)


def _lint_scenarios(errors: list[DataError]) -> int:
    from stethoscope.sim.scenarios import bundled as scenarios
    from stethoscope.sim.scenarios import vocabulary
    from stethoscope.specs.scenario_read import load_scenario

    files = scenarios()
    for path in files.values():
        try:
            load_scenario(path, vocabulary())
        except DataError as error:
            errors += _each(error)
    return len(files)


def _is_told(error: DataError, trees: list[Tree]) -> bool:
    """Tell whether it is said already why a file cannot be read, or that its name means nothing."""
    file = _position(error)[0]
    return any(file in tree.broken and error not in tree.errors for tree in trees)


def _each(error: DataError) -> tuple[DataError, ...]:
    return error.errors if isinstance(error, SeveralDataError) else (error,)


def _position(error: DataError) -> tuple[str, int, int]:
    match = _POSITION.fullmatch(error.where)
    assert match is not None
    return match[1], int(match[2] or 0), int(match[3] or 0)
