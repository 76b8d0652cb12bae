"""The rules that ship, all at once: each kind of fault has exactly its findings, and what is harmless has none."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stethoscope.analysis.correlate import in_order
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.parse.stream import parse
from stethoscope.session.selftest import LOOK_S
from stethoscope.session.selftest_fleet import TestFleet as Played
from stethoscope.sim.parts import Order
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import vocabulary
from stethoscope.sim.speaker import Speaker
from stethoscope.sim.twin import Twin
from stethoscope.specs.codes import load_codes
from stethoscope.specs.condition import XidSeen, leaves
from stethoscope.specs.duration import duration_s
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules
from stethoscope.specs.rule_test import TestSpec as Told
from stethoscope.specs.scenario_read import load_scenario
from tests.analysis.test_parts import Spec
from tests.sim.watching import groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.finding import Finding
    from stethoscope.sim.files.view import Drawn
    from stethoscope.specs.rule import Rule

CATALOGUE = load_catalogue()
OF_LEVELS = frozenset({"gpu", "memory", "nvlink", "pcie", "fabric", "ethernet", "host", "storage", "kernel", "node"})
"""Files of rules that need no peers at work, no past and no job: those that these series are for."""
BUSY = {
    "gpu_util": "97~1 x40", "gpu_power_draw": "500~15 x40", "gpu_power_limit": "700 x40", "gpu_sm_clock": "1710~10 x40",
    "gpu_power_limit_default": "700 x40", "gpu_temp": "60~1 x40", "gpu_clocks_event_reasons": "4 x40",
    "gpu_mem_temp": "72~1 x40", "gpu_pcie_link_gen": "5 x40", "gpu_pcie_link_gen_max": "5 x40",
    "gpu_pcie_link_width": "16 x40", "gpu_pcie_link_width_max": "16 x40", "gpu_process_count": "1 x40",
}  # fmt: skip


@cache
def shipped() -> tuple[Rule, ...]:
    """Return the bundled rules alone: no test changes the user's configuration."""
    return load_rules(CATALOGUE, load_root_causes())


def of_levels() -> tuple[Rule, ...]:
    return tuple(rule for rule in shipped() if Path(rule.file.name).stem in OF_LEVELS)


def play(case: dict[str, Any]) -> Iterator[tuple[Finding, ...]]:
    """Yield the active findings about the subject of a case after each sample."""
    test = msgspec.convert({"name": "a case", "expect": "none", **case}, Told)
    every_s = duration_s(test.every)
    fleet = Played(test, CATALOGUE, every_s)
    engine = Engine(of_levels(), CATALOGUE)
    for sample in range(fleet.samples):
        fleet.send(sample, LinkState.LIVE)
        for look in range(math.ceil(every_s / LOOK_S)):
            found = engine.evaluate(fleet.look(sample, sample * every_s + look * LOOK_S))
            yield tuple(finding for finding in found if finding.state == "active")


def gpu(**series: Any) -> dict[str, Any]:
    """Return a case of one busy GPU among busy peers."""
    busy = {**BUSY, **series}
    return {"every": "10s", "series": busy, "peers": BUSY, "peer_count": 7}


def port(**series: Any) -> dict[str, Any]:
    calm = {"ib_port_state": "4 x20", "ib_port_phys_state": "5 x20", "ib_port_rate": "400 x20"}
    return {"series": {**calm, **series}, "peers": calm, "peer_count": 7}


def node(**series: Any) -> dict[str, Any]:
    return {"every": "10s", "series": series}


def rare(about: dict[str, str] | None = None, peers: dict[str, Any] | None = None, **series: Any) -> dict[str, Any]:
    """Return a case of what is read every half a minute."""
    return {"every": "30s", "series": series, "about": about or {}, "peers": peers or {}, "peer_count": 7 * bool(peers)}


def log(line: str) -> dict[str, Any]:
    return {"series": {"load1": "24 x6"}, "kernel": {1: line}}


