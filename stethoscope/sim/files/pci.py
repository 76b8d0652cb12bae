"""PCI devices of a simulated node as sysfs shows them: links, speeds, widths, and the counters of error reporting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from stethoscope.sim import board
from stethoscope.sim.files.gpu import pcie

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.sim.files.view import View

SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
"""PCIe generation -> gigatransfers a second, as the kernel prints them."""
_ROOT = "/sys/bus/pci/drivers"
_CORRECTABLE = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
_FATAL = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC",
    "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """One PCI device or bridge."""

    driver: str
    address: str
    path: str
    """Where it is below /sys/devices, from the host bridge on."""
    gen: int
    width: int
    gpu: int = -1
    port: int = -1
    disk: int = -1


@cache
def devices(gpus: int, ports: int, gen: int, has_switches: bool) -> tuple[Device, ...]:
    """Return what is in a node with boards of that PCIe generation."""
    return tuple(_devices(gpus, ports, gen, has_switches))


def of(view: View) -> tuple[Device, ...]:
    """Return the devices of a node."""
    return devices(view.gpus, view.ports, view.twin.layout.board.pcie_gen, has_switches(view))


def has_switches(view: View) -> bool:
    """Tell whether the node's GPUs are connected through NVSwitches."""
    return view.gpus == 8 and view.twin.layout.board.links > 0


def _devices(gpus: int, ports: int, gen: int, switches: bool) -> Iterator[Device]:
    for gpu in range(gpus):
        root, address = board.root_port_pci(gpu), f"{board.gpu_pci(gpu)}.0"
        bus = int(address[5:7], 16)
        host = f"pci{root[:7]}/{root}"
        upper, lower = f"0000:{bus - 2:02x}:00.0", f"0000:{bus - 1:02x}:00.0"
        yield Device("pcieport", root, host, gen, 16)
        yield Device("pcieport", upper, f"{host}/{upper}", gen, 16)
        yield Device("pcieport", lower, f"{host}/{upper}/{lower}", gen, 16)
        yield Device("nvidia", address, f"{host}/{upper}/{lower}/{address}", gen, 16, gpu=gpu)
    for port in range(ports):
        root, address = board.port_root_pci(port), board.port_pci(port)
        yield Device("pcieport", root, f"pci{root[:7]}/{root}", 5, 16)
        yield Device("mlx5_core", address, f"pci{root[:7]}/{root}/{address}", 5, 16, port=port)
    for disk, bus_text in enumerate(board.NVME_PCI):
        root, address = f"0000:00:0{disk + 1}.0", f"0000:{bus_text}:00.0"
        yield Device("pcieport", root, f"pci0000:00/{root}", 4, 4)
        yield Device("nvme", address, f"pci0000:00/{root}/{address}", 4, 4, disk=disk)
    for number, bus_text in enumerate(board.NVSWITCH_PCI if switches else ()):
        root, address = f"0000:00:1{number}.0", f"0000:{bus_text}:00.0"
        yield Device("pcieport", root, f"pci0000:00/{root}", 4, 2)
        yield Device("nvidia-nvswitch", address, f"pci0000:00/{root}/{address}", 4, 2)


def files(view: View) -> dict[str, str]:
    """Return the files of all devices of a node."""
    found = dict(_healthy(of(view)))
    for device in of(view):
        found.update(_changed(view, device))
    return found


@cache
def _healthy(all_devices: tuple[Device, ...]) -> dict[str, str]:
    found = {}
    for device in all_devices:
        base = f"{_ROOT}/{device.driver}/{device.address}"
        found[base] = f"/sys/devices/{device.path}"
        found.update(_link(base, device.gen, device.width, device.gen, device.width))
        found.update(_counters(base, 0, 0, 0))
    return found


def _link(base: str, gen: int, width: int, max_gen: int, max_width: int) -> dict[str, str]:
    return {
        f"{base}/current_link_speed": f"{SPEEDS[gen]} GT/s PCIe\n",
        f"{base}/current_link_width": f"{width}\n",
        f"{base}/max_link_speed": f"{SPEEDS[max_gen]} GT/s PCIe\n",
        f"{base}/max_link_width": f"{max_width}\n",
    }


def _counters(base: str, correctable: int, nonfatal: int, fatal: int) -> dict[str, str]:
    return {
        f"{base}/aer_dev_correctable": _counted(_CORRECTABLE, "Timeout", correctable, "COR"),
        f"{base}/aer_dev_nonfatal": _counted(_FATAL, "UnsupReq", nonfatal, "NONFATAL"),
        f"{base}/aer_dev_fatal": _counted(_FATAL, "CmpltTO", fatal, "FATAL"),
    }


def _counted(names: tuple[str, ...], which: str, count: int, what: str) -> str:
    lines = [f"{name} {count if name == which else 0}" for name in names]
    return "\n".join([*lines, f"TOTAL_ERR_{what} {count}"]) + "\n"


def aer(view: View, device: Device) -> tuple[int, int, int]:
    """Return the correctable, non-fatal and fatal errors that a device has counted."""
    number = max(device.gpu, device.port, device.disk)
    if number < 0:
        return 0, 0, 0
    draw = view.draw(f"aer {device.driver}", 16)[number]
    old = int(1 + 300 * draw) if draw < 0.02 else 0
    place = {"gpu": device.gpu, "port": device.port, "disk": device.disk}
    return (
        view.count("pcie_aer_correctable", old, **place),
        view.count("pcie_aer_nonfatal", 0, **place),
        view.count("pcie_aer_fatal", 0, **place),
    )


def link(view: View, device: Device) -> tuple[int, int]:
    """Return generation and width of a device's link as it is now."""
    if device.gpu >= 0:
        gen, width = pcie(view, device.gpu)
    elif device.driver == "pcieport":
        return device.gen, device.width
    else:
        place = {"port": device.port, "disk": device.disk}
        gen, width = device.gen, round(view.state("pcie_link_width", device.width, **place))
    speed = view.state("pcie_link_speed", float(SPEEDS[gen]), gpu=device.gpu, port=device.port, disk=device.disk)
    return min(SPEEDS, key=lambda one: abs(float(SPEEDS[one]) - speed)), width


def _changed(view: View, device: Device) -> dict[str, str]:
    """Return those files of a device that are not as on a healthy node."""
    if device.driver in ("pcieport", "nvidia-nvswitch"):
        return {}
    base = f"{_ROOT}/{device.driver}/{device.address}"
    changed = {}
    counts = aer(view, device)
    if any(counts):
        changed.update(_counters(base, *counts))
    if (device.gpu >= 0 and view.is_lost(device.gpu)) or (device.port >= 0 and view.lacks_port(device.port)):
        # All bits of what a device that is gone answers are set.
        return {**changed, f"{base}/current_link_speed": "Unknown\n", f"{base}/current_link_width": "63\n"}
    if view.twin.told.knows("gpu_pcie_link_gen", "gpu_pcie_link_width", "pcie_link_speed", "pcie_link_width"):
        changed.update(_link(base, *link(view, device), device.gen, device.width))
    return changed
