"""Packs what is sent to a node; `model.wire.unpack` is the other way.

Deflate is good at long repetitions. What comes often and is short, such as `return` and `self.`, costs less as one byte
of its own: phrases stand for such bytes, in the order of PHRASES, each in the words of those before it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PHRASES: tuple[str, ...] = (
    "return", "\n\t\t", "\n\tdef ", "a.", "if ", "in", "or", "on", "'gpu", "for ", "not ", "lse",
    "time.monotonic()", "os.", "(a,b", "en", "\n\t\t\t", "\n\t", "ce", "st", "it", "rror", ");", " in ", "None",
    "ro", "un", "):", "re", "al", "and", "[0]", "de", "er", "except", "else", "ct", "et", "ed",
)  # fmt: skip
"""Found by `python -m benchmarks.phrases`, which prints better ones when the probe has changed much; those that do not
come are left out."""


def pack(first: Sequence[bytes], later: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return raw deflate of texts with NULs between, cut behind what gives the first of them whole.

    Raises ValueError for a text that is not plain ASCII.
    """
    content = b"\0".join([*first, *later])
    if not content.isascii() or b"\1" in content or content.count(b"\0") >= len(first) + len(later):
        raise ValueError("texts are ASCII, without NUL")
    phrases, content = spoken(content, PHRASES)
    whole = phrases + b"\0" + content
    packed = deflate(whole)
    wanted = len(first) + 1
    low, high = 0, len(packed)
    while low < high:
        middle = (low + high) // 2
        if zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed[:middle]).count(b"\0") < wanted:
            low = middle + 1
        else:
            high = middle
    return packed[:low], packed[low:]


def spoken(content: bytes, phrases: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the phrases that come at least twice, with a byte 1 between, and the content in their words."""
    said: list[bytes] = []
    for phrase in phrases:
        short = phrase.encode("ascii")
        for code, other in enumerate(said, 128):
            short = short.replace(other, bytes([code]))
        if content.count(short) > 1:
            content = content.replace(short, bytes([128 + len(said)]))
            said.append(short)
    return b"\1".join(said), content


def deflate(content: bytes) -> bytes:
    """Return content as raw deflate, as small as can be; zopfli is imported only when something is made."""
    import zopfli.zlib

    # Without the two bytes before it and the checksum behind it, which make it zlib's.
    return bytes(zopfli.zlib.compress(content)[2:-4])
