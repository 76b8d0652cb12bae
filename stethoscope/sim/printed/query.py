"""What `nvidia-smi -q` prints of the GPUs of a simulated node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.sim import board
from stethoscope.sim.files.gpu import branch, ecc, pcie, processes, replays

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View

Rows = tuple[tuple[str, object], ...]

_FAMILIES = {3: "Turing", 4: "Ampere", 5: "Hopper"}
_REASONS = (
    ("Idle", 0x1), ("Applications Clocks Setting", 0x2), ("SW Power Cap", 0x4), ("HW Slowdown", 0x8),
    ("    HW Thermal Slowdown", 0x40), ("    HW Power Brake Slowdown", 0x80), ("Sync Boost", 0x10),
    ("SW Thermal Slowdown", 0x20), ("Display Clock Setting", 0x100),
)  # fmt: skip
_NONE = "N/A"


def query(view: View, uuids: list[str], gpus: list[int]) -> str:
    """Return what the tool prints of these GPUs."""
    now = datetime.fromtimestamp(view.wall_s, UTC)
    head = _rows("", (("Timestamp", f"{now:%a %b %e %H:%M:%S %Y}"), ("Driver Version", view.build.driver_version)))
    cuda = _rows("", (("CUDA Version", view.build.cuda_version),))
    attached = _rows("", (("Attached GPUs", view.gpus),))
    return "\n==============NVSMI LOG==============\n\n" + head + cuda + "\n" + attached + "\n".join(
        _gpu(view, gpu, uuids[gpu]) for gpu in gpus
    )  # fmt: skip


def _rows(indent: str, rows: Rows) -> str:
    return "".join(f"{indent + name:<42}: {value}\n" for name, value in rows)


def _block(title: str, rows: Rows, indent: str = "    ") -> str:
    return f"{indent}{title}\n" + _rows(indent + "    ", rows)


def _gpu(view: View, gpu: int, uuid: str) -> str:
    """Return the text of one GPU."""
    build, product = view.build, view.twin.layout.board
    fast = {metric: column[view.node][gpu] for metric, column in view.readings.gpu.items()}
    now = {metric: round(value) if isinstance(value, int | float) else 0 for metric, value in fast.items()}
    architecture = "Blackwell" if "B200" in product.name else _FAMILIES[product.pcie_gen]
    recovery: Rows = (("GPU Recovery Action", "None"),) if branch(build.driver_version) >= 570 else ()
    return "".join(
        (
            f"GPU 0000{board.gpu_pci(gpu).upper()}.0\n",
            _rows("    ", (
                ("Product Name", product.name), ("Product Brand", "NVIDIA"), ("Product Architecture", architecture),
                ("Display Mode", "Enabled"), ("Display Active", "Disabled"), ("Persistence Mode", "Enabled"),
                ("Addressing Mode", "None"),
            )),
            _block("MIG Mode", (("Current", "Disabled"), ("Pending", "Disabled"))),
            _rows("    ", (
                ("GPU UUID", uuid), ("Minor Number", gpu), ("VBIOS Version", build.gpu_vbios_version),
                ("GSP Firmware Version", build.driver_version), *recovery,
            )),
            _bus(view, gpu, now),
            _rows("    ", (("Fan Speed", _NONE), ("Performance State", "P0"))),
            _held(view, gpu, now["gpu_clocks_event_reasons"]),
            _memory(now),
            _block("ECC Mode", (("Current", "Enabled"), ("Pending", "Enabled"))),
            _errors(view, gpu),
            _heat(view, now),
            _power(view, now["gpu_power_limit"],
                   float(fast["gpu_power_draw"]) if isinstance(fast["gpu_power_draw"], int | float) else 0.0),
            _clocks(view, gpu, now["gpu_sm_clock"]),
            _block("Fabric", (("State", "Completed"), ("Status", "Success"))) if view.has_fabric else "",
            _processes(view, gpu),
        )
    )  # fmt: skip


def _bus(view: View, gpu: int, now: dict[str, int]) -> str:
    product, address = view.twin.layout.board, board.gpu_pci(gpu).upper()
    gen, width = pcie(view, gpu)
    newest = product.pcie_gen
    return "".join(
        (
            _block("PCI", (
                ("Bus", f"0x{address[5:7]}"), ("Device", "0x00"), ("Domain", "0x0000"),
                ("Device Id", f"0x{product.device:04X}10DE"), ("Bus Id", f"0000{address}.0"),
            )),
            "        GPU Link Info\n",
            _block("PCIe Generation", (
                ("Max", newest), ("Current", gen), ("Device Current", gen), ("Device Max", newest),
                ("Host Max", newest),
            ), " " * 12),
            _block("Link Width", (("Max", "16x"), ("Current", f"{width}x")), " " * 12),
            _rows("        ", (
                ("Replays Since Reset", replays(view, gpu)), ("Replay Number Rollovers", 0),
                ("Tx Throughput", f"{now['gpu_pcie_tx']} KB/s"), ("Rx Throughput", f"{now['gpu_pcie_rx']} KB/s"),
            )),
        )
    )  # fmt: skip


def _held(view: View, gpu: int, bits: int) -> str:
    active = tuple((name, "Active" if bits & bit else "Not Active") for name, bit in _REASONS)
    text = _block("Clocks Event Reasons", active)
    if branch(view.build.driver_version) < 575:
        return text
    names = ("sw_power_cap", "sw_thermal", "hw_thermal", "hw_power_brake")
    power, soft, hard, brake = (f"{view.total(f'gpu_throttle_time_{name}')[gpu]} us" for name in names)
    return text + _block("Clocks Event Reasons Counters", (
        ("SW Power Capping", power), ("Sync Boost", "0 us"), ("SW Thermal Slowdown", soft),
        ("HW Thermal Slowdown", hard), ("HW Power Braking", brake),
    ))  # fmt: skip


def _memory(now: dict[str, int]) -> str:
    total, used = now["gpu_fb_total"], now["gpu_fb_used"]
    kept = total // 148
    return _block("FB Memory Usage", (
        ("Total", f"{total} MiB"), ("Reserved", f"{kept} MiB"), ("Used", f"{used} MiB"),
        ("Free", f"{max(total - used - kept, 0)} MiB"),
    )) + _rows("    ", (("Compute Mode", "Default"),)) + _block("Utilization", (
        ("Gpu", f"{now['gpu_util']} %"), ("Memory", f"{now['gpu_mem_copy_util']} %"), ("Encoder", "0 %"),
        ("Decoder", "0 %"),
    ))  # fmt: skip


def _errors(view: View, gpu: int) -> str:
    counts = ecc(view, gpu)
    text = "    ECC Errors\n"
    for span in ("volatile", "aggregate"):
        exceeded: Rows = (("SRAM Threshold Exceeded", "No"),) if span == "aggregate" else ()
        text += _block(span.capitalize(), (
            ("SRAM Correctable", counts[f"gpu_ecc_corr_{span}_sram"]),
            ("SRAM Uncorrectable Parity", counts[f"gpu_ecc_uncorr_{span}_sram"]), ("SRAM Uncorrectable SEC-DED", 0),
            ("DRAM Correctable", counts[f"gpu_ecc_corr_{span}_dram"]),
            ("DRAM Uncorrectable", counts[f"gpu_ecc_uncorr_{span}_dram"]), *exceeded,
        ), " " * 8)  # fmt: skip
    if view.twin.layout.board.pcie_gen < 4:
        return text + _block("Remapped Rows", ()).replace("\n", f"{'':>25}: {_NONE}\n")
    pending, failed = (view.state(f"gpu_row_remap_{what}", 0, gpu=gpu) > 0 for what in ("pending", "failure"))
    return text + _block("Remapped Rows", (
        ("Correctable Error", counts["gpu_remapped_rows_corr"]),
        ("Uncorrectable Error", counts["gpu_remapped_rows_uncorr"]),
        ("Pending", "Yes" if pending else "No"), ("Remapping Failure Occurred", "Yes" if failed else "No"),
    )) + _block("Bank Remap Availability Histogram", (
        ("Max", "2560 bank(s)"), ("High", "0 bank(s)"), ("Partial", "0 bank(s)"), ("Low", "0 bank(s)"),
        ("None", "0 bank(s)"),
    ), " " * 8)  # fmt: skip


def _heat(view: View, now: dict[str, int]) -> str:
    product = view.twin.layout.board
    if product.margin_c is None:
        limits: Rows = (
            ("GPU T.Limit Temp", _NONE), ("GPU Shutdown Temp", f"{product.slowdown_c + 3:.0f} C"),
            ("GPU Slowdown Temp", f"{product.slowdown_c:.0f} C"),
        )  # fmt: skip
    else:
        limits = (
            ("GPU T.Limit Temp", f"{now['gpu_temp_margin']} C"), ("GPU Shutdown T.Limit Temp", "-8 C"),
            ("GPU Slowdown T.Limit Temp", "-2 C"), ("GPU Max Operating T.Limit Temp", "0 C"),
        )  # fmt: skip
    rows = (("GPU Current Temp", f"{now['gpu_temp']} C"), *limits, ("Memory Current Temp", f"{now['gpu_mem_temp']} C"))
    return _block("Temperature", rows)


def _power(view: View, limit_w: int, drawn_w: float) -> str:
    own = f"{view.twin.layout.board.power_w:.2f} W"
    return _block("GPU Power Readings", (
        ("Power Draw", f"{drawn_w:.2f} W"), ("Current Power Limit", f"{limit_w:.2f} W"),
        ("Requested Power Limit", f"{limit_w:.2f} W"), ("Default Power Limit", own), ("Max Power Limit", own),
    ))  # fmt: skip


def _clocks(view: View, gpu: int, sm_mhz: int) -> str:
    product = view.twin.layout.board
    top, memory = f"{product.sm_mhz:.0f} MHz", f"{product.memory_mhz} MHz"
    set_mhz = view.state("gpu_app_clock", min(app_mhz(view, gpu), product.sm_mhz), gpu=gpu)
    return "".join((
        _block("Clocks", (("Graphics", f"{sm_mhz} MHz"), ("SM", f"{sm_mhz} MHz"), ("Memory", memory))),
        _block("Applications Clocks", (("Graphics", f"{set_mhz:.0f} MHz"), ("Memory", memory))),
        _block("Default Applications Clocks", (("Graphics", top), ("Memory", memory))),
        _block("Max Clocks", (("Graphics", top), ("SM", top), ("Memory", memory))),
    ))  # fmt: skip


def app_mhz(view: View, gpu: int) -> float:
    """Return the application clock that a fault set, infinite where none did."""
    return float(view.twin.effects.app_mhz[view.node, gpu])


def _processes(view: View, gpu: int) -> str:
    running = [app for app in processes(view) if app[0] == gpu]
    if not running:
        return _rows("    ", (("Processes", "None"),))
    text = "    Processes\n"
    for _, pid, memory, kind in running:
        text += _rows("        ", (("GPU instance ID", _NONE), ("Compute instance ID", _NONE), ("Process ID", pid)))
        text += _rows(" " * 12, (("Type", kind), ("Name", "python3"), ("Used GPU Memory", f"{memory} MiB")))
    return text
