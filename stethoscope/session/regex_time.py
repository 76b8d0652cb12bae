"""How long regexes take on lines that are made to hurt them, measured in a process that can be killed.

What was quick enough once is remembered in the cache directory: it is not measured again until it changes.
"""

from __future__ import annotations

import hashlib
import json
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from stethoscope.paths import cache_dir
from stethoscope.session import regex_child
from stethoscope.specs import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIMIT_S = 0.05
"""Processor time that a regex may take for a line of 10,000 characters."""

PATIENCE_S = 5.0
"""Wall-clock time after which a regex counts as one that never ends."""

_START_S = 60.0


def too_slow(patterns: Sequence[tuple[str, str]]) -> dict[int, float | None]:
    """Return those of the pairs of regex and matching sample that take longer than LIMIT_S: index -> processor time of
    the worst line in seconds, None where it did not come to an end."""
    keys = [_key(*pair) for pair in patterns]
    file = cache_dir() / compiled.DIRECTORY / "quick-regexes.json"
    kept = compiled.read(file)
    quick = set(kept) if isinstance(kept, list) else set()
    asked = [at for at, key in enumerate(keys) if key not in quick]
    took = dict(zip(asked, times([patterns[at] for at in asked]), strict=True))
    slow = {at: seconds for at, seconds in took.items() if seconds is None or seconds > LIMIT_S}
    if len(slow) < len(took):
        # A cache that cannot be written costs seconds the next time.
        with suppress(OSError):
            compiled.write(file, sorted({key for at, key in enumerate(keys) if at not in slow}))
    return slow


def times(patterns: Sequence[tuple[str, str]]) -> Iterator[float | None]:
    """Yield for each pair of regex and matching sample the processor time of its worst line in seconds, None where it
    did not come to an end within PATIENCE_S."""
    at = 0
    while at < len(patterns):
        with _start() as child:
            try:
                while at < len(patterns):
                    answer = _ask(child, patterns[at])
                    at += 1
                    yield answer
                    if answer is None:
                        break
            finally:
                child.kill()


def _key(pattern: str, sample: str) -> str:
    version = f"{sys.version}{Path(regex_child.__file__).stat().st_size}{LIMIT_S}"
    return hashlib.blake2b(json.dumps([version, pattern, sample]).encode(), digest_size=12).hexdigest()


def _start() -> subprocess.Popen[bytes]:
    # Isolated: it needs nothing of us, and must not take what lies in the current directory for a module.
    command = [sys.executable, "-I", "-S", str(regex_child.__file__)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    # Its start counts for no regex: on a busy machine it takes longer than any.
    _line(child.stdout, time.monotonic() + _START_S)
    return child


def _ask(child: subprocess.Popen[bytes], question: tuple[str, str]) -> float | None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(question).encode() + b"\n")
    child.stdin.flush()
    answer = _line(child.stdout, time.monotonic() + PATIENCE_S)
    return float(answer) if answer else None


def _line(stream: IO[bytes], until: float) -> bytes:
    """Return the next line of `stream`; what there is of it when it takes until `until` or ends."""
    remaining = until - time.monotonic()
    if remaining <= 0 or not select.select([stream], [], [], remaining)[0]:
        return b""
    # The child writes a line at once, and one for each question: nothing waits in the buffer behind it.
    return stream.readline().strip()
