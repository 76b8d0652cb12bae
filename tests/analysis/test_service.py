"""Nodes out of service blame nobody: findings there are lowered, say why, and fold apart from those that count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.rules import Engine
from stethoscope.model.finding import Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.maintenance import Maintenance
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


# ---------------------------------------------------------------- windows of the fleet file


def worked_on(states: dict[str, Maintenance], job: tuple[str, ...] = ()) -> FleetSnapshot:
    made = fleet(4, set={(f"{name}/gpu/3", "gpu_temp"): 95.0 for name in states})
    running = SchedulerState(("allocated",), jobs=("4242",))
    nodes = (
        replace(
            node,
            maintenance=(states[node.name],) if node.name in states else (),
            scheduler=running if node.name in job else None,
        )
        for node in made.nodes
    )
    return replace(made, nodes=tuple(nodes))


NOW = Maintenance(WALL - 60, WALL + 60, "new optics")


def test_in_a_window_findings_are_information_and_say_why() -> None:
    (finding,) = engine().evaluate(worked_on({"gpu-002": NOW}))
    assert (finding.severity, finding.summary) == (Severity.INFO, "is hot · maintenance: new optics")


def test_a_window_that_is_over_or_of_another_rule_excuses_nothing() -> None:
    others = {
        "gpu-001": Maintenance(WALL - 60, WALL),
        "gpu-002": Maintenance(WALL + 1, WALL + 60),
        "gpu-003": Maintenance(WALL - 60, WALL + 60, rules=("ib_link_down",)),
    }
    found = engine().evaluate(worked_on(others))
    assert [finding.severity for finding in found] == [Severity.P0] * 3
    (finding,) = engine().evaluate(worked_on({"gpu-004": Maintenance(WALL - 60, WALL + 60, rules=("hot",))}))
    assert (finding.severity, finding.summary) == (Severity.INFO, "is hot · maintenance")


def test_what_cannot_wait_on_a_node_that_a_job_uses_is_not_silenced() -> None:
    (finding,) = engine().evaluate(worked_on({"gpu-002": NOW}, job=("gpu-002",)))
    assert (finding.severity, finding.summary) == (Severity.P0, "is hot")


def test_nodes_that_somebody_works_on_are_part_of_no_cause() -> None:
    names = [f"gpu-{number:03}" for number in range(1, 9)]
    made = fleet(32, set={(f"{name}/gpu/3", "gpu_temp"): 95.0 for name in names})
    six = replace(made, nodes=tuple(replace(node, maintenance=(NOW,) if node.index < 6 else ()) for node in made.nodes))
    assert [finding.cause for finding in engine().evaluate(made)] == ["rack/rack-01"]
    found = engine().evaluate(six)
    assert sorted((finding.severity.value, len(finding.where)) for finding in found) == [("P0", 2), *[("info", 1)] * 6]
