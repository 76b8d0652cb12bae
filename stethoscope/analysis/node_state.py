"""What the fold remembers of one node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from stethoscope.model.fleet import Node
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import WIRE_REASONS, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.facts import Facts, GpuProcess, Task
    from stethoscope.model.fleet import PartAge
    from stethoscope.model.frame import Frame
    from stethoscope.model.metric import Scope
    from stethoscope.model.nodespec import NodeSpec
    from stethoscope.model.scheduler import SchedulerState
    from stethoscope.model.wire import Delta, Full, GpuIdentity, Hello, PortIdentity

_REMEMBERED_LINES = 2_000
"""Kernel lines kept for knowing them again when a new probe reads the same log."""
MACHINE_CHECKS = ("Machine Check: ", "Machine check events logged")
_MOST_SLOTS = 512
"""PCI slots whose Xids are counted."""


@dataclass(slots=True)
class Block:
    """The rows of a node's devices in the table of a scope that comes in parts."""

    first: int = -1
    room: int = 0
    names: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    """Those that the last part named, as it named them, and ..."""
    order: tuple[int, ...] = ()
    """... the position of each in `names`."""
    found: int = 0
    """Number of what the last part said of them (`Parts`), when all of it was taken, and ..."""
    marks: int = -1
    """... what `Arrays.marks` was then; -1 before it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one group said of a node beside numbers."""

    said: tuple[object, ...]
    """What it says of devices, as something that can be compared, and ..."""
    about: Mapping[tuple[Scope, str], Mapping[str, str]]
    """... looked up."""
    words: Mapping[str, str]
    gpu_words: Mapping[str, tuple[str, ...]]
    notes: Mapping[str, str]


_NO_NOTES: Mapping[str, str] = {}
"""One for all nodes of which everything can be seen."""
_NO_CHECKS: Mapping[str, int] = MappingProxyType(dict.fromkeys(MACHINE_CHECKS, 0))


