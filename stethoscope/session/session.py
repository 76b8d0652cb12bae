"""The session: owns time and state. A source puts raw lines and link states in; screens and verbs pull snapshots out.

Everything runs in one event loop. A line that breaks parsing or folding costs itself and is counted; nothing that a
node sends can end the session.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.history import History
from stethoscope.clock import SystemClock
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.model.wire import Full
from stethoscope.parse.stream import ParseError, parse
from stethoscope.session.change import Change
from stethoscope.session.jobs import Jobs
from stethoscope.session.judging import Judging
from stethoscope.session.mark import MarkKeeper
from stethoscope.session.memory import MemoryTuning
from stethoscope.session.night import NightKeeper
from stethoscope.session.ondemand import OnDemandRuns
from stethoscope.session.probe_result import result_json
from stethoscope.session.scheduler import follow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Scheduler, Source
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.frame import Frame, Link
    from stethoscope.model.mark import Mark
    from stethoscope.model.metric import Metric
    from stethoscope.model.scheduler import SchedulerReading
    from stethoscope.session.judging import Rules
    from stethoscope.session.mark import MarkFile
    from stethoscope.session.probe_result import Result
    from stethoscope.session.taps import Tap
    from stethoscope.specs.rule import Rule

_log = logging.getLogger(__name__)
TEND_S = 0.25
"""How often requests for full frames and pushed changes go out."""
REBUILD_S = 0.1
"""A snapshot is not built again before this time has passed."""
AGE_S = 1.0
"""When nothing came, a snapshot is built again after this time, so that ages grow."""
EVALUATE_S, EVALUATE_MANY_S = 1.0, 4.0
"""How often the rules look at the fleet, one of more than MANY_NODES nodes less often: those send every 5 seconds."""
MANY_NODES = 1024
SEEN_S, KNOWN_S = 0.5, 4.5
"""What was made so lately for the screen of such a fleet will do for the rules, and for what jobs there are and do."""
MOST_FRAMES = 48
"""So many lines of such a fleet are read in a row, which takes some milliseconds: keys do not wait longer."""
THREADS = 32
"""Threads for name look-ups and connection options, which block; the default of five per core makes nodes wait."""


class Session:
    """Keeps the state of a fleet; the Sink of its source."""

    def __init__(
        self,
        source: Source,
        catalogue: Mapping[str, Metric],
        clock: Clock | None = None,
        rules: Rules | None = None,
        taps: Sequence[Tap] = (),
        *,
        remember: bool = False,
        marks: MarkFile | None = None,
        night: NightKeeper | None = None,
    ) -> None:
        """Take where lines come from, what metrics there are, what judges them, and what else gets the lines; `run`
        starts it. `remember` keeps a history; the mark outlives the session in `marks`, its findings in `night`."""
        self.source = source
        self.taps = tuple(taps)
        self.clock: Clock = clock or SystemClock()
        self.lost_lines = 0
        """Lines and link states that a defect of ours cost."""
        self.last_defect = ""
        self.history = History(catalogue)
        """What values were in the last minutes; empty in a session that does not remember."""
        self.heard = asyncio.Event()
        """Set once a node has sent its values."""
        self._remember = remember
        self._marks = MarkKeeper(marks)
        self._state = FleetState(catalogue, source.nodes, source.fleet)
        self._rules = rules
        self._judging = Judging(rules) if rules is not None else None
        self._findings: tuple[Finding, ...] = ()
        self._known_findings: set[str] = set()
        self._loud_findings: set[str] = set()
        self.night = night or NightKeeper()
        """What was found tonight, and what people said about it."""
        self._links: dict[str, None] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self._changed = True
        self._frames: list[Frame] = []
        """Lines that were not read yet, and ..."""
        self._most_frames = MOST_FRAMES if len(source.nodes) > MANY_NODES else 1
        """... how many of them may wait, for no longer than TEND_S."""
        # A fleet over SSH may have one; a recording and this machine have none.
        self.scheduler: Scheduler | None = getattr(source, "scheduler", None)
        self._scheduler_read = False
        self._snapshot: FleetSnapshot | None = None
        self._evaluated_mono: float | None = None
        self._memory = MemoryTuning()
        self.jobs = Jobs(source, catalogue, self.clock, self._note)
        self.ondemand = OnDemandRuns(source, self.clock, self.snapshot, self._on_probe_result)

    def on_frame(self, frame: Frame) -> None:
        """Take one raw line of a node; never raises."""
        self._changed = True
        for tap in self.taps:
            try:
                tap.on_frame(frame)
            except Exception as error:  # noqa: BLE001  what is not recorded can still be shown
                self._defect(error)
        self._frames.append(frame)
        if len(self._frames) >= self._most_frames or not self.heard.is_set():
            self._read()

    def _read(self) -> None:
        """Read the lines that wait: many in a row take half the time of one now and then, whose code and data other
        things have driven from the processor's caches."""
        frames, self._frames = self._frames, []
        for frame in frames:
            try:
                message = parse(frame.raw)
                self._state.apply(frame, message)
                if isinstance(message, Full) and not self.heard.is_set():
                    # The first picture with data does not wait until the next snapshot is due.
                    self._snapshot = None
                    self.heard.set()
            except ParseError:
                with suppress(KeyError):
                    self._state.count_bad(frame.node)
            except Exception as error:  # noqa: BLE001  one line must not end the session, whatever is wrong with it
                self._defect(error)

    def on_link(self, node: str, link: Link) -> None:
        """Take the state of the link to a node; never raises."""
        _log.debug("link of %s: %s %s", node, link.state.value, link.detail)
        self._changed = True
        for tap in self.taps:
            try:
                tap.on_link(node, link)
            except Exception as error:  # noqa: BLE001  as above
                self._defect(error)
        self._read()
        try:
            self._state.set_link(node, link)
        except Exception as error:  # noqa: BLE001  as above
            self._defect(error)
        else:
            self._links[node] = None

    def on_scheduler(self, reading: SchedulerReading) -> None:
        """Take what the scheduler says; never raises."""
        self._changed = self._scheduler_read = True
        self._note("scheduler", reading)
        try:
            self._state.set_scheduler(reading)
        except Exception as error:  # noqa: BLE001  as above
            self._defect(error)

    def _on_probe_result(self, result: Result) -> None:
        self._note(ON_DEMAND, result_json(result))

    def _note(self, kind: str, value: object) -> None:
        for tap in self.taps:
            try:
                tap.on_note(kind, value)
            except Exception as error:  # noqa: BLE001  as above
                self._defect(error)

    @property
    def awaits_scheduler(self) -> bool:
        """Tell whether there is a scheduler that has not answered yet."""
        return self.scheduler is not None and not self._scheduler_read

    def snapshot(self, *, latest: bool = False) -> FleetSnapshot:
        """Return the state of this moment, at most REBUILD_S old; with `latest` with all that has come."""
        mono = self.clock.monotonic()
        if self._snapshot is not None and not latest:
            age_s = mono - self._snapshot.mono
            if 0 <= age_s < (REBUILD_S if self._changed else AGE_S):
                if self._snapshot.night is not self.night.entries:
                    self._snapshot = replace(self._snapshot, night=self.night.entries)
                return self._snapshot
        self._changed = False
        self._read()
        snapshot = self._state.snapshot(self.clock.wall(), mono, latest=latest)
        for error in self._state.take_defects():
            self._defect(error)
        try:
            snapshot = self.jobs.picture(snapshot)
        except Exception as error:  # noqa: BLE001  what is wrong about one job must not cost the fleet
            self._defect(error)
        self._snapshot = replace(
            snapshot,
            findings=self._findings,
            night=self.night.entries,
            simulated=self.source.simulated,
            read_only=getattr(self.source, "read_only", False),
        )
        if self._remember and len(self._state.nodes) <= MANY_NODES:
            self.history.take(self._snapshot)
        return self._snapshot

    def prepare(self) -> Iterator[None]:
        """Do most of what the next snapshot takes, in steps between which a key may come."""
        self._read()
        yield
        yield from self._state.prepare()

    def rule(self, id_: str) -> Rule | None:
        """Return the rule of that id, None where nothing judges or there is none."""
        rule_of = getattr(self._rules, "rule", None)
        return rule_of(id_) if rule_of is not None else None

    @property
    def mark(self) -> Mark | None:
        """Return the mark, None when none is set."""
        return self._marks.mark

    def set_mark(self) -> Mark:
        """Remember the totals of all counters, to tell what was counted since now."""
        return self._marks.set(self.snapshot(latest=True))

    def clear_mark(self) -> None:
        """Forget the mark."""
        self._marks.clear()

    def evaluate(self) -> FleetSnapshot:
        """Let the rules look at all that has come, and return the snapshot with their findings."""
        snapshot = self.snapshot(latest=True)
        self._evaluated_mono = snapshot.mono
        if self._judging is None:
            return snapshot
        try:
            found = self._judging.findings(snapshot)
        except Exception as error:  # noqa: BLE001  broken rules keep the findings of before
            self._defect(error)
            return snapshot
        return self._take_findings(snapshot, found)

    async def _evaluate_beside(self, judging: Judging) -> None:
        """Do what `evaluate` does, in a large fleet without keeping lines and keys waiting."""
        # What is on the screen of a large fleet is young enough, and is not made twice.
        snapshot = self.recent(SEEN_S) or self.snapshot(latest=True)
        self._evaluated_mono = snapshot.mono
        try:
            found = await judging.findings_beside(snapshot)
        except Exception as error:  # noqa: BLE001  as above
            self._defect(error)
        else:
            if found is not None and self._evaluated_mono == snapshot.mono:
                self._take_findings(snapshot, found)

    def _take_findings(self, snapshot: FleetSnapshot, found: tuple[Finding, ...]) -> FleetSnapshot:
        """Take what was found in `snapshot` and return it with that."""
        self._findings = found = self.night.take(found, snapshot.wall)
        # Another one may have been built while the rules looked; it goes on being given out until it is old.
        latest = self._snapshot or snapshot
        self._snapshot = replace(latest, findings=found, night=self.night.entries)
        return self._snapshot if latest is snapshot else replace(snapshot, findings=found, night=self.night.entries)

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call `callback` for changes that must not wait to be pulled; return what ends it."""
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._subscribers.remove(callback)

        return unsubscribe

    async def run(self) -> None:
        """Collect until cancelled, or until the source ends by itself."""
        self._memory.start(asyncio.get_running_loop(), THREADS)
        for tap in self.taps:
            tap.start()
        jobs = self.jobs.run(lambda: self.recent() or self.snapshot())
        tending = [asyncio.create_task(work) for work in (self._tend_forever(), jobs)]
        if self.scheduler is not None:
            tending.append(asyncio.create_task(follow(self.scheduler, self.on_scheduler)))
        try:
            await self.source.run(self)
        finally:
            for task in tending:
                task.cancel()
            await asyncio.gather(*tending, return_exceptions=True)
            await self.ondemand.close()
            for tap in self.taps:
                tap.stop()
            if self._judging is not None:
                self._judging.stop()
            self.night.stop()
            self._memory.stop()

    def take_notices(self) -> list[str]:
        """Return what people should be told about the session itself, once."""
        notices = [notice for tap in self.taps for notice in tap.take_notices()]
        notices += self._marks.take_notices() + self.night.take_notices()
        # Rules that follow their files tell of what is wrong with them.
        of_rules = getattr(self._rules, "take_notices", None)
        notices += [] if of_rules is None else of_rules()
        # A source that runs commands keeps a journal of them; a recording runs none.
        of_source = getattr(self.source, "take_notices", None)
        return notices if of_source is None else notices + of_source()

    def retry(self, node: str) -> None:
        """Try the link to `node` now, if it waits for its next attempt and the source can."""
        retry = getattr(self.source, "retry", None)
        if retry is not None:
            retry(node)

    def tend(self) -> None:
        """Do what is due: ask for full frames, evaluate the rules, push what changed."""
        self._ask_full()
        if self._is_evaluation_due():
            self.evaluate()
        self._end_round()

    async def _tend_forever(self) -> None:
        while True:
            await asyncio.sleep(TEND_S)
            try:
                self._ask_full()
                if self._judging is not None and self._is_evaluation_due():
                    await self._evaluate_beside(self._judging)
                self._end_round()
            except Exception as error:  # noqa: BLE001  the next round may succeed
                self._defect(error)

    def _ask_full(self) -> None:
        self._read()
        for node in self._state.take_full_requests():
            try:
                self.source.ask_full(node)
            except Exception as error:  # noqa: BLE001  one node that cannot be asked must not keep the others waiting
                self._defect(error)

    def _is_evaluation_due(self) -> bool:
        since = self._evaluated_mono
        if self._judging is None or since is None:
            return self._judging is not None
        waited_s = self.clock.monotonic() - since
        if len(self._state.nodes) <= MANY_NODES:
            return waited_s >= EVALUATE_S
        return waited_s >= EVALUATE_MANY_S + (AGE_S if self.recent(SEEN_S) is None else 0.0)

    def recent(self, most_s: float = KNOWN_S) -> FleetSnapshot | None:
        """Return the last snapshot of a large fleet, None when it is older than that."""
        last = self._snapshot if len(self._state.nodes) > MANY_NODES else None
        return last if last is not None and 0 <= self.clock.monotonic() - last.mono < most_s else None

    def _end_round(self) -> None:
        self._memory.tend(self._state.pending, len(self._state.nodes))
        self.night.tend(self.clock.wall())
        if self._remember and self._snapshot is not None:
            # Of a large fleet that takes as long as the snapshot itself: not both in one step.
            self.history.take(self._snapshot)
        self._push()

    def _push(self) -> None:
        active = {finding.id: finding for finding in self._findings if finding.state == "active"}
        wall = self.clock.wall()
        loud = {id_ for id_ in active if self.night.is_loud(id_, wall)}
        change = Change(
            tuple(finding for id_, finding in active.items() if id_ not in self._known_findings),
            tuple(active[id_] for id_ in active if id_ in loud - self._loud_findings),
            tuple(self._links),
        )
        self._known_findings, self._loud_findings = set(active), loud
        self._links.clear()
        if not (change.findings or change.loud or change.links):
            return
        for callback in tuple(self._subscribers):
            try:
                callback(change)
            except Exception as error:  # noqa: BLE001  one listener must not keep the others waiting
                self._defect(error)

    def _defect(self, error: Exception) -> None:
        self.lost_lines += 1
        self.last_defect = f"{type(error).__name__}: {error}"[:200]
        _log.error("a line or a link was lost", exc_info=error)
