"""Reads comparisons with peers: a bound on how far from their median, `{metric: gpu_sm_clock, peers: {of: model, below:
0.8, by: ratio}}`, and a robust distance, `{metric: gpu_sm_clock, peers: {of: model+job, distance: 5, at_least: 0.05}}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.errors import did_you_mean
from stethoscope.specs.condition import Against, Condition, Held, OfMetric

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

PEER_GROUPS = (
    "model", "name", "node", "fleet", "job", "rail", "role", "pod", "rack", "leaf", "driver", "firmware",
)  # fmt: skip
"""What comparable rows have in common; several are joined by `+`."""
DIRECTIONS = ("low", "high", "both")
LEAST_DISTANCE = 3.0
"""Nearer than this is ordinary noise."""


@dataclass(frozen=True, slots=True)
class Distant(OfMetric):
    """A metric that is far from what comparable rows have, as far as their own spread and noise tell."""

    of: str
    distance: float
    """In robust standard deviations of the peers."""
    share: float
    """At least so far from the median, as a share of it ..."""
    amount: float
    """... or in the metric's unit."""
    direction: str
    """low, high or both."""


def read_against(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the comparison with peers that `data`, at `path`, describes."""
    reader.only(data, ("metric", "peers", "window", "for"), path)
    metric = reader.metric(data, path)
    peers = data["peers"]
    here = (*path, "peers")
    if not isinstance(peers, dict):
        raise reader.error("peers is a mapping such as {of: model, below: 0.8, by: ratio}", here)
    window_s = reader.window(data, metric, path)
    leaf = _distant(reader, peers, metric.id, here) if "distance" in peers else _against(reader, peers, metric.id, here)
    return Held(leaf, window_s) if window_s else leaf


def _against(reader: ConditionReader, peers: dict[Any, Any], metric: str, here: Path) -> Against:
    reader.only(peers, ("of", "below", "above", "by", "distance"), here)
    by = reader.word(peers.get("by", "ratio"), ("ratio", "difference"), "by", (*here, "by"))
    if ("below" in peers) == ("above" in peers):
        raise reader.error("peers needs one of below, above and distance", here)
    below, above = (
        reader.number(peers[key], key, (*here, key)) if key in peers else None for key in ("below", "above")
    )
    return Against(metric, read_groups(reader, peers.get("of", "model"), here), below, above, by)


def _distant(reader: ConditionReader, peers: dict[Any, Any], metric: str, here: Path) -> Distant:
    reader.only(peers, ("of", "distance", "at_least", "direction"), here)
    distance = reader.number(peers["distance"], "distance", (*here, "distance"))
    if distance < LEAST_DISTANCE:
        raise reader.error(
            f"a distance is at least {LEAST_DISTANCE:g}: nearer rows are ordinary noise", (*here, "distance")
        )
    share, amount = read_least(reader, peers.get("at_least", 0.05), (*here, "at_least"))
    direction = reader.word(peers.get("direction", "both"), DIRECTIONS, "direction", (*here, "direction"))
    return Distant(metric, read_groups(reader, peers.get("of", "model+job"), here), distance, share, amount, direction)


def read_least(reader: ConditionReader, value: Any, path: Path) -> tuple[float, float]:
    """Return share and amount of `at_least`: a share (0.05, 5 %), or {share: 0.05, amount: 8}."""
    if isinstance(value, dict):
        reader.only(value, ("share", "amount"), path)
        share, amount = (reader.number(value.get(key, 0), key, (*path, key)) for key in ("share", "amount"))
    elif isinstance(value, str) and value.rstrip().endswith("%"):
        try:
            share, amount = float(value.rstrip()[:-1]) / 100, 0.0
        except ValueError:
            raise reader.error(f'"{value}" is no share such as 5 %', path) from None
    else:
        share, amount = reader.number(value, "at_least", path), 0.0
    if share < 0 or amount < 0 or share >= 1:
        raise reader.error("at_least is a share between 0 and 1, or {amount: ...} in the metric's unit", path)
    return share, amount


def read_groups(reader: ConditionReader, value: Any, here: Path) -> str:
    """Return what comparable rows have in common: one word, or several joined by `+`."""
    words = value.split("+") if isinstance(value, str) else []
    for word in words:
        if word.strip() not in PEER_GROUPS:
            near = did_you_mean(word.strip(), PEER_GROUPS) or f"; known: {', '.join(PEER_GROUPS)}"
            raise reader.error(f'unknown of "{word.strip()}"{near}', (*here, "of"))
    if not words:
        raise reader.error(f"of is one of {', '.join(PEER_GROUPS)}, or several joined by +", (*here, "of"))
    return "+".join(word.strip() for word in words)
