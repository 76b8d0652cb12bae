"""The fold: from messages to columns, with the right reason wherever there is no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stethoscope.analysis.fold import FleetState
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.parse.stream import parse
from tests.builders import catalogue

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

WALL = 1_773_454_447.0


@dataclass
class Spec:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = 2.0
    expected_gpus: int | None = None


def gpus(*names: str) -> list[wire.GpuIdentity]:
    """GPUs by letters: the letter is the device, its place in the alphabet the slot."""
    return [
        wire.GpuIdentity(index, "H100", f"GPU-{name}", f"0000:{ord(name) - 80:02x}:00.0")
        for index, name in enumerate(names)
    ]


class Fleet:
    """A fleet state with what drives it: sequence numbers and clocks of each node."""

    def __init__(self, *names: str, expected: int | None = None) -> None:
        self.state = FleetState(catalogue(), [Spec(name, expected_gpus=expected) for name in names or ("n1",)], "test")
        self.seq: dict[str, int] = {}
        self.mono = 100.0

    def send(
        self, kind: type[Any], on: str = "n1", /, *, dt: float = 2.0, skip: int = 0, **fields: Any
    ) -> FleetSnapshot:
        self.mono += dt
        self.seq[on] = 0 if kind is wire.Hello else self.seq.get(on, -1) + 1 + skip
        message = kind(seq=self.seq[on], mono=self.mono, wall=WALL + self.mono + 3, **fields)
        raw = wire.encode(message)
        self.state.apply(Frame(on, WALL + self.mono, self.mono, raw), parse(raw))
        return self.look()

    def start(self, on: str = "n1", /, **fields: Any) -> FleetSnapshot:
        self.link(LinkState.LIVE, on)
        self.send(wire.Hello, on, boot_id=fields.pop("boot_id", "boot-1"), kernel="6.1")
        return self.send(wire.Full, on, **fields)

    def link(self, state: LinkState, node: str = "n1") -> None:
        self.state.set_link(node, Link(state, WALL + self.mono))

    def look(self) -> FleetSnapshot:
        return self.state.snapshot(WALL + self.mono, self.mono)


def value(snapshot: FleetSnapshot, place: str, metric: str) -> Any:
    """The value at a place, or its reason."""
    table, row = at(snapshot, place, metric)
    found = table.get(metric, row)
    return found.reason if isinstance(found, Missing) else found


def at(snapshot: FleetSnapshot, place: str, metric: str) -> Any:
    scope = catalogue()[metric].scope
    node = snapshot.node(place.split("/", 1)[0])
    for position, row in enumerate(snapshot.rows(node, scope)):
        if snapshot.place(node, scope, position) == place:
            return snapshot.tables[scope], row
    raise KeyError(place)


def counted(snapshot: FleetSnapshot, place: str, metric: str) -> int:
    table, row = at(snapshot, place, metric)
    return int(table.since_first[table.counter_index[metric], row])


def test_before_anything_came_all_is_waiting() -> None:
    snapshot = Fleet("n1", "n2").look()
    table = snapshot.tables[Scope.NODE]
    assert (table.reasons == Reason.WAITING).all()
    assert np.isnan(table.values).all()
    assert snapshot.nodes[0].age_s(100) is None


def test_a_full_line_fills_the_columns() -> None:
    snapshot = Fleet().start(
        gpus=gpus("a", "b"),
        ports=[wire.PortIdentity("mlx5_0")],
        node={"cpu_util": 12.5},
        gpu={"gpu_temp": [60, 61], "gpu_sm_clock": ["unsupported", 1980]},
        port={"ib_port_rate": [400]},
    )
    assert value(snapshot, "n1", "cpu_util") == 12.5
    assert value(snapshot, "n1/gpu/1", "gpu_temp") == 61
    assert value(snapshot, "n1/gpu/0", "gpu_sm_clock") is Reason.UNSUPPORTED
    assert value(snapshot, "n1/ib/mlx5_0", "ib_port_rate") == 400
    node = snapshot.node("n1")
    assert (node.boot_id, node.kernel, node.frames, node.clock_offset_s) == ("boot-1", "6.1", 1, 3.0)
    assert node.age_s(node.frame_mono + 1.5) == 1.5


def test_what_a_full_line_does_not_name_is_unsupported() -> None:
    snapshot = Fleet().start(gpus=gpus("a"), gpu={"gpu_temp": [60]})
    assert value(snapshot, "n1/gpu/0", "gpu_power_draw") is Reason.UNSUPPORTED
    assert value(snapshot, "n1", "cpu_util") is Reason.UNSUPPORTED
    assert value(snapshot, "n1/gpu/0", "nvlink_rx") is Reason.UNSUPPORTED


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("hung", Reason.HUNG), ("lost", Reason.LOST), ("permission", Reason.PERMISSION), ("error", Reason.ERROR),
        ("absent", Reason.ABSENT), ("waiting", Reason.WAITING), ("gone fishing", Reason.ERROR), ("12", Reason.ERROR),
        ("nan", Reason.ERROR), (None, Reason.ERROR),
    ],
)  # fmt: skip
def test_words_instead_of_numbers(word: str | None, reason: Reason) -> None:
    snapshot = Fleet().start(gpus=gpus("a", "b"), gpu={"gpu_temp": [60, word], "nvlink_rx": [5, word]})
    assert value(snapshot, "n1/gpu/1", "gpu_temp") is reason
    assert value(snapshot, "n1/gpu/1", "nvlink_rx") is reason
    assert value(snapshot, "n1/gpu/0", "gpu_temp") == 60


def test_a_delta_changes_what_it_names_and_nothing_else() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b"), gpu={"gpu_temp": [60, 61], "gpu_util": [1, 2]}, node={"load1": 1, "cpu_util": 5})
    snapshot = fleet.send(wire.Delta, gpu={"gpu_temp": [None, 70]}, node={"load1": "error"})
    assert value(snapshot, "n1/gpu/0", "gpu_temp") == 60
    assert value(snapshot, "n1/gpu/1", "gpu_temp") == 70
    assert value(snapshot, "n1/gpu/1", "gpu_util") == 2
    assert value(snapshot, "n1", "load1") is Reason.ERROR
    assert value(snapshot, "n1", "cpu_util") == 5


def test_counters_become_rates_and_what_a_delta_leaves_out_stands_still() -> None:
    fleet = Fleet()
    ports = [wire.PortIdentity("mlx5_0"), wire.PortIdentity("mlx5_1")]
    first = fleet.start(ports=ports, port={"ib_symbol_error": [100, 7], "ib_link_downed": [0, 255]})
    assert value(first, "n1/ib/mlx5_0", "ib_symbol_error") is Reason.ONE_READING
    second = fleet.send(wire.Delta, port={"ib_symbol_error": [182, None]})
    assert value(second, "n1/ib/mlx5_0", "ib_symbol_error") == 41
    assert value(second, "n1/ib/mlx5_1", "ib_symbol_error") == 0
    assert value(second, "n1/ib/mlx5_1", "ib_link_downed") is Reason.SATURATED
    third = fleet.send(wire.Delta)
    assert value(third, "n1/ib/mlx5_0", "ib_symbol_error") == 0
    table, row = at(third, "n1/ib/mlx5_0", "ib_symbol_error")
    assert table.total("ib_symbol_error", row) == 182
    assert counted(third, "n1/ib/mlx5_0", "ib_symbol_error") == 82


def test_a_total_that_is_no_whole_number_is_an_error() -> None:
    snapshot = Fleet().start(gpus=gpus("a", "b", "c"), gpu={"nvlink_rx": [1.5, -3, 7]})
    assert value(snapshot, "n1/gpu/0", "nvlink_rx") is Reason.ERROR
    assert value(snapshot, "n1/gpu/1", "nvlink_rx") is Reason.ERROR
    assert value(snapshot, "n1/gpu/2", "nvlink_rx") is Reason.ONE_READING


def test_a_counter_that_was_hidden_for_a_while_keeps_its_sum() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [100]})
    hidden = fleet.send(wire.Delta, gpu={"nvlink_rx": ["hung"]})
    assert value(hidden, "n1/gpu/0", "nvlink_rx") is Reason.HUNG
    table, row = at(hidden, "n1/gpu/0", "nvlink_rx")
    assert table.total("nvlink_rx", row) == Missing(Reason.HUNG)
    again = fleet.send(wire.Delta, gpu={"nvlink_rx": [140]})
    assert value(again, "n1/gpu/0", "nvlink_rx") == 10  # over the four seconds since the last reading
    assert counted(again, "n1/gpu/0", "nvlink_rx") == 40


def test_a_counter_that_comes_back_at_once_has_no_rate_yet() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [100]})
    fleet.send(wire.Delta, gpu={"nvlink_rx": ["hung"]}, dt=0.01)
    snapshot = fleet.send(wire.Delta, gpu={"nvlink_rx": [101]}, dt=0.01)
    assert value(snapshot, "n1/gpu/0", "nvlink_rx") is Reason.ONE_READING


def test_after_a_gap_nothing_is_taken_for_unchanged_until_a_full_line() -> None:
    fleet = Fleet()
    ports = [wire.PortIdentity("mlx5_0")]
    fleet.start(ports=ports, port={"ib_symbol_error": [0], "ib_port_rcv_errors": [0]})
    fleet.send(wire.Delta, port={"ib_port_rcv_errors": [10]})
    assert fleet.state.take_full_requests() == []
    after_gap = fleet.send(wire.Delta, skip=1, port={"ib_symbol_error": [4]})
    assert fleet.state.take_full_requests() == ["n1"]
    assert fleet.state.take_full_requests() == []
    assert value(after_gap, "n1/ib/mlx5_0", "ib_symbol_error") == 2  # over the interval since it was last known
    assert value(after_gap, "n1/ib/mlx5_0", "ib_port_rcv_errors") == 5  # as it was: who knows what the lost line said
    full = fleet.send(wire.Full, ports=ports, port={"ib_symbol_error": [4], "ib_port_rcv_errors": [10]})
    assert value(full, "n1/ib/mlx5_0", "ib_port_rcv_errors") == 0
    fleet.send(wire.Delta)
    assert fleet.state.take_full_requests() == []


def test_a_full_line_that_does_not_come_is_asked_for_again() -> None:
    fleet = Fleet()
    fleet.start()
    fleet.send(wire.Delta, skip=3)
    asked = [fleet.state.take_full_requests() for _ in range(11) if fleet.send(wire.Delta)]
    assert asked.count(["n1"]) == 3


def test_a_line_of_the_past_is_not_taken() -> None:
    fleet = Fleet()
    fleet.start(node={"load1": 1})
    fleet.send(wire.Delta, node={"load1": 2})
    snapshot = fleet.send(wire.Delta, skip=-2, node={"load1": 1})
    assert value(snapshot, "n1", "load1") == 2
    assert snapshot.node("n1").bad_lines == 1


def test_a_list_of_the_wrong_length_is_dropped_counted_and_asked_for() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b"), gpu={"gpu_temp": [60, 61], "gpu_util": [1, 2]})
    snapshot = fleet.send(wire.Delta, gpu={"gpu_temp": [70], "gpu_util": [3, 4]})
    assert value(snapshot, "n1/gpu/0", "gpu_temp") == 60
    assert value(snapshot, "n1/gpu/0", "gpu_util") == 3
    assert snapshot.node("n1").bad_lines == 1
    assert fleet.state.take_full_requests() == ["n1"]


def test_a_delta_before_the_inventory_asks_for_it() -> None:
    fleet = Fleet()
    snapshot = fleet.send(wire.Delta, gpu={"gpu_temp": [70]})
    assert fleet.state.take_full_requests() == ["n1"]
    assert snapshot.node("n1").gpus == ()


def test_a_new_run_of_the_probe_gives_no_rate_at_first_but_loses_no_count() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [100]})
    again = fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [130]})
    assert value(again, "n1/gpu/0", "nvlink_rx") is Reason.ONE_READING
    assert counted(again, "n1/gpu/0", "nvlink_rx") == 30
    after = fleet.send(wire.Delta, gpu={"nvlink_rx": [150]})
    assert value(after, "n1/gpu/0", "nvlink_rx") == 10


def test_a_reboot_starts_counters_anew() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [100]})
    fleet.send(wire.Delta, gpu={"nvlink_rx": [110]})
    booted = fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [5_000_000]}, boot_id="boot-2")
    assert value(booted, "n1/gpu/0", "nvlink_rx") is Reason.ONE_READING
    assert counted(booted, "n1/gpu/0", "nvlink_rx") == 10
    after = fleet.send(wire.Delta, gpu={"nvlink_rx": [5_000_002]})
    assert value(after, "n1/gpu/0", "nvlink_rx") == 1
    assert counted(after, "n1/gpu/0", "nvlink_rx") == 12


def test_a_gpu_that_is_no_longer_listed_is_lost_and_keeps_its_row() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b", "c"), gpu={"gpu_temp": [60, 61, 62], "nvlink_rx": [1, 2, 3]})
    left = [gpus("a", "b", "c")[0], gpus("a", "b", "c")[2]]
    snapshot = fleet.send(wire.Full, gpus=left, gpu={"gpu_temp": [50, 52], "nvlink_rx": [11, 13]})
    assert [gpu.uuid for gpu in snapshot.node("n1").gpus] == ["GPU-a", "GPU-b", "GPU-c"]
    assert value(snapshot, "n1/gpu/1", "gpu_temp") is Reason.LOST
    assert value(snapshot, "n1/gpu/1", "nvlink_rx") is Reason.LOST
    assert value(snapshot, "n1/gpu/2", "gpu_temp") == 52
    assert value(snapshot, "n1/gpu/2", "nvlink_rx") == 5
    delta = fleet.send(wire.Delta, gpu={"gpu_temp": [None, 54]})
    assert value(delta, "n1/gpu/2", "gpu_temp") == 54
    assert value(delta, "n1/gpu/1", "gpu_temp") is Reason.LOST
    back = fleet.send(wire.Full, gpus=gpus("a", "b", "c"), gpu={"gpu_temp": [1, 2, 3], "nvlink_rx": [11, 12, 13]})
    assert value(back, "n1/gpu/1", "gpu_temp") == 2


def test_a_gpu_that_moves_up_takes_its_values_with_it_and_the_index_the_node_gives_it() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b", "c"), gpu={"nvlink_rx": [100, 200, 300]})
    moved = [wire.GpuIdentity(0, "", "GPU-a"), wire.GpuIdentity(1, "", "GPU-c")]
    snapshot = fleet.send(wire.Full, gpus=moved, gpu={"nvlink_rx": [100, 304]})
    node = snapshot.node("n1")
    assert [(gpu.uuid, gpu.index) for gpu in node.gpus] == [("GPU-a", 0), ("GPU-b", 2), ("GPU-c", 1)]
    assert node.gpus[2].pci == "0000:13:00.0"
    assert value(snapshot, "n1/gpu/1", "nvlink_rx") == 2
    assert value(snapshot, "n1/gpu/2", "nvlink_rx") is Reason.LOST


def test_another_board_in_the_same_slot_starts_anew() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"nvlink_rx": [100]})
    swapped = [wire.GpuIdentity(0, "H100", "GPU-new", gpus("a")[0].pci)]
    snapshot = fleet.send(wire.Full, gpus=swapped, gpu={"nvlink_rx": [900]})
    assert [gpu.uuid for gpu in snapshot.node("n1").gpus] == ["GPU-new"]
    assert value(snapshot, "n1/gpu/0", "nvlink_rx") is Reason.ONE_READING
    assert counted(snapshot, "n1/gpu/0", "nvlink_rx") == 0


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ("hung for 41 s", Reason.HUNG),
        ("starting", Reason.WAITING),
        ("permission", Reason.PERMISSION),
        ("no devices", Reason.LOST),
        ("driver/library version mismatch", Reason.ERROR),
    ],
)
def test_expected_gpus_that_were_never_seen_say_why(note: str, reason: Reason) -> None:
    fleet = Fleet(expected=3)
    without = fleet.start(gpus=[], notes={"nvml": note})
    assert [value(without, f"n1/gpu/{index}", "gpu_temp") for index in range(3)] == [reason] * 3
    snapshot = fleet.send(wire.Full, gpus=gpus("a", "b"), gpu={"gpu_temp": [60, 61]})
    assert value(snapshot, "n1/gpu/1", "gpu_temp") == 61
    assert value(snapshot, "n1/gpu/2", "gpu_temp") is Reason.LOST
    assert len(snapshot.node("n1").gpus) == 3


def test_more_gpus_move_the_block_and_other_nodes_keep_theirs() -> None:
    fleet = Fleet("n1", "n2")
    fleet.start("n1", gpus=gpus("a"), gpu={"gpu_temp": [60], "nvlink_rx": [100]})
    fleet.start("n2", gpus=gpus("a"), gpu={"gpu_temp": [50]})
    snapshot = fleet.send(wire.Full, gpus=gpus("a", "b"), gpu={"gpu_temp": [61, 62], "nvlink_rx": [104, 5]}, dt=4.0)
    assert value(snapshot, "n1/gpu/0", "nvlink_rx") == 0.5
    assert value(snapshot, "n1/gpu/1", "gpu_temp") == 62
    assert value(snapshot, "n2/gpu/0", "gpu_temp") == 50
    table = snapshot.tables[Scope.GPU]
    owned = {row for node in snapshot.nodes for row in snapshot.rows(node, Scope.GPU)}
    free = [row for row in range(table.values.shape[1]) if row not in owned]
    assert all(table.get("gpu_temp", row) == Missing(Reason.ABSENT) for row in free)


def test_a_port_that_goes_and_comes_back() -> None:
    fleet = Fleet()
    both = [wire.PortIdentity("mlx5_0"), wire.PortIdentity("mlx5_1")]
    fleet.start(ports=both, port={"ib_port_rate": [400, 400]})
    gone = fleet.send(wire.Full, ports=both[1:], port={"ib_port_rate": [200]})
    assert value(gone, "n1/ib/mlx5_0", "ib_port_rate") is Reason.LOST
    assert value(gone, "n1/ib/mlx5_1", "ib_port_rate") == 200
    back = fleet.send(wire.Full, ports=both, port={"ib_port_rate": [100, 400]})
    assert value(back, "n1/ib/mlx5_0", "ib_port_rate") == 100


def test_values_of_a_lost_node_are_never_kept_as_numbers() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"), gpu={"gpu_temp": [60], "nvlink_rx": [5]}, node={"load1": 1})
    fleet.link(LinkState.SILENT)
    assert value(fleet.look(), "n1", "load1") == 1
    assert value(fleet.look(), "n1", "node_reachable") == 0
    fleet.link(LinkState.UNREACHABLE)
    lost = fleet.look()
    for place, metric in (("n1", "load1"), ("n1/gpu/0", "gpu_temp"), ("n1/gpu/0", "nvlink_rx")):
        assert value(lost, place, metric) is Reason.UNREACHABLE
    assert value(lost, "n1/gpu/0", "gpu_xid_events") is Reason.UNREACHABLE
    fleet.link(LinkState.CONNECTING)
    assert value(fleet.look(), "n1", "load1") is Reason.UNREACHABLE
    assert value(fleet.look(), "n1/gpu/0", "gpu_xid_events") is Reason.UNREACHABLE
    back = fleet.start(gpus=gpus("a"), gpu={"gpu_temp": [61], "nvlink_rx": [9]}, node={"load1": 2})
    assert value(back, "n1", "load1") == 2
    assert value(back, "n1", "node_reachable") == 1
    assert counted(back, "n1/gpu/0", "nvlink_rx") == 4


def test_a_node_that_was_never_reached_is_unreachable_and_has_no_age() -> None:
    fleet = Fleet()
    fleet.link(LinkState.CONNECTING)
    assert value(fleet.look(), "n1", "node_reachable") is Reason.WAITING
    fleet.link(LinkState.REFUSED)
    assert value(fleet.look(), "n1", "node_reachable") == 0
    assert value(fleet.look(), "n1", "load1") is Reason.UNREACHABLE
    assert value(fleet.look(), "n1", "node_data_age") is Reason.WAITING


def test_data_age_grows_without_frames() -> None:
    fleet = Fleet()
    fleet.start()
    fleet.mono += 7
    assert value(fleet.look(), "n1", "node_data_age") == 7
    assert fleet.look().node("n1").is_stale(fleet.mono + 1)


XID = "NVRM: Xid (PCI:0000:12:00): 79, GPU has fallen off the bus."


def test_xids_are_counted_at_the_gpu_with_that_address() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b"))
    fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 5, level=2)
    snapshot = fleet.send(wire.Event, source="job", text=XID)
    assert value(snapshot, "n1/gpu/0", "gpu_xid_events") == 0
    assert value(snapshot, "n1/gpu/1", "gpu_xid_events") == 1
    kernel, job = snapshot.events
    assert (kernel.xid, kernel.pci, kernel.at) == (79, "0000:12:00", WALL + 2)
    assert (job.xid, job.at) == (None, WALL + fleet.mono)


def test_what_was_counted_is_said_of_every_gpu_that_comes_to_the_slot() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b"))
    fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 5, level=2)
    old, other = gpus("a", "b")
    for listed in ([old, other], [old, wire.GpuIdentity(1, "H100", "GPU-new", other.pci)], gpus("a", "b", "c")):
        snapshot = fleet.send(wire.Full, gpus=listed)
        assert value(snapshot, "n1/gpu/0", "gpu_xid_events") == 0
        assert value(snapshot, "n1/gpu/1", "gpu_xid_events") == 1
    assert value(snapshot, "n1/gpu/2", "gpu_xid_events") == 0
    fleet.link(LinkState.UNREACHABLE)
    assert value(fleet.look(), "n1/gpu/1", "gpu_xid_events") is Reason.UNREACHABLE
    assert value(fleet.send(wire.Full, gpus=gpus("a", "b", "c")), "n1/gpu/1", "gpu_xid_events") == 1


def test_a_kernel_line_that_a_new_probe_reads_again_counts_once() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a", "b"))
    fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 5.0)
    fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 5.1)
    fleet.start(gpus=gpus("a", "b"))
    snapshot = fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 5.02)
    assert value(snapshot, "n1/gpu/1", "gpu_xid_events") == 2
    assert len(snapshot.events) == 2
    booted = fleet.start(gpus=gpus("a", "b"), boot_id="boot-2")
    assert value(booted, "n1/gpu/1", "gpu_xid_events") == 0


@pytest.mark.parametrize(
    ("note", "reason"), [("permission: add the user to group adm", Reason.PERMISSION), ("no such log", Reason.ERROR)]
)
def test_an_unreadable_kernel_log_is_not_a_clean_one(note: str, reason: Reason) -> None:
    fleet = Fleet()
    snapshot = fleet.start(gpus=gpus("a"), notes={"kernel_log": note})
    assert value(snapshot, "n1/gpu/0", "gpu_xid_events") is reason
    readable = fleet.send(wire.Delta, notes={})
    assert value(readable, "n1/gpu/0", "gpu_xid_events") == 0


def test_the_version_of_a_node_grows_only_with_a_change() -> None:
    fleet = Fleet("n1", "n2")
    fleet.start(ports=[wire.PortIdentity("mlx5_0")], port={"ib_symbol_error": [3], "ib_link_downed": [255]})
    fleet.send(wire.Delta)
    quiet = fleet.send(wire.Delta)
    again = fleet.send(wire.Delta)
    assert quiet.node("n1").version == again.node("n1").version
    assert quiet.node("n2") is again.node("n2")
    assert again.node("n1").frame_mono == fleet.mono
    assert fleet.send(wire.Delta, node={"load1": 1}).node("n1").version > again.node("n1").version


def test_a_snapshot_does_not_change_any_more_and_shares_what_did_not_change() -> None:
    fleet = Fleet()
    before = fleet.start(gpus=gpus("a"), gpu={"gpu_temp": [60]})
    fleet.send(wire.Delta, node={"load1": 1})
    after = fleet.look()
    assert after.tables[Scope.GPU] is before.tables[Scope.GPU]
    fleet.send(wire.Delta, gpu={"gpu_temp": [70]})
    assert value(before, "n1/gpu/0", "gpu_temp") == 60
    with pytest.raises(ValueError, match="read-only"):
        before.tables[Scope.GPU].values[0][0] = 1


def test_what_somebody_still_holds_is_not_painted_over() -> None:
    fleet = Fleet()
    kept = fleet.start(gpus=gpus("a"), gpu={"gpu_temp": [0]}).tables[Scope.GPU]
    view = fleet.send(wire.Delta, gpu={"gpu_temp": [1]}).tables[Scope.GPU].values[kept.index["gpu_temp"], :]
    for temperature in range(2, 12):
        fleet.send(wire.Delta, gpu={"gpu_temp": [temperature]})
    assert (kept.get("gpu_temp", 0), view[0]) == (0, 1)
    assert value(fleet.look(), "n1/gpu/0", "gpu_temp") == 11


def test_a_flood_in_the_log_of_one_node_takes_nothing_from_the_others() -> None:
    fleet = Fleet("n1", "n2")
    fleet.start("n2", gpus=gpus("a"))
    fleet.send(wire.Event, "n2", source="kernel", text="mlx5_core: link down")
    fleet.send(wire.Event, "n2", source="kernel", text=XID)
    fleet.start("n1")
    for number in range(5_000):
        raw = wire.Event(seq=number + 2, mono=1.0, wall=1.0, source="kernel", text=f"line {number}")
        fleet.state.apply(Frame("n1", WALL, 1.0, b""), raw)
    events = fleet.look().events
    assert [event.text for event in events[:2]] == ["mlx5_core: link down", XID]
    assert [event.text for event in events[2:]] == [f"line {number}" for number in range(4_800, 5_000)]
    assert fleet.look().events is events


def test_xids_of_more_slots_than_a_node_has_are_not_counted_for_ever() -> None:
    fleet = Fleet()
    fleet.start()
    for number in range(2_000):
        text = f"NVRM: Xid (PCI:{number:04x}:12:00): 79, gone"
        raw = wire.Event(seq=number + 2, mono=1.0, wall=1.0, source="kernel", text=text)
        fleet.state.apply(Frame("n1", WALL, 1.0, b""), raw)
    assert len(fleet.state.nodes[0].xids) == 512
    assert sum(event.xid == 79 for event in fleet.look().events) == 512


@pytest.mark.parametrize("off_s", [-3600.0, 0.0, 3600.0])
def test_the_time_of_a_kernel_line_is_on_the_clock_of_the_console(off_s: float) -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("a"))
    raw = wire.Event(seq=2, mono=1.0, wall=WALL + off_s, source="kernel", text=XID, at=WALL + off_s - 12.5)
    fleet.state.apply(Frame("n1", WALL + 1.0, 1.0, b""), raw)
    ahead = wire.Event(seq=3, mono=1.0, wall=WALL + off_s, source="kernel", text="ahead", at=WALL + off_s + 5000.0)
    fleet.state.apply(Frame("n1", WALL + 1.0, 1.0, b""), ahead)
    assert [event.at for event in fleet.look().events] == [WALL - 11.5, WALL + 1.0]


def test_the_newest_kernel_lines_are_those_that_are_known_again() -> None:
    fleet = Fleet()
    fleet.start(gpus=gpus("b"))
    for number in range(2_500):
        fleet.send(wire.Event, source="kernel", text=f"line {number}", at=WALL + number, dt=0.001)
    fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 2_500)
    fleet.start(gpus=gpus("b"))
    snapshot = fleet.send(wire.Event, source="kernel", text=XID, at=WALL + 2_500)
    assert value(snapshot, "n1/gpu/0", "gpu_xid_events") == 1
