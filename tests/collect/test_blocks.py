"""The lines of the probe in sh as they come from a channel, to whole blocks."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stethoscope.collect.blocks import Blocks
from stethoscope.collect.stream import LINE_LIMIT, Phase, ProbeStream
from stethoscope.model import wire

SENTINEL = wire.sentinel("n").encode()
HELLO = b"@hello 0 1.0 2.0\n@node n1\n@end 0"
FULL = b"@full 1 1.0 2.0\n@host\nstat:cpu 1\n\n@was\n@end 1"
WHOLE = b"Welcome\n" + SENTINEL + b" no-python sh\n" + SENTINEL + b" sh\n" + HELLO + b"\n" + FULL + b"\n"


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20))
def test_blocks_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    stream = ProbeStream("n")
    places = [0, *sorted(cuts), len(WHOLE)]
    blocks = [block for start, end in itertools.pairwise(places) for block in stream.feed(WHOLE[start:end], 0.0)]
    assert blocks == [HELLO, FULL]
    assert stream.phase is Phase.LIVE
    assert stream.is_shell
    assert stream.noise == b"Welcome\n"


def test_a_node_that_waits_for_the_script_is_known() -> None:
    stream = ProbeStream("n")
    assert stream.feed(b"x" + SENTINEL + b" no-python sh\r\n", 0.0) == []
    assert (stream.phase, stream.wants_shell, stream.is_shell) == (Phase.NOISE, True, False)


def test_a_hello_is_not_enough_to_be_live() -> None:
    stream = ProbeStream("n")
    assert stream.feed(SENTINEL + b" sh\n" + HELLO + b"\n" + FULL[:-7], 0.0) == [HELLO]
    assert stream.phase is Phase.READY


def test_what_stands_between_blocks_is_nobodys() -> None:
    blocks = Blocks(1000)
    assert blocks.take([b"noise", b"", b"@end 9x", b"more", b"@hello 0", b"@end 0", b"noise"]) == [
        b"@end 9x",
        b"@hello 0\n@end 0",
    ]


def test_an_endless_block_is_cut_off() -> None:
    stream = ProbeStream("n")
    stream.feed(SENTINEL + b" sh\n@full 1 1.0 2.0\n", 0.0)
    line = b"stat:" + b"x" * 1000 + b"\n"
    for _ in range(LINE_LIMIT // len(line)):
        assert stream.feed(line, 0.0) == []
    assert stream.phase is Phase.READY
    stream.feed(line * 2, 0.0)
    assert stream.phase is Phase.FLOODING
    assert stream.feed(b"@end 1\n", 0.0) == []
