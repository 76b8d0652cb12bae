"""Looks for the phrases that make the payload smallest, for `stethoscope.collect.packed.PHRASES`; takes minutes.

`python -m benchmarks.phrases` tries what comes often, keeps what saves most, and goes on until nothing saves more.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from typing import TYPE_CHECKING

from stethoscope.collect import packed, payload

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 24
_LIKELY = 60
"""So many are tried each time of those that should save most, and as many that are short and come often."""


def main() -> None:
    """Print the best phrases and what they save."""
    first, later = payload.texts(payload.parts())
    content = b"\0".join([*first, *later])
    chosen: list[str] = []
    best = _size(content, chosen)
    sys.stdout.write(f"{len(packed.deflate(content))} bytes without phrases\n")
    while len(chosen) < 128:
        size, phrase = min((_size(content, [*chosen, each]), each) for each in _candidates(content, chosen))
        if size >= best:
            break
        best, chosen = size, [*chosen, phrase]
        sys.stderr.write(f"{len(chosen)} {size} {phrase!r}\n")
    stage, rest = packed.pack(first, later)
    sys.stdout.write(f"{len(stage) + len(rest)} bytes with those of now\n")
    sys.stdout.write("".join(f"    {phrase!r},\n" for phrase in chosen))
    said, content = packed.spoken(content, chosen)
    sys.stdout.write(f"{len(packed.deflate(said + content))} bytes with these\n")


def _size(content: bytes, phrases: list[str]) -> int:
    said, spoken = packed.spoken(content, phrases)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return len(packer.compress(said + b"\0" + spoken) + packer.flush())


def _candidates(content: bytes, chosen: list[str]) -> Iterator[str]:
    """Yield what may save something: what is left of the content when the phrases of now stand for their bytes."""
    said, spoken = packed.spoken(content, chosen)
    counts: Counter[bytes] = Counter()
    for length in range(2, _LONGEST):
        counts.update(spoken[at : at + length] for at in range(len(spoken) - length + 1))
    often = {each: count for each, count in counts.items() if count > 3 and b"\0" not in each}
    saving = sorted(often, key=lambda each: len(each) * 0.75 - (often[each] - 1) * (len(each) * 0.25 + 1))[:_LIKELY]
    short = sorted((each for each in often if len(each) < 7), key=lambda each: -often[each])[:_LIKELY]
    for each in dict.fromkeys((*saving, *short)):
        for code, phrase in reversed(list(enumerate(said.split(b"\1") if said else (), 128))):
            each = each.replace(bytes([code]), phrase)
        yield each.decode("ascii")


if __name__ == "__main__":
    main()
