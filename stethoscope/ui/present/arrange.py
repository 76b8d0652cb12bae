"""Which lines the fleet screen has: nodes in their order, the lines of groups, and the lines that stand for several
nodes; held steady while the cursor is on one of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.ui.present.groups import Group, groups_of
from stethoscope.ui.present.order import order_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.leaves import Leaves
    from stethoscope.ui.present.view import View

    Flags = npt.NDArray[np.bool_]

FOLD = "\0fold"
"""Key of the line that stands for all folded nodes; no node can have this name."""
FOLD_IDLE = "\0idle"
"""Key of the line that stands for the nodes without a GPU in use."""
HEAD = "\0head"
"""Key of the line of a group, before the group's name."""
SETTLE_S = 3.0
"""Rows are sorted again at most this often."""


class Kind(Enum):
    """What a line stands for."""

    NODE = "node"
    HEAD = "group"
    FOLD = "alike"
    IDLE = "idle"

    @property
    def is_node(self) -> bool:
        """Tell whether it is a single node."""
        return self is Kind.NODE


class Line(NamedTuple):
    """One line."""

    key: str
    """The node's name, with the group's where nodes are in several; else one of FOLD, FOLD_IDLE, HEAD with it."""
    kind: Kind
    group: str = ""
    nodes: tuple[int, ...] = ()
    """The node, or the nodes that it is about."""
    hides: bool = False
    """Its nodes have no lines of their own."""


