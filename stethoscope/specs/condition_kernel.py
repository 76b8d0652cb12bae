"""Reads conditions about the kernel log: `{kernel_log: [mlx5.health_missed], window: 15m}` names kinds of lines by
their signatures (docs/signatures.md), and what NVSwitches report as `sxid.20034` or by how bad it is, `sxid.P0`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stethoscope.errors import did_you_mean
from stethoscope.model.metric import Metric, Scope
from stethoscope.specs.condition import MAX_WINDOW_S, Condition, Leaf
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.specs.condition_read import ConditionReader, Path

SXID = re.compile(r"sxid\.(\d{1,6}|P0|P1|P2)")
"""A code of an NVSwitch, or all lines of one that are so bad."""


@dataclass(frozen=True, slots=True)
class KernelLog(Leaf):
    """The node's kernel log has a line of one of these kinds."""

    kinds: tuple[str, ...]
    window_s: float

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the node's."""
        return Scope.NODE


def read_kernel_log(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{kernel_log: [nvme.down, sxid.P0], window: 15m}`; without a window it is an hour."""
    reader.only(data, ("kernel_log", "window", "for"), path)
    kinds = reader.listed(data["kernel_log"])
    if not kinds:
        raise reader.error("kernel_log takes the id of a signature, or a list of them", (*path, "kernel_log"))
    for kind in kinds:
        if not isinstance(kind, str) or (kind not in _known() and not SXID.fullmatch(kind)):
            near = did_you_mean(str(kind), _known())
            raise reader.error(f'unknown signature "{kind}"{near}', (*path, "kernel_log"))
    window_s = reader.duration(data["window"], (*path, "window")) if "window" in data else MAX_WINDOW_S
    return KernelLog(tuple(kinds), window_s)


@cache
def _known() -> frozenset[str]:
    return frozenset(load_signatures().by_id)
