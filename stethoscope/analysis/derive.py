"""Values that no node gives, worked out of rates of the same reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Reason, Scope

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.analysis.arrays import Arrays
    from stethoscope.model.fleet import Codes, Floats

DERIVED = frozenset({"disk_await", "disk_io_util"})
"""What `derive` fills in: a part that does not name it says nothing about it."""
_PRESENT, _ABSENT = int(Reason.PRESENT), int(Reason.ABSENT)
_TIMES, _COUNTS = ("disk_read_time", "disk_write_time"), ("disk_reads", "disk_writes")
DERIVED_FROM = (*_TIMES, *_COUNTS, "disk_io_time")
"""What it is worked out of."""


def derive(columns: Arrays, rows: npt.NDArray[np.intp]) -> None:
    """Fill in what follows from the rates in these rows.

    `disk_await` is what a read or write took on average (ms); a disk that did none in the interval has no such time,
    and says so with ABSENT. `disk_io_util` is the share of the interval in which the disk was busy (%), at most 100:
    the kernel counts whole milliseconds, and an interval is measured by another clock.
    """
    if columns.scope is not Scope.DISK or not rows.size:
        return
    if "disk_await" in columns.index and {*_TIMES, *_COUNTS} <= columns.index.keys():
        waited_ms = _rates(columns, _TIMES, rows).sum(axis=0)
        done = _rates(columns, _COUNTS, rows).sum(axis=0)
        reasons = _reasons(columns, (*_COUNTS, *_TIMES), rows)
        reasons[(reasons == _PRESENT) & (done == 0)] = _ABSENT
        took_ms = np.divide(waited_ms, done, out=np.full(rows.size, np.nan), where=reasons == _PRESENT)
        _put(columns, "disk_await", rows, took_ms, reasons)
    if "disk_io_util" in columns.index and "disk_io_time" in columns.index:
        reasons = _reasons(columns, ("disk_io_time",), rows)
        busy = np.minimum(_rates(columns, ("disk_io_time",), rows)[0] / 10.0, 100.0)
        _put(columns, "disk_io_util", rows, busy, reasons)


def _rates(columns: Arrays, metrics: tuple[str, ...], rows: npt.NDArray[np.intp]) -> Floats:
    return np.array([columns.values.columns[columns.index[metric]][rows] for metric in metrics], np.float64)


def _reasons(columns: Arrays, metrics: tuple[str, ...], rows: npt.NDArray[np.intp]) -> Codes:
    """Return the first reason for which one of `metrics` has no rate."""
    own = np.array([columns.reasons.columns[columns.index[metric]][rows] for metric in metrics])
    which = (own != _PRESENT).argmax(axis=0)
    found: Codes = own[which, np.arange(rows.size)]
    return found


def _put(columns: Arrays, metric: str, rows: npt.NDArray[np.intp], values: Floats, reasons: Codes) -> None:
    column = columns.index[metric]
    columns.values.put(column, rows, np.where(reasons == _PRESENT, values, np.nan))
    columns.reasons.put(column, rows, reasons)
    columns.dirty = True
