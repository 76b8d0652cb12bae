"""The session of a replay: a place on a tape that moves by itself, and what an operator does with it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stethoscope.clock import ReplayClock, SystemClock, iso
from stethoscope.errors import UsageError
from stethoscope.session.check import CheckResult
from stethoscope.session.mark import MarkKeeper
from stethoscope.session.player import LEAD_S, Player
from stethoscope.specs.duration import duration_s

if TYPE_CHECKING:
    from stethoscope.analysis.history import History
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.mark import Mark
    from stethoscope.session.night import NightKeeper
    from stethoscope.session.player import MakeSession
    from stethoscope.session.taps import Tap
    from stethoscope.specs.rule import Rule
    from stethoscope.store.tape import Tape

SPEEDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
STEP_S = 0.05
SLICE_S = 0.04
"""The longest time that playing takes from the console at once."""
RECORDS, MOST_S = 8_000, 195.0
"""Records and seconds that are played again before a place that was jumped to, beyond what is needed, so that windows
of rules are filled: a second or two of work."""
CHECK_LEAD_S, CHECK_RECORDS, CHECK_MOST_S = 195.0, 40_000, 735.0
"""The same for a check, which is asked once: windows of two minutes at least, of eleven where that takes seconds."""

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReplayState:
    """What the top line says of a replay."""

    speed: float
    paused: bool
    seeking: bool
    ended: bool
    share: float
    """How much of the recording is behind, 0 to 1."""
    restarts: int
    """Grows when everything was begun anew: what is on the screen has no past."""


class ReplaySession:
    """Plays a tape at a pace; gives out snapshots like a live session."""

    def __init__(
        self, tape: Tape, make: MakeSession, *, at: float = 0.0, speed: float = 1.0, pace: Clock | None = None
    ) -> None:
        """Begin at second `at` of `tape`, playing `speed` times as fast as `pace`, the clock of this machine."""
        self.tape = tape
        self.clock = ReplayClock()
        self._pace: Clock = pace or SystemClock()
        self._player = Player(tape, make)
        self._speed = speed
        self._paused = False
        self._goal: float | None = None
        self._until_change = False
        self._held: FleetSnapshot | None = None
        self._before: float | None = None
        self._marks = MarkKeeper()
        self._show()
        if at > 0:
            self.seek_to(at)

    # ---- what the console reads

    @property
    def taps(self) -> tuple[Tap, ...]:
        """Return what hears the notes of the recording."""
        return self._player.taps

    @taps.setter
    def taps(self, taps: tuple[Tap, ...]) -> None:
        self._player.taps = taps

    def snapshot(self) -> FleetSnapshot:
        """Return the state at this place; while another one is sought, that from where it was left."""
        if self._goal is not None and self._held is not None:
            return self._held
        return self._player.session.snapshot()

    @property
    def history(self) -> History:
        """Return what values were in the minutes before this place, as far as they were played."""
        return self._player.session.history

    @property
    def night(self) -> NightKeeper:
        """Return what was found up to this place, as far as it was played; nothing can be said about it."""
        return self._player.session.night

    def rule(self, id_: str) -> Rule | None:
        """Return the rule of that id, None when there is none."""
        return self._player.session.rule(id_)

    @property
    def mark(self) -> Mark | None:
        """Return the mark of this replay, which ends with it."""
        return self._marks.mark

    def set_mark(self) -> Mark:
        """Set the mark at this place."""
        return self._marks.set(self.snapshot())

    def clear_mark(self) -> None:
        """Forget the mark."""
        self._marks.clear()

    def take_notices(self) -> list[str]:
        """Return what those who listen have to tell, once."""
        return [notice for tap in self.taps for notice in tap.take_notices()]

    def retry(self, node: str) -> None:
        """There are no links to try."""

    @property
    def state(self) -> ReplayState:
        """Return how the replay stands."""
        return ReplayState(
            speed=self._speed,
            paused=self._paused,
            seeking=self._goal is not None,
            ended=self._goal is None and self._player.t >= self.tape.end,
            share=min(1.0, self.clock.monotonic() / self.tape.end) if self.tape.end > 0 else 1.0,
            restarts=self._player.restarts if self._goal is None else 0,
        )

    # ---- what the keys do

    def toggle_pause(self) -> None:
        """Stand still or go on; what is being sought is left, and the replay stands where it is."""
        if self._goal is not None:
            self._arrive()
            self._paused = True
        else:
            self._paused = not self._paused

    def change_speed(self, steps: int) -> None:
        """Play faster or slower by so many steps of SPEEDS."""
        nearest = min(range(len(SPEEDS)), key=lambda place: abs(SPEEDS[place] - self._speed))
        self._speed = SPEEDS[max(0, min(len(SPEEDS) - 1, nearest + steps))]

    def seek_by(self, seconds: float) -> None:
        """Go so far forward, or back."""
        self.seek_to((self._goal if self._goal is not None else self._player.t) + seconds)

    def seek_to(self, t: float) -> None:
        """Go to second `t` of the tape: forward by playing fast, back or far ahead by starting again before it."""
        goal = max(0.0, min(t, self.tape.end))
        self._hold()
        lead_in = self.tape.lead_in(goal, LEAD_S, RECORDS, MOST_S)
        if goal < self._player.t or lead_in > self._player.t:
            self._player.begin(lead_in)
        self._goal, self._until_change = goal, False

    def seek_words(self, text: str) -> None:
        """Go to the time that `text` means, as `parse_at` reads it; UsageError when it means none."""
        self.seek_to(parse_at(text, self.tape))

    def next_change(self) -> None:
        """Go on to where a finding comes or clears, or a link changes."""
        self._hold()
        self._player.changed = False
        self._goal, self._until_change = self.tape.end, True

    def _hold(self) -> None:
        if self._goal is None and self._player.restarts:
            self._held = self._player.session.snapshot()

    def _arrive(self) -> None:
        self._goal = self._held = None
        self._until_change = False
        self._show()
        self._player.session.snapshot(latest=True)

    def _show(self) -> None:
        self.clock.set(self._player.clock.wall(), self._player.clock.monotonic())

    # ---- how it moves

    async def run(self) -> None:
        """Play until cancelled; at the end of the tape wait for what the operator does."""
        while True:
            busy = self.advance()
            await asyncio.sleep(0 if busy else STEP_S)

    def advance(self) -> bool:
        """Play what is due, for a moment at most; return whether there is more to do at once."""
        now = self._pace.monotonic()
        passed_s = 0.0 if self._before is None else max(0.0, now - self._before)
        self._before = now

        def go_on() -> bool:
            return self._pace.monotonic() - now < SLICE_S

        if self._goal is not None:
            if self._player.play(self._goal, go_on, until_change=self._until_change):
                self._arrive()
            return self._goal is not None
        if not self._paused and self._player.t < self.tape.end:
            # A machine that cannot keep up plays more slowly.
            self._player.play(self._player.t + min(passed_s, 1.0) * self._speed, go_on)
            self._show()
        return False


def check_recording(tape: Tape, make: MakeSession, at: float) -> CheckResult:
    """Return what the rules find at second `at` of `tape`, with windows as long as the recording allows."""
    player = Player(tape, make)
    player.begin(tape.lead_in(at, CHECK_LEAD_S, CHECK_RECORDS, CHECK_MOST_S))
    player.play(at)
    snapshot = player.session.evaluate()
    return CheckResult(
        snapshot=snapshot,
        seconds=round(player.t - player.began, 3),
        reached=tuple(node.name for node in snapshot.nodes if node.frames),
        unreached=tuple(node.name for node in snapshot.nodes if not node.frames),
        seen_once=tuple(node.name for node in snapshot.nodes if node.frames == 1),
        defects=player.session.lost_lines,
        history=player.session.history,
    )


def parse_at(text: str, tape: Tape) -> float:
    """Return the second of `tape` that is meant by `02:14:07` (the last one recorded), an ISO 8601 time, `+5m` from the
    start or `-5m` from the end; times without a zone are UTC. UsageError when it is none, or was not recorded."""
    first, last = tape.wall_span
    word = text.strip()
    if word[:1] in ("+", "-"):
        try:
            seconds = duration_s(word[1:])
        except ValueError as error:
            raise UsageError(f"{text}: {error}") from None
        t = seconds if word[0] == "+" else tape.end - seconds
        if not 0 <= t <= tape.end:
            raise UsageError(f"{text} is outside of the recording, which is {tape.end:.0f} s long")
        return t
    wall = _clock_time(word, last) if _TIME.fullmatch(word) else _iso_time(word)
    # A time of whole seconds means all of that second.
    if not first - 1 <= wall <= last + 1:
        raise UsageError(f"{text} was not recorded: the recording is from {iso(first)} to {iso(last)}")
    return tape.at_wall(wall)


def _clock_time(word: str, last: float) -> float:
    match = _TIME.fullmatch(word)
    assert match is not None
    hours, minutes, seconds = int(match[1]), int(match[2]), float(match[3] or 0)
    if hours > 23 or minutes > 59 or seconds >= 60:
        raise UsageError(f"{word} is not a time of day")
    end = datetime.fromtimestamp(last, UTC)
    wanted = end.replace(hour=0, minute=0, second=0, microsecond=0)
    wanted += timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return (wanted if wanted.timestamp() <= last + 1 else wanted - timedelta(days=1)).timestamp()


def _iso_time(word: str) -> float:
    try:
        when = datetime.fromisoformat(word)
    except ValueError:
        raise UsageError(f'"{word}" is no time: write 02:14:07, 2026-03-14T02:14:07Z, +5m or -5m') from None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
