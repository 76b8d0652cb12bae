"""Shares of a GPU that are worked out of what it and its links give, only where a rule asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.across import gpu_rows
from stethoscope.analysis.leaves import compared
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.layout import Numbers
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats
    from stethoscope.specs.condition_share import Share

FLIT_BYTES = 16.0
LEAST_GB_S = 0.001
"""What moves less than this says nothing about the share of errors."""
LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""What one lane of each PCIe generation carries in one direction."""


class LinkOwners:
    """Which GPU each NVLink belongs to."""

    nbytes = 0

    def __init__(self) -> None:
        """Look when it is asked for."""
        self._rows: Numbers | None = None

    def fit(self, changed: Mapping[Scope, Flags]) -> None:
        """Look again: rows have changed."""
        self._rows = None

    def forget(self, *, samples: bool) -> None:
        """Remember nothing of the past."""

    def take(self, moment: Moment) -> None:
        """Take nothing."""

    def rows(self, moment: Moment) -> Numbers:
        """Return the row of the GPU of each link, -1 for none."""
        if self._rows is None:
            self._rows = gpu_rows(moment.snapshot, Scope.NVLINK, moment.rows(Scope.NVLINK))
        return self._rows


def share_memory(leaf: Share, evaluator: Evaluator) -> LinkOwners | None:
    """Return what knows whose the links are."""
    if leaf.name != "nvlink_error_rate":
        return None
    owners = evaluator.shared("link owners", LinkOwners)
    assert isinstance(owners, LinkOwners)
    return owners


def share(leaf: Share, moment: Moment, evaluator: Evaluator) -> Answer:
    """Compare a share with its threshold; unknown where one of its parts is."""
    if leaf.name == "nvlink_error_rate":
        owners = evaluator.memory(leaf)
        assert isinstance(owners, LinkOwners)
        values = _nvlink(moment, owners.rows(moment))
    else:
        values = _pcie(moment, "gpu_pcie_rx" if leaf.name == "pcie_rx_util" else "gpu_pcie_tx")
    return compared(leaf.operator, values, leaf.threshold), values


def _nvlink(moment: Moment, owners: Numbers) -> Floats:
    errors = moment.values("nvlink_crc_errors")
    known = ~np.isnan(errors) & (owners >= 0)
    gpus = moment.rows(Scope.GPU)
    total = np.bincount(owners[known], weights=errors[known], minlength=gpus).astype(np.float64)
    total[np.bincount(owners[known], minlength=gpus) == 0] = np.nan
    moved_gb_s = moment.values("nvlink_tx") + moment.values("nvlink_rx")
    flits = np.where(moved_gb_s >= LEAST_GB_S, moved_gb_s * 1e9 / FLIT_BYTES, np.nan)
    return np.asarray(100.0 * total / flits)


def _pcie(moment: Moment, metric: str) -> Floats:
    generation, width = moment.values("gpu_pcie_link_gen"), moment.values("gpu_pcie_link_width")
    lane = np.full(len(generation), np.nan)
    for number, gb_s in LANE_GB_S.items():
        lane[generation == number] = gb_s
    scale = {"KB/s": 1e-6, "MB/s": 1e-3, "GB/s": 1.0}[moment.catalogue[metric].shown_unit]
    return np.asarray(100.0 * moment.values(metric) * scale / (lane * width))
