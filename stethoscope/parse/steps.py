"""What a line of a training job's log tells of its steps: one reader a family, the most telling first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.parse import (
    steps_bars,
    steps_deepspeed,
    steps_fairseq,
    steps_listed,
    steps_megatron,
    steps_plain,
    steps_trainer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.job import Phase, Step
    from stethoscope.parse.steps_bars import Bar

LONGEST = 2048
"""Characters of a line, without its prefixes, that are looked at."""
_FAMILIES: tuple[Callable[[str], Step | Phase | None], ...] = (
    steps_listed.read, steps_megatron.read, steps_deepspeed.read, steps_fairseq.read, steps_trainer.read,
)  # fmt: skip
_ANCHOR = re.compile(
    rb"iter|step|it/s|s/it|SamplesPerSec|loss|heckpoint|batch=|%\||Train |evaluat|validat|Epoch", re.IGNORECASE
)
_STAMPED = re.compile(r"^\s*(?:\[[\w-]{1,24}\] ?)?(?=\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")


def may_tell(raw: bytes) -> bool:
    """Tell whether a line, with its prefixes, can be about steps at all."""
    return _ANCHOR.search(raw) is not None


def stamped_at(text: str) -> int:
    """Return where a stamp begins behind the name of the program (`[titan] 2026-05-18 16:04:46,338 - root`), 0 for
    none."""
    match = _STAMPED.match(text)
    return match.end() if match is not None else 0


def read(text: str) -> Step | Phase | Bar | None:
    """Return what a cleaned line without its prefixes tells, None for any other line; never raises."""
    text = text[:LONGEST]
    bar = steps_bars.read(text)
    if bar is not None:
        return bar
    for read_as in _FAMILIES:
        found = read_as(text)
        if found is not None:
            return found
    # A bar that tells of no training is no step either: `Map: 10%|... 120 examples/s`.
    return None if "%|" in text else steps_plain.read(text.replace('"', "") if text.startswith("{") else text)
