"""Rules look at one snapshot after the other, whatever thread they are asked in."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.session.judging import MANY_NODES, Judging
from tests.builders import fleet

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot


class Looking:
    def __init__(self) -> None:
        self.threads: list[str] = []
        self.seen: list[float] = []

    def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        self.threads.append(threading.current_thread().name)
        self.seen.append(snapshot.mono)
        return ()


async def test_a_small_fleet_is_looked_at_at_once_and_a_large_one_in_a_thread() -> None:
    rules = Looking()
    judging = Judging(rules)
    assert await judging.findings_beside(fleet(nodes=8)) == ()
    assert await judging.findings_beside(fleet(nodes=MANY_NODES + 1)) == ()
    judging.stop()
    here, there = rules.threads
    assert here == threading.current_thread().name
    assert there.startswith("rules")


async def test_the_rules_see_no_snapshot_behind_a_later_one() -> None:
    rules = Looking()
    judging = Judging(rules)
    early = fleet(nodes=MANY_NODES + 1)
    late = replace(early, mono=early.mono + 1)
    judging.findings(late)
    assert await judging.findings_beside(early) is None
    assert await judging.findings_beside(late) == ()
    # A recording goes back on purpose.
    assert judging.findings(early) == ()
    judging.stop()
    assert rules.seen == [late.mono, late.mono, early.mono]
