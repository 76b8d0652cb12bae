"""Counters told apart: moving, historic, saturated, reset, wrapped. The samples go the way of real frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stethoscope.analysis.counting import Movement
from stethoscope.analysis.layout import Layout
from stethoscope.analysis.moment import Moment
from stethoscope.errors import DataError
from stethoscope.model.metric import Scope
from stethoscope.paths import bundled
from stethoscope.session.selftest import run_tests
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules
from tests.builders import MONO, catalogue, fleet

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


def test_counters_that_stand_still_take_no_memory_of_their_own() -> None:
    movement = Movement(catalogue()[SYMBOLS])
    layout = Layout(fleet(50))

    def see(after_s: float, total: int) -> None:
        seen = fleet(50, totals={("gpu-001/ib/mlx5_1", SYMBOLS): total})
        nodes = tuple(replace(node, frame_mono=MONO + after_s) for node in seen.nodes)
        movement.take(Moment(replace(seen, nodes=nodes, mono=MONO + after_s), layout, catalogue()))

    movement.fit({Scope.PORT: layout.changed(Scope.PORT, None)})
    for after_s in (0.0, 60.0):
        see(after_s, 3)
    # Where it is known of all rows, what they stood at is the picture itself.
    assert movement.nbytes <= len(layout.owner[Scope.PORT]) * 8 + 100
    assert set(movement.watched_since.tolist()) == {MONO}
    see(120.0, 4)
    assert np.flatnonzero(~np.isnan(movement.moved_at)).tolist() == [1]
    assert movement.moved_at[1] == MONO + 120.0
    assert np.isnan(movement.reset_at).all()
    movement.forget(samples=True)
    assert np.isnan(movement.watched_since).all()
    see(180.0, 3)
    assert np.isnan(movement.reset_at).all()
    assert movement.watched_since[1] == MONO + 180.0
    see(240.0, 1)
    assert np.flatnonzero(~np.isnan(movement.reset_at)).tolist() == [1]
    assert (movement.reset_at[1], movement.moved_at[1]) == (MONO + 240.0, MONO + 240.0)
