"""What slow counters counted, kept over the console's end: read in a thread at the start, saved every few minutes."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from stethoscope.analysis.past import Past
from stethoscope.errors import DataError
from stethoscope.paths import of_fleet
from stethoscope.store.slow import SlowFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from stethoscope.analysis.layout import Layout
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot, Floats
    from stethoscope.model.frame import Frame, Link
    from stethoscope.model.metric import Metric
    from stethoscope.model.past import Change, Standing

_log = logging.getLogger(__name__)
SAVE_S = 300.0
"""How often what is new is saved: what a kill may cost, and that is found again in the totals."""
END_S = 10.0
"""How long the end waits for the disk."""
SAVED_AT_ONCE = 128
"""Nodes that are saved in one piece: where all devices of 2,000 nodes stand takes 20 MiB."""


class GuardedPast(Past):
    """A past that rules look at in one thread while another saves it; it remembers nothing before it was read."""

    def __init__(self, catalogue: Mapping[str, Metric]) -> None:
        """Wait for `begin`."""
        super().__init__(catalogue)
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Look at totals from now on."""
        with self._lock:
            self._begun = True

    def take(self, snapshot: FleetSnapshot, layout: Layout, *, at_once: bool = False) -> None:
        """Look at the totals of `snapshot`, as Past does."""
        with self._lock:
            if self._begun:
                super().take(snapshot, layout, at_once=at_once)

    def change(self, metric: str, window_s: float, wall: float) -> tuple[Floats, Floats, Floats]:
        """Return what changed, as Past does."""
        with self._lock:
            return super().change(metric, window_s, wall)

    def standing(self, metric: str, window_s: float, wall: float) -> tuple[object, ...]:
        """Return what stands as long as nothing changes, as Past does."""
        with self._lock:
            return super().standing(metric, window_s, wall)

    def put(self, standings: Iterable[Standing], changes: Iterable[Change], seen: Mapping[str, float]) -> None:
        """Take what was kept, as Past does."""
        with self._lock:
            super().put(standings, changes, seen)

    def put_back(self, standings: Iterable[Standing], changes: Iterable[Change], seen: Mapping[str, float]) -> None:
        """Take again what could not be kept, as Past does."""
        with self._lock:
            super().put_back(standings, changes, seen)

    def take_unsaved(self, most: int | None = None) -> tuple[list[Standing], list[Change], dict[str, float]]:
        """Return what was not kept yet, as Past does."""
        with self._lock:
            return super().take_unsaved(most)


class SlowKeeper:
    """A tap that reads the past of a fleet at the start and saves it now and then, and at the end."""

    def __init__(self, past: GuardedPast, fleet: str, clock: Clock, file: SlowFile | None = None) -> None:
        """Keep `past` in `file`, or in that of the fleet in the user's state directory."""
        self._past = past
        self._clock = clock
        self._file = file or SlowFile(of_fleet("history", fleet, "db"), fleet)
        self._thread: ThreadPoolExecutor | None = None
        self._busy: Future[None] | None = None
        self._saved_mono = 0.0
        self._notices: list[str] = []
        self._is_told = False

    def start(self) -> None:
        """Begin to read."""
        self._saved_mono = self._clock.monotonic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._busy = self._thread.submit(self._read, self._clock.wall())

    def on_frame(self, frame: Frame) -> None:
        """Save when it is time for that."""
        if self._clock.monotonic() - self._saved_mono >= SAVE_S and (self._busy is None or self._busy.done()):
            self._saved_mono = self._clock.monotonic()
            if self._thread is not None:
                self._busy = self._thread.submit(self._save)

    def on_link(self, node: str, link: Link) -> None:
        """Do nothing: a link counts nothing."""

    def on_note(self, kind: str, value: object) -> None:
        """Do nothing, as above."""

    def stop(self) -> None:
        """Save what is new and end."""
        if self._thread is None:
            return
        saved = self._thread.submit(self._save)
        try:
            saved.result(END_S)
        except TimeoutError:
            _log.info("the history of the fleet was not saved in time")
        self._thread.shutdown(wait=False)
        self._thread = None

    def take_notices(self) -> list[str]:
        """Return what went wrong, once."""
        notices, self._notices = self._notices, []
        return notices

    def _read(self, wall: float) -> None:
        try:
            self._past.put(*self._file.read(wall))
        except DataError as error:
            self._say(f"what slow counters counted before is not used: {error}")
            try:
                self._say(f"it lies in {self._file.set_aside(wall)} now")
            except OSError as failure:
                _log.info("cannot set the history aside: %s", failure)
        self._past.begin()

    def _save(self) -> None:
        is_more = True
        while is_more:
            unsaved = self._past.take_unsaved(SAVED_AT_ONCE)
            is_more = bool(unsaved[0])
            try:
                self._file.save(*unsaved)
            except DataError as error:
                self._past.put_back(*unsaved)
                if not self._is_told:
                    self._is_told = True
                    self._say(f"what slow counters count will be lost with this console: {error}")
                return
        self._is_told = False

    def _say(self, notice: str) -> None:
        self._notices.append(notice)
        _log.info("%s", notice)
