"""What the guided triage of the console is asked from: kept while the console runs, read only while somebody asks."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.analysis.triage_watch import Watch
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.model.verdict import Scene
from stethoscope.session.job_notes import note_of
from stethoscope.session.probe_result import measured_note, measured_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stethoscope.analysis.triage_ask import Answer, Asked
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.frame import Frame, Link
    from stethoscope.model.night import Entry
    from stethoscope.model.scheduler import Job
    from stethoscope.model.verdict import Measured, Seen
    from stethoscope.session.books_kept import KeptBooks
    from stethoscope.session.heard import Hearing
    from stethoscope.session.job_notes import JobNote
    from stethoscope.session.probe_result import Result

LOOK_S, MANY_LOOK_S, MANY_NODES = 2.0, 10.0, 256
"""How often it is looked who is late and who fell silent, and how often at a fleet of more than so many nodes."""
_HELD = 4_000_000
"""Characters of job logs that are held until the first question."""


class Moment(NamedTuple):
    """What belongs to one moment, taken on the event loop; the rest of the work is done beside it."""

    snapshot: FleetSnapshot
    entries: tuple[Entry, ...]
    jobs: tuple[Job, ...]
    seen: tuple[Seen, ...]
    measured: tuple[Measured, ...]
    notes: tuple[JobNote, ...]
    focus: str
    watched_since: float | None
    """Wall seconds."""


class Attending:
    """Watches the jobs of a session, as one of its taps, and answers what is asked about it."""

    def __init__(self, directories: Sequence[Path] = ()) -> None:
        """Know nothing yet; `directories` are those of an operator's own playbooks."""
        self._directories = tuple(directories)
        self._watch = Watch()
        self._looked: float | None = None
        self._every_s = LOOK_S
        self._since: float | None = None
        self._noticed: tuple[tuple[Job, ...], tuple[Seen, ...]] = ((), ())
        """As it was after the last look, which another thread may be making anew."""
        self._notes: deque[JobNote] = deque()
        self._size = 0
        self._hearing: Hearing | None = None
        self._books: KeptBooks | None = None
        self._measured_then: dict[tuple[str, str], Measured] = {}
        self._aimed: dict[tuple[str, str], str] = {}
        """By probe and the place that it ran at, the place that was asked about."""

    def watched_s(self, snapshot: FleetSnapshot) -> float:
        """Return for how long it has been watched."""
        return 0.0 if self._since is None else max(0.0, snapshot.mono - self._since)

    def is_due(self, mono: float) -> bool:
        """Tell whether a look at the state of this moment would tell anything new: to picture a large fleet costs."""
        return self._looked is None or not 0 <= mono - self._looked < self._every_s

    def look(self, snapshot: FleetSnapshot) -> None:
        """Take in a snapshot when that is due, in a thread: for 2,000 nodes it takes a tenth of a second.

        One from before begins everything anew: somebody went back in time.
        """
        if self._looked is not None and snapshot.mono < self._looked:
            self._watch, self._looked, self._since, self._hearing = Watch(), None, None, None
        self._every_s = MANY_LOOK_S if len(snapshot.nodes) > MANY_NODES else LOOK_S
        if self.is_due(snapshot.mono):
            self._looked = snapshot.mono
            if self._since is None and any(node.frames for node in snapshot.nodes):
                self._since = snapshot.mono
            self._watch.look(snapshot)
            self._noticed = self._watch.jobs, self._watch.seen

    def news(
        self, snapshot: FleetSnapshot, entries: Mapping[str, Entry], results: Mapping[Any, Result]
    ) -> tuple[object, ...]:
        """Return what is another one where another answer is to be expected: what was noticed, findings that came or
        went, what was measured, what jobs do. Values and ages change all the time and are none of it."""
        found = tuple((entry.id, entry.is_active, entry.finding.severity) for entry in entries.values())
        made = tuple((key, result.at) for key, result in results.items())
        jobs = tuple((id_, standing.phase) for id_, standing in snapshot.standings.items())
        return self._watch.version, found, made, jobs, snapshot.jobs

    def aim(self, probe: str, place: str, asked_about: str) -> None:
        """Remember that what `probe` says at `place` answers a question about another place."""
        self._aimed[probe, place] = asked_about

    def moment(
        self, snapshot: FleetSnapshot, entries: Mapping[str, Entry], results: Mapping[Any, Result], focus: str
    ) -> Moment:
        """Return all that belongs to this moment; `results` are those of on-demand probes."""
        notes = tuple(self._notes)
        self._notes.clear()
        self._size = 0
        # In a recording nothing runs: what was measured then is told by its notes.
        measured = tuple(map(self._measured, results.values())) or tuple(self._measured_then.values())
        jobs, seen = self._noticed
        since = None if self._since is None else snapshot.wall - self.watched_s(snapshot)
        return Moment(snapshot, tuple(entries.values()), jobs, seen, measured, notes, focus, since)

    def _measured(self, result: Result) -> Measured:
        measured = measured_of(result)
        place = self._aimed.get((measured.probe, measured.place))
        return measured if place is None else replace(measured, place=place)

    def answer(self, moment: Moment, answers: Mapping[tuple[str, str], Answer]) -> tuple[Scene, Asked]:
        """Return the scene of a moment and what is asked about it; takes up to a second of work, one at a time, in a
        thread. DataError when a playbook is broken."""
        # Loaded when somebody asks: the first picture of the console does not wait for it.
        from stethoscope.analysis.triage_ask import ask
        from stethoscope.session.heard import Hearing
        from stethoscope.specs.codes import load_codes
        from stethoscope.specs.signature import load_signatures

        if self._books is None:
            from stethoscope.session.books_kept import KeptBooks

            self._books = KeptBooks(self._directories)
        books = self._books.now()
        if self._hearing is None:
            self._hearing = Hearing(
                load_signatures(*self._directories), load_codes(*self._directories), moment.snapshot.wall
            )
        hearing = self._hearing
        hearing.kernels(moment.snapshot, {job.id: job.nodes for job in moment.jobs})
        for note in moment.notes:
            hearing.printed(note.id, note.data, name=note.path)
        scene = Scene(
            now_s=moment.snapshot.wall,
            snapshot=moment.snapshot,
            entries=moment.entries,
            logs=hearing.judged(moment.snapshot.wall),
            jobs=moment.jobs,
            measured=moment.measured,
            focus=moment.focus,
            seen=moment.seen,
            watched_since=moment.watched_since,
        )
        return scene, ask(scene, books, answers)

    # ---- as a tap

    def on_frame(self, frame: Frame) -> None:
        """Frames are folded by the session."""

    def on_link(self, node: str, link: Link) -> None:
        """Links stand in the snapshot."""

    def on_note(self, kind: str, value: object) -> None:
        """Hold the lines of a job's log until somebody asks; the oldest go when they are too many."""
        measured = measured_note(value) if kind == ON_DEMAND else None
        if measured is not None:
            self._measured_then[measured.place, measured.probe] = measured
        note = note_of(kind, value)
        if note is None:
            return
        self._notes.append(note)
        self._size += _size(note)
        while self._size > _HELD:
            self._size -= _size(self._notes.popleft())

    def start(self) -> None:
        """Forget what logs said: they are told from a beginning, in a recording perhaps once more."""
        self._notes.clear()
        self._size = 0
        self._hearing = None
        self._measured_then.clear()

    def stop(self) -> None:
        """There is nothing to end."""

    def take_notices(self) -> list[str]:
        """Return what people should know of the playbooks, once."""
        return self._books.take_notices() if self._books is not None else []


def _size(note: JobNote) -> int:
    return sum(map(len, note.lines)) + 200
