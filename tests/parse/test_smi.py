"""The output of nvidia-smi in the terms of the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.model.metric import WIRE_REASONS
from stethoscope.parse import smi

FIELDS = "index,name,uuid,pci.bus_id,clocks.sm,power.draw,temperature.gpu,clocks_throttle_reasons.active"
ROW = "0, NVIDIA H100 80GB HBM3, GPU-1, 00000000:19:00.0, 345, 118.25, 38, 0x0000000000000001"


def read(*rows: str, state: str = "ok", said: str = "", fields: str = FIELDS, no_gpus: bool = False) -> smi.Reading:
    return smi.read(state, said, fields, list(rows), no_gpus=no_gpus)


def test_a_row() -> None:
    reading = read(ROW)
    assert reading.gpu["gpu_power_draw"] == [118.2]
    assert reading.gpu["gpu_clocks_event_reasons"] == [1]
    assert reading.gpu["gpu_fb_used"] == ["unsupported"]
    assert (reading.node["gpu_count"], reading.notes) == (1, {})


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("0", 0),
        ("-3", -3),
        ("[N/A]", "unsupported"),
        ("N/A", "unsupported"),
        ("[Not Supported]", "unsupported"),
        ("[Unknown Error]", "error"),
        ("ERR!", "error"),
        ("", "error"),
        ("38 C", "error"),
        ("1e9", "error"),
        ("nan", "error"),
        ("9" * 40, "error"),
        ("[GPU requires reset]", "error"),
        ("[Insufficient Permissions]", "permission"),
    ],
)
def test_a_cell_is_a_number_or_its_reason(cell: str, value: int | str) -> None:
    assert read(f"3, a, b, c, {cell}, 1.0, 2, 0x0").gpu["gpu_sm_clock"] == [value]


def test_a_damaged_row_is_a_gpu_without_values_and_no_lost_one() -> None:
    reading = read(ROW, "1, a, b", "2, a, b, c, d, e, f, g, h", "x, a, b, c, 1, 2, 3, 0x0")
    assert [gpu.index for gpu in reading.gpus] == [0, 1, 2]
    assert reading.gpu["gpu_sm_clock"] == [345, "error", "error"]
    assert reading.gpu["gpu_handle_error"] == [0, "error", "error"]
    assert reading.node["gpu_count"] == 1


def test_old_rows_tell_which_gpus_there_are_and_nothing_more() -> None:
    for state, word in (("hung 77", "hung"), ("starting", "waiting"), ("ended", "error")):
        reading = read(ROW, state=state)
        assert len(reading.gpus) == 1
        assert {cell for cells in reading.gpu.values() for cell in cells} == {word}
        assert reading.node["gpu_count"] == word
    assert read(state="hung 77").notes == {"nvml": "hung", "nvml_pid": "77"}


def test_no_gpu_on_the_bus_and_no_driver_is_no_fault() -> None:
    for state in ("absent", "ended"):
        assert read(state=state, no_gpus=True).node["gpu_count"] == "absent"
    assert read(state="absent").node["gpu_count"] == "error"


def test_a_lost_gpu_while_the_others_go_on() -> None:
    said = "Unable to determine the device handle for GPU0000:19:00.0: GPU is lost.  Reboot the system"
    reading = read(ROW, "1, a, b, 00000000:20:00.0, 345, 1.0, 2, 0x0", said=said)
    assert reading.gpu["gpu_handle_error"] == [15, 0]
    assert reading.gpu["gpu_sm_clock"] == ["lost", 345]
    assert (reading.node["gpu_count"], reading.notes["nvml"]) == (1, said)


def test_a_lost_gpu_keeps_its_identity_and_its_place() -> None:
    lost = "0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]"
    reading = smi.read("ok", "", FIELDS, [lost], first=[ROW], no_gpus=False)
    assert reading.gpus == read(ROW).gpus
    assert reading.gpu["gpu_sm_clock"] == ["lost"]
    other = "1, a, b, 00000000:20:00.0, 345, 1.0, 2, 0x0"
    said = "Unable to determine the device handle for GPU 0000:19:00.0: GPU is lost"
    reading = smi.read("ok", said, FIELDS, [other], first=[ROW, other], no_gpus=False)
    assert [gpu.pci for gpu in reading.gpus] == ["0000:19:00.0", "0000:20:00.0"]
    assert reading.gpu["gpu_handle_error"] == [15, 0]


@given(st.text(), st.text(), st.text(), st.lists(st.text()), st.booleans())
def test_whatever_it_prints_is_numbers_and_known_words(
    state: str, said: str, fields: str, rows: list[str], no_gpus: bool
) -> None:
    check(smi.read(state, said, fields, rows, first=rows[:1], no_gpus=no_gpus))


@given(st.lists(st.text(alphabet="0123456789abcx[]/N!. -,\x1b", max_size=80)), st.sampled_from(["ok", "ended", "hung"]))
def test_whatever_stands_in_rows(rows: list[str], state: str) -> None:
    check(read(*(f"{index}, a, b, c, {row}" for index, row in enumerate(rows)), state=state))


def check(reading: smi.Reading) -> None:
    cells = [*reading.node.values(), *(cell for column in reading.gpu.values() for cell in column)]
    assert all(cell in WIRE_REASONS if isinstance(cell, str) else isinstance(cell, int | float) for cell in cells)
    assert all(len(column) == len(reading.gpus) for column in reading.gpu.values())
