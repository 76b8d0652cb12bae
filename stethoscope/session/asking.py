"""What a plain terminal is asked about: a fleet that is watched meanwhile, or one moment of a recording."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from stethoscope.analysis.triage_ask import ask
from stethoscope.errors import UnreachableError
from stethoscope.session.attending import LOOK_S, MANY_LOOK_S, MANY_NODES
from stethoscope.session.focus import check_focus
from stethoscope.session.triage import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.analysis.triage_ask import Answer, Asked
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Scene
    from stethoscope.session.ondemand import OnDemandRuns
    from stethoscope.session.session import Session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.playbook import Playbooks

    Aimed = Mapping[tuple[str, str], str]
    """By probe and the place that it ran at, the place that was asked about."""


class Subject(Protocol):
    """Something that questions are asked about."""

    focus: str

    @property
    def runs(self) -> OnDemandRuns | None:
        """Return what can measure, None where nothing can."""

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the state as it is now."""

    @property
    def mono(self) -> float:
        """Return the monotonic seconds that ages of what runs are counted with."""

    def scene(self, aimed: Aimed) -> Scene:
        """Return all that may be read now."""


async def questions(
    subject: Subject, books: Playbooks, answers: Mapping[tuple[str, str], Answer], aimed: Aimed
) -> tuple[Scene, Asked]:
    """Return a subject as it is now and what is asked about it, worked out in a thread: nodes go on being heard
    meanwhile."""
    scene = subject.scene(aimed)
    return scene, await asyncio.to_thread(ask, scene, books, answers)


class RecordedMoment:
    """One moment of a recording, about which everything is known that ever will be."""

    runs = None
    mono = 0.0

    def __init__(self, scene: Scene) -> None:
        """Ask about what `scene` holds."""
        self._scene = scene
        self.focus = scene.focus

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the state at that moment."""
        return self._scene.snapshot

    def scene(self, aimed: Aimed) -> Scene:
        """Return that moment."""
        return self._scene


class WatchedFleet:
    """A fleet that is watched while somebody is asked about it."""

    def __init__(self, session: Session, witness: Witness, focus: str) -> None:
        """Watch the fleet of `session`, not yet running and with `witness` among its taps."""
        self.session = session
        self.focus = focus
        self._witness = witness
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def runs(self) -> OnDemandRuns | None:
        """Return what can measure."""
        return self.session.ondemand

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the state as it is now."""
        return self.session.snapshot()

    @property
    def mono(self) -> float:
        """Return the monotonic second of now."""
        return self.session.clock.monotonic()

    async def begin(self, watch_s: float, on_progress: Callable[[str], None]) -> None:
        """Watch for a while, and go on watching behind the questions; UnreachableError when no node has answered,
        UsageError when what it is about is not there."""
        running = asyncio.create_task(self.session.run())
        self._tasks.append(running)
        await watch(self.session, self._witness, running, watch_s, on_progress)
        if not any(node.frames for node in self.session.snapshot().nodes):
            raise UnreachableError("no node was reached")
        check_focus(self._witness.scene(self.session, self.focus), self.focus)
        self._tasks.append(asyncio.create_task(self._look_on()))

    async def _look_on(self) -> None:
        many = len(self.session.snapshot().nodes) > MANY_NODES
        while True:
            await asyncio.sleep(MANY_LOOK_S if many else LOOK_S)
            self._witness.look(self.session)

    async def end(self) -> None:
        """Leave the nodes alone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def scene(self, aimed: Aimed) -> Scene:
        """Return all that may be read now, with what was measured; what ended the session is raised."""
        running = self._tasks[0]
        if running.done():
            with suppress(asyncio.CancelledError):
                running.result()
        for result in self.session.ondemand.results.values():
            ran_at = result.aim.place or result.aim.node
            self._witness.take(result, aimed.get((result.probe, ran_at), ""))
        self._witness.look(self.session)
        return self._witness.scene(self.session, self.focus)
