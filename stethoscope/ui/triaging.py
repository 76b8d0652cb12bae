"""What the console keeps for the guided triage: who watches for it, and what was said in it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from stethoscope.model.ids import node_of
from stethoscope.ui.defect import defect
from stethoscope.ui.pulling import Pulling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.model.finding import Finding
    from stethoscope.session.attending import Attending
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.session import SessionLike

LOOK_S = 2.0
"""How often it is looked how jobs go, so that one knows later who was late first."""


class Triaging(Pulling):
    """An app that leads from a question to a verdict."""

    playbooks: tuple[Path, ...] = ()
    """Directories of an operator's own playbooks."""
    _attending: Attending | None = None
    _triage_kept: dict[str, dict[str, Any]] | None = None

    def attend(self, session: SessionLike) -> None:
        """Watch the jobs of `session` from now on."""
        from stethoscope.session.attending import Attending

        self._attending = attending = Attending(self.playbooks)
        taps = getattr(session, "taps", None)
        if isinstance(taps, tuple):
            session.taps = (*taps, attending)  # type: ignore[attr-defined]
        self.set_interval(LOOK_S, self._attend_due)

    async def _attend_due(self) -> None:
        attending = self._attending
        if self.session is None or attending is None or not attending.is_due(self.session.clock.monotonic()):
            return
        try:
            # One that was made for the screen of a large fleet will do.
            recent = getattr(self.session, "recent", None)
            snapshot = (recent() if recent is not None else None) or self.session.snapshot()
            await asyncio.to_thread(attending.look, snapshot)
        except Exception as error:  # noqa: BLE001  what is only watched must not end the console
            self._attending = None
            self.tell(str(defect("jobs are no longer watched for triage", error)), seconds=10)

    def open_triage(self, focus: str = "") -> None:
        """Ask about a job, a node, a device of one, or, for an empty `focus`, about the whole fleet."""
        console = cast("StethoscopeApp", self)
        if self._attending is None:
            self.tell("the session is not open yet")
            return
        from stethoscope.ui.guide import Guide
        from stethoscope.ui.screens.triage import TriageScreen

        guide = Guide(console, self._attending, focus, self._kept().get(focus, {}))
        self.push_screen(TriageScreen(console, guide))
        self.call_after_refresh(self.pull)

    def open_triage_of(self, nodes: Sequence[str]) -> None:
        """Ask about selected nodes: one by itself, several as the job that they run, else about the whole fleet."""
        if len(nodes) == 1:
            self.open_triage(nodes[0])
            return
        snapshot = self.session.snapshot() if self.session is not None else None
        jobs = [job for job in snapshot.jobs if set(nodes) <= set(job.nodes)] if snapshot is not None and nodes else []
        if len(jobs) == 1:
            self.open_triage(f"job/{jobs[0].id}")
            return
        if nodes:
            self.tell("these nodes run no job in common: the whole fleet is looked at")
        self.open_triage()

    def open_triage_for(self, finding: Finding) -> None:
        """Ask about what a finding is on."""
        places = finding.where
        if places and places[0].startswith("job/"):
            self.open_triage("/".join(places[0].split("/")[:2]))
        elif len(places) == 1:
            self.open_triage(places[0])
        else:
            self.open_triage_of(tuple(dict.fromkeys(map(node_of, places))))

    # ---- what was said

    def keep_triage(self, focus: str, said: dict[str, Any]) -> None:
        """Keep what was said about a place, for this console and, where choices are kept, for the next one."""
        from stethoscope.session.guided import keep_place

        saved = keep_place(self._kept(), focus, said)
        memory = self.fleet_screen.memory
        if memory is not None:
            # A directory that cannot be written costs nothing but what would be kept.
            with suppress(OSError):
                memory.save_triage(saved)

    def _kept(self) -> dict[str, dict[str, Any]]:
        if self._triage_kept is None:
            from stethoscope.session.guided import said_by_place

            memory = self.fleet_screen.memory
            self._triage_kept = said_by_place(memory.load_triage()) if memory is not None else {}
        return self._triage_kept
