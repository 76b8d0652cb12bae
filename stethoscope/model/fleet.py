"""The fleet at one moment: columns of numbers per scope with a reason for each missing one, and what is known of each
node. Immutable once published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt

from stethoscope.model.event import LogEvent
from stethoscope.model.facts import GpuProcess, Task
from stethoscope.model.finding import Finding
from stethoscope.model.frame import Link
from stethoscope.model.ids import device_place, gpu_place, job_place, port_name, port_place
from stethoscope.model.job import Standing
from stethoscope.model.maintenance import Maintenance
from stethoscope.model.metric import Metric, Missing, Reason, Scope
from stethoscope.model.night import Entry
from stethoscope.model.scheduler import Job, SchedulerState
from stethoscope.model.wire import GpuIdentity, PortIdentity

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Totals = npt.NDArray[np.uint64]
_PRESENT = int(Reason.PRESENT)
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Table:
    """All values of one scope: `values[metric, row]`, NaN where `reasons[metric, row]` is not PRESENT.

    A counter's value is its rate over the last interval, in counts per second (not yet times `rate_scale`); its raw
    total is in `totals[counter, row]` and the change
    since the first reading in `since_first[counter, row]`, counters being the metrics of `counters` in that order.
    What has two axes is an array, or a `model.grid.Grid`, which is read like one: take columns of it, not all at once.
    """

    scope: Scope
    metrics: tuple[str, ...]
    values: Floats
    reasons: Codes
    counters: tuple[str, ...]
    totals: Totals
    total_reasons: Codes
    since_first: Totals
    first_at: Floats
    """Wall time of the first reading of each row, NaN before it."""
    index: Mapping[str, int]
    """Column number of each metric."""
    counter_index: Mapping[str, int]
    version: int = 0
    """Another one with each picture of the scope: what has it again is the same table."""

    def get(self, metric: str, row: int) -> float | Missing:
        """Return the value of `metric` (for counters, counts per second) at `row`, or why there is none."""
        column = self.index[metric]
        reason = self.reasons[column, row]
        if reason != _PRESENT:
            return Missing(Reason(int(reason)))
        value = self.values[column, row]
        # Where values are kept short, the digits behind the seventh mean nothing.
        return float(value) if value.itemsize == 8 else float(f"{value:.7g}")

    def get_all(self, metric: str, rows: range) -> list[float | Missing]:
        """Return what `get` returns for each of `rows`, which stand behind one another."""
        column = self.index[metric]
        cells = self.values[column, rows.start : rows.stop]
        values: list[float | Missing] = cells.tolist()
        if cells.itemsize < 8:
            values = [float(f"{value:.7g}") for value in values]
        for place, reason in enumerate(self.reasons[column, rows.start : rows.stop].tolist()):
            if reason != _PRESENT:
                values[place] = Missing(Reason(reason))
        return values

    def total(self, metric: str, row: int) -> int | Missing:
        """Return the raw total of a counter at `row`, or why there is none."""
        column = self.counter_index[metric]
        reason = self.total_reasons[column, row]
        return int(self.totals[column, row]) if reason == Reason.PRESENT else Missing(Reason(int(reason)))


@dataclass(frozen=True, slots=True)
class PartAge:
    """When a group of what is read rarely last came."""

    mono: float
    """Console's monotonic time of its arrival."""
    every_s: float


