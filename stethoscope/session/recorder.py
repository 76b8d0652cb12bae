"""Tees what a source gives into a recording, before anything is parsed; compresses and writes in a thread of its own.

The event loop only appends to a list. When the disk cannot keep up, lines are dropped and counted; when it fails,
recording ends with a notice and everything else goes on.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stethoscope import __version__
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.model.frame import Link, LinkState
from stethoscope.session.job_notes import JOB_LOG
from stethoscope.session.standing import StandingLines
from stethoscope.store.format import (
    BLOCK_RAW,
    KEYFRAME,
    MAX_RAW,
    BlockData,
    FleetEntry,
    NodeEntry,
    RecordType,
)
from stethoscope.store.lines import is_full, is_hello
from stethoscope.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Source
    from stethoscope.model.frame import Frame
    from stethoscope.store.outlets import Outlet

FLUSH_S = 1.0
"""What came is written after this time; twice as much may be lost when the process is killed."""
KEYFRAME_S = 60.0
"""How often the state of every link is written again, so that one can begin to read there."""
OVERDUE_S = 90.0
"""A node that sent no full frame for so long will not send one soon."""
NOTE_OVERDUE_S = 45.0
"""A scheduler is read every 30 s; less than KEYFRAME_S, so that who begins at one keyframe knows it at the next."""
BACKLOG = 32 * 1024 * 1024
"""Bytes that may wait for the disk."""
_WAKE = 480 * 1024
"""Waiting bytes at which the thread is woken: most of two blocks. Each time the interpreter goes to and fro between it
and the event loop, and small blocks are packed less well."""
_SETTLE_S = 0.5
"""So long what stands may wait to be compressed: each call lets other threads have the interpreter, and a few lines of
each kind are told apart as fast as one."""
_HELLO_LIMIT = 4096
LONGEST = MAX_RAW - 2 * BLOCK_RAW
"""Bytes of one record: a reader takes no larger block."""
_STOP_S = 5.0
_PER_RECORD = 64
"""Bytes of a waiting record beside its payload."""


class _Said(msgspec.Struct):
    note: str = ""


class _Note(msgspec.Struct):
    kind: str
    value: msgspec.Raw

    @property
    def tells_nothing(self) -> bool:
        """Tell whether this says only why there is nothing to tell, as a reading that failed."""
        try:
            return bool(msgspec.json.decode(self.value, type=_Said).note)
        except msgspec.MsgspecError:
            return False


class Counts(NamedTuple):
    """What a recorder has done so far."""

    lines: int
    raw: int
    """Bytes of lines."""
    written: int
    """Bytes of files."""
    dropped: int


class Recorder:
    """Records one source into one outlet; a Tap of its session."""

    def __init__(self, source: Source, clock: Clock, outlet: Outlet, *, flush_s: float = FLUSH_S) -> None:
        """Prepare; `open` makes the first file, `start` begins to write."""
        nodes = tuple(
            NodeEntry(
                node.name,
                node.rack,
                node.pod,
                node.tick_s,
                node.expected_gpus,
                node.leaves,
                getattr(node, "maintenance", ()),
                getattr(node, "expected_ib_gbps", None),
            )
            for node in source.nodes
        )
        writer = f"stethoscope {__version__}"
        self._fleet = FleetEntry(source.fleet, nodes, source.simulated, secrets.token_hex(8), writer)
        self._index = {node.name: number for number, node in enumerate(nodes)}
        self._clock = clock
        self._flush_s = flush_s
        self.outlet = outlet
        self.failure: str | None = None
        """Why recording ended before it was told to."""
        self._notices: list[str] = []
        self._condition = threading.Condition()
        self._waiting: list[tuple[int, int, float, float, bytes]] = []
        self._waiting_bytes = 0
        self._dropped = self._dropped_before = 0
        self._stopping = self._reopen = self._settling = False
        self._thread: threading.Thread | None = None
        self._writer: Writer | None = None
        self._opened_mono = 0.0
        self._keyframe_mono: float | None = None
        self._links: dict[int, bytes] = {}
        self._hellos: dict[int, bytes] = {}
        self._settled_mono = 0.0
        self._standing = StandingLines(outlet.path)
        self._notes: dict[str, tuple[float, bytes]] = {}
        """The last note of each kind that told something, and when; behind it, where later ones said only why they
        cannot, the last of those."""
        self._lines = self._raw = self._written = 0

    # ---- on the event loop

    def on_frame(self, frame: Frame) -> None:
        """Take a line as it came."""
        self._take(RecordType.FRAME, frame.node, frame.received_wall, frame.received_mono, frame.raw)

    def on_link(self, node: str, link: Link) -> None:
        """Take the state of a link; that this console stops is nothing about the node."""
        if link.state is not LinkState.STOPPED:
            self._take(RecordType.LINK, node, self._clock.wall(), self._clock.monotonic(), msgspec.json.encode(link))

    def on_note(self, kind: str, value: object) -> None:
        """Take something that is not of one node."""
        payload = msgspec.json.encode({"kind": kind, "value": value})
        self._put(RecordType.NOTE, 0, self._clock.wall(), self._clock.monotonic(), payload)

    def _take(self, type_: int, node: str, wall: float, mono: float, payload: bytes) -> None:
        number = self._index.get(node)
        if number is not None:
            self._put(type_, number, wall, mono, payload)

    def _put(self, type_: int, number: int, wall: float, mono: float, payload: bytes) -> None:
        if self.failure is not None:
            return
        with self._condition:
            if len(payload) > LONGEST or self._waiting_bytes + len(payload) > BACKLOG:
                self._dropped += 1
                return
            self._waiting.append((type_, number, wall, mono, payload))
            before = self._waiting_bytes
            self._waiting_bytes += len(payload) + _PER_RECORD
            # Only the step over the limit wakes the thread; otherwise it wakes by itself.
            if before < _WAKE <= self._waiting_bytes:
                self._condition.notify()

    def take_notices(self) -> list[str]:
        """Return what people should know about this recording, once."""
        if not self._notices:
            return []
        with self._condition:
            notices, self._notices = self._notices, []
        return notices

    @property
    def counts(self) -> Counts:
        """Return how much was recorded so far."""
        written = self._written + (self._writer.size if self._writer is not None else 0)
        return Counts(self._lines, self._raw, written, self._dropped)

    def open(self) -> None:
        """Make the first file; OSError when that cannot be."""
        self._writer = Writer(self.outlet.next(self._clock.wall()), self._fleet)
        self._opened_mono = self._clock.monotonic()

    def start(self) -> None:
        """Begin to write, in a thread; a first file that cannot be made is a notice."""
        if self._writer is None and self.failure is None:
            try:
                self.open()
            except OSError as error:
                self._fail(error)
        if self._thread is None and self.failure is None:
            self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
            self._thread.start()

    def reopen(self) -> None:
        """Close the file and go on in a new one."""
        with self._condition:
            self._reopen = True
            self._condition.notify()

    def settle(self) -> None:
        """Wait until all that came so far is in the file, not longer than some seconds; not on an event loop."""
        with self._condition:
            self._settling = self._thread is not None and self._thread.is_alive() and self.failure is None
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._settling, _STOP_S)

    def stop(self) -> None:
        """Write what is waiting, with the index, and end; not longer than a few seconds."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    # ---- in the thread

    def _run(self) -> None:
        try:
            stopping = False
            while not stopping:
                with self._condition:
                    if not (self._stopping or self._reopen or self._settling or self._waiting_bytes >= _WAKE):
                        self._condition.wait(self._flush_s)
                    stopping, settling = self._stopping, self._settling
                self._drain()
                if settling or stopping:
                    with self._condition:
                        self._settling = False
                        self._condition.notify_all()
            if self._writer is not None:
                self._writer.close()
        except Exception as error:  # noqa: BLE001  whatever fails here must reach the user and nothing else
            self._fail(error)
        finally:
            self._standing.close()

    def _drain(self) -> None:
        """Write all that is waiting."""
        with self._condition:
            batch, self._waiting, self._waiting_bytes = self._waiting, [], 0
            stopping, reopen, self._reopen = self._stopping, self._reopen, False
            dropped, self._dropped_before = self._dropped - self._dropped_before, self._dropped
        if dropped:
            self._tell(f"the disk is too slow for the recording: {dropped:,} lines were not recorded")
        if batch:
            self._write(batch, dropped)
        if not stopping:
            self._turn(forced=reopen)

    def _write(self, batch: list[tuple[int, int, float, float, bytes]], dropped: int) -> None:
        assert self._writer is not None
        _, _, wall, mono, _ = batch[0]
        block = BlockData()
        if self._keyframe_mono is None or mono - self._keyframe_mono >= KEYFRAME_S:
            is_first, self._keyframe_mono = self._keyframe_mono is None, mono
            block.flags = KEYFRAME
            # In the order in which they must be taken: a lost link covers the values of before.
            for standing, node, payload in self._what_stands(mono, is_first=is_first):
                block = self._add(block, standing, node, wall, mono, payload)
        if dropped:
            block = self._add(block, RecordType.LOST, 0, wall, mono, msgspec.json.encode({"records": dropped}))
        for type_, node, wall, mono, payload in batch:
            if type_ == RecordType.LINK:
                self._links[node] = payload
            elif type_ == RecordType.FRAME and is_hello(payload):
                self._standing.forget(node)
                if len(payload) <= _HELLO_LIMIT:
                    self._hellos[node] = payload
            elif type_ == RecordType.FRAME and is_full(payload):
                self._standing.see_full(node, wall, mono, payload)
            elif type_ == RecordType.FRAME:
                self._standing.see(node, wall, mono, payload)
            elif type_ == RecordType.NOTE:
                self._keep_note(mono, payload)
            block = self._add(block, type_, node, wall, mono, payload)
            self._raw += len(payload)
            self._lines += type_ == RecordType.FRAME
        self._writer.write(block)
        if not 0 <= mono - self._settled_mono < _SETTLE_S:
            self._settled_mono = mono
            self._standing.settle()

    def _keep_note(self, mono: float, payload: bytes) -> None:
        note = msgspec.json.decode(payload, type=_Note)
        if note.kind in (ON_DEMAND, JOB_LOG):
            return  # it happened once, and stands for nothing that goes on; of logs the past comes again by itself
        if note.tells_nothing:
            self._notes[f"{note.kind} failed"] = (mono, payload)
        else:
            self._notes.pop(f"{note.kind} failed", None)
            self._notes[note.kind] = (mono, payload)

    def _what_stands(self, mono: float, *, is_first: bool) -> Iterator[tuple[RecordType, int, bytes]]:
        """Yield what one who begins to read here cannot learn from what comes; `is_first`: nothing of it is in the
        file yet."""
        if is_first or any(mono - told > NOTE_OVERDUE_S for told, _ in self._notes.values()):
            for _, payload in self._notes.values():
                yield RecordType.NOTE, 0, payload
        for node, payload in self._hellos.items():
            yield RecordType.STANDING_HELLO, node, payload
        for node, payload in self._standing.silent(mono, OVERDUE_S):
            yield RecordType.STANDING_FULL, node, payload
        for node, payload in self._standing.due(mono, is_first=is_first):
            yield RecordType.STANDING_PART, node, payload
        for node, payload in self._links.items():
            yield RecordType.STANDING_LINK, node, payload

    def _add(self, block: BlockData, type_: int, node: int, wall: float, mono: float, payload: bytes) -> BlockData:
        assert self._writer is not None
        block.add(type_, node, wall, mono, payload)
        if not block.is_full:
            return block
        self._writer.write(block)
        return BlockData()

    def _turn(self, *, forced: bool) -> None:
        """Go on in the next file when it is time."""
        assert self._writer is not None
        mono = self._clock.monotonic()
        if forced or self.outlet.is_due(mono - self._opened_mono, self._writer.size):
            self._writer.close()
            self._written += self._writer.size
            self._writer = None
            self.open()
            self._keyframe_mono = None

    def _tell(self, text: str) -> None:
        with self._condition:
            self._notices.append(text)

    def _fail(self, error: Exception) -> None:
        reason = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        if self._writer is not None:
            self._writer.abandon()
            self._written += self._writer.size
            self._writer = None
        with self._condition:
            self.failure = f"recording stopped: {reason[:200]} ({self.outlet.name})"
            self._notices.append(self.failure)
            self._waiting, self._waiting_bytes = [], 0
            self._settling = False
            self._condition.notify_all()
