"""One cause, one finding; and a monitor that sees nothing says so, and blames no node."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.blind import RETURN_S
from stethoscope.analysis.correlation import Correlation
from stethoscope.analysis.layout import Layout
from stethoscope.analysis.moment import Moment
from stethoscope.analysis.rules import Engine
from stethoscope.model.finding import Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job, SchedulerState
from stethoscope.paths import bundled
from stethoscope.specs.load import loads
from stethoscope.specs.root_cause import read_root_causes
from stethoscope.specs.rule import read_rules
from stethoscope.specs.rule_book import load_rules
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot

RULES = """
rules:
- rule_id: port_down
  description: down
  severity: P0
  root_cause: ib_link_down
  summary: "link is down · {{ib_port_state}}"
  trigger: [{metric: ib_port_state, operator: "<", threshold: 4, aggregate: last}]
- rule_id: port_waits
  description: waits
  severity: P1
  root_cause: switch_congestion
  summary: waits to send
  trigger: [{metric: ib_port_xmit_wait, operator: ">", threshold: 0.1, aggregate: last}]
- rule_id: hot
  description: hot
  severity: P2
  root_cause: gpu_thermal
  summary: "hot · {{gpu_temp}}"
  trigger: [{metric: gpu_temp, operator: ">=", threshold: 85, aggregate: last}]
- rule_id: brake
  description: brake
  severity: P1
  root_cause: gpu_power
  per: node
  summary: power brake
  trigger: [{metric: gpu_clocks_event_reasons, operator: has, threshold: 0x80, aggregate: last}]
- rule_id: lost
  description: lost
  severity: P0
  root_cause: node_down
  summary: "unreachable · {{detail}}"
  explains: {same_node: all}
  trigger: [{link: unreachable}]
- rule_id: silent
  description: silent
  severity: P1
  root_cause: telemetry_lost
  summary: sends no data
  trigger:
    any: [{link: [silent, auth refused]}, {metric: node_data_age, operator: ">", threshold: overdue, aggregate: last}]
- rule_id: dead
  description: what the scheduler says, say
  severity: P0
  root_cause: node_down
  summary: does not answer its BMC
  trigger: [{metric: procs_blocked, operator: ">", threshold: 900, aggregate: last}]
