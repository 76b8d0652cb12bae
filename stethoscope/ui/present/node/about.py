"""The sections of what a node is and how it is seen: identity, link and probe."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from stethoscope.analysis.drift import SAID
from stethoscope.clock import duration, iso
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.ui.present.node.devices import joined
from stethoscope.ui.present.node.view import Line, Section, View, text_line
from stethoscope.ui.present.spans import Level, Tone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import Node
    from stethoscope.model.scheduler import SchedulerState

_WORDS = {
    "driver_version": "driver", "cuda_version": "CUDA", "nccl_version": "NCCL", "kernel": "kernel", "os": "system",
    "product": "machine", "bios": "BIOS", "bmc_firmware": "BMC", "ib_fw_version": "IB firmware", "ib_board": "IB board",
    "mlx5_driver": "mlx5 driver", "cpu_governor": "governor", "numa_balancing": "NUMA balance", "memlock": "memlock",
    "transparent_hugepage": "huge pages", "clocksource": "clocksource", "mtu": "MTU", "cuda_toolkit": "CUDA toolkit",
    "time_source": "time source", "cmdline": "boot line",
}  # fmt: skip


_CLOCK_S = 5.0
"""A node's clock may differ from ours by this much, for transport and load make some of it."""


def identity(view: View, level: int) -> Section:
    """Return the section of what the machine is: versions, settings, serial numbers, place."""
    node = view.node
    said = dict(node.words)
    kernel = said.get("kernel") or node.kernel
    table = view.snapshot.tables[Scope.NODE]
    booted = table.get("boot_time", node.index) if "boot_time" in table.index else Missing(Reason.ABSENT)
    parts = [
        f"driver {said['driver_version']}" if said.get("driver_version") else "",
        f"CUDA {said['cuda_version']}" if said.get("cuda_version") else "",
        f"kernel {kernel}" if kernel else "",
        said.get("product", ""),
        f"up {duration(max(0.0, view.wall - booted))}" if not isinstance(booted, Missing) and booted > 0 else "",
        node.rack,
    ]
    return Section("identity", "Identity", level, joined(view, parts), _identity_body)


def _identity_body(view: View) -> list[Line]:
    node, glyphs = view.node, view.glyphs
    lines = [
        text_line(view, "identity", _WORDS.get(name, name.replace("_", " ")), SAID.get(name, {}).get(text, text))
        for name, text in _ordered(node.words)
    ]
    if node.kernel and not node.words.get("kernel"):
        lines.append(text_line(view, "identity", "kernel", node.kernel))
    for name, texts in node.gpu_words.items():
        title = "VBIOS" if name == "gpu_vbios_version" else name.removeprefix("gpu_").replace("_", " ")
        kinds = list(dict.fromkeys(texts))
        if len(kinds) == 1:
            lines.append(text_line(view, "identity", title, f"{kinds[0]} on all GPUs"))
        else:
            for kind in kinds:
                at = ", ".join(str(gpu.index) for gpu, text in zip(node.gpus, texts, strict=False) if text == kind)
                lines.append(text_line(view, "identity", title, f"{kind} on GPU {at}", level=Level.PLANNED))
    if node.rack or node.pod:
        place = f" {glyphs.dot} ".join(part for part in (node.pod, node.rack) if part)
        lines.append(text_line(view, "identity", "place", place))
    if node.scheduler is not None:
        lines += [text_line(view, "identity", name, text) for name, text in _scheduler_lines(node.scheduler)]
    if node.boot_id:
        lines.append(text_line(view, "identity", "boot", node.boot_id))
    for gpu in node.gpus:
        lines.append(text_line(view, "identity", f"gpu/{gpu.index}", f"{gpu.name}  {gpu.pci}  {gpu.uuid}"))
    for port in node.ports:
        text = f"port {port.port}  {port.layer}  {port.pci}  {port.netdev}".rstrip()
        lines.append(text_line(view, "identity", f"ib/{port.device}", text))
    for (scope, name), about in sorted(node.about.items()):
        if scope is Scope.DISK:
            lines.append(text_line(view, "identity", name, _disk_words(about)))
    return lines