class Arranger:
    """The order of nodes and groups, from one snapshot to the next."""

    def __init__(self) -> None:
        """Start without an order."""
        self.groups: list[tuple[str, list[int]]] = []
        """Nodes that fit the filter in their order, by group; one group without a name where nodes are not grouped."""
        self.opened: dict[str, bool] = {}
        """Groups that the user opened or closed."""
        self._settled: tuple[float, tuple[object, ...]] = (0.0, ())

    def settle(
        self,
        assessment: Assessment,
        view: View,
        metric: Metric,
        odd: Flags,
        fits: Flags,
        pinned: Line | None,
        leaves: Leaves | None = None,
        away: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Sort again when that is due or something else is wanted; what `pinned` is about keeps its place. `leaves`
        are given when nodes are grouped by them: a node stands there as its ports do; `away` are the distances by row
        that are shown instead of values."""
        snapshot, now = assessment.snapshot, assessment.now_mono
        by_value = metric.id if view.sort == "value" else ""
        wanted = (view.sort, view.group, view.filter, by_value, view.mode if by_value else "", len(snapshot.nodes))
        if wanted == self._settled[1] and 0 <= now - self._settled[0] < SETTLE_S and self.groups:
            return
        if self._settled[1] and view.group != self._settled[1][1]:
            self.opened.clear()
        inside = "worst" if view.sort == "group" and view.group != "none" else view.sort
        order = order_of(assessment, metric, inside, odd, away)
        rank = dict(zip(order.tolist(), range(order.size), strict=True))
        if view.group == "none":
            found = [Group("", tuple(range(len(snapshot.nodes))))]
        else:
            found = groups_of(snapshot, view.group)
        fit = fits.tolist()
        groups = [(group.name, sorted((n for n in group.nodes if fit[n]), key=rank.__getitem__)) for group in found]
        groups = [(name, nodes) for name, nodes in groups if nodes]
        if leaves is not None and inside == "worst":
            groups = [
                (name, [nodes[place] for place in np.argsort(-leaves.urgency(name)[nodes], kind="stable")])
                for name, nodes in ((name, sorted(nodes)) for name, nodes in groups)
            ]
            if view.sort == "worst":
                groups.sort(key=lambda group: -int(leaves.urgency(group[0])[group[1][0]]))
        elif view.sort in ("worst", "value"):
            groups.sort(key=lambda group: rank[group[1][0]])
        if pinned is not None and wanted == self._settled[1]:
            _hold(self.groups, groups, pinned)
        self.groups = groups
        self._settled = (now, wanted)

    def lines(
        self,
        assessment: Assessment,
        view: View,
        alike: Flags,
        idle: Flags,
        height: int,
        pinned: Line | None,
        leaves: Leaves | None = None,
    ) -> list[Line]:
        """Return the lines: `alike` are the nodes that may share a line, `idle` those that use no GPU; `height` lines
        are visible. A node that the cursor is on is never folded."""
        held = pinned.nodes if pinned is not None and pinned.kind is Kind.NODE else ()
        names = [node.name for node in assessment.snapshot.nodes]
        if view.group == "none":
            return _plain(self.groups[0][1] if self.groups else [], view, names, alike, idle, height, held)
        total = sum(len(nodes) + 1 for _, nodes in self.groups)
        folding = view.fold == "all" or (view.fold == "fill" and view.sort != "value" and total > height)
        lines: list[Line] = []
        for name, nodes in self.groups:
            if leaves is not None:
                alike, idle = leaves.levels(name) == 0, idle & False
            lines += self._group(name, nodes, names, alike, idle, folding, held, several=leaves is not None)
        return lines

    def _group(
        self,
        name: str,
        nodes: list[int],
        names: Sequence[str],
        alike: Flags,
        idle: Flags,
        folding: bool,
        held: Collection[int],
        *,
        several: bool,
    ) -> list[Line]:
        opened = self.opened.get(name)
        unused = _two([n for n in nodes if idle[n] and n not in held]) if folding and opened is None else []
        away = set(unused)
        same = _two([n for n in nodes if alike[n] and n not in held and n not in away])
        same = same if folding and opened is None else []
        away.update(same)
        closed = opened is False or len(same) == len(nodes) or len(unused) == len(nodes)
        head = Line(HEAD + name, Kind.HEAD, name, tuple(nodes), closed)
        if closed:
            return [head]
        lines = [
            Line(f"{names[n]}\0{name}" if several else names[n], Kind.NODE, name, (n,)) for n in nodes if n not in away
        ]
        if unused:
            lines.append(Line(FOLD_IDLE + name, Kind.IDLE, name, tuple(unused), hides=True))
        if same:
            lines.append(Line(FOLD + name, Kind.FOLD, name, tuple(same), hides=True))
        return [head, *lines]


def _plain(
    order: list[int], view: View, names: Sequence[str], alike: Flags, idle: Flags, height: int, held: Collection[int]
) -> list[Line]:
    """Return the lines of nodes that are not grouped; what is folded stands last."""
    fits = view.fold == "none" or (view.fold == "fill" and (view.sort != "worst" or len(order) <= height))
    unused = [] if fits else _two([n for n in order if idle[n] and n not in held])
    away = set(unused)
    folded = [] if fits else [n for n in order if alike[n] and n not in away and n not in held]
    if view.fold == "fill" and not fits:
        lines = len(order) - len(away) + bool(away)
        spare = height - 1 - (lines - len(folded))
        folded = folded[max(0, spare) :] if lines > height else []
    folded = _two(folded)
    away.update(folded)
    found = [Line(names[n], Kind.NODE, "", (n,)) for n in order if n not in away]
    if unused:
        found.append(Line(FOLD_IDLE, Kind.IDLE, "", tuple(unused), hides=True))
    if folded:
        found.append(Line(FOLD, Kind.FOLD, "", tuple(folded), hides=True))
    return found


def _two(nodes: list[int]) -> list[int]:
    """Return `nodes` when there are two at least: one alone keeps its line."""
    return nodes if len(nodes) > 1 else []


def _hold(old: list[tuple[str, list[int]]], new: list[tuple[str, list[int]]], pinned: Line) -> None:
    """Let what the cursor is on stand in `new` where it stood in `old`, even if it does not fit the filter any more."""
    places = {name: place for place, (name, _) in enumerate(old)}
    if pinned.group not in places:
        return
    before = old[places[pinned.group]][1]
    found = [group for group in new if group[0] == pinned.group]
    if not found and pinned.kind is not Kind.NODE:
        return
    group = found[0] if found else (pinned.group, [])
    if pinned.kind is Kind.NODE and pinned.nodes[0] in before:
        node = pinned.nodes[0]
        if node in group[1]:
            group[1].remove(node)
        elif any(node in nodes for _, nodes in new):
            # It went over to another group.
            return
        group[1].insert(before.index(node), node)
    if found:
        new.remove(group)
    if group[1]:
        new.insert(places[pinned.group], group)


def toggled(lines: Sequence[Line], line: Line) -> Mapping[str, bool]:
    """Return what opens the group of `line`, or closes it where all of its nodes have lines already."""
    group = [other for other in lines if other.group == line.group]
    return {line.group: any(other.hides for other in group)}
