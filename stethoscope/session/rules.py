"""What there is to know of rules without a fleet: which there are, what one asks, and how their own tests end."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.session.rule_words import in_words, unmeasured
from stethoscope.session.selftest import run_tests
from stethoscope.specs.load import load, several
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule import read_file
from stethoscope.specs.rule_book import load_book

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from stethoscope.model.metric import Metric, Scope
    from stethoscope.specs.rule import Rule
    from stethoscope.specs.rule_book import RuleBook

LIST_SCHEMA = "stethoscope.rules_list/1"
EXPLAIN_SCHEMA = "stethoscope.rules_explain/1"
TEST_SCHEMA = "stethoscope.rules_test/1"


@dataclass(frozen=True, slots=True)
class TestRun:
    """How one test of a rule ended."""

    rule: Rule
    name: str
    expect: str
    message: str
    """What is wrong; empty when it passed."""
    where: str


class Rules:
    """The rules in reach, and the catalogue that they are read with."""

    def __init__(self, *directories: Path) -> None:
        """Read them; DataError when the metrics or the root causes are broken. What is wrong with rules is in the
        book."""
        self.catalogue: Mapping[str, Metric] = load_catalogue(*directories)
        self._root_causes = load_root_causes(*directories)
        self.book: RuleBook = load_book(self.catalogue, self._root_causes, *directories)

    def named(self, names: Sequence[str]) -> list[Rule]:
        """Return the rules of these ids, templates or files, all of them for none; UsageError for what is none."""
        if not names:
            return list(self.book.rules)
        found: dict[str, Rule] = {}
        for name in names:
            here = [rule for rule in self.book.rules if name in (rule.id, rule.base) or _is_of(rule, name)]
            here = here or self._read(name)
            if not here:
                off = next((why for rule, why in self.book.others if name in (rule.id, rule.base)), "")
                ids = [*(rule.id for rule in self.book.rules), *(rule.base for rule in self.book.rules)]
                more = f": it is {off}" if off else did_you_mean(name, ids)
                raise UsageError(f'no rule or rule file "{name}"{more}')
            found |= {rule.id: rule for rule in here}
        return list(found.values())

    def _read(self, name: str) -> list[Rule]:
        """Return the rules of a file that is no part of a playbooks directory; what is wrong with it goes into the
        book."""
        if not os.path.isfile(name):
            return []
        try:
            rules, errors = read_file(load(name, many=True), self.catalogue, self._root_causes)
        except DataError as error:
            rules, errors = (), [error]
        self.book = replace(self.book, errors=(*self.book.errors, *errors))
        if not rules:
            raise several(errors)
        return [rule for rule in rules if rule.enabled]

    def run(self, rules: Sequence[Rule]) -> Iterator[TestRun]:
        """Run the tests of rules, one after the other."""
        for rule in rules:
            for number, message in enumerate(run_tests(rule, self.catalogue)):
                test = rule.tests[number]
                yield TestRun(rule, test.name, test.expect, message, rule.test_where(number) if message else "")

    def explained(self, rule: Rule) -> dict[str, Any]:
        """Return what there is to say of a rule, in the form of the JSON document."""
        more = None
        if rule.more_sure is not None:
            more = {"confidence": rule.sure, "condition": _lines(rule.more_sure, self.catalogue, rule.scope)}
        return {
            **listed(rule),
            "schema": EXPLAIN_SCHEMA,
            "root_cause": rule.root_cause,
            "confidence": rule.confidence,
            "condition": _lines(rule.trigger, self.catalogue, rule.scope),
            "more_sure": more,
            "summary": rule.summary,
            "one_finding_for": "node" if rule.per_node else "place",
            "explains": {"same_place": rule.explains.same_place, "same_node": rule.explains.same_node},
            "offers": list(rule.offers),
            "alert": rule.message or None,
            "log": list(rule.logs),
            "held": list(rule.held),
            "unmeasured": list(unmeasured(rule)),
            "tests": [{"name": test.name, "expect": test.expect} for test in rule.tests],
            "where": rule.where,
        }


def _is_of(rule: Rule, name: str) -> bool:
    file = rule.file.name
    return file == name or file.endswith(f"/{name}") or file.rsplit("/", 1)[-1].rsplit(".", 1)[0] == name


def _lines(condition: Any, catalogue: Mapping[str, Metric], scope: Scope) -> list[str]:
    return ["  " * depth + text for depth, text in in_words(condition, catalogue, scope=scope)]


def listed(rule: Rule, state: str = "") -> dict[str, Any]:
    """Return one line of the list of rules, in the form of the JSON document."""
    return {
        "id": rule.id,
        "severity": rule.severity.value if rule.enabled else None,
        "scope": rule.scope.value,
        "description": rule.description,
        "file": rule.file.name,
        "state": state or "on",
        "tests": len(rule.tests),
    }
