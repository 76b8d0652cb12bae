"""Columns in little memory say exactly what they said before."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stethoscope.analysis.packed import Packed

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)
Column = npt.NDArray[np.float32]


def same(one: Column, other: Column) -> bool:
    return one.dtype == other.dtype and np.array_equal(one.view(np.uint32), other.view(np.uint32))


@given(arrays.arrays(np.float32, st.integers(1, 3000), elements=FLOATS, fill=FLOATS), st.data())
def test_any_column_is_read_as_it_was(column: Column, data: st.DataObject) -> None:
    packed = Packed(column)
    first = data.draw(st.integers(0, column.size - 1))
    rows = np.array(data.draw(st.lists(st.integers(0, column.size - 1), max_size=20)), np.int64)
    assert packed.size == column.size
    assert same(packed[:], column)
    assert same(packed[first : first + 8], column[first : first + 8])
    assert same(packed[rows], column[rows])
    assert same(packed[rows.reshape(-1, 1)], column[rows.reshape(-1, 1)])
    assert same(np.asarray(packed), column)
    assert packed.says(column)
    other = column.copy()
    other[first] = 1.5 if column[first] != 1.5 else 2.5
    assert not packed.says(other)
    assert not packed.says(other[:-1])


@pytest.mark.parametrize(
    ("values", "each"),
    [
        ("percent", 1),
        ("one fault", 2),
        ("power", 3),
        ("rates", 3),
        ("noise", 4),
        ("alike", 0),
        ("integers", 2),
    ],
)
def test_a_column_takes_little(values: str, each: int) -> None:
    rows, random = 16_000, np.random.default_rng(1)
    columns = {
        "percent": random.integers(0, 101, rows),
        "one fault": np.where(np.arange(rows) == 77, 0.1, np.nan),
        "power": 640 + 10 * random.standard_normal(rows),
        "rates": 2.5e10 * random.uniform(0.9, 1.1, rows),
        "noise": np.exp(random.uniform(-80, 80, rows)),
        "alike": np.full(rows, 0.1),
        "integers": random.integers(0, 2048, rows),
    }
    packed = Packed(columns[values].astype(np.float32))
    assert rows * each <= packed.nbytes <= rows * each + 1100


def test_one_is_not_shown_as_an_array_without_a_copy() -> None:
    packed = Packed(np.arange(9, dtype=np.float32))
    assert np.asarray(packed, np.float64).tolist() == list(range(9))
    with pytest.raises(ValueError, match="without a copy"):
        np.array(packed, copy=False)
