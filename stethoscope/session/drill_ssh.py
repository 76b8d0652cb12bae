"""A drill over real connections: the simulated fleet as SSH servers in a process of its own, in real time.

Everything is as in virtual time but the way: keys, channels, the probe's protocol and the clocks of this machine.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from stethoscope.analysis.triage import diagnose
from stethoscope.clock import SystemClock
from stethoscope.errors import StethoscopeError
from stethoscope.session.demo import DemoFleet
from stethoscope.session.drill import ASK_AGAIN_S, AT_ONCE, ROUNDS, ROUTINE_S, STALE_S, id_of, playbooks, scored
from stethoscope.session.drill_found import Record
from stethoscope.session.drill_score import Row
from stethoscope.session.open import open_fleet_file
from stethoscope.session.resolve import journaled
from stethoscope.session.triage import Witness, measure
from stethoscope.sim.scenarios import open_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.verdict import Diagnosis
    from stethoscope.session.session import Session
    from stethoscope.specs.scenario import Scenario

LOOK_S = 1.0
"""How often the rules look, in seconds of this machine."""
_TELL_S = 15.0


def drill_over_ssh(name: str, speed: float, tell: Callable[[str], None]) -> Row:
    """Play the scenario of a file, or a bundled one by its name, `speed` times as fast as it is, over SSH; what cannot
    be played is a row with its error."""
    started = time.perf_counter()
    try:
        scenario = open_scenario(name)
        watcher = _Watcher(scenario, speed, tell)
        found = asyncio.run(watcher.run(name))
    except (StethoscopeError, OSError) as error:
        return Row(id_of(name), name, error=str(error))
    return scored(name, scenario, watcher.record, found, watcher.asked, time.perf_counter() - started)


class _Watcher:
    """A console on one scenario, as it goes by."""

    def __init__(self, scenario: Scenario, speed: float, tell: Callable[[str], None]) -> None:
        self.record = Record()
        self.asked: dict[tuple[str, str], float] = {}
        self._scenario, self._speed, self._tell = scenario, speed, tell
        self._clock = SystemClock()
        self._began = 0.0
        self._witness = Witness(self._clock.wall())

    async def run(self, name: str) -> Diagnosis:
        """Return what the diagnosis says at the end."""
        with DemoFleet(scenario=name, start_at="0s", speed=self._speed) as fleet:
            await fleet.serving()
            self._began = self._clock.monotonic()
            session = open_fleet_file(fleet.fleet_file, journaled(), (self._witness,))
            running = asyncio.create_task(session.run())
            try:
                return await self._watch(session, running)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    @property
    def _t_s(self) -> float:
        """Return where the scenario stands."""
        return (self._clock.monotonic() - self._began) * self._speed

    async def _watch(self, session: Session, running: asyncio.Task[None]) -> Diagnosis:
        asked_s, told_s, version, loud = 0.0, 0.0, 0, frozenset[str]()
        while self._t_s < self._scenario.duration_s:
            await asyncio.wait({running}, timeout=LOOK_S)
            if running.done():
                running.result()
                break
            self._witness.look(session)
            t_s = self._t_s
            self.record.look(t_s, session.snapshot())
            is_other = self._witness.watch.version != version or (self.record.loud and self.record.loud != loud)
            if t_s - asked_s >= (ASK_AGAIN_S if is_other else ROUTINE_S):
                asked_s, version, loud = t_s, self._witness.watch.version, self.record.loud
                await self._diagnosed(session)
            if self._clock.monotonic() - told_s >= _TELL_S:
                told_s = self._clock.monotonic()
                self._tell(f"{t_s:.0f} of {self._scenario.duration_s:.0f} s, {self.record.urgent} urgent now")
        return await self._diagnosed(session)

    async def _diagnosed(self, session: Session) -> Diagnosis:
        """Ask, measure what would settle it, and ask again, as a drill in virtual time does."""
        found = diagnose(self._witness.scene(session), playbooks())
        t_s = self._t_s
        for _ in range(ROUNDS):
            wanted = [one for one in found.wanted if t_s - self.asked.get((one.place, one.probe), -STALE_S) >= STALE_S][
                :AT_ONCE
            ]
            if not wanted:
                break
            self.asked.update(dict.fromkeys(((one.place, one.probe) for one in wanted), t_s))
            await measure(session, self._witness, wanted)
            found = diagnose(self._witness.scene(session), playbooks())
        self.record.hear(t_s, found)
        return found
