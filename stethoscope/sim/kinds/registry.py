"""Every fault kind that the twin can play, by its name. A new kind is a class in one of these modules and its name in
that module's KINDS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.kinds import (
    benign,
    cooling,
    data,
    disk,
    fabric,
    gpu,
    gpu_lost,
    gpu_memory,
    gpu_pcie,
    host,
    network,
    node,
    nvlink,
    scheduler,
    software,
    switch,
    versions,
)

if TYPE_CHECKING:
    from stethoscope.sim.kinds.kind import Kind

_MODULES = (
    gpu,
    gpu_lost,
    gpu_memory,
    nvlink,
    gpu_pcie,
    fabric,
    switch,
    network,
    node,
    cooling,
    host,
    disk,
    data,
    software,
    versions,
    scheduler,
    benign,
)
KINDS: dict[str, type[Kind]] = {kind.name: kind for module in _MODULES for kind in module.KINDS}
