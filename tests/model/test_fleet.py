"""Snapshots: values with their reasons, rows of nodes, ages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import REASON_WORDS, WIRE_REASONS, Missing, Reason, Scope
from tests.builders import MONO, fleet


def test_a_value_is_a_number_or_a_reason() -> None:
    snapshot = fleet(nodes=1, gpus=2, set={("gpu-001/gpu/1", "gpu_temp"): Reason.HUNG})
    table = snapshot.tables[Scope.GPU]
    assert table.get("gpu_temp", 0) == 62
    assert table.get("gpu_temp", 1) == Missing(Reason.HUNG)
    assert str(table.get("gpu_temp", 1)) == "hung"
    for rows in (range(2), range(1, 2), range(2, 2)):
        assert table.get_all("gpu_temp", rows) == [table.get("gpu_temp", row) for row in rows]
    short = replace(table, values=(table.values / 3).astype("float32"))
    assert short.get_all("gpu_temp", range(2)) == [short.get("gpu_temp", row) for row in range(2)]


def test_totals_of_counters() -> None:
    snapshot = fleet(nodes=1, totals={("gpu-001/ib/mlx5_2", "ib_symbol_error"): 2**63}, lost=["gpu-001/ib/mlx5_3"])
    table = snapshot.tables[Scope.PORT]
    assert table.total("ib_symbol_error", 2) == 2**63
    assert table.total("ib_symbol_error", 3) == Missing(Reason.LOST)


def test_rows_and_places_of_a_node() -> None:
    snapshot = fleet(nodes=3, gpus=4, ports=2)
    node = snapshot.node("gpu-002")
    assert snapshot.rows(node, Scope.GPU) == range(4, 8)
    assert snapshot.rows(node, Scope.PORT) == range(2, 4)
    assert snapshot.rows(node, Scope.NODE) == range(1, 2)
    assert snapshot.place(node, Scope.GPU, 3) == "gpu-002/gpu/3"
    assert snapshot.place(node, Scope.PORT, 1) == "gpu-002/ib/mlx5_1"
    assert snapshot.place(node, Scope.NODE, 0) == "gpu-002"
    with pytest.raises(KeyError):
        snapshot.node("gpu-999")


def test_age_and_staleness() -> None:
    snapshot = fleet(nodes=2, ages={"gpu-001": 7.5}, waiting=["gpu-002"])
    old, waiting = snapshot.nodes
    assert old.age_s(MONO) == 7.5
    assert old.is_stale(MONO)
    assert not old.is_stale(MONO - 1)
    assert waiting.age_s(MONO) is None
    assert not waiting.is_stale(MONO)


def test_links_and_reasons_have_their_words() -> None:
    assert [state for state in LinkState if state.is_live] == [LinkState.LIVE]
    assert not any(state.is_live and state.is_pending for state in LinkState)
    assert set(REASON_WORDS) == set(Reason)
    assert WIRE_REASONS["hung"] is Reason.HUNG
    assert "present" not in WIRE_REASONS
