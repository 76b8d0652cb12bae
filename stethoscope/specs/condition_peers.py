"""Reads a comparison with peers: `{metric: gpu_sm_clock, peers: {of: model, below: 0.8, by: ratio}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.specs.condition import Against, Condition, Held

if TYPE_CHECKING:
    from stethoscope.specs.condition_read import ConditionReader, Path

PEER_GROUPS = ("model", "name", "node", "fleet")


def read_against(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the comparison with peers that `data`, at `path`, describes."""
    reader.only(data, ("metric", "peers", "window", "for"), path)
    metric = reader.metric(data, path)
    peers = data["peers"]
    here = (*path, "peers")
    if not isinstance(peers, dict):
        raise reader.error("peers is a mapping such as {of: model, below: 0.8, by: ratio}", here)
    reader.only(peers, ("of", "below", "above", "by"), here)
    of = reader.word(peers.get("of", "model"), PEER_GROUPS, "of", (*here, "of"))
    by = reader.word(peers.get("by", "ratio"), ("ratio", "difference"), "by", (*here, "by"))
    if ("below" in peers) == ("above" in peers):
        raise reader.error("peers needs one of below and above", here)
    below, above = (
        reader.number(peers[key], key, (*here, key)) if key in peers else None for key in ("below", "above")
    )
    window_s = reader.window(data, metric, path)
    against = Against(metric.id, of, below, above, by)
    return Held(against, window_s) if window_s else against
