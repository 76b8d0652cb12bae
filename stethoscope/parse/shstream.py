"""One block of the probe in sh (probes/stream.sh) to the message that the probe in Python would have sent.

A block begins with `@hello`, `@full`, `@part`, `@event` or `@bye`, its sequence number, the node's uptime and its wall
clock, and ends with `@end` and the number again. It stands for itself: what a share of time needs of the reading before
is in it. What comes out is not cleaned; parse.stream does that for both probes alike.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from stethoscope.model import wire
from stethoscope.parse import shpart, smi
from stethoscope.parse.greplines import Files

if TYPE_CHECKING:
    from stethoscope.model.wire import Cell, Message

NOTE_KEY, NOTE = "traffic", "no Python, using sh"
"""What every full frame of this probe says about the traffic of GPUs, which it cannot see."""
MAX_LINES = 20_000
"""Lines of one block; two readings of /proc/stat on 2,048 cores and 64 ports with all their counters are 6,000."""

PORT_FILES = {
    "state": "ib_port_state",
    "phys_state": "ib_port_phys_state",
    "rate": "ib_port_rate",
    **{
        f"counters/{name}": f"ib_{name}"
        for name in (
            "port_xmit_data",
            "port_rcv_data",
            "symbol_error",
            "link_error_recovery",
            "link_downed",
            "port_rcv_errors",
            "port_rcv_remote_physical_errors",
            "local_link_integrity_errors",
            "excessive_buffer_overrun_errors",
            "port_xmit_discards",
            "port_xmit_wait",
            "port_rcv_switch_relay_errors",
        )
    },
    "counters/VL15_dropped": "ib_vl15_dropped",
    **{
        f"hw_counters/{name}": f"ib_hw_{name}"
        for name in (
            "out_of_buffer",
            "out_of_sequence",
            "packet_seq_err",
            "local_ack_timeout_err",
            "rnr_nak_retry_err",
            "req_cqe_error",
            "roce_slow_restart",
            "implied_nak_seq_err",
        )
    },
    "hw_counters/np_cnp_sent": "roce_np_cnp_sent",
    "hw_counters/rp_cnp_handled": "roce_rp_cnp_handled",
}
"""The metric in each file of a port, as in probes/fabric.py."""

_SHARES = ("cpu_util", "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "cpu_steal")
_PRESSURE = (
    ("psi_cpu_some", "pressure/cpu", "some"),
    ("psi_io_some", "pressure/io", "some"),
    ("psi_io_full", "pressure/io", "full"),
    ("psi_memory_full", "pressure/memory", "full"),
)
_MEMORY = (
    ("mem_available", ("MemAvailable",)),
    ("mem_total", ("MemTotal",)),
    ("mem_dirty_writeback", ("Dirty", "Writeback")),
)
_DMESG = re.compile(r"<(\d{1,4})>\[ *(\d{1,12}\.\d{1,9})\](?:\[ *[TC]\d+\])? ?(.*)", re.ASCII)
_JOURNAL = re.compile(r"(\d{1,12}\.\d{1,9}) \S+ kernel\S* (.*)", re.ASCII)


def decode(raw: bytes) -> Message:
    """Return the message in one block; raises ValueError when it is not one."""
    lines = raw.decode("utf-8", "replace").split("\n")
    if len(lines) > MAX_LINES:
        raise ValueError(f"a block of {len(lines):,} lines")
    head = lines[0].split(" ")
    if len(head) != 4 or len(lines) < 3 or lines[-1] != f"@end {head[1]}":
        raise ValueError("a block that is not whole")
    seq, mono, wall = _integer(head[1]), _decimal(head[2]), _decimal(head[3])
    body = lines[1:-1]
    if head[0] == "@event":
        return _event(seq, mono, wall, "\n".join(body))
    if head[0] == "@bye":
        return wire.Bye(seq=seq, mono=mono, wall=wall, why=" ".join(body))
    if head[0] == "@part":
        return shpart.read(seq, mono, wall, body)
    sections = _sections(body)
    if head[0] == "@hello":
        return wire.Hello(
            seq=seq,
            mono=mono,
            wall=wall,
            host=_said(sections, "node"),
            kernel=_said(sections, "kernel"),
            pid=_integer(_said(sections, "pid")),
            boot_id=_said(sections, "boot"),
            tick_s=_decimal(_said(sections, "tick")),
        )
    if head[0] == "@full":
        return _full(seq, mono, wall, sections)
    raise ValueError("a block of an unknown kind")


def _sections(body: list[str]) -> dict[str, list[str]]:
    """Return the lines of each part of a block by its name; the first is what stands beside the name."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body:
        if line.startswith("@"):
            name, _, said = line[1:].partition(" ")
            if name in sections:
                raise ValueError("a block with two parts of one name")
            lines = sections[name] = [said]
        elif line:
            lines.append(line)
    return sections


