"""Scenarios: what is accepted, what is refused, and where an error points to."""

from __future__ import annotations

import pytest

from stethoscope.errors import DataError
from stethoscope.specs.load import loads
from stethoscope.specs.scenario import Fault, FaultForm, LogLine, Param, ProbeOutput, Scenario, SetValue, Vocabulary
from stethoscope.specs.scenario_read import read_scenario

WORDS = Vocabulary(
    faults={
        "ib_optic_degraded": FaultForm(frozenset({"ib"}), {"symbols": Param(40.0), "ramp": Param("60s", "s")}),
        "node_down": FaultForm(
            frozenset({"node"}),
            {
                "how": Param("power", "text", ("power", "panic")),
                "bmc": Param(True, "bool"),
                "back_after": Param(None, "s"),
            },
        ),
    },
    metrics={"gpu_temp", "gpu_util"},
    gpus={"H100-SXM5-80GB", "T4"},
)
TEXT = """\
schema: stethoscope.scenario/1
id: test
title: A test
seed: 7
duration: 20m
fleet: {nodes: 16, gpus_per_node: 8, gpu: H100-SXM5-80GB, nodes_per_rack: 4, nodes_per_pod: 8}
jobs:
  - id: "4242"
    nodes: gpu-[001-004]
    step_time_s: 0.80
    shares: {compute: 0.62, comm: 0.25, data: 0.05, other: 0.08}
    samples_per_step: 960
events:
  - EVENT
"""


def _read(event: str = "{at: 5m, fault: node_down, where: gpu-007}", *changes: tuple[str, str]) -> Scenario:
    text = TEXT.replace("EVENT", event)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_scenario(loads(text, "s.yaml"), WORDS)


def _refused(event: str = "{at: 5m, fault: node_down, where: gpu-007}", *changes: tuple[str, str]) -> str:
    with pytest.raises(DataError) as caught:
        _read(event, *changes)
    return str(caught.value)


def test_all_forms_of_events_are_read() -> None:
    scenario = _read(
        """{at: 5m, until: 18m, fault: ib_optic_degraded, where: gpu-007/ib/mlx5_3, params: {symbols: 12}}
  - {at: 90s, set: {where: fleet, metric: gpu_util, value: 65, ramp: 1m}}
  - {at: 90, set: {where: gpu-001/gpu/0, metric: gpu_temp, value: null}}
  - {at: 1h, kernel_log: {where: gpu-007, line: "x"}}
  - {at: 1.5, job_log: {where: job/4242/rank/9, line: "y"}}
  - {at: 0s, probe_output: {where: leaf/leaf-02-5, probe: switch_qos, text: "z"}}"""
    )
    fault, fleet, missing, kernel, job, probe = scenario.events
    assert isinstance(fault, Fault)
    assert (fault.at_s, fault.until_s, fault.kind) == (300.0, 1080.0, "ib_optic_degraded")
    assert (fault.where.node, fault.where.index, fault.where.form) == (6, 3, "ib")
    assert fault.params == {"symbols": 12.0, "ramp": 60.0}
    assert isinstance(fleet, SetValue)
    assert (fleet.at_s, fleet.value, fleet.ramp_s, fleet.where.form) == (90.0, 65, 60.0, "fleet")
    assert isinstance(missing, SetValue)
    assert missing.value is None
    assert isinstance(kernel, LogLine)
    assert (kernel.at_s, kernel.sink) == (3600.0, "kernel")
    assert isinstance(job, LogLine)
    assert (job.at_s, job.sink, job.where.node, job.where.index) == (1.5, "job", 1, 9)
    assert isinstance(probe, ProbeOutput)
    assert probe.where.name == "leaf-02-5"


def test_the_fleet_has_names_racks_pods_and_rails() -> None:
    scenario = _read()
    fleet = scenario.fleet
    assert fleet.node_names()[0] == "gpu-001"
    assert fleet.node_names()[-1] == "gpu-016"
    assert (fleet.rack(4), fleet.pod(8), fleet.leaf(8, 6)) == ("rack-02", "pod-02", "leaf-02-6")
    assert scenario.jobs[0].nodes == (0, 1, 2, 3)
    assert scenario.duration_s == 1200.0
    assert scenario.expect is None


def test_background_comes_first_and_expect_is_kept() -> None:
    scenario = _read(
        "{at: 5m, fault: node_down, where: gpu-007}\n"
        "background:\n  - {at: 0s, fault: node_down, where: gpu-001, params: {how: panic, back_after: 2m}}\n"
        "expect: {scope: local, layer: node, root_cause: node_down, culprits: [gpu-007], severity: P0}"
    )
    first = scenario.events[0]
    assert isinstance(first, Fault)
    assert first.params == {"how": "panic", "bmc": True, "back_after": 120.0}
    assert scenario.expect is not None
    assert scenario.expect.culprits == ("gpu-007",)


