"""The lines of the probe, written and read by the same structs."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from stethoscope.model import wire


def test_the_form_on_the_wire() -> None:
    line = wire.Delta(seq=7, mono=1.5, wall=2.5, gpu={"gpu_temp": [60, None, "hung"]})
    assert json.loads(wire.encode(line)) == {
        "t": "delta", "seq": 7, "mono": 1.5, "wall": 2.5, "gpu": {"gpu_temp": [60, None, "hung"]},
    }  # fmt: skip
    assert wire.sentinel("5f2e") == "stethoscope.probe/1 5f2e"


@pytest.mark.parametrize(
    "message",
    [
        wire.Hello(seq=0, mono=1.0, wall=2.0, host="n1", boot_id="b", tick_s=2.0),
        wire.Full(seq=1, mono=1.0, wall=2.0, gpus=[wire.GpuIdentity(0)], node={"load1": 2**64 - 1}),
        wire.Delta(seq=2, mono=1.0, wall=2.0, notes={}),
        wire.Event(seq=3, mono=1.0, wall=2.0, source="kernel", text="line", at=1.5, level=3),
        wire.Bye(seq=5, mono=1.0, wall=2.0, why="asked to"),
    ],
)
def test_what_was_written_is_read(message: wire.Message) -> None:
    assert wire.decode(wire.encode(message)) == message


def test_fields_of_a_newer_probe_are_passed_over() -> None:
    assert wire.decode(b'{"t":"bye","seq":1,"mono":1,"wall":2,"mood":"fine"}') == wire.Bye(seq=1, mono=1.0, wall=2.0)


def test_a_line_of_another_kind_keeps_its_place_and_says_nothing() -> None:
    old = b'{"t":"result","seq":4,"mono":1.5,"wall":2.5,"id":1,"probe":"mlxlink","status":"ok","text":"light"}'
    assert wire.decode(old) == wire.Other(4, 1.5, 2.5)


def test_every_kind_is_known() -> None:
    assert {one.__struct_config__.tag for one in get_args(wire.Known)} == wire.KINDS


def test_what_is_not_a_message() -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode(b'{"t":"full"}')
