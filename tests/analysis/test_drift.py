"""Who differs: the majority among comparable nodes, ties, single GPUs, and those who do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from stethoscope.analysis.drift import ITEMS, NOT_VISIBLE, Drift, Unknown, comparison, drift, is_hung
from stethoscope.model.fleet import PartAge
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Reason
from tests.builders import MONO, catalogue, fleet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import FleetSnapshot

PARTS = {group: PartAge(MONO, 300.0) for group in ("identity", "tuning", "clock", "gpu")}
WORDS = {
    "driver_version": "550.54.15",
    "kernel": "5.15.0-1049-nvidia",
    "product": "Supermicro SYS-821GE",
    "mtu": "9000 (8)",
}
VBIOS = ("96.00.61.00.01",) * 8


def telling(snapshot: FleetSnapshot, **words: Mapping[str, object]) -> FleetSnapshot:
    """Let every node tell WORDS and VBIOS, but for what `words` says of a node by its number."""
    nodes = []
    for node in snapshot.nodes:
        other = words.get(f"n{node.index + 1}", {})
        said = {key: value for key, value in {**WORDS, **other}.items() if isinstance(value, str) and value}
        vbios = other.get("vbios", VBIOS[: len(node.gpus)])
        nodes.append(replace(node, words=said, gpu_words={"gpu_vbios_version": vbios}, parts=PARTS))  # type: ignore[arg-type]
    return replace(snapshot, nodes=tuple(nodes))


def row_of(snapshot: FleetSnapshot, item: str) -> Drift:
    (row,) = [row for row in drift(snapshot).rows if row.item.id == item]
    return row


def held(row: Drift) -> list[tuple[str, str]]:
    return [(held.value, held.where) for held in row.held]


def test_a_comparison_pauses_behind_every_item_and_comes_to_the_same() -> None:
    snapshot = telling(fleet(4), n3={"driver_version": "535.161.08"})
    steps, pauses = comparison(snapshot), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            table = end.value
            break
        pauses += 1
    assert table == drift(snapshot)
    assert pauses == len(table.rows) + 1 >= 20


def test_the_one_that_differs_is_named_and_comes_first() -> None:
    table = drift(telling(fleet(4), n3={"driver_version": "535.161.08"}))
    first = table.rows[0]
    assert (first.item.id, first.expected, first.is_tie) == ("driver_version", "550.54.15", False)
    assert held(first) == [("550.54.15", "gpu-[001-002,004]"), ("535.161.08", "gpu-003")]
    assert [other.names for other in first.others] == [("gpu-003",)]
    assert table.differing == (first,)
    assert len(table.told) == 4


def test_what_is_alike_is_told_with_how_many_have_it() -> None:
    row = row_of(telling(fleet(4)), "kernel")
    assert (row.differs, row.expected, held(row)) == (False, WORDS["kernel"], [(WORDS["kernel"], "gpu-[001-004]")])
    assert row.others == ()
    assert row.group.label == "NVIDIA H100 80GB HBM3, Supermicro SYS-821GE"


def test_a_tie_calls_nobody_different() -> None:
    row = row_of(telling(fleet(4), n1={"driver_version": "1"}, n2={"driver_version": "1"}), "driver_version")
    assert (row.is_tie, row.expected) == (True, None)
    assert held(row) == [("1", "gpu-[001-002]"), ("550.54.15", "gpu-[003-004]")]
    assert row.others == row.held


def test_the_most_common_of_many_is_expected() -> None:
    row = row_of(telling(fleet(5), n1={"mtu": "1500"}, n2={"mtu": "4200"}), "mtu")
    assert (row.expected, [value for value, _ in held(row)]) == ("9000 (8)", ["9000 (8)", "1500", "4200"])


def test_one_gpu_that_differs_is_a_place() -> None:
    other = (*VBIOS[:3], "96.00.74.00.01", *VBIOS[4:])
    row = row_of(telling(fleet(3), n2={"vbios": other}), "gpu_vbios_version")
    assert held(row) == [
        (VBIOS[0], "gpu-[001,003], gpu-002/gpu/[0-2,4-7]"),
        ("96.00.74.00.01", "gpu-002/gpu/3"),
    ]
    assert row.others[0].names == ("gpu-002",)


def test_a_node_whose_gpus_are_all_different_is_one_node() -> None:
    row = row_of(telling(fleet(3), n2={"vbios": ("96.1",) * 8}), "gpu_vbios_version")
    assert held(row)[1] == ("96.1", "gpu-002")


def test_the_same_gpus_of_several_nodes_fold() -> None:
    other = ("1", *VBIOS[1:7], "1")
    row = row_of(telling(fleet(4), n2={"vbios": other}, n4={"vbios": other}), "gpu_vbios_version")
    assert held(row)[1] == ("1", "gpu-[002,004]/gpu/[0,7]")


def test_settings_that_are_numbers_or_states_are_compared_too() -> None:
    settings = {
        ("gpu-002/gpu/5", "gpu_power_limit"): 500.0,
        **{(f"gpu-003/gpu/{index}", "gpu_ecc_mode"): 0.0 for index in range(8)},
        **{(f"gpu-00{node}/gpu/{index}", "gpu_ecc_mode"): 1.0 for node in (1, 2, 4) for index in range(8)},
    }
    snapshot = telling(fleet(4, set=settings))
    assert held(row_of(snapshot, "gpu_power_limit"))[1] == ("500 W", "gpu-002/gpu/5")
    assert held(row_of(snapshot, "gpu_ecc_mode")) == [("on", "gpu-[001-002,004]"), ("off", "gpu-003")]


def test_who_does_not_tell_is_counted_with_the_reason() -> None:
    modules = {("gpu-004", "peermem_loaded"): Reason.PERMISSION, ("gpu-005", "peermem_loaded"): Reason.UNSUPPORTED}
    snapshot = telling(fleet(5, set=modules), n2={"driver_version": ""}, n3={"driver_version": ""})
    waiting = replace(snapshot.nodes[2], parts={})
    snapshot = replace(snapshot, nodes=(*snapshot.nodes[:2], waiting, *snapshot.nodes[3:]))
    row = row_of(snapshot, "driver_version")
    assert row.unknown == (Unknown(NOT_VISIBLE, ("gpu-002",)), Unknown("waiting", ("gpu-003",)))
    assert not row.differs
    row = row_of(snapshot, "peermem_loaded")
    assert row.unknown == (Unknown(NOT_VISIBLE, ("gpu-005",)), Unknown("permission", ("gpu-004",)))
    table = drift(snapshot)
    assert table.told == ("gpu-001", "gpu-002", "gpu-004", "gpu-005")
    assert table.untold == (Unknown("waiting", ("gpu-003",)),)


def test_a_gpu_that_cannot_be_asked_is_unknown_and_the_others_are_compared() -> None:
    settings = {("gpu-002/gpu/5", "gpu_power_limit"): Reason.LOST, ("gpu-002/gpu/1", "gpu_power_limit"): 500.0}
    row = row_of(telling(fleet(3, set=settings)), "gpu_power_limit")
    assert row.unknown == (Unknown("lost", ("gpu-002",)),)
    assert held(row) == [("700 W", "gpu-[001,003], gpu-002/gpu/[0,2-4,6-7]"), ("500 W", "gpu-002/gpu/1")]


def test_nodes_that_never_sent_anything_are_no_part_of_the_comparison() -> None:
    table = drift(telling(fleet(3, links={"gpu-002": LinkState.REFUSED}, waiting=["gpu-002", "gpu-003"])))
    assert [group.nodes for group in table.groups] == [("gpu-001",)]
    assert table.untold == (Unknown("refused", ("gpu-002",)), Unknown("waiting", ("gpu-003",)))
    assert all(not row.differs for row in table.rows)


def test_a_node_whose_driver_hangs_is_not_waited_for() -> None:
    snapshot = telling(fleet(3))
    hung = replace(
        snapshot.node("gpu-002"),
        notes={"nvml": "hung for 41 s"},
        parts={group: age for group, age in PARTS.items() if group != "gpu"},
    )
    table = drift(replace(snapshot, nodes=(snapshot.nodes[0], hung, snapshot.nodes[2])))
    assert table.untold == (Unknown("GPU driver hung", ("gpu-002",)),)
    assert is_hung(hung)
    assert not is_hung(replace(hung, parts={}))
    assert not is_hung(snapshot.nodes[0])


def test_settings_that_are_numbers_are_said_in_words() -> None:
    row = row_of(telling(fleet(3), n1={"numa_balancing": "1"}, n2={"numa_balancing": "0"}), "numa_balancing")
    assert sorted(held(row)) == [("off", "gpu-002"), ("on", "gpu-001")]


def test_what_nobody_tells_is_last_and_has_no_value() -> None:
    row = drift(telling(fleet(3))).rows[-1]
    assert (row.held, row.expected, row.differs) == ((), None, False)
    assert row.unknown == (Unknown(NOT_VISIBLE, ("gpu-001", "gpu-002", "gpu-003")),)


def with_model(snapshot: FleetSnapshot, index: int, model: str) -> FleetSnapshot:
    node = snapshot.nodes[index]
    gpus = tuple(msgspec.structs.replace(gpu, name=model) for gpu in node.gpus)
    nodes = (*snapshot.nodes[:index], replace(node, gpus=gpus), *snapshot.nodes[index + 1 :])
    return replace(snapshot, nodes=nodes)


def test_only_comparable_nodes_are_compared() -> None:
    snapshot = with_model(telling(fleet(4), n4={"driver_version": "470.1"}), 3, "Tesla V100")
    table = drift(snapshot)
    assert [(group.gpus, group.nodes) for group in table.groups] == [
        ("NVIDIA H100 80GB HBM3", ("gpu-001", "gpu-002", "gpu-003")),
        ("Tesla V100", ("gpu-004",)),
    ]
    assert table.differing == ()
    assert len([row for row in table.rows if row.item.id == "driver_version"]) == 2


@pytest.mark.parametrize("product", ["", "Supermicro SYS-821GE"])
def test_a_node_that_does_not_tell_what_it_is_is_compared_with_those_it_may_be_like(product: str) -> None:
    snapshot = telling(fleet(4), n2={"product": product, "driver_version": "1"})
    if product:
        snapshot = with_model(snapshot, 1, "")
    assert [other.names for other in row_of(snapshot, "driver_version").others] == [("gpu-002",)]


def test_gpus_without_a_name_are_not_none() -> None:
    words = {f"n{number}": {"product": ""} for number in range(1, 5)}
    unnamed = with_model(telling(fleet(4), **words), 1, "")
    assert [group.label for group in drift(unnamed).groups] == ["NVIDIA H100 80GB HBM3"]
    alone = with_model(telling(fleet(1), n1={"product": ""}), 0, "")
    assert [group.label for group in drift(alone).groups] == ["GPUs without a name"]


def test_nodes_without_gpus_have_no_settings_of_gpus() -> None:
    table = drift(telling(fleet(2, gpus=0)))
    assert [group.label for group in table.groups] == ["no GPU, Supermicro SYS-821GE"]
    assert not any(row.item.of_gpu for row in table.rows)
    assert len(table.told) == 2


def test_the_kernel_is_known_from_the_greeting() -> None:
    assert held(row_of(fleet(2), "kernel")) == [("5.15.0-1049-nvidia", "gpu-[001-002]")]


def test_items_are_metrics_of_the_catalogue_or_words_of_a_part() -> None:
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.is_metric == (item.id in catalogue()) or item.id == "numa_balancing"