"""


def engine() -> Engine:
    causes = read_root_causes(bundled("playbooks") / "root_causes.yaml")
    return Engine(read_rules(loads(RULES), catalogue(), causes), catalogue())


def later(snapshot: FleetSnapshot, seconds: float, silent_since: dict[str, float] | None = None) -> FleetSnapshot:
    """Return the snapshot as if it were taken `seconds` later; nodes that are silent sent nothing since then."""
    silent_since = silent_since or {}
    nodes = []
    for node in snapshot.nodes:
        if node.frame_mono is not None:
            heard = min(seconds, silent_since.get(node.name, seconds))
            node = replace(node, frame_mono=node.frame_mono + heard, frames=node.frames + int(heard / node.tick_s))
        nodes.append(node)
    table = snapshot.tables[Scope.NODE]
    values = table.values.copy()
    heard_at = [float("nan") if node.frame_mono is None else node.frame_mono for node in nodes]
    values[table.index["node_data_age"]] = [MONO + seconds - at for at in heard_at]
    tables = {**snapshot.tables, Scope.NODE: replace(table, values=values)}
    return replace(snapshot, mono=MONO + seconds, wall=WALL + seconds, nodes=tuple(nodes), tables=tables)


def run(judge: Engine, make: Callable[[float], FleetSnapshot], times: Iterable[float]) -> list[Finding]:
    """Return what is active at the last of `times`."""
    found: tuple[Finding, ...] = ()
    for seconds in times:
        found = judge.evaluate(make(seconds))
    return [finding for finding in found if finding.state == "active"]


def started(snapshot: FleetSnapshot) -> Engine:
    """Return an engine that saw `snapshot` without a finding."""
    judge = engine()
    assert judge.evaluate(snapshot) == ()
    return judge


def short(findings: Iterable[Finding]) -> list[tuple[str, str, str, str]]:
    return [(finding.severity.value, finding.id, finding.nodes, finding.summary) for finding in findings]


def down(device: int, nodes: Iterable[int]) -> dict[tuple[str, str], Any]:
    return {(f"gpu-{node:03}/ib/mlx5_{device}", "ib_port_state"): 1 for node in nodes}


def gone(numbers: Iterable[int], since: float = 3.0, detail: str = "no answer", via: str = "") -> dict[str, Link]:
    return {
        f"gpu-{number:03}": Link(LinkState.UNREACHABLE, since=WALL + since, detail=detail, via=via)
        for number in numbers
    }


def behind(snapshot: FleetSnapshot, jump: Callable[[int], str]) -> FleetSnapshot:
    nodes = (replace(node, link=replace(node.link, via=jump(node.index))) for node in snapshot.nodes)
    return replace(snapshot, nodes=tuple(nodes))


# ---------------------------------------------------------------- one cause


def test_a_dead_leaf_and_an_unrelated_hot_gpu_are_two_lines() -> None:
    sick = {**down(3, range(1, 9)), ("gpu-020/gpu/3", "gpu_temp"): 90}
    found = run(started(fleet(32)), lambda seconds: later(fleet(32, set=sick), seconds), (5, 10))
    assert short(found) == [
        ("P0", "port_down@leaf/leaf-01-3", "gpu-[001-008]", "8 of 8 ports of leaf-01-3: link is down"),
        ("P2", "hot@gpu-020/gpu/3", "gpu-020", "hot · 90 °C"),
    ]
    leaf = found[0]
    assert (leaf.cause, leaf.root_cause, leaf.explained) == ("leaf/leaf-01-3", "switch_fault", 8)
    assert leaf.where == tuple(f"gpu-{node:03}/ib/mlx5_3" for node in range(1, 9))
    fact = leaf.evidence[0]
    assert (fact.fact, fact.value, fact.expected) == ("affected together", "8 of 8 ports", "elsewhere 0 of 248")


def test_three_hundred_nodes_behind_a_dead_leaf_are_one_line() -> None:
    healthy = fleet(1200, gpus=0, ports=1, per_rack=300)
    sick = fleet(1200, gpus=0, ports=1, per_rack=300, set=down(0, range(301, 601)))
    (finding,) = run(started(healthy), lambda seconds: later(sick, seconds), (5, 10))
    assert (finding.id, finding.nodes) == ("port_down@leaf/leaf-02-0", "gpu-[301-600]")
    assert finding.summary == "300 of 300 ports of leaf-02-0: link is down"


def test_what_follows_from_a_dead_leaf_is_told_with_it() -> None:
    names = {f"gpu-{number:03}": 8.0 for number in range(1, 9)}
    sick = fleet(32, set=down(3, range(1, 9)))
    judge = started(fleet(32))
    (finding,) = run(judge, lambda seconds: later(sick, seconds, names), range(2, 40, 2))
    assert finding.summary == "8 of 8 ports of leaf-01-3: link is down · with it: sends no data"
    assert (finding.explained, finding.severity, len(finding.where)) == (16, Severity.P0, 16)


def test_neighbours_in_the_same_job_wait_for_the_dead_leaf() -> None:
    waits = {(f"gpu-{node:03}/ib/mlx5_3", "ib_port_xmit_wait"): 2e9 for node in (9, 10, 11, 17)}
    job = Job("4242", nodes=tuple(f"gpu-{number:03}" for number in range(1, 25)))

    def make(seconds: float) -> FleetSnapshot:
        return later(replace(fleet(64, set={**down(3, range(1, 9)), **waits}), jobs=(job,)), seconds)

    (finding,) = run(started(replace(fleet(64), jobs=(job,))), make, (5, 10))
    assert finding.summary == "8 of 8 ports of leaf-01-3: link is down · with it: waits to send"
    assert len(finding.where) == 12


@pytest.mark.parametrize(("receiver", "said"), [(8, True), (3, False)])
def test_the_port_that_all_send_to(receiver: int, said: bool) -> None:
    """Seven ports of a leaf wait; the eighth does not, and receives most."""
    waits: dict[tuple[str, str], Any] = {(f"gpu-{node:03}/ib/mlx5_3", "ib_port_xmit_wait"): 2e9 for node in range(1, 8)}
    waits[f"gpu-{receiver:03}/ib/mlx5_3", "ib_port_rcv_data"] = 12_000_000_000
    (finding,) = run(started(fleet(32)), lambda seconds: later(fleet(32, set=waits), seconds), (5, 10))
    more = " · gpu-008/ib/mlx5_3 receives most, 384 Gb/s" if said else ""
    assert (finding.cause, finding.summary) == (
        "leaf/leaf-01-3", f"7 of 8 ports of leaf-01-3: waits to send{more}",
    )  # fmt: skip


def test_a_hot_rack_behind_a_dead_leaf_is_not_its_consequence() -> None:
    hot = {(f"gpu-{node:03}/gpu/0", "gpu_temp"): 90 for node in range(1, 9)}
    sick = fleet(32, set={**down(3, range(1, 9)), **hot})
    found = run(started(fleet(32)), lambda seconds: later(sick, seconds), (5, 10))
    assert [(finding.id, finding.root_cause) for finding in found] == [
        ("port_down@leaf/leaf-01-3", "switch_fault"),
        ("hot@rack/rack-01", "cooling_fault"),
    ]


def test_power_and_its_consequences() -> None:
    brake = {
        (f"gpu-{node:03}/gpu/{gpu}", "gpu_clocks_event_reasons"): 0x80 for node in range(9, 17) for gpu in range(8)
    }
    found = run(started(fleet(64)), lambda seconds: later(fleet(64, set=brake), seconds), (5, 10))
    assert short(found) == [("P1", "brake@rack/rack-02", "gpu-[009-016]", "8 of 8 nodes of rack-02: power brake")]
    assert (found[0].root_cause, found[0].explained, len(found[0].where)) == ("psu_fault", 8, 64)
    sick = fleet(64, set=brake, links=gone(range(9, 17), since=20))
    judge = started(fleet(64))
    run(judge, lambda seconds: later(fleet(64, set=brake), seconds), (5, 10, 15))
    (finding,) = run(judge, lambda seconds: later(sick, seconds), (20, 25))
    assert (finding.severity, finding.cause) == (Severity.P0, "rack/rack-02")


def test_many_racks_are_one_line() -> None:
    links = gone(range(9, 41))
    (finding,) = run(started(fleet(128)), lambda seconds: later(fleet(128, links=links), seconds), (5, 10))
    assert (finding.id, finding.cause) == ("lost@rack", "rack/rack-[02-05]")
    assert finding.summary == "32 of 32 nodes of rack-[02-05]: unreachable"


def test_what_many_nodes_have_is_folded_and_not_each_nodes_own() -> None:
    hot = {(f"gpu-{node:03}/gpu/{gpu}", "gpu_temp"): 90 for node in (3, 12, 22, 31) for gpu in range(8)}
    (finding,) = run(started(fleet(32)), lambda seconds: later(fleet(32, set=hot), seconds), (5, 10))
    assert (finding.id, finding.cause, len(finding.where)) == ("hot@fleet", "", 32)


def test_a_leaf_that_comes_back_port_by_port() -> None:
    judge = started(fleet(32))
    run(judge, lambda seconds: later(fleet(32, set=down(3, range(1, 9))), seconds), (5, 10))
    seen = []
    for step, left in enumerate((6, 3, 1, 0)):
        for seconds in (20 + 40 * step, 40 + 40 * step, 55 + 40 * step):
            found = judge.evaluate(later(fleet(32, set=down(3, range(1, left + 1))), seconds))
            seen.append([(finding.id, finding.state, len(finding.where)) for finding in found])
    assert {id_ for moment in seen for id_, _, _ in moment} == {"port_down@leaf/leaf-01-3"}
    assert [moment[0][1:] for moment in seen] == [
        ("active", 8), ("active", 8), ("active", 6),
        ("active", 6), ("active", 6), ("active", 3),
        ("active", 3), ("active", 3), ("active", 1),
        ("active", 1), ("active", 1), ("cleared", 1),
    ]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.sets(st.integers(0, 127)), st.sets(st.integers(1, 16)), st.sets(st.integers(0, 127)))
def test_no_affected_place_is_lost(ports: set[int], lost: set[int], hot: set[int]) -> None:
    sick: dict[tuple[str, str], Any] = {
        (f"gpu-{at // 8 + 1:03}/ib/mlx5_{at % 8}", "ib_port_state"): 1 for at in ports if at // 8 + 1 not in lost
    }
    sick |= {(f"gpu-{at // 8 + 1:03}/gpu/{at % 8}", "gpu_temp"): 90 for at in hot if at // 8 + 1 not in lost}
    links = gone(sorted(lost))
    judge = engine()
    judge.evaluate(fleet(16, per_rack=4))
    found = run(judge, lambda seconds: later(fleet(16, per_rack=4, set=sick, links=links), seconds), (5, 10))
    told = {place for finding in found for place in finding.where}
    assert told == {place for place, _ in sick} | set(links)
    assert len({finding.id for finding in found}) == len(found)


def test_what_fell_because_the_job_stopped_is_no_finding() -> None:
    shipped = {
        rule.id: rule for rule in load_rules(catalogue(), read_root_causes(bundled("playbooks") / "root_causes.yaml"))
    }
    rules = (shipped["gpu_power_fell"], shipped["node_lost"])
    job = Job("4242", nodes=("gpu-001", "gpu-002"))
    snapshot = replace(fleet(4, gpus=2), jobs=(job,))
    moment = Moment(snapshot, Layout(snapshot), catalogue())
    fell, lost = np.ones(8, dtype=bool), np.array([True, False, False, False])
    began = [np.full(8, WALL + 40.0), np.array([WALL, np.nan, np.nan, np.nan])]
    began[0][2] = WALL + 900
    seen = {"gpu_power_fell": fell, "node_lost": lost}
    counted = Correlation(rules).stopped(moment, seen, began)
    assert seen["gpu_power_fell"].tolist() == [False, False, True, False, True, True, True, True]
    assert seen["node_lost"] is lost
    # Of two nodes, each as a whole.
    assert counted == {(1, 0): 2}


@pytest.mark.parametrize(
    ("first", "left"),
    [
        ("gpu_thermal", [False] * 4 + [True] * 4),
        ("ib_symbol_errors", [False] * 4 + [True] * 4),
        # Nothing urgent, and nothing that makes others wait.
        ("gpu_memory_hot", [True] * 8),
        ("disk_unreadable", [True] * 8),
    ],
)
def test_what_fell_because_one_of_the_job_is_slow_is_told_with_it(first: str, left: list[bool]) -> None:
    shipped = {
        rule.id: rule for rule in load_rules(catalogue(), read_root_causes(bundled("playbooks") / "root_causes.yaml"))
    }
    rules = (shipped["gpu_power_fell"], shipped[first])
    snapshot = replace(fleet(4, gpus=2), jobs=(Job("4242", nodes=("gpu-001", "gpu-002")),))
    moment = Moment(snapshot, Layout(snapshot), catalogue())
    rows = len(moment.layout.owner[rules[1].scope])
    sick = np.arange(rows) == 0
    seen = {"gpu_power_fell": np.ones(8, dtype=bool), first: sick}
    Correlation(rules).stopped(moment, seen, [np.full(8, WALL + 330.0), np.where(sick, WALL, np.nan)])
    assert seen["gpu_power_fell"].tolist() == left


def test_who_waits_for_what_stopped_is_told_with_it() -> None:
    shipped = {
        rule.id: rule for rule in load_rules(catalogue(), read_root_causes(bundled("playbooks") / "root_causes.yaml"))
    }
    names = ("gpu_spins", "driver_hung", "driver_unusable", "gpu_thermal", "gpu_row_remap_pending")
    rules = tuple(shipped[name] for name in names)
    snapshot = replace(fleet(4, gpus=2), jobs=(Job("4242", nodes=("gpu-001", "gpu-002")),))
    moment = Moment(snapshot, Layout(snapshot), catalogue())

    def left(first: str) -> dict[str, list[int]]:
        seen = {rule.id: np.zeros(len(moment.layout.owner[rule.scope]), dtype=bool) for rule in rules}
        seen["gpu_spins"][2:6] = True
        seen["driver_unusable"][1] = True
        seen[first][0] = True
        Correlation(rules).stopped(moment, seen, [np.full(len(seen[rule.id]), WALL) for rule in rules])
        return {id_: np.flatnonzero(flags).tolist() for id_, flags in seen.items() if flags.any()}

    # What spins in another job has another cause; what is broken itself is no consequence.
    assert left("driver_hung") == {"gpu_spins": [4, 5], "driver_hung": [0], "driver_unusable": [1]}
    # Heat slows down, and stops nobody.
    assert left("gpu_thermal") == {"gpu_spins": [2, 3, 4, 5], "gpu_thermal": [0], "driver_unusable": [1]}
    # Nor does memory that waits for its repair, though memory can.
    waits = "gpu_row_remap_pending"
    assert left(waits) == {"gpu_spins": [2, 3, 4, 5], waits: [0], "driver_unusable": [1]}


# ---------------------------------------------------------------- what the monitor does not see


def test_all_nodes_lost_is_this_machine() -> None:
    links = {
        name: replace(link, since=link.since + at / 10) for at, (name, link) in enumerate(gone(range(1, 17)).items())
    }
    judge = started(fleet(16))
    for seconds in (5, 8, 20, 100):
        found = run(judge, lambda s: later(fleet(16, links=links), s), (seconds,))
        assert short(found) == [
            (
                "P1",
                "telemetry_lost@this machine",
                "gpu-[001-016]",
                "telemetry lost: no node is heard: look at this machine and its network first · 16 nodes",
            )
        ]
        assert (found[0].root_cause, found[0].cause, found[0].explained) == ("telemetry_lost", "this machine", 16)


def test_all_nodes_silent_is_this_machine_too() -> None:
    silent = {f"gpu-{number:03}": 4.0 for number in range(1, 17)}
    found = run(started(fleet(16)), lambda seconds: later(fleet(16), seconds, silent), range(2, 40, 2))
    assert [finding.id for finding in found] == ["telemetry_lost@this machine"]


def test_all_behind_one_jump_host() -> None:
    def jump(index: int) -> str:
        return "bastion" if index < 24 else ""

    links = gone(range(1, 25), detail="jump host bastion: no login", via="bastion")
    judge = started(behind(fleet(32), jump))
    found = run(judge, lambda seconds: later(behind(fleet(32, links=links), jump), seconds), (5, 10, 20))
    assert short(found) == [
        (
            "P1",
            "telemetry_lost@jump host bastion",
            "gpu-[001-024]",
            "telemetry lost: nothing behind jump host bastion is heard · 24 nodes",
        )
    ]


def test_a_node_is_lost_while_others_behind_its_jump_host_are_heard() -> None:
    links = gone((5,), via="bastion")
    judge = started(behind(fleet(8), lambda _: "bastion"))
    found = run(judge, lambda seconds: later(behind(fleet(8, links=links), lambda _: "bastion"), seconds), (5, 10))
    assert short(found) == [("P0", "lost@gpu-005", "gpu-005", "unreachable · no answer")]


def test_a_jump_host_that_answers_for_its_nodes_is_not_to_blame() -> None:
    def jump(index: int) -> str:
        return "bastion" if index < 4 else ""

    links = gone(range(1, 5), detail="gpu: No route to host (from the jump host)", via="bastion")
    judge = started(behind(fleet(16, per_rack=4), jump))
    found = run(judge, lambda s: later(behind(fleet(16, per_rack=4, links=links), jump), s), (5, 10, 20))
    assert [(finding.id, finding.severity) for finding in found] == [("lost@rack/rack-01", Severity.P0)]


def test_what_the_scheduler_lost_too_is_lost() -> None:
    slurm = SchedulerState(("down", "not_responding"), "Not responding", "slurm", WALL)

    def make(seconds: float) -> FleetSnapshot:
        made = fleet(4, links=gone(range(1, 5)))
        nodes = (replace(node, scheduler=slurm if node.index == 1 else None) for node in made.nodes)
        return later(replace(made, nodes=tuple(nodes)), seconds)

    found = run(started(fleet(4)), make, (5, 10, 20))
    assert [(finding.id, finding.nodes) for finding in found] == [
        ("lost@gpu-002", "gpu-002"),
        ("telemetry_lost@this machine", "gpu-[001,003-004]"),
    ]


def test_a_key_that_no_node_takes() -> None:
    links = {f"gpu-{n:03}": Link(LinkState.AUTH_REFUSED, since=WALL + 1) for n in range(1, 9)}
    judge = engine()
    snapshot = fleet(8, links=links, waiting=links)
    (finding,) = run(judge, lambda seconds: later(snapshot, seconds), (5, 10))
    assert finding.summary.startswith("telemetry lost: every node refuses the login: look at the key or agent")


def test_two_names_that_lead_nowhere_are_two_findings() -> None:
    links = gone((1, 2), since=1)
    found = run(engine(), lambda seconds: later(fleet(2, links=links, waiting=links), seconds), (5, 10, 20))
    assert [finding.id for finding in found] == ["lost@gpu-001", "lost@gpu-002"]


def test_nodes_that_do_not_come_back_are_lost_a_minute_later() -> None:
    judge = started(fleet(16))
    run(judge, lambda seconds: later(fleet(16, links=gone(range(1, 17))), seconds), (5, 10, 15))
    ids = []
    for seconds in range(20, 160, 5):
        found = run(judge, lambda s: later(fleet(16, links=gone((3,))), s), (seconds,))
        ids.append((seconds, [finding.id for finding in found]))
    changes = [ids[0], *(now for before, now in pairwise(ids) if now[1] != before[1])]
    assert [now for _, now in changes] == [["telemetry_lost@this machine"], ["lost@gpu-003"]]
    assert changes[1][0] - 20 >= RETURN_S


def test_a_node_that_was_lost_before_stays_lost() -> None:
    judge = started(fleet(8))
    run(judge, lambda seconds: later(fleet(8, links=gone((3,))), seconds), (5, 10))
    links = {**gone(range(1, 9), since=14), **gone((3,))}
    found = run(judge, lambda seconds: later(fleet(8, links=links), seconds), (15, 20, 30))
    assert [(finding.id, finding.nodes) for finding in found] == [
        ("lost@gpu-003", "gpu-003"),
        ("telemetry_lost@this machine", "gpu-[001-002,004-008]"),
    ]


def test_one_node_lost_and_another_only_silent() -> None:
    judge = started(fleet(16))
    silent = {"gpu-003": 4.0}
    run(judge, lambda seconds: later(fleet(16), seconds, silent), range(2, 40, 2))
    sick = fleet(16, links=gone((15,), since=40))
    found = run(judge, lambda seconds: later(sick, seconds, silent), (42, 44))
    assert [(finding.severity.value, finding.id, finding.root_cause) for finding in found] == [
        ("P0", "lost@gpu-015", "node_down"),
        ("P1", "silent@gpu-003", "telemetry_lost"),
    ]


def test_what_was_found_before_stays_while_nothing_is_seen() -> None:
    judge = started(fleet(8))
    hot = {("gpu-002/gpu/3", "gpu_temp"): 90.0}
    run(judge, lambda seconds: later(fleet(8, set=hot), seconds), (5, 10))
    silent = {f"gpu-{number:03}": 10.0 for number in range(1, 9)}
    found = run(judge, lambda seconds: later(fleet(8, set=hot), seconds, silent), range(12, 60, 2))
    assert [finding.id for finding in found] == ["telemetry_lost@this machine", "hot@gpu-002/gpu/3"]


# ---------------------------------------------------------------- this machine slept


@pytest.mark.parametrize("stopped", [True, False])
def test_after_sleep_nothing_is_found_until_two_frames_came(stopped: bool) -> None:
    """Suspended machines stop their monotonic clock, or do not."""
    judge = started(fleet(4))
    judge.evaluate(later(fleet(4), 2))

    def awake(after: float, frames: int, sick: dict[str, Link] | None = None) -> list[str]:
        made = later(fleet(4, set={("gpu-002/gpu/3", "gpu_temp"): 95}, links=sick or {}), 2)
        nodes = (
            replace(node, frames=node.frames + frames, frame_mono=node.frame_mono and node.frame_mono + after)
            for node in made.nodes
        )
        slept = replace(made, wall=WALL + 2 + 3600 + after, mono=MONO + 2 + (0 if stopped else 3600) + after)
        nodes = (replace(node, frame_mono=slept.mono - 1 if frames else node.frame_mono) for node in nodes)
        found = judge.evaluate(replace(slept, nodes=tuple(nodes)))
        return [finding.id for finding in found if finding.state == "active"]

    assert awake(1, 0) == []
    assert awake(3, 1) == []
    assert awake(5, 2) == ["hot@gpu-002/gpu/3"]
