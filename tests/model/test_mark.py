"""What was counted since a mark: through resets, boots, and devices that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from stethoscope.model.mark import Mark
from stethoscope.model.metric import Missing, Reason, Scope
from tests.builders import fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node

PORT = "gpu-002/ib/mlx5_1"
ROW = 9
SYMBOLS = "ib_symbol_error"


def at(wall: float, total: int, place: str = PORT, metric: str = SYMBOLS) -> FleetSnapshot:
    return replace(fleet(2, totals={(place, metric): total}), wall=wall)


def with_node(snapshot: FleetSnapshot, **changes: object) -> FleetSnapshot:
    node: Node = replace(snapshot.nodes[1], **changes)  # type: ignore[arg-type]
    return replace(snapshot, nodes=(snapshot.nodes[0], node))


@pytest.mark.parametrize(
    ("before", "now", "since"),
    [(100, 100, 0), (100, 142, 42), (2**64 - 3, 2**64 - 1, 2), (100, 99, Reason.RESET), (100, 0, Reason.RESET)],
)
def test_what_was_counted(before: int, now: int, since: int | Reason) -> None:
    mark = Mark.of(at(1_000, before))
    told = mark.since(at(2_000, now), Scope.PORT, SYMBOLS, ROW)
    assert told == (Missing(since) if isinstance(since, Reason) else since)


def test_a_counter_at_its_end_does_not_tell() -> None:
    mark = Mark.of(at(1_000, 65_535))
    assert mark.since(at(2_000, 65_535), Scope.PORT, SYMBOLS, ROW) == Missing(Reason.SATURATED)
    assert Mark.of(at(1_000, 65_000)).since(at(2_000, 65_535), Scope.PORT, SYMBOLS, ROW) == 535


def test_a_missing_total_is_missing_for_its_reason_then_and_now() -> None:
    lost = fleet(2, lost=[PORT])
    assert Mark.of(at(1_000, 5)).since(replace(lost, wall=2_000), Scope.PORT, SYMBOLS, ROW) == Missing(Reason.LOST)
    assert Mark.of(replace(lost, wall=1_000)).since(at(2_000, 5), Scope.PORT, SYMBOLS, ROW) == Missing(Reason.LOST)


def test_after_a_boot_counters_began_at_zero() -> None:
    mark = Mark.of(at(1_000, 100))
    booted = with_node(at(2_000, 7), boot_id="another")
    assert mark.since(booted, Scope.PORT, SYMBOLS, ROW) == 7
    assert mark.since(with_node(at(2_000, 107), boot_id="another"), Scope.PORT, SYMBOLS, ROW) == 107
    assert mark.booted_since(booted.nodes[1])
    assert mark.remark(booted.nodes[1]) == "booted since the mark: its counters began at 0"
    assert mark.remark(booted.nodes[0]) == ""


def test_totals_that_the_device_keeps_outlive_a_boot() -> None:
    place, metric = "gpu-002/gpu/0", "gpu_ecc_uncorr_aggregate_sram"
    mark = Mark.of(at(1_000, 3, place, metric))
    assert mark.since(with_node(at(2_000, 4, place, metric), boot_id="another"), Scope.GPU, metric, 8) == 1
    assert mark.since(with_node(at(2_000, 1, place, metric), boot_id="another"), Scope.GPU, metric, 8) == Missing(
        Reason.RESET
    )


def test_a_node_that_does_not_tell_its_boots_is_taken_for_running() -> None:
    mark = Mark.of(with_node(at(1_000, 100), boot_id=""))
    assert mark.since(at(2_000, 142), Scope.PORT, SYMBOLS, ROW) == 42


def test_a_device_that_was_not_there_is_absent_at_the_mark() -> None:
    before = at(1_000, 100)
    ports = tuple(
        msgspec.structs.replace(port, device="mlx5_20") if port.device == "mlx5_1" else port
        for port in before.nodes[1].ports
    )
    mark = Mark.of(with_node(before, ports=ports))
    assert mark.since(at(2_000, 142), Scope.PORT, SYMBOLS, ROW) == Missing(Reason.ABSENT)
    assert mark.since(at(2_000, 142), Scope.PORT, SYMBOLS, ROW + 1) == 0


def test_a_device_is_found_where_it_was() -> None:
    before = at(1_000, 100)
    turned = with_node(before, ports=tuple(reversed(before.nodes[1].ports)))
    now = at(2_000, 142, "gpu-002/ib/mlx5_6")
    assert Mark.of(turned).since(now, Scope.PORT, SYMBOLS, ROW + 5) == 42


def test_a_node_that_had_said_nothing_is_waited_for() -> None:
    mark = Mark.of(with_node(at(1_000, 0), frames=0))
    now = at(2_000, 142)
    assert mark.since(now, Scope.PORT, SYMBOLS, ROW) == Missing(Reason.WAITING)
    assert mark.remark(now.nodes[1]) == "had sent nothing at the mark"


def test_before_the_mark_nothing_is_counted_since_it() -> None:
    assert Mark.of(at(2_000, 100)).since(at(1_000, 142), Scope.PORT, SYMBOLS, ROW) == Missing(Reason.WAITING)


def test_one_node_after_the_other_is_found() -> None:
    mark, now = Mark.of(fleet(3)), fleet(3, totals={("gpu-003/gpu/7", "nvlink_rx"): 8, ("gpu-001", "oom_kills"): 2})
    assert mark.since(now, Scope.GPU, "nvlink_rx", 23) == 8
    assert mark.since(now, Scope.NODE, "oom_kills", 0) == 2
    assert mark.since(now, Scope.NODE, "oom_kills", 2) == 0
