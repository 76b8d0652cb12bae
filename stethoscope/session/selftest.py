"""Rules test themselves: their series go the way of real readings through the fold into an engine of that rule
alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stethoscope.analysis.rules import Engine
from stethoscope.errors import DataError
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.ids import node_of
from stethoscope.session.selftest_fleet import JOB_PLACE, SUBJECT, TestFleet
from stethoscope.specs.condition import leaves
from stethoscope.specs.duration import duration_s
from stethoscope.specs.rule_test import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.model.metric import Metric
    from stethoscope.specs.rule import Rule
    from stethoscope.specs.rule_test import TestSpec

LOOK_S = 30.0
"""Between two samples that are further apart the rules look so often, as a console does, ..."""
ALONE_S = 600.0
"""... unless they are further apart than this: then nobody looked in between."""


def check_rule(rule: Rule, catalogue: Mapping[str, Metric]) -> Iterator[DataError]:
    """Yield what is wrong with the rule's own tests: broken ones, those that the rule fails,
    and one half of what they should show. A rule of an operator need not have any."""
    expectations = {test.expect for test in rule.tests}
    if not expectations:
        return
    if not expectations - {"none"}:
        yield DataError(f"{rule.id}: no test expects a finding", where=rule.where)
    if "none" not in expectations:
        yield DataError(f"{rule.id}: no test says when there must be no finding (expect: none)", where=rule.where)
    for number, message in enumerate(run_tests(rule, catalogue)):
        if message:
            name = rule.tests[number].name
            yield DataError(f'{rule.id}: test "{name}": {message}', where=rule.test_where(number))


def run_tests(rule: Rule, catalogue: Mapping[str, Metric]) -> Iterator[str]:
    """Yield for each test of the rule what is wrong, or nothing where the rule does what the test expects."""
    for test in rule.tests:
        try:
            yield _fails(rule, test, catalogue)
        except ValueError as error:
            yield str(error)


def _fails(rule: Rule, test: TestSpec, catalogue: Mapping[str, Metric]) -> str:
    findings: list[Finding] = []
    for sample, found in _play(rule, test, catalogue):
        findings = [finding for finding in found if finding.state == "active"]
        astray = next((finding for finding in findings if not _is_own(finding.where[0])), None)
        if astray is not None:
            return f"sample {sample}: a finding about a healthy peer: {astray.where[0]}: {astray.summary}"
        if findings and test.expect == "none":
            return f"sample {sample}: {findings[0].severity.value} where none was expected: {findings[0].summary}"
    if test.expect == "none":
        return ""
    if not findings:
        return f"{test.expect} was expected after the last sample, and there is no finding"
    if findings[0].severity is not Severity(test.expect):
        return f"{test.expect} was expected, and the finding is {findings[0].severity.value}"
    if test.summary is not None and findings[0].summary != test.summary:
        return f'the summary is "{findings[0].summary}"'
    return _misplaced(test, findings)


def _is_own(place: str) -> bool:
    return place == JOB_PLACE or node_of(place) == SUBJECT


def _misplaced(test: TestSpec, findings: list[Finding]) -> str:
    if test.where is None:
        return ""
    wanted = set(test.where if isinstance(test.where, list) else [test.where])
    found = {place.partition("/")[2] for finding in findings for place in finding.where}
    return "" if found == wanted else f"the finding is at {', '.join(sorted(found)) or 'the node'}"


def _play(rule: Rule, test: TestSpec, catalogue: Mapping[str, Metric]) -> Iterator[tuple[int, tuple[Finding, ...]]]:
    """Yield (number of the sample, findings) for each look at the test."""
    every_s = duration_s(test.every)
    if every_s <= 0:
        raise ValueError("every is longer than nothing")
    links = [_link(word) for word in _words(test.link)]
    conditions = [part for part in (rule.trigger, rule.more_sure) if part is not None]
    reads = {metric for part in conditions for leaf, _ in leaves(part) for metric in leaf.reads()}
    fleet = TestFleet(test, catalogue, every_s, reads)
    engine = Engine([rule], catalogue, single_look=test.single_look)
    looks = math.ceil(every_s / LOOK_S) if every_s <= ALONE_S else 1
    samples = max(len(links), fleet.samples)
    for sample in range(samples):
        fleet.send(sample, links[min(sample, len(links) - 1)])
        for look in range(looks if sample < samples - 1 else 1):
            yield sample, engine.evaluate(fleet.look(sample, (sample + look / looks) * every_s))


def _words(link: list[str] | str) -> list[object]:
    return expanded([*link] if isinstance(link, list) else link)


def _link(word: object) -> LinkState:
    try:
        return LinkState(str(word))
    except ValueError:
        raise ValueError(f'"{word}" is no state of a link: {", ".join(LinkState)}') from None
