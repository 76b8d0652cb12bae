"""Ports by the leaf switch that they are plugged into: what a group of the fleet screen by leaf is about."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Scope
from stethoscope.ui.present.assess import SEVERITY_LEVELS, link_words, short_place
from stethoscope.ui.present.numbers import title_in_text, value_text
from stethoscope.ui.present.row_levels import is_judged, metric_levels
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stethoscope.model.fleet import Node
    from stethoscope.model.wire import PortIdentity
    from stethoscope.ui.present.assess import Assessment, Levels


class Leaves:
    """Which leaf each row of the port table belongs to, and how the ports of a node stand there."""

    def __init__(self) -> None:
        """Start without ports."""
        self.codes: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """Place of its leaf in `names` for each row of the port table, -1 without one."""
        self.names: dict[str, int] = {}
        self._ports: list[tuple[PortIdentity, ...]] = []
        self._first: list[int] = []
        self._levels: npt.NDArray[np.uint8] = np.empty((0, 0), dtype=np.uint8)
        self._urgency: npt.NDArray[np.int16] = np.empty((0, 0), dtype=np.int16)

    def update(self, assessment: Assessment) -> None:
        """Take a snapshot."""
        snapshot = assessment.snapshot
        ports, first = [node.ports for node in snapshot.nodes], [node.port_first for node in snapshot.nodes]
        size = snapshot.tables[Scope.PORT].values.shape[1]
        same = len(ports) == len(self._ports) and self.codes.size == size and first == self._first
        if not same or not all(map(is_, ports, self._ports)):
            self._ports, self._first = ports, first
            self.names, self.codes = {}, np.full(size, -1, dtype=np.int64)
            for node in snapshot.nodes:
                for position, row in enumerate(snapshot.rows(node, Scope.PORT)):
                    leaf = node.leaf(position)
                    self.codes[row] = self.names.setdefault(leaf, len(self.names)) if leaf else -1
        owner = assessment.owners[Scope.PORT][0]
        known = np.flatnonzero((self.codes >= 0) & (owner >= 0))
        # A level of a port, and whatever its node's age says of all of them.
        ages = np.array(assessment.ages, dtype=np.uint8)
        self._levels = np.broadcast_to(ages, (len(self.names) + 1, ages.size)).copy()
        np.maximum.at(self._levels, (self.codes[known], owner[known]), assessment.rows[Scope.PORT][known])
        # A lost node is lost on all of its leaves: first stands what is wrong with ports.
        live = ages[None, :] == Level.NORMAL
        self._urgency = np.where(live, self._levels.astype(np.int16) * len(Level), self._levels)
        # Last, for nodes of which no leaf is known: how they stand.
        self._levels[-1] = self._urgency[-1] = assessment.nodes

    def places(self, leaves: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return where each of `leaves` stands in what `urgencies` and `all_levels` return."""
        return np.array([self.names.get(leaf, -1) for leaf in leaves], dtype=np.int64)

    @property
    def urgencies(self) -> npt.NDArray[np.int16]:
        """Return by leaf and node how early it is to be looked at there: its ports count more than its age."""
        return self._urgency

    @property
    def all_levels(self) -> npt.NDArray[np.uint8]:
        """Return by leaf and node what `levels` returns for one leaf."""
        return self._levels

    def levels(self, leaf: str) -> Levels:
        """Return the level of each node, by its ports on `leaf` alone; of nodes without a known leaf all together."""
        levels: Levels = self._levels[self.names.get(leaf, -1)]
        return levels

    def sentence(self, assessment: Assessment, node: Node, leaf: str, wall: float) -> tuple[str, Level]:
        """Return what is wrong with the ports of a node on `leaf`, empty when nothing is, and the level of that."""
        level = Level(int(self.levels(leaf)[node.index]))
        if assessment.ages[node.index] is not Level.NORMAL:
            return link_words(node, wall), assessment.ages[node.index]
        snapshot, table = assessment.snapshot, assessment.snapshot.tables[Scope.PORT]
        part = snapshot.rows(node, Scope.PORT)
        for position, row in enumerate(part):
            if level <= Level.MISSING or node.leaf(position) != leaf or assessment.rows[Scope.PORT][row] != level:
                continue
            place = snapshot.place(node, Scope.PORT, position)
            finding = assessment.finding_at(place)
            if finding is not None:
                return f"{short_place(place)} {finding.summary}", SEVERITY_LEVELS[finding.severity]
            for name in table.metrics:
                metric = snapshot.catalogue[name]
                if is_judged(metric) and metric_levels(table, metric, range(row, row + 1))[0] == level:
                    value = value_text(metric, table.get(name, row))
                    return f"{short_place(place)} {title_in_text(metric.title)} {value}", level
        return "", level
