"""The engine: three values, windows, hysteresis, peers, what hides what, folding, and agreement with a plain loop."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.rules import Engine
from stethoscope.clock import iso
from stethoscope.model.event import LogEvent
from stethoscope.model.finding import Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Reason
from stethoscope.paths import bundled
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules
from stethoscope.specs.rule_book import load_rules
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.specs.rule import Rule

CAUSES = read_root_causes(bundled("playbooks") / "root_causes.yaml")


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def rules(text: str) -> tuple[Rule, ...]:
    return read_rules(loads(textwrap.dedent(text), "rules.yaml"), catalogue(), CAUSES)


def one_rule(trigger: str, **more: str) -> tuple[Rule, ...]:
    lines = [f'{key}: "{value}"' for key, value in {"severity": "P1", "summary": "it happens", **more}.items()]
    return rules("\n".join(["rule_id: made", "description: made for a test", f"trigger: {trigger}", *lines]))


def shipped() -> tuple[Rule, ...]:
    return load_rules(catalogue(), CAUSES)


def at(snapshot: FleetSnapshot, seconds: float) -> FleetSnapshot:
    """Return the snapshot as if it were taken `seconds` later, with frames that are as fresh."""
    nodes = tuple(
        replace(node, frame_mono=node.frame_mono + seconds, frames=node.frames + int(seconds / node.tick_s))
        if node.frame_mono is not None
        else node
        for node in snapshot.nodes
    )
    return replace(snapshot, mono=MONO + seconds, wall=WALL + seconds, nodes=nodes)


def active(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.state == "active"]


HOT = "[{metric: gpu_temp, operator: '>=', threshold: 90, aggregate: last}]"


def hot(value: float | Reason, **more: Any) -> FleetSnapshot:
    return fleet(2, set={("gpu-002/gpu/3", "gpu_temp"): value}, **more)


# ---------------------------------------------------------------- three values

STATES = {"true": 95.0, "false": 60.0, "unknown": Reason.PERMISSION}


def kleene(how: str, a: str, b: str) -> str:
    if how == "all":
        return "false" if "false" in (a, b) else "unknown" if "unknown" in (a, b) else "true"
    return "true" if "true" in (a, b) else "unknown" if "unknown" in (a, b) else "false"


@pytest.mark.parametrize(("how", "a", "b"), list(itertools.product(["all", "any"], STATES, STATES)))
def test_truth_tables(how: str, a: str, b: str) -> None:
    leaf = "{{metric: {0}, operator: '>', threshold: 90, aggregate: last}}"
    both = f"{{{how}: [{leaf.format('gpu_temp')}, {leaf.format('gpu_mem_temp')}]}}"
    place = "gpu-001/gpu/0"
    snapshot = fleet(1, gpus=1, set={(place, "gpu_temp"): STATES[a], (place, "gpu_mem_temp"): STATES[b]})
    plain = bool(Engine(one_rule(both), catalogue()).evaluate(snapshot))
    negated = bool(Engine(one_rule(f"{{not: {both}}}"), catalogue()).evaluate(snapshot))
    assert (plain, negated) == {
        "true": (True, False),
        "false": (False, True),
        "unknown": (False, False),
    }[kleene(how, a, b)]


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.PRESENT])
def test_a_missing_value_is_neither_high_nor_low(reason: Reason) -> None:
    for operator in (">=", "<", "==", "!="):
        trigger = f"[{{metric: gpu_temp, operator: '{operator}', threshold: 90, aggregate: last}}]"
        snapshot = fleet(1, gpus=1, set={("gpu-001/gpu/0", "gpu_temp"): reason})
        assert Engine(one_rule(trigger), catalogue()).evaluate(snapshot) == ()


def test_what_a_silent_node_said_last_is_not_what_is() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    assert active(engine.evaluate(hot(95, ages={"gpu-002": 6}))) != []
    assert Engine(one_rule(HOT), catalogue()).evaluate(hot(95, ages={"gpu-002": 8})) == ()


@pytest.mark.parametrize(
    ("mask", "bits", "found"), [(0x60, 0x20, True), (0x60, 0x40, True), (0x60, 0x9F & ~0x60, False), (0x60, 0, False)]
)
def test_has_is_any_bit_of_the_mask(mask: int, bits: int, found: bool) -> None:
    trigger = f"[{{metric: gpu_clocks_event_reasons, operator: has, threshold: {mask}, aggregate: last}}]"
    snapshot = fleet(1, gpus=1, set={("gpu-001/gpu/0", "gpu_clocks_event_reasons"): bits})
    assert bool(Engine(one_rule(trigger), catalogue()).evaluate(snapshot)) is found


def test_two_metrics_are_compared_with_each_other() -> None:
    trigger = "[{metric: gpu_count, operator: '<', threshold: {metric: gpu_count_pci}, aggregate: last}]"
    engine = Engine(one_rule(trigger), catalogue())
    assert engine.evaluate(fleet(2)) == ()
    found = engine.evaluate(fleet(2, set={("gpu-002", "gpu_count"): 7}))
    assert [finding.where for finding in found] == [("gpu-002",)]
    assert found[0].evidence[0].as_json() == {
        "fact": "gpu_count",
        "value": 7,
        "expected": "at least 8 GPUs",
        "where": "gpu-002",
        "at": iso(WALL - 1),
        "source": "probe",
    }


def test_a_node_condition_reaches_every_gpu_of_the_node() -> None:
    trigger = f"[{HOT[1:-1]}, {{metric: cpu_iowait, operator: '>', threshold: 20, aggregate: last}}]"
    snapshot = fleet(
        2,
        gpus=2,
        set={("gpu-001/gpu/0", "gpu_temp"): 95, ("gpu-002/gpu/1", "gpu_temp"): 95, ("gpu-002", "cpu_iowait"): 40},
    )
    assert [f.where for f in Engine(one_rule(trigger), catalogue()).evaluate(snapshot)] == [("gpu-002/gpu/1",)]


# ---------------------------------------------------------------- raise and clear


def test_a_finding_appears_at_once_and_has_everything() -> None:
    rule = one_rule(HOT, summary="hot · {{gpu_temp}} at {{place}}", root_cause="gpu_thermal")
    (finding,) = Engine(rule, catalogue()).evaluate(hot(95))
    assert (finding.id, finding.rule) == ("made@gpu-002/gpu/3", "made")
    assert (finding.severity, finding.state, finding.confidence) == (Severity.P1, "active", 1.0)
    assert (finding.where, finding.nodes, finding.root_cause) == (("gpu-002/gpu/3",), "gpu-002", "gpu_thermal")
    assert (finding.since, finding.cleared_at) == ("2026-03-14T02:14:07Z", None)
    assert finding.summary == "hot · 95 °C at gpu-002/gpu/3"
    assert [(fact.fact, fact.value, fact.expected) for fact in finding.evidence] == [("gpu_temp", 95, "below 90 °C")]


def test_it_clears_after_thirty_seconds_of_false_and_is_told_for_ten_minutes() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    engine.evaluate(hot(95))
    assert [f.state for f in engine.evaluate(at(hot(60), 10))] == ["active"]
    assert [f.state for f in engine.evaluate(at(hot(60), 39))] == ["active"]
    (cleared,) = engine.evaluate(at(hot(60), 41))
    assert (cleared.state, cleared.id, cleared.cleared_at) == ("cleared", "made@gpu-002/gpu/3", iso(WALL + 10))
    assert len(engine.evaluate(at(hot(60), 630))) == 1
    assert engine.evaluate(at(hot(60), 642)) == ()


def test_true_again_within_thirty_seconds_is_the_same_finding() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    (first,) = engine.evaluate(hot(95))
    engine.evaluate(at(hot(60), 10))
    engine.evaluate(at(hot(95), 20))
    engine.evaluate(at(hot(60), 30))
    (still,) = engine.evaluate(at(hot(60), 55))
    assert (still.state, still.since) == ("active", first.since)


@pytest.mark.parametrize("now", [60.0, Reason.UNREACHABLE])
def test_what_no_longer_holds_keeps_the_words_that_were_true(now: float | Reason) -> None:
    made = one_rule(HOT, summary="at {{gpu_temp}}")
    engine = Engine(made, catalogue())
    engine.evaluate(hot(94))
    before = active(engine.evaluate(at(hot(95), 5)))
    assert [finding.summary for finding in before] == ["at 95 °C"]
    assert active(engine.evaluate(at(hot(now), 10))) == before
    (again,) = active(engine.evaluate(at(hot(96), 15)))
    assert (again.summary, again.since) == ("at 96 °C", before[0].since)


def test_unknown_neither_clears_nor_raises() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    assert engine.evaluate(hot(Reason.HUNG)) == ()
    engine.evaluate(at(hot(95), 5))
    for seconds in range(10, 200, 10):
        assert [f.state for f in engine.evaluate(at(hot(Reason.HUNG), seconds))] == ["active"]


def test_a_cleared_finding_that_comes_back_is_told_once() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    engine.evaluate(hot(95))
    engine.evaluate(at(hot(60), 5))
    assert [f.state for f in engine.evaluate(at(hot(60), 36))] == ["cleared"]
    (again,) = engine.evaluate(at(hot(95), 60))
    assert (again.state, again.since) == ("active", iso(WALL + 60))


def test_a_window_needs_every_sample_and_since_is_its_start() -> None:
    engine = Engine(one_rule("[{metric: gpu_temp, operator: '>=', threshold: 90, window: 30s}]"), catalogue())
    assert engine.evaluate(at(hot(60), 0)) == ()
    for seconds in range(5, 35, 5):
        assert engine.evaluate(at(hot(95), seconds)) == ()
    (finding,) = engine.evaluate(at(hot(95), 35))
    assert finding.since == iso(WALL + 5)
    blinking = Engine(one_rule("[{metric: gpu_temp, operator: '>=', threshold: 90, window: 30s}]"), catalogue())
    assert all(blinking.evaluate(at(hot(60 if n % 5 == 0 else 95), 5 * n)) == () for n in range(40))


def test_a_pause_is_not_a_window() -> None:
    engine = Engine(one_rule("[{metric: gpu_temp, operator: '>=', threshold: 90, window: 60s}]"), catalogue())
    engine.evaluate(hot(95))
    assert engine.evaluate(at(hot(95), 300)) == ()


def test_time_that_goes_back_starts_anew() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    engine.evaluate(at(hot(95), 500))
    assert engine.evaluate(at(hot(60), 10)) == ()


# ---------------------------------------------------------------- counters

PORT = "gpu-001/ib/mlx5_0"


def counted(total: int, seconds: float, **more: Any) -> FleetSnapshot:
    return at(fleet(1, totals={(PORT, "ib_symbol_error"): total}, **more), seconds)


SYMBOLS = "[{metric: ib_symbol_error, operator: '>', threshold: 120/h, window: 60s, aggregate: rate}]"


def test_a_storm_is_found_before_its_window_is_full() -> None:
    engine = Engine(one_rule(SYMBOLS, summary="+{{ib_symbol_error}} ({{value}})"), catalogue())
    assert engine.evaluate(counted(0, 0)) == ()
    assert engine.evaluate(counted(2, 2)) == ()
    (finding,) = engine.evaluate(counted(80, 4))
    assert finding.summary == "+20/s (20)"
    assert finding.evidence[0].fact == "ib_symbol_error rate 60 s"


def test_two_errors_in_a_minute_are_not_120_an_hour() -> None:
    engine = Engine(one_rule(SYMBOLS), catalogue())
    for seconds in range(0, 300, 5):
        assert engine.evaluate(counted(min(2, seconds), seconds)) == ()
    assert active(engine.evaluate(counted(5, 300))) != []


def test_high_counters_that_do_not_move_are_nothing() -> None:
    engine = Engine(shipped(), catalogue())
    for seconds in range(0, 400, 5):
        breathing = {("gpu-001", "mem_available"): 1_280_000 + seconds}
        assert engine.evaluate(counted(4_000_000_000, seconds, set=breathing)) == ()


def test_a_delta_over_its_window() -> None:
    trigger = "[{metric: ib_symbol_error, operator: '>', threshold: 5, window: 60s, aggregate: delta}]"
    engine = Engine(one_rule(trigger, summary="{{ib_symbol_error}}"), catalogue())
    engine.evaluate(counted(100, 0))
    assert engine.evaluate(counted(105, 20)) == ()
    (finding,) = engine.evaluate(counted(107, 40))
    assert finding.summary == "7 errors"
    for seconds in range(45, 140, 5):
        last = engine.evaluate(counted(107, seconds))
    assert [f.state for f in last] == ["cleared"]


def test_a_delta_without_a_window_is_since_the_first_reading() -> None:
    trigger = "[{metric: ib_symbol_error, operator: '>', threshold: 5, aggregate: delta}]"
    engine = Engine(one_rule(trigger, summary="{{ib_symbol_error}}"), catalogue())
    assert engine.evaluate(counted(5, 0)) == ()
    (finding,) = engine.evaluate(counted(6, 20))
    assert (finding.summary, finding.evidence[0].fact) == ("6 errors", "ib_symbol_error delta since the first reading")
    assert active(engine.evaluate(counted(6, 4000))) != []
    assert engine.nbytes == 0


def test_pinned_counters_are_one_info_for_a_node() -> None:
    pinned = {(f"gpu-001/ib/mlx5_{n}", "ib_link_downed"): Reason.SATURATED for n in range(8)}
    (finding,) = Engine(shipped(), catalogue()).evaluate(fleet(2, set=pinned))
    assert (finding.rule, finding.severity, finding.id) == (
        "ib_counter_pinned",
        Severity.INFO,
        "ib_counter_pinned@gpu-001",
    )
    assert (len(finding.where), finding.nodes) == (8, "gpu-001")


@pytest.mark.parametrize(("aggregate", "found"), [("min", False), ("avg", True)])
def test_the_least_and_the_mean_need_the_whole_window(aggregate: str, found: bool) -> None:
    trigger = f"[{{metric: gpu_temp, operator: '>', threshold: 80, window: 20s, aggregate: {aggregate}}}]"
    engine = Engine(one_rule(trigger), catalogue())
    for number, value in enumerate([60, 90, 95, 90]):
        assert engine.evaluate(at(hot(value), 5 * number)) == () or number == 3
    assert bool(engine.evaluate(at(hot(95), 20))) is found


def test_one_sample_beyond_it_is_enough_for_a_peak() -> None:
    trigger = "[{metric: gpu_temp, operator: '>', threshold: 80, window: 20s, aggregate: max}]"
    engine = Engine(one_rule(trigger), catalogue())
    looks = [len(active(engine.evaluate(at(hot(value), 5 * number)))) for number, value in enumerate([60, 90, 60])]
    assert looks == [0, 1, 1]


# ---------------------------------------------------------------- peers

SLOW = "[{metric: gpu_sm_clock, peers: {of: model, below: 0.8, by: ratio}}]"


def test_one_slow_gpu_among_its_peers() -> None:
    engine = Engine(one_rule(SLOW, summary="{{gpu_sm_clock}} (peers {{peers}})"), catalogue())
    (finding,) = engine.evaluate(fleet(1, set={("gpu-001/gpu/3", "gpu_sm_clock"): 1410}))
    assert (finding.where, finding.summary) == (("gpu-001/gpu/3",), "1410 MHz (peers 1980 MHz)")
    assert finding.evidence[0].expected == "peers 1980 MHz"


def test_three_gpus_are_no_peers() -> None:
    snapshot = fleet(1, gpus=3, set={("gpu-001/gpu/0", "gpu_sm_clock"): 300})
    assert Engine(one_rule(SLOW), catalogue()).evaluate(snapshot) == ()


def test_all_slow_alike_is_nobody_slow() -> None:
    slow = {(f"gpu-00{node}/gpu/{n}", "gpu_sm_clock"): 1000 for node in (1, 2) for n in range(8)}
    assert Engine(one_rule(SLOW), catalogue()).evaluate(fleet(2, set=slow)) == ()


def test_other_models_are_no_peers() -> None:
    snapshot = fleet(2, set={(f"gpu-002/gpu/{n}", "gpu_sm_clock"): 1000 for n in range(8)})
    first, second = snapshot.nodes
    other = tuple(gpu.__class__(gpu.index, "NVIDIA L4", gpu.uuid, gpu.pci) for gpu in second.gpus)
    snapshot = replace(snapshot, nodes=(first, replace(second, gpus=other)))
    assert Engine(one_rule(SLOW), catalogue()).evaluate(snapshot) == ()


def test_the_same_port_of_other_nodes() -> None:
    trigger = "[{metric: ib_port_rate, peers: {of: name, below: 0.8}}]"
    engine = Engine(one_rule(trigger), catalogue())
    slow_rail = {(f"gpu-{node:03}/ib/mlx5_7", "ib_port_rate"): 100 for node in range(1, 7)}
    assert engine.evaluate(fleet(6, set=slow_rail)) == ()
    found = engine.evaluate(at(fleet(6, set={**slow_rail, ("gpu-004/ib/mlx5_0", "ib_port_rate"): 200}), 5))
    assert [finding.where for finding in found] == [("gpu-004/ib/mlx5_0",)]


def test_more_sure_when_the_clock_is_below_its_peers() -> None:
    throttled = {("gpu-001/gpu/3", "gpu_clocks_event_reasons"): 0x40, ("gpu-001/gpu/3", "gpu_temp"): 88}
    slower = {**throttled, ("gpu-001/gpu/3", "gpu_sm_clock"): 1100}
    confidences = []
    for changes in (throttled, slower):
        engine = Engine(shipped(), catalogue())
        for seconds in range(0, 35, 5):
            found = engine.evaluate(at(fleet(1, set=changes), seconds))
        assert [finding.rule for finding in found] == ["gpu_thermal"]
        confidences.append(found[0].confidence)
    assert confidences == [0.85, 0.95]
    assert found[0].summary == "throttles because of heat · 88 °C · 1100 MHz (peers 1980 MHz)"
    assert {"gpu_temp", "gpu_temp_margin", "gpu_sm_clock"} <= {fact.fact for fact in found[0].evidence}


# ---------------------------------------------------------------- nodes, logs, one cause


def test_links() -> None:
    links = {
        "gpu-001": Link(LinkState.UNREACHABLE, since=WALL - 41, detail="no route to host"),
        "gpu-002": Link(LinkState.AUTH_REFUSED, since=WALL - 5, detail="publickey"),
        "gpu-003": LinkState.CONNECTING,
    }
    found = Engine(shipped(), catalogue()).evaluate(fleet(4, links=links, waiting=["gpu-002", "gpu-003"]))
    assert [(f.rule, f.severity, f.where, f.summary, f.since) for f in found] == [
        ("node_lost", Severity.P0, ("gpu-001",), "unreachable · no route to host", iso(WALL - 41)),
        ("node_not_visible", Severity.P1, ("gpu-002",), "cannot look at it: auth refused · publickey", iso(WALL - 5)),
    ]


def test_a_node_that_was_never_reached_is_p1() -> None:
    snapshot = fleet(2, links={"gpu-001": LinkState.UNREACHABLE}, waiting=["gpu-001"])
    (finding,) = Engine(shipped(), catalogue()).evaluate(snapshot)
    assert (finding.rule, finding.severity, finding.root_cause) == ("node_unreachable", Severity.P1, "node_down")


def test_forty_lost_nodes_are_one_finding() -> None:
    lost = [f"gpu-{n:03}" for n in range(5, 45)]
    links = {name: Link(LinkState.UNREACHABLE, since=WALL - 3, detail=f"{name}: timed out") for name in lost}
    (finding,) = Engine(shipped(), catalogue()).evaluate(fleet(64, links=links))
    assert (finding.id, finding.nodes, finding.summary) == ("node_lost@fleet", "gpu-[005-044]", "unreachable")
    assert finding.where == tuple(lost)


def test_eight_places_are_told_one_by_one_and_folds_do_not_flap() -> None:
    engine = Engine(one_rule(HOT, summary="hot · {{gpu_temp}}"), catalogue())
    counts = []
    for step, number in enumerate((8, 9, 6, 5, 4)):
        engine_now = {(f"gpu-{n:03}/gpu/0", "gpu_temp"): 90 + n for n in range(1, number + 1)}
        for half in (0, 31):
            # In one rack they have nothing in common that the others have not.
            found = engine.evaluate(at(fleet(10, set=engine_now, per_rack=10), 100 * step + half))
        counts.append(len(active(found)))
    assert counts == [8, 1, 1, 1, 4]


def test_a_lost_node_hides_what_was_on_it() -> None:
    engine = Engine(shipped(), catalogue())
    heat = {("gpu-002/gpu/1", "gpu_handle_error"): 15}
    assert [f.rule for f in engine.evaluate(fleet(2, set=heat))] == ["gpu_lost"]
    found = engine.evaluate(at(fleet(2, set=heat, lost=["gpu-002"]), 5))
    assert [f.rule for f in found] == ["node_lost"]


def xid(code: int, node: str = "gpu-001", gpu: int = 2, age_s: float = 10) -> LogEvent:
    pci = fleet(1).nodes[0].gpus[gpu].pci.rpartition(".")[0]
    text = f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>"
    return LogEvent(node, "kernel", text, WALL - age_s, xid=code, pci=pci)


def test_a_lost_gpu_with_its_xid_hides_its_consequences() -> None:
    place = "gpu-001/gpu/2"
    snapshot = fleet(2, lost=[place], events=[xid(79), xid(45)], set={("gpu-001", "gpu_count"): 7})
    engine = Engine(shipped(), catalogue())
    for seconds in (0, 5, 10, 15):
        (finding,) = engine.evaluate(at(snapshot, seconds))
    assert (finding.id, finding.severity, finding.root_cause) == (
        f"gpu_lost@{place}",
        Severity.P0,
        "gpu_fallen_off_bus",
    )
    assert (finding.summary, finding.confidence) == ("fell off the bus · Xid 79", 0.98)
    assert finding.since == iso(WALL - 10)
    assert [fact.as_json() for fact in finding.evidence if fact.source == "kernel log"] == [
        {
            "fact": "xid",
            "value": xid(79).text,
            "expected": "none",
            "where": place,
            "at": iso(WALL - 10),
            "source": "kernel log",
        }
    ]


def test_the_xid_of_this_morning_is_still_the_reason() -> None:
    place = "gpu-001/gpu/2"
    (finding,) = Engine(shipped(), catalogue()).evaluate(fleet(2, lost=[place], events=[xid(79, age_s=20_000)]))
    assert (finding.summary, finding.since, finding.confidence) == (
        "fell off the bus · Xid 79",
        iso(WALL - 20_000),
        0.98,
    )
    assert Engine(shipped(), catalogue()).evaluate(fleet(2, events=[xid(79, age_s=20_000)])) == ()


def test_another_xid_is_information() -> None:
    (finding,) = Engine(shipped(), catalogue()).evaluate(fleet(2, events=[xid(45), xid(154), xid(45)]))
    assert (finding.rule, finding.severity, finding.summary) == (
        "gpu_xid",
        Severity.INFO,
        "Xid 45, 154 in the kernel log",
    )


def test_a_kernel_log_that_cannot_be_read_says_nothing() -> None:
    trigger = "[{not: {xid: any, window: 1h}}]"
    assert len(Engine(one_rule(trigger), catalogue()).evaluate(fleet(1, gpus=2))[0].where) == 2
    snapshot = fleet(1, gpus=2, notes={"gpu-001": {"kernel_log": "permission"}})
    assert Engine(one_rule(trigger), catalogue()).evaluate(snapshot) == ()


def test_a_hung_driver_is_one_finding_and_an_xid_79_beats_it() -> None:
    hung: dict[tuple[str, str], Any] = {("gpu-001", "nvml_latency"): Reason.HUNG, ("gpu-001", "gpu_count"): Reason.HUNG}
    for n in range(8):
        for metric in ("gpu_temp", "gpu_handle_error", "gpu_sm_clock", "gpu_clocks_event_reasons"):
            hung[f"gpu-001/gpu/{n}", metric] = Reason.HUNG
    assert [f.rule for f in Engine(shipped(), catalogue()).evaluate(fleet(2, set=hung))] == ["driver_hung"]
    found = Engine(shipped(), catalogue()).evaluate(fleet(2, set=hung, events=[xid(79)]))
    assert [(f.rule, f.where) for f in found] == [("gpu_lost", ("gpu-001/gpu/2",))]


def test_a_healthy_or_idle_fleet_has_no_finding() -> None:
    idle = {"gpu_util": 0, "gpu_sm_clock": 345, "gpu_power_draw": 69, "gpu_clocks_event_reasons": 1}
    quiet = {(f"gpu-003/gpu/{n}", metric): value for n in range(8) for metric, value in idle.items()}
    engine = Engine(shipped(), catalogue())
    for seconds in range(0, 600, 5):
        capped = {(f"gpu-001/gpu/{seconds % 8}", "gpu_clocks_event_reasons"): 4}
        # What a node has of memory never stands still.
        breathing = {(f"gpu-00{n}", "mem_available"): 1_280_000 + seconds * n for n in range(1, 5)}
        assert engine.evaluate(at(fleet(4, set={**quiet, **capped, **breathing}), seconds)) == ()


def test_a_single_look_is_shorter_and_less_sure() -> None:
    throttled = fleet(1, set={("gpu-001/gpu/3", "gpu_clocks_event_reasons"): 0x40})
    engine = Engine(shipped(), catalogue(), single_look=True)
    assert engine.evaluate(throttled) == ()
    (finding,) = engine.evaluate(at(throttled, 5))
    assert (finding.rule, finding.severity, finding.confidence) == ("gpu_thermal", Severity.P1, 0.68)
    storm = Engine(shipped(), catalogue(), single_look=True)
    storm.evaluate(counted(0, 0))
    (finding,) = storm.evaluate(counted(200, 5))
    assert (finding.rule, finding.summary) == ("ib_symbol_errors", "symbol errors +40/s")


def test_rows_that_move_take_nothing_with_them() -> None:
    engine = Engine(one_rule(HOT), catalogue())
    engine.evaluate(fleet(2, gpus=4, set={("gpu-002/gpu/3", "gpu_temp"): 95}))
    found = engine.evaluate(at(fleet(2, gpus=6), 5))
    assert found == ()


# ---------------------------------------------------------------- agreement with a plain loop


def oracle(values: list[float], masks: list[int], clocks: list[float]) -> set[int]:
    """Say the same as the rule below, one row at a time."""
    known = sorted(clock for clock in clocks if not np.isnan(clock))
    median = float(np.median(known)) if len(known) >= 4 else None
    found = set()
    for row, (value, mask, clock) in enumerate(zip(values, masks, clocks, strict=True)):
        is_hot = None if np.isnan(value) else value >= 83
        braked = bool(mask & 0x60)
        slow = None if median is None or np.isnan(clock) or median <= 0 else clock / median < 0.9
        either = True if braked or slow else None if slow is None else False
        if is_hot and either:
            found.add(row)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 125))
def test_a_thousand_rows_at_once_say_what_a_loop_says(seed: int, nodes: int) -> None:
    trigger = (
        "[{metric: gpu_temp, operator: '>=', threshold: warn, aggregate: last}, "
        "{any: [{metric: gpu_clocks_event_reasons, operator: has, threshold: 0x60, aggregate: last}, "
        "{metric: gpu_sm_clock, peers: {of: fleet, below: 0.9}}]}]"
    )
    random = np.random.default_rng(seed)
    snapshot = fleet(nodes, ports=0)
    table = next(table for table in snapshot.tables.values() if "gpu_temp" in table.index)
    rows = table.values.shape[1]
    columns = {
        "gpu_temp": random.choice([60.0, 82.9, 83.0, 95.0, np.nan], rows),
        "gpu_clocks_event_reasons": random.choice([0.0, 4.0, 32.0, 72.0], rows),
        "gpu_sm_clock": random.choice([1980.0, 1980.0, 1790.0, 1000.0, np.nan], rows),
    }
    values, reasons = table.values.copy(), table.reasons.copy()
    for metric, column in columns.items():
        values[table.index[metric]] = column
        reasons[table.index[metric]] = np.where(np.isnan(column), Reason.ERROR, Reason.PRESENT)
    snapshot = replace(
        snapshot, tables={**snapshot.tables, table.scope: replace(table, values=values, reasons=reasons)}
    )
    found = Engine(one_rule(trigger), catalogue()).evaluate(snapshot)
    places = {place for finding in found for place in finding.where}
    expected = oracle(
        columns["gpu_temp"].tolist(),
        [int(mask) for mask in columns["gpu_clocks_event_reasons"]],
        columns["gpu_sm_clock"].tolist(),
    )
    assert places == {f"gpu-{row // 8 + 1:03}/gpu/{row % 8}" for row in expected}


def test_memory_of_sixteen_thousand_ports_is_bounded() -> None:
    engine = Engine(shipped(), catalogue())
    snapshot = fleet(125)
    for seconds in range(0, 600, 5):
        engine.evaluate(at(snapshot, seconds))
    # Of 16,000 GPUs and as many ports 77 MB: samples of windows, smoothed values of peers, levels of the own past.
    assert engine.nbytes <= 1000 * 8 * 600


def test_an_alert_that_names_its_place_does_not_keep_places_apart() -> None:
    found = rules("""
        rule_id: made
        description: A GPU is too hot.
        severity: P1
        trigger: {metric: gpu_temp, operator: ">", threshold: 80, aggregate: last}
        action: [{type: alert, message: "GPU {{node_id}}/{{device}} is at {{value}} since {{timestamp}}"}]
        """)
    hot = {(f"gpu-{n:03}/gpu/0", "gpu_temp"): 88 for n in range(1, 13)}
    (finding,) = Engine(found, catalogue()).evaluate(fleet(12, set=hot))
    assert (finding.nodes, finding.summary) == ("gpu-[001-012]", "A GPU is too hot")
    few = fleet(12, set=dict(list(hot.items())[:2]))
    assert [one.summary.split(" is at ")[0] for one in Engine(found, catalogue()).evaluate(few)] == [
        "GPU gpu-001/gpu/0", "GPU gpu-002/gpu/0",
    ]  # fmt: skip


def test_what_every_value_fulfils_is_not_what_is_expected() -> None:
    lost = fleet(2, links={"gpu-001": Link(LinkState.UNREACHABLE, since=WALL - 41, detail="no route to host")})
    (finding,) = Engine(shipped(), catalogue()).evaluate(lost)
    assert [fact.expected for fact in finding.evidence if fact.fact == "node_data_age"] == [""]


def test_what_was_explained_does_not_come_up_when_that_ends() -> None:
    loud = "{rule_id: heat, description: d, severity: P1, summary: heat, explains: {same_place: [warm, worse]}, "
    judge = Engine(
        rules(
            "rules:\n"
            f"- {loud}trigger: {HOT}}}\n"
            "- {rule_id: warm, description: d, severity: P2, summary: warm, "
            "trigger: [{metric: gpu_temp, operator: '>=', threshold: 70, window: 60s, aggregate: max}]}\n"
            "- {rule_id: worse, description: d, severity: P1, summary: worse, "
            "trigger: [{metric: gpu_temp, operator: '>=', threshold: 80, aggregate: last}]}\n"
        ),
        catalogue(),
    )
    told = {}
    for seconds in range(0, 305, 5):
        value = 60.0 if seconds < 10 else 95.0 if seconds < 60 else 85.0
        told[seconds] = {finding.rule for finding in active(judge.evaluate(at(hot(value), seconds)))}
    assert told[5] == set()
    assert told[55] == {"heat"}
    # What is urgent stands for itself at once; what is not has its window, and a minute.
    assert told[100] == {"worse"}
    assert told[200] == {"worse"}
    assert told[300] == {"warm", "worse"}
