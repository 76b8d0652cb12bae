"""Shares that no node gives: `{metric: nvlink_error_rate, operator: ">", threshold: 0.001, window: 5m}`, in percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.model.metric import Kind, Metric, Scope
from stethoscope.specs.condition import Compare, Condition, Held, Leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.specs.condition_read import ConditionReader, Path

SHARES: dict[str, tuple[str, tuple[str, ...]]] = {
    "nvlink_error_rate": (
        "CRC errors of a GPU's NVLinks, in percent of the 16-byte flits that it sends and receives",
        ("nvlink_crc_errors", "nvlink_tx", "nvlink_rx"),
    ),
    "pcie_rx_util": ("data to the GPU, in percent of its PCIe link", ("gpu_pcie_rx", "gpu_pcie_link_gen")),
    "pcie_tx_util": ("data from the GPU, in percent of its PCIe link", ("gpu_pcie_tx", "gpu_pcie_link_gen")),
}
"""Name -> what it is, and the metrics that it is worked out of."""


@dataclass(frozen=True, slots=True)
class Share(Leaf):
    """One of SHARES of a GPU against a number of percent."""

    name: str
    operator: str
    threshold: float

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the GPU's."""
        return Scope.GPU


def stand_in(name: str) -> Metric:
    """Return a metric in whose place a share can be read."""
    tier = "medium" if name == "nvlink_error_rate" else "fast"
    return Metric(name, name, Scope.GPU, "%", Kind.GAUGE, tier=tier)


def as_share(condition: Condition, reader: ConditionReader, path: Path) -> Condition:
    """Return a comparison that was read with the stand-in as one of the share."""
    if isinstance(condition, Held):
        return Held(as_share(condition.part, reader, path), condition.window_s)
    if isinstance(condition, Compare) and condition.aggregate == "last" and isinstance(condition.threshold, float):
        return Share(condition.metric, condition.operator, condition.threshold)
    raise reader.error("a share is compared with a number, now or at every sample of a window", path)