FAULTS: list[tuple[str, dict[str, Any], set[tuple[str, str, str]]]] = [
    ("gpu_thermal_throttle", gpu(gpu_temp="88 x40", gpu_clocks_event_reasons="0x20 x40", gpu_sm_clock="1100 x40"),
     {("gpu_thermal", "P1", "gpu_thermal")}),
    ("gpu_power_brake", gpu(gpu_clocks_event_reasons="0x88 x40", gpu_sm_clock="850 x40", gpu_power_draw="300 x40"),
     {("gpu_power_brake", "P1", "gpu_power")}),
    ("gpu_power_cap_low", gpu(gpu_power_limit="400 x40", gpu_power_draw="397 x40", gpu_sm_clock="1220 x40"),
     {("gpu_power_capped", "P1", "gpu_power")}),
    ("gpu_clock_locked_low", gpu(gpu_clocks_event_reasons="2 x40", gpu_sm_clock="1200 x40", gpu_power_draw="390 x40"),
     {("gpu_clocks_set_low", "P1", "gpu_clock_config")}),
    ("gpu_clock_locked_low", gpu(gpu_clocks_event_reasons="0 x40", gpu_sm_clock="1200 x40", gpu_power_draw="390 x40"),
     {("gpu_clock_low", "P1", "gpu_clock_config")}),
    ("gpu_fell_off_bus", {"series": {"gpu_handle_error": [0, "15 x5"], "gpu_temp": [60, "lost x5"]}, "xid": {1: 79}},
     {("gpu_lost", "P0", "gpu_fallen_off_bus")}),
    ("gpu_dbe", rare(gpu_ecc_uncorr_volatile_dram=[0, "1 x5"], gpu_row_remap_pending=[0, "1 x5"],
                     gpu_remapped_rows_uncorr=[0, "1 x5"]) | {"xid": {1: 48, 2: 63, 3: 94}},
     {("gpu_ecc_uncorrected", "P0", "gpu_memory_fault")}),
    ("gpu_sbe_growth", rare(gpu_ecc_corr_volatile_dram=[0, "+15 x25"]),
     {("gpu_ecc_corrected", "P2", "gpu_memory_fault")}),
    ("gpu_row_remap_pending", rare(gpu_row_remap_pending="1 x4", gpu_remapped_rows_uncorr="1 x4"),
     {("gpu_row_remap_pending", "P2", "gpu_memory_fault")}),
    ("gsp_timeout", {"series": {"nvml_latency": [200, 6000, "hung x6"]}, "xid": {1: 119}},
     {("gpu_gsp_failed", "P0", "gpu_hw_fault")}),
    ("nvlink_crc_errors", rare(nvlink_crc_errors=[0, "+600 x5"], nvlink_replay_errors=[0, "+240 x5"]),
     {("nvlink_errors", "P2", "nvlink_fault")}),
    ("nvlink_link_down", rare(nvlink_active_count=[18, "17 x5"]) | {"xid": {1: 74}},
     {("nvlink_failed", "P0", "nvlink_fault")}),
    ("gpu_pcie_width_low", gpu(gpu_pcie_link_width="8 x40"), {("gpu_pcie_narrow", "P1", "pcie_fault")}),
    ("gpu_pcie_gen_low", gpu(gpu_pcie_link_gen="2 x40"), {("gpu_pcie_slow", "P1", "pcie_fault")}),
    ("pcie_aer_storm", rare(pcie_aer_correctable=[0, "+150 x6"]), {("pcie_storm", "P2", "pcie_fault")}),
    ("ib_optic_degraded", port(
        ib_symbol_error=[7, "+200 x19"], ib_port_rcv_errors=[0, "+20 x19"], ib_link_error_recovery=["0 x9", "1 x11"],
        ib_local_link_integrity_errors=["0 x9", "1 x11"]),
     {("ib_symbol_errors", "P1", "ib_link_fault")}),
    ("ib_link_down", port(ib_port_state=[4, "1 x19"], ib_port_phys_state=[5, "2 x19"], ib_link_downed=[3, "4 x19"]),
     {("ib_link_down", "P0", "ib_link_down")}),
    ("ib_link_flap", port(ib_link_downed=["3 x10", "4 x10"], ib_symbol_error=["0 x10", "300 x10"]),
     {("ib_link_flap", "P1", "ib_link_fault")}),
    ("ib_speed_low", port(ib_port_rate="200 x20"), {("ib_speed_low", "P1", "ib_speed_low")}),
    ("nic_lost", port(ib_port_state=[4, "lost x19"]), {("ib_port_lost", "P0", "nic_fault")}),
    ("nic_lost", log(
        "mlx5_core 0000:5e:00.0: poll_health:816:(pid 0): device's health compromised - reached miss count"),
     {("adapter_failed", "P0", "nic_fault")}),
    ("leaf_congestion", {
        "series": {
            "ib_port_xmit_wait": [0, "+220000000 x19"], "ib_symbol_error": "4 x20", "ib_port_rcv_errors": "0 x20"},
        "peers": {"ib_port_xmit_wait": [0, "+7800000 x19"]}, "peer_count": 7},
     {("ib_congested", "P1", "switch_congestion")}),
    ("leaf_congestion", rare(net_pfc_rx_pause_duration=[0, "+10000000 x6"]),
     {("net_paused_long", "P1", "switch_congestion")}),
    ("nic_pcie_downgraded", rare({"driver": "mlx5_core"}, {"pcie_link_speed": 32, "pcie_max_link_speed": 32},
                                 pcie_link_speed="8 x6", pcie_max_link_speed="32 x6"),
     {("adapter_pcie_slow", "P1", "nic_pcie_fault")}),
    ("roce_gid_missing", port(ib_hw_req_cqe_error=[0, "+50 x19"]),
     {("ib_requests_failed", "P1", "gid_or_pkey_misconfig")}),
    ("mtu_mismatch", rare(None, {"net_mtu": 4200}, net_mtu="2048 x6"), {("net_mtu_differs", "P1", "roce_misconfig")}),
    ("nccl_wrong_interface", rare(cpu_softirq="9 x10", net_tcp_retrans=[0, "+2400 x9"]),
     {("tcp_carries_training", "P1", "wrong_interface")}),
    ("driver_hung", node(nvml_latency=[200, "hung x39"], dstate_processes=[0, "3 x39"], cpu_iowait="0.3 x40"),
     {("driver_hung", "P0", "driver_hung")}),
    ("fabric_manager_down", {"every": "60s", "series": {"fabricmanager_active": [1, "0 x5"]}},
     {("fabric_manager_down", "P1", "fabric_manager_fault")}),
    ("cpu_contention", node(load1="380 x40", cpu_count="192 x40", cpu_util="100 x40", psi_cpu_some="60.5 x40"),
     {("cpu_overrun", "P1", "cpu_contention")}),
    ("cpu_governor_powersave", {
        "every": "60s", "series": {"load1": "24 x5"}, "peers": {"load1": 24}, "peer_count": 7,
        "words": {"cpu_governor": "powersave"}, "peer_words": {"cpu_governor": "performance"}},
     {("cpu_governor_slow", "P2", "cpu_config")}),
    ("cpu_mce", rare(edac_ce=[0, "+30 x20"]) | {"kernel": {1: "mce: [Hardware Error]: Machine check events logged"}},
     {("host_memory_errors", "P2", "cpu_or_memory_fault"), ("host_machine_check", "P1", "cpu_or_memory_fault")}),
    ("host_oom_kill", node(
        mem_available=["1200000 x3", "18000 x20"], mem_total="2000000 x23", psi_memory_full="40 x23",
        oom_kills=["0 x8", "1 x15"]),
     {("process_killed", "P1", "host_oom")}),
    ("clock_skew", {"every": "60s", "series": {"clock_offset": "4.2 x5"}}, {("clock_off", "P2", "clock_skew")}),
    ("local_nvme_slow", rare({"rotational": "no", "state": "live"}, disk_await="8 x7", disk_io_util="100 x7"),
     {("nvme_slow", "P1", "storage_io")}),
    ("nvme_wearout", {"every": "60s", "series": {
        "nvme_percentage_used": "104 x4", "nvme_available_spare": "4 x4", "nvme_critical_warning": "5 x4",
        "nvme_media_errors": [30, 31, 31, 31]}},
     {("disk_warns", "P1", "disk_wear")}),
    ("nvme_wearout", {"every": "60s", "series": {"smart_reallocated_sectors": "217 x4"}},
     {("disk_reallocated", "P1", "disk_wear")}),
    ("disk_full", rare(fs_used=[97, "100 x4"]), {("fs_full", "P1", "fs_full_or_readonly")}),
    ("fs_readonly", rare(fs_readonly=[0, 0, 1, 1]), {("fs_readonly", "P1", "fs_full_or_readonly")}),
    ("shared_fs_stall", node(cpu_iowait="22 x40", psi_io_full="70 x40", dstate_processes="4 x40", mounts_hung="1 x40"),
     {("mounts_hung", "P1", "shared_fs_stall")}),
    ("shared_fs_stall", log("nfs: server storage-01 not responding, still trying"),
     {("shared_fs_log", "P1", "shared_fs_stall")}),
    ("app_illegal_access", {"series": {"gpu_temp": "60 x4"}, "xid": {1: 31, 2: 43}},
     {("gpu_app_error", "P2", "cuda_app_bug")}),
    ("collective_mismatch", gpu(gpu_util="100 x40", gpu_power_draw="118 x40", gpu_sm_clock="1980 x40",
                                gpu_clocks_event_reasons="0 x40", gpu_fb_used="70000 x40", gpu_fb_total="81559 x40"),
     {("gpu_spins", "P1", "unknown")}),
    ("driver_version_drift", {
        "every": "60s", "series": {"load1": "24 x5"}, "peers": {"load1": 24}, "peer_count": 7,
        "words": {"driver_version": "535.183.01"}, "peer_words": {"driver_version": "550.90.07"}},
     {("driver_version_differs", "P2", "version_mismatch")}),
    ("multi_job_contention", rare(gpu_fb_used="61440 x7", gpu_fb_total="81559 x7", gpu_process_count="0 x7",
                                  gpu_mig_mode="0 x7"),
     {("gpu_memory_left", "P2", "multi_job_contention")}),
]  # fmt: skip
"""Kind of fault, what it shows, and the findings of the node that has it: rule, severity, root cause."""

