"""What a simulated machine is made of: GPU boards, and the names and PCI addresses that are the same on every node."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stethoscope.specs.load import Spec, convert, load

DATA = Path(__file__).resolve().parent / "data"

GPU_PCI = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
PORT_PCI = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")
ROOT_PORT_PCI = ("17", "3f", "4e", "5d", "99", "bf", "cd", "db")
"""Bus numbers by GPU and adapter index; GPU i and adapter i are below the same host bridge, each with a root port."""

NVME_PCI = ("01", "02", "03")
NVSWITCH_PCI = ("05", "06", "07", "08")
DISKS = ("nvme0n1", "nvme1n1", "nvme2n1")
"""The first carries the system, the other two are one array below /local."""

FANS = tuple(f"FAN{module}_TACH{half}" for module in range(1, 9) for half in (1, 2))
WEAK_FAN = "FAN7_TACH1"
"""The one that fails."""
SUPPLIES = 6
CPUS = 192
CPU_MHZ = 3400.0
"""Clock of the busy cores of a healthy node."""
MEMORY_MIB = 2_063_872
INLET_C = 24.0


class Board(Spec, frozen=True):
    """One GPU model."""

    name: str
    memory_mib: int
    power_w: float
    sm_mhz: float
    slowdown_c: float
    nvlink_gbps: float
    pcie_gen: int
    memory_mhz: int
    device: int
    """PCI device number."""
    vbios: str
    links: int = 0
    """NVLinks of a GPU, and the speed of one as nvidia-smi prints it, in GB/s."""
    link_gbps: float = 0.0
    margin_c: float | None = None

    @property
    def busy_mhz(self) -> float:
        """Return the clock of a busy healthy GPU, which its power limit holds below the maximum."""
        return 15 * round(0.865 * self.sm_mhz / 15)


class _File(Spec, frozen=True):
    schema: Literal["stethoscope.sim-gpus/1"]
    gpus: dict[str, Board]


def boards() -> dict[str, Board]:
    """Return the known GPU models by their key in scenarios."""
    return convert(load(DATA / "gpus.yaml"), _File).gpus


def gpu_pci(index: int) -> str:
    """Return the address of a GPU without its function, as Xid lines have it: `0000:1b:00`."""
    return f"0000:{GPU_PCI[index] if index < len(GPU_PCI) else f'{0xE0 + index:02x}'}:00"


def port_pci(index: int) -> str:
    """Return the address of an adapter: `0000:18:00.0`."""
    return f"0000:{PORT_PCI[index] if index < len(PORT_PCI) else f'{0xF0 + index:02x}'}:00.0"


def root_port_pci(index: int) -> str:
    """Return the address of the root port above a GPU: `0000:17:01.0`."""
    return f"0000:{ROOT_PORT_PCI[index % len(ROOT_PORT_PCI)]}:01.0"


def port_root_pci(index: int) -> str:
    """Return the address of the root port above an adapter: `0000:17:03.0`."""
    return f"0000:{ROOT_PORT_PCI[index % len(ROOT_PORT_PCI)]}:03.0"


def rank_pid(node: int, gpu: int) -> int:
    """Return the process id of the rank on a GPU of a node (by position)."""
    return 20_000 + node * 97 + gpu


def node_address(node: int) -> str:
    """Return the address that log lines give for a node (by position)."""
    return f"10.0.{node // 250}.{node % 250 + 1}"
