"""Devices keep their rows: whatever a node lists, no row ever stands for two devices at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.inventory import MAX_DEVICES, merge_gpus, merge_ports
from stethoscope.model.wire import GpuIdentity, PortIdentity


def gpu(index: int, uuid: str = "", pci: str = "") -> GpuIdentity:
    return GpuIdentity(index, "H100", uuid, pci)


def test_a_gpu_that_lost_its_uuid_is_known_by_its_slot_and_keeps_its_name() -> None:
    known = (gpu(0, "GPU-a", "0000:11:00.0"),)
    merged = merge_gpus(known, [GpuIdentity(0, "", "", "0000:11:00.0")], None)
    assert merged.gpus == known
    assert merged.new == frozenset()


def test_a_gpu_without_any_address_is_known_by_its_index() -> None:
    known = (gpu(0, "GPU-a"), gpu(1, "GPU-b"))
    merged = merge_gpus(known, [GpuIdentity(1)], None)
    assert merged.order == (1,)
    assert merged.new == frozenset()


def test_two_gpus_that_changed_slots_take_their_rows_with_them() -> None:
    known = (gpu(0, "GPU-a", "0000:11:00.0"), gpu(1, "GPU-b", "0000:12:00.0"))
    merged = merge_gpus(known, [gpu(0, "GPU-b", "0000:11:00.0"), gpu(1, "GPU-a", "0000:12:00.0")], None)
    assert merged.order == (1, 0)
    assert [one.uuid for one in merged.gpus] == ["GPU-a", "GPU-b"]
    assert merged.new == frozenset()


def test_a_bare_index_stands_for_an_expected_gpu_until_it_comes() -> None:
    waiting = merge_gpus((), [gpu(0, "GPU-a")], 3)
    assert [one.index for one in waiting.gpus] == [0, 1, 2]
    come = merge_gpus(waiting.gpus, [gpu(0, "GPU-a"), gpu(2, "GPU-c")], 3)
    assert come.order == (0, 2)
    assert [one.uuid for one in come.gpus] == ["GPU-a", "", "GPU-c"]


letters = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8)
slots = st.permutations(range(8))


@given(st.lists(st.tuples(letters, slots, st.booleans()), max_size=8), st.none() | st.integers(0, 10))
def test_rows_of_gpus(listings: list[tuple[list[str], list[int], bool]], expected: int | None) -> None:
    known: tuple[GpuIdentity, ...] = ()
    for names, where, has_uuid in listings:
        listed = [
            gpu(index, f"GPU-{name}" if has_uuid else "", f"0000:{where[index] + 16:02x}:00.0")
            for index, name in enumerate(names)
        ]
        before = {one.uuid: position for position, one in enumerate(known) if one.uuid}
        merged = merge_gpus(known, listed, expected)
        assert len(set(merged.order)) == len(listed)
        assert len(merged.gpus) >= max(len(known), expected or 0)
        assert len({one.index for one in merged.gpus}) == len(merged.gpus)
        for wanted, position in zip(listed, merged.order, strict=True):
            assert merged.gpus[position].index == wanted.index
            if wanted.uuid:
                assert merged.gpus[position].uuid == wanted.uuid
            if wanted.uuid in before:
                assert position == before[wanted.uuid]
        for position, old in enumerate(known):
            if position not in merged.new and old.uuid:
                assert merged.gpus[position].uuid == old.uuid
        known = merged.gpus


@given(st.lists(st.lists(st.integers(0, 300), unique=True, max_size=64), max_size=12))
def test_rows_of_ports_stay_bounded(listings: list[list[int]]) -> None:
    known: tuple[PortIdentity, ...] = ()
    for numbers in listings:
        listed = [PortIdentity(f"mlx5_{number}") for number in numbers]
        merged = merge_ports(known, listed)
        assert [merged.ports[position].device for position in merged.order] == [port.device for port in listed]
        assert len(set(merged.order)) == len(listed)
        assert len({port.device for port in merged.ports}) == len(merged.ports) <= MAX_DEVICES
        assert all(position in merged.new for position in merged.order if position >= len(known))
        known = merged.ports


def test_a_node_that_makes_up_gpus_is_bounded() -> None:
    known: tuple[GpuIdentity, ...] = ()
    for number in range(200):
        merged = merge_gpus(known, [gpu(index, f"GPU-{number}-{index}") for index in range(64)], None)
        known = merged.gpus
        assert len(known) <= MAX_DEVICES
        assert [known[position].uuid for position in merged.order] == [f"GPU-{number}-{index}" for index in range(64)]
