"""What is remembered of slow counters over weeks, as it travels between memory and disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import Floats
    from stethoscope.model.metric import Scope

SLOT_S = 600.0
"""Changes are booked by slots of this length."""
FINE_S = 3 * 86_400.0
"""Older changes are merged by days."""
DAY_S = 86_400.0
KEEP_S = 400 * DAY_S
"""Still older ones are forgotten."""


class Change(NamedTuple):
    """What one counter counted, or how far a gauge moved, within one slot."""

    metric: str
    node: str
    device: str
    """What tells the device from others of the node (model.rows.identities); empty for the node itself."""
    slot: float
    """Wall seconds at which the slot begins."""
    amount: float


class Standing(NamedTuple):
    """Where the kept metrics of the devices of one node and scope stood when they were looked at last."""

    node: str
    scope: Scope
    devices: tuple[str, ...]
    first: Floats
    """Wall seconds of the first look at each device."""
    last: Mapping[str, Floats]
    """Total, or value of a gauge, by metric; NaN where none was known."""
