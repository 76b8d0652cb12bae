"""What lspci and ethtool print on a simulated node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.files import net, pci

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

_CLASSES = {"nvidia": "3D controller", "nvidia-nvswitch": "Bridge", "mlx5_core": "Infiniband controller",
            "nvme": "Non-Volatile memory controller", "pcieport": "PCI bridge"}  # fmt: skip
_VENDORS = {"nvidia": "10de", "nvidia-nvswitch": "10de", "mlx5_core": "15b3", "nvme": "144d", "pcieport": "8086"}
_UNCORRECTABLE = ("DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC",
                  "UnsupReq", "ACSViol")  # fmt: skip

_COPPER = "".join(
    f"\t{name:<42}: {value}\n"
    for name, value in (
        ("Identifier", "0x03 (SFP)"), ("Extended identifier", "0x04 (GBIC/SFP defined by 2-wire interface ID)"),
        ("Connector", "0x21 (Copper pigtail)"), ("Transceiver type", "Passive Cable"),
        ("BR, Nominal", "25750MBd"), ("Length (Copper)", "3m"), ("Passive Cu cmplnce.", "0x00 (unknown)"),
        ("Vendor name", "Mellanox"), ("Vendor PN", "MCP2M00-A003E30L"), ("Vendor rev", "A5"),
    )
)  # fmt: skip
"""What `ethtool -m` prints of a copper cable, which has nothing to measure."""


def lspci(view: View, arguments: list[str]) -> str:
    """Return what `lspci -D -vvv` prints of one device (-s ADDRESS), or of those of a vendor (-d VENDOR:)."""
    found = pci.of(view)
    if "-s" in arguments:
        address = arguments[arguments.index("-s") + 1]
        found = tuple(one for one in found if address in (one.address, one.address[5:], one.address[:-2]))
    elif "-d" in arguments:
        vendor = arguments[arguments.index("-d") + 1].rstrip(":")
        found = tuple(one for one in found if _VENDORS[one.driver] == vendor)
    return "\n".join(_device(view, device) for device in sorted(found, key=lambda one: one.address))


def ethtool(view: View, words: list[str]) -> tuple[int, str, str]:
    """Return exit status, output and error output of ethtool for an interface, with -S or -m or neither."""
    name = words[-1]
    counted = net.statistics(view, name)
    if counted is None:
        return 75, "", "netlink error: No such device\n"
    port = next((port for port in range(view.ports) if view.netdev(port) == name), None)
    is_port = port is not None
    if words[0] == "-S":
        return 0, "NIC statistics:\n" + "".join(f"     {word}: {count}\n" for word, count in counted.items()), ""
    if words[0] == "-m":
        return (1, "", "netlink error: Operation not supported\n") if is_port else (0, _COPPER, "")
    mbps = net.management_mbps(view) if name == net.MANAGEMENT else net.SPEED_MBPS
    is_up = True
    if port is not None:
        mbps = round(1000 * float(view.readings.port["ib_port_rate"][view.node][port] or 0))
        is_up = view.readings.port["ib_port_state"][view.node][port] == 4
    speed = f"{mbps}Mb/s" if is_up else "Unknown!"
    return (
        0,
        (
            f"Settings for {name}:\n\tSupported ports: [ {'' if is_port else 'FIBRE'} ]\n"
            f"\tSupported link modes:   {'Not reported' if is_port else '25000baseCR/Full'}\n"
            f"\tSupported pause frame use: No\n\tSupports auto-negotiation: No\n\tSpeed: {speed}\n\tDuplex: Full\n"
            f"\tAuto-negotiation: {'on' if is_port else 'off'}\n\tPort: {'Other' if is_port else 'FIBRE'}\n\tPHYAD: 0\n"
            f"\tTransceiver: internal\n\tLink detected: {'yes' if is_up else 'no'}\n"
        ),
        "",
    )


def _device(view: View, device: pci.Device) -> str:
    board = view.twin.layout.board
    models = {
        "nvidia": f"NVIDIA Corporation Device {board.device:04x} (rev a1)",
        "nvidia-nvswitch": "NVIDIA Corporation Device 22a3 (rev a1)",
        "mlx5_core": "Mellanox Technologies MT2910 Family [ConnectX-7]",
        "nvme": "Samsung Electronics Co Ltd NVMe SSD Controller PM9A1/PM9A3/980PRO",
        "pcieport": "Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])",
    }
    head = f"{device.address} {_CLASSES[device.driver]}: {models[device.driver]}"
    if (device.gpu >= 0 and view.is_lost(device.gpu)) or (device.port >= 0 and view.lacks_port(device.port)):
        # Every register of a device that is gone reads as ones.
        revision = head.replace("rev a1", "rev ff") if "rev a1" in head else f"{head} (rev ff)"
        return f"{revision} (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: {device.driver}\n"
    gen, width = pci.link(view, device)
    correctable, nonfatal, fatal = pci.aer(view, device)
    speed = pci.SPEEDS[gen].removesuffix(".0")
    top = pci.SPEEDS[device.gen].removesuffix(".0")
    state = f"Speed {speed}GT/s ({'ok' if gen >= device.gen else 'downgraded'}), "
    state += f"Width x{width} ({'ok' if width >= device.width else 'downgraded'})"
    status = f"CorrErr{_sign(correctable)} NonFatalErr{_sign(nonfatal)} FatalErr{_sign(fatal)}"
    seen = " ".join(f"{name}{_sign(fatal and name == 'CmpltTO')}" for name in _UNCORRECTABLE)
    half = int(max(device.gpu, device.port) * 2 >= max(view.gpus, 1))
    return (
        f"{head}\n\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- "
        f"DisINTx+\n\tNUMA node: {half}\n\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
        f"\t\tDevSta:\t{status} UnsupReq- AuxPwr- TransPend-\n"
        f"\t\tLnkCap:\tPort #0, Speed {top}GT/s, Width x{device.width}, ASPM not supported\n"
        f"\t\tLnkSta:\t{state}\n\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-\n"
        f"\tCapabilities: [100 v2] Advanced Error Reporting\n\t\tUESta:\t{seen}\n"
        f"\t\tCESta:\tRxErr- BadTLP- BadDLLP- Rollover- Timeout{_sign(correctable)} AdvNonFatalErr-\n"
        f"\tKernel driver in use: {device.driver}\n"
    )


def _sign(flag: object) -> str:
    return "+" if flag else "-"