class PartAges(dict[str, PartAge]):
    """When each group of a node last came; nobody changes it. It knows which others it followed, so that who saw that
    need not compare."""

    __slots__ = ("_after", "_number", "came")

    def __init__(self, before: Mapping[str, PartAge], group: str, age: PartAge) -> None:
        """Have what there was `before`, and a group that came now."""
        super().__init__(before)
        self[group] = age
        self.came = group
        self._after: int = before._number if isinstance(before, PartAges) else 0
        self._number: int = next(_NUMBERS)

    def follows(self, before: Mapping[str, PartAge]) -> bool:
        """Tell whether nothing else than one group came since `before`."""
        return isinstance(before, PartAges) and before._number == self._after


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its link, what is built into it, and where its rows are (`gpu_first` .. + len(gpus) in the GPU table,
    ports alike; -1 before the first frame)."""

    name: str
    index: int
    """Row in the node table, and position in `FleetSnapshot.nodes`."""
    link: Link
    rack: str = ""
    pod: str = ""
    leaves: Mapping[str, str] = field(default_factory=dict)
    """Leaf switch by port (`mlx5_0`, `mlx5_0:2`), as far as the fleet file says."""
    gpus: tuple[GpuIdentity, ...] = ()
    ports: tuple[PortIdentity, ...] = ()
    gpu_first: int = -1
    port_first: int = -1
    devices: Mapping[Scope, tuple[str, ...]] = field(default_factory=dict)
    """Names of the devices of each scope that parts tell of, and ..."""
    device_first: Mapping[Scope, int] = field(default_factory=dict)
    """... where their rows begin in the table of the scope."""
    about: Mapping[tuple[Scope, str], Mapping[str, str]] = field(default_factory=dict)
    """Words about a device: its model, driver, type."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Versions and settings: driver_version, cpu_governor ..."""
    gpu_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Those of each GPU, in the order of `gpus`."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when nothing is known of them."""
    tasks: tuple[Task, ...] | None = None
    parts: Mapping[str, PartAge] = field(default_factory=dict)
    """When each group was last read, and how often it is."""
    frame_mono: float | None = None
    """Console's monotonic time of the last frame."""
    frame_wall: float | None = None
    tick_s: float = 2.0
    """How often this node is asked to send."""
    clock_offset_s: float | None = None
    """Node's wall clock minus ours at the last frame, transport time included."""
    boot_id: str = ""
    kernel: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What cannot be seen on this node, and why."""
    frames: int = 0
    bad_lines: int = 0
    """Lines that could not be read; they cost only themselves."""
    version: int = 0
    """Grows with every change of this node: what has not grown need not be painted again."""
    expected_gpus: int | None = None
    expected_ib_gbps: float | None = None
    """Signalling rate (Gb/s) that every InfiniBand port should have, None when nobody said."""
    scheduler: SchedulerState | None = None
    """What the batch scheduler says of the node, None where none was asked or it does not know the node."""
    maintenance: tuple[Maintenance, ...] = ()
    """Windows in which somebody works on it, as the fleet file says."""

    def age_s(self, now_mono: float) -> float | None:
        """Return the seconds since the last frame, or None when none came yet."""
        return None if self.frame_mono is None else max(0.0, now_mono - self.frame_mono)

    def leaf(self, position: int) -> str:
        """Return the leaf switch of the port at `position`, empty when it is not known."""
        port = self.ports[position]
        return self.leaves.get(port_name(port.device, port.port), "")

    def is_stale(self, now_mono: float) -> bool:
        """Tell whether the last frame is older than three ticks and a second."""
        age = self.age_s(now_mono)
        return age is not None and age > 3 * self.tick_s + 1


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """Everything that screens, rules and answers read; a new one replaces it, nobody changes it."""

    fleet: str
    wall: float
    mono: float
    nodes: tuple[Node, ...]
    tables: Mapping[Scope, Table]
    catalogue: Mapping[str, Metric]
    findings: tuple[Finding, ...] = ()
    night: Mapping[str, Entry] = field(default_factory=dict)
    """What was found tonight, and what people said about it, by the ids of findings."""
    events: tuple[LogEvent, ...] = ()
    by_name: Mapping[str, int] = field(default_factory=dict)
    inventory: object = None
    """Another object whenever a row was given to another device; None where that is not told."""
    simulated: bool = False
    read_only: bool = False
    """Nothing is run on the nodes but the stream probe."""
    jobs: tuple[Job, ...] = ()
    """Jobs that have nodes of this fleet; their order is that of the rows of the table of jobs."""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """How jobs go, by their ids, of those whose log is read."""
    scheduler_note: str = ""
    """Why the scheduler cannot be read now; what it said before stands."""

    def node(self, name: str) -> Node:
        """Return the node of that name; KeyError when there is none."""
        return self.nodes[self.by_name[name]]

    def age_s(self, node: Node, metric: str, now_mono: float) -> float | None:
        """Return the seconds since `metric` was read last on `node` (what did not change was read too), or None when it
        never was."""
        group = self.catalogue[metric].group
        if not group:
            return node.age_s(now_mono)
        part = node.parts.get(group)
        return None if part is None else max(0.0, now_mono - part.mono)

    def is_stale(self, node: Node, metric: str, now_mono: float) -> bool:
        """Tell whether `metric` was read last longer ago than three of its intervals and a second."""
        group = self.catalogue[metric].group
        age = self.age_s(node, metric, now_mono)
        every_s = node.parts[group].every_s if group in node.parts else node.tick_s
        return age is not None and age > 3 * every_s + 1

    def rows(self, node: Node, scope: Scope) -> range:
        """Return the rows of `node` in the table of `scope`."""
        if scope is Scope.NODE:
            return range(node.index, node.index + 1)
        if scope is Scope.GPU:
            first, count = node.gpu_first, len(node.gpus)
        elif scope is Scope.PORT:
            first, count = node.port_first, len(node.ports)
        else:
            first, count = node.device_first.get(scope, -1), len(node.devices.get(scope, ()))
        return range(first, first + count) if first >= 0 else range(0)

    def place(self, node: Node, scope: Scope, position: int) -> str:
        """Return the id of the device at `position` of the node's inventory of `scope`, or of the node itself; a job's
        position is its row, whatever the node."""
        if scope is Scope.GPU:
            return gpu_place(node.name, node.gpus[position].index)
        if scope is Scope.PORT:
            return port_place(node.name, node.ports[position].device, node.ports[position].port)
        if scope is Scope.NODE:
            return node.name
        if scope is Scope.JOB:
            return job_place(self.jobs[position].id)
        return device_place(node.name, scope, node.devices[scope][position])
