"""What nvidia-smi and dcgmi print on a simulated node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stethoscope.sim import board
from stethoscope.sim.files.gpu import LINK_ERRORS, links
from stethoscope.sim.printed.query import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.wire import Cell
    from stethoscope.sim.files.view import View

_LOST = "Unable to determine the device handle for GPU {}: GPU is lost.  Reboot the system to recover this GPU\n"
_LOST_STATUS = 15
_DIAGNOSTIC = (
    "Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks", "Persistence Mode",
    "Environment Variables", "Page Retirement/Row Remap", "Graphics Processes", "Inforom",
)  # fmt: skip
_ROW_FLAGS = ("gpu_row_remap_pending", "gpu_row_remap_failure")
_CAPABILITIES = (
    "P2P is supported", "Access to system memory supported", "P2P atomics supported",
    "System memory atomics supported", "SLI is supported", "Link is supported",
)  # fmt: skip
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def smi(view: View, uuids: list[str], words: list[str]) -> tuple[int, str]:
    """Return exit status and output of nvidia-smi with these words: -q, nvlink or topo."""
    if words[0] == "topo":
        return _topology(view)
    wanted = list(range(view.gpus))
    if "-i" in words:
        named = words[words.index("-i") + 1]
        if not named.isdigit() or int(named) >= view.gpus:
            return 6, "No devices were found\n"
        wanted = [int(named)]
    for gpu in wanted:
        if view.is_lost(gpu):
            return _LOST_STATUS, _LOST.format(board.gpu_pci(gpu).upper() + ".0")
    if words[0] == "nvlink":
        return 0, "".join(_links(view, gpu, uuids[gpu], words[1]) for gpu in wanted)
    return 0, query(view, uuids, wanted)


def diagnostic(view: View) -> tuple[int, str]:
    """Return exit status and output of `dcgmi diag -r 1 -j`."""
    lost = [gpu for gpu in range(view.gpus) if view.is_lost(gpu)]
    waits = [gpu for gpu in range(view.gpus) if any(view.state(flag, 0, gpu=gpu) for flag in _ROW_FLAGS)]
    found = {
        "NVML Library": (lost, "GPU {} is lost. Reboot the system to recover this GPU."),
        "Page Retirement/Row Remap": (
            waits,
            "GPU {} had memory errors, and a row waits to be remapped. Reset the GPU.",
        ),
    }
    tests = []
    for name in _DIAGNOSTIC:
        gpus, words = found.get(name, ([], ""))
        result = {"status": "Fail", "warnings": words.format(gpus[0])} if gpus else {"status": "Pass"}
        tests.append({"name": name, "results": [result]})
    document = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}}
    return (226 if lost or waits else 0), json.dumps(document, indent=2) + "\n"


def _topology(view: View) -> tuple[int, str]:
    lost = next((gpu for gpu in range(view.gpus) if view.is_lost(gpu)), None)
    if lost is not None:
        return _LOST_STATUS, _LOST.format(board.gpu_pci(lost).upper() + ".0")
    gpus = [("gpu", gpu) for gpu in range(view.gpus)]
    ports = [("port", port) for port in range(view.ports)]
    names = [*(f"GPU{gpu}" for _, gpu in gpus), *(f"NIC{port}" for _, port in ports)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name, one in zip(names, [*gpus, *ports], strict=True):
        cells = [_connection(view, one, other) for other in [*gpus, *ports]]
        if one[0] == "gpu":
            half, quarter = int(2 * one[1] >= view.gpus), board.CPUS // 4
            low, high = half * quarter, (half + 2) * quarter
            cells += [f"{low}-{low + quarter - 1},{high}-{high + quarter - 1}", str(half), "N/A"]
        lines.append("\t".join([name, *cells]))
    legend = "\nNIC Legend:\n\n" + "".join(f"  NIC{port}: mlx5_{port}\n" for _, port in ports) if ports else ""
    return 0, "\n".join(lines) + "\n" + _LEGEND + legend


def _connection(view: View, one: tuple[str, int], other: tuple[str, int]) -> str:
    """Return how two devices are connected: NVLink between GPUs, else what is between them on PCIe."""
    if one == other:
        return " X "
    if one[0] == other[0] == "gpu" and view.twin.layout.board.links:
        return f"NV{view.twin.layout.board.links}"
    if one[1] == other[1]:
        return "PHB"
    return "NODE" if (2 * one[1] >= view.gpus) == (2 * other[1] >= view.gpus) else "SYS"


def _links(view: View, gpu: int, uuid: str, what: str) -> str:
    """Return what `nvidia-smi nvlink` prints of one GPU with -s, -e or -c."""
    columns = links(view, gpu)
    lines = [f"GPU {gpu}: {view.twin.layout.board.name} (UUID: {uuid})\n"]
    for link in range(len(columns["nvlink_state"])):
        lines.extend(f"\t Link {link}{said}\n" for said in _link(columns, link, what))
    return "".join(lines)


def _link(columns: dict[str, list[Cell]], link: int, what: str) -> Iterator[str]:
    if what == "-s":
        is_up = columns["nvlink_state"][link] == 1
        yield f": {columns['nvlink_speed'][link]:.3f} GB/s" if is_up else ": <inactive>"
    elif what == "-e":
        for metric, title in zip(LINK_ERRORS, ("Replay", "Recovery", "CRC"), strict=True):
            yield f": {title} Errors: {columns[metric][link]}"
    else:
        for title in _CAPABILITIES:
            yield f", {title}: true"
