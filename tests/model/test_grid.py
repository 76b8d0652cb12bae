"""A grid gives what an array of all its columns gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stethoscope.model.grid import Differences, Grid, is_uniform

ROWS = 4
COLUMNS = [np.array([1.5, np.nan, 3.0, 4.0, 9.0]), np.broadcast_to(np.array([7.0]), (5,)), np.arange(5.0)]
GRID = Grid(COLUMNS, ROWS, np.float64)
WHOLE = np.stack(COLUMNS)[:, :ROWS]


@pytest.mark.parametrize(
    "key",
    [
        0, -1, np.int64(2), (1, 2), (1, slice(1, 3)), (0, np.array([3, 0])), (0, [True, False, True, False]), [2, 0],
        [], np.array([1, 1]), slice(None), slice(1, 3), (slice(None), slice(1, 3)), (slice(1), np.array([3, 0])),
        ([0, 2], slice(1, 3)), (np.array([0, 2]), np.array([1, 3])), (np.array([[0], [2]]), np.array([[1, 3]])),
        (slice(None), np.array([True, False, True, False])), np.array([True, False, True]), slice(0, 0),
    ],
)  # fmt: skip
def test_a_key_gives_what_it_gives_of_an_array(key: Any) -> None:
    np.testing.assert_array_equal(GRID[key], WHOLE[key])
    assert np.shape(GRID[key]) == WHOLE[key].shape


def test_a_grid_is_like_an_array_in_other_ways() -> None:
    assert (GRID.shape, GRID.size, len(GRID), GRID.dtype) == (WHOLE.shape, WHOLE.size, 3, WHOLE.dtype)
    np.testing.assert_array_equal(np.asarray(GRID), WHOLE)
    np.testing.assert_array_equal(GRID.copy(), WHOLE)
    np.testing.assert_array_equal(GRID.astype(np.float32), WHOLE.astype(np.float32))
    np.testing.assert_array_equal(GRID == 7.0, WHOLE == 7.0)
    np.testing.assert_array_equal(GRID != 7.0, WHOLE != 7.0)
    np.testing.assert_array_equal(GRID / 2, WHOLE / 2)
    assert np.array_equal(GRID, WHOLE, equal_nan=True)
    GRID.copy()[0, 0] = 1.0
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(GRID, copy=False)


def test_what_is_the_same_in_every_row_takes_the_room_of_one_cell() -> None:
    assert [is_uniform(column) for column in COLUMNS] == [False, True, False]
    assert GRID.nbytes == 8 * (ROWS + 1 + ROWS)


@pytest.mark.parametrize("width", [np.uint32, np.uint64])
def test_differences_are_those_of_unsigned_numbers_of_their_width(width: Any) -> None:
    totals = [np.array([5, 3, 0], width), np.array([9, 9, 9], width)]
    bases = [np.array([2, np.iinfo(width).max - 6, 0], width), np.broadcast_to(width(0), (3,))]
    found = Differences(totals, bases, 3)
    assert [found[0].tolist(), found[1, 1], found[0, 1:].tolist()] == [[3, 10, 0], 9, [10, 0]]
    assert found.copy().tolist() == [[3, 10, 0], [9, 9, 9]]
    assert (found[0].dtype, found.copy().dtype) == (np.uint64, np.uint64)
    assert found[:, [1, 0]].tolist() == [[10, 3], [9, 9]]
