"""Units that people write behind a number, by the unit in which a metric is shown."""

from __future__ import annotations

import math
import re

_LETTERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "g": 1024.0**3, "t": 1024.0**4}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PER = {"/s": 1.0, "/m": 1 / 60, "/min": 1 / 60, "/h": 1 / 3600, "/d": 1 / 86400}
_BITS = re.compile(r"([kmgt]?)(?:b/s|bit/s|bps)?", re.IGNORECASE)
_BYTES_PER_S = re.compile(r"([kmgt]?)(?:b/s)?", re.IGNORECASE)
_BYTES = re.compile(r"([kmgt]?)(i?)(b?)", re.IGNORECASE)
_OWN: dict[str, dict[str, float]] = {
    "C": {"c": 1.0, "°c": 1.0},
    "W": {"w": 1.0, "kw": 1e3},
    "MHz": {"mhz": 1.0, "m": 1.0, "ghz": 1e3, "g": 1e3},
    "%": {"%": 1.0},
    "GT/s": {"gt/s": 1.0, "gt": 1.0, "g": 1.0},
    "h": {"h": 1.0, "d": 24.0},
}
_BEFORE = {"lanes": "x", "generation": "gen"}
"""Signs that people write before the number."""
_NUMBER = re.compile(r"(0x[0-9a-f]+|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)(.*)", re.IGNORECASE | re.DOTALL)


def quantity(text: str, unit: str) -> float | None:
    """Return the number that `text` (`85`, `85C`, `400G`, `120/h`, `x16`) says in `unit`, or None when it says none or
    one of another kind of unit."""
    before = _BEFORE.get(unit, "")
    if before and text.lower().startswith(before):
        text = text[len(before) :]
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if match[1].lower().startswith("0x"):
        value, factor = float(int(match[1], 16)), None if match[2] else 1.0
    else:
        value, factor = float(match[1]), factor_of(match[2].strip(), unit)
    return value * factor if factor is not None and math.isfinite(value * factor) else None


def factor_of(suffix: str, unit: str) -> float | None:
    """Return by what to multiply a number with `suffix` behind it to have it in `unit`; None when that is no such
    unit. A letter alone (k, M, G, T) stands for the unit of its kind."""
    low = suffix.lower()
    if not low:
        return 1.0
    if unit.endswith("b/s"):
        match = _BITS.fullmatch(suffix)
        return _LETTERS[match[1].lower()] / _LETTERS[unit[:-3].lower()] if match and "B" not in suffix else None
    if unit.endswith("B/s"):
        match = _BYTES_PER_S.fullmatch(suffix)
        return _LETTERS[match[1].lower()] / _LETTERS[unit[:-3].lower()] if match and "b" not in suffix else None
    if unit == "bytes" or unit.endswith("iB"):
        return _size(suffix, unit)
    if unit in ("s", "ms", "us"):
        return _SECONDS[low] / _SECONDS[unit] if low in _SECONDS else None
    if unit == "/s":
        return _PER.get(low)
    if unit in _OWN:
        return _OWN[unit].get(low)
    if low in (unit.lower(), unit.lower().removesuffix("s")):
        return 1.0
    return _LETTERS.get(low.removesuffix(unit.lower()).strip())


def _size(suffix: str, unit: str) -> float | None:
    match = _BYTES.fullmatch("" if suffix.lower() == unit else suffix)
    if match is None:
        return None
    # 70G of memory are GiB, as everything about memory is shown; who writes GB means 10^9.
    decimal = match[3] and not match[2] and match[1]
    size = (_LETTERS if decimal else _BINARY)[match[1].lower()]
    return size / (1.0 if unit == "bytes" else _BINARY[unit[0].lower()])
