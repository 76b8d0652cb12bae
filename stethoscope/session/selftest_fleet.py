"""The fleet of a rule's test: a subject and its peers, which send what the series of the test say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stethoscope.analysis.derive import DERIVED, DERIVED_FROM
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.job_table import job_table
from stethoscope.errors import did_you_mean
from stethoscope.model import wire
from stethoscope.model.facts import Devices, Facts
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import DEVICE_SCOPES, REASON_WORDS, WIRE_REASONS, Metric, Reason, Scope
from stethoscope.model.scheduler import Job
from stethoscope.specs.metric_names import find, nearest
from stethoscope.specs.rule_test import expanded

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stethoscope.model.fleet import FleetSnapshot, Table
    from stethoscope.specs.rule_test import Series, TestSpec

    Samples = dict[str, dict[str, list[Any]]]
    """Metric -> device -> samples."""

SUBJECT = "subject"
JOB_PLACE = "job/4242"
WALL = 1_773_454_447.0
_PCI = "0000:{:02x}:00"
_FIRST_BUS = 0x1B
DEVICES = {
    Scope.NODE: "", Scope.GPU: "0", Scope.PORT: "mlx5_0", Scope.NVLINK: "0/0", Scope.PCIE: "0000:17:00.0",
    Scope.NET: "eth0", Scope.DISK: "nvme0n1", Scope.FS: "/scratch", Scope.JOB: "",
}  # fmt: skip
"""The device that a series is about when it names none."""
BUSY = {
    "gpu_util": "98~1.5", "gpu_power_draw": "620~15", "gpu_sm_clock": "1755~12", "gpu_temp": "62~1",
    "gpu_mem_temp": "76~1", "gpu_mem_copy_util": "45~6", "gpu_fb_used": 65_000, "gpu_clocks_event_reasons": 0,
    "gpu_process_count": 1, "gpu_pstate": 0,
}  # fmt: skip
"""A GPU at work."""
IDLE = {
    "gpu_util": 0, "gpu_power_draw": "75~2", "gpu_sm_clock": 345, "gpu_temp": "33~0.5", "gpu_mem_temp": "40~0.5",
    "gpu_mem_copy_util": 0, "gpu_fb_used": 4, "gpu_clocks_event_reasons": 1, "gpu_process_count": 0, "gpu_pstate": 0,
}  # fmt: skip
"""A GPU without work."""

FILLED = 200
"""So many samples of these there are; the last one stands from then on."""


@dataclass(slots=True)
class _Node:
    name: str
    tick_s: float
    expected_gpus: int | None
    series: Samples
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    expected_ib_gbps: float | None = None
    devices: dict[Scope, list[str]] = field(default_factory=dict)
    """By scope, as they were asked for."""


class TestFleet:
    """Plays one test; ValueError says what is wrong with it."""

    def __init__(
        self, test: TestSpec, catalogue: Mapping[str, Metric], every_s: float, reads: Collection[str] | None = None
    ) -> None:
        """Read the series, for a rule whose conditions ask for the metrics `reads`, or for any: of others that no
        series gives there is nothing to say."""
        self._test = test
        self._catalogue = catalogue
        self._every_s = every_s
        subject = self._read(test.series, SUBJECT)
        names = [f"peer-{number}" for number in range(1, test.peer_count + 1)]
        self._nodes = [_Node(SUBJECT, every_s, test.expected_gpus, subject, expected_ib_gbps=test.expected_ib_gbps)]
        self._nodes += [_Node(name, every_s, None, self._read(test.peers, name)) for name in names]
        lengths = [len(cells) for devices in subject.values() for cells in devices.values()]
        self.samples = max([1, *lengths, *(number + 1 for number in (*test.xid, *test.kernel))])
        """How many samples the subject's series have."""
        named = {*(catalogue if reads is None else reads), *DERIVED, *DERIVED_FROM}
        named.update(name for node in self._nodes for name in node.series)
        asked = {id_: metric for id_, metric in catalogue.items() if id_ in named or metric.tier == "console"}
        self._state = FleetState(asked, self._nodes, "self-test")
        self._linked: dict[str, LinkState] = {}
        self._seq = 0
        self._version = 0

    def _read(self, series: Series, node: str) -> Samples:
        samples: Samples = {}
        for name, cells in series.items():
            metric = self._known(name)
            by_device = cells if isinstance(cells, dict) else {"": cells}
            if metric.scope in (Scope.NODE, Scope.JOB) and isinstance(cells, dict):
                raise ValueError(f"{name} is a metric of a {metric.scope}, which has no devices")
            samples[metric.id] = {
                str(device): expanded(each, f"{node}:{name}:{device}") for device, each in by_device.items()
            }
        filled = {True: BUSY, False: IDLE, None: {}}[self._test.busy]
        wanted = min(max(1, self._longest(samples)), FILLED)
        for name, cell in filled.items():
            if name not in samples and name in self._catalogue:
                samples[name] = {"": expanded(f"{cell} x{wanted}", f"{node}:{name}")}
        return samples

    @staticmethod
    def _longest(samples: Samples) -> int:
        return max((len(cells) for devices in samples.values() for cells in devices.values()), default=1)

    def _known(self, name: str) -> Metric:
        other = find(name, self._catalogue)
        if other is None:
            raise ValueError(f'unknown metric "{name}"{nearest(name, self._catalogue)}')
        if len(other.metrics) != 1:
            raise ValueError(
                f"{name} is no metric of ours: give the series of {' and '.join(other.metrics) or 'another'}"
            )
        name = other.metrics[0]
        if self._catalogue[name].tier == "console" and self._catalogue[name].scope is not Scope.JOB:
            raise ValueError(f"{name} is worked out by the console: use link, frames or xid")
        return self._catalogue[name]

    def send(self, sample: int, link: LinkState) -> None:
        """Let every node send a sample; that of the subject depends on its `link`."""
        at = sample * self._every_s
        for node in self._nodes:
            own = node.name == SUBJECT
            state = link if own else LinkState.LIVE
            if self._linked.get(node.name) is not state:
                self._linked[node.name] = state
                self._state.set_link(node.name, Link(state, since=WALL + at))
            quiet = own and self._test.frames is not None and sample >= self._test.frames
            if state is not LinkState.LIVE or quiet:
                continue
            self._send(node, sample, at)
            for text in self._log(sample) if own else ():
                event = wire.Event(seq=self._next(), mono=at, wall=WALL + at, source="kernel", text=text, at=WALL + at)
                self._state.apply(Frame(node.name, WALL + at, at, b""), event)

    def _log(self, sample: int) -> list[str]:
        """Return the kernel lines of the subject."""
        lines = [self._test.kernel[sample]] if sample in self._test.kernel else []
        if sample in self._test.xid:
            pci = _PCI.format(_FIRST_BUS)
            lines.append(f"NVRM: Xid (PCI:{pci}): {self._test.xid[sample]}, pid='<unknown>', name=<unknown>")
        return lines

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _send(self, node: _Node, sample: int, at: float) -> None:
        """Send a full frame and a part for each group that the series are of."""
        frame = Frame(node.name, WALL + at, at, b"")
        gpus, ports = self._devices(node, Scope.GPU), self._devices(node, Scope.PORT)
        full = wire.Full(
            seq=self._next(), mono=at, wall=WALL + at,
            gpus=[
                wire.GpuIdentity(_index(name), "GPU", f"GPU-{name}", f"{_PCI.format(_FIRST_BUS + at)}.0")
                for at, name in enumerate(gpus)
            ],
            ports=[wire.PortIdentity(name, 1, "InfiniBand") for name in ports],
        )  # fmt: skip
        groups: dict[str, dict[Scope, dict[str, list[Any]]]] = {}
        for name, devices in node.series.items():
            metric = self._catalogue[name]
            if self._is_put(metric):
                continue
            cells = [self._cell(metric, devices, device, sample) for device in self._devices(node, metric.scope)]
            if metric.group:
                groups.setdefault(metric.group, {}).setdefault(metric.scope, {})[name] = cells
            elif metric.scope is Scope.NODE:
                full.node[name] = cells[0]
            else:
                (full.gpu if metric.scope is Scope.GPU else full.port)[name] = cells
        self._state.apply(frame, full)
        listed: set[Scope] = set()
        for metric in (self._catalogue[name] for name in node.series):
            # What is worked out needs its devices, even when nothing else is said of them.
            if self._is_put(metric) and metric.scope in DEVICE_SCOPES:
                groups.setdefault(metric.group, {}).setdefault(metric.scope, {})
        for group, found in groups.items():
            facts = Facts(
                group,
                node={name: cells[0] for name, cells in found.get(Scope.NODE, {}).items()},
                gpu=found.get(Scope.GPU, {}),
                devices={
                    scope: self._found(node, scope, values, whole=scope not in listed)
                    for scope, values in found.items()
                    if scope in DEVICE_SCOPES
                },
            )
            listed |= facts.devices.keys()
            self._state.take_facts(frame, at, facts, every_s=self._every_s)
        words = self._test.words if node.name == SUBJECT else self._test.peer_words
        if words:
            self._state.take_facts(frame, at, Facts("identity", words=words), every_s=self._every_s)

    def _found(self, node: _Node, scope: Scope, values: dict[str, list[Any]], *, whole: bool) -> Devices:
        names = tuple(self._devices(node, scope))
        about = dict.fromkeys(names, self._test.about) if self._test.about else {}
        return Devices(names, values, about, whole=whole)

    def _devices(self, node: _Node, scope: Scope) -> list[str]:
        """Return the devices of a scope that a node has: those that its series name."""
        if scope not in node.devices:
            node.devices[scope] = self._named(node, scope)
        return node.devices[scope]

    def _named(self, node: _Node, scope: Scope) -> list[str]:
        named = {
            device: None
            for name, devices in node.series.items()
            if self._catalogue[name].scope is scope
            for device in devices
            if device
        }
        if scope is Scope.GPU and self._test.gpus:
            named.update({str(index): None for index in range(self._test.gpus)})
        return list(named) or [DEVICES[scope]]

    @staticmethod
    def _cell(metric: Metric, devices: dict[str, list[Any]], device: str, sample: int) -> Any:
        cells = devices.get(device, devices.get(""))
        if cells is None:
            return REASON_WORDS[Reason.UNSUPPORTED]
        # The last sample stands from then on.
        cell = cells[min(sample, len(cells) - 1)]
        if isinstance(cell, str) and cell not in WIRE_REASONS:
            near = did_you_mean(cell, WIRE_REASONS)
            raise ValueError(f'{metric.id}: "{cell}" is no reason that a probe gives{near}')
        return cell

    @staticmethod
    def _is_put(metric: Metric) -> bool:
        """Tell whether a metric is worked out by the console, so that a test puts its values where they would be."""
        return metric.id in DERIVED or metric.scope is Scope.JOB

    def look(self, sample: int, at: float) -> FleetSnapshot:
        """Return the fleet at `at` seconds, `sample` being the last one that was sent."""
        snapshot = self._state.snapshot(WALL + at, at)
        put = [name for name in self._nodes[0].series if self._is_put(self._catalogue[name])]
        if self._test.job or any(self._catalogue[name].scope is Scope.JOB for name in put):
            snapshot = self._with_job(snapshot, sample)
        tables: dict[Scope, Table] = {}
        for name in put:
            scope = self._catalogue[name].scope
            if scope is not Scope.JOB:
                tables[scope] = self._with(snapshot, tables.get(scope, snapshot.tables[scope]), name, sample)
        return replace(snapshot, tables={**snapshot.tables, **tables}) if tables else snapshot

    def _with_job(self, snapshot: FleetSnapshot, sample: int) -> FleetSnapshot:
        job = Job(JOB_PLACE.partition("/")[2], "test", "running", nodes=tuple(node.name for node in self._nodes))
        series = self._nodes[0].series
        metrics = [self._catalogue[name] for name in series if self._catalogue[name].scope is Scope.JOB]
        values = {metric.id: _code(self._cell(metric, series[metric.id], "", sample)) for metric in metrics}
        self._version += 1
        table = job_table([values], self._catalogue, version=self._version)
        return replace(snapshot, jobs=(job,), tables={**snapshot.tables, Scope.JOB: table})

    def _with(self, snapshot: FleetSnapshot, table: Table, name: str, sample: int) -> Table:
        """Return the table with the values that the series have of a metric which is worked out."""
        metric = self._catalogue[name]
        values, reasons = table.values.copy(), table.reasons.copy()
        column = table.index[name]
        for node in self._nodes:
            if name not in node.series:
                continue
            rows = snapshot.rows(snapshot.node(node.name), metric.scope)
            for row, device in zip(rows, self._devices(node, metric.scope), strict=False):
                cell = _code(self._cell(metric, node.series[name], device, sample))
                is_missing = isinstance(cell, Reason)
                values[column, row] = np.nan if is_missing else cell
                reasons[column, row] = cell if is_missing else Reason.PRESENT
        self._version += 1
        return replace(table, values=values, reasons=reasons, version=-self._version)


def _index(name: str) -> int:
    if not name.isdecimal():
        raise ValueError(f'"{name}" is no number of a GPU')
    return int(name)


def _code(cell: Any) -> float | Reason:
    return WIRE_REASONS[cell] if isinstance(cell, str) else float(cell)