def _said(sections: dict[str, list[str]], name: str) -> str:
    return sections.get(name, [""])[0]


def _integer(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise ValueError("a number that is none")
    return int(text)


def _decimal(text: str) -> float:
    if not re.fullmatch(r"\d{1,12}(\.\d{0,9})?", text, re.ASCII):
        raise ValueError("a time that is none")
    return float(text)


def _whole(text: str) -> int:
    """Return a counter of the kernel, of 64 bits at most; ValueError when it is none."""
    if len(text) > 20:
        raise ValueError("a number that is too long")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number that is none")
    return number


def _event(seq: int, mono: float, wall: float, body: str) -> wire.Event:
    source, _, line = body.partition(" ")
    if source == "dmesg" and (match := _DMESG.fullmatch(line)):
        at, level = wall - mono + float(match[2]), int(match[1]) & 7
        return wire.Event(seq=seq, mono=mono, wall=wall, source="kernel", text=match[3], at=round(at, 6), level=level)
    if source == "journal" and (match := _JOURNAL.fullmatch(line)):
        return wire.Event(seq=seq, mono=mono, wall=wall, source="kernel", text=match[2], at=float(match[1]))
    raise ValueError("an event that is no line of the kernel's log")


def _full(seq: int, mono: float, wall: float, sections: dict[str, list[str]]) -> wire.Full:
    host = Files(sections.get("host", [""])[1:])
    node = _stat(host, Files(sections.get("was", [""])[1:]))
    node.update(_memory(host))
    node["load1"] = _first_number(host, "loadavg")
    for metric, name, kind in _PRESSURE:
        node[metric] = _pressure(host, name, kind)
    pci = _said(sections, "pci")
    node["gpu_count_pci"] = int(pci) if re.fullmatch(r"\d{1,4}", pci, re.ASCII) else pci
    reading = smi.read(
        _said(sections, "smi"),
        _said(sections, "said"),
        _said(sections, "fields"),
        sections.get("rows", [""])[1:],
        first=sections.get("first", [""])[1:],
        no_gpus=node["gpu_count_pci"] == 0,
    )
    node.update(reading.node)
    ports = _ports(sections.get("ports", [""])[1:])
    values = Files(sections.get("values", [""])[1:])
    notes = {NOTE_KEY: NOTE, **reading.notes}
    if log := _said(sections, "log"):
        notes.update(kernel_log=log, kernel_log_tried="dmesg, journalctl")
    if watch := _said(sections, "watch"):
        notes["watch"] = watch
    return wire.Full(
        seq=seq,
        mono=mono,
        wall=wall,
        gpus=reading.gpus,
        ports=ports,
        node=node,
        gpu=reading.gpu,
        port=_port_values(ports, values),
        notes=notes,
    )


# ---------------------------------------------------------------- the host


def _times(files: Files) -> dict[str, list[int]]:
    """Return the clock ticks of each `cpu` line: user nice system idle iowait irq softirq steal."""
    rows = (line.split() for line in files.lines("stat") if line.startswith("cpu"))
    return {row[0]: [_whole(part) for part in row[1:9]] for row in rows}


def _stat(now: Files, before: Files) -> dict[str, Cell]:
    values: dict[str, Cell] = dict.fromkeys((*_SHARES, "procs_blocked", "cpu_count"), now.word("stat", "error"))
    try:
        times = _times(now)
        blocked = [_whole(line.split()[1]) for line in now.lines("stat") if line.startswith("procs_blocked")]
    except (ValueError, IndexError):
        return values
    if "cpu" not in times:
        return values
    values.update(dict.fromkeys(_SHARES, "waiting"))
    values["procs_blocked"] = blocked[0] if blocked else "unsupported"
    values["cpu_count"] = len(times) - 1
    try:
        values.update(_shares(times, _times(before)))
    except (ValueError, IndexError):
        values.update(dict.fromkeys(_SHARES, "error"))
    return values


def _shares(new: dict[str, list[int]], old: dict[str, list[int]]) -> dict[str, Cell]:
    """Return the percentages of time since the reading before; nothing without one."""
    gone = [max(0, after - before) for after, before in zip(new["cpu"], old.get("cpu", []), strict=False)]
    whole = float(sum(gone))
    if not whole or len(gone) < 8:
        return {}
    worst = 0.0
    for name, after in new.items():
        before = old.get(name, [])
        core = sum(after) - sum(before)
        if name != "cpu" and before and core > 0:
            worst = max(worst, 100.0 * (after[6] - before[6]) / core)
    return {
        "cpu_util": round(100.0 * (whole - gone[3] - gone[4]) / whole, 1),
        "cpu_iowait": round(100.0 * gone[4] / whole, 1),
        "cpu_softirq": round(100.0 * gone[6] / whole, 1),
        "cpu_steal": round(100.0 * gone[7] / whole, 1),
        "cpu_softirq_max": round(min(100.0, worst), 1),
    }


def _memory(files: Files) -> dict[str, Cell]:
    """Return what /proc/meminfo says, in MiB."""
    if not files.lines("meminfo"):
        return {metric: files.word("meminfo", "unsupported") for metric, _ in _MEMORY}
    try:
        rows = (line.partition(":") for line in files.lines("meminfo"))
        found = {key: _whole(rest.split()[0]) for key, _, rest in rows}
    except (ValueError, IndexError):
        return dict.fromkeys((metric for metric, _ in _MEMORY), "error")
    return {
        metric: round(sum(found[key] for key in keys) / 1024.0) if all(key in found for key in keys) else "unsupported"
        for metric, keys in _MEMORY
    }


def _first_number(files: Files, name: str) -> Cell:
    try:
        return _real(files.lines(name)[0].split()[0])
    except (ValueError, IndexError):
        return files.word(name, "error")


def _pressure(files: Files, name: str, kind: str) -> Cell:
    for line in files.lines(name):
        if line.startswith(kind):
            try:
                return _real(line.split()[1].partition("=")[2])
            except (ValueError, IndexError):
                return "error"
    return files.word(name, "unsupported")


# ---------------------------------------------------------------- the ports


def _ports(lines: list[str]) -> list[wire.PortIdentity]:
    """Return the ports in the order in which people count adapters: mlx5_2 before mlx5_10."""
    found = []
    for line in lines:
        device, number, pci, netdev, layer = [*line.split(" ", 4), "", "", "", ""][:5]
        found.append(wire.PortIdentity(device, _integer(number), layer, pci, "" if netdev == "-" else netdev))
    return sorted(found, key=lambda port: (len(port.device), port.device, port.port))


def _port_values(ports: list[wire.PortIdentity], files: Files) -> dict[str, list[Cell]]:
    if not ports:
        return {}
    places = [f"{port.device}/ports/{port.port}/" for port in ports]
    return {metric: [_value(files, place + name) for place in places] for name, metric in PORT_FILES.items()}


def _value(files: Files, name: str) -> Cell:
    """Return the number that a port's file begins with, or the word for why there is none."""
    lines = files.lines(name)
    if not lines:
        return files.word(name, "error")
    if lines[0].startswith("N/A"):
        return "unsupported"
    first = lines[0].split(maxsplit=1)[0].rstrip(":") if lines[0].strip() else ""
    try:
        number = _real(first) if "." in lines[0] else _whole(first)
    except ValueError:
        return "error"
    return int(number) if number == int(number) else number
