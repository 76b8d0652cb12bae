"""The output of a probe, byte by byte."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from stethoscope.collect.stream import (
    LINE_LIMIT,
    LINES_LIMIT,
    NOISE_LIMIT,
    NOTE_LIMIT,
    RATE_LIMIT,
    RATE_WINDOW_S,
    Phase,
    ProbeStream,
)
from stethoscope.model import wire

NONCE = "a1b2"
SENTINEL = wire.sentinel(NONCE).encode()
HELLO = wire.encode(wire.Hello(seq=0, mono=1.0, wall=2.0))
FULL = wire.encode(wire.Full(seq=1, mono=1.0, wall=2.0))
DELTA = wire.encode(wire.Delta(seq=2, mono=1.0, wall=2.0))
OUTPUT = b"motd\n" + SENTINEL + b"\n" + HELLO + b"\n" + FULL + b"\n" + DELTA + b"\n"


@given(st.lists(st.integers(0, len(OUTPUT)), max_size=20))
def test_lines_do_not_depend_on_how_the_bytes_arrive(cuts: list[int]) -> None:
    stream = ProbeStream(NONCE)
    places = [0, *sorted(cuts), len(OUTPUT)]
    lines = []
    for start, end in itertools.pairwise(places):
        lines += stream.feed(OUTPUT[start:end], 0.0)
    assert lines == [HELLO, FULL, DELTA]
    assert stream.phase is Phase.LIVE
    assert stream.noise == b"motd\n"


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_never_raises(parts: list[bytes]) -> None:
    stream = ProbeStream(NONCE)
    for number, part in enumerate(parts):
        assert stream.feed(part, float(number)) == [] or stream.phase >= Phase.READY


def test_phases() -> None:
    stream = ProbeStream(NONCE)
    assert stream.phase is Phase.NOISE
    stream.feed(SENTINEL + b"\r\n", 0.0)
    assert stream.phase is Phase.READY
    assert stream.feed(HELLO + b"\n", 0.0) == [HELLO]
    assert stream.phase is Phase.READY
    assert stream.feed(b'{"t": "full", oops}\n', 0.0) == [b'{"t": "full", oops}']
    assert stream.phase is Phase.READY, "it looks like a full frame and is none"
    spaced = json.dumps(json.loads(FULL)).encode()
    assert stream.feed(spaced + b"\n", 0.0) == [spaced]
    assert stream.phase is Phase.LIVE


def test_another_nonce_is_noise() -> None:
    stream = ProbeStream(NONCE)
    assert stream.feed(wire.sentinel("other").encode() + b"\n" + FULL + b"\n", 0.0) == []
    assert stream.phase is Phase.NOISE


def test_noise_without_a_newline_before_the_sentinel() -> None:
    stream = ProbeStream(NONCE)
    stream.feed(b"loading modules... " + SENTINEL + b"\n", 0.0)
    assert stream.phase is Phase.READY
    assert stream.noise == b"loading modules... "


def test_no_python() -> None:
    stream = ProbeStream(NONCE)
    assert stream.feed(SENTINEL + b" no-python\n" + FULL + b"\n", 0.0) == []
    assert stream.phase is Phase.NO_PYTHON
    assert stream.feed(FULL + b"\n", 0.0) == []


def test_noise_is_capped() -> None:
    stream = ProbeStream(NONCE)
    stream.feed(b"x" * 99 + b"\n", 0.0)
    for _ in range(NOISE_LIMIT // 100 - 2):
        stream.feed(b"x" * 99 + b"\n", 0.0)
    assert stream.phase is Phase.NOISE
    assert len(stream.noise) == NOTE_LIMIT
    for _ in range(3):
        stream.feed(b"x" * 99 + b"\n", 0.0)
    assert stream.phase is Phase.NOT_A_PROBE


def test_a_long_line_is_cut_whether_it_ends_or_not() -> None:
    for end in (b"", b"\n"):
        stream = ProbeStream(NONCE)
        stream.feed(SENTINEL + b"\n", 0.0)
        assert stream.feed(b"x" * LINE_LIMIT + b"\n", 0.0) == [b"x" * LINE_LIMIT]
        assert stream.feed(b"x" * (LINE_LIMIT + 1) + end, 6.0) == []
        assert stream.phase is Phase.FLOODING


def test_a_rate_at_the_limit_is_borne_and_one_above_is_not() -> None:
    line = b"x" * (RATE_LIMIT // 8 - 1) + b"\n"
    stream = ProbeStream(NONCE)
    stream.feed(SENTINEL + b"\n", -1.0)
    for eighth in range(8 * 60):
        assert len(stream.feed(line, eighth / 8)) == 1
    faster = 0
    while stream.phase is not Phase.FLOODING:
        stream.feed(line, 100.0 + faster / 9)
        faster += 1
    assert faster <= 9 * RATE_WINDOW_S


def test_many_short_lines_are_a_flood_as_well() -> None:
    stream = ProbeStream(NONCE)
    stream.feed(SENTINEL + b"\n", -RATE_WINDOW_S)
    most = int(LINES_LIMIT * RATE_WINDOW_S)
    assert len(stream.feed(b"{}\n" * most, 0.0)) == most
    assert len(stream.feed(b"{}\n" * most, RATE_WINDOW_S)) == most
    assert stream.feed(b"{}\n", RATE_WINDOW_S + 1) == []
    assert stream.phase is Phase.FLOODING


def test_one_line_in_many_pieces_is_a_flood_as_well() -> None:
    stream = ProbeStream(NONCE)
    stream.feed(SENTINEL + b"\n", -RATE_WINDOW_S)
    for _ in range(int(LINES_LIMIT * RATE_WINDOW_S)):
        stream.feed(b"x", 0.0)
    assert stream.phase is Phase.READY
    stream.feed(b"x", 0.0)
    assert stream.phase is Phase.FLOODING
