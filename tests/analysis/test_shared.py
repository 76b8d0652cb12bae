"""Short ways of the fold give what the long ones give: shared lists, pictures that are only looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.node_state import NodeState
from stethoscope.analysis.parts import Parts
from stethoscope.model import wire
from stethoscope.model.facts import Devices, Facts
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Scope
from tests.analysis.test_parts import Fleet, Spec, counted, started, value

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Table

ARRAYS = ("values", "reasons", "totals", "total_reasons", "since_first", "first_at")
LINKS = ("0/0", "0/1", "1/0")

cells = st.one_of(st.sampled_from([0, 0, 1, 7, 300, 2**32 - 1, 2**32, 2**63]), st.sampled_from(["hung", "unsupported"]))
said = st.one_of(
    st.tuples(st.just("links"), st.lists(cells, min_size=3, max_size=3), st.sampled_from([0.5, 30.0])),
    st.tuples(st.just("again"), st.just([]), st.sampled_from([0.5, 30.0])),
    st.tuples(st.just("same"), st.just([]), st.just(30.0)),
    st.tuples(st.just("gpu"), st.lists(cells, min_size=4, max_size=4), st.just(30.0)),
    st.tuples(st.just("disks"), st.lists(st.integers(0, 50), min_size=5, max_size=5), st.just(30.0)),
    st.tuples(st.just("frame"), st.lists(st.integers(0, 90), min_size=2, max_size=2), st.just(5.0)),
    st.tuples(st.sampled_from(["fewer", "lost", "hello"]), st.just([]), st.just(1.0)),
)


def copied(table: Table) -> dict[str, Any]:
    return {name: getattr(table, name).copy() for name in ARRAYS}


def is_same(snapshot: FleetSnapshot, kept: dict[Scope, dict[str, Any]]) -> bool:
    return all(
        np.array_equal(getattr(snapshot.tables[scope], name), array, equal_nan=True)
        for scope, arrays in kept.items()
        for name, array in arrays.items()
    )


def tell(fleet: Fleet, event: tuple[str, list[Any], float], found: list[Devices], *, share: bool) -> None:
    what, given_, dt = event
    if what == "links":
        values = {"nvlink_state": [1, 1, 1], "nvlink_speed": [26.5] * 3, "nvlink_crc_errors": given_}
        found[:] = [Devices(LINKS, values)]
    if what in ("links", "again") and found:
        links = found[0] if share else Devices(LINKS, dict(found[0].values))
        fleet.part("gpu", dt=dt, gpu={"gpu_ecc": [1, 2], "gpu_replay": [255, 3]}, devices={Scope.NVLINK: links})
    elif what == "gpu":
        fleet.part("gpu", dt=dt, gpu={"gpu_ecc": given_[:2], "gpu_replay": given_[2:]})
    elif what == "fewer":
        fleet.part("gpu", dt=30.0, devices={Scope.NVLINK: Devices(LINKS[:1], {"nvlink_crc_errors": [4]})})
    elif what == "disks":
        names = ("disk_reads", "disk_writes", "disk_read_time", "disk_write_time", "disk_io_time")
        values = {name: [cell * 40] for name, cell in zip(names, given_, strict=True)}
        fleet.part("disks", dt=dt, devices={Scope.DISK: Devices(("sda",), values)})
    elif what == "same":
        fleet.part("gpu", dt=dt, same=True)
    elif what == "frame":
        fleet.say(wire.Delta, gpu={"gpu_temp": given_})
    elif what == "lost":
        fleet.link(LinkState.CLOSED)
        fleet.link(LinkState.LIVE)
        fleet.full()
    elif what == "hello":
        fleet.start()


@settings(max_examples=150, deadline=None)
@given(st.lists(said, max_size=14))
def test_what_nodes_share_is_as_if_each_had_said_it(events: list[tuple[str, list[Any], float]]) -> None:
    sharing, alone = started(), started()
    for fleet, share in ((sharing, True), (alone, False)):
        found: list[Devices] = []
        for event in events:
            tell(fleet, event, found, share=share)
    after = sharing.look()
    assert is_same(alone.look(), {scope: copied(table) for scope, table in after.tables.items()})


@settings(max_examples=100, deadline=None)
@given(st.lists(said, max_size=14))
def test_no_snapshot_changes_any_more(events: list[tuple[str, list[Any], float]]) -> None:
    fleet, found = started(), list[Devices]()
    kept = []
    for event in events:
        snapshot = fleet.look()
        kept.append((snapshot, {scope: copied(table) for scope, table in snapshot.tables.items()}))
        tell(fleet, event, found, share=True)
    assert all(is_same(snapshot, arrays) for snapshot, arrays in kept)


@pytest.mark.parametrize("share", [True, False])
def test_a_new_run_of_the_probe_counts_from_its_first_reading(share: bool) -> None:
    fleet, found = started(), list[Devices]()
    for event in ("links", "again", "hello", "again", "again"):
        tell(fleet, (event, [5, 0, 0], 30.0), found, share=share)
    tell(fleet, ("links", [35, 0, 0], 30.0), found, share=share)
    assert value(fleet.look(), "n1/nvlink/0/0", "nvlink_crc_errors") == 1


def test_totals_of_links_are_exact_beyond_32_bits() -> None:
    fleet = started()
    for number, total in enumerate((3, 2**32 + 5, 2**32 + 35)):
        links = Devices(LINKS, {"nvlink_crc_errors": [total, 0, number]})
        fleet.part("gpu", devices={Scope.NVLINK: links})
    after = fleet.look()
    table = after.tables[Scope.NVLINK]
    assert [table.total("nvlink_crc_errors", row) for row in range(3)] == [2**32 + 35, 0, 2]
    assert value(after, "n1/nvlink/0/0", "nvlink_crc_errors") == 1
    assert counted(after, "n1/nvlink/1/0", "nvlink_crc_errors") == 2


def test_what_did_not_change_is_there_once() -> None:
    fleet = started()
    before = fleet.devices("disks", Scope.DISK, ["sda"], disk_reads=[100], disk_writes=[7]).tables[Scope.DISK]
    after = fleet.devices("disks", Scope.DISK, ["sda"], disk_reads=[160], disk_writes=[7]).tables[Scope.DISK]
    reads, writes, time = (before.index[name] for name in ("disk_reads", "disk_writes", "disk_read_time"))
    shares = [
        np.shares_memory(getattr(before, name)[column], getattr(after, name)[column])
        for name, column in (
            ("values", reads),
            ("totals", reads),
            ("total_reasons", reads),
            ("totals", writes),
            ("values", time),
        )
    ]
    assert shares == [False, False, True, True, True]
    assert np.shares_memory(before.first_at, after.first_at)


def test_what_nodes_of_a_kind_say_beside_numbers_is_there_once() -> None:
    parts = Parts({}, lambda *_: (0, 0))
    one, other = (NodeState(index, Spec(f"n{index}")) for index in range(2))

    def hear(node: NodeState, kernel: str, driver: str, **notes: str) -> None:
        found = Devices(("eth0",), {}, {"eth0": {"driver": driver}})
        parts._hear(node, Facts("identity", words={"kernel": kernel}, devices={Scope.NET: found}, notes=notes))

    for node in (one, other):
        hear(node, "6.1", "mlx5", smart="no permission")
    before = one.told["identity"]
    assert other.told["identity"] is before
    assert other.part_notes == {"smart": "no permission"}
    for kernel, driver, notes in (("6.2", "mlx5", {}), ("6.2", "mlx5", {"smart": "hung"}), ("6.2", "bnxt", {})):
        hear(one, kernel, driver, **notes)
        told = one.told["identity"]
        assert (told.words, told.notes, one.part_notes) == ({"kernel": kernel}, notes, notes)
        assert one.about == {(Scope.NET, "eth0"): {"driver": driver}}
        assert other.told["identity"] is before
        hear(other, kernel, driver, **notes)
        assert other.told["identity"] is told
        hear(other, "6.1", "mlx5", smart="no permission")
        assert other.told["identity"] is before
