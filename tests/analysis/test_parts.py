"""Facts of parts in the tables: each group counts for itself, and nothing is a number that nobody gave."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.arrays import PICTURE_S
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.inventory import MAX_DEVICES, MAX_NVLINKS, merge_names
from stethoscope.model import wire
from stethoscope.model.facts import Devices, Facts, GpuProcess
from stethoscope.model.fleet import PartAge
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Kind, Metric, Missing, Reason, Scope
from stethoscope.parse.stream import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.wire import Cell

WALL = 1_773_454_447.0
LOST, WAITING, UNSUPPORTED, ONE_READING = Reason.LOST, Reason.WAITING, Reason.UNSUPPORTED, Reason.ONE_READING


def metric(id_: str, scope: Scope, group: str = "", kind: Kind = Kind.GAUGE, **more: Any) -> tuple[str, Metric]:
    tier = more.pop("tier", "medium" if group else "fast")
    return id_, Metric(id_, id_, scope, "", kind, tier=tier, group=group, **more)


COUNTER = Kind.COUNTER
CATALOGUE: dict[str, Metric] = dict(
    [
        metric("load1", Scope.NODE),
        metric("oom_kills", Scope.NODE, "host", COUNTER),
        metric("ctxt", Scope.NODE, "", COUNTER),
        metric("swap_used", Scope.NODE, "host"),
        metric("clock_offset", Scope.NODE, "clock"),
        metric("mce_events", Scope.NODE, tier="console"),
        metric("gpu_temp", Scope.GPU),
        metric("gpu_ecc", Scope.GPU, "gpu", COUNTER),
        metric("nvlink_rx", Scope.GPU, "", COUNTER),
        metric("gpu_replay", Scope.GPU, "gpu", COUNTER, pins=(255,)),
        metric("gpu_pstate", Scope.GPU, "gpu"),
        metric("ib_port_rate", Scope.PORT),
        metric("nvlink_state", Scope.NVLINK, "gpu"),
        metric("nvlink_speed", Scope.NVLINK, "gpu"),
        metric("nvlink_crc_errors", Scope.NVLINK, "gpu", COUNTER),
        metric("pcie_link_width", Scope.PCIE, "pcie"),
        metric("net_rx_bytes", Scope.NET, "net", COUNTER),
        *[
            metric(f"disk_{name}", Scope.DISK, "disks", COUNTER)
            for name in ("reads", "writes", "read_time", "write_time", "io_time")
        ],
        metric("disk_await", Scope.DISK, "disks"),
        metric("disk_io_util", Scope.DISK, "disks"),
        metric("smart_passed", Scope.DISK, "smart"),
        metric("nvme_media_errors", Scope.DISK, "smart", COUNTER),
        metric("fs_used", Scope.FS, "mounts"),
    ]
)


@dataclass
class Spec:
    name: str
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()
    tick_s: float = 2.0
    expected_gpus: int | None = None


GPUS = [wire.GpuIdentity(index, "H100", f"GPU-{index}", f"0000:{index + 16:02x}:00.0") for index in range(2)]


class Fleet:
    """One node, or some, that are told what came."""

    def __init__(self, *names: str) -> None:
        self.state = FleetState(CATALOGUE, [Spec(name) for name in names or ("n1",)], "test")
        self.mono = 1_000.0
        self.seq = 0
        for name in names or ("n1",):
            self.link(LinkState.LIVE, name)

    def link(self, state: LinkState, node: str = "n1") -> None:
        self.state.set_link(node, Link(state, WALL))

    def start(self, node: str = "n1", boot_id: str = "b1", **fields: Any) -> None:
        self.say(wire.Hello, node, seq=0, boot_id=boot_id)
        self.full(node, **fields)

    def full(self, on: str = "n1", /, **fields: Any) -> None:
        self.say(wire.Full, on, **{"gpus": GPUS, "gpu": {"gpu_temp": [60, 61], "nvlink_rx": [5, 5]}, **fields})

    def say(self, kind: type[Any], on: str = "n1", /, *, seq: int | None = None, **fields: Any) -> None:
        self.mono += 1.0
        self.seq = self.seq + 1 if seq is None else seq
        raw = wire.encode(kind(seq=self.seq, mono=self.mono, wall=WALL + self.mono, **fields))
        self.state.apply(self.frame(on, raw), parse(raw))

    def frame(self, node: str = "n1", raw: bytes = b"") -> Frame:
        return Frame(node, WALL + self.mono, self.mono, raw)

    def part(self, group: str, on: str = "n1", /, *, dt: float = 30.0, every_s: float = 30.0, **fields: Any) -> None:
        self.mono += dt
        self.state.take_facts(self.frame(on), self.mono, Facts(group, **fields), every_s=every_s)

    def devices(
        self, group: str, scope: Scope, names: Sequence[str], *, dt: float = 30.0, whole: bool = True,
        about: Mapping[str, Mapping[str, str]] | None = None, **values: Sequence[Cell],
    ) -> FleetSnapshot:  # fmt: skip
        self.part(group, dt=dt, devices={scope: Devices(tuple(names), values, about or {}, whole)})
        return self.look()

    def look(self, *, latest: bool = True) -> FleetSnapshot:
        return self.state.snapshot(WALL + self.mono, self.mono, latest=latest)


def value(snapshot: FleetSnapshot, place: str, metric: str) -> Any:
    node = snapshot.node(place.split("/", 1)[0])
    scope = CATALOGUE[metric].scope
    for position, row in enumerate(snapshot.rows(node, scope)):
        if snapshot.place(node, scope, position) == place:
            found = snapshot.tables[scope].get(metric, row)
            return found.reason if isinstance(found, Missing) else found
    raise KeyError(place)


def counted(snapshot: FleetSnapshot, place: str, metric: str) -> int:
    node = snapshot.node(place.split("/", 1)[0])
    scope = CATALOGUE[metric].scope
    table = snapshot.tables[scope]
    at = {snapshot.place(node, scope, n): row for n, row in enumerate(snapshot.rows(node, scope))}
    return int(table.since_first[table.counter_index[metric], at[place]])


def started() -> Fleet:
    fleet = Fleet()
    fleet.start()
    return fleet


def test_before_its_part_a_metric_waits_and_what_the_part_does_not_name_is_not_supported() -> None:
    fleet = started()
    fleet.full()
    before = fleet.look()
    assert [value(before, "n1", id_) for id_ in ("swap_used", "oom_kills", "clock_offset")] == [WAITING] * 3
    assert value(before, "n1/gpu/0", "gpu_ecc") is WAITING
    assert value(before, "n1", "load1") is UNSUPPORTED
    fleet.part("host", node={"swap_used": 12})
    after = fleet.look()
    assert value(after, "n1", "swap_used") == 12
    assert value(after, "n1", "oom_kills") is UNSUPPORTED
    assert value(after, "n1", "clock_offset") is WAITING
    assert value(after, "n1/gpu/0", "gpu_ecc") is WAITING


def test_counters_of_a_group_are_read_by_its_parts_alone() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100})
    fleet.part("gpu", dt=1.0, gpu={"gpu_ecc": [7, 0], "gpu_replay": [255, 3], "gpu_pstate": [0, "permission"]})
    for number in range(14):
        fleet.say(wire.Delta, gpu={"nvlink_rx": [10 + number, None]}, node={"ctxt": number})
    fleet.full()
    frames = fleet.look()
    assert value(frames, "n1", "oom_kills") is ONE_READING
    assert value(frames, "n1/gpu/0", "gpu_ecc") is ONE_READING
    assert value(frames, "n1/gpu/0", "gpu_pstate") == 0
    assert value(frames, "n1/gpu/1", "gpu_pstate") is Reason.PERMISSION
    fleet.part("gpu", dt=14.0, gpu={"gpu_ecc": [67, 0], "gpu_replay": [255, 33], "gpu_pstate": [8, 8]})
    fleet.part("host", dt=1.0, node={"oom_kills": 162})
    after = fleet.look()
    assert value(after, "n1/gpu/0", "gpu_ecc") == pytest.approx(60 / 29)
    assert value(after, "n1/gpu/1", "gpu_ecc") == 0
    assert value(after, "n1/gpu/0", "gpu_replay") is Reason.SATURATED
    assert value(after, "n1/gpu/1", "gpu_replay") == pytest.approx(30 / 29)
    assert value(after, "n1", "oom_kills") == 2.0  # 62 in 31 s
    assert counted(after, "n1", "oom_kills") == 62


def test_the_same_again_is_a_rate_of_zero() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100, "swap_used": 5})
    fleet.part("host", node={"oom_kills": 160, "swap_used": 5})
    assert value(fleet.look(), "n1", "oom_kills") == 2
    for _ in range(3):
        fleet.part("host", same=True)
        assert value(fleet.look(), "n1", "oom_kills") == 0
    assert value(fleet.look(), "n1", "swap_used") == 5
    fleet.part("host", node={"oom_kills": 175, "swap_used": 5})
    assert value(fleet.look(), "n1", "oom_kills") == 0.5  # since the last "same", not since the last change
    assert fleet.look().nodes[0].parts == {"host": PartAge(fleet.mono, 30.0)}


def test_the_first_same_after_one_reading_is_a_rate_too() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100})
    fleet.part("host", same=True)
    assert value(fleet.look(), "n1", "oom_kills") == 0


def test_a_reset_and_a_wrap_of_a_rare_counter() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100})
    fleet.part("host", node={"oom_kills": 3})
    assert value(fleet.look(), "n1", "oom_kills") is Reason.RESET
    assert counted(fleet.look(), "n1", "oom_kills") == 3
    fleet.part("host", node={"oom_kills": 33})
    assert value(fleet.look(), "n1", "oom_kills") == 1


def test_a_part_just_behind_another_one_gives_no_rate_of_its_own() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100})
    fleet.part("host", node={"oom_kills": 130})
    fleet.part("host", dt=0.25, node={"oom_kills": 131})
    assert value(fleet.look(), "n1", "oom_kills") == 1
    fleet.part("host", dt=29.75, node={"oom_kills": 190})
    assert value(fleet.look(), "n1", "oom_kills") == 2
    assert counted(fleet.look(), "n1", "oom_kills") == 90


def test_after_a_gap_the_same_means_nothing_until_the_group_comes_whole() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 100})
    fleet.part("host", node={"oom_kills": 130})
    age = fleet.look().nodes[0].parts["host"]
    fleet.say(wire.Delta, seq=fleet.seq + 2)
    assert fleet.state.take_full_requests() == ["n1"]
    fleet.full()
    fleet.part("host", same=True)
    assert fleet.state.take_full_requests() == ["n1"]
    after = fleet.look()
    assert value(after, "n1", "oom_kills") == 1  # as it was known
    assert after.nodes[0].parts["host"] == age
    fleet.part("host", node={"oom_kills": 197})
    assert value(fleet.look(), "n1", "oom_kills") == pytest.approx(67 / (30 + 30 + 2))
    fleet.part("host", same=True)
    assert value(fleet.look(), "n1", "oom_kills") == 0


def test_a_part_of_the_past_is_not_taken() -> None:
    fleet = started()
    fleet.part("host", node={"swap_used": 1})
    fleet.part("host", dt=-10.0, node={"swap_used": 2})
    assert value(fleet.look(), "n1", "swap_used") == 1
    assert fleet.look().nodes[0].bad_lines == 1


def test_a_reading_that_is_sent_again_changes_nothing_and_asks_for_nothing() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 5})
    fleet.part("host", node={"oom_kills": 65})
    before = fleet.look()
    fleet.part("host", dt=0.0, node={"oom_kills": 65})
    after = fleet.look()
    assert value(after, "n1", "oom_kills") == value(before, "n1", "oom_kills") == 2
    assert after.nodes[0].parts == before.nodes[0].parts
    assert after.nodes[0].bad_lines == 0
    assert fleet.state.take_full_requests() == []


def test_a_reading_that_is_sent_again_behind_a_gap_makes_its_group_whole() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 5})
    fleet.part("host", node={"oom_kills": 65})
    before = fleet.look().nodes[0].parts
    fleet.say(wire.Delta, seq=fleet.seq + 2)
    assert fleet.state.take_full_requests() == ["n1"]
    fleet.full()
    read_at, fleet.mono = fleet.mono, before["host"].mono
    fleet.part("host", dt=0.0, node={"oom_kills": 65})
    fleet.mono = read_at
    assert fleet.look().nodes[0].parts == before
    assert value(fleet.look(), "n1", "oom_kills") == 2
    fleet.part("host", same=True)
    assert value(fleet.look(), "n1", "oom_kills") == 0
    assert fleet.look().nodes[0].bad_lines == 0
    assert fleet.state.take_full_requests() == []


def test_a_part_before_the_inventory_is_not_taken_and_the_node_is_asked() -> None:
    fleet = Fleet()
    fleet.part("host", node={"swap_used": 1})
    assert value(fleet.look(), "n1", "swap_used") is WAITING
    assert fleet.state.take_full_requests() == ["n1"]


def test_a_list_that_does_not_fit_is_dropped_and_the_group_asked_for() -> None:
    fleet = started()
    fleet.part("gpu", gpu={"gpu_ecc": [1], "gpu_pstate": [0, 0]})
    after = fleet.look()
    assert value(after, "n1/gpu/0", "gpu_pstate") == 0
    assert after.nodes[0].bad_lines == 1
    fleet.part("gpu", same=True)
    assert fleet.state.take_full_requests() == ["n1"]


def test_a_message_takes_the_same_way() -> None:
    fleet = started()
    fleet.say(wire.Part, name="host", s=30.0, files={"/proc/meminfo": "SwapTotal: 2048 kB\nSwapFree: 1024 kB\n"})
    assert value(fleet.look(), "n1", "swap_used") == 1
    assert fleet.look().nodes[0].parts == {"host": PartAge(fleet.mono, 30.0)}
    fleet.say(wire.Part, name="host", s=30.0, same=True)
    assert fleet.look().nodes[0].parts == {"host": PartAge(fleet.mono, 30.0)}
    assert fleet.look().nodes[0].bad_lines == 0


def test_devices_have_rows_and_places() -> None:
    fleet = started()
    after = fleet.devices(
        "gpu", Scope.NVLINK, ["0/0", "0/1", "1/0"],
        nvlink_state=[1, 0, "hung"], nvlink_speed=[26.562, 26.562, 53.125], nvlink_crc_errors=[0, 2**40, 7],
    )  # fmt: skip
    node = after.node("n1")
    assert [after.place(node, Scope.NVLINK, n) for n in range(3)] == [
        "n1/nvlink/0/0", "n1/nvlink/0/1", "n1/nvlink/1/0",
    ]  # fmt: skip
    assert [value(after, f"n1/nvlink/{name}", "nvlink_state") for name in ("0/0", "0/1", "1/0")] == [1, 0, Reason.HUNG]
    assert value(after, "n1/nvlink/0/0", "nvlink_speed") == 26.562
    table = after.tables[Scope.NVLINK]
    assert table.total("nvlink_crc_errors", after.rows(node, Scope.NVLINK)[1]) == 2**40
    assert value(after, "n1/nvlink/0/1", "nvlink_crc_errors") is ONE_READING


def test_what_a_link_counted_goes_on_beyond_32_bits() -> None:
    fleet = started()
    for total in (0, 2**32 - 10, 2**33):
        after = fleet.devices("gpu", Scope.NVLINK, ["0/0"], nvlink_crc_errors=[total])
    assert value(after, "n1/nvlink/0/0", "nvlink_crc_errors") == pytest.approx((2**32 + 10) / 30)
    assert counted(after, "n1/nvlink/0/0", "nvlink_crc_errors") == 2**33
    for total in (2**32 - 1, 3, 2**32 - 5):
        after = fleet.devices("gpu", Scope.NVLINK, ["0/0"], nvlink_crc_errors=[total])
    assert counted(after, "n1/nvlink/0/0", "nvlink_crc_errors") == 2**33 + 2**32 - 1 + 2**32 - 5


def test_a_device_that_goes_is_lost_and_comes_back_to_its_row() -> None:
    fleet = started()
    fleet.devices("net", Scope.NET, ["eth0", "eth1", "eth2"], net_rx_bytes=[100, 200, 300])
    two = fleet.devices("net", Scope.NET, ["eth2", "eth0"], net_rx_bytes=[330, 160])
    assert [value(two, f"n1/net/{name}", "net_rx_bytes") for name in ("eth0", "eth1", "eth2")] == [2, LOST, 1]
    fleet.part("net", same=True)
    same = fleet.look()
    assert [value(same, f"n1/net/{name}", "net_rx_bytes") for name in ("eth0", "eth1", "eth2")] == [0, LOST, 0]
    back = fleet.devices("net", Scope.NET, ["eth0", "eth1", "eth2", "eth3"], net_rx_bytes=[160, 290, 360, 9])
    names = ("eth0", "eth1", "eth2", "eth3")
    assert back.node("n1").devices[Scope.NET] == names
    assert [value(back, f"n1/net/{name}", "net_rx_bytes") for name in names] == [0, 1, 1, ONE_READING]
    assert counted(back, "n1/net/eth1", "net_rx_bytes") == 90


def test_no_devices_at_all_are_all_lost_and_a_group_without_any_is_none() -> None:
    fleet = started()
    fleet.devices("pcie", Scope.PCIE, ["0000:81:00.0"], pcie_link_width=[16])
    assert value(fleet.devices("pcie", Scope.PCIE, []), "n1/pcie/0000:81:00.0", "pcie_link_width") is LOST
    empty = fleet.devices("mounts", Scope.FS, [])
    assert list(empty.rows(empty.node("n1"), Scope.FS)) == []
    assert value(fleet.devices("mounts", Scope.FS, ["/"], fs_used=[40.5]), "n1/fs/", "fs_used") == 40.5


def test_links_that_a_hung_driver_does_not_name_are_not_lost() -> None:
    fleet = started()
    fleet.devices("gpu", Scope.NVLINK, ["0/0"], nvlink_state=[1])
    fleet.full(notes={"nvml": "hung for 41 s"})
    assert value(fleet.devices("gpu", Scope.NVLINK, []), "n1/nvlink/0/0", "nvlink_state") is Reason.HUNG


def test_a_group_that_adds_to_the_devices_of_another_one() -> None:
    fleet = started()
    fleet.devices("smart", Scope.DISK, ["nvme0n1", "nvme9n1"], whole=False, smart_passed=[1, 1])
    assert value(fleet.devices("disks", Scope.DISK, ["nvme0n1", "md0"]), "n1/disk/nvme0n1", "smart_passed") == 1
    assert value(fleet.look(), "n1/disk/md0", "smart_passed") is UNSUPPORTED
    assert fleet.look().node("n1").devices[Scope.DISK] == ("nvme0n1", "md0")
    two = fleet.devices("disks", Scope.DISK, ["md0", "nvme0n1", "sda"])
    assert value(two, "n1/disk/nvme0n1", "smart_passed") == 1
    assert value(two, "n1/disk/sda", "smart_passed") is WAITING
    fleet.devices("disks", Scope.DISK, ["md0", "sda"])
    three = fleet.devices(
        "smart", Scope.DISK, ["sda", "nvme0n1"], whole=False, smart_passed=[0, 1], nvme_media_errors=["unsupported", 3]
    )
    assert value(three, "n1/disk/sda", "smart_passed") == 0
    assert value(three, "n1/disk/sda", "nvme_media_errors") is UNSUPPORTED
    assert value(three, "n1/disk/nvme0n1", "smart_passed") is LOST


def test_what_first_parts_of_many_nodes_lack_is_taken_together_with_them() -> None:
    names = ("n1", "n2", "n3")
    fleet = Fleet(*names)
    for name in names:
        fleet.seq = 0
        fleet.start(name)
    for name in names:
        found = Devices(("sda", "md0"), {"disk_reads": [5, 6]}, {}, True)
        fleet.part("disks", name, devices={Scope.DISK: found})
    disks = fleet.state.tables[Scope.DISK]
    fleet.look()
    folds, fold = [], disks._fold
    disks._fold = lambda of, batch, *, full: (folds.append(of.name), fold(of, batch, full=full))  # type: ignore[method-assign]
    for name in names:
        said = Devices(("sda",), {"smart_passed": [1], "nvme_media_errors": [3]}, {}, False)
        fleet.part("smart", name, devices={Scope.DISK: said})
    assert folds == []
    fleet.link(LinkState.UNREACHABLE, "n3")
    look = fleet.look()
    assert folds == ["smart"]
    for name in ("n1", "n2"):
        assert value(look, f"{name}/disk/sda", "smart_passed") == 1
        assert value(look, f"{name}/disk/md0", "smart_passed") is UNSUPPORTED
        assert value(look, f"{name}/disk/md0", "nvme_media_errors") is UNSUPPORTED
        assert value(look, f"{name}/disk/md0", "disk_reads") is ONE_READING
    assert value(look, "n3/disk/md0", "smart_passed") is Reason.UNREACHABLE


def test_what_follows_from_what_a_part_lacks_is_lacking_too() -> None:
    fleet = started()
    fleet.devices("smart", Scope.DISK, ["sda", "md0"], smart_passed=[1, 1])
    reads = {f"disk_{name}": [5] for name in ("reads", "writes", "read_time", "write_time", "io_time")}
    look = fleet.devices("disks", Scope.DISK, ["sda"], whole=False, **reads)
    for id_ in ("disk_reads", "disk_await", "disk_io_util"):
        assert value(look, "n1/disk/sda", id_) is ONE_READING
        assert value(look, "n1/disk/md0", id_) is UNSUPPORTED


def test_names_are_bounded_and_stand_once() -> None:
    fleet = started()
    names = [f"eth{number}" for number in range(300)]
    many = fleet.devices("net", Scope.NET, ["eth0", "eth0", *names], net_rx_bytes=[1, 2, *range(300)])
    assert len(many.node("n1").devices[Scope.NET]) == MAX_DEVICES == 128
    others = fleet.devices("net", Scope.NET, [f"other{number}" for number in range(10)], net_rx_bytes=[5] * 10)
    kept = others.node("n1").devices[Scope.NET]
    assert (len(kept), kept[:10]) == (128, tuple(f"other{number}" for number in range(10)))
    assert value(others, "n1/net/other3", "net_rx_bytes") is ONE_READING
    assert value(others, "n1/net/eth50", "net_rx_bytes") is LOST
    links = fleet.devices("gpu", Scope.NVLINK, [f"0/{number}" for number in range(600)], nvlink_state=[1] * 600)
    assert len(links.node("n1").devices[Scope.NVLINK]) == MAX_NVLINKS == 512


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5), max_size=12))
def test_a_name_keeps_its_position_while_there_is_room(rounds: list[list[str]]) -> None:
    known: tuple[str, ...] = ()
    for listed in rounds:
        merged = merge_names(known, listed, 5)
        assert [merged.names[position] for position in merged.order] == listed
        assert len(merged.names) <= 5
        assert len(set(merged.names)) == len(merged.names)
        assert merged.new == {n for n, name in enumerate(merged.names) if n >= len(known) or name != known[n]}
        known = merged.names


def test_a_lost_node_has_no_values_of_any_scope_and_waits_for_its_parts_when_it_is_back() -> None:
    fleet = started()
    fleet.part("host", node={"oom_kills": 1, "swap_used": 4})
    fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[100])
    fleet.link(LinkState.UNREACHABLE)
    lost = fleet.look()
    for place, id_ in (("n1", "oom_kills"), ("n1", "swap_used"), ("n1/net/eth0", "net_rx_bytes")):
        assert value(lost, place, id_) is Reason.UNREACHABLE
    fleet.link(LinkState.LIVE)
    fleet.start()
    back = fleet.look()
    for place, id_ in (("n1", "oom_kills"), ("n1", "swap_used"), ("n1/net/eth0", "net_rx_bytes")):
        assert value(back, place, id_) is WAITING
    assert value(back, "n1/gpu/0", "gpu_temp") == 60
    assert (
        value(fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[150]), "n1/net/eth0", "net_rx_bytes")
        is ONE_READING
    )
    assert counted(fleet.look(), "n1/net/eth0", "net_rx_bytes") == 50


def test_a_new_run_of_the_probe_gives_no_rate_at_first_and_a_reboot_no_sum() -> None:
    fleet = started()
    fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[100])
    fleet.start()
    again = fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[130])
    assert value(again, "n1/net/eth0", "net_rx_bytes") is ONE_READING
    assert counted(again, "n1/net/eth0", "net_rx_bytes") == 30
    fleet.start(boot_id="b2")
    fleet.part("net", same=True)
    booted = fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[7_000])
    assert value(booted, "n1/net/eth0", "net_rx_bytes") is ONE_READING
    assert counted(booted, "n1/net/eth0", "net_rx_bytes") == 30


def test_a_gpu_that_is_lost_has_no_rare_values_until_the_next_part() -> None:
    fleet = started()
    fleet.part("gpu", gpu={"gpu_ecc": [1, 2], "gpu_pstate": [0, 0]}, gpu_words={"gpu_vbios_version": ("a", "b")})
    fleet.full(gpus=GPUS[:1], gpu={"gpu_temp": [60]})
    assert value(fleet.look(), "n1/gpu/1", "gpu_pstate") is LOST
    fleet.part("gpu", gpu={"gpu_ecc": [31], "gpu_pstate": [2]}, gpu_words={"gpu_vbios_version": ("a",)})
    one = fleet.look()
    assert (value(one, "n1/gpu/0", "gpu_ecc"), value(one, "n1/gpu/1", "gpu_ecc")) == (pytest.approx(30 / 31), LOST)
    assert one.node("n1").gpu_words == {"gpu_vbios_version": ("a", "")}


# ---------------------------------------------------------------- derived values

TIMES = ("reads", "writes", "read_time", "write_time", "io_time")


def disk(fleet: Fleet, *readings: Cell) -> FleetSnapshot:
    values = {f"disk_{name}": [cell] for name, cell in zip(TIMES, readings, strict=True)}
    return fleet.devices("disks", Scope.DISK, ["sda"], **values)


def test_how_long_a_disk_takes_and_how_busy_it_is() -> None:
    fleet = started()
    first = disk(fleet, 1000, 2000, 500, 900, 700)
    assert [value(first, "n1/disk/sda", id_) for id_ in ("disk_await", "disk_io_util")] == [ONE_READING] * 2
    busy = disk(fleet, 1100, 2050, 800, 1500, 15_700)
    assert value(busy, "n1/disk/sda", "disk_await") == pytest.approx((300 + 600) / (100 + 50))
    assert value(busy, "n1/disk/sda", "disk_io_util") == pytest.approx(50)
    over = disk(fleet, 1101, 2050, 801, 1500, 46_000)
    assert value(over, "n1/disk/sda", "disk_await") == pytest.approx(1)
    assert value(over, "n1/disk/sda", "disk_io_util") == 100
    fleet.part("disks", same=True)
    idle = fleet.look()
    assert value(idle, "n1/disk/sda", "disk_await") is Reason.ABSENT
    assert value(idle, "n1/disk/sda", "disk_io_util") == 0
    reset = disk(fleet, 5, 2060, 2, 1600, 46_010)
    assert value(reset, "n1/disk/sda", "disk_await") is Reason.RESET
    none = disk(fleet, 9, 2070, "unsupported", 1700, 46_020)
    assert value(none, "n1/disk/sda", "disk_await") is UNSUPPORTED
    gone = fleet.devices("disks", Scope.DISK, [])
    assert value(gone, "n1/disk/sda", "disk_await") is LOST


MCE = "mce: [Hardware Error]: "


def test_machine_checks_are_counted_in_the_kernel_log_of_this_boot() -> None:
    fleet = started()
    assert value(fleet.look(), "n1", "mce_events") == 0
    for text in (
        f"{MCE}Machine check events logged", f"{MCE}CPU 3: Machine Check: 0 Bank 7: 8c00004000010090",
        f"{MCE}TSC 0 ADDR 3f1a5ac40 MISC 200000000", "NVRM: nothing", f"{MCE}CPU 3: Machine Check: 0 Bank 8: 8c000",
    ):  # fmt: skip
        fleet.say(wire.Event, source="kernel", text=text, at=WALL + fleet.mono)
    fleet.say(wire.Event, source="job", text=f"{MCE}CPU 3: Machine Check: 0 Bank 8: 8c000")
    assert value(fleet.look(), "n1", "mce_events") == 2
    fleet.say(wire.Delta, notes={"kernel_log": "permission"})
    assert value(fleet.look(), "n1", "mce_events") is Reason.PERMISSION
    fleet.start(boot_id="b2")
    assert value(fleet.look(), "n1", "mce_events") == 0


# ---------------------------------------------------------------- what is not a number


def test_words_processes_and_notes_stand_until_their_group_says_otherwise() -> None:
    fleet = started()
    process = GpuProcess(7, 0, name="python")
    fleet.part("gpu", words={"driver_version": "550"}, processes=(process,), notes={"links": "hung"})
    fleet.part("identity", words={"kernel": "6.1", "os": "Ubuntu"})
    fleet.devices("net", Scope.NET, ["eth0"], about={"eth0": {"driver": "mlx5"}})
    node = fleet.look().node("n1")
    assert node.words == {"driver_version": "550", "kernel": "6.1", "os": "Ubuntu"}
    assert (node.processes, node.tasks, node.notes) == ((process,), None, {"links": "hung"})
    assert node.about == {(Scope.NET, "eth0"): {"driver": "mlx5"}}
    fleet.part("identity", words={"kernel": "6.2"})
    fleet.part("gpu", processes=(), words={"driver_version": "550"})
    node = fleet.look().node("n1")
    assert node.words == {"driver_version": "550", "kernel": "6.2"}
    assert (node.processes, node.notes) == ((), {})


@pytest.mark.parametrize("what", ["notes", "words", "about"])
def test_a_node_that_says_something_else_each_time_fills_no_memory(what: str) -> None:
    fleet = started()
    tracemalloc.start()
    try:
        for turn in range(60):
            text = f"{turn}{'x' * 1_500_000}"
            if what == "about":
                fleet.part("mounts", devices={Scope.FS: Devices(("/",), {}, {"/": {"device": text}})})
            else:
                fleet.part("mounts", **{what: {"mounts": text}})
        assert tracemalloc.get_traced_memory()[0] < 45e6
    finally:
        tracemalloc.stop()


def test_the_age_of_a_value_is_that_of_its_group() -> None:
    fleet = started()
    fleet.part("host", node={"swap_used": 1})
    fleet.part("clock", every_s=60.0, node={"clock_offset": 0.5})
    snapshot = fleet.look()
    node = snapshot.nodes[0]
    now = fleet.mono + 61.0
    assert snapshot.age_s(node, "swap_used", now) == 91
    assert snapshot.age_s(node, "clock_offset", now) == 61
    assert snapshot.age_s(node, "gpu_ecc", now) is None
    assert snapshot.age_s(node, "load1", now) == node.age_s(now) == 121
    assert [snapshot.is_stale(node, id_, now) for id_ in ("swap_used", "clock_offset", "gpu_ecc")] == [False] * 3
    assert snapshot.is_stale(node, "swap_used", now + 1)
    assert not snapshot.is_stale(node, "clock_offset", now + 120)
    assert snapshot.is_stale(node, "clock_offset", now + 121)


def test_rows_of_devices_are_pictured_at_a_calm_pace_but_never_of_another_device() -> None:
    fleet = started()
    first = fleet.devices("net", Scope.NET, ["eth0"], net_rx_bytes=[100])
    fleet.part("net", dt=PICTURE_S / 2, devices={Scope.NET: Devices(("eth0",), {"net_rx_bytes": [200]})})
    assert fleet.look(latest=False).tables[Scope.NET] is first.tables[Scope.NET]
    assert value(fleet.look(), "n1/net/eth0", "net_rx_bytes") == 100
    fleet.part("net", dt=0.0, devices={})
    assert fleet.look(latest=False).tables[Scope.NET].version == 2
    node = fleet.look().node("n1")
    assert node.version > first.node("n1").version


def test_a_quiet_table_is_the_same_object() -> None:
    fleet = started()
    given = {"nvlink_state": [1, 1], "nvlink_speed": [26.562, 26.562], "nvlink_crc_errors": [0, 3]}
    fleet.devices("gpu", Scope.NVLINK, ["0/0", "0/1"], **given)
    quiet = fleet.devices("gpu", Scope.NVLINK, ["0/0", "0/1"], **given)
    again = fleet.devices("gpu", Scope.NVLINK, ["0/0", "0/1"], **given)
    assert again.tables[Scope.NVLINK] is quiet.tables[Scope.NVLINK]
    more = fleet.devices("gpu", Scope.NVLINK, ["0/0", "0/1"], **{**given, "nvlink_crc_errors": [30, 3]})
    assert value(more, "n1/nvlink/0/0", "nvlink_crc_errors") == 1
    assert value(again, "n1/nvlink/0/0", "nvlink_crc_errors") == 0


frames = st.lists(
    st.one_of(
        st.tuples(st.just("delta"), st.integers(0, 2**40), st.sampled_from([0.0, 1.0, 4.0])),
        st.tuples(st.just("full"), st.integers(0, 2**40), st.sampled_from([0.0, 1.0])),
        st.tuples(st.just("gap"), st.integers(0, 9), st.just(1.0)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(frames)
def test_frames_never_change_what_came_in_parts(said: list[tuple[str, int, float]]) -> None:
    fleet = started()
    for total in (0, 30):
        fleet.part("gpu", gpu={"gpu_ecc": [total, 0], "gpu_replay": [255, 1], "gpu_pstate": [0, "hung"]})
        fleet.part("host", dt=1.0, node={"oom_kills": total, "swap_used": 3})
        fleet.devices("net", Scope.NET, ["eth0"], dt=1.0, net_rx_bytes=[total])
    before = fleet.look()
    grouped = {s: [t.index[m] for m in t.metrics if CATALOGUE[m].group] for s, t in before.tables.items()}
    for kind, number, dt in said:
        fleet.mono += dt
        if kind == "full":
            fleet.full(gpu={"gpu_temp": [1, 2], "nvlink_rx": [number, number]}, node={"ctxt": number})
        else:
            seq = fleet.seq + 3 if kind == "gap" else None
            fleet.say(wire.Delta, seq=seq, gpu={"nvlink_rx": [number, None]}, node={"ctxt": number, "swap_used": 9})
    after = fleet.look()
    for scope, columns in grouped.items():
        np.testing.assert_array_equal(after.tables[scope].values[columns], before.tables[scope].values[columns])
        np.testing.assert_array_equal(after.tables[scope].reasons[columns], before.tables[scope].reasons[columns])
    columns = fleet.state.tables[Scope.NODE]
    assert columns.since_of(columns.counter_index["oom_kills"], [0], "host") == before.nodes[0].parts["host"].mono
    fleet.part("host", node={"oom_kills": 30, "swap_used": 3})
    assert value(fleet.look(), "n1", "oom_kills") == 0


def test_each_device_has_the_time_of_its_first_reading_whenever_it_comes() -> None:
    fleet = Fleet()
    fleet.start()
    first = fleet.devices("mounts", Scope.FS, ["/", "/a"], fs_used=[1, 2])
    began = WALL + fleet.mono
    fleet.devices("mounts", Scope.FS, ["/", "/a"], fs_used=[1, 3])
    fleet.devices("mounts", Scope.FS, ["/", "/a", "/b"], fs_used=[1, 3, 4])
    came = WALL + fleet.mono
    last = fleet.devices("mounts", Scope.FS, ["/", *[f"/{number}" for number in range(8)]], fs_used=[5] * 9)
    assert first.tables[Scope.FS].first_at[first.rows(first.nodes[0], Scope.FS)].tolist() == [began] * 2
    rows = last.rows(last.nodes[0], Scope.FS)
    times = dict(zip(last.nodes[0].devices[Scope.FS], last.tables[Scope.FS].first_at[rows].tolist(), strict=True))
    assert (times["/"], times["/a"], times["/b"], times["/7"]) == (began, began, came, WALL + fleet.mono)