HARMLESS: list[tuple[str, dict[str, Any]]] = [
    ("historic counters", port(
        ib_link_downed="37 x20", ib_symbol_error="812345 x20", ib_link_error_recovery="200 x20",
        ib_port_rcv_errors="4711 x20", ib_port_xmit_discards="12 x20", ib_port_xmit_wait="4294967295 x20")),
    ("old errors of memory and links", rare(
        gpu_ecc_corr_volatile_dram="812345 x6", gpu_ecc_uncorr_aggregate_dram="2 x6", gpu_pcie_replay="400 x6",
        nvlink_crc_errors="4711 x6", pcie_aer_correctable="98765 x6", nvme_media_errors="7 x6", edac_ce="9000 x6")),
    ("idle", gpu(
        gpu_util="0 x40", gpu_power_draw="69 x40", gpu_sm_clock="345 x40", gpu_clocks_event_reasons="1 x40",
        gpu_pcie_link_gen="1 x40", gpu_temp="40 x40", gpu_process_count="0 x40")),
    ("a straggler's peer waits at full clock", gpu(
        gpu_util="100 x40", gpu_power_draw="255 x40", gpu_sm_clock="1980 x40", gpu_clocks_event_reasons="0 x40")),
    ("works hard while the others wait", gpu(gpu_sm_clock="1400 x40", gpu_power_draw="695 x40", gpu_temp="66 x40")),
    ("a checkpoint", node(
        psi_io_full=["0.3 x10", "85 x4", "0.3 x26"], cpu_iowait=["0.3 x10", "35 x4", "0.3 x26"],
        procs_blocked=["0 x10", "24 x4", "0 x26"], dstate_processes=["0 x10", "14 x4", "0 x26"])),
    ("a job starts and compiles", node(
        psi_cpu_some=["1 x5", "85 x10", "2 x25"], cpu_util=["2 x5", "100 x10", "14 x25"],
        load1=["2 x5", "300 x10", "30 x25"], cpu_count="192 x40")),
    ("a warm room", gpu(gpu_temp="66 x40", gpu_sm_clock="1690 x40", gpu_mem_temp="79 x40")),
    ("a narrow slot everywhere", gpu() | {
        "series": {**BUSY, "gpu_pcie_link_width": "8 x40"}, "peers": {**BUSY, "gpu_pcie_link_width": "8 x40"}}),
    ("a port that no node uses", {
        "series": {"ib_port_state": "1 x20"}, "peers": {"ib_port_state": 1}, "peer_count": 7}),
    ("a line of no meaning", log("usb 1-1: new high-speed USB device number 2 using xhci_hcd")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "case", "expected"), FAULTS, ids=[f"{kind}-{n}" for n, (kind, *_) in enumerate(FAULTS)]
)
def test_a_fault_has_exactly_its_findings(kind: str, case: dict[str, Any], expected: set[tuple[str, str, str]]) -> None:
    last: tuple[Finding, ...] = ()
    for last in play(case):
        astray = [place for finding in last for place in finding.where if not place.startswith("subject")]
        assert not astray
    assert {(finding.rule, finding.severity.value, finding.root_cause) for finding in last} == expected


