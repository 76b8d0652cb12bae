"""The sections of what is on a node: GPUs, NVLink, fabric, PCIe, disks and file systems."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.clock import duration
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.node.rows import Column, device_rows
from stethoscope.ui.present.node.table import lost_rows, metric_table
from stethoscope.ui.present.node.view import Line, Section, View, range_text
from stethoscope.ui.present.numbers import number, title_in_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable


ACTIVE, UP = 4.0, 6.0
"""Codes of a port that is active and of an interface that is up."""


def present(view: View, scope: Scope, metric: str) -> list[float]:
    """Return the values of a metric that the node's devices have."""
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    if metric not in table.index:
        return []
    column = table.index[metric]
    here = slice(part.start, part.stop)
    return list(table.values[column, here][table.reasons[column, here] == Reason.PRESENT])


def said(view: View, scope: Scope, metric: str, word: str = "") -> list[str]:
    """Return a metric in a summary, as a list of one text or none: `1980 MHz`, `98 % busy`."""
    values = present(view, scope, metric)
    if not values:
        return []
    entry = view.snapshot.catalogue[metric]
    return [f"{range_text(values, lambda value: value_text(entry, value))} {word}".rstrip()]


def joined(view: View, parts: Iterable[str]) -> str:
    """Return the parts of a summary as one text."""
    return f" {view.glyphs.dot} ".join(part for part in parts if part)


def errors(view: View, *scopes: Scope, only: tuple[str, ...] = ()) -> str:
    """Return the error counters that move, or that none does."""
    moving = []
    for scope in scopes:
        table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
        for name in table.counters:
            metric = view.snapshot.catalogue[name]
            if metric.worse != "high" or (only and name not in only):
                continue
            column = table.index[name]
            values = table.values[column, part.start : part.stop]
            if (values[table.reasons[column, part.start : part.stop] == Reason.PRESENT] > 0).any():
                moving.append(title_in_text(metric.title))
    return f"{', '.join(dict.fromkeys(moving))} moving" if moving else "no errors moving"


def waiting(view: View, group: str, scope: Scope) -> str:
    """Return why there is nothing of a group, empty when there is."""
    if len(view.snapshot.rows(view.node, scope)):
        return ""
    return "none" if view.is_whole(group) else "not read yet"


def gpu_words(view: View) -> list[str]:
    """Return how many GPUs of which kind the node has, and how many are lost: `7 x H100 80GB HBM3`, `1 lost`."""
    gpus = view.node.gpus
    lost = lost_rows(view.snapshot.tables[Scope.GPU], view.snapshot.rows(view.node, Scope.GPU))
    kinds = Counter(gpu.name.removeprefix("NVIDIA ") for gpu, gone in zip(gpus, lost, strict=False) if not gone)
    unnamed, gone = kinds.pop("", 0), int(lost.sum())
    words = [f"{count} x {kind}" for kind, count in kinds.items()]
    if unnamed:
        words.append(f"{unnamed} GPU{'s' if unnamed > 1 else ''}{' without a name' if kinds else ''}")
    return words + ([f"{gone} lost" if words else f"{gone} GPU{'s' if gone > 1 else ''}, lost"] if gone else [])


def aged(view: View, group: str) -> str:
    """Return how old what a group told is, empty while it is not older than it should be."""
    part = view.node.parts.get(group)
    age_s = max(0.0, view.assessment.now_mono - part.mono) if part is not None else 0.0
    late = part is not None and age_s > 3 * part.every_s + 1 and view.node.link.state.is_live
    return f"read {duration(age_s)} ago" if late else ""


def gpus(view: View, level: int) -> Section | None:
    """Return the section of the GPUs, None on a node without any."""
    node = view.node
    if not node.gpus:
        return None
    used, size = present(view, Scope.GPU, "gpu_fb_used"), present(view, Scope.GPU, "gpu_fb_total")
    memory = (
        f"{range_text(used, lambda value: number(value / 1024))} of {number(max(size) / 1024)} GiB"
        if used and size
        else ""
    )
    margin = said(view, Scope.GPU, "gpu_temp_margin")
    parts = [
        *gpu_words(view),
        node.notes.get("nvml", ""),
        *said(view, Scope.GPU, "gpu_util", "busy"),
        *said(view, Scope.GPU, "gpu_sm_clock"),
        *said(view, Scope.GPU, "gpu_power_draw"),
        *(f"{text}, margin {margin[0]}" if margin else text for text in said(view, Scope.GPU, "gpu_temp")),
        memory,
    ]
    names = [f"gpu {gpu.index}" for gpu in node.gpus]

    def body(view: View) -> list[Line]:
        return metric_table(view, "gpus", Scope.GPU, names)

    return Section("gpus", "GPUs", level, joined(view, parts), body, keeps_open=True)


