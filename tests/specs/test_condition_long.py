"""Conditions over hours and days: how they are written, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.specs.condition import Combined
from stethoscope.specs.condition_long import Long
from stethoscope.specs.load import load
from stethoscope.specs.rule import read_rules
from tests.builders import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.specs.condition import Condition


def trigger(tmp_path: Path, condition: str) -> Condition:
    file = tmp_path / "rule.yaml"
    file.write_text(f"rule_id: slow\ndescription: Slow.\nseverity: warning\ntrigger:\n- {{{condition}}}\n")
    (rule,) = read_rules(load(file), catalogue(), {})
    assert isinstance(rule.trigger, Combined)
    return rule.trigger.parts[0]


@pytest.mark.parametrize(
    ("text", "leaf"),
    [
        (
            'metric: ib_link_downed, operator: ">=", threshold: 3, window: 12h, aggregate: delta',
            Long("ib_link_downed", ">=", 3.0, "delta", 43_200.0),
        ),
        (
            'metric: smart_reallocated_sectors, operator: ">", threshold: 50%, window: 30d, aggregate: growth',
            Long("smart_reallocated_sectors", ">", 50.0, "growth", 2_592_000.0),
        ),
        (
            'metric: smart_reallocated_sectors, operator: ">", threshold: 0.5, window: 30d, aggregate: growth',
            Long("smart_reallocated_sectors", ">", 50.0, "growth", 2_592_000.0),
        ),
    ],
)
def test_what_is_written(tmp_path: Path, text: str, leaf: Long) -> None:
    assert trigger(tmp_path, text) == leaf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'metric: gpu_temp, operator: ">", threshold: 3, window: 12h, aggregate: delta',
            "is not remembered for longer",
        ),
        ('metric: ib_link_downed, operator: ">", threshold: 3, window: 12h', "the aggregate is delta or growth"),
        ('metric: ib_link_downed, operator: ">", threshold: 3, window: 12h, aggregate: max', 'unknown aggregate "max"'),
        (
            "metric: ib_link_downed, operator: has, threshold: 3, window: 12h, aggregate: delta",
            'unknown operator "has"',
        ),
        ('metric: ib_link_downed, operator: ">", window: 12h, aggregate: delta', '"threshold" is missing'),
        (
            'metric: ib_link_downed, operator: ">", threshold: 3%, window: 12h, aggregate: delta',
            "threshold is a number",
        ),
        ('metric: ib_link_downed, operator: ">", threshold: 3, aggregate: growth', 'growth needs a "window"'),
        ('metric: ib_link_downed, operator: ">", threshold: 3, window: 5m, aggregate: growth', "longer than an hour"),
        ('metric: ib_link_downed, operator: ">", threshold: 3, window: 900d, aggregate: delta', "a year at most"),
    ],
)
def test_what_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        trigger(tmp_path, text)
    assert raised.value.where.startswith(f"{tmp_path / 'rule.yaml'}:5")
