"""Findings about jobs: since when, where, and that nothing of a node hides or lowers them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.rules import Engine
from stethoscope.clock import iso
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.scheduler import SchedulerState
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules
from tests.builders import WALL, catalogue, fleet
from tests.ui.job_scenes import JOB, standing, with_jobs

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


def found(snapshot: FleetSnapshot, seconds: int = 60) -> dict[str, Finding]:
    engine = Engine(load_rules(catalogue(), load_root_causes()), catalogue())
    for second in range(0, seconds, 5):
        later = replace(snapshot, wall=snapshot.wall + second, mono=snapshot.mono + second)
        findings = engine.evaluate(later)
    return {finding.rule: finding for finding in findings if finding.state == "active"}


def test_a_slow_job_is_one_finding_since_its_log_says_so() -> None:
    slow = standing()
    finding = found(with_jobs(fleet(16), (JOB, slow)))["job_slow"]
    assert (finding.where, finding.nodes, finding.severity) == (("job/4242",), "gpu-[001-016]", Severity.P1)
    assert finding.since == iso(slow.since["job_throughput_change"])
    assert finding.offers == ("triage",)
    assert finding.summary.startswith("throughput -33")
    facts = {fact.fact: fact for fact in finding.evidence}
    assert facts["job_step_time"].value == pytest.approx(1.2, abs=0.01)
    assert facts["job_step_time"].expected == "was 0.8 s"
    assert {fact.source for fact in finding.evidence} == {"job log"}


def test_what_is_wrong_with_a_node_of_a_job_hides_and_lowers_nothing_of_it() -> None:
    link = Link(LinkState.UNREACHABLE, WALL - 300, "no route to host")
    snapshot = fleet(16, lost=["gpu-001"], links={"gpu-001": link})
    drained = SchedulerState(("idle", "drain"), reason="maint", owner="root")
    nodes = tuple(replace(node, scheduler=drained) if node.name == "gpu-001" else node for node in snapshot.nodes)
    finding = found(with_jobs(replace(snapshot, nodes=nodes), (JOB, standing())))["job_slow"]
    assert finding.severity is Severity.P1
    assert "drained" not in finding.summary


def test_a_steady_job_and_one_without_a_log_are_silent() -> None:
    assert not [rule for rule in found(with_jobs(fleet(16), (JOB, standing(slow=0)))) if rule.startswith("job_")]
    assert not [rule for rule in found(with_jobs(fleet(16), (JOB, None))) if rule.startswith("job_")]


def test_a_job_that_ended_takes_its_finding_with_it() -> None:
    engine = Engine(load_rules(catalogue(), load_root_causes()), catalogue())
    snapshot = with_jobs(fleet(16), (JOB, standing()))
    for second in range(0, 60, 5):
        engine.evaluate(replace(snapshot, wall=snapshot.wall + second, mono=snapshot.mono + second))
    gone = replace(fleet(16), wall=snapshot.wall + 65, mono=snapshot.mono + 65)
    assert not [finding for finding in engine.evaluate(gone) if finding.state == "active"]
