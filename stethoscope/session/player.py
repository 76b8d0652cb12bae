"""Plays a tape into a session: everything is derived again from the raw lines, at the recording's own times.

The rules look at fixed moments of the tape, so that what they find depends on the tape and on where playing began, and
on nothing else: not on speed, pauses, or the machine.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import msgspec

from stethoscope.clock import ReplayClock
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.scheduler import SchedulerReading
from stethoscope.session.job_notes import JOB_LOG, JobNote
from stethoscope.specs.fleet import SMALL_FLEET
from stethoscope.store.format import STANDING_AT, NodeEntry, RecordType, is_time
from stethoscope.store.lines import is_delta, is_full, is_hello, is_same, part_group
from stethoscope.text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Sink, Source
    from stethoscope.session.session import Session
    from stethoscope.session.taps import Tap
    from stethoscope.store.format import FleetEntry
    from stethoscope.store.tape import Played, Reel, Tape

    MakeSession = Callable[[Source, Clock], Session]

LEAD_S = 75.0
"""Every node sends a full frame a minute: after this much all values are known."""
EVALUATE_S, EVALUATE_MANY_S = 1.0, 5.0
"""Seconds of the recording between two looks of the rules; more in a fleet whose nodes send that rarely."""
HOLE_S = 120.0
"""In a longer pause without any record the rules do not look."""
_LOOK_AT_CLOCK = 64
"""Records between two looks at whether to go on."""


class _Note(msgspec.Struct):
    kind: str
    value: msgspec.Raw


_link = msgspec.json.Decoder(Link)


class ReplaySource:
    """The fleet of a recording; what it gives comes from the player."""

    def __init__(self, fleet: FleetEntry) -> None:
        """Be the fleet that was recorded."""
        self.fleet = fleet.fleet
        self.simulated = fleet.simulated
        self.nodes: tuple[NodeEntry, ...] = fleet.nodes

    async def run(self, sink: Sink) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()

    def ask_full(self, node: str | None = None) -> None:
        """What was not recorded cannot be asked for."""


class Player:
    """A place on a tape, and the session with all that was known there."""

    def __init__(self, tape: Tape, make: MakeSession) -> None:
        """Stand at the start of `tape`; `make` makes a session with its rules."""
        self.tape = tape
        self.clock = ReplayClock()
        self.t = 0.0
        self.began = 0.0
        """Where playing began: nothing is known of what was before."""
        self.restarts = 0
        """How often everything was begun anew."""
        self.changed: bool
        """Since it was set to False, a finding came or cleared, or a link changed."""
        self.taps: tuple[Tap, ...] = ()
        """What hears the notes of the tape, and is told to begin anew."""
        self._make = make
        self.begin(0.0)

    def begin(self, t: float) -> None:
        """Forget everything and stand at second `t`."""
        self._records: Iterator[Played] = self.tape.play(t)
        self._next = next(self._records, None)
        reel = self._next.reel if self._next is not None else self.tape.reels[-1]
        self.t = self.began = t
        self._last = (t, self._next.record.wall if self._next is not None else self.tape.wall_span[1])
        self._start(reel)
        self._move(t)

    def _start(self, reel: Reel) -> None:
        """Make a session for the fleet of `reel`, of which nothing is known yet."""
        self.session = self._make(ReplaySource(reel.fleet), self.clock)
        self.restarts += 1
        for tap in self.taps:
            tap.start()
        self._reel = reel
        self._links: dict[int, Link] = {}
        """The last state of each link that is known."""
        self._speaking: set[int] = set()
        """Nodes whose lines can be understood: a greeting or a full frame came."""
        self._full: set[int] = set()
        """Nodes all of whose values came once."""
        self._held: dict[int, dict[str, list[Frame]]] = {}
        """Parts that came before these, by node and group: the last whole one, and what says that nothing has changed
        since."""
        self._heard: dict[int, dict[str, float]] = {}
        """When the last part of each group came that means something: behind a whole one."""
        self._states: dict[int, LinkState] = {}
        self._active: set[str] = set()
        self.changed = False
        nodes = len(reel.fleet.nodes)
        self._step_s = EVALUATE_S if nodes <= SMALL_FLEET else EVALUATE_MANY_S
        self._due = math.ceil(self.t / self._step_s) * self._step_s

    def _move(self, t: float) -> None:
        self.t = t
        self.clock.set(self._last[1] + (t - self._last[0]), t)

    def play(self, to: float, go_on: Callable[[], bool] = lambda: True, *, until_change: bool = False) -> bool:
        """Play up to second `to`; return False when `go_on` ended it earlier. With `until_change` stop at the first
        look of the rules behind a change."""
        to = min(to, self.tape.end)
        count = 0
        while True:
            at = min(to, self._next.t) if self._next is not None else to
            while self._due <= at:
                if at - self._due > HOLE_S:
                    self._due = math.floor(at / self._step_s) * self._step_s
                self._move(self._due)
                self._evaluate()
                self._due += self._step_s
                if until_change and self.changed:
                    return True
                if not go_on():
                    return False
            if self._next is None or self._next.t > to:
                self._move(max(self.t, to))
                return True
            self._take(self._next)
            self._next = next(self._records, None)
            count += 1
            if count % _LOOK_AT_CLOCK == 0 and not go_on():
                return False

    def _evaluate(self) -> None:
        snapshot = self.session.evaluate()
        active = {f.id for f in snapshot.findings if f.state == "active" and f.severity.value.startswith("P")}
        self.changed |= active != self._active
        self._active = active

    def _take(self, played: Played) -> None:
        record, reel = played.record, played.reel
        self._last = (played.t, record.wall)
        self._move(played.t)
        if reel.take != self._reel.take or reel.fleet.nodes != self._reel.fleet.nodes:
            # Nobody knows what was between two recorders.
            self._start(reel)
        self._reel = reel
        node = record.node
        name = reel.fleet.nodes[node].name
        match record.type:
            case RecordType.FRAME:
                self._take_line(node, Frame(name, record.wall, played.t, record.payload))
            case RecordType.STANDING_HELLO:
                if node not in self._speaking:
                    self._speaking.add(node)
                    self.session.on_frame(Frame(name, record.wall, played.t, record.payload))
            case RecordType.STANDING_FULL:
                if node not in self._full:
                    self._take_standing(node, name, played)
            case RecordType.STANDING_PART:
                if len(record.payload) == STANDING_AT.size:
                    self._held.pop(node, None)
                    self._heard.pop(node, None)
                else:
                    self._take_standing(node, name, played)
            case RecordType.NOTE:
                self._take_note(record.payload)
            case RecordType.LINK:
                self._take_link(node, name, record.payload)
            case RecordType.STANDING_LINK:
                if node not in self._links:
                    self._take_link(node, name, record.payload)

    def _take_standing(self, node: int, name: str, played: Played) -> None:
        """Take what a node said last, long ago, unless it has said something since."""
        payload = played.record.payload
        if len(payload) < STANDING_AT.size:
            return
        wall, mono = STANDING_AT.unpack_from(payload)
        mono += played.reel.shift_s
        group = part_group(payload[STANDING_AT.size :])
        is_told = bool(group) and mono <= self._heard.get(node, {}).get(group, -math.inf)
        if is_time(wall) and math.isfinite(mono) and mono <= played.t and not is_told:
            self._take_line(node, Frame(name, wall, mono, payload[STANDING_AT.size :]))
            link = self._links.get(node)
            if link is not None and not link.state.is_live:
                # What was said long ago does not bring the node back.
                self.session.on_link(name, link)

    def _take_line(self, node: int, frame: Frame) -> None:
        """Take a line of a node, now or when it can be understood."""
        raw = frame.raw
        group = part_group(raw)
        if group:
            self._take_part(node, group, frame)
        elif is_hello(raw):
            self._held.pop(node, None)
            self._heard.pop(node, None)
            self._speaking.add(node)
            self.session.on_frame(frame)
        elif is_full(raw):
            self._full.add(node)
            self._speaking.add(node)
            self.session.on_frame(frame)
            for held in [part for parts in self._held.pop(node, {}).values() for part in parts]:
                self.session.on_frame(held)
        elif node in self._speaking or not is_delta(raw):
            self.session.on_frame(frame)

    def _take_part(self, node: int, group: str, frame: Frame) -> None:
        """Take a part: before a full frame its lists mean nothing, and without a whole one "the same" does not."""
        heard, same = self._heard.setdefault(node, {}), is_same(frame.raw)
        if (same and group not in heard) or frame.received_mono < heard.get(group, -math.inf):
            return
        heard[group] = frame.received_mono
        if node in self._full:
            self.session.on_frame(frame)
        else:
            held = self._held.setdefault(node, {})
            held[group] = [held[group][0], frame] if same and group in held else [frame]

    def _take_note(self, payload: bytes) -> None:
        try:
            note = msgspec.json.decode(payload, type=_Note)
            if note.kind == "scheduler":
                # What was read from other programs passes the gate again: a file may have been changed.
                reading = msgspec.convert(clean_json(msgspec.json.decode(note.value)), SchedulerReading, strict=False)
                self.session.on_scheduler(reading)
            elif note.kind == JOB_LOG:
                value = clean_json(msgspec.json.decode(note.value))
                told = msgspec.convert(value, JobNote, strict=False)
                if told.is_sound:
                    self.session.jobs.take_note(told, self.clock.wall())
                    for tap in self.taps:
                        tap.on_note(JOB_LOG, value)
            elif note.kind == ON_DEMAND:
                value = clean_json(msgspec.json.decode(note.value))
                for tap in self.taps:
                    tap.on_note(ON_DEMAND, value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return

    def _take_link(self, node: int, name: str, payload: bytes) -> None:
        try:
            link = _link.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        times_are_sound = all(0 <= time < 1e11 for time in (link.since, link.next_try or 0.0))
        if not times_are_sound:
            return
        detail, via = clean(link.detail, 400), clean(link.via, 250)
        link = Link(link.state, link.since, detail, link.next_try, link.attempts, link.verified, via)
        if not link.state.is_pending:
            self.changed |= self._states.get(node, link.state) is not link.state
            self._states[node] = link.state
        self._links[node] = link
        self.session.on_link(name, link)
