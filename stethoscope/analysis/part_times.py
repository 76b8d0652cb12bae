"""When each node last sent each group of what is read rarely, as arrays that follow what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.fleet import PartAges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.fleet import Floats, Node, PartAge


class PartTimes:
    """By group: the console's monotonic time of the last part of each node, and how often one comes; NaN for none."""

    def __init__(self) -> None:
        """Know no node yet."""
        self._parts: list[Mapping[str, PartAge]] = []
        self._times: dict[str, Floats] = {}

    def follow(self, nodes: Sequence[Node]) -> None:
        """Take what is new of these nodes."""
        parts = [node.parts for node in nodes]
        if len(parts) != len(self._parts):
            self._parts, self._times = [{}] * len(parts), {}
        changed = [at for at, (before, now) in enumerate(zip(self._parts, parts, strict=True)) if before is not now]
        came: dict[str, list[tuple[int, float, float]]] = {}
        for at in changed:
            before, now = self._parts[at], parts[at]
            if isinstance(now, PartAges) and now.follows(before):
                part = now[now.came]
                came.setdefault(now.came, []).append((at, part.mono, part.every_s))
                continue
            new = [(group, part) for group, part in now.items() if before.get(group) is not part]
            for group, part in new:
                came.setdefault(group, []).append((at, part.mono, part.every_s))
            if len(now) != len(before) or any(group not in before for group, _ in new):
                for group in before.keys() - now.keys():
                    self._times[group][:, at] = np.nan
        for group, told in came.items():
            if group not in self._times:
                self._times[group] = np.full((2, len(parts)), np.nan)
            places, monos, every_s = zip(*told, strict=True)
            self._times[group][:, list(places)] = monos, every_s
        self._parts = parts

    def of(self, group: str) -> tuple[Floats, Floats]:
        """Return times and intervals by node."""
        found = self._times.get(group)
        if found is None:
            found = np.full((2, len(self._parts)), np.nan)
        return found[0], found[1]
