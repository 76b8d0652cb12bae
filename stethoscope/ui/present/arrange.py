"""Which lines the fleet screen has: nodes in their order, the lines of groups, and the lines that stand for several
nodes; held steady while the cursor is on one of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.ui.present.groups import Group, groups_of, marks_of
from stethoscope.ui.present.order import order_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    from stethoscope.model.fleet import FleetSnapshot
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


class Members:
    """Groups with their nodes one after the other, to look at those of all groups at once."""

    def __init__(self, groups: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Take groups, each a name with positions of nodes."""
        self.names = [name for name, _ in groups]
        sizes = np.array([len(nodes) for _, nodes in groups], dtype=np.int64)
        self.nodes = np.array([node for _, nodes in groups for node in nodes], dtype=np.int64)
        self.group = np.repeat(np.arange(len(groups)), sizes)
        """Of each node in `nodes`, the place of its group in `names`."""

    def all_of(self, flags: Flags) -> Flags:
        """Return by group whether `flags`, one for each of `nodes`, are all set."""
        every: Flags = np.bincount(self.group[~flags], minlength=len(self.names)) == 0
        return every

    def sorted(self, keys: npt.NDArray[np.int64], fits: Flags, *, by_first: bool) -> list[tuple[str, list[int]]]:
        """Return the groups with those of their nodes that fit, the lowest of `keys` first, without groups of which
        none fits; the groups themselves in the order that they have, or with the lowest key of all first."""
        keep = fits[self.nodes]
        nodes, group, keys = self.nodes[keep], self.group[keep], keys[keep]
        order = np.lexsort((keys, group))
        nodes, group, keys = nodes[order], group[order], keys[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        ends = np.append(starts[1:], nodes.size).tolist()
        flat, first = nodes.tolist(), keys[starts]
        found = [
            (self.names[place], flat[start:end])
            for place, start, end in zip(group[starts].tolist(), starts.tolist(), ends, strict=False)
        ]
        return [found[place] for place in np.argsort(first, kind="stable")] if by_first else found


class Arranger:
    """The order of nodes and groups, from one snapshot to the next."""

    def __init__(self) -> None:
        """Start without an order."""
        self.groups: list[tuple[str, list[int]]] = []
        """Nodes that fit the filter in their order, by group; one group without a name where nodes are not grouped."""
        self.opened: dict[str, bool] = {}
        """Groups that the user opened or closed."""
        self._settled: tuple[float, tuple[object, ...]] = (0.0, ())
        self._found: tuple[list[object], Members] = ([], Members([]))
        """The groups of all nodes, and what they follow from."""
        self._shown = Members([])
        """The groups of those that fit, as in `groups`."""
        self._closed: list[Line] = []
        """The line of each group when it is closed."""
        self._whole: dict[str, list[Line]] = {}
        """The lines of a group of which each node has its own."""

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
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        found = self._members(snapshot, view.group)
        urgency = rank[found.nodes]
        if leaves is not None and inside == "worst":
            early = leaves.urgencies[leaves.places(found.names)[found.group], found.nodes].astype(np.int64)
            urgency = found.nodes - early * order.size
        groups = found.sorted(urgency, fits, by_first=view.sort in ("worst", "value"))
        if pinned is not None and wanted == self._settled[1]:
            _hold(self.groups, groups, pinned)
        self.groups = groups
        self._shown = Members(groups)
        self._closed = [Line(HEAD + name, Kind.HEAD, name, tuple(nodes), hides=True) for name, nodes in groups]
        self._whole.clear()
        self._settled = (now, wanted)

    def _members(self, snapshot: FleetSnapshot, by: str) -> Members:
        """Return the groups of all nodes; looked for again only when a node is in another one."""
        if by == "none":
            return Members([Group("", tuple(range(len(snapshot.nodes))))])
        marks = [by, *marks_of(snapshot, by)]
        if marks != self._found[0]:
            self._found = (marks, Members(groups_of(snapshot, by)))
        return self._found[1]

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
        shown = self._shown
        total = shown.nodes.size + len(self.groups)
        folding = view.fold == "all" or (view.fold == "fill" and view.sort != "value" and total > height)
        if leaves is not None:
            idle = idle & False
            same = shown.all_of(leaves.all_levels[leaves.places(shown.names)[shown.group], shown.nodes] == 0)
        else:
            same = shown.all_of(alike[shown.nodes]) | shown.all_of(idle[shown.nodes])
        if held:
            # A node with the cursor keeps its line.
            same[shown.group[np.isin(shown.nodes, list(held))]] = False
        lines: list[Line] = []
        for (name, nodes), closed, whole in zip(self.groups, self._closed, same.tolist(), strict=True):
            if whole and folding and len(nodes) > 1 and name not in self.opened:
                lines.append(closed)
                continue
            if leaves is not None:
                alike = leaves.levels(name) == 0
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
        if not away and name in self._whole:
            return self._whole[name]
        lines = [
            Line(f"{names[n]}\0{name}" if several else names[n], Kind.NODE, name, (n,)) for n in nodes if n not in away
        ]
        if unused:
            lines.append(Line(FOLD_IDLE + name, Kind.IDLE, name, tuple(unused), hides=True))
        if same:
            lines.append(Line(FOLD + name, Kind.FOLD, name, tuple(same), hides=True))
        if not away:
            self._whole[name] = [head, *lines]
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
