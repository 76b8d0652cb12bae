"""Rules that speak of several kinds of devices at once: which rows count for a row, and where the evidence is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Scope
from stethoscope.session import selftest_fleet
from stethoscope.session.rule_words import in_words
from stethoscope.session.selftest import run_tests
from stethoscope.specs import rule_test
from stethoscope.specs.load import loads
from stethoscope.specs.rule import Rule, read_rules
from tests.builders import catalogue

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding

GPU = "{metric: gpu_util, operator: '<', threshold: 30}"
PORT = "{metric: ib_port_state, operator: '!=', threshold: 4}"

CATALOGUE = catalogue()
SLOW = "{metric: job_allreduce_p99, operator: '>', threshold: 1000}"
HOT = "{metric: gpu_temp, operator: '>', threshold: 85}"


def rule(trigger: str, more: str = "", summary: str = "it happens") -> Rule:
    text = f"rule_id: made\ndescription: d\nseverity: P1\nsummary: '{summary}'\ntrigger: {trigger}\n{more}"
    return read_rules(loads(text, "rules.yaml"), CATALOGUE, {})[0]


def found(made: Rule, **series: object) -> tuple[list[str], tuple[Finding, ...]]:
    """Return where the rule finds something at the end of the series, and the findings."""
    test = rule_test.TestSpec("t", "none", series=series.pop("series"), **series)  # type: ignore[arg-type]
    fleet, engine = selftest_fleet.TestFleet(test, CATALOGUE, 5.0), Engine([made], CATALOGUE)
    for sample in range(fleet.samples):
        fleet.send(sample, LinkState.LIVE)
        findings = engine.evaluate(fleet.look(sample, sample * 5.0))
    active = [finding for finding in findings if finding.state == "active"]
    return [finding.where[0] for finding in active], tuple(active)


@pytest.mark.parametrize(
    ("ports", "denied", "expected"),
    [
        ({"mlx5_0": 4, "mlx5_1": 1}, False, True),
        ({"mlx5_0": 4, "mlx5_1": 4}, False, False),
        ({"mlx5_0": "error", "mlx5_1": 1}, False, True),
        ({"mlx5_0": "error", "mlx5_1": 4}, False, False),
        ({"mlx5_0": 4, "mlx5_1": 1}, True, False),
        ({"mlx5_0": 4, "mlx5_1": 4}, True, True),
        ({"mlx5_0": "error", "mlx5_1": 4}, True, False),  # who knows whether that one is down
        ({"mlx5_0": "unsupported", "mlx5_1": 4}, True, True),
        ({"mlx5_0": "unsupported"}, True, False),
    ],
)
def test_any_port_of_the_node_counts_for_each_gpu_of_it(ports: dict[str, object], denied: bool, expected: bool) -> None:
    port = f"{{not: {PORT}}}" if denied else PORT
    where, _ = found(rule(f"[{GPU}, {port}]"), series={"gpu_util": {"0": 10, "1": 90}, "ib_port_state": ports})
    assert where == (["subject/gpu/0"] if expected else [])


def test_the_rule_is_about_what_its_first_condition_is_about_and_the_evidence_about_what_it_was_true_of() -> None:
    series = {"gpu_util": {"0": 10, "1": 90}, "ib_port_state": {"mlx5_0": 4, "mlx5_1": 1}}
    made = rule(f"[{PORT}, {GPU}]", "evidence: [ib_port_rate]\n", "{{ib_port_state}} · {{gpu_util}}")
    where, (finding,) = found(made, series=series)
    assert (made.scope, where, finding.summary) == (Scope.PORT, ["subject/ib/mlx5_1"], "Down · 10 %")
    assert [(fact.fact, fact.where) for fact in finding.evidence] == [
        ("ib_port_state", "subject/ib/mlx5_1"),
        ("gpu_util", "subject/gpu/0"),
    ]
    _, (other,) = found(rule(f"[{GPU}, {PORT}]"), series=series)
    assert [fact.where for fact in other.evidence] == ["subject/gpu/0", "subject/ib/mlx5_1"]


def test_what_must_last_must_last_on_one_device_and_so_must_an_all_of_other_devices() -> None:
    turns = {"mlx5_0": [4, 1] * 8, "mlx5_1": [1, 4] * 8}
    lasting = "{metric: ib_port_state, operator: '!=', threshold: 4, window: 15s}"
    assert found(rule(f"[{GPU}, {lasting}]"), series={"gpu_util": 10, "ib_port_state": turns})[0] == []
    assert found(rule(f"[{GPU}, {PORT}]"), series={"gpu_util": 10, "ib_port_state": turns})[0] == ["subject/gpu/0"]
    slow = "{metric: ib_port_rate, operator: '<', threshold: 200}"
    apart = {"gpu_util": 10, "ib_port_state": {"a": 1, "b": 4}, "ib_port_rate": {"a": 400, "b": 100}}
    assert found(rule(f"[{GPU}, {{all: [{PORT}, {slow}]}}]"), series=apart)[0] == []
    assert found(rule(f"[{GPU}, {PORT}, {slow}]"), series=apart)[0] == ["subject/gpu/0"]


def test_a_pcie_device_and_nvlinks_count_for_the_gpu_that_they_are_of() -> None:
    narrow = "{metric: pcie_link_width, operator: '<', threshold: 16}"
    series = {"gpu_util": {"0": 10, "1": 10}, "pcie_link_width": {"0000:1b:00.0": 16, "0000:1c:00.0": 8}}
    assert found(rule(f"[{GPU}, {narrow}]"), series=series)[0] == ["subject/gpu/1"]
    assert found(rule(f"[{narrow}, {GPU}]"), series=series)[0] == ["subject/pcie/0000:1c:00.0"]
    down = "{metric: nvlink_state, operator: '==', threshold: 0}"
    series = {"gpu_util": {"0": 10, "1": 10}, "nvlink_state": {"0/0": 1, "0/1": 0, "1/0": 1}}
    assert found(rule(f"[{GPU}, {down}]"), series=series)[0] == ["subject/gpu/0"]
    other = {**series, "gpu_util": {"0": 90, "1": 10}}
    assert found(rule(f"[{down}, {GPU}]"), series=other)[0] == []


def test_jobs_count_for_their_nodes_and_their_nodes_for_jobs() -> None:
    series = {"gpu_temp": {"0": 60, "1": 90}, "job_allreduce_p99": 2000}
    assert found(rule(f"[{HOT}, {SLOW}]"), series=series)[0] == ["subject/gpu/1"]
    assert found(rule(f"[{SLOW}, {HOT}]"), series=series)[0] == ["job/4242"]
    fast = {**series, "job_allreduce_p99": 20}
    assert found(rule(f"[{HOT}, {SLOW}]"), series=fast)[0] == found(rule(f"[{SLOW}, {HOT}]"), series=fast)[0] == []
    # Nobody runs a job there: nothing is true of one, and `not` is.
    alone = {"gpu_temp": 90}
    assert found(rule(f"[{HOT}, {SLOW}]"), series=alone)[0] == []
    assert found(rule(f"[{HOT}, {{not: {SLOW}}}]"), series=alone)[0] == ["subject/gpu/0"]


def test_a_node_of_a_job_counts_wherever_in_the_job_it_is() -> None:
    text = """
tests:
- {name: a, expect: P1, series: {job_allreduce_p99: 2000, gpu_temp: 60}, peers: {gpu_temp: 95}, peer_count: 3}
- {name: b, expect: none, series: {job_allreduce_p99: 2000, gpu_temp: 60}, peers: {gpu_temp: 65}, peer_count: 3}
"""
    assert list(run_tests(rule(f"[{SLOW}, {HOT}]", text), CATALOGUE)) == ["", ""]


def test_devices_of_other_nodes_do_not_count() -> None:
    series, peers = {"gpu_util": 10, "ib_port_state": 4}, {"gpu_util": 90, "ib_port_state": 1}
    assert found(rule(f"[{GPU}, {PORT}]"), series=series, peers=peers, peer_count=2)[0] == []


def test_words_say_where_each_condition_must_be_true() -> None:
    made = rule(f"[{GPU}, {PORT}, {{metric: job_allreduce_p99, operator: '>', threshold: 1000}}]")
    lines = [text for _, text in in_words(made.trigger, CATALOGUE, scope=made.scope)]
    assert [line.partition(", ")[2] for line in lines[1:]] == ["", "on any port of the node", "of a job on the node"]
