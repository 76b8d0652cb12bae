"""Nodes out of service blame nobody: findings there are lowered, say why, and fold apart from those that count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.rules import Engine
from stethoscope.model.finding import Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.scheduler import SchedulerState
from stethoscope.paths import bundled
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules
from stethoscope.ui.present.assess import assess, what_is_wrong
from stethoscope.ui.present.spans import Level
from tests.builders import WALL, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot

RULE = """
rule_id: hot
description: hot
severity: P0
summary: is hot
trigger: [{metric: gpu_temp, operator: '>=', threshold: 90, aggregate: last}]
"""
DRAINED = SchedulerState(("idle", "drain"), "maint BMC firmware", "root", WALL - 600)
DRAINING = SchedulerState(("allocated", "drain"), "swap optic", "bob", WALL - 60, ("4242",))
DOWN = SchedulerState(("down", "not_responding"), "Not responding", "slurm", WALL - 30)


def engine() -> Engine:
    causes = read_root_causes(bundled("playbooks") / "root_causes.yaml")
    return Engine(read_rules(loads(RULE), catalogue(), causes), catalogue())


def snapshot(states: dict[str, SchedulerState], hot: tuple[str, ...], nodes: int = 4) -> FleetSnapshot:
    made = fleet(nodes, set={(f"{name}/gpu/3", "gpu_temp"): 95.0 for name in hot})
    return replace(made, nodes=tuple(replace(node, scheduler=states.get(node.name)) for node in made.nodes))


def findings(states: dict[str, SchedulerState], hot: tuple[str, ...], nodes: int = 4) -> dict[str, Finding]:
    return {finding.id: finding for finding in engine().evaluate(snapshot(states, hot, nodes))}


def test_a_drained_node_is_information() -> None:
    found = findings({"gpu-002": DRAINED}, ("gpu-001", "gpu-002"))
    assert found["hot@gpu-001/gpu/3"].severity is Severity.P0
    lowered = found["hot@gpu-002/gpu/3"]
    assert lowered.severity is Severity.INFO
    assert lowered.summary == "is hot · drained: maint BMC firmware (root)"
    fact = lowered.evidence[-1]
    assert (fact.fact, fact.value, fact.source) == (
        "slurm_node_state", "idle, drain: maint BMC firmware (root)", "slurm",
    )  # fmt: skip


def test_a_draining_node_still_hurts_its_job() -> None:
    found = findings({"gpu-002": DRAINING}, ("gpu-002",))["hot@gpu-002/gpu/3"]
    assert (found.severity, found.summary) == (Severity.P2, "is hot · draining: swap optic (bob)")


def test_what_the_scheduler_itself_lost_is_evidence_and_no_excuse() -> None:
    found = findings({"gpu-002": DOWN}, ("gpu-002",))["hot@gpu-002/gpu/3"]
    assert (found.severity, found.summary) == (Severity.P0, "is hot")
    assert found.evidence[-1].value == "down, not responding: Not responding (slurm)"


def test_many_drained_nodes_fold_apart_from_those_that_count() -> None:
    names = tuple(f"gpu-{number:03}" for number in range(1, 21))
    found = findings(dict.fromkeys(names[:10], DRAINED), names, nodes=20)
    assert {(finding.severity, finding.nodes) for finding in found.values()} == {
        (Severity.P0, "gpu-[011-020]"),
        (Severity.INFO, "gpu-[001-010]"),
    }
    assert found["hot@fleet"].nodes == "gpu-[011-020]"


def test_a_node_that_is_drained_later_keeps_its_finding_lowered() -> None:
    judge = engine()
    first = judge.evaluate(snapshot({}, ("gpu-002",)))
    second = judge.evaluate(snapshot({"gpu-002": DRAINED}, ("gpu-002",)))
    assert [finding.severity for finding in first] == [Severity.P0]
    assert [(finding.severity, finding.state) for finding in second] == [(Severity.INFO, "active")]
    assert first[0].id == second[0].id


def test_the_fleet_screen_says_so_in_quiet_words() -> None:
    made = fleet(3, links={"gpu-002": LinkState.UNREACHABLE}, lost=("gpu-002",))
    states = {"gpu-002": DRAINED, "gpu-003": DRAINING}
    made = replace(made, nodes=tuple(replace(node, scheduler=states.get(node.name)) for node in made.nodes))
    assessed = assess(made, made.mono)
    assert what_is_wrong(assessed, made.node("gpu-001"), WALL) == ("", Level.NORMAL)
    assert what_is_wrong(assessed, made.node("gpu-002"), WALL) == ("drained: maint BMC firmware (root)", Level.NORMAL)
    assert what_is_wrong(assessed, made.node("gpu-003"), WALL) == ("draining: swap optic (bob)", Level.NORMAL)
    # Neither loud nor folded with the healthy ones.
    assert assessed.nodes.tolist() == [Level.NORMAL, Level.MISSING, Level.NORMAL]