def test_an_unknown_kind_lists_the_known_ones_at_its_place() -> None:
    assert _refused("{at: 5m, fault: node_dwn, where: gpu-007}") == (
        's.yaml:14:21: unknown fault kind "node_dwn"; did you mean "node_down"? known: ib_optic_degraded, node_down'
    )
    assert _refused("{at: 5m, fault: zzz, where: gpu-007}") == (
        's.yaml:14:21: unknown fault kind "zzz"; known: ib_optic_degraded, node_down'
    )


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("{at: 5m, fault: node_down, where: gpu-099}", 's.yaml:14:39: no node "gpu-099" in this fleet of 16'),
        ("{at: 5m, fault: node_down, where: gpu-007/gpu/1}", "s.yaml:14:39: node_down is not for"),
        ("{at: 5m, fault: ib_optic_degraded, where: gpu-007/ib/mlx5_8}", "there are 8, counted from 0"),
        ("{at: 5m, fault: ib_optic_degraded, where: gpu-007/eth/0}", "is not a place such as"),
        ("{at: 5m, fault: node_down}", 's.yaml:14:5: a fault needs "where"'),
        (
            "{at: 5m, fault: node_down, where: gpu-007, params: {hwo: panic}}",
            's.yaml:14:57: node_down has no parameter "hwo"; did you mean "how"?',
        ),
        ("{at: 5m, fault: node_down, where: gpu-007, params: {how: slow}}", '"slow" is not one of power, panic'),
        ("{at: 5m, fault: node_down, where: gpu-007, params: {bmc: 1}}", "s.yaml:14:62: bmc: expected true or false"),
        ("{at: 5m, fault: node_down, where: gpu-007, params: {bmc: on}}", "s.yaml:14:62"),
        ("{at: 5m, fault: node_down, where: gpu-007, params: {back_after: soon}}", "is not a duration"),
        ("{at: 1:30, fault: node_down, where: gpu-007}", "s.yaml:14:10"),
        ("{at: 5m, at: 6m, fault: node_down, where: gpu-007}", "s.yaml:14:14"),
        ("{at: 5 minutes, fault: node_down, where: gpu-007}", '"5 minutes" is not a duration such as 30s'),
        ("{at: 5m, until: 5m, fault: node_down, where: gpu-007}", "s.yaml:14:21: until is not after at"),
        ("{at: 5m}", "an event is one of fault, set, kernel_log, job_log, probe_output"),
        ("{at: 5m, falt: node_down, where: gpu-007}", 'unknown key "falt"; did you mean "fault"?'),
        ("{at: 5m, where: gpu-007, kernel_log: {where: gpu-007, line: x}}", '"where" belongs to a fault'),
        ("{at: 5m, kernel_log: {where: rack/rack-01, line: x}}", '"rack/rack-01" has no such log'),
        ("{at: 5m, job_log: {where: gpu-007, line: x}}", '"gpu-007" has no such log'),
        ("{at: 5m, job_log: {where: job/4243, line: x}}", 'no job "4243" in this scenario; did you mean "4242"?'),
        ("{at: 5m, job_log: {where: job/4242/rank/32, line: x}}", 'no rank "32": there are 32'),
        ("{at: 5m, set: {where: leaf/leaf-03-1, metric: gpu_temp, value: 1}}", 'no leaf "leaf-03-1"'),
        (
            "{at: 5m, set: {where: fleet, metric: gpu_tmp, value: 1}}",
            's.yaml:14:42: unknown metric "gpu_tmp"; did you mean "gpu_temp"?',
        ),
    ],
)
def test_a_broken_event_says_what_and_where(event: str, words: str) -> None:
    assert words in _refused(event)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpu: H100-SXM5-80GB", "gpu: H100", 's.yaml:6:43: unknown GPU "H100"; known: H100-SXM5-80GB, T4'),
        ("comm: 0.25", "comm: 0.35", "s.yaml:11:13: the shares do not add up to 1"),
        ("nodes: gpu-[001-004]", "nodes: gpu-[015-017]", 's.yaml:9:12: no node "gpu-017" in this fleet of 16'),
        ("nodes: 16", "nodes: 0", "s.yaml:6:16"),
        ("schema: stethoscope.scenario/1", "schema: stethoscope.scenario/2", "s.yaml:1:9"),
        ("duration: 20m", "duraton: 20m", 'unknown key "duraton"; did you mean "duration"?'),
    ],
)
def test_a_broken_frame_says_what_and_where(old: str, new: str, words: str) -> None:
    assert words in _refused("{at: 5m, fault: node_down, where: gpu-007}", (old, new))
