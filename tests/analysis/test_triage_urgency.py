"""How urgent a cause is where no job runs, and after what no rank goes on; what all nodes have together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.analysis.triage import severity_of
from stethoscope.analysis.triage_case import NONE, Case
from stethoscope.analysis.triage_claims import Claim
from stethoscope.analysis.triage_places import Places
from stethoscope.analysis.triage_weigh import Hypothesis, fit
from stethoscope.analysis.triage_words import verdict_of
from stethoscope.model.facts import GpuProcess
from stethoscope.model.finding import Severity
from stethoscope.model.fleet import FleetSnapshot, Node
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.scheduler import Job
from stethoscope.model.verdict import Scene
from stethoscope.specs.playbook import load_playbooks

BOOKS = load_playbooks()
JOB = Job("7", nodes=("gpu-001", "gpu-002"))
NODES = tuple(Node(f"gpu-{number + 1:03d}", number, Link(LinkState.LIVE, 0.0)) for number in range(5))
SNAPSHOT = FleetSnapshot("test", 0.0, 0.0, NODES, {}, {}, by_name={node.name: node.index for node in NODES})
PLACES = Places(Scene(0.0, SNAPSHOT, jobs=(JOB,)))
GOES_ON = Case("job/7", JOB, frozenset(JOB.nodes), {"trouble": NONE, "phase": "steps"})


def believed(cause: str, place: str, rule: str) -> Hypothesis:
    """Return what one finding speaks for, held against a job that goes on."""
    found = Claim(cause, (place,), 0.95, "finding", 100.0, rule=rule)
    one = Hypothesis(cause, place.partition("/")[0], [found], BOOKS.causes[cause], 0.95)
    fit([one], [GOES_ON], PLACES)
    return one


@pytest.mark.parametrize(
    ("cause", "place", "rule", "expected"),
    [
        # On nodes on which no job runs nothing has stopped.
        ("ib_link_down", "gpu-004/ib/mlx5_3", "ib_link_down", Severity.P2),
        ("gpu_fallen_off_bus", "gpu-005/gpu/1", "gpu_lost", Severity.P2),
        ("gpu_fallen_off_bus", "gpu-001/gpu/1", "gpu_lost", Severity.P0),
        # No rank outlives an uncorrectable error of memory that it uses, or an NVLink that failed.
        ("gpu_memory_fault", "gpu-001/gpu/1", "gpu_contained_error", Severity.P0),
        ("nvlink_fault", "gpu-001/nvlink/1/4", "nvlink_failed", Severity.P0),
        ("gpu_memory_fault", "gpu-001/gpu/1", "gpu_row_remap_pending", Severity.P2),
        ("nvlink_fault", "gpu-001/nvlink/1/4", "nvlink_errors", Severity.P2),
    ],
)
def test_urgency(cause: str, place: str, rule: str, expected: Severity) -> None:
    assert severity_of(believed(cause, place, rule), BOOKS) == expected


def test_what_all_nodes_have_is_the_fleet() -> None:
    all_of_them = [believed("firewall_or_port_blocked", node.name, "") for node in NODES]
    assert verdict_of(all_of_them, Severity.P1, BOOKS, PLACES, []).places == ("fleet",)
    some = verdict_of(all_of_them[:3], Severity.P1, BOOKS, PLACES, []).places
    assert some == ("gpu-001", "gpu-002", "gpu-003")


def test_a_node_is_idle_only_where_every_job_says_its_nodes_and_nothing_runs_there() -> None:
    one = believed("ib_link_down", "gpu-004/ib/mlx5_3", "ib_link_down")
    fit([one], [GOES_ON, Case("job/8", Job("8"))], PLACES)
    assert not one.is_idle
    own = replace(NODES[3], processes=(GpuProcess(4711, 0),))
    busy = replace(SNAPSHOT, nodes=(*NODES[:3], own, NODES[4]))
    fit([one], [GOES_ON], Places(Scene(0.0, busy, jobs=(JOB,))))
    assert not one.is_idle
    fit([one], [GOES_ON], PLACES)
    assert one.is_idle
