"""Clocks that are set while a log is written: what stands before such a step in a file happened before it."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.logs import Event

_STEP = "time.jump"
"""Signature of the lines in which a daemon says that it set the clock."""


def with_steps(events: Sequence[Event]) -> Sequence[Event]:
    """Return events that are in the order of time with those of one host and file in the order of their file where
    its clock was set: stamps from before and after cannot be compared."""
    steps: dict[tuple[int, str | None], list[int]] = {}
    for event in events:
        if event.signature == _STEP:
            steps.setdefault((event.file, event.origin.host), []).append(event.line)
    if not steps:
        return events
    places: dict[tuple[int, str | None], list[int]] = {}
    for place, event in enumerate(events):
        key = (event.file, event.origin.host)
        if key in steps:
            places.setdefault(key, []).append(place)
    found = list(events)
    for key, own in places.items():
        lines = sorted(steps[key])
        # Sorting is stable: within one setting of the clock the order of time stays.
        for place, event in zip(
            own, sorted((events[n] for n in own), key=lambda e: bisect_left(lines, e.line)), strict=True
        ):
            found[place] = event
    return found