@pytest.mark.parametrize(("name", "case"), HARMLESS, ids=[name for name, _ in HARMLESS])
def test_what_is_harmless_has_no_finding(name: str, case: dict[str, Any]) -> None:
    for sample, findings in enumerate(play(case)):
        loud = [finding.id for finding in findings if finding.severity.value != "info"]
        assert loud == [], f"{name}: sample {sample}"


def test_what_was_hidden_does_not_come_up_when_its_cause_ends() -> None:
    case = gpu(
        gpu_temp=["88 x20", "84 x2", "62 x12"],
        gpu_mem_temp=["97 x20", "91 x2", "72 x12"],
        gpu_clocks_event_reasons=["0x20 x20", "4 x14"],
        gpu_sm_clock=["1100 x20", "1710 x14"],
    )
    told = [{finding.rule for finding in findings} for findings in play(case)]
    assert told[15] == told[19] == {"gpu_thermal"}
    assert set().union(*told) == {"gpu_thermal"}
    assert told[-1] == set()


def test_each_xid_that_matters_belongs_to_one_rule_of_its_severity() -> None:
    known: dict[int, list[Rule]] = {}
    for rule in shipped():
        for leaf, positive in leaves(rule.trigger):
            if isinstance(leaf, XidSeen) and positive:
                for number in leaf.codes:
                    known.setdefault(number, []).append(rule)
    for code in load_codes().all("xid"):
        if code.severity.value not in ("P0", "P1", "P2"):
            assert code.code not in known, code.label
            continue
        (rule,) = known[code.code]
        assert rule.severity is code.severity, code.label
        # Codes of Blackwell's links name no cause of their own.
        assert rule.root_cause == (code.root_cause or rule.root_cause), code.label


