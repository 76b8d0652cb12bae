"""Which values of a node are not as they should be: beyond a limit of their metric, below what comparable devices have,
or gone with their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.analysis.expect import LEAST, Expected, expected_count, expected_values, like
from stethoscope.model.ids import node_of
from stethoscope.model.metric import Kind, Missing, Reason, Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, short_place
from stethoscope.ui.present.node.table import lost_rows
from stethoscope.ui.present.node.view import Marks, Spot, View, range_text
from stethoscope.ui.present.numbers import title_in_text, value_text
from stethoscope.ui.present.row_levels import is_judged, metric_levels, wrong_text
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.metric import Metric

SECTIONS: dict[Scope, str] = {
    Scope.GPU: "gpus", Scope.NVLINK: "nvlink", Scope.PORT: "fabric", Scope.NET: "fabric", Scope.PCIE: "pcie",
    Scope.NODE: "host", Scope.DISK: "storage", Scope.FS: "storage",
}  # fmt: skip
_OTHER_SECTIONS = {
    "dstate_processes": "processes", "zombie_processes": "processes", "zombie_gpu_holders": "processes",
    "mounts_hung": "storage", "mce_events": "log",
}  # fmt: skip
_KINDS = {
    "gpu": "gpus", "nvlink": "nvlink", "ib": "fabric", "net": "fabric", "pcie": "pcie", "disk": "storage",
    "fs": "storage", "cpu": "host",
}  # fmt: skip
_OF_NODES = {"driver_hung": "gpus", "driver_unusable": "gpus", "gpu_count_low": "gpus"}
"""Rules about a whole node that a section other than the head speaks of."""
COMPARED: dict[Scope, tuple[str, ...]] = {
    Scope.GPU: ("nvlink_active_count", "gpu_power_limit", "gpu_pcie_link_width"),
    Scope.NVLINK: ("nvlink_state",),
    Scope.PORT: ("ib_port_rate",),
    Scope.NET: ("net_speed",),
    Scope.PCIE: ("pcie_link_speed", "pcie_link_width"),
}
"""What is held against comparable devices: less than most of them have is wrong."""
MAXIMA = {
    "pcie_link_width": "pcie_max_link_width",
    "pcie_link_speed": "pcie_max_link_speed",
    "gpu_pcie_link_width": "gpu_pcie_link_width_max",
    "gpu_pcie_link_gen": "gpu_pcie_link_gen_max",
}
"""What a device can do itself."""
_COUNTED = {
    Scope.GPU: "GPUs",
    Scope.PORT: "ports",
    Scope.PCIE: "PCIe devices",
    Scope.DISK: "disks",
    Scope.NET: "interfaces",
}


class Beyond(NamedTuple):
    """One thing that is not as it should be."""

    level: int
    section: str
    spot: Spot | None
    where: str
    words: str
    should: str
    """What it should be, and who says so."""


def section_of(metric: Metric) -> str:
    """Return the section that shows a metric."""
    return _OTHER_SECTIONS.get(metric.id, SECTIONS[metric.scope])


def judge(view: View) -> tuple[list[Beyond], Marks]:
    """Return what is not as it should be on the node, the worst first, and the level of each value that is below what
    comparable devices have: metrics have no limit for that."""
    low = _all_low(view)
    found: list[Beyond] = []
    for (scope, name), (wrong, level, should) in low.items():
        if wrong:
            levels = np.full(len(view.snapshot.rows(view.node, scope)), level)
            found += _said(view, view.snapshot.catalogue[name], wrong, levels, should)
    for scope in SECTIONS:
        if scope is Scope.NODE or len(view.snapshot.rows(view.node, scope)):
            found += _of_scope(view, scope)
        if scope in _COUNTED:
            found += _missing_devices(view, scope)
    marks = {(scope, name, at): level for (scope, name), (wrong, level, _) in low.items() for at in wrong}
    return sorted(found, key=lambda one: -one.level), marks


_Low = tuple[list[int], int, str]
"""Devices that have less than comparable ones, the level of that, and what they should have."""


def _all_low(view: View) -> dict[tuple[Scope, str], _Low]:
    tables = view.snapshot.tables
    return {
        (scope, name): _low(view, scope, view.snapshot.catalogue[name])
        for scope, metrics in COMPARED.items()
        if len(view.snapshot.rows(view.node, scope))
        for name in metrics
        if name in tables[scope].index
    }


def finding_levels(view: View) -> dict[str, int]:
    """Return the worst level of the findings at devices of each section."""
    levels: dict[str, int] = {}
    for finding in view.assessment.findings.get(view.node.name, ()):
        for place in finding.where:
            if place == view.node.name:
                section = _OF_NODES.get(finding.rule, "")
            else:
                section = (
                    _KINDS.get(short_place(place).partition("/")[0], "") if node_of(place) == view.node.name else ""
                )
            levels[section] = max(levels.get(section, 0), SEVERITY_LEVELS[finding.severity])
    return levels


def _of_scope(view: View, scope: Scope) -> list[Beyond]:
    snapshot, node = view.snapshot, view.node
    table, part = snapshot.tables[scope], snapshot.rows(node, scope)
    lost = lost_rows(table, part)
    found: list[Beyond] = []
    told = of_lost_gpus(view, scope) if lost.any() else set()
    gone = [at for at in np.flatnonzero(lost).tolist() if at not in told]
    found += _unmounted(view, gone) if scope is Scope.FS else _gone(view, scope, gone)
    if scope is Scope.GPU and view.assessment.hung[node.index]:
        found.append(Beyond(Level.HUNG, "gpus", Spot("gpus"), "", "GPU driver does not answer", ""))
    for name in table.metrics:
        metric = snapshot.catalogue[name]
        if not is_judged(metric):
            continue
        present = table.reasons[table.index[name], part.start : part.stop] == Reason.PRESENT
        if metric.critical_total is not None:
            present |= table.total_reasons[table.counter_index[name], part.start : part.stop] == Reason.PRESENT
        if scope is Scope.GPU and name == "gpu_handle_error":
            present &= ~lost
        levels = np.where(present, metric_levels(table, metric, part), 0)
        wrong = np.flatnonzero(levels > Level.MISSING)
        if wrong.size:
            found += _said(view, metric, wrong.tolist(), levels, limit_text(metric, int(levels.max())))
    return found


def of_lost_gpus(view: View, scope: Scope) -> set[int]:
    """Return the positions of the links that belong to GPUs that are lost: that is told once, of the GPU."""
    node = view.node
    lost = lost_rows(view.snapshot.tables[Scope.GPU], view.snapshot.rows(node, Scope.GPU))
    gone = [gpu for gpu, is_gone in zip(node.gpus, lost, strict=False) if is_gone]
    if not gone or scope not in (Scope.NVLINK, Scope.PCIE):
        return set()
    indices = {str(gpu.index) for gpu in gone}
    return {
        at
        for at, name in enumerate(node.devices.get(scope, ()))
        if (
            name.partition("/")[0] in indices
            if scope is Scope.NVLINK
            else any(same_address(gpu.pci, name) for gpu in gone)
        )
    }


def same_address(one: str, other: str) -> bool:
    """Tell whether two texts are the same PCI address, the domain of which can have four digits or eight."""
    return bool(one and other) and one.lower()[-10:] == other.lower()[-10:]


def _gone(view: View, scope: Scope, lost: list[int]) -> list[Beyond]:
    section, table = SECTIONS[scope], view.snapshot.tables[scope]
    places = [short_place(view.snapshot.place(view.node, scope, at)) for at in lost]
    if len(lost) > 2:
        where = f"{len(lost)} of {len(view.snapshot.rows(view.node, scope))} {places[0].partition('/')[0]}"
        lost, places = lost[:1], [where]
    return [
        Beyond(Level.LOST, section, Spot(section, scope, table.metrics[0], at), where, "lost: no answer any more", "")
        for at, where in zip(lost, places, strict=True)
    ]


def _unmounted(view: View, gone: list[int]) -> list[Beyond]:
    """Return which file systems are gone that most comparable nodes have: others come and go as they are needed."""
    snapshot, found = view.snapshot, []
    table, others = snapshot.tables[Scope.FS], like(snapshot, view.node) if gone else []
    for at in gone:
        name = view.node.devices[Scope.FS][at]
        having = sum(_is_mounted(snapshot, other, name) for other in others)
        if len(others) >= LEAST and 2 * having <= len(others):
            continue
        level = Level.LOST if len(others) >= LEAST else Level.PLANNED
        should = f"mounted on {having:,} of {len(others):,} nodes like this" if len(others) >= LEAST else ""
        where = short_place(snapshot.place(view.node, Scope.FS, at))
        spot = Spot("storage", Scope.FS, table.metrics[0], at)
        found.append(Beyond(level, "storage", spot, where, "not mounted any more", should))
    return found


def _is_mounted(snapshot: FleetSnapshot, node: Node, name: str) -> bool:
    names = node.devices.get(Scope.FS, ())
    if name not in names:
        return False
    row = snapshot.rows(node, Scope.FS)[names.index(name)]
    return not lost_rows(snapshot.tables[Scope.FS], range(row, row + 1))[0]


def limit_text(metric: Metric, level: int) -> str:
    """Return the limit that a value of this level is beyond: `limit 83 °C`."""
    if metric.id == "ib_port_state":
        return "should be Active"
    limit = metric.critical if level >= Level.CRITICAL else metric.warn
    if limit is None and level >= Level.CRITICAL and metric.critical_total is not None:
        return f"limit {metric.critical_total:,} in all"
    if limit is None or metric.words:
        return ""
    if metric.kind is Kind.COUNTER:
        # A limit next to nothing means that none of them is normal.
        return "should be 0" if limit <= 1e-5 else f"limit {value_text(metric, limit / metric.rate_scale)}"
    return "should be 0" if limit == 1 and metric.worse == "high" else f"limit {value_text(metric, limit)}"


def _said(view: View, metric: Metric, wrong: list[int], levels: np.ndarray, should: str) -> list[Beyond]:
    """Return one entry for each device, or one for all where there are many alike."""
    snapshot, node, scope = view.snapshot, view.node, metric.scope
    table, part, section = snapshot.tables[scope], snapshot.rows(node, scope), section_of(metric)
    title = title_in_text(metric.title)
    if len(wrong) < 3:
        return [
            Beyond(
                int(levels[at]), section, Spot(section, scope, metric.id, at),
                short_place(snapshot.place(node, scope, at)),
                f"{title} {wrong_text(table, metric, part[at])}", should,
            )
            for at in wrong
        ]  # fmt: skip
    values = [value for at in wrong if not isinstance(value := table.get(metric.id, part[at]), Missing)]
    worst = wrong[int(np.argmax([levels[at] for at in wrong]))]
    first = short_place(snapshot.place(node, scope, wrong[0]))
    where = f"{len(wrong)} of {len(part)} {first.partition('/')[0]}"
    words = wrong_text(table, metric, part[worst])
    text = words if words.endswith(" in all") else range_text(values, lambda value: value_text(metric, value))
    return [
        Beyond(int(levels.max()), section, Spot(section, scope, metric.id, worst), where, f"{title} {text}", should)
    ]


def expectation(view: View, scope: Scope, metric: str, position: int) -> Expected | None:
    """Return what a value should be: as most comparable devices, else as much as the device can do."""
    expected = expected_values(view.snapshot, view.node, scope, metric)[position]
    if expected is not None:
        return expected
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    maximum = MAXIMA.get(metric, "")
    if maximum in table.index:
        most = table.get(maximum, part[position])
        if not isinstance(most, Missing):
            return Expected(most, whose="maximum of the device")
    return None


def _low(view: View, scope: Scope, metric: Metric) -> _Low:
    """Return the devices that have less than comparable ones, the level of that, and what they should have."""
    table, part = view.snapshot.tables[scope], view.snapshot.rows(view.node, scope)
    column = table.index[metric.id]
    values = table.values[column, part.start : part.stop]
    present = table.reasons[column, part.start : part.stop] == Reason.PRESENT
    everywhere = table.values[column][table.reasons[column] == Reason.PRESENT]
    if not present.any() or (metric.id not in MAXIMA and values[present].min() >= everywhere.max()):
        # Nobody has more: no need to ask what is usual.
        return [], 0, ""
    expected = expected_values(view.snapshot, view.node, scope, metric.id)
    wanted = np.array([np.nan if one is None else one.value for one in expected])
    level = Level.WARNING
    if metric.id in MAXIMA and metric.id.endswith("width") and np.isnan(wanted).any():
        maximum = table.values[table.index[MAXIMA[metric.id]], part.start : part.stop]
        # With nothing to compare, less than the device can do is worth a look, not a fault: slots differ.
        wanted, level = np.where(np.isnan(wanted), maximum, wanted), Level.PLANNED
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(present & (values < wanted)).tolist()
    if not wrong:
        return [], 0, ""
    first = expected[wrong[0]]
    aim = value_text(metric, float(wanted[wrong[0]]))
    return wrong, int(level), f"{aim} on {first.source}" if first is not None else f"the device can do {aim}"


def _missing_devices(view: View, scope: Scope) -> list[Beyond]:
    """Return that the node has fewer devices than it should, as far as that is known."""
    count = len(view.snapshot.rows(view.node, scope))
    known = count > 0 or (scope is Scope.GPU and "nvml" not in view.node.notes)
    expected = expected_count(view.snapshot, view.node, scope) if known and view.node.frames else None
    if expected is None or count >= expected.value:
        return []
    level = Level.CRITICAL if scope is Scope.GPU else Level.WARNING
    words, section = f"{count} {_COUNTED[scope]}", SECTIONS[scope]
    should = (
        f"{expected.value:.0f} by the {expected.whose}"
        if not expected.agree
        else (f"{expected.value:.0f} on {expected.source}")
    )
    return [Beyond(level, section, Spot(section), "", words, should)]
