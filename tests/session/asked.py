"""A source whose nodes answer on-demand probes as a test tells them to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stethoscope.clock import FixedClock
from stethoscope.collect.command import Answer
from stethoscope.collect.commands import Commands
from stethoscope.collect.journal import Journal
from stethoscope.session.ondemand import OnDemandRuns
from stethoscope.specs.fleet import FleetNode
from tests.builders import WALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot

MARK = "stethoscope-probe: "


def framed(*sections: tuple[str, str, int], tail: str = "") -> bytes:
    """Return what a script prints that runs these commands."""
    said = "".join(f"{MARK}$ {command}\n{text}\n{MARK}exit {status}\n" for command, text, status in sections)
    return (said + tail).encode()


class Nodes:
    """A source whose nodes answer as they were told."""

    simulated = False
    fleet = "lab"

    def __init__(self, snapshot: FleetSnapshot, answer: Callable[[str, str], Answer], *, journal: Path | None = None):
        self.nodes = tuple(FleetNode(node.name, sudo=node.name == "gpu-001") for node in snapshot.nodes)
        clock = FixedClock(WALL)
        self.commands = Commands(Journal(journal, clock) if journal else None, read_only=snapshot.read_only)
        self.read_only = snapshot.read_only
        self.asked: list[tuple[str, str, float]] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._answer = answer

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        self.asked.append((node, line, limit_s))
        assert text.startswith("{\n")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
            return self._answer(node, line)
        finally:
            self.at_once -= 1


def ok(_node: str, _line: str) -> Answer:
    return Answer(0, framed(("tool", "fine", 0)), "")


def ibstat(_node: str, _line: str) -> Answer:
    return Answer(0, framed(("ibstat", "CA 'mlx5_0'\n\tCA type: MT4129", 0)), "")


def runs_on(
    snapshot: FleetSnapshot, answer: Callable[[str, str], Answer] = ok, **options: Any
) -> tuple[OnDemandRuns, Nodes]:
    source = Nodes(snapshot, answer, **options)
    return OnDemandRuns(source, FixedClock(WALL), lambda: snapshot), source  # type: ignore[arg-type]