def _disk_words(about: Mapping[str, str]) -> str:
    rotating = "rotating" if about.get("rotational") == "yes" else ""
    return "  ".join(word for name, word in (*about.items(), ("", rotating)) if word and name != "rotational")


def _ordered(words: Mapping[str, str]) -> list[tuple[str, str]]:
    order = list(_WORDS)
    known = sorted(words.items(), key=lambda item: (order.index(item[0]) if item[0] in order else 99, item[0]))
    return [(name, text) for name, text in known if text]


def _scheduler_lines(state: SchedulerState) -> list[tuple[str, str]]:
    """Return what the scheduler says of a node: its states, why and by whom, and the jobs on it."""
    lines = [("slurm", state.words_text)]
    if state.reason:
        owner = f" ({state.owner})" if state.owner else ""
        since = f", since {iso(state.since)}" if state.since is not None else ""
        lines.append(("", f"{state.reason}{owner}{since}"))
    if state.reservation:
        lines.append(("", f"reserved: {state.reservation}"))
    if state.jobs:
        more = f" and {len(state.jobs) - 8} more" if len(state.jobs) > 8 else ""
        lines.append(("jobs", ", ".join(state.jobs[:8]) + more))
    return lines


def probe(view: View, level: int) -> Section:
    """Return the section of the link and the probe: how what is seen here comes."""
    node = view.node
    parts = [node.link.state.value if not node.frames else "", f"{node.frames:,} frames, one every {node.tick_s:g} s"]
    if node.parts:
        parts.append(f"{len(node.parts)} groups of rare values")
    if node.bad_lines:
        parts.append(f"{node.bad_lines:,} unreadable lines")
    if not node.link.state.is_live and not node.link.state.is_pending:
        level = max(level, Level.LOST)
    if not node.link.verified:
        parts.append("host key not verified")
    if node.clock_offset_s is not None and abs(node.clock_offset_s) >= _CLOCK_S:
        # Its log lines would be looked for at the wrong time.
        parts.insert(0, f"clock {_offset(node)}")
        level = max(level, Level.PLANNED)
    return Section("probe", "Probe", level, joined(view, parts), _probe_body)


def _offset(node: Node) -> str:
    offset_s = node.clock_offset_s or 0.0
    return f"{duration(abs(offset_s))} {'ahead of' if offset_s > 0 else 'behind'} ours"


def _probe_body(view: View) -> list[Line]:
    node, link = view.node, view.node.link
    lines = [text_line(view, "probe", "link", f"{link.state.value} since {iso(link.since)}")]
    if link.detail:
        lines += [text_line(view, "probe", " ", line) for line in wrap(link.detail, max(20, view.cells - 17))]
    if not link.verified:
        lines.append(text_line(view, "probe", " ", "the host key was not verified"))
    if link.next_try is not None:
        tries = f"{link.attempts} attempt{'s' if link.attempts != 1 else ''}"
        text = f"next try in {duration(max(0.0, link.next_try - view.wall))}, after {tries}"
        lines.append(text_line(view, "probe", " ", text))
    frames = f"{node.frames:,} frames, one every {node.tick_s:g} s"
    lines.append(
        text_line(view, "probe", "probe", frames + (f", {node.bad_lines:,} unreadable lines" if node.bad_lines else ""))
    )
    mono = view.assessment.now_mono
    for name, part in sorted(node.parts.items(), key=lambda item: (item[1].every_s, item[0])):
        age = max(0.0, mono - part.mono)
        late = age > 2 * part.every_s + 5
        text = f"read every {duration(part.every_s)}, last {duration(age)} ago".replace(".0 s", " s")
        lines.append(text_line(view, "probe", name, text, Tone.STALE if late else Tone.PLAIN))
    if node.clock_offset_s is not None and abs(node.clock_offset_s) >= 1:
        level = Level.PLANNED if abs(node.clock_offset_s) >= _CLOCK_S else 0
        lines.append(text_line(view, "probe", "clock", f"{_offset(node)}, transport included", level=level))
    return lines