def test_what_explains_stands_before_what_it_explains() -> None:
    places = {rule.id: place for place, rule in enumerate(in_order(shipped()))}
    by_id = {rule.id: rule for rule in shipped()}
    for rule in shipped():
        named = [named for named in (rule.explains.same_place, rule.explains.same_node) if isinstance(named, list)]
        for other in {id_ for ids in named for id_ in ids} & by_id.keys():
            assert places[rule.id] < places[other], f"{rule.id} explains {other}"
    assert places["gpu_lost"] < places["driver_hung"] < places["gpu_thermal"]
    assert places["node_lost"] < places["gpu_lost"]


def test_eight_healthy_nodes_have_no_finding_in_half_an_hour(tmp_path: Path) -> None:
    scenario = """\
        schema: stethoscope.scenario/1
        id: healthy
        title: nothing happens
        seed: 11
        duration: 1h
        fleet: {nodes: 8, gpus_per_node: 8, gpu: H100-SXM5-80GB, ib_ports_per_node: 8, ib_rate_gbps: 400}
        jobs:
          - id: "1"
            nodes: gpu-[001-006]
            step_time_s: 0.8
            shares: {compute: 0.62, comm: 0.25, data: 0.05, other: 0.08}
            samples_per_step: 960
        events: []
        """
    file = tmp_path / "healthy.yaml"
    file.write_text("\n".join(line.removeprefix("        ") for line in scenario.splitlines()))
    twin = Twin(load_scenario(file, vocabulary()))
    orders = msgspec.convert(groups(), tuple[Order, ...])
    names, tick_s = twin.layout.nodes, 20.0
    drawn: Drawn = {}
    state = FleetState(CATALOGUE, [Spec(name, tick_s=tick_s) for name in names], "healthy")
    speakers = [Speaker(twin, row, tick_s, drawn) for row in range(len(names))]
    engine = Engine(shipped(), CATALOGUE)
    for look in range(90):
        at = look * tick_s
        twin.advance_to(at)
        readings = Readings(twin)
        for name, speaker in zip(names, speakers, strict=True):
            frame = Frame(name, twin.wall_at_0 + at, at, b"")
            if not look:
                speaker.watch(orders)
                state.set_link(name, Link(LinkState.LIVE, since=twin.wall_at_0))
                state.apply(frame, parse(speaker.hello()))
            for line in (speaker.frame(readings), *speaker.parts(readings, at, 3)):
                state.apply(frame, parse(line))
        findings = engine.evaluate(state.snapshot(twin.wall_at_0 + at, at))
        assert [finding.id for finding in findings] == [], at
