"""What a value should be comes from comparable nodes, never from a constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.expect import (
    LEAST,
    MOST_NODES,
    Expected,
    expected_count,
    expected_values,
    like,
    majorities,
    majority,
    peer_rows,
)
from stethoscope.model.metric import Reason, Scope
from tests.builders import DEVICES, fleet


@given(st.lists(st.sampled_from([1.0, 8.0, 16.0, float("nan")]), max_size=20))
def test_a_majority_is_more_than_half_of_those_that_have_a_value(values: list[float]) -> None:
    known = [value for value in values if value == value]
    found = majority(values, "x")
    most = max(known, key=known.count, default=0.0)
    if len(known) >= LEAST and 2 * known.count(most) > len(known):
        assert found == Expected(most, known.count(most), len(known), "x")
    else:
        assert found is None


def test_columns_are_counted_apart() -> None:
    values = np.array([[1, 2, np.nan], [1, 3, np.nan], [1, 4, 5.0]])
    first, second, third = majorities(values, "x")
    assert first == Expected(1.0, 3, 3, "x")
    assert second is None
    assert third is None


def test_a_device_is_held_against_the_same_place_of_like_nodes() -> None:
    place = "gpu-003/pcie/0000:1b:00.0"
    snapshot = fleet(6, devices=DEVICES, set={(place, "pcie_link_width"): 8})
    node = snapshot.node("gpu-003")
    expected = expected_values(snapshot, node, Scope.PCIE, "pcie_link_width")
    assert expected[3] == Expected(16.0, 5, 5, "nodes like this")
    assert expected[3].source == "5 of 5 nodes like this"
    lone = fleet(1, devices=DEVICES)
    assert expected_values(lone, lone.nodes[0], Scope.PCIE, "pcie_link_width")[3] == Expected(
        16.0, 8, 8, "devices here"
    )


def test_what_most_have_is_right_whatever_it_is() -> None:
    eight = {(f"gpu-{n:03}/gpu/{gpu}", "nvlink_active_count"): 8 for n in range(1, 5) for gpu in range(8)}
    snapshot = fleet(4, set=eight)
    expected = expected_values(snapshot, snapshot.nodes[0], Scope.GPU, "nvlink_active_count")
    assert [one.value for one in expected if one is not None] == [8.0] * 8


def test_missing_values_do_not_vote() -> None:
    reasons = {(f"gpu-{n:03}/ib/mlx5_0", "ib_port_rate"): Reason.UNSUPPORTED for n in range(2, 5)}
    snapshot = fleet(5, set=reasons)
    expected = expected_values(snapshot, snapshot.nodes[0], Scope.PORT, "ib_port_rate")
    assert expected[0] == Expected(400.0, 8 - 0, 8, "devices here")
    assert expected[1] == Expected(400.0, 4, 4, "nodes like this")


def test_counts_come_from_the_fleet_file_or_from_most_nodes() -> None:
    snapshot = fleet(5, devices=DEVICES)
    node = snapshot.nodes[0]
    assert expected_count(snapshot, node, Scope.GPU) == Expected(8.0, whose="fleet file")
    unknown = replace(node, expected_gpus=None)
    assert expected_count(snapshot, unknown, Scope.GPU) == Expected(8.0, 4, 4, "nodes like this")
    assert expected_count(snapshot, node, Scope.DISK) == Expected(2.0, 4, 4, "nodes like this")
    two = fleet(2)
    assert expected_count(two, two.nodes[0], Scope.PORT) is None


def test_peers_are_the_same_place_elsewhere_and_its_like_here() -> None:
    snapshot = fleet(3, devices=DEVICES)
    node = snapshot.nodes[1]
    rows = peer_rows(snapshot, node, Scope.DISK, 0)
    assert sorted(rows.tolist()) == [0, 3, 4]


def test_a_large_fleet_is_asked_in_part_from_all_over() -> None:
    snapshot = fleet(1000, gpus=1, ports=0)
    others = like(snapshot, snapshot.node("gpu-500"))
    assert MOST_NODES / 2 < len(others) <= MOST_NODES
    assert others[0].index < 10
    assert others[-1].index > 980
