"""Counters told apart: moving, historic, saturated, reset, wrapped. The samples go the way of real frames."""

from __future__ import annotations

import pytest

from stethoscope.errors import DataError
from stethoscope.paths import bundled
from stethoscope.session.selftest import run_tests
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules
from tests.builders import catalogue

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")
RULE = """
rule_id: made
description: made for a test
severity: P1
summary: "it does · {{total}}"
trigger: [%s]
tests:
- {name: made, expect: %s, every: %s, series: {%s: %s}}
- {name: no such value, expect: none, series: {%s: "unsupported x3"}}
"""

SYMBOLS = "ib_symbol_error"


def wrong(metric: str, state: str, samples: str, expect: str, every: str = "5s", more: str = "") -> list[str]:
    condition = f"{{metric: {metric}, counter: {state}{more}}}"
    text = RULE % (condition, expect, every, metric, samples, metric)
    (rule,) = read_rules(loads(text, "rules.yaml"), catalogue(), CAUSES)
    return [message for message in run_tests(rule, catalogue()) if message]


@pytest.mark.parametrize(
    ("state", "samples", "found"),
    [
        ("moving", '["3 x3", "4 x3"]', True),
        ("moving", '["3 x20"]', False),
        ("moving", '["65535 x20"]', False),
        ("moving", '["0 x20"]', False),
        ("historic", '["812345 x20"]', True),
        ("historic", '["3 x6"]', False),
        ("historic", '["0 x20"]', False),
        ("historic", '["65535 x20"]', False),
        ("saturated", '["65535 x3"]', True),
        ("saturated", '["4294967295 x3"]', True),
        ("saturated", '["65534 x3"]', False),
        ("reset", '["5000 x4", "0 x4"]', True),
        ("reset", '["5000 x4", "12 x4"]', True),
        ("reset", '["65535 x4", "0 x4"]', True),
        ("reset", '["0 x4", "7 x4"]', False),
        ("reset", '["5000 x8"]', False),
    ],
)
def test_an_error_counter(state: str, samples: str, found: bool) -> None:
    assert wrong(SYMBOLS, state, samples, "P1" if found else "none") == []


def test_a_reset_is_told_for_a_while() -> None:
    assert wrong(SYMBOLS, "reset", '["5000 x4", "0 x4"]', "P1", more=", window: 60s") == []
    assert wrong(SYMBOLS, "reset", '["5000 x4", "0 x40"]', "none", more=", window: 15s") != []


def test_a_counter_that_wraps_is_not_reset() -> None:
    samples = '["4294967000", "100", "400"]'
    metric = next(m.id for m in catalogue().values() if m.bits == 32)
    assert wrong(metric, "wrapped", samples, "P1") == []
    assert wrong(metric, "reset", samples, "none") == []
    assert wrong(metric, "moving", samples, "P1") == []
    assert wrong(metric, "wrapped", '["5000 x2", "10 x2"]', "none") == []


def test_what_is_no_counter_and_no_state() -> None:
    with pytest.raises(DataError, match="gpu_temp is no counter"):
        wrong("gpu_temp", "moving", "[1]", "none")
    with pytest.raises(DataError, match='unknown state of a counter "movin"; did you mean "moving"'):
        wrong(SYMBOLS, "movin", "[1]", "none")
