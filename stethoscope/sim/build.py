"""The versions and settings of each node: one build for the fleet, and what `drift` of a scenario says of a node."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.sim.twin import Twin

KERNEL = "5.15.0-113-generic"
_CUDA = {
    "470": "11.4", "510": "11.6", "515": "11.7", "525": "12.0", "530": "12.1", "535": "12.2", "545": "12.3",
    "550": "12.4", "555": "12.5", "560": "12.6", "565": "12.7", "570": "12.8", "575": "12.9", "580": "13.0",
}  # fmt: skip
"""Branch of the driver -> the CUDA version that it brings."""

_SETTABLE = ("driver_version", "cpu_governor", "clocksource")
"""Words that a scenario may `set`."""


@dataclass(frozen=True, slots=True)
class Build:
    """The words of one node; `drift` of a scenario may give each by its name."""

    driver_version: str
    gpu_vbios_version: str
    cuda_version: str = ""
    kernel: str = KERNEL
    os: str = "Ubuntu 22.04.4 LTS"
    cmdline: str = (
        f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=UUID=3c1f2a54-7d0e-4b7a-9c55-0d9a1f6c2e11 ro console=tty0 "
        "console=ttyS0,115200 iommu=pt"
    )
    ib_fw_version: str = "28.39.3004"
    ib_board: str = "MT_0000000838"
    mlx5_driver: str = "24.04-0.6.6"
    nccl_version: str = "2.21.5"
    cuda_toolkit: str = "12.4"
    cpu_governor: str = "performance"
    numa_balancing: str = "0"
    memlock: str = "unlimited"
    transparent_hugepage: str = "madvise"
    clocksource: str = "tsc"
    mtu: str = "2044"
    product: str = "AS-8125GS-TNHR"
    bios: str = "1.4"
    bmc_firmware: str = "1.03"


class Builds:
    """The builds of a fleet, each worked out once."""

    def __init__(self, twin: Twin) -> None:
        """Start with none."""
        self._twin = twin
        self._builds: dict[int, Build] = {}

    def of(self, node: int) -> Build:
        """Return the build of the node at that position."""
        build = self._builds.get(node)
        if build is None:
            fleet = self._twin.scenario.fleet
            known = {field.name for field in fields(Build)}
            said = fleet.drift.get(self._twin.layout.nodes[node], {})
            words = {"driver_version" if name == "driver" else name: word for name, word in said.items()}
            build = Build(fleet.driver, self._twin.layout.board.vbios)
            build = replace(build, **{name: word for name, word in words.items() if name in known})
            if not build.cuda_version:
                build = replace(build, cuda_version=_CUDA.get(build.driver_version.split(".")[0], "12.4"))
            self._builds[node] = build
        told = self._twin.told
        if not told.knows(*_SETTABLE):
            return build
        return replace(build, **{name: told.word(name, node, getattr(build, name)) for name in _SETTABLE})
