"""Numbers and pairs of names and numbers as training programs print them.

A unit is taken as it is written and never guessed: a time without one, under a name that does not say it, is no time.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER = (
    r"[-+]?(?:\d(?:[\d,]{0,17}\d)?(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?"
    r"|[-+]?(?:nan|NaN|NAN|inf|Inf|INF)\b"
)
"""A number, with or without commas, or one that is none."""
_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
_PAIR = re.compile(
    r"(?:^|[|,;{(\[]|\s)\s*['\"]?([A-Za-z][\w./ ()-]{0,60}?)['\"]?\s*[:=]\s*\[?\s*(" + NUMBER + r")([A-Za-z%/µ]{0,12})"
)
_MOST = 10**15


def number(text: str) -> float | None:
    """Return the number that `text` is: `7,282`, `4.5e-06`, `NaN`; None when it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def scaled(text: str, unit: str) -> float | None:
    """Return a number with a letter behind it as one: `11.5` and `K` are 11500."""
    value = number(text)
    if value is None or unit == "":
        return value
    return value * _SCALES[unit] if unit in _SCALES else None


def count(text: str) -> int | None:
    """Return a step's number, None for what cannot be one; `3.2e+4` is one."""
    value = number(text)
    if value is None or not math.isfinite(value) or not 0 <= value < _MOST:
        return None
    return int(value)


def positive(value: float | None) -> float | None:
    """Return a rate or a time that can be one: above 0 and not endless."""
    return value if value is not None and math.isfinite(value) and 0 < value < _MOST else None


def share(value: float | None) -> float | None:
    """Return a part of a time: 0 or above."""
    return value if value is not None and math.isfinite(value) and 0 <= value < _MOST else None


def pairs(text: str) -> dict[str, tuple[str, str]]:
    """Return the `name: number` and `name=number` of a line by their names in lower case, the first of each name; with
    every number the letters that touch it."""
    found: dict[str, tuple[str, str]] = {}
    for match in _PAIR.finditer(text):
        found.setdefault(" ".join(match[1].lower().split()), (match[2], match[3]))
    return found


def value_of(found: Mapping[str, tuple[str, str]], *names: str) -> float | None:
    """Return the number under the first of `names` that is there, with its K, M or G."""
    for name in names:
        if name in found:
            text, unit = found[name]
            return scaled(text, unit if unit in _SCALES else "")
    return None


def seconds_of(found: Mapping[str, tuple[str, str]], *names: str) -> float | None:
    """Return the seconds under the first of `names` that is there and has `s` or `ms` behind its number."""
    for name in names:
        if name in found:
            text, unit = found[name]
            value = number(text)
            factor = {"s": 1.0, "sec": 1.0, "secs": 1.0, "ms": 1e-3, "us": 1e-6}.get(unit)
            if value is not None and factor is not None:
                return value * factor
    return None
