"""How numbers are written: value and unit for a sentence, the bare number for a cell."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from stethoscope.clock import duration, iso
from stethoscope.model.metric import REASON_WORDS, Kind, Missing, Reason
from stethoscope.model.quantity import as_said
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.finding import Fact
    from stethoscope.model.metric import Metric

_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "KB/s": ((1e9, "TB/s"), (1e6, "GB/s"), (1e3, "MB/s")),
    "MiB": ((1048576.0, "TiB"), (1024.0, "GiB")),
    "KiB": ((1073741824.0, "TiB"), (1048576.0, "GiB"), (1024.0, "MiB")),
    "GiB": ((1024.0, "TiB"),),
    "Gb/s": ((1e3, "Tb/s"), (1.0, "Gb/s"), (1e-3, "Mb/s"), (1e-6, "kb/s")),
    "Mb/s": ((1e6, "Tb/s"), (1e3, "Gb/s")),
    "MB/s": ((1e6, "TB/s"), (1e3, "GB/s")),
    "ticks/s": ((1e9, "G ticks/s"), (1e6, "M ticks/s"), (1e3, "k ticks/s")),
}
COUNTED = {
    "tasks", "CPUs", "GPUs", "events", "errors", "packets", "processes", "links", "banks", "rows", "pages", "mounts",
    "files", "replays", "generation", "sectors", "epoch s", "lanes", "h",
}  # fmt: skip
"""Units that are no more than the plural of the title."""

REASON_LEVELS: dict[Reason, Level] = {
    Reason.PRESENT: Level.NORMAL,
    Reason.WAITING: Level.MISSING,
    Reason.UNSUPPORTED: Level.MISSING,
    Reason.PERMISSION: Level.MISSING,
    Reason.HUNG: Level.HUNG,
    Reason.LOST: Level.LOST,
    Reason.ERROR: Level.MISSING,
    Reason.UNREACHABLE: Level.LOST,
    Reason.ONE_READING: Level.MISSING,
    Reason.RESET: Level.MISSING,
    Reason.SATURATED: Level.MISSING,
    Reason.ABSENT: Level.MISSING,
}
"""The level that stands for each reason."""


_BEFORE = {"lanes": "x", "generation": "gen "}
"""Units that stand before the number."""


def number(value: float) -> str:
    """Return about three significant digits, without an exponent as long as a person would write none."""
    if not math.isfinite(value):
        return "?"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 99.95 or (size >= 1 and abs(value - round(value)) < 0.005):
        return f"{value:.0f}"
    if size >= 0.95:
        return f"{value:.1f}"
    if size >= 0.0995:
        return f"{value:.2f}".rstrip("0")
    if size >= 0.000095:
        return f"{value:.{1 - math.floor(math.log10(size)) - 1}f}"
    return f"{value:.0e}".replace("e-0", "e-")


def rate(value: float) -> str:
    """Return a rate of events: two significant digits, as more would only tremble."""
    return f"{value:.0f}" if abs(value) >= 9.95 else number(value)


def shown(metric: Metric, value: float) -> float:
    """Return `value` of a table in the unit that is shown: counters are scaled to their rate unit."""
    return value * metric.rate_scale if metric.kind is Kind.COUNTER else value


def words(metric: Metric, value: float) -> str:
    """Return the name of a state, or the names of the bits that are set."""
    if not math.isfinite(value):
        return "?"
    code = int(value)
    if metric.bitmask:
        known = 0
        names = []
        for bit, name in metric.words:
            if code & bit:
                names.append(name)
                known |= bit
        if code & ~known:
            names.append(f"bit 0x{code & ~known:x}")
        return ", ".join(names) or "none"
    return dict(metric.words).get(code, f"code {code}")


def _stepped(value: float, unit: str) -> tuple[float, str]:
    for size, name in _STEPS.get(unit, ()):
        if abs(value) >= size:
            return value / size, name
    return value, unit


def _with_unit(value: float, unit: str) -> str:
    value, unit = as_said(*_stepped(value, unit))
    if unit == "s":
        if 0 < abs(value) < 0.05:
            return f"{number(value * 1e3)} ms"
        return f"-{duration(-value)}" if value < 0 else duration(value)
    if unit == "epoch s":
        return iso(value)
    if unit in _BEFORE:
        return f"{_BEFORE[unit]}{value:.0f}"
    if unit.startswith("/"):
        return f"{rate(value)}{unit}"
    return f"{number(value)} {unit}".rstrip()


def value_text(metric: Metric, value: float | Missing) -> str:
    """Return a value with its unit (`1410 MHz`, `41/s`, `HW thermal`), or the word of why there is none."""
    if isinstance(value, Missing):
        return REASON_WORDS[value.reason]
    if metric.words:
        return words(metric, value)
    return _with_unit(shown(metric, value), metric.shown_unit)


_BYTES = {"words": 4, "KiB": 1024, "bytes": 1}
"""Bytes that one count of a data counter stands for."""


def total_text(metric: Metric, total: int) -> str:
    """Return the total of a counter for a cell: data in bytes, everything else as counted, short when it is large."""
    if metric.unit in _BYTES:
        value, unit = float(total * _BYTES[metric.unit]), "B"
        for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
            if value < 999.5:
                break
            value, unit = value / 1000, larger
        return f"{value:.3g} {unit}"
    if total < 1_000_000:
        return f"{total:,}"
    scaled = float(total)
    for letter in "MGTPE":
        scaled = scaled / 1_000_000 if letter == "M" else scaled / 1000
        if scaled < 1000:
            break
    return f"{scaled:.1f} {letter}"


def title_in_text(title: str) -> str:
    """Return the title of a metric as it stands inside a sentence: `symbol errors`, `SM clock`, `GPU power`."""
    word = title.partition(" ")[0]
    return title if word[1:] != word[1:].lower() or word == "Xid" else title[:1].lower() + title[1:]


_FACT = re.compile(r"(?P<id>[a-z0-9_]+)(?: (?P<how>\w+) (?P<span>.+))?")
_SPANS = {"rate": "over ", "delta": "in ", "every": "for ", "min": "lowest in ", "max": "highest in ", "avg": "over "}


def fact_text(fact: Fact, catalogue: Mapping[str, Metric]) -> str:
    """Return a piece of evidence as people say it: `symbol errors 40/s over 60 s, expected at most 0.033/s`."""
    match = _FACT.fullmatch(fact.fact)
    metric = catalogue.get(match["id"]) if match else None
    if match is None or metric is None:
        return f"{fact.value}" if fact.value is not None else fact.fact
    value = fact.value
    if value is None:
        said = "unknown"
    elif isinstance(value, str):
        said = value
    else:
        said = _with_unit(value, metric.unit if match["how"] == "delta" else metric.shown_unit)
        for bound, beyond in (("at most ", "just over "), ("at least ", "just under ")):
            if fact.expected == bound + said:
                # Rounded it is the limit itself.
                said = beyond + said
    text = f"{title_in_text(metric.title)} {_without_unit(said, metric.title)}"
    if match["span"]:
        span = match["span"]
        text += f" {span}" if span.startswith("since") else f" {_SPANS.get(match['how'], 'over ')}{span}"
    if fact.expected == "a value":
        return f"{title_in_text(metric.title)}: no value ({said})"
    if not fact.expected:
        return text
    if fact.expected == "none":
        return f"{text}, none expected"
    return f"{text}, {'' if fact.expected.startswith(('peers ', 'was ')) else 'expected '}{fact.expected}"


def fact_cells(fact: Fact, catalogue: Mapping[str, Metric]) -> tuple[str, str]:
    """Return a piece of evidence for a table: what was looked at (`symbol errors over 60 s`), and its value."""
    match = _FACT.fullmatch(fact.fact)
    metric = catalogue.get(match["id"]) if match else None
    value = fact.value
    if match is None or metric is None:
        what, percent, _ = fact.fact.partition(", %")
        if isinstance(value, (int, float)):
            return what, f"{value + 0.0:g}{' %' if percent else ''}"
        return fact.fact, " ".join(value.split()) if value is not None else ""
    span = match["span"] or ""
    how = "" if not span else span if span.startswith("since") else f"{_SPANS.get(match['how'], 'over ')}{span}"
    what = f"{title_in_text(metric.title)} {how}".rstrip()
    if value is None or isinstance(value, str):
        return what, value or "unknown"
    return what, _with_unit(value, metric.unit if match["how"] == "delta" else metric.shown_unit)


def _without_unit(said: str, title: str) -> str:
    """Return a value without a unit that its title says already: `blocked tasks 3`."""
    value, _, unit = said.rpartition(" ")
    words = {word.rstrip("s") for word in title.lower().split()}
    return value if value and unit.rstrip("s") in words else said


def common_unit(metric: Metric, top: float) -> tuple[float, str]:
    """Return by what to divide shown values, and the unit they then have, so that `top` is a short number."""
    unit = metric.shown_unit
    for size, name in _STEPS.get(unit, ()):
        if abs(top) >= size:
            return size, name
    return 1.0, {"C": "°C", "bool": "", "state": "", "code": "", "bits": ""}.get(unit, unit) if not metric.words else ""


def cell_text(metric: Metric, value: float, divisor: float = 1.0) -> str:
    """Return the shortest useful text of a value for a cell of a grid, in the unit that `common_unit` gave."""
    if metric.bitmask and math.isfinite(value):
        names = [name for bit, name in metric.words if int(value) & bit]
        return names[-1].split()[-1][:7] if names else "none"
    if metric.words:
        return words(metric, value)[:7]
    scaled = shown(metric, value) / divisor
    if metric.shown_unit == "/s":
        return rate(scaled)
    return f"{scaled:.1f}" if divisor > 1 and 0 < scaled < 100 else number(scaled)


REASON_CELLS: dict[Reason, str] = {
    Reason.WAITING: "waiting",
    Reason.UNSUPPORTED: "n/a",
    Reason.PERMISSION: "denied",
    Reason.HUNG: "hung",
    Reason.LOST: "lost",
    Reason.ERROR: "error",
    Reason.UNREACHABLE: "gone",
    Reason.ONE_READING: "first",
    Reason.RESET: "reset",
    Reason.SATURATED: "pinned",
    Reason.ABSENT: "absent",
}
"""The reasons as they stand in a cell of seven characters."""
