"""The builder of snapshots does what the tests that use it rely on."""

from __future__ import annotations

import numpy as np
import pytest

from stethoscope.model.metric import Missing, Reason, Scope
from tests.builders import fleet


def test_a_fleet_is_healthy_unless_told_otherwise() -> None:
    snapshot = fleet(nodes=3, gpus=2, ports=1)
    assert [node.name for node in snapshot.nodes] == ["gpu-001", "gpu-002", "gpu-003"]
    assert snapshot.tables[Scope.GPU].get("gpu_sm_clock", 5) == 1980
    assert all((table.reasons == Reason.PRESENT).all() for table in snapshot.tables.values())


def test_values_and_reasons_stand_where_they_were_set() -> None:
    snapshot = fleet(
        set={("gpu-002/gpu/3", "gpu_temp"): 91, ("gpu-001/ib/mlx5_0", "ib_symbol_error"): Reason.SATURATED},
        lost=["gpu-003", "gpu-004/gpu/7"],
    )
    gpu = snapshot.tables[Scope.GPU]
    assert gpu.get("gpu_temp", 11) == 91
    assert snapshot.tables[Scope.PORT].get("ib_symbol_error", 0) == Missing(Reason.SATURATED)
    assert gpu.get("gpu_temp", 16) == Missing(Reason.UNREACHABLE)
    assert gpu.get("gpu_temp", 31) == Missing(Reason.LOST)
    assert gpu.get("gpu_handle_error", 31) == 15
    assert np.isnan(gpu.values[gpu.index["gpu_temp"], 16])
    assert snapshot.tables[Scope.NODE].get("node_reachable", 2) == 0


def test_a_built_snapshot_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        fleet().tables[Scope.GPU].values[0, 0] = 1
