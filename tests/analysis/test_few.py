"""Columns of which few rows have anything say what whole columns would."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.few import Few

REST = {"count": 0.0, "at": np.nan}


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    return draw(st.lists(st.tuples(st.sampled_from(["put", "fit", "forget"]), st.integers(1, 12), st.integers(0, 999))))


@given(steps())
def test_it_is_as_whole_columns_are(taken: list[tuple[str, int, int]]) -> None:
    few, rows = Few(REST), 6
    few.fit(np.ones(rows, dtype=bool))
    whole = {name: np.full(rows, rest) for name, rest in REST.items()}
    for what, size, seed in taken:
        random = np.random.default_rng(seed)
        if what == "put":
            chosen = np.flatnonzero(random.random(rows) < 0.5)
            cells = {name: random.choice([0.0, 1.0, -2.5, np.nan], len(chosen)) for name in REST}
            few.put(chosen, cells)
            for name, column in whole.items():
                column[chosen] = cells[name]
        elif what == "fit":
            changed = random.random(size) < 0.3
            changed[rows:] = True
            few.fit(changed)
            for name, column in whole.items():
                now = np.full(size, REST[name])
                now[: min(rows, size)] = column[:size]
                now[changed] = REST[name]
                whole[name] = now
            rows = size
        else:
            flags = random.random(rows) < 0.3
            few.forget(flags)
            for name, column in whole.items():
                column[flags] = REST[name]
        some = np.flatnonzero(random.random(rows) < 0.5)
        for name, column in whole.items():
            assert np.array_equal(few.whole(name), column, equal_nan=True)
            assert np.array_equal(few.at(some)[name], column[some], equal_nan=True)
        known = (whole["count"] != 0) | ~np.isnan(whole["at"])
        assert few.rows.tolist() == np.flatnonzero(known).tolist(), "what is at rest takes no room"


def test_rows_at_rest_take_no_memory() -> None:
    few = Few(REST)
    few.fit(np.ones(100_000, dtype=bool))
    assert few.nbytes == 0
    few.put(np.array([7, 99_999]), {"count": np.array([1.0, 0.0]), "at": np.array([np.nan, np.nan])})
    assert few.rows.tolist() == [7]
    assert few.nbytes == 3 * 8
