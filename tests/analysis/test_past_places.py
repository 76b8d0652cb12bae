"""The places of devices are those that were given, however few numbers are kept of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.past_places import Devices


@given(st.lists(st.tuples(st.integers(-1, 40), st.integers(0, 9))))
def test_each_row_stands_for_its_device(stretches: list[tuple[int, int]]) -> None:
    places = [begin + at if begin >= 0 else -1 for begin, length in stretches for at in range(length)]
    devices = Devices()
    devices.stand_for(np.array(places, np.int32))
    rows = devices.rows()
    assert (rows.dtype, rows.tolist()) == (np.int32, places)
    rows[:] = 7
    assert devices.rows().tolist() == places


def test_the_rows_of_a_large_fleet_take_little() -> None:
    behind = np.random.default_rng(1).permutation(2_000)
    places = (behind[:, None] * 144 + np.arange(144)).astype(np.int32).ravel()
    devices = Devices()
    devices.stand_for(places)
    assert (devices.rows() == places).all()
    assert devices.nbytes <= 2_000 * 8


@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 50), unique=True, max_size=6))))
def test_each_device_of_a_node_has_its_place(given_ones: list[tuple[int, list[int]]]) -> None:
    devices, told = Devices(), {}
    for node, places in given_ones:
        names = tuple(f"d{place}" for place in places)
        devices.put(node, names, places)
        told[node] = names, places
    for node in range(8):
        names, found = devices.of(node)
        assert (names, found.tolist()) == told.get(node, ((), []))
