"""Versions of a node: what is compared between nodes to find the one that differs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.facts import Facts
from stethoscope.parse.groups.values import ERROR, UNSUPPORTED, answer, below, line, said, whole
from stethoscope.parse.pci import normal_pci
from stethoscope.parse.tools.errors import without_values

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_DMI = "/sys/class/dmi/id"
_GPUS = "/proc/driver/nvidia/gpus/"
_DRIVER = re.compile(r"NVRM version:.*?Kernel Module(?: for \S+)?\s+(\d{2,4}(?:\.\d{1,4}){1,3})\b", re.ASCII)
"""The open module says for which processor it is before its version, the proprietary one before its name."""
_KERNEL = re.compile(r"Linux version (\S+)", re.ASCII)
_VBIOS = re.compile(r"^Video BIOS:\s*(\S+)", re.ASCII | re.MULTILINE)
_NCCL = re.compile(r"libnccl\.so\.(\d+(?:\.\d+)+)", re.ASCII)
_CUDA = re.compile(r"cuda-(\d+(?:\.\d+)+)", re.ASCII)
_BMC = re.compile(r"^Firmware Revision\s*:\s*(\S+)", re.ASCII | re.MULTILINE)
_OWN = re.compile(
    r"(?:BOOT_IMAGE|BOOTIF|initrd|root|ip|hostname|resume|rd\.(?:luks|lvm|md)\S*?|systemd\.machine_id|nfsroot)=\S*",
    re.ASCII,
)
"""What on the kernel's command line is of one node alone."""
_LONGEST, _LONGEST_TEXT = 400, 4096


def read(part: wire.Part) -> Facts:
    """Return the versions, and when the node was started."""
    files = part.files
    driver = _DRIVER.search(files.get("/proc/driver/nvidia/version", "")[:_LONGEST_TEXT])
    kernel = _KERNEL.match(files.get("/proc/version", "")[:_LONGEST_TEXT])
    libraries = [text[:_LONGEST_TEXT] for path, text in files.items() if path.endswith("/libnccl.so.2")]
    nccl = {match[1] for match in map(_NCCL.search, libraries) if match}
    cuda = _CUDA.search(files.get("/usr/local/cuda", "")[:_LONGEST_TEXT])
    ran, word = answer(part, "bmc")
    bmc = _BMC.search(ran.out[:_LONGEST_TEXT]) if ran is not None and not word else None
    words = {
        "driver_version": driver[1] if driver else "",
        "kernel": kernel[1] if kernel else "",
        "os": line(part, "/etc/os-release").removeprefix("PRETTY_NAME=").strip("\"'"),
        "nccl_version": ", ".join(sorted(nccl)),
        "cuda_toolkit": cuda[1] if cuda else "",
        "product": " ".join(f"{line(part, f'{_DMI}/sys_vendor')} {line(part, f'{_DMI}/product_name')}".split()),
        "bios": _bios(part),
        "bmc_firmware": bmc[1] if bmc else "",
        "mlx5_driver": line(part, "/sys/module/mlx5_core/version"),
        "ib_fw_version": _all(part, "fw_ver"),
        "ib_board": _all(part, "board_id"),
        "cmdline": _cmdline(line(part, "/proc/cmdline")),
    }
    return Facts(
        part.name,
        node={"boot_time": _boot_time(part)},
        words={name: text for name, text in words.items() if text},
        gpu_words=_vbios(part),
        notes={"bmc": "ipmitool needs root"} if ran is not None and not bmc and _is_refused(ran) else {},
    )


def _is_refused(ran: wire.Ran) -> bool:
    return without_values(ran.out, exit=ran.exit, err=ran.err, tool="ipmitool").reason == "permission"


def _bios(part: wire.Part) -> str:
    version, date = line(part, f"{_DMI}/bios_version"), line(part, f"{_DMI}/bios_date")
    return f"{version} ({date})" if version and date else version


def _all(part: wire.Part, name: str) -> str:
    """Return one word for what the adapters of a node have: `28.41.1000 (8), 20.38.1002 (2)` where they differ."""
    contents: dict[str, int] = {}
    for _, text in below(part, "/sys/class/infiniband/", f"/{name}"):
        if text.strip():
            contents[text.strip()] = contents.get(text.strip(), 0) + 1
    return said(contents)


def _cmdline(text: str) -> str:
    """Return the kernel's command line without what each node has of its own, in the order that it stands there."""
    kept = " ".join(word for word in text.split() if not _OWN.fullmatch(word))
    return kept if len(kept) <= _LONGEST else kept[: _LONGEST - 1] + "…"


def _boot_time(part: wire.Part) -> Cell:
    text = part.files.get("/proc/stat")
    if text is None:
        return part.failed.get("/proc/stat", UNSUPPORTED)
    name, _, seconds = text.strip().partition(" ")
    if name != "btime":
        return UNSUPPORTED
    number = whole(seconds)
    return ERROR if number is None else number


def _vbios(part: wire.Part) -> dict[str, tuple[str, ...]]:
    """Return the VBIOS of each GPU in the order of their addresses, which is that of the driver; question marks stand
    for one that the driver does not know."""
    found: dict[str, str] = {}
    for name, text in below(part, _GPUS, "/information"):
        match = _VBIOS.search(text[:_LONGEST_TEXT])
        found[normal_pci(name) or name] = "" if match is None or "?" in match[1] else match[1]
    return {"gpu_vbios_version": tuple(found[name] for name in sorted(found))} if any(found.values()) else {}
