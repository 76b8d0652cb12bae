"""The sections of the machine and of what runs on it: host, processes, kernel log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.clock import duration, hms
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from stethoscope.ui.present.node.devices import joined
from stethoscope.ui.present.node.judge import section_of
from stethoscope.ui.present.node.view import Line, Piece, Section, Spot, View, flowed, text_line
from stethoscope.ui.present.numbers import COUNTED, number, title_in_text, total_text, value_text
from stethoscope.ui.present.spans import Level, Tone, level_tone, pad

if TYPE_CHECKING:
    from stethoscope.model.metric import Metric

_CELL = 38
_TITLE = 26
LOG_LINES = 40
_LEADS = {
    Reason.UNSUPPORTED: "not given: ", Reason.ABSENT: "not given: ", Reason.WAITING: "waiting: ",
    Reason.ONE_READING: "one reading so far: ",
}  # fmt: skip
_UNLIMITED_KIB = 2.0**50
_IN_TITLE = ("node_reachable", "node_data_age")
"""What the top line says already."""


def host(view: View, level: int) -> Section:
    """Return the section of the host."""

    def value(metric: str) -> str:
        table = view.snapshot.tables[Scope.NODE]
        if metric not in table.index:
            return ""
        got = table.get(metric, view.node.index)
        return "" if isinstance(got, Missing) else value_text(view.snapshot.catalogue[metric], got)

    cpus, memory, total = value("cpu_count").partition(" ")[0], value("mem_available"), value("mem_total")
    parts = [
        f"CPU {value('cpu_util')}" if value("cpu_util") else "",
        f"I/O wait {value('cpu_iowait')}" if value("cpu_iowait") else "",
        f"load {value('load1').partition(' ')[0]}" + (f" on {cpus} CPUs" if cpus else "") if value("load1") else "",
        f"memory {memory} of {total} free" if memory and total else "",
    ]
    return Section("host", "Host", level, joined(view, parts), _host_body, keeps_open=True)


def _host_body(view: View) -> list[Line]:
    table, node = view.snapshot.tables[Scope.NODE], view.node
    entries: list[tuple[int, Line]] = []
    quiet: dict[str, list[Piece]] = {lead: [] for lead in ("0: ", *_LEADS.values())}
    for name, metric in view.snapshot.catalogue.items():
        if (
            name not in table.index
            or name in _IN_TITLE
            or section_of(metric) not in ("host", "processes", "storage", "log")
        ):
            continue
        level = int(view.metric_levels(metric)[0])
        value = table.get(name, node.index)
        spot = Spot("host", Scope.NODE, name, 0)
        still = metric.kind is Kind.COUNTER and not _moved(view, metric)
        if isinstance(value, Missing) and value.reason in _LEADS:
            quiet[_LEADS[value.reason]].append(Piece(title_in_text(metric.title), Tone.NORMAL, spot))
        elif (
            not isinstance(value, Missing)
            and value == 0
            and (still or metric.kind is Kind.GAUGE)
            and level <= Level.MISSING
        ):
            quiet["0: "].append(Piece(title_in_text(metric.title), Tone.NORMAL, spot))
        else:
            loud = level > Level.MISSING
            tone = level_tone(level) if isinstance(value, Missing) or loud else Tone.QUIET
            line = (
                Piece(f" {view.glyphs.level(level) if loud else ' '} ", level_tone(level)),
                Piece(pad(pad(metric.title, _TITLE - 1, view.glyphs.ellipsis), _TITLE), Tone.QUIET),
                Piece(pad(_text(view, metric, value), _CELL - _TITLE - 3, view.glyphs.ellipsis), tone, spot),
            )
            entries.append((-level if loud else 0, line))
    entries.sort(key=lambda entry: entry[0])
    columns = max(1, view.cells // _CELL)
    height = -(-len(entries) // columns)
    lines: list[Line] = []
    for row in range(height):
        cells: list[Piece] = []
        for column in range(columns):
            if column * height + row < len(entries):
                cells += entries[column * height + row][1]
        lines.append(tuple(cells))
    for lead, pieces in quiet.items():
        lines += flowed(view, lead, pieces)
    return lines


def _text(view: View, metric: Metric, value: float | Missing) -> str:
    if metric.unit == "epoch s" and not isinstance(value, Missing):
        return f"{duration(max(0.0, view.wall - value))} ago"
    if metric.id == "memlock_limit" and not isinstance(value, Missing) and value >= _UNLIMITED_KIB:
        return "unlimited"
    if metric.unit in COUNTED and metric.kind is Kind.GAUGE and not isinstance(value, Missing):
        return f"{value:,.0f}"
    if metric.kind is Kind.COUNTER and metric.worse == "high" and value == 0:
        total = view.snapshot.tables[Scope.NODE].total(metric.id, view.node.index)
        # What stands still is worth its count, not a rate of nothing.
        return f"{total_text(metric, total)} in all" if not isinstance(total, Missing) else value_text(metric, value)
    return value_text(metric, value)


def _moved(view: View, metric: Metric) -> bool:
    total = view.snapshot.tables[Scope.NODE].total(metric.id, view.node.index)
    return isinstance(total, Missing) or total > 0


def processes(view: View, level: int) -> Section:
    """Return the section of the processes that hold GPUs, and of those that wait without end or are dead."""
    node = view.node
    parts = []
    if node.processes is None:
        parts.append("GPU processes not read" + (" yet" if not view.is_whole("gpu") else ""))
    else:
        users = {process.user for process in node.processes if process.user}
        jobs = {process.slurm_job for process in node.processes if process.slurm_job}
        parts.append(
            f"{len({process.pid for process in node.processes})} on GPUs" if node.processes else "none on GPUs"
        )
        if users:
            parts.append(f"user {next(iter(users))}" if len(users) == 1 else f"{len(users)} users")
        if jobs:
            parts.append(f"job {next(iter(jobs))}" if len(jobs) == 1 else f"{len(jobs)} jobs")
    stuck = [task for task in node.tasks or () if task.state == "D"]
    dead = [task for task in node.tasks or () if task.state == "Z"]
    if node.tasks is not None:
        parts.append(f"{len(stuck)} in state D, {len(dead)} zombie{'s' if len(dead) != 1 else ''}")
    held = [process for process in node.processes or () if process.state in ("D", "Z")]
    if held or any(task.on_gpu for task in node.tasks or ()):
        level = max(level, Level.WARNING)
    return Section("processes", "Processes", level, joined(view, parts), _process_body, keeps_open=True)


def _process_body(view: View) -> list[Line]:
    node, lines = view.node, []
    for process in sorted(node.processes or (), key=lambda one: (one.state not in ("D", "Z"), one.gpu, one.pid)):
        bad = process.state in ("D", "Z")
        owner = (
            f"job {process.slurm_job}"
            if process.slurm_job
            else f"pod {process.pod}"
            if process.pod
            else (f"container {process.container}" if process.container else "")
        )
        memory = f"{number(process.memory_mib / 1024)} GiB" if process.memory_mib is not None else "memory not given"
        state = {"D": "waits for the kernel (D)", "Z": "dead, not collected (Z)"}.get(process.state, process.state)
        text = joined(
            view, [process.name, f"pid {process.pid}", process.user, owner, memory, f"state {state}" if state else ""]
        )
        lines.append(
            text_line(
                view,
                "processes",
                f"gpu {process.gpu}",
                text,
                level=Level.WARNING if bad else 0,
                key=f"{process.pid}/{process.gpu}",
            )
        )
    shown = {process.pid for process in node.processes or ()}
    for task in sorted(node.tasks or (), key=lambda one: (not one.on_gpu, one.state, one.pid)):
        if task.pid in shown:
            continue
        what = "waits for the kernel" if task.state == "D" else "dead, not collected"
        where = f"in {task.waits_in}" if task.waits_in not in ("", "0") else ""
        text = joined(
            view,
            [task.name, f"pid {task.pid}", task.user, f"{what} {where}".strip(), "holds a GPU" if task.on_gpu else ""],
        )
        lines.append(
            text_line(
                view,
                "processes",
                f"state {task.state}",
                text,
                level=Level.WARNING if task.on_gpu else 0,
                key=f"task {task.pid}",
            )
        )
    return lines


def log(view: View, level: int) -> Section:
    """Return the section of the log lines, those of the kernel before all."""
    events = [event for event in view.snapshot.events if event.node == view.node.name]
    unreadable = view.node.notes.get("kernel_log", "")
    xids = sorted({event.xid for event in events if event.xid is not None})
    parts = [f"not readable: {unreadable}"] if unreadable else []
    if events:
        lines = f"{len(events)} line{'s' if len(events) > 1 else ''}"
        parts += [f"{lines}, the newest {duration(max(0.0, view.wall - events[-1].at))} ago"]
        parts.append(f"Xid {', '.join(map(str, xids))}" if xids else "no Xid")
    elif not unreadable:
        parts.append("nothing since connected" if view.node.frames else "not read")
    if xids:
        level = max(level, Level.WARNING)

    def body(view: View) -> list[Line]:
        lines: list[Line] = []
        if unreadable:
            lines.append(text_line(view, "log", "", f"not readable: {unreadable}", Tone.MISSING))
        for event in events[-LOG_LINES:]:
            at = f"{hms(event.at)} {event.source}" if event.source != "kernel" else hms(event.at)
            said = Level.WARNING if event.xid is not None else 0
            lines.append(text_line(view, "log", at, event.text, Tone.PLAIN, level=said, key=f"{event.at} {event.text}"))
        return lines

    return Section("log", "Kernel log", level, joined(view, parts), body, keeps_open=True)


def has_values(view: View) -> bool:
    """Tell whether anything was read on the node itself, whatever it was."""
    snapshot = view.snapshot
    table = snapshot.tables[Scope.NODE]
    own = [table.index[name] for name in table.metrics if snapshot.catalogue[name].tier == "fast"]
    reasons = table.reasons[own, view.node.index]
    return not bool(np.isin(reasons, (Reason.UNREACHABLE, Reason.WAITING)).all())
