"""The only reducer: messages and link states of all nodes into one fleet state, pictured by snapshots.

A device that was seen once, or that the fleet file expects, never vanishes: while the node does not list it, its row
says LOST, or what keeps the driver from listing it (`hung`, or an error). Values of a node whose link is lost are
UNREACHABLE; those of a node that is merely silent stay and grow old. What is read rarely comes in parts
(`analysis.parts`), and frames neither read nor change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.columns import Columns
from stethoscope.analysis.events import EventLog
from stethoscope.analysis.inventory import merge_gpus, merge_ports
from stethoscope.analysis.job_table import job_table
from stethoscope.analysis.node_state import NodeState, gone_reason, kernel_log_reason
from stethoscope.analysis.parts import OF_FRAMES, Parts, rows_in
from stethoscope.model import wire
from stethoscope.model.event import LogEvent
from stethoscope.model.fleet import FleetSnapshot, Node
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope
from stethoscope.parse.kernel import find_xid
from stethoscope.parse.parts import read_part
from stethoscope.parse.pci import slot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stethoscope.model.facts import Facts
    from stethoscope.model.frame import Frame, Link
    from stethoscope.model.metric import Metric
    from stethoscope.model.nodespec import NodeSpec
    from stethoscope.model.scheduler import Job, SchedulerReading

_ASK_AGAIN = 5
"""Deltas to wait for a full frame before it is asked for again."""
_ROOM = 8
"""A block that must grow grows to a multiple of this many rows, ..."""
_DEVICE_ROOM = 4
"""... and one of devices that come in parts begins with a multiple of this many."""


class FleetState:
    """What is known of every node, changed by `apply` and `set_link`, seen through `snapshot`."""

    def __init__(self, catalogue: Mapping[str, Metric], nodes: Iterable[NodeSpec], fleet: str) -> None:
        """Start with `nodes` (names are unique), of which nothing was heard yet."""
        self.catalogue = catalogue
        self.fleet = fleet
        self.events = EventLog()
        self.jobs: tuple[Job, ...] = ()
        self._jobs_table = job_table((), catalogue)
        self.scheduler_note = ""
        self.nodes = [NodeState(index, node) for index, node in enumerate(nodes)]
        self._by_name = {node.name: node.index for node in self.nodes}
        count = len(self.nodes)
        self.tables = {
            Scope.NODE: Columns(Scope.NODE, catalogue, count),
            **{scope: Columns(scope, catalogue, blocks=count) for scope in (Scope.GPU, Scope.PORT, *DEVICE_SCOPES)},
        }
        self._of_nodes, self._of_gpus, self._of_ports = (self.tables[scope] for scope in OF_FRAMES)
        self._parts = Parts(self.tables, self._place)
        self._frame_mono = np.full(count, np.nan)
        self._live = np.zeros(count)
        self._pending = np.ones(count, np.bool_)
        self._requests: dict[str, None] = {}
        self._inventory = object()
        self._snapshot: FleetSnapshot | None = None
        self._reachable = self.tables[Scope.NODE].index.get("node_reachable")
        self._age = self.tables[Scope.NODE].index.get("node_data_age")
        self._xids = self.tables[Scope.GPU].index.get("gpu_xid_events")
        self._machine_checks = self.tables[Scope.NODE].index.get("mce_events")

    def apply(self, frame: Frame, message: wire.Message) -> None:
        """Take one message of a node; KeyError for a node that is not of this fleet."""
        node = self.nodes[self._by_name[frame.node]]
        match message:
            case wire.Delta():
                self._delta(node, frame, message)
            case wire.Full():
                self._full(node, frame, message)
            case wire.Part():
                # A part stands for itself: a recording may give it behind later lines.
                if message.seq > node.seq:
                    node.follows(message.seq)
                self.take_facts(frame, message.mono, read_part(message), every_s=message.s)
            case wire.Hello():
                self._hello(node, message)
            case wire.Event():
                node.follows(message.seq)
                self._event(node, frame, message)
            case wire.Other() | wire.Bye():
                node.follows(message.seq)
        if node.seen_full and not node.complete:
            self._ask(node)

    def take_facts(self, frame: Frame, mono: float, facts: Facts, *, every_s: float = 30.0) -> None:
        """Take what a part of a node says, read at `mono` of the node's clock; KeyError for a node that is not of this
        fleet."""
        node = self.nodes[self._by_name[frame.node]]
        if not node.seen_full or not self._parts.take(node, frame, mono, facts, every_s):
            # Lists mean nothing before the inventory, and "nothing has changed" nothing behind a gap.
            node.bad_line()
            self._ask(node)

    @property
    def pending(self) -> int:
        """Return how many nodes are still waiting or connecting."""
        return int(np.count_nonzero(self._pending))

    def count_bad(self, node: str) -> None:
        """Count a line of `node` that could not be read."""
        self.nodes[self._by_name[node]].bad_line()

    def set_link(self, name: str, link: Link) -> None:
        """Take the state of the link to a node; KeyError for a node that is not of this fleet."""
        node = self.nodes[self._by_name[name]]
        node.link = link
        self._live[node.index] = link.state.is_live
        self._pending[node.index] = link.state.is_pending
        node.touch()
        if link.state in (LinkState.LIVE, LinkState.SILENT) or (link.state.is_pending and node.frames == 0):
            return
        node.complete = False
        node.cut_off = True
        for scope, first, count in self._parts.blocks(node):
            self.tables[scope].mark(slice(first, first + count), Reason.UNREACHABLE)
        self._count_log(node)

    def settle(self) -> None:
        """Let every line that was taken have its effect."""
        for columns in self.tables.values():
            columns.settle()

    def take_defects(self) -> list[Exception]:
        """Return what kept lines from having their effect, once."""
        defects = [error for columns in self.tables.values() for error in columns.defects]
        for columns in self.tables.values():
            columns.defects.clear()
        return defects

    def set_scheduler(self, reading: SchedulerReading) -> None:
        """Take what the scheduler says; a look that failed changes only the note."""
        self.scheduler_note = reading.note
        if not reading.nodes:
            return
        self.jobs = reading.jobs
        self._jobs_table = job_table([{} for _ in self.jobs], self.catalogue)
        for node in self.nodes:
            state = reading.nodes.get(node.name)
            if state != node.scheduler:
                node.scheduler = state
                node.touch()

    def take_full_requests(self) -> list[str]:
        """Return the nodes that must send a full frame, once."""
        names = list(self._requests)
        self._requests.clear()
        return names

    def prepare(self) -> Iterator[None]:
        """Do in two steps what most of a snapshot's time is for: let lines have their effect, and picture nodes."""
        self.settle()
        yield
        self._publish()
        yield

    def _publish(self) -> tuple[Node, ...]:
        return tuple([node.published or node.publish() for node in self.nodes])

    def snapshot(self, wall: float, mono: float, *, latest: bool = True) -> FleetSnapshot:
        """Return the state at `wall` / `mono` (console's clocks); arrays that did not change are those of the last.

        What comes in parts may be two seconds old unless the `latest` is asked for."""
        self.settle()
        self._fill_console_columns(mono)
        return FleetSnapshot(
            fleet=self.fleet,
            wall=wall,
            mono=mono,
            nodes=self._publish(),
            tables={
                **{scope: columns.table(mono, latest=latest) for scope, columns in self.tables.items()},
                Scope.JOB: self._jobs_table,
            },
            catalogue=self.catalogue,
            events=self.events.newest(),
            by_name=self._by_name,
            inventory=self._inventory,
            jobs=self.jobs,
            scheduler_note=self.scheduler_note,
        )

    def _ask(self, node: NodeState) -> None:
        if node.asked % _ASK_AGAIN == 0:
            self._requests[node.name] = None
        node.asked += 1

    def _hello(self, node: NodeState, hello: wire.Hello) -> None:
        rebooted = bool(hello.boot_id and node.boot_id and hello.boot_id != node.boot_id)
        for scope, first, count in self._parts.blocks(node):
            self.tables[scope].restart(first, count, keep_totals=not rebooted)
        node.start(hello, rebooted=rebooted)
        self._count_log(node)

    def _full(self, node: NodeState, frame: Frame, full: wire.Full) -> None:
        node.seq = full.seq
        node.notes = full.notes
        if full.gpus != node.listed_gpus or full.ports != node.listed_ports or not node.seen_full:
            self._take_inventory(node, full)
        node.complete = node.seen_full = True
        if node.cut_off:
            node.cut_off = False
            node.parts = {}
            for scope, first, count in self._parts.blocks(node):
                if count:
                    self.tables[scope].await_parts(slice(first, first + count))
        node.asked = 0
        self._put(node, full, full=True)
        self._mark_gone(node)
        self._count_log(node)
        for scope in OF_FRAMES:
            self.tables[scope].began(*rows_in(node, scope), frame.received_wall)
        node.received(frame, full)
        node.touch()
        self._frame_mono[node.index] = frame.received_mono

    def _delta(self, node: NodeState, frame: Frame, delta: wire.Delta) -> None:
        if not node.seen_full:
            # Lists mean nothing before the inventory; the probe was asked for it, or will send it by itself.
            node.bad_line()
            self._ask(node)
            return
        if not node.follows(delta.seq):
            node.bad_line()
            return
        self._put(node, delta, full=False)
        if delta.notes is not None and delta.notes != node.notes:
            node.notes = delta.notes
            self._mark_gone(node)
            self._count_log(node)
            node.touch()
        node.received(frame, delta)
        self._frame_mono[node.index] = frame.received_mono

    def _put(self, node: NodeState, line: wire.Full | wire.Delta, *, full: bool) -> None:
        mono, complete, told = line.mono, node.complete, node.touch
        self._of_nodes.put_one(node.index, line.node, mono, full=full, complete=complete, changed=told)
        dropped = self._of_gpus.put(
            node.gpu_first, len(node.gpus), node.gpu_order, line.gpu, mono,
            full=full, complete=complete, changed=told,
        ) + self._of_ports.put(
            node.port_first, len(node.ports), node.port_order, line.port, mono,
            full=full, complete=complete, changed=told,
        )  # fmt: skip
        if dropped:
            node.bad_line(dropped)
            node.complete = False

    def _take_inventory(self, node: NodeState, full: wire.Full) -> None:
        gpus = merge_gpus(node.gpus, full.gpus, node.known.expected_gpus)
        ports = merge_ports(node.ports, full.ports)
        node.gpu_first, node.gpu_room = self._place(
            Scope.GPU, node.gpu_first, node.gpu_room, len(node.gpus), len(gpus.gpus), gpus.new
        )
        node.port_first, node.port_room = self._place(
            Scope.PORT, node.port_first, node.port_room, len(node.ports), len(ports.ports), ports.new
        )
        node.gpus, node.gpu_order = gpus.gpus, _order(gpus.order, len(gpus.gpus))
        node.ports, node.port_order = ports.ports, _order(ports.order, len(ports.ports))
        node.listed_gpus, node.listed_ports = full.gpus, full.ports

    def _place(self, scope: Scope, first: int, room: int, old: int, count: int, new: frozenset[int]) -> tuple[int, int]:
        """Return where the block of `count` devices is and how many rows it has, with those of `new` ones cleared."""
        self._inventory = object()
        columns = self.tables[scope]
        if first < 0:
            # Mounts come and go: with some room a block stays where rules remember it.
            room = -(-count // _DEVICE_ROOM) * _DEVICE_ROOM if scope in DEVICE_SCOPES else count
            first, new = columns.add(room), frozenset()
        elif count > room:
            room = -(-count // _ROOM) * _ROOM
            first = columns.move(first, old, room)
        elif new:
            columns.settle()
        columns.clear([first + position for position in new], Reason.WAITING)
        return first, room

    def _mark_gone(self, node: NodeState) -> None:
        """Say why devices that the node does not list have no values."""
        gpus_are = gone_reason(node.notes.get("nvml", ""))
        for scope, first, devices, order, reason in (
            (Scope.GPU, node.gpu_first, len(node.gpus), node.gpu_order, gpus_are),
            (Scope.PORT, node.port_first, len(node.ports), node.port_order, Reason.LOST),
        ):
            if order is not None:
                listed = set(order)
                gone = [first + position for position in range(devices) if position not in listed]
                self.tables[scope].mark(gone, reason)

    def _event(self, node: NodeState, frame: Frame, event: wire.Event) -> None:
        kernel = event.source == "kernel"
        if kernel and event.at is not None and node.told_before(event.text, event.at):
            return
        xid = find_xid(event.text) if kernel else None
        if xid is not None and not node.count_xid(xid.pci):
            xid = None
        code, pci = xid or (None, None)
        # The node's own clock may be an hour off: how long ago it was is what both clocks agree about.
        ago_s = 0.0 if event.at is None else max(0.0, event.wall - event.at)
        at = frame.received_wall - ago_s
        self.events.add(LogEvent(node.name, event.source, event.text, at, event.level, code, pci))
        if xid is not None or (kernel and node.count_machine_check(event.text)):
            self._count_log(node)
        node.touch()

    def _count_log(self, node: NodeState) -> None:
        """Put what was counted in the kernel log of a node."""
        reason = Reason.UNREACHABLE if node.cut_off else kernel_log_reason(node.notes)
        marks = self.tables[Scope.NODE].marks, self.tables[Scope.GPU].marks
        of_slots = tuple(node.xids.items())
        said = node.seen_full, reason, node.machine_checks, of_slots, node.gpu_first, node.gpus, *marks
        if said == node.counted:
            # As with nearly every full line: whatever else changes rows has left a mark.
            return
        node.counted = said
        if self._machine_checks is not None and node.seen_full:
            columns = self.tables[Scope.NODE]
            count = max(node.machine_checks.values())
            row = slice(node.index, node.index + 1)
            columns.dirty |= columns.reasons.put(self._machine_checks, row, int(reason))
            counted = count if reason is Reason.PRESENT else np.nan
            columns.dirty |= columns.values.put(self._machine_checks, row, counted)
        if self._xids is None or node.gpu_first < 0:
            return
        columns = self.tables[Scope.GPU]
        rows = slice(node.gpu_first, node.gpu_first + len(node.gpus))
        counts = [node.xids.get(slot_of(gpu.pci), 0) if gpu.pci else 0 for gpu in node.gpus]
        columns.dirty |= columns.reasons.put(self._xids, rows, int(reason))
        xids = np.array(counts, np.float64) if reason is Reason.PRESENT else np.nan
        columns.dirty |= columns.values.put(self._xids, rows, xids)

    def _fill_console_columns(self, mono: float) -> None:
        columns = self.tables[Scope.NODE]
        heard, rows = ~np.isnan(self._frame_mono), slice(0, len(self.nodes))
        if self._age is not None:
            columns.values.put(self._age, rows, np.maximum(mono - self._frame_mono, 0.0))
            columns.reasons.put(self._age, rows, np.where(heard, Reason.PRESENT, Reason.WAITING))
        if self._reachable is not None:
            waiting = self._pending & ~heard
            columns.values.put(self._reachable, rows, np.where(waiting, np.nan, self._live))
            columns.reasons.put(self._reachable, rows, np.where(waiting, Reason.WAITING, Reason.PRESENT))
        columns.dirty = True


def _order(order: Sequence[int], count: int) -> tuple[int, ...] | None:
    """Return the rows of the listed devices, or None when these are all rows in their order."""
    return None if list(order) == list(range(count)) else tuple(order)
