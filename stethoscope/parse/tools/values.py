"""One printed value to a number with its unit, a word, or the reason why there is none; the same for every tool."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from stethoscope.model.metric import Missing, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.report import Item, Value

_MISSING = {
    "n/a": Reason.UNSUPPORTED,
    "not supported": Reason.UNSUPPORTED,
    "not available": Reason.UNSUPPORTED,
    "requested functionality has been deprecated": Reason.UNSUPPORTED,
    "function not found": Reason.UNSUPPORTED,
    "insufficient permissions": Reason.PERMISSION,
    "no permission": Reason.PERMISSION,
    "permission denied": Reason.PERMISSION,
    "gpu is lost": Reason.LOST,
    "gpu requires reset": Reason.ERROR,
    "reset required": Reason.ERROR,
    "unknown error": Reason.ERROR,
    "unknown": Reason.ERROR,
    "err!": Reason.ERROR,
    "error": Reason.ERROR,
    "timeout": Reason.HUNG,
}
"""What tools print instead of a value, in any case, in square brackets or bare."""
_BUFFER = 4096
"""Probes and pipes cut what is too long at a multiple of this."""
_QUANTITY = re.compile(r"([-+]?\d{1,18}(?:\.\d{1,9})?)(?:[ ]?([A-Za-z%/µ][A-Za-z0-9%/()µ*^-]{0,14}))?", re.ASCII)
_HEXADECIMAL = re.compile(r"0x[0-9A-Fa-f]{1,16}", re.ASCII)


def missing(text: str) -> Missing | None:
    """Return the reason that `text` gives instead of a value, None when it is a value."""
    bare = text.strip().strip("[]").strip().lower()
    reason = _MISSING.get(bare)
    if reason is None and not bare:
        reason = Reason.UNSUPPORTED
    return None if reason is None else Missing(reason)


def quantity(text: str) -> tuple[Value, str]:
    """Return the value and the unit in `text`: (59, "C"), (629.45, "W"), (Missing(LOST), ""); what is no number stays
    as it is, without a unit."""
    gap = missing(text)
    if gap is not None:
        return gap, ""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return text.strip(), ""
    return number(match[1]), match[2] or ""


def number(text: str) -> float | int:
    """Return a decimal number as int where it has no point."""
    return float(text) if "." in text else int(text)


def hexadecimal(text: str) -> int | Missing:
    """Return the number of `0x4`, or why there is none."""
    if _HEXADECIMAL.fullmatch(text.strip()):
        return int(text, 16)
    return missing(text) or Missing(Reason.ERROR)


def only_number(text: str) -> float | int | Missing:
    """Return the number in `text` whatever its unit; text that is none is an error, never 0."""
    value, _ = quantity(text)
    if isinstance(value, str):
        return Missing(Reason.ERROR)
    return value


def total(values: Iterable[Value]) -> float | int | Missing:
    """Return the sum of what one counter is printed in several parts as: parts that the board does not have add
    nothing, one that could not be read makes the sum unknown."""
    numbers, gaps = [], []
    for value in values:
        if isinstance(value, Missing):
            gaps.append(value)
        elif isinstance(value, str):
            return Missing(Reason.ERROR)
        else:
            numbers.append(value)
    worse = [gap for gap in gaps if gap.reason is not Reason.UNSUPPORTED]
    if worse:
        return worse[0]
    return sum(numbers) if numbers else Missing(Reason.UNSUPPORTED)


def switch(text: str) -> int | Missing:
    """Return 1 for Yes, Enabled, Active, True and 0 for their contraries."""
    word = text.strip().lower()
    if word in ("yes", "enabled", "active", "true", "on", "1"):
        return 1
    if word in ("no", "disabled", "not active", "false", "off", "0", "none", "inactive"):
        return 0
    return missing(text) or Missing(Reason.ERROR)


def name_of(label: str) -> str:
    """Return a label as a name: `GPU T.Limit Temp` is gpu_t_limit_temp, `bank(s)` bank_s."""
    return re.sub(r"[^a-z0-9]+", "_", label.strip().lower()).strip("_")


def lines(text: str) -> list[str]:
    """Return the lines of a text that say something; what it is indented by as a whole, as people paste it, is taken
    off. What ends in the middle of a line at the end of a buffer was cut off there: half a number is none."""
    if text and len(text) % _BUFFER == 0 and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
    if text.lstrip("\n")[:1] in (" ", "\t"):
        text = textwrap.dedent(text)
    return [line for line in text.split("\n") if line and not line.isspace()]


def latest(items: Iterable[Item]) -> list[Item]:
    """Return the items with each value once: an output that repeats, or that is there twice, says the last one."""
    return list({(item.where, item.name): item for item in items}.values())


def pair(line: str) -> tuple[str, str] | None:
    """Return label and value of `   Label      : value`, parted by the first colon with a space or nothing behind it;
    None for a line without a label."""
    line = line.strip()
    place = line.find(": ")
    if place < 0:
        place = len(line) - 1 if line.endswith(":") else 0
    label = line[:place].rstrip()
    return (label, line[place + 1 :].strip()) if label else None
