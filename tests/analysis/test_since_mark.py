"""Whole tables against the mark: the same answers as one row at a time, and gauges against what they were."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stethoscope.analysis.since_mark import SinceMark
from stethoscope.model.mark import Mark
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from tests.builders import fleet

CLOCK = "gpu_sm_clock"
BEFORE = fleet(3, set={("gpu-002/gpu/1", CLOCK): Reason.HUNG, ("gpu-003/gpu/0", CLOCK): 1400})
NOW = replace(
    fleet(
        3,
        set={("gpu-001/gpu/3", CLOCK): 1410, ("gpu-001/gpu/4", CLOCK): Reason.LOST, ("gpu-003/gpu/0", CLOCK): 1400},
        totals={("gpu-002/ib/mlx5_1", "ib_symbol_error"): 42},
    ),
    wall=BEFORE.wall + 60,
)


def test_gauges_are_compared_with_what_they_were() -> None:
    values, reasons = SinceMark(Mark.of(BEFORE)).changes(NOW, NOW.catalogue[CLOCK])
    assert values[[0, 3, 16]].tolist() == [0, -570, 0]
    assert math.isnan(values[4])
    assert math.isnan(values[9])
    assert reasons[[0, 3, 4, 9]].tolist() == [Reason.PRESENT, Reason.PRESENT, Reason.LOST, Reason.WAITING]


@pytest.mark.parametrize("change", ["same", "booted", "new card", "new node", "earlier"])
def test_counters_are_told_as_row_by_row(change: str) -> None:
    now = NOW
    node = now.nodes[1]
    if change == "booted":
        node = replace(node, boot_id="another")
    elif change == "new card":
        ports = tuple(
            msgspec.structs.replace(port, device=f"new{place}") if place == 1 else port
            for place, port in enumerate(node.ports)
        )
        node = replace(node, ports=ports)
    elif change == "new node":
        node = replace(node, name="gpu-999")
    elif change == "earlier":
        now = replace(now, wall=BEFORE.wall - 1)
    now = replace(now, nodes=(now.nodes[0], node, now.nodes[2]))
    mark = Mark.of(BEFORE)
    since = SinceMark(mark)
    for metric in now.catalogue.values():
        if metric.kind is not Kind.COUNTER or metric.scope not in (Scope.GPU, Scope.PORT, Scope.NODE):
            continue
        values, reasons = since.changes(now, metric)
        for row in range(values.size):
            told = mark.since(now, metric.scope, metric.id, row)
            if isinstance(told, Missing):
                assert reasons[row] == told.reason, (metric.id, row)
                assert math.isnan(values[row])
            else:
                assert (reasons[row], values[row]) == (Reason.PRESENT, told), (metric.id, row)


def test_rows_that_move_are_followed() -> None:
    mark = Mark.of(BEFORE)
    since = SinceMark(mark)
    since.changes(NOW, NOW.catalogue[CLOCK])
    turned = replace(NOW.nodes[0], gpus=NOW.nodes[0].gpus[::-1])
    values, _ = since.changes(replace(NOW, nodes=(turned, *NOW.nodes[1:])), NOW.catalogue[CLOCK])
    assert values[3] == -570, "GPU 4 of the mark stands there now"
    assert since.mark.values[Scope.GPU].values.dtype == np.float32


def test_a_mark_without_values_compares_no_gauge() -> None:
    old = replace(Mark.of(BEFORE), values={})
    _, reasons = SinceMark(old).changes(NOW, NOW.catalogue[CLOCK])
    assert set(reasons.tolist()) == {Reason.WAITING, Reason.LOST}
    values, _ = SinceMark(old).changes(NOW, NOW.catalogue["ib_symbol_error"])
    assert values[9] == 42
