"""Windows of maintenance in a fleet file, and what is wrong with some."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stethoscope.errors import DataError
from stethoscope.model.maintenance import Maintenance
from stethoscope.specs.fleet import fleet_of
from stethoscope.specs.load import loads

FLEET = """
schema: stethoscope.fleet/1
groups:
  a: {nodes: "gpu-[001-002]"}
  b: {nodes: "gpu-[003-004]"}
maintenance:
"""
START = datetime(2026, 3, 14, 22, 0, tzinfo=UTC).timestamp()


def windows(text: str) -> dict[str, tuple[Maintenance, ...]]:
    fleet = fleet_of(loads(FLEET + text, "fleet.yaml"))
    return {node.name: node.maintenance for node in fleet.nodes if node.maintenance}


def test_windows() -> None:
    found = windows(
        """
- {nodes: "gpu-001", from: 2026-03-14T22:00Z, to: 2026-03-15T02:00Z, reason: new optics}
- {nodes: ["@b", gpu-001], from: 2026-03-14T23:00+01:00, to: 2026-03-16, rules: [ib_link_down]}
"""
    )
    optics = Maintenance(START, START + 4 * 3600, "new optics")
    links = Maintenance(START, START + 26 * 3600, "", ("ib_link_down",))
    assert found == {"gpu-001": (optics, links), "gpu-003": (links,), "gpu-004": (links,)}
    assert optics.covers("anything", START)
    assert not optics.covers("anything", START + 4 * 3600)
    assert links.covers("ib_link_down", START + 1)
    assert not links.covers("gpu_lost", START + 1)


@pytest.mark.parametrize(
    ("line", "where", "words"),
    [
        ("{nodes: gpu-009, from: 2026-03-14, to: 2026-03-15}", "7:11", 'no node of this file is called "gpu-009"'),
        ('{nodes: "@c", from: 2026-03-14, to: 2026-03-15}', "7:11", 'no group of this file is called "c"'),
        ("{nodes: gpu-001, from: 2026-03-14, to: 2026-03-13}", "7:42", "ends before it begins"),
        ("{nodes: gpu-001, from: 2026-03-14, to: 2027-03-14}", "7:42", "lasts 365 days; the most is 90"),
        ('{nodes: gpu-001, from: "22:00", to: 2026-03-14}', "7:26", "write 2026-03-14T22:00Z"),
        ("{nodes: gpu-001, from: 2026-02-31, to: 2026-03-14}", "7:26", "no day or time that exists"),
        ("{nodes: gpu-001, to: 2026-03-14}", "7:3", "from"),
        ("{nodes: gpu-001, from: 2026-03-14, till: 2026-03-15}", "7:38", "till"),
        ("{nodes: gpu-001, from: 2026-03-14, to: 2026-03-15, rules: [Hot]}", "7:62", "not the id of a rule"),
    ],
)
def test_mistakes_are_told_with_their_place(line: str, where: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        windows(f"- {line}\n")
    assert words in str(caught.value)
    assert f"fleet.yaml:{where}" in str(caught.value)
