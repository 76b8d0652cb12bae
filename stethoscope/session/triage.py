"""The unattended diagnosis of a live fleet or of a recording: watches for a while, asks, measures what would settle it,
and asks again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from stethoscope.analysis.triage import diagnose
from stethoscope.analysis.triage_watch import Watch
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.errors import StethoscopeError
from stethoscope.model.verdict import Scene
from stethoscope.session.heard import Hearing
from stethoscope.session.job_notes import JOB_LOG, note_of
from stethoscope.session.player import Player
from stethoscope.session.probe_result import measured_note, measured_of
from stethoscope.specs.codes import load_codes
from stethoscope.specs.signature import load_signatures
from stethoscope.store.format import RecordType
from stethoscope.text import clean_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.model.frame import Frame, Link
    from stethoscope.model.verdict import Diagnosis, Measured, Wanted
    from stethoscope.session.player import MakeSession
    from stethoscope.session.probe_result import Result
    from stethoscope.session.session import Session
    from stethoscope.specs.playbook import Playbooks
    from stethoscope.store.tape import Tape

WATCH_S = 20.0
"""So long a live fleet is watched before the first answer: three frames of every node, and the past of job logs."""
LOOK_S = 2.0
LEAD_S, STEP_S = 1200.0, 5.0
"""So long before the asked moment a recording is played, and how often it is looked at."""
_MOST_RECORDS = 2_000_000
ROUNDS, AT_ONCE = 3, 24
"""So often it measures and asks again, and how many measurements it makes at once."""


class Witness:
    """Everything of a session that the diagnosis reads; a tap, so that it hears what job logs say."""

    def __init__(self, now: float) -> None:
        """Know nothing yet; `now` is the wall second at which it begins."""
        self.watch = Watch()
        self.measured: dict[tuple[str, str], Measured] = {}
        self._hearing = Hearing(load_signatures(), load_codes(), now)
        self._since: float | None = None

    def look(self, session: Session) -> None:
        """Let the rules look, and take in what is there."""
        snapshot = session.evaluate()
        if self._since is None and any(node.frames for node in snapshot.nodes):
            self._since = snapshot.wall
        self.watch.look(snapshot)
        self._hearing.kernels(snapshot, {job.id: job.nodes for job in self.watch.jobs})

    def scene(self, session: Session, focus: str = "") -> Scene:
        """Return all that the diagnosis may read at this moment."""
        snapshot = session.snapshot()
        return Scene(
            now_s=snapshot.wall,
            snapshot=snapshot,
            entries=tuple(session.night.entries.values()),
            logs=self._hearing.judged(snapshot.wall),
            jobs=self.watch.jobs,
            measured=tuple(self.measured[key] for key in sorted(self.measured)),
            focus=focus,
            seen=self.watch.seen,
            watched_since=self._since,
        )

    def take(self, result: Result, place: str = "") -> None:
        """Take the answer of an on-demand probe, asked for at `place`."""
        measured = measured_of(result, place)
        self.measured[measured.place, measured.probe] = measured

    def recall(self, kind: str, value: object) -> None:
        """Take a note of a recording: lines of a job's log, or what was measured then."""
        measured = measured_note(value) if kind == ON_DEMAND else None
        if measured is not None:
            self.measured[measured.place, measured.probe] = measured
        else:
            self.on_note(kind, value)

    # ---- as a tap

    def on_frame(self, frame: Frame) -> None:
        """Frames are folded by the session."""

    def on_link(self, node: str, link: Link) -> None:
        """Links stand in the snapshot."""

    def on_note(self, kind: str, value: object) -> None:
        """Take the lines of a job's log."""
        note = note_of(kind, value)
        if note is not None:
            self._hearing.printed(note.id, note.data, name=note.path)

    def start(self) -> None:
        """There is nothing to begin."""

    def stop(self) -> None:
        """There is nothing to end."""

    def take_notices(self) -> list[str]:
        """There is nothing to tell."""
        return []


