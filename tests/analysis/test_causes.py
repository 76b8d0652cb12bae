"""Which group of places is a cause: most of its members affected, few others, the smallest and most physical one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.causes import KEPT_S, Affected, Cause, Held, find
from stethoscope.analysis.layout import Layout
from stethoscope.analysis.sharing import REFRESH_S, Sharing
from stethoscope.model.facts import GpuProcess
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job, SchedulerState
from tests.builders import WALL, fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.fleet import FleetSnapshot


def test_what_is_in_common_stands_while_nodes_say_what_they_said() -> None:
    snapshot = replace(fleet(2), jobs=(Job("7", nodes=("gpu-001",)),))
    layout = Layout(snapshot)
    sharing = Sharing(snapshot, layout)
    later = replace(snapshot, mono=snapshot.mono + REFRESH_S)
    assert not sharing.fits(layout, later.mono)
    assert sharing.renewed(later, layout) is sharing
    assert sharing.fits(layout, later.mono)
    first, other = later.nodes
    process = GpuProcess(gpu=0, pid=1, slurm_job="8")
    for changed in (
        replace(later, jobs=()),
        replace(later, nodes=(first, replace(other, words={"driver_version": "1"}))),
        replace(later, nodes=(first, replace(other, kernel="6.1"))),
        replace(later, nodes=(first, replace(other, link=replace(other.link, via="jump")))),
        replace(later, nodes=(first, replace(other, processes=(process,)))),
        replace(later, nodes=(first, replace(other, scheduler=SchedulerState((), jobs=("9",))))),
    ):
        assert sharing.renewed(changed, layout) is not sharing
    assert sharing.renewed(later, Layout(later)) is not sharing


class Found:
    """What one rule found in a fleet, from the places that it found."""

    def __init__(self, snapshot: FleetSnapshot, scope: Scope, *, per_node: bool = False) -> None:
        self.snapshot, self.scope, self.per_node = snapshot, scope, per_node
        self.layout = Layout(snapshot)
        self.sharing = Sharing(snapshot, self.layout)
        self.held = Held()
        self.rows = {
            snapshot.place(node, scope, position): row
            for node in snapshot.nodes
            for position, row in enumerate(snapshot.rows(node, scope))
        }

    def affected(self, places: Iterable[str] | Mapping[str, float], unknown: Iterable[str] = ()) -> Affected:
        """Return it; a mapping says when each place began, in seconds after WALL."""
        owner = self.layout.owner[self.scope]
        everything = owner >= 0
        active, population, since = np.zeros(len(owner), dtype=bool), everything.copy(), np.full(len(owner), np.nan)
        for place in places:
            active[self.rows[place]] = True
            since[self.rows[place]] = WALL + (places[place] if isinstance(places, dict) else 10.0)
        for place in unknown:
            population[self.rows[place]] = False
        nodes = len(self.snapshot.nodes)
        return Affected(self.scope, self.per_node, owner, everything, population, active, active, since, WALL, nodes)

    def causes(self, places: Any, *, unknown: Iterable[str] = (), mono: float = 0.0) -> list[Cause]:
        return find(self.affected(places, unknown), self.sharing, self.held, mono)

    def names(self, places: Any, **more: Any) -> list[tuple[str, int, int]]:
        return [(cause.name, cause.affected, cause.members) for cause in self.causes(places, **more)]


def ports(device: int, nodes: Iterable[int]) -> list[str]:
    return [f"gpu-{node:03}/ib/mlx5_{device}" for node in nodes]


def nodes(numbers: Iterable[int]) -> list[str]:
    return [f"gpu-{number:03}" for number in numbers]


# ---------------------------------------------------------------- each kind of group


@pytest.mark.parametrize(("count", "affected"), [(2, 2), (3, 3), (4, 4), (8, 7), (8, 6), (8, 8)])
def test_a_leaf(count: int, affected: int) -> None:
    found = Found(fleet(4 * count, per_rack=count), Scope.PORT)
    assert found.names(ports(3, range(1, affected + 1))) == [("leaf/leaf-01-3", affected, count)]


@pytest.mark.parametrize("affected", [1, 2, 3, 4, 5])
def test_a_half_of_a_leaf_is_none(affected: int) -> None:
    assert Found(fleet(32), Scope.PORT).names(ports(3, range(1, affected + 1))) == []


def test_three_hundred_nodes_of_one_rack() -> None:
    found = Found(fleet(2000, gpus=0, ports=0, per_rack=300), Scope.NODE)
    assert found.names(nodes(range(301, 601))) == [("rack/rack-02", 300, 300)]


def test_all_devices_of_a_node_are_its_own() -> None:
    found = Found(fleet(4), Scope.GPU)
    assert found.names([f"gpu-002/gpu/{gpu}" for gpu in range(8)]) == [("gpu-002", 8, 8)]
    assert Found(fleet(1), Scope.GPU).names([f"gpu-001/gpu/{gpu}" for gpu in range(8)]) == [("gpu-001", 8, 8)]


def test_one_gpu_on_most_nodes_of_a_rack() -> None:
    hot = [f"gpu-{node:03}/gpu/{node % 8}" for node in range(9, 16)]
    assert Found(fleet(32), Scope.GPU).names(hot) == [("rack/rack-02", 7, 8)]


def test_the_same_port_of_a_pod_without_leaves() -> None:
    from dataclasses import replace

    snapshot = fleet(16)
    half = tuple(
        replace(node, leaves={}, rack="", pod="pod-1" if node.index < 8 else "pod-2") for node in snapshot.nodes
    )
    found = Found(replace(snapshot, nodes=half), Scope.PORT)
    assert found.names(ports(3, range(1, 9))) == [("mlx5_3 of pod-1", 8, 8)]


def with_words(snapshot: FleetSnapshot, **drivers: str) -> FleetSnapshot:
    from dataclasses import replace

    return replace(
        snapshot,
        nodes=tuple(
            replace(node, words={"driver_version": drivers.get(node.name.replace("-", "_"), "550.90.07")})
            for node in snapshot.nodes
        ),
    )


def test_a_driver() -> None:
    other = {f"gpu_{number:03}": "570.1" for number in (3, 11, 17, 30)}
    found = Found(with_words(fleet(32), **other), Scope.NODE)
    assert found.names(nodes((3, 11, 17, 30))) == [("driver 570.1", 4, 4)]


def test_a_rack_before_a_driver_of_the_same_nodes() -> None:
    other = {f"gpu_{number:03}": "570.1" for number in range(9, 17)}
    found = Found(with_words(fleet(32), **other), Scope.NODE)
    assert found.names(nodes(range(9, 17))) == [("rack/rack-02", 8, 8)]


def test_a_job() -> None:
    from dataclasses import replace

    from stethoscope.model.scheduler import Job

    job = Job("4242", nodes=("gpu-002", "gpu-009", "gpu-018", "gpu-027"))
    found = Found(replace(fleet(32), jobs=(job,)), Scope.NODE)
    assert found.names(nodes((2, 9, 18, 27))) == [("job/4242", 4, 4)]


def test_a_file_system_that_many_mount() -> None:
    from dataclasses import replace

    snapshot = fleet(8, devices={Scope.FS: ("/", "/data", "/shared")})
    about = {
        (Scope.FS, "/"): {"type": "ext4", "device": "/dev/nvme0n1p2"},
        (Scope.FS, "/data"): {"type": "nfs4", "device": "10.0.0.7:/data"},
        (Scope.FS, "/shared"): {"type": "nfs4", "device": "10.0.0.9:/export/shared"},
    }
    found = Found(replace(snapshot, nodes=tuple(replace(node, about=about) for node in snapshot.nodes)), Scope.FS)
    slow = [f"gpu-{number:03}/fs/shared" for number in range(1, 8)]
    assert found.names(slow) == [("storage/shared", 7, 8)]
    # A local disk is everywhere and has nothing in common.
    assert found.names([f"gpu-{number:03}/fs/" for number in range(1, 9)]) == []


def test_all_links_of_one_gpu() -> None:
    links = tuple(f"{gpu}/{link}" for gpu in range(8) for link in range(18))
    found = Found(fleet(2, devices={Scope.NVLINK: links}), Scope.NVLINK)
    assert found.names([f"gpu-001/nvlink/3/{link}" for link in range(18)]) == [("gpu-001/gpu/3", 18, 18)]


# ---------------------------------------------------------------- evidence


def test_the_smallest_group_that_has_them_all() -> None:
    found = Found(fleet(64, per_rack=8), Scope.PORT)
    assert found.names(ports(3, range(1, 9))) == [("leaf/leaf-01-3", 8, 8)]
    # All ports of all nodes of a rack: the rack, and not eight leaves or eight nodes.
    every = [place for device in range(8) for place in ports(device, range(1, 9))]
    assert Found(fleet(64, per_rack=8), Scope.PORT).names(every) == [("rack/rack-01", 8, 8)]


def test_two_causes_at_once_and_some_noise() -> None:
    found = Found(fleet(64), Scope.PORT)
    affected = [*ports(3, range(1, 9)), *ports(5, range(17, 25)), "gpu-040/ib/mlx5_1"]
    assert sorted(found.names(affected)) == [("leaf/leaf-01-3", 8, 8), ("leaf/leaf-03-5", 8, 8)]


def test_most_leaves_of_a_small_fleet() -> None:
    found = Found(fleet(32, ports=1), Scope.PORT)
    names = found.names(ports(0, range(1, 25)))
    assert names == [(f"rack/rack-{rack:02}", 8, 8) for rack in (1, 2, 3)] or names == [
        (f"leaf/leaf-{rack:02}-0", 8, 8) for rack in (1, 2, 3)
    ]


def test_what_the_whole_fleet_has_is_nobodys() -> None:
    assert Found(fleet(8), Scope.NODE).names(nodes(range(1, 9))) == []
    assert Found(fleet(16), Scope.NODE).names(nodes(range(1, 17))) == []


def test_two_of_two_where_many_others_have_it_too() -> None:
    found = Found(fleet(64, per_rack=2), Scope.NODE)
    assert found.names(nodes((1, 2))) == [("rack/rack-01", 2, 2)]
    found = Found(fleet(64, per_rack=2), Scope.NODE)
    scattered = [number for number in range(3, 65) if number % 3 == 0]
    assert found.names(nodes((1, 2, *scattered))) == []


def test_a_topology_that_is_not_known_gives_no_cause() -> None:
    from dataclasses import replace

    snapshot = fleet(16)
    bare = replace(
        snapshot, nodes=tuple(replace(node, rack="", pod="", leaves={}, kernel="") for node in snapshot.nodes)
    )
    assert Found(bare, Scope.NODE).names(nodes(range(1, 9))) == []


def test_members_that_cannot_be_seen_count_neither_way_but_half_must_be_affected() -> None:
    found = Found(fleet(32), Scope.PORT)
    hidden = ports(3, (5, 6, 7, 8))
    assert found.names(ports(3, (1, 2, 3, 4)), unknown=hidden) == [("leaf/leaf-01-3", 4, 8)]
    assert found.names(ports(3, (1, 2, 3)), unknown=[*hidden, *ports(3, (4,))]) == [("leaf/leaf-01-3", 3, 8)]
    assert Found(fleet(32), Scope.PORT).names(ports(3, (1, 2, 3)), unknown=[*hidden, *ports(3, (4,))]) == []


def test_a_common_moment_speaks_for_a_cause() -> None:
    together = Found(fleet(4, per_rack=2), Scope.NODE).causes({"gpu-001": 100.0, "gpu-002": 104.0})
    apart = Found(fleet(4, per_rack=2), Scope.NODE).causes({"gpu-001": 100.0, "gpu-002": 9000.0})
    assert [cause.name for cause in together] == ["rack/rack-01"]
    assert apart == []


# ---------------------------------------------------------------- over time


def test_it_shrinks_without_flapping() -> None:
    found = Found(fleet(32), Scope.PORT)
    seen = []
    for step, count in enumerate((8, 7, 5, 4, 3, 2, 1, 1, 1, 1, 3, 6)):
        seen.append(found.names(ports(3, range(1, count + 1)), mono=20.0 * step))
    leaf = "leaf/leaf-01-3"
    assert seen[:7] == [[(leaf, count, 8)] for count in (8, 7, 5, 4, 3, 2, 1)]
    assert seen[9:] == [[], [], [(leaf, 6, 8)]]
    assert KEPT_S == 45.0


def test_it_grows_into_the_larger_group() -> None:
    found = Found(fleet(32, ports=1, per_rack=4), Scope.NODE)
    assert found.names(nodes(range(1, 5))) == [("rack/rack-01", 4, 4)]
    assert len(found.names(nodes(range(1, 9)))) == 2


@settings(max_examples=150, deadline=None)
@given(st.sets(st.integers(1, 24)), st.sets(st.integers(0, 191)), st.integers(1, 8))
def test_never_a_cause_that_half_of_its_members_have_not(lost: set[int], down: set[int], per_rack: int) -> None:
    snapshot = fleet(24, gpus=0, per_rack=per_rack)
    for found, places in (
        (Found(snapshot, Scope.NODE), nodes(sorted(lost))),
        (Found(snapshot, Scope.PORT), [f"gpu-{at // 8 + 1:03}/ib/mlx5_{at % 8}" for at in sorted(down)]),
    ):
        causes = found.causes(places)
        taken = [row for cause in causes for row in cause.rows]
        assert len(taken) == len(set(taken))
        assert set(taken) <= {found.rows[place] for place in places}
        for cause in causes:
            assert 2 * cause.affected >= cause.members >= cause.affected >= 2
