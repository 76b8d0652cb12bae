"""Pickles of plain values are read; whatever asks for more is refused and never runs."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.plain_pickle import PickleRefusedError, load_plain

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=40,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_values_come_back_as_they_were(value: Any, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol)) == value


def test_shared_values_and_tuples_come_back() -> None:
    words = ("a", 1, (2.5, None), ())
    assert load_plain(pickle.dumps([words, words, {"x": words}], 2)) == [words, words, {"x": words}]


class Evil:
    """Runs a command where it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_call_is_refused_and_never_made(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "ran"
    with pytest.raises(PickleRefusedError, match=r"it asks for code to be run \((?:STACK_)?GLOBAL posix.system\)"):
        load_plain(pickle.dumps({"entries": [Evil(target)]}, protocol))
    assert not target.exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no pickle"),
        (b"(dp0\n.", "no pickle of protocol 2 to 5"),
        (b"\x80\x02cos\nsystem\n.", "GLOBAL os.system"),
        (b"\x80\x02ios\nsystem\n.", "INST os.system"),
        (b"\x80\x02\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL os.system"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02P1\n.", "PERSID"),
        (b"\x80\x02N)R.", "REDUCE"),
        (b"\x80\x02}}b.", "BUILD"),
        (b"\x80\x02c\x1b[31mx\ny\n.", "GLOBAL x.y"),
        (b"\x80\x02" + b"(" * 1000, "nested more than 64 deep"),
        (b"\x80\x02X" + struct.pack("<I", 2**31) + b"abc.", "cut short"),
        (b"\x80\x02\x8d" + struct.pack("<Q", 2**63) + b"abc.", "cut short"),
        (b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b"abc.", "a number of"),
        (b"\x80\x02\x8b" + struct.pack("<i", -1) + b"abc.", "a number of"),
        (b"\x80\x02h\x07.", "damaged"),
        (b"\x80\x02a.", "cut short"),
        (b"\x80\x02NNa.", "damaged"),
        (b"\x80\x02}]Ns.", "neither text nor a number"),
        (b"\x80\x02(NNu.", "cut short"),
        (b"\x80\x02.", "cut short"),
        (b"\x80\x02\x87.", "cut short"),
        (b"\x80\x02N", "cut short"),
        (b"\x80\x02\xff.", "opcode 0xff"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(data: bytes, why: str) -> None:
    with pytest.raises(PickleRefusedError) as refused:
        load_plain(data)
    assert why in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_huge_memo_index_takes_no_memory() -> None:
    assert load_plain(b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".") is None


def test_a_value_that_holds_itself_is_read_and_left_alone() -> None:
    inner: list[Any] = []
    inner.append(inner)
    assert isinstance(load_plain(pickle.dumps(inner, 2)), list)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(PickleRefusedError):
        load_plain(b"\x80\x02" + data)