async def triage_live(
    session: Session,
    witness: Witness,
    books: Playbooks,
    *,
    focus: str = "",
    watch_s: float = WATCH_S,
    on_progress: Callable[[str], None] | None = None,
) -> tuple[Scene, Diagnosis]:
    """Watch the fleet of `session`, not yet running and with `witness` among its taps, and return the diagnosis with
    what it was asked from.

    What would settle it is measured where that is allowed; a node that does not answer costs nothing but itself. What
    ends the source ends this.
    """
    running = asyncio.create_task(session.run())
    try:
        await watch(session, witness, running, watch_s, on_progress)
        scene = witness.scene(session, focus)
        found = diagnose(scene, books)
        asked: set[tuple[str, str]] = set()
        for _ in range(0 if session.ondemand.why_not else ROUNDS):
            wanted = [one for one in found.wanted if (one.place, one.probe) not in asked][:AT_ONCE]
            if not wanted:
                break
            if on_progress is not None:
                on_progress(f"measuring: {', '.join(dict.fromkeys(one.probe for one in wanted))}")
            asked.update((one.place, one.probe) for one in wanted)
            await measure(session, witness, wanted)
            witness.look(session)
            scene = witness.scene(session, focus)
            found = diagnose(scene, books)
        return scene, found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def watch(
    session: Session,
    witness: Witness,
    running: asyncio.Task[None],
    watch_s: float,
    on_progress: Callable[[str], None] | None = None,
) -> None:
    """Look at a fleet for a while, or until `running`, its session, ends by itself; what ended it is raised."""
    clock = session.clock
    started = clock.monotonic()
    while True:
        await asyncio.wait({running}, timeout=LOOK_S)
        if running.done():
            running.result()
            return
        witness.look(session)
        elapsed_s = clock.monotonic() - started
        if on_progress is not None:
            on_progress(f"watching the fleet, {elapsed_s:.0f} of {watch_s:.0f} s")
        if elapsed_s >= watch_s:
            return


async def measure(session: Session, witness: Witness, wanted: Sequence[Wanted]) -> None:
    """Run what is wanted, each on its own: what cannot be run here is left out."""
    batches = []
    for one in wanted:
        if one.probe not in session.ondemand.probes:
            continue
        try:
            batches.append((one.place, session.ondemand.start(session.ondemand.preview(one.probe, [one.place]))))
        except StethoscopeError:
            # No such device or node here.
            continue
    tasks = [batch.task for _, batch in batches if batch.task is not None]
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
    for place, batch in batches:
        for result in batch.results:
            witness.take(result, place if len(batch.results) == 1 else "")


def scene_of_recording(tape: Tape, make: MakeSession, at: float, *, focus: str = "") -> Scene:
    """Return all that can be known at second `at` of a recording, with what it holds of the twenty minutes before; the
    same recording gives the same scene."""
    player = Player(tape, make)
    begin = tape.lead_in(at, LEAD_S, _MOST_RECORDS, LEAD_S)
    player.begin(begin)
    witness = Witness(player.clock.wall())
    notes = iter(_notes(tape, begin, at))
    note = next(notes, None)
    while True:
        to = min(at, player.t + STEP_S)
        player.play(to)
        while note is not None and note[0] <= player.t:
            witness.recall(note[1], note[2])
            note = next(notes, None)
        witness.look(player.session)
        if player.t >= at or player.t >= tape.end:
            break
    return witness.scene(player.session, focus)


def _notes(tape: Tape, begin: float, end: float) -> list[tuple[float, str, object]]:
    """Return what a recording holds of job logs and of measurements between two seconds of it."""
    found = []
    for played in tape.play(begin):
        if played.t > end:
            break
        if played.record.type != RecordType.NOTE:
            continue
        try:
            note = msgspec.json.decode(played.record.payload)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(note, dict) and note.get("kind") in (JOB_LOG, ON_DEMAND):
            # A file may have been changed: what it says passes the gate again.
            found.append((played.t, str(note["kind"]), clean_json(note.get("value"))))
    return found
