"""Rules about devices that come in parts: where a finding is, what a window needs, and what still stands."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from stethoscope.analysis.rules import Engine
from stethoscope.analysis.windows import Ring
from stethoscope.clock import iso
from stethoscope.model.facts import Devices
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Scope
from stethoscope.specs.load import loads
from stethoscope.specs.rule import read_rules
from tests.analysis.test_parts import CATALOGUE, WALL, Fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from stethoscope.model.finding import Finding
    from stethoscope.specs.rule import Rule

SLOW = "{metric: disk_await, operator: '>', threshold: 100, aggregate: last}"


def rule(trigger: str, summary: str = "it happens · {{device}}", more: str = "") -> tuple[Rule, ...]:
    text = f"""\
        rule_id: made
        description: made for a test
        severity: P1
        summary: "{summary}"
        trigger: {trigger}
        """
    return read_rules(loads(textwrap.dedent(text) + more, "rules.yaml"), CATALOGUE, {})


def engine(trigger: str, **more: str) -> Engine:
    return Engine(rule(trigger, **more), CATALOGUE)


def active(findings: Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings if finding.state == "active"]


def disks(fleet: Fleet, number: int, waits_ms: Sequence[float], dt: float = 30.0) -> None:
    """Tell of disks that did ten reads in each interval, which took so long each."""
    names = tuple(f"nvme{position}n1" for position in range(len(waits_ms)))
    counts = [10 * number] * len(names)
    values = {
        "disk_reads": counts, "disk_writes": [0] * len(names), "disk_write_time": [0] * len(names),
        "disk_read_time": [int(10 * number * wait) for wait in waits_ms], "disk_io_time": [0] * len(names),
    }  # fmt: skip
    fleet.part("disks", dt=dt, devices={Scope.DISK: Devices(names, values)})


def started(*names: str) -> Fleet:
    fleet = Fleet(*names)
    for name in names or ("n1",):
        fleet.start(name)
    return fleet


def test_one_bad_disk_is_a_finding_at_that_disk() -> None:
    fleet, judge = started(), engine(f"[{SLOW}]", summary="{{device}} waits {{value}} ms")
    for number in (1, 2):
        disks(fleet, number, [1, 250, 2])
    (finding,) = judge.evaluate(fleet.look())
    assert (finding.id, finding.where, finding.nodes) == ("made@n1/disk/nvme1n1", ("n1/disk/nvme1n1",), "n1")
    assert finding.summary == "disk/nvme1n1 waits 250 ms"
    (fact,) = finding.evidence
    assert (fact.fact, fact.value, fact.where, fact.at) == (
        "disk_await",
        250,
        "n1/disk/nvme1n1",
        iso(WALL + fleet.mono),
    )


def test_a_metric_of_the_node_counts_for_its_disks() -> None:
    fleet = started("n1", "n2")
    judge = engine(f"[{SLOW}, {{metric: swap_used, operator: '>', threshold: 10, aggregate: last}}]")
    for node, swap in (("n1", 5), ("n2", 50)):
        fleet.part("host", node, node={"swap_used": swap})
        for number in (1, 2):
            names = ("sda",)
            values = {f"disk_{name}": [number] for name in ("reads", "writes", "write_time", "io_time")}
            values["disk_read_time"] = [number * 900]
            fleet.part("disks", node, devices={Scope.DISK: Devices(names, values)})
    assert active(judge.evaluate(fleet.look())) == ["made@n2/disk/sda"]


def test_what_a_part_said_stands_for_three_of_its_intervals() -> None:
    fleet, judge = started(), engine(f"[{SLOW}]")
    for number in (1, 2):
        disks(fleet, number, [500])
    fleet.mono += 91.0
    assert active(judge.evaluate(fleet.look())) == ["made@n1/disk/nvme0n1"]
    fresh = engine(f"[{SLOW}]")
    fleet.mono += 1.0
    assert fresh.evaluate(fleet.look()) == ()
    fleet.link(LinkState.UNREACHABLE)
    assert fresh.evaluate(fleet.look()) == ()


def test_what_must_last_is_held_between_parts() -> None:
    fleet = started()
    judge = engine("[{metric: disk_await, operator: '>', threshold: 100, window: 90s}]")
    found = []
    for number in range(1, 9):
        disks(fleet, number, [500, 500 if number < 4 else 1], dt=0.0)
        for _ in range(6):
            found.append(active(judge.evaluate(fleet.look())))
            fleet.mono += 5.0
    assert found.index(["made@n1/disk/nvme0n1"]) == 6 + 18  # the second part gives the first value
    assert all(ids in ([], ["made@n1/disk/nvme0n1"]) for ids in found)


def test_the_window_of_a_rare_counter_has_slots_as_rare() -> None:
    fleet = started()
    judge = engine("[{metric: nvlink_crc_errors, operator: '>=', threshold: 100, aggregate: delta, window: 10m}]")
    (ring,) = (memory.ring for memory in judge._evaluator._shared.values())
    assert (ring.slot_s, ring._slots) == (30.0, 22)
    found = []
    for number in range(60):
        links = Devices(("0/0", "0/1"), {"nvlink_state": [1, 1], "nvlink_crc_errors": [5, 6 * number]})
        fleet.part("gpu", dt=0.0, devices={Scope.NVLINK: links})
        for _ in range(6):
            found.append(active(judge.evaluate(fleet.look())))
            fleet.mono += 5.0
    assert found.index(["made@n1/nvlink/0/1"]) == 17 * 6  # 17 intervals make 102 errors
    assert found[-1] == ["made@n1/nvlink/0/1"]


def test_a_rate_over_a_window_of_parts() -> None:
    fleet = started()
    judge = engine("[{metric: nvlink_crc_errors, operator: '>', threshold: 0.1, aggregate: rate, window: 2m}]")
    for number in range(20):
        links = Devices(("0/0", "0/1"), {"nvlink_state": [1, 1], "nvlink_crc_errors": [2 * number, 6 * number]})
        fleet.part("gpu", devices={Scope.NVLINK: links})
        findings = judge.evaluate(fleet.look())
    assert active(findings) == ["made@n1/nvlink/0/1"]


def test_many_bad_disks_fold_into_one_finding() -> None:
    fleet = started()
    judge = engine(f"[{SLOW}]", summary="disks wait · {{device}}")
    for number in (1, 2):
        disks(fleet, number, [500] * 9)
    (finding,) = judge.evaluate(fleet.look())
    assert (finding.id, len(finding.where), finding.nodes) == ("made@n1", 9, "n1")


def test_peers_of_a_disk_are_those_of_its_model() -> None:
    fleet = started()
    judge = engine("[{metric: disk_await, peers: {of: model, above: 3, by: ratio}}]")
    names = [f"nvme{number}n1" for number in range(10)]
    about = {name: {"model": "fast" if number < 5 else "slow"} for number, name in enumerate(names)}
    for number in (1, 2):
        waits = [1, 1, 1, 1, 9, 50, 50, 50, 50, 50]
        values = {f"disk_{name}": [number] * 10 for name in ("reads", "io_time")}
        values |= {f"disk_{name}": [0] * 10 for name in ("writes", "write_time")}
        values["disk_read_time"] = [number * wait for wait in waits]
        fleet.part("disks", devices={Scope.DISK: Devices(tuple(names), values, about)})
    assert active(judge.evaluate(fleet.look())) == ["made@n1/disk/nvme4n1"]


def test_a_device_that_appears_later_has_no_past() -> None:
    fleet = started()
    judge = engine("[{metric: fs_used, operator: '>', threshold: 90, for: 60s, aggregate: last}]")
    seen = []
    for number in range(8):
        names, used = (("/", "/data"), [95, 99]) if number >= 4 else (("/",), [95])
        fleet.part("mounts", devices={Scope.FS: Devices(names, {"fs_used": used})})
        seen.append(active(judge.evaluate(fleet.look())))
    assert [sorted(ids) for ids in seen] == [
        [], [], *[["made@n1/fs/"]] * 4, *[["made@n1/fs/", "made@n1/fs/data"]] * 2,
    ]  # fmt: skip


def test_a_quiet_table_is_not_put_into_a_window_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = started()
    judge = engine("[{metric: nvlink_crc_errors, operator: '>=', threshold: 1, aggregate: delta, window: 10m}]")
    put: list[float] = []
    monkeypatch.setattr(
        Ring, "put", lambda self, values, mono, own=Ring.put: (put.append(mono), own(self, values, mono))
    )
    fleet.mono = 1_200.0
    links = Devices(("0/0",), {"nvlink_state": [1], "nvlink_crc_errors": [5]})
    for number in range(60):
        if number % 30 == 0:
            fleet.part("gpu", dt=0.0, devices={Scope.NVLINK: links})
        judge.evaluate(fleet.look())
        fleet.mono += 1.0
    assert put == [1_200.0, 1_230.0]
