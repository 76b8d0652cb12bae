"""Everything that `lint` checks: every data file in reach, and the tests that rules carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.session.lint_signatures import check_signatures, check_times, samples_of
from stethoscope.session.selftest import check_rule
from stethoscope.specs.codes import load_codes
from stethoscope.specs.compiled import playbook_files
from stethoscope.specs.load import SeveralDataError
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.probes import load_manifest
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules
from stethoscope.specs.signature import PATTERN
from stethoscope.specs.signature_file import read_written

if TYPE_CHECKING:
    from pathlib import Path

_POSITION = re.compile(r"(.*?)(?::(\d+))?(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class LintResult:
    """What was read, and what is wrong with it."""

    counts: dict[str, int]
    errors: tuple[DataError, ...]
    """In the order of files and lines."""


def lint(*directories: Path) -> LintResult:
    """Return what is wrong with the data files of `directories`, of the user's configuration and the bundled ones."""
    counts: dict[str, int] = {}
    errors: list[DataError] = []
    try:
        catalogue = load_catalogue(*directories)
        counts["metrics"] = len(catalogue)
        causes = load_root_causes(*directories)
        counts["root causes"] = len(causes)
        rules = load_rules(catalogue, causes, *directories)
        counts["rules"] = len(rules)
        counts["rule tests"] = sum(len(rule.tests) for rule in rules)
        for rule in rules:
            errors += check_rule(rule, catalogue)
    except DataError as error:
        # Rules name metrics and causes: with those broken there is nothing to check them against.
        errors += _each(error)
    _lint_logs(counts, errors, directories)
    try:
        manifest = load_manifest()
        counts["probes"] = len(manifest.probes) + len(manifest.watch) + len(manifest.ondemand)
    except DataError as error:
        errors += _each(error)
    counts["scenarios"] = _lint_scenarios(errors)
    return LintResult(counts, tuple(sorted(errors, key=_position)))


def _lint_logs(counts: dict[str, int], errors: list[DataError], directories: tuple[Path, ...]) -> None:
    """Check what log lines are read with: signatures with their samples, and the tables of codes."""
    try:
        written = read_written(playbook_files(PATTERN, *directories), *directories)
        counts["signatures"] = len(written)
        counts["samples"] = sum(map(samples_of, written))
        errors += check_signatures(written)
        errors += check_times(written)
    except DataError as error:
        errors += _each(error)
    try:
        codes = load_codes(*directories)
        counts["codes"] = len(codes.all("xid")) + len(codes.all("sxid"))
    except DataError as error:
        errors += _each(error)


def _lint_scenarios(errors: list[DataError]) -> int:
    from stethoscope.sim.scenarios import bundled, vocabulary
    from stethoscope.specs.scenario import load_scenario

    files = bundled()
    for path in files.values():
        try:
            load_scenario(path, vocabulary())
        except DataError as error:
            errors += _each(error)
    return len(files)


def _each(error: DataError) -> tuple[DataError, ...]:
    return error.errors if isinstance(error, SeveralDataError) else (error,)


def _position(error: DataError) -> tuple[str, int, int]:
    match = _POSITION.fullmatch(error.where)
    assert match is not None
    return match[1], int(match[2] or 0), int(match[3] or 0)
