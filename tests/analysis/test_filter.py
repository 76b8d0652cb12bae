"""The filter language: which nodes fit, which rows are meant, and what is unknown."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stethoscope.analysis.filter import compile_filter
from stethoscope.analysis.filter_narrow import narrowed
from stethoscope.model.facts import GpuProcess
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job, SchedulerState
from tests.builders import DEVICES, MONO, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot


def fits(text: str, snapshot: FleetSnapshot) -> list[str]:
    flags = compile_filter(text, catalogue()).nodes(snapshot)
    return [node.name.removeprefix("gpu-") for node in snapshot.nodes if flags[node.index]]


def rows(text: str, snapshot: FleetSnapshot, scope: Scope = Scope.GPU) -> list[int] | None:
    flags = compile_filter(text, catalogue()).rows(snapshot, scope)
    return None if flags is None else np.flatnonzero(flags).tolist()


def with_node(snapshot: FleetSnapshot, name: str, **changes: Any) -> FleetSnapshot:
    nodes = [replace(node, **changes) if node.name == name else node for node in snapshot.nodes]
    return replace(snapshot, nodes=tuple(nodes))


def finding(rule: str, severity: Severity, *where: str, state: str = "active") -> Finding:
    nodes = ",".join({place.split("/")[0] for place in where})
    return Finding(rule, rule, severity, where, nodes, "2026-03-14T02:10:00Z", f"sick of {rule}", state=state)


MIXED = fleet(
    4,
    set={
        ("gpu-002/gpu/3", "gpu_temp"): 91,
        ("gpu-002/gpu/4", "gpu_util"): 3,
        ("gpu-003/gpu/1", "gpu_temp"): 88,
        ("gpu-003/gpu/1", "gpu_util"): 4,
        ("gpu-004/gpu/0", "gpu_temp"): Reason.UNSUPPORTED,
    },
)


# ---- names of nodes


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["001", "002", "003", "004"]),
        ("  ", ["001", "002", "003", "004"]),
        ("-002", ["002"]),
        ("GPU-00", ["001", "002", "003", "004"]),
        ("gpu-00?", ["001", "002", "003", "004"]),
        ("*3", ["003"]),
        ("pu-00?", []),
        ("gpu-[001-002,4]", ["001", "002"]),
        ("gpu-[001-002,004]", ["001", "002", "004"]),
        ("gpu-003,gpu-001", ["001", "003"]),
        ("!gpu-003", ["001", "002", "004"]),
        ("001 | 003", ["001", "003"]),
        ("00 & !(001 | 003)", ["002", "004"]),
        ('"gpu-001"', ["001"]),
        ("host=gpu-001", ["001"]),
        ("host=gpu-00", []),
        ("host~gpu-00", ["001", "002", "003", "004"]),
        ("host=gpu-00*", ["001", "002", "003", "004"]),
        ("host!=gpu-[001-003]", ["004"]),
        ("host!~3", ["001", "002", "004"]),
        ("host=missing", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert fits(text, MIXED) == names


def test_a_pattern_takes_brackets_as_they_are_and_never_long() -> None:
    snapshot = fleet(1, names=["a" * 200])
    started = process_time()
    assert fits("*a" * 240 + "b", snapshot) == []
    assert process_time() - started < 0.5
    assert fits("a*[1-2]*", snapshot) == []


# ---- numbers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("temp>85", ["002", "003"]),
        ("gpu_temp>85", ["002", "003"]),
        ("TEMP > 85 C", ["002", "003"]),
        ("temp>=91", ["002"]),
        ("temp>90.9C & temp<92°C", ["002"]),
        ("temp=91", ["002"]),
        ("temp=91 | temp=88", ["002", "003"]),
        ("temp!=62", ["002", "003"]),
        ("temp>=warn", ["002", "003"]),
        ("temp=missing", ["004"]),
        ("temp=unsupported", ["004"]),
        ("temp=hung", []),
        ("temp!=missing", ["001", "002", "003", "004"]),
        ("all(temp!=missing)", ["001", "002", "003"]),
        ("all(temp<80)", ["001"]),
        ("all(temp<92)", ["001", "002", "003"]),
        ("any(temp>85 & util<10)", ["003"]),
        ("gpu[temp>85 & util<10]", ["003"]),
        ("temp>85 & util<10", ["002", "003"]),
        ("gpu[temp>85 & !util<10]", ["002"]),
        ("gpu[temp>85 & host~3]", ["003"]),
        ("!gpu[temp>85 & util<10]", ["001", "002", "004"]),
        ("power>0.6kW", ["001", "002", "003", "004"]),
        ("mem>68G", ["001", "002", "003", "004"]),
        ("mem>69GiB", []),
        ("ib_tx>150G", ["001", "002", "003", "004"]),
        ("ib_tx>0.17Tb/s", []),
        ("clock<1.9GHz", []),
        ("cpu=12%", ["001", "002", "003", "004"]),
        ("pcie_width<x16", []),
        ("pcie_gen=gen5", ["001", "002", "003", "004"]),
    ],
)
def test_numbers(text: str, names: list[str]) -> None:
    assert fits(text, MIXED) == names


def test_what_is_missing_is_neither_above_nor_below_nor_not_above() -> None:
    snapshot = fleet(2, set={("gpu-002/gpu/5", "gpu_temp"): Reason.HUNG})
    assert fits("temp<80", snapshot) == ["001", "002"]
    assert fits("!temp>80", snapshot) == ["001"]
    assert fits("all(temp<80)", snapshot) == ["001"]
    assert fits("!all(temp<80)", snapshot) == []
    assert fits("temp=hung", snapshot) == ["002"]


def test_of_a_node_that_sent_nothing_nothing_is_known() -> None:
    snapshot = with_node(fleet(2, waiting=["gpu-002"]), "gpu-002", gpus=(), gpu_first=-1)
    assert fits("temp>0", snapshot) == ["001"]
    assert fits("!temp>1000", snapshot) == ["001"]
    assert fits("temp=missing", snapshot) == ["002"]
    assert fits("temp=waiting", snapshot) == ["002"]
    assert fits("temp!=missing", snapshot) == ["001"]
    assert fits("model=missing", snapshot) == ["002"]
    assert fits("cpu=missing", snapshot) == ["002"]


def test_a_node_without_gpus_has_none_that_is_hot() -> None:
    snapshot = with_node(fleet(2), "gpu-002", gpus=())
    assert fits("!temp>80", snapshot) == ["001", "002"]
    assert fits("all(temp<80)", snapshot) == ["001"]
    assert fits("temp=missing", snapshot) == []
    hung = with_node(snapshot, "gpu-002", notes={"nvml": "hung for 41 s"})
    assert fits("!temp>80", hung) == ["001"]
    assert fits("state=hung", hung) == ["002"]


def test_counters_are_rates_and_have_totals() -> None:
    place = ("gpu-002/ib/mlx5_3", "ib_symbol_error")
    snapshot = fleet(3, set={place: 0.05}, totals={("gpu-003/ib/mlx5_0", "ib_symbol_error"): 7})
    assert fits("symbol>120/h", snapshot) == ["002"]
    assert fits("symbol>0.06", snapshot) == []
    assert fits("symbol>4/d", snapshot) == ["002"]
    assert fits("symbol.new>0", snapshot) == ["003"]
    assert fits("symbol.total>=7", snapshot) == ["003"]
    assert fits("ib[device=mlx5_3 & symbol>0]", snapshot) == ["002"]
    assert fits("ib[device=mlx5_4 & symbol>0]", snapshot) == []
    assert rows("symbol>0", snapshot, Scope.PORT) == [11]


def test_states_and_bits_go_by_their_words() -> None:
    snapshot = fleet(
        3,
        set={
            ("gpu-002/ib/mlx5_1", "ib_port_state"): 1,
            ("gpu-003/gpu/2", "gpu_clocks_event_reasons"): 0x44,
            ("gpu-001/gpu/2", "gpu_clocks_event_reasons"): 0x4,
        },
    )
    assert fits("port_state=down", snapshot) == ["002"]
    assert fits("port_state!=Active", snapshot) == ["002"]
    assert fits("port_state~active", snapshot) == ["001", "002", "003"]
    assert fits("throttle=hw-thermal", snapshot) == ["003"]
    assert fits('throttle="HW thermal"', snapshot) == ["003"]
    assert fits("throttle~thermal", snapshot) == ["003"]
    assert fits("throttle=power_cap", snapshot) == ["001", "003"]
    assert fits("throttle=0x4", snapshot) == ["001"]
    assert fits("throttle!=none", snapshot) == ["001", "003"]
    assert fits("all(throttle=none)", snapshot) == ["002"]


def test_devices_of_parts() -> None:
    snapshot = fleet(2, devices=DEVICES, set={("gpu-002/disk/nvme1n1", "disk_await"): 40})
    assert fits("await>20ms", snapshot) == ["002"]
    assert fits("disk[await>0.02s & model~samsung]", snapshot) == ["002"]
    assert fits("disk[device=nvme0n1 & await>20]", snapshot) == []
    assert fits("fs[device=/scratch & full>40]", snapshot) == ["001", "002"]
    assert fits("await=missing", fleet(1)) == ["001"]


# ---- words


def test_places_and_words() -> None:
    snapshot = fleet(4, per_rack=2, devices=DEVICES)
    snapshot = with_node(
        snapshot, "gpu-004", rack="", words={"driver_version": "535.161.08"}, leaves={"mlx5_2": "leaf-9"}
    )
    assert fits("rack=rack-01", snapshot) == ["001", "002"]
    assert fits("rack!=rack-01", snapshot) == ["003"]
    assert fits("rack=missing", snapshot) == ["004"]
    assert fits("pod~pod", snapshot) == ["001", "002", "003", "004"]
    assert fits("driver=550.*", snapshot) == ["001", "002", "003"]
    assert fits("driver!=550.*", snapshot) == ["004"]
    assert fits("leaf=leaf-9", snapshot) == ["004"]
    assert fits("leaf=leaf-01-7", snapshot) == ["001", "002"]
    assert fits("leaf=missing", with_node(snapshot, "gpu-002", leaves={})) == ["002"]
    assert fits("ib[leaf=leaf-9 & device=mlx5_2]", snapshot) == ["004"]
    assert fits("ib[leaf=leaf-9 & device=mlx5_1]", snapshot) == []
    assert fits("model~h100 & product~dgx & cuda=12.4 & kernel~nvidia", snapshot) == ["001", "002", "003"]
    assert fits("gpu[device=3 & model~h200]", snapshot) == []


def test_jobs_of_the_scheduler_and_of_processes() -> None:
    snapshot = fleet(4)
    snapshot = with_node(snapshot, "gpu-001", scheduler=SchedulerState(("allocated",), jobs=("4242",)))
    snapshot = with_node(snapshot, "gpu-002", scheduler=SchedulerState(("idle",)))
    snapshot = with_node(snapshot, "gpu-003", processes=(GpuProcess(1, 0, user="kim", slurm_job="17"),))
    snapshot = replace(snapshot, jobs=(Job("4242", "llama-70b", "running", "ana", "train", ("gpu-001",)),))
    assert fits("job=4242", snapshot) == fits("job~llama", snapshot) == fits("partition=train", snapshot) == ["001"]
    assert fits("job=17", snapshot) == fits("user=kim", snapshot) == ["003"]
    assert fits("job!=4242", snapshot) == ["002", "003"]
    assert fits("job=none", snapshot) == ["002"]
    assert fits("job=missing", snapshot) == ["004"]
    assert fits("partition=missing", snapshot) == ["003", "004"]


def test_states() -> None:
    snapshot = fleet(
        8,
        lost=["gpu-002"],
        waiting=["gpu-003"],
        ages={"gpu-004": 60},
        links={"gpu-005": LinkState.AUTH_REFUSED, "gpu-006": LinkState.SILENT},
        notes={"gpu-007": {"nvml": "hung for 9 s"}},
        set={(f"gpu-008/gpu/{gpu}", "gpu_util"): 0 for gpu in range(8)},
    )
    snapshot = with_node(snapshot, "gpu-001", scheduler=SchedulerState(("idle", "drain"), "maint", "root"))
    assert fits("state=live", snapshot) == ["001", "007", "008"]
    assert fits("state=lost", snapshot) == ["002", "005"]
    assert fits("state=connecting", snapshot) == ["003"]
    assert fits("state=stale", snapshot) == ["004", "006"]
    assert fits("state=auth_refused", snapshot) == fits('state="auth refused"', snapshot) == ["005"]
    assert fits("state=unreachable", snapshot) == ["002"]
    assert fits("state=hung", snapshot) == ["007"]
    assert fits("state=idle", snapshot) == ["008"]
    assert fits("state=drained", snapshot) == ["001"]
    assert fits("state!=live", snapshot) == ["002", "003", "004", "005", "006"]
    assert fits("state~refused", snapshot) == ["005"]
    for node in snapshot.nodes:
        assert (node.name.removeprefix("gpu-") in fits("state=stale", snapshot)) == (
            node.link.state is LinkState.SILENT or (node.link.state.is_live and node.is_stale(MONO))
        )


def test_findings() -> None:
    found = [
        finding("gpu_lost", Severity.P0, "gpu-001/gpu/2"),
        finding("link_sick", Severity.P2, "gpu-002/ib/mlx5_3", "gpu-003/ib/mlx5_3"),
        finding("old", Severity.P1, "gpu-004", state="cleared"),
    ]
    snapshot = fleet(4, findings=found)
    assert fits("severity=P0", snapshot) == fits("severity>=p1", snapshot) == ["001"]
    assert fits('severity>=" P1 "', snapshot) == fits("severity=*0", snapshot) == ["001"]
    assert fits("severity<P1", snapshot) == fits("severity<=P2 & severity<P0", snapshot) == ["002", "003"]
    assert fits("severity=none", snapshot) == fits("finding=none", snapshot) == ["004"]
    assert fits("finding=gpu_lost", snapshot) == ["001"]
    assert fits("finding~sick", snapshot) == ["001", "002", "003"]
    assert fits("ib[finding=link_sick]", snapshot) == ["002", "003"]
    assert rows("ib[finding=link_sick]", snapshot, Scope.PORT) == [11, 19]
    assert rows("gpu[severity=P0]", snapshot) == [2]
    assert fits("gpu[finding=link_sick]", snapshot) == []


# ---- rows


def test_rows_that_conditions_name() -> None:
    assert rows("temp>85", MIXED) == [11, 17]
    assert rows("temp>85 & util<10", MIXED) == [11, 12, 17]
    assert rows("gpu[temp>85 & util<10]", MIXED) == [17]
    assert rows("temp>85 & host~3", MIXED) == [17]
    assert rows("temp>85 | host~1", MIXED) == [11, 17]
    assert rows("!(temp<85)", MIXED) == []
    assert rows("all(temp<80)", MIXED) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert rows("host~3", MIXED) is None
    assert rows("cpu>1", MIXED) is None
    assert rows("temp>85", MIXED, Scope.PORT) is None
    assert rows("temp>85", MIXED, Scope.NODE) is None
    assert rows("", MIXED) is None


def test_a_filter_follows_the_snapshots() -> None:
    hot = compile_filter("temp>85", catalogue())
    assert hot.nodes(MIXED).tolist() == [False, True, True, False]
    assert hot.nodes(fleet(2)).tolist() == [False, False]
    assert hot.nodes(MIXED).tolist() == [False, True, True, False]
    assert hot.nodes(fleet(0)).tolist() == []


def test_two_thousand_nodes_take_no_time() -> None:
    large = fleet(2_000, lost=["gpu-1999"])
    for text in (
        "temp>85 & host~gpu-0 | state=lost",
        "gpu[temp>85 & util<10]",
        "all(temp>85)",
        "severity=P0 | symbol>0",
    ):
        times = []
        for _ in range(10):
            fresh = compile_filter(text, catalogue())
            started = process_time()
            fresh.nodes(large)
            times.append(process_time() - started)
        assert min(times) < 0.003, text


# ---- a fleet of those that fit


def test_a_narrowed_fleet_is_whole_in_itself() -> None:
    both = finding("hot", Severity.P1, "gpu-001/gpu/0", "gpu-003/gpu/1")
    snapshot = fleet(4, set={("gpu-003", "cpu_util"): 77}, findings=[both, finding("one", Severity.P2, "gpu-002")])
    some = narrowed(snapshot, compile_filter("gpu-[003-004]", catalogue()).nodes(snapshot))
    assert [(node.name, node.index) for node in some.nodes] == [("gpu-003", 0), ("gpu-004", 1)]
    assert some.by_name == {"gpu-003": 0, "gpu-004": 1}
    assert some.tables[Scope.NODE].get("cpu_util", 0) == 77
    assert [(one.where, one.nodes) for one in some.findings] == [(("gpu-003/gpu/1",), "gpu-003")]
    assert fits("cpu>70", some) == ["003"]
    assert fits("temp>85", some) == []
