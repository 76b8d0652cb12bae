"""Lines that wait and are folded at once give what each of them gives alone."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis import columns as filling
from stethoscope.analysis.columns import Columns
from stethoscope.model.metric import Reason, Scope
from stethoscope.specs.metric import load_catalogue

ARRAYS = ("values", "reasons", "totals", "total_reasons", "since_first", "first_at")
CATALOGUE = load_catalogue()
ROWS = {0: 3, 3: 1, 4: 4}
"""First row and number of rows of three nodes."""
PARTS = {Scope.NODE: "host", Scope.GPU: "gpu", Scope.PORT: "", Scope.NVLINK: "gpu", Scope.DISK: "disks"}

numbers = st.sampled_from([0, 0, 1, 7, 50, 255, 65535, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
strange = st.sampled_from([None, "hung", "unsupported", "nonsense", "", -1, 1.5, -0.5, float("nan"), float("inf")])
cells = st.one_of(numbers, numbers, numbers, strange, st.sampled_from([2**64, 10**400]))
intervals = st.sampled_from([5.0, 5.0, 5.0, 30.0, 1.0, 0.8, 0.79, 0.3, 0.0, -3.0, float("nan"), float("inf")])


@st.composite
def lines(draw: st.DrawFn, scope: Scope) -> tuple[Any, ...]:
    first = draw(st.sampled_from(sorted(ROWS)))
    count = ROWS[first]
    order = draw(st.one_of(st.none(), st.none(), st.permutations(range(count)).map(lambda rows: tuple(rows[:2]))))
    group = draw(st.sampled_from(["", "", PARTS[scope]]))
    names = [metric.id for metric in CATALOGUE.values() if metric.scope is scope and metric.group == group]
    length = st.just(count if order is None else len(order))
    lengths = st.one_of(length, length, length, length, st.integers(0, 5))
    part = {
        name: draw(lengths.flatmap(lambda size: st.lists(cells, min_size=size, max_size=size)))
        for name in draw(st.lists(st.sampled_from(["no_such_metric", *names, *names[:4] * 8]), max_size=5, unique=True))
    }
    after = draw(st.sampled_from(["", "", "", "", "look", "restart", "mark", "move"]))
    return first, count, order, part, draw(intervals), draw(st.booleans()), draw(st.booleans()), group, after


def folded(scope: Scope, said: list[tuple[Any, ...]], *, alone: bool) -> tuple[Any, ...]:
    columns, at = Columns(scope, CATALOGUE, sum(ROWS.values())), dict(zip(ROWS, ROWS, strict=True))
    mono, touched, pictures = 100.0, set[int](), []
    for first, count, order, part, dt, full, complete, group, after in said:
        mono = mono + dt if np.isfinite(dt) else mono
        columns.put(
            at[first], count, order, part, mono if np.isfinite(dt) else dt, full=full, complete=complete, group=group,
            changed=partial(touched.add, first),
        )  # fmt: skip
        if alone:
            columns.settle()
        if after == "look":
            pictures.append(columns.table())
        elif after == "restart":
            columns.restart(at[first], count, keep_totals=full)
        elif after == "mark":
            columns.mark(slice(at[first], at[first] + count), Reason.UNREACHABLE)
        elif after == "move":
            at[first] = columns.move(at[first], count, count + 1)
    pictures.append(columns.table())
    arrays = [getattr(picture, name) for picture in pictures for name in ARRAYS]
    return arrays, touched, sorted(map(repr, columns.defects))


@pytest.mark.parametrize("scope", PARTS)
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_lines_that_wait_have_the_effect_that_each_has_alone(scope: Scope, data: st.DataObject) -> None:
    said = data.draw(st.lists(lines(scope), max_size=20))
    # Lines of one kind may have to be folded while those of other kinds wait on.
    most = data.draw(st.sampled_from([768, 768, 5, 4]))
    limits = patch.multiple(filling, _MOST_WAITING=most, _MOST_OF_PARTS=most)
    with np.errstate(all="ignore"), limits:
        waited, alone = (folded(scope, said, alone=alone) for alone in (False, True))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(waited[0], alone[0], strict=True))
    assert waited[1:] == alone[1:]


def test_a_line_that_cannot_be_folded_costs_none_of_those_beside_it() -> None:
    columns, changed = Columns(Scope.GPU, CATALOGUE, 2), list[int]()
    for row, temp in ((0, 10**400), (1, 61)):
        told = partial(changed.append, row)
        columns.put(row, 1, None, {"gpu_temp": [temp]}, 1.0, full=True, complete=True, changed=told)
    table = columns.table()
    assert table.values[table.index["gpu_temp"]].tolist() == pytest.approx([np.nan, 61.0], nan_ok=True)
    assert changed == [1]
    assert [type(error) for error in columns.defects] == [OverflowError]


@pytest.mark.parametrize("cell", [float("nan"), None, "nonsense"])
def test_what_is_no_number_is_an_error_whatever_stands_beside_it(cell: float | str | None) -> None:
    for beside in (1, None, "hung"):
        columns = Columns(Scope.GPU, CATALOGUE, 2)
        columns.put(0, 2, None, {"gpu_temp": [cell, beside]}, 1.0, full=True, complete=True)
        table = columns.table()
        assert table.reasons[table.index["gpu_temp"], 0] == Reason.ERROR
        assert np.isnan(table.values[table.index["gpu_temp"], 0])
