"""How people say a unit: rare events by the hour, one event without its plural, degrees with their sign."""

from __future__ import annotations

RARE_PER_S = 0.1
"""Below this, in events a second, people think in events an hour."""
_SIGNS = {"C": "°C", "bool": "", "code": "", "state": "", "bits": "", "ratio": "", "loss": "", "norm": ""}
_PLURALS = frozenset({"tasks", "CPUs", "GPUs", "events", "errors", "packets", "words", "ticks"})


def as_said(value: float, unit: str) -> tuple[float, str]:
    """Return the number and the unit to write for `value` in `unit`: (0.033, "/s") becomes (120.0, "/h")."""
    if unit == "/s" and 0 < abs(value) < RARE_PER_S:
        return value * 3600, "/h"
    if unit == "KB/s":
        for size, larger in ((1e6, "GB/s"), (1e3, "MB/s")):
            if abs(value) >= size:
                return value / size, larger
    if value == 1 and unit in _PLURALS:
        return value, unit[:-1]
    return value, _SIGNS.get(unit, unit)
