"""What a tool that ran on demand said, read: one item a value, and what the tool itself calls wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stethoscope.model.metric import Missing

Value = float | int | str | bool | Missing
"""A number in the item's unit, a word, or why there is none; an unknown value is never 0."""


class Item(NamedTuple):
    """One value of a report."""

    where: str
    """What it belongs to, as the tool numbers it: `gpu/3`, `gpu/3/nvlink/5`, `mlx5_3:1`, `0000:81:00.0`; empty for the
    whole."""
    name: str
    """A stable name in small letters: `rx_power_dbm`, `media_errors`; the metric's id where it is a metric."""
    value: Value
    unit: str = ""
    level: str = ""
    """`warning` or `critical` where the tool itself, or a threshold that it prints, says so; else empty."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one output of a tool holds."""

    tool: str
    """The id of the parser: `nvidia_smi_q`, `smartctl` ..."""
    items: tuple[Item, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the tool says is wrong, in its words, cleaned: failed tests, log entries, errors beside the values."""
    unknown: tuple[str, ...] = ()
    """Fields that were there and have no reading here, by their names; their values are not lost but in the text."""

    def get(self, where: str, name: str) -> Value | None:
        """Return one value, None when the tool did not print it."""
        return next((item.value for item in self.items if item.where == where and item.name == name), None)


class ToolError(ValueError):
    """An output that holds no values. `reason` is one of REASONS; the text is for people, cleaned."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason and the words."""
        super().__init__(message)
        self.reason = reason


REASONS = (
    "not_installed", "no_device", "permission", "driver", "no_answer", "empty", "not_this_tool", "truncated", "refused",
)  # fmt: skip
"""Why an output holds no values: driver is one that is not loaded or does not fit its library; not_this_tool is text
that the tool never prints; refused is what the tool itself did not accept, such as an unknown option."""
