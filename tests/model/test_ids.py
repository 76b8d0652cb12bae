"""Names of places and sets of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.errors import UsageError
from stethoscope.model.ids import MAX_NODES, expand, fold, gpu_place, node_of, port_place


def test_places() -> None:
    assert gpu_place("gpu-007", 3) == "gpu-007/gpu/3"
    assert port_place("gpu-007", "mlx5_3") == "gpu-007/ib/mlx5_3"
    assert port_place("gpu-007", "mlx5_3", 2) == "gpu-007/ib/mlx5_3:2"
    assert node_of("gpu-007/gpu/3") == node_of("gpu-007") == "gpu-007"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("gpu[001-003]", ["gpu001", "gpu002", "gpu003"]),
        ("gpu[1-2],login1", ["gpu1", "gpu2", "login1"]),
        ("a,a", ["a"]),
        ("gpu[1-4]!gpu[2-3]", ["gpu1", "gpu4"]),
        ("10.0.0.1", ["10.0.0.1"]),
    ],
)
def test_sets_are_expanded_in_order(text: str, nodes: list[str]) -> None:
    assert expand(text) == nodes


@pytest.mark.parametrize(
    "text", ["", "gpu[1-", "gpu[1-99999999]", f"gpu[1-{MAX_NODES + 1}]", "g[1-20000],h[1-2]", "a!a"]
)
def test_sets_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        expand(text)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], ""),
        (["gpu-007"], "gpu-007"),
        (["gpu-001", "gpu-002", "gpu-003", "gpu-007"], "gpu-[001-003,007]"),
        (["b", "a"], "a,b"),
    ],
)
def test_sets_are_folded(nodes: list[str], text: str) -> None:
    assert fold(nodes) == text


@given(st.sets(st.integers(0, 999), min_size=1, max_size=30))
def test_what_was_folded_unfolds(numbers: set[int]) -> None:
    nodes = [f"gpu-{number:03}" for number in sorted(numbers)]
    assert expand(fold(nodes)) == nodes
