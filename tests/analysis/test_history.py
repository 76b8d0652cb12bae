"""The ring of past values: what it keeps, what it shares, and when a row's past is not that of its device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stethoscope.analysis.history import History
from stethoscope.model.metric import Reason, Scope
from tests.builders import catalogue, fleet

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Node
    from tests.builders import Value

POWER = "gpu_power_draw"


def moment(mono: float, value: Value = 640, place: str = "gpu-001/gpu/3", metric: str = POWER) -> FleetSnapshot:
    return replace(fleet(2), mono=mono) if value is None else replace(fleet(2, set={(place, metric): value}), mono=mono)


def with_node(snapshot: FleetSnapshot, node: Node) -> FleetSnapshot:
    nodes = tuple(node if other.name == node.name else other for other in snapshot.nodes)
    return replace(snapshot, nodes=nodes)


def test_a_series_tells_how_long_ago_each_value_was() -> None:
    history = History(catalogue())
    for mono, value in ((10, 600), (15, 610), (20, Reason.HUNG), (25, 620.5)):
        assert history.take(moment(mono, value))
    ages, values = history.series(Scope.GPU, POWER, 3)
    assert ages.tolist() == [15, 10, 5, 0]
    assert values.tolist() == pytest.approx([600, 610, np.nan, 620.5], nan_ok=True)
    assert (len(history), history.seconds) == (4, 15)


def test_a_sample_is_taken_when_it_is_due() -> None:
    history = History(catalogue())
    assert [history.take(moment(mono)) for mono in (10, 10.25, 14, 15, 19.95, 20)] == [1, 0, 0, 1, 1, 0]


def test_a_large_fleet_is_sampled_more_rarely() -> None:
    history, large = History(catalogue()), fleet(300, gpus=1, ports=0)
    assert [history.take(replace(large, mono=mono)) for mono in (10, 15, 20)] == [True, False, True]


def test_a_counter_is_kept_as_its_rate_and_what_is_built_in_not_at_all() -> None:
    history = History(catalogue())
    history.take(moment(10, 5e9, "gpu-002/ib/mlx5_1", "ib_port_rcv_data"))
    assert history.series(Scope.PORT, "ib_port_rcv_data", 9)[1].tolist() == [5e9]
    assert history.series(Scope.GPU, "gpu_fb_total", 0)[1].size == 0
    assert history.series(Scope.GPU, "no_such_metric", 0)[0].size == 0
    assert history.series(Scope.GPU, POWER, 99)[0].size == 0
    assert history.series(Scope.DISK, "disk_await", 0)[0].size == 0


def test_the_share_of_a_bit_is_of_the_samples_that_have_a_value() -> None:
    history, reasons = History(catalogue()), "gpu_clocks_event_reasons"
    for number, value in enumerate((0x40, 0x44, Reason.HUNG, 0x4, 0)):
        history.take(moment(10 + 5 * number, value, metric=reasons))
    assert history.share(Scope.GPU, reasons, 3, 0x40, 60) == 0.5
    assert history.share(Scope.GPU, reasons, 3, 0x4, 60) == 0.5
    assert history.share(Scope.GPU, reasons, 3, 0x4, 5) == 0.5
    assert history.share(Scope.GPU, reasons, 3, 0x4, 0) == 0
    assert history.share(Scope.GPU, reasons, 3, 0x80, 60) == 0
    assert history.share(Scope.GPU, reasons, 99, 0x80, 60) is None


def test_what_did_not_change_takes_no_room() -> None:
    history = History(catalogue())
    history.take(moment(10))
    first = history.bytes
    history.take(moment(15))
    assert history.bytes == first
    history.take(moment(20, 641))
    assert history.bytes == first + 16 * 2, "one column of sixteen GPUs, in half floats"


@pytest.mark.parametrize(
    ("values", "room"),
    [
        ([7.1] * 16, 4),
        ([np.nan] * 16, 4),
        ([*range(2033, 2049)], 32),
        ([2049.0, *range(15)], 64),
        ([0.1, *range(15)], 64),
        ([70_000.0, *range(15)], 64),
        ([np.nan, 65_504.0, *range(14)], 32),
    ],
)
def test_values_take_the_least_room_that_holds_them_exactly(values: list[float], room: int) -> None:
    history, snapshot = History(catalogue()), moment(10)
    history.take(snapshot)
    before, table = history.bytes, snapshot.tables[Scope.GPU]
    changed = table.values.copy()
    changed[table.index[POWER]] = values
    tables = {**snapshot.tables, Scope.GPU: replace(table, values=changed)}
    history.take(replace(snapshot, mono=15, tables=tables))
    assert history.bytes - before == room
    (_, column) = history.columns(Scope.GPU, POWER)[-1]
    assert np.array_equal(column, np.array(values, np.float32), equal_nan=True)
    assert history.series(Scope.GPU, POWER, 0)[1][-1] == pytest.approx(np.float32(values[0]), rel=0, nan_ok=True)


def test_the_oldest_goes_when_there_is_no_more_room() -> None:
    alone = History(catalogue())
    alone.take(moment(0, 1))
    history = History(catalogue(), alone.bytes + 10 * 32)
    for number in range(40):
        history.take(moment(5 * number, number))
        assert history.bytes <= alone.bytes + 10 * 32
    assert len(history) == 11
    assert history.series(Scope.GPU, POWER, 3)[1].tolist() == list(range(29, 40))


def test_nothing_older_than_a_quarter_of_an_hour_is_kept() -> None:
    history = History(catalogue())
    for number in range(200):
        history.take(moment(5 * number))
    assert history.seconds == 900


def test_a_clock_that_goes_back_begins_anew() -> None:
    history = History(catalogue())
    for mono in (100, 105, 110):
        history.take(moment(mono))
    assert history.take(moment(50, 1))
    assert history.series(Scope.GPU, POWER, 3)[1].tolist() == [1]


def test_another_fleet_begins_anew() -> None:
    history = History(catalogue())
    history.take(moment(10))
    history.take(replace(fleet(3), mono=11))
    assert len(history) == 1


def test_another_board_in_a_slot_has_no_past() -> None:
    history = History(catalogue())
    history.take(moment(10, 600))
    later = moment(15, 610)
    node = later.nodes[0]
    gpus = tuple(replace_uuid(gpu, "GPU-new") if gpu.index == 3 else gpu for gpu in node.gpus)
    later = with_node(later, replace(node, gpus=gpus))
    history.take(later)
    assert history.series(Scope.GPU, POWER, 3)[1].tolist() == [610]
    assert history.series(Scope.GPU, POWER, 2)[1].tolist() == [640, 640]
    assert history.series(Scope.GPU, POWER, 11)[1].tolist() == [640, 640]


def test_rows_that_moved_have_no_past_and_neither_have_those_who_take_their_place() -> None:
    history = History(catalogue())
    before = moment(10)
    history.take(before)
    table = before.tables[Scope.GPU]
    moved = replace(
        table, values=np.pad(table.values, ((0, 0), (0, 8))), reasons=np.pad(table.reasons, ((0, 0), (0, 8)))
    )
    after = with_node(replace(before, mono=15, tables={**before.tables, Scope.GPU: moved}), before.nodes[0])
    after = with_node(after, replace(before.nodes[0], gpu_first=16))
    history.take(after)
    assert history.series(Scope.GPU, POWER, 16)[0].tolist() == [0]
    assert history.series(Scope.GPU, POWER, 8)[0].tolist() == [5, 0]
    taken = with_node(replace(after, mono=20), replace(before.nodes[1], gpu_first=0))
    history.take(taken)
    assert history.series(Scope.GPU, POWER, 0)[0].tolist() == [0]


def test_devices_are_followed_by_their_names() -> None:
    history, base = History(catalogue()), fleet(1)
    nvlink = replace(base.tables[Scope.GPU], scope=Scope.NVLINK)
    names = tuple(name for name, metric in catalogue().items() if metric.scope is Scope.NVLINK)
    nvlink = replace(
        nvlink, metrics=names, index={name: place for place, name in enumerate(names)}, values=np.ones((len(names), 2))
    )
    base = replace(base, tables={**base.tables, Scope.NVLINK: nvlink})
    devices = {Scope.NVLINK: ("0/0", "0/1")}
    base = with_node(base, replace(base.nodes[0], devices=devices, device_first={Scope.NVLINK: 0}))
    history.take(base)
    other = replace(base.nodes[0], devices={Scope.NVLINK: ("0/0", "0/2")})
    history.take(with_node(replace(base, mono=base.mono + 5), other))
    assert history.series(Scope.NVLINK, "nvlink_state", 0)[1].tolist() == [1, 1]
    assert history.series(Scope.NVLINK, "nvlink_state", 1)[1].tolist() == [1]


def replace_uuid(gpu: object, uuid: str) -> object:
    import msgspec

    return msgspec.structs.replace(gpu, uuid=uuid)  # type: ignore[type-var]
