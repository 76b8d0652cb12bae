"""How spans of time are written in files and options."""

from __future__ import annotations

import re

_UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PLAIN = re.compile(_NUMBER)
_PARTS = re.compile(rf"(?:({_NUMBER})(ms|s|m|h|d))")
_WHOLE = re.compile(rf"(?:{_NUMBER}(?:ms|s|m|h|d))+")
_SPOKEN = re.compile(
    rf"({_NUMBER})\s*((?i:milliseconds?|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?)|ms|s|m|h|d|w)\b"
)
_SPOKEN_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def duration_s(value: object) -> float:
    """Return the seconds of `30s`, `5m`, `1h30m`, `500ms`, or of a number of seconds; ValueError for anything else."""
    text = str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if _PLAIN.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{value}" is not a duration such as 30s, 5m or 1h30m')
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PARTS.findall(text))


def spoken_s(value: object) -> float:
    """Return what `duration_s` returns, for `5 min`, `2 hours` or `1 h 30 m` as well, as people write them."""
    try:
        return duration_s(value)
    except ValueError:
        text = str(value).strip() if isinstance(value, str) else ""
        parts = _SPOKEN.findall(text)
        if not parts or _SPOKEN.sub("", text).strip():
            raise
        return sum(float(number) * _of(unit.lower()) for number, unit in parts)


def _of(unit: str) -> float:
    return _SPOKEN_S["ms"] if unit.startswith(("ms", "milli")) else _SPOKEN_S[unit[0]]
