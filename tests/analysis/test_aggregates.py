"""What an aggregate says of a window whose newest sample is missing: nothing, however older ones slide out of it."""

from __future__ import annotations

import pytest

from stethoscope.session.selftest import run_tests
from stethoscope.specs.load import loads
from stethoscope.specs.rule import read_rules
from tests.builders import catalogue


@pytest.mark.parametrize(
    ("asked", "said", "silent"),
    [
        ("{operator: '>', threshold: 85, aggregate: avg}", "60 x4, 95 x8", "60 x4, 95 x2, error x4"),
        ("{operator: '>', threshold: 85, aggregate: min}", "60 x4, 95 x8", "60 x4, 95 x2, lost x6"),
        ("{operator: '<', threshold: 70, aggregate: max}", "95 x4, 60 x8", "95 x4, 60 x2, hung x6"),
        ("{operator: '<', threshold: 1 C/m, aggregate: slope}", "60..95 x12, 95 x8", "60..95 x12, error x4"),
        ("{operator: '<', threshold: 1, aggregate: stddev}", "60..95 x6, 60 x8", "60..95 x6, error x5"),
    ],
)
def test_nothing_is_known_of_a_window_without_a_value_now(asked: str, said: str, silent: str) -> None:
    def cells(text: str) -> str:
        return "[" + ", ".join(f'"{cell.strip()}"' for cell in text.split(",")) + "]"

    text = f"""
rule_id: made
description: d
severity: P2
trigger: {{metric: gpu_temp, window: 30s, {asked[1:]}
tests:
- {{name: a, expect: P2, series: {{gpu_temp: {cells(said)}}}}}
- {{name: b, expect: none, series: {{gpu_temp: {cells(silent)}}}}}
"""
    made = read_rules(loads(text, "rules.yaml"), catalogue(), {})
    assert list(run_tests(made[0], catalogue())) == ["", ""]