def fabric(view: View, level: int) -> Section:
    """Return the section of the ports and the network interfaces."""
    node = view.node
    states = present(view, Scope.PORT, "ib_port_state")
    parts = []
    if node.ports:
        layers = Counter(port.layer or "port" for port in node.ports)
        active = sum(state == ACTIVE for state in states)
        words = " and ".join(f"{count} {layer}" for layer, count in layers.items())
        rate = said(view, Scope.PORT, "ib_port_rate")
        parts = [
            f"{words} port{'s' if len(node.ports) > 1 else ''}, {active} active" + (f" at {rate[0]}" if rate else "")
        ]
        parts += [errors(view, Scope.PORT), *(f"send {text}" for text in said(view, Scope.PORT, "ib_port_xmit_data"))]
    nets = len(view.snapshot.rows(node, Scope.NET))
    if nets:
        up = sum(state == UP for state in present(view, Scope.NET, "net_operstate"))
        parts.append(joined(view, [f"{up} of {nets} interfaces up", aged(view, "net")]))
    return Section("fabric", "Fabric", level, joined(view, parts or ["no ports seen"]), _fabric_body, keeps_open=True)


def _fabric_body(view: View) -> list[Line]:
    lines: list[Line] = []
    if view.node.ports:
        names = [port.device if port.port == 1 else f"{port.device}:{port.port}" for port in view.node.ports]
        lines += metric_table(view, "fabric", Scope.PORT, names)
    if view.node.devices.get(Scope.NET):
        if lines:
            lines.append(())
        lines += metric_table(view, "fabric", Scope.NET, list(view.node.devices[Scope.NET]), "interface")
    return lines


def storage(view: View, level: int) -> Section:
    """Return the section of disks and file systems."""
    disks, mounts = (len(view.snapshot.rows(view.node, scope)) for scope in (Scope.DISK, Scope.FS))
    parts = []
    if disks:
        busy = present(view, Scope.DISK, "disk_io_util")
        passed = present(view, Scope.DISK, "smart_passed")
        parts.append(f"{disks} disk{'s' if disks > 1 else ''}" + (f", busiest {number(max(busy))} %" if busy else ""))
        parts.append(aged(view, "disks"))
        parts.append("SMART passed" if passed and min(passed) == 1 else "SMART failed" if passed else "SMART not seen")
    else:
        parts.append(f"disks {waiting(view, 'disks', Scope.DISK)}")
    if mounts:
        table, part = view.snapshot.tables[Scope.FS], view.snapshot.rows(view.node, Scope.FS)
        used = [(value, at) for at in range(mounts) if not isinstance(value := table.get("fs_used", part[at]), Missing)]
        fullest = max(used, default=None)
        words = f"{mounts} file system{'s' if mounts > 1 else ''}"
        if fullest is not None:
            words += f", fullest {view.node.devices[Scope.FS][fullest[1]]} {number(fullest[0])} %"
        parts += [words, aged(view, "mounts")]
    else:
        parts.append(f"file systems {waiting(view, 'mounts', Scope.FS)}")
    return Section("storage", "Storage", level, joined(view, parts), _storage_body)


def _storage_body(view: View) -> list[Line]:
    lines: list[Line] = []
    if view.node.devices.get(Scope.DISK):
        lines += metric_table(view, "storage", Scope.DISK, list(view.node.devices[Scope.DISK]), "disk")
    if view.node.devices.get(Scope.FS):
        columns = [
            Column("fs_used", 8, "used"), Column("fs_size", 10, "size"), Column("fs_available", 10, "free"),
            Column("fs_inodes_used", 8, "inodes"), Column("fs_readonly", 10, "read-only"),
            Column("nfs_retrans", 9, "retrans"), Column("lustre_state", 10, "lustre"),
        ]  # fmt: skip

        def note(at: int) -> str:
            about = view.node.about.get((Scope.FS, view.node.devices[Scope.FS][at]), {})
            return " ".join(dict.fromkeys(word for word in about.values() if word))

        if lines:
            lines.append(())
        mounts = range(len(view.node.devices[Scope.FS]))
        lines += device_rows(view, "storage", Scope.FS, mounts, columns, head="mounted at", name_cells=18, note=note)
    return lines
