"""Runs as a process of its own that can be killed: takes regexes with samples, answers how long the worst line takes.

Nothing but the standard library: it starts in 20 ms and says `ready`. In: one JSON list `[pattern, sample]` a line;
out: one number a line, seconds of processor time.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = 10_000
"""Characters of a line that is made to hurt."""

_FILLERS = (" ", "0", "a", "A", "a ", "'", ":", "a.", "0,")
_CUTS = 4
"""Places at which a sample is cut and the rest filled up."""


def hurtful(sample: str) -> Iterator[str]:
    """Yield lines of LENGTH characters that almost match what `sample` matches: it again and again, its beginning
    again and again, and its beginnings followed by one thing for ever."""
    yield fill("", sample)
    yield fill("", sample[:-1])
    for cut in sorted({len(sample) * part // _CUTS for part in range(_CUTS + 1)}):
        begin = sample[:cut]
        for filler in (*_FILLERS, sample[cut - 1 : cut]):
            if filler:
                yield fill(begin, filler)


def fill(begin: str, filler: str) -> str:
    """Return `begin` followed by `filler` up to LENGTH, and then by what no pattern ends with."""
    filler = filler or " "
    return (begin + filler * (LENGTH // len(filler) + 1))[:LENGTH] + "\x01"


def slowest(pattern: str, sample: str) -> float:
    """Return the processor time in seconds that `pattern` takes for the worst of the lines made of `sample`."""
    compiled = re.compile(pattern, re.ASCII)
    worst = 0.0
    for line in hurtful(sample):
        before = time.process_time()
        compiled.search(line)
        worst = max(worst, time.process_time() - before)
    return worst


def main() -> None:
    """Answer each line of standard input."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(f"{slowest(*json.loads(line)):.6f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