@lru_cache(maxsize=4096)
def _by_port(leaves: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the leaf of each port: the same for all nodes of a rack."""
    return dict(leaves)


class NodeState:
    """One node while its messages come in; `published` is its picture, None when it must be made anew."""

    __slots__ = (
        "about", "asked", "bad_lines", "blocks", "boot_id", "clock_offset_s", "complete", "counted", "cut_off",
        "device_first", "devices", "early",
        "frame_mono", "frame_wall", "frames", "gpu_first", "gpu_order", "gpu_room", "gpu_words", "gpus", "index",
        "kernel", "known", "leaves", "lines", "lines_before", "link", "listed_gpus", "listed_ports", "machine_checks",
        "name", "notes", "part_mono", "part_notes", "parts", "port_first", "port_order", "port_room", "ports",
        "processes", "published",
        "scheduler", "seen_full", "seq", "tasks", "tick_s", "told", "version", "whole", "words", "xids",
    )  # fmt: skip

    def __init__(self, index: int, known: NodeSpec) -> None:
        """Start with a node of which nothing was heard."""
        self.index = index
        self.known = known
        self.name = known.name
        self.leaves = _by_port(tuple(known.leaves))
        self.tick_s = known.tick_s
        self.link = Link(LinkState.WAITING, since=0.0)
        self.gpus: tuple[GpuIdentity, ...] = ()
        self.ports: tuple[PortIdentity, ...] = ()
        self.listed_gpus: list[GpuIdentity] = []
        self.listed_ports: list[PortIdentity] = []
        self.gpu_order: tuple[int, ...] | None = None
        self.port_order: tuple[int, ...] | None = None
        self.gpu_first = self.port_first = -1
        self.gpu_room = self.port_room = 0
        self.boot_id = self.kernel = ""
        self.notes: Mapping[str, str] = _NO_NOTES
        self.seq = -1
        self.seen_full = False
        """A full line of this run of the probe came: lists have a meaning."""
        self.complete = False
        """No line was missed since the last full one: what a delta does not name has not changed."""
        self.cut_off = False
        """The link was lost, and no full line came since."""
        self.asked = 0
        self.frames = self.bad_lines = self.version = 0
        self.frame_mono: float | None = None
        self.frame_wall: float | None = None
        self.clock_offset_s: float | None = None
        self.xids: dict[str, int] = {}
        self.lines: dict[tuple[str, int], None] = {}
        self.lines_before: dict[tuple[str, int], None] = {}
        self.published: Node | None = None
        self.scheduler: SchedulerState | None = None
        self.machine_checks: Mapping[str, int] = _NO_CHECKS
        """Lines in the kernel log of this boot, by what they say."""
        self.counted: tuple[object, ...] = ()
        """What the tables say of the kernel log, and of which rows."""
        self.blocks: dict[Scope, Block] = {}
        self.devices: Mapping[Scope, tuple[str, ...]] = {}
        self.device_first: Mapping[Scope, int] = {}
        self.parts: Mapping[str, PartAge] = {}
        self.part_mono: dict[str, float] = {}
        """Node's monotonic seconds of the last part of each group in this run of the probe."""
        self.whole: frozenset[str] = frozenset()
        """Groups that came whole, and of which no line can have been missed since: `same` has a meaning."""
        self.early: dict[str, tuple[Frame, float, Facts, float]] = {}
        """Parts about devices that no part has named yet."""
        self.told: dict[str, Told] = {}
        self.about: Mapping[tuple[Scope, str], Mapping[str, str]] = {}
        self.part_notes: Mapping[str, str] = _NO_NOTES
        self.words: Mapping[str, str] = {}
        self.gpu_words: Mapping[str, tuple[str, ...]] = {}
        self.processes: tuple[GpuProcess, ...] | None = None
        self.tasks: tuple[Task, ...] | None = None

    def touch(self) -> None:
        """Note that something of the node changed."""
        self.version += 1
        self.published = None

    def bad_line(self, count: int = 1) -> None:
        """Count lines, or lists of one, that could not be used."""
        self.bad_lines += count
        self.touch()

    def follows(self, seq: int) -> bool:
        """Take a sequence number; after a gap the picture is not complete. Return False for a line of the past."""
        if seq != self.seq + 1:
            self.complete = False
            self.whole = frozenset()
        if seq <= self.seq:
            return False
        self.seq = seq
        return True

    def start(self, hello: Hello, *, rebooted: bool) -> None:
        """Take the first line of a new run of the probe."""
        self.seq = hello.seq
        self.seen_full = self.complete = False
        self.asked = 1
        self.part_mono.clear()
        self.whole = frozenset()
        self.early.clear()
        self.boot_id = hello.boot_id or self.boot_id
        self.kernel = hello.kernel or self.kernel
        self.tick_s = self.known.tick_s or hello.tick_s
        self.lines_before, self.lines = {**self.lines_before, **self.lines}, {}
        while len(self.lines_before) > _REMEMBERED_LINES:
            del self.lines_before[next(iter(self.lines_before))]
        if rebooted:
            self.xids.clear()
            self.machine_checks = _NO_CHECKS
        self.touch()

    def received(self, frame: Frame, line: Full | Delta) -> None:
        """Note the arrival of values."""
        self.frames += 1
        self.frame_mono = frame.received_mono
        self.frame_wall = frame.received_wall
        self.clock_offset_s = line.wall - frame.received_wall
        self.published = None

    def told_before(self, text: str, at: float) -> bool:
        """Tell whether an earlier run of the probe already sent this kernel line (times differ by a little)."""
        second = int(at)
        if any((text, second + off) in self.lines_before for off in (-1, 0, 1)):
            return True
        self.lines[text, second] = None
        if len(self.lines) > _REMEMBERED_LINES:
            # A new probe reads the end of the log again, so the newest lines are those to know.
            del self.lines[next(iter(self.lines))]
        return False

    def count_xid(self, pci: str) -> bool:
        """Count an Xid of the slot `pci`; False when the node has told of more slots than a node can have."""
        if pci not in self.xids and len(self.xids) >= _MOST_SLOTS:
            return False
        self.xids[pci] = self.xids.get(pci, 0) + 1
        return True

    def hears(self, group: str, told: Told) -> None:
        """Take what a group says beside numbers, in the place of what it said before; `about` is not put together."""
        self.told[group] = told
        every = self.told.values()
        self.words = {id_: word for one in every for id_, word in one.words.items()}
        self.gpu_words = {id_: words for one in every for id_, words in one.gpu_words.items()}
        self.part_notes = {key: text for one in every for key, text in one.notes.items()} or _NO_NOTES

    def count_machine_check(self, line: str) -> bool:
        """Count a kernel line that tells of a machine check exception; False when it does not.

        Its report begins with `mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: ...`, and the lines behind that
        (TSC, ADDR, PROCESSOR) are of the same one. `Machine check events logged` comes beside it, or in its place where
        a daemon takes the report.
        """
        mark = line.find("[Hardware Error]: ")
        said = next((words for words in MACHINE_CHECKS if mark >= 0 and words in line[mark:]), None)
        if said is not None:
            self.machine_checks = {**self.machine_checks, said: self.machine_checks[said] + 1}
        return said is not None

    def publish(self) -> Node:
        """Return the picture of the node as it stands."""
        self.published = Node(
            name=self.name,
            index=self.index,
            link=self.link,
            rack=self.known.rack,
            pod=self.known.pod,
            leaves=self.leaves,
            gpus=self.gpus,
            ports=self.ports,
            gpu_first=self.gpu_first,
            port_first=self.port_first,
            devices=self.devices,
            device_first=self.device_first,
            about=self.about,
            words=self.words,
            gpu_words=self.gpu_words,
            processes=self.processes,
            tasks=self.tasks,
            parts=self.parts,
            frame_mono=self.frame_mono,
            frame_wall=self.frame_wall,
            tick_s=self.tick_s,
            clock_offset_s=self.clock_offset_s,
            boot_id=self.boot_id,
            kernel=self.kernel,
            notes={**self.part_notes, **self.notes} if self.part_notes else self.notes or _NO_NOTES,
            frames=self.frames,
            bad_lines=self.bad_lines,
            version=self.version,
            expected_gpus=self.known.expected_gpus,
            expected_ib_gbps=getattr(self.known, "expected_ib_gbps", None),
            scheduler=self.scheduler,
            # What a recording, or this machine alone, is said to be does not know of it.
            maintenance=getattr(self.known, "maintenance", ()),
        )
        return self.published


def reason_of(note: str) -> Reason | None:
    """Return the reason that a note begins with (`hung for 41 s`), or None when it begins with none."""
    words = note.replace(":", " ").replace(",", " ").split(None, 1)
    return WIRE_REASONS.get(words[0]) if words else None


def gone_reason(nvml_note: str) -> Reason:
    """Return why GPUs that a node does not list have no values, from the note about its driver."""
    if nvml_note in ("", "no devices"):
        return Reason.LOST
    return Reason.WAITING if nvml_note == "starting" else reason_of(nvml_note) or Reason.ERROR


def kernel_log_reason(notes: Mapping[str, str]) -> Reason:
    """Return why the kernel log of a node cannot be read, PRESENT when it can."""
    note = notes.get("kernel_log")
    return Reason.PRESENT if note is None else reason_of(note) or Reason.ERROR
