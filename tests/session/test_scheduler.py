"""A session beside a scheduler: read at once and again, failures in words, ended with the session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stethoscope.model.scheduler import Job, SchedulerReading, SchedulerState
from stethoscope.session.session import Session
from stethoscope.specs.fleet import FleetNode
from tests.builders import catalogue

if TYPE_CHECKING:
    from stethoscope.collect.source import Sink

DRAIN = SchedulerState(("idle", "drain"), "maint", "root", 1.0)


class Quiet:
    """A source of two nodes that never answer."""

    fleet = "test"
    simulated = False

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.nodes = (FleetNode("a"), FleetNode("b"))

    async def run(self, sink: Sink) -> None:
        await asyncio.Event().wait()

    def ask_full(self, node: str | None = None) -> None:
        pass


class Told:
    """A scheduler that says one thing after the other."""

    every_s = 0.01

    def __init__(self, *readings: SchedulerReading | Exception) -> None:
        self._readings = list(readings)
        self.said = asyncio.Event()
        self.closed = False

    async def read(self) -> SchedulerReading:
        if len(self._readings) == 1:
            self.said.set()
        reading = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        if isinstance(reading, Exception):
            raise reading
        return reading

    async def close(self) -> None:
        self.closed = True


async def played(*readings: SchedulerReading | Exception) -> tuple[Session, Told]:
    scheduler = Told(*readings)
    session = Session(Quiet(scheduler), catalogue())
    assert session.awaits_scheduler
    running = asyncio.create_task(session.run())
    await asyncio.wait_for(scheduler.said.wait(), 5)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return session, scheduler


async def test_what_it_says_is_in_the_snapshot() -> None:
    job = Job("7", nodes=("b",))
    session, scheduler = await played(SchedulerReading({"a": DRAIN}, (job,)))
    snapshot = session.snapshot(latest=True)
    assert [node.scheduler for node in snapshot.nodes] == [DRAIN, None]
    assert snapshot.jobs == (job,)
    assert snapshot.scheduler_note == ""
    assert not session.awaits_scheduler
    assert scheduler.closed


async def test_a_failure_is_a_note_and_what_was_known_stays() -> None:
    session, _ = await played(SchedulerReading({"a": DRAIN}), SchedulerReading({}, note="no answer in 20 s"))
    snapshot = session.snapshot(latest=True)
    assert snapshot.node("a").scheduler == DRAIN
    assert snapshot.scheduler_note == "no answer in 20 s"


async def test_a_defect_is_a_note_too() -> None:
    session, scheduler = await played(ZeroDivisionError("x"))
    assert session.snapshot(latest=True).scheduler_note == "ZeroDivisionError: x"
    assert scheduler.closed


async def test_a_node_that_comes_back_into_service_is_told_anew() -> None:
    session, _ = await played(SchedulerReading({"a": DRAIN}), SchedulerReading({"a": SchedulerState(("idle",))}))
    node = session.snapshot(latest=True).node("a")
    assert node.scheduler is not None
    assert node.scheduler.phrase == ""


async def test_a_source_without_a_scheduler_awaits_none() -> None:
    assert not Session(Quiet(None), catalogue()).awaits_scheduler
