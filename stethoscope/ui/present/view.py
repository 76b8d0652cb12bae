"""What the user chose for the fleet screen, in a form that can be kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DENSITIES = ("numbers", "cells", "blocks")
"""How much room a GPU has: a number, one cell, half a cell with two nodes on a line."""
ZOOMS = ("group", "node", "gpu", "name")
"""How close the map of half blocks is looked at: a tile a group, a cell a node, a cell a GPU, a line a node."""
MODES = ("value", "peers", "mark")
"""What is shown of the metric: its value, how far it is from the peers' median, how far from the mark."""
SORTS = ("worst", "name", "value", "group")
GROUPS = ("none", "rack", "pod", "leaf", "job", "partition")
FOLDS = ("fill", "all", "none")
"""Which nodes that are alike share a line: those that do not fit, all, none."""
_KNOWN = {
    "density": ("auto", *DENSITIES), "zoom": ("auto", *ZOOMS), "mode": MODES, "sort": SORTS, "group": GROUPS,
    "fold": FOLDS,
}  # fmt: skip
LONGEST = 500
"""Characters of a filter, or of a metric's name."""


@dataclass(slots=True)
class View:
    """What the user chose to see; an empty `metric` is the one that the screen begins with."""

    metric: str = ""
    density: str = "auto"
    """One of DENSITIES; auto is numbers where they fit, else cells."""
    mode: str = "value"
    sort: str = "worst"
    group: str = "none"
    fold: str = "fill"
    filter: str = ""
    zoom: str = "auto"
    """One of ZOOMS; auto is as close as all nodes fit."""

    def to_dict(self) -> dict[str, str]:
        """Return the choices as texts by name."""
        return asdict(self)

    def words(self) -> str:
        """Return the choices for people: `gpu_temp, worst first, by rack, filter temp>85`."""
        parts = [self.metric or "any metric", {"worst": "worst first"}.get(self.sort, f"sorted by {self.sort}")]
        parts += [f"against the {self.mode}"] if self.mode != "value" else []
        parts += [self.density] if self.density != "auto" else []
        parts += [f"zoom {self.zoom}"] if self.zoom != "auto" and self.density == "blocks" else []
        parts += [f"by {self.group}"] if self.group != "none" else []
        parts += [f"filter {self.filter}"] if self.filter else []
        return ", ".join(parts)

    @classmethod
    def from_dict(cls, said: Mapping[str, object]) -> View:
        """Return the view that was kept; what is not known or not possible is as in a new view."""
        view = cls()
        for name, values in _KNOWN.items():
            if said.get(name) in values:
                setattr(view, name, said[name])
        for name in ("metric", "filter"):
            value = said.get(name)
            if isinstance(value, str) and len(value) <= LONGEST and value.isprintable():
                setattr(view, name, value)
        return view


def following(values: tuple[str, ...], value: str) -> str:
    """Return the choice after `value`, the first one after the last; the first one also for what is none of them."""
    return values[(values.index(value) + 1) % len(values)] if value in values else values[0]
