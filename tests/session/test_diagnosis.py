"""The bundled rules on the simulated fleet in virtual time: each fault is found at its place, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.parse.stream import parse
from stethoscope.paths import bundled
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule_book import load_rules
from tests.builders import catalogue
from tests.sim.worlds import twin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.model.finding import Finding

TICK_S = 2.0


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@dataclass(frozen=True)
class Known:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = TICK_S
    expected_gpus: int | None = 8


def watch(*events: str, until_s: float, **settings: object) -> Iterator[tuple[float, tuple[Finding, ...]]]:
    """Yield scenario time and findings at every tick of the fleet's probes."""
    world = twin(*events, **settings)
    names = world.layout.nodes
    state = FleetState(catalogue(), [Known(name) for name in names], "twin")
    causes = read_root_causes(bundled("playbooks") / "root_causes.yaml")
    engine = Engine(load_rules(catalogue(), causes), catalogue())
    speakers: dict[str, Speaker] = {}
    t_s = 0.0
    while t_s <= until_s:
        said = world.advance_to(t_s)
        wall = world.wall_at_0 + t_s
        readings = Readings(world)
        for number, name in enumerate(names):
            if world.link(number) != "up":
                if speakers.pop(name, None) is not None:
                    state.set_link(name, Link(LinkState.UNREACHABLE, since=wall, detail="no answer"))
                continue
            if name not in speakers:
                speakers[name] = Speaker(world, number, TICK_S)
                state.set_link(name, Link(LinkState.LIVE, since=wall))
                state.apply(Frame(name, wall, t_s, b""), parse(speakers[name].hello()))
            lines = [speakers[name].event(line) for line in said if line.sink == "kernel" and line.node == name]
            for raw in [speakers[name].frame(readings), *lines]:
                state.apply(Frame(name, wall, t_s, raw), parse(raw))
        yield t_s, engine.evaluate(state.snapshot(wall, t_s))
        t_s += TICK_S


def test_a_healthy_fleet_at_work_has_no_finding_in_half_an_hour() -> None:
    for t_s, findings in watch(until_s=1800, nodes=8, job_nodes="gpu-[001-007]"):
        assert findings == (), t_s


@pytest.mark.parametrize(
    ("event", "rule", "place", "severity", "cause", "within_s"),
    [
        (
            "fault: ib_optic_degraded, where: gpu-002/ib/mlx5_3",
            "ib_symbol_errors",
            "gpu-002/ib/mlx5_3",
            "P1",
            "ib_link_fault",
            40,
        ),
        ("fault: gpu_thermal_throttle, where: gpu-003/gpu/4", "gpu_thermal", "gpu-003/gpu/4", "P1", "gpu_thermal", 130),
        ("fault: gpu_fell_off_bus, where: gpu-002/gpu/2", "gpu_lost", "gpu-002/gpu/2", "P0", "gpu_fallen_off_bus", 5),
        ("fault: node_down, where: gpu-004", "node_lost", "gpu-004", "P0", "node_down", 5),
        ("fault: driver_hung, where: gpu-001", "driver_hung", "gpu-001", "P0", "driver_hung", 10),
    ],
)
def test_each_fault_is_found_and_nothing_else(
    event: str, rule: str, place: str, severity: str, cause: str, within_s: float
) -> None:
    found_at = None
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for t_s, findings in watch(f"at: 60s, {event}", until_s=400):
        assert t_s >= 60 or findings == ()
        seen |= {(finding.rule, finding.where) for finding in findings if finding.severity.value != "P2"}
        if findings and found_at is None:
            found_at = t_s
            assert (findings[0].severity.value, findings[0].root_cause) == (severity, cause)
    assert seen == {(rule, (place,))}
    assert found_at is not None
    assert found_at - 60 <= within_s
    assert [finding.state for finding in findings if finding.rule == rule] == ["active"]


def test_old_counters_are_at_most_information() -> None:
    events = (
        "at: 0s, fault: historic_counters, where: gpu-001/ib/mlx5_1, params: {link_downed: 37, symbol_errors: 812345}",
        "at: 0s, fault: historic_counters, where: gpu-002/ib/mlx5_5, params: {link_downed: 255}",
    )
    for _, findings in watch(*events, until_s=300):
        assert {(f.rule, f.severity.value, f.nodes) for f in findings} <= {("ib_counter_pinned", "info", "gpu-002")}
    assert len(findings) == 1


def test_a_node_that_comes_back_clears() -> None:
    event = "at: 60s, fault: node_down, where: gpu-004, params: {back_after: 60}"
    states = [
        (t_s, [f.state for f in findings if f.rule == "node_lost"]) for t_s, findings in watch(event, until_s=300)
    ]
    assert [state for t_s, state in states if t_s == 100] == [["active"]]
    assert states[-1][1] == ["cleared"]
