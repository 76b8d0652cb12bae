"""A monitor that sees nothing says so: nodes that vanish together, because what leads to them broke, are not dead.

That a node is lost is believed when something says so that does not lead over the broken path: another node on the
same path is still heard afterwards, its jump host answers for it, or the scheduler lost it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.frame import LinkState
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Standing
from stethoscope.specs.condition import Absent, Compare, LinkIs, leaves

if TYPE_CHECKING:
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats, Node
    from stethoscope.specs.rule import Rule

RULE = "telemetry_lost"
THIS_MACHINE = "this machine"
LEAST = 2
"""Fewer nodes than this do not vanish together."""
LEAST_UNHEARD = 4
"""So many must there be where none ever answered: two may be two wrong names."""
RETURN_S = 60.0
"""So long after the path works again nodes may take to come back by it."""
FROM_JUMP = "(from the jump host)"
"""Ends the detail of a link whose jump host answered for the node (`collect.words`)."""
_LIVE, _WAITING, _FAILED, _REFUSED = range(4)
_CODES = {
    state: _LIVE if state.is_live
    else _WAITING if state.is_pending or state is LinkState.SILENT
    else _REFUSED if state is LinkState.AUTH_REFUSED
    else _FAILED
    for state in LinkState
}  # fmt: skip
_OF_CONSOLE = frozenset({"node_data_age", "node_reachable"})


def is_about_sight(rule: Rule) -> bool:
    """Tell whether a rule speaks of nothing but what this console sees of a node: its link, and when it was heard."""
    found = [leaf for leaf, positive in leaves(rule.trigger) if positive]
    return (
        rule.scope is Scope.NODE
        and bool(found)
        and all(
            isinstance(leaf, LinkIs) or (isinstance(leaf, Compare | Absent) and leaf.metric in _OF_CONSOLE)
            for leaf in found
        )
    )


@dataclass(frozen=True, slots=True)
class Path:
    """What many nodes are reached by, and that is broken."""

    name: str
    """`jump host bastion`, or `this machine`."""
    nodes: Flags
    """Those of it that are not seen."""
    members: int
    since: float
    is_login: bool
    """Every one refuses the login: the key is at fault, and no path."""


@dataclass(slots=True)
class _Broken:
    nodes: Flags
    members: int
    since: float
    is_login: bool
    back_since: float | None = None


@dataclass(slots=True)
class Sight:
    """What is remembered of paths between two moments."""

    broken: dict[str, _Broken] = field(default_factory=dict)
    witnessed: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Nodes whose loss something else than the path has shown."""

    def forget(self) -> None:
        """Take that every node is seen."""
        self.broken.clear()
        self.witnessed[:] = False

    def look(self, moment: Moment, unseen: Flags, in_service: Flags) -> tuple[list[Path], Flags]:
        """Return the broken paths, and the nodes of which it is too early to say whether they or their path are lost.

        `unseen` are nodes that a rule about sight found.
        """
        count = len(moment.snapshot.nodes)
        if len(self.witnessed) != count:
            self.witnessed = np.zeros(count, dtype=bool)
            self.broken.clear()
        if not unseen.any():
            self.forget()
            return [], unseen
        seen = _Seen.of(moment, unseen)
        self.witnessed &= seen.gone
        early, returning = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        for entry in self.broken.values():
            returning |= entry.nodes
        broken: dict[str, Flags] = {}
        paths, everyone = dict.fromkeys(seen.via), np.ones(count, dtype=bool)
        for via in paths:
            on_path = np.array([one == via for one in seen.via], dtype=bool) if len(paths) > 1 else everyone
            self.witnessed |= on_path & seen.gone & ~returning & seen.is_witnessed(on_path)
            members = on_path & in_service & seen.is_settled & ~self.witnessed
            if _is_broken(members, seen):
                broken[via] = members
            elif np.count_nonzero(on_path & seen.is_settled) >= LEAST:
                early |= members & unseen & seen.is_heard & (moment.wall - seen.lost_at <= seen.patience_s)
        for path in self._paths(broken, seen, in_service, count):
            self._note(*path, seen)
        return self._told(seen, moment.mono), early

    @staticmethod
    def _paths(broken: dict[str, Flags], seen: _Seen, in_service: Flags, count: int) -> list[tuple[str, Flags]]:
        """Return the name of each broken path with its nodes: all of them together are what they begin at."""
        whole = np.zeros(count, dtype=bool)
        for nodes in broken.values():
            whole |= nodes
        is_all = not np.any(in_service & seen.is_settled & ~seen.gone)
        if is_all and (len(broken) > 1 or "" in broken):
            return [(THIS_MACHINE, whole)]
        return [(f"jump host {via}", nodes) for via, nodes in broken.items() if via]

    def _note(self, name: str, nodes: Flags, seen: _Seen) -> None:
        if name == THIS_MACHINE:
            self.broken = {known: entry for known, entry in self.broken.items() if known == name}
        is_login = bool(seen.refused[nodes].all())
        known = self.broken.get(name)
        since = float(seen.lost_at[nodes].min()) if known is None else known.since
        self.broken[name] = _Broken(nodes, int(np.count_nonzero(nodes)), since, is_login)

    def _told(self, seen: _Seen, mono: float) -> list[Path]:
        """Return what is broken or was until just now, with the nodes that are not back yet."""
        paths = []
        for name, entry in list(self.broken.items()):
            left = entry.nodes & seen.gone & ~self.witnessed
            if np.count_nonzero(left) == np.count_nonzero(entry.nodes & ~self.witnessed):
                entry.back_since = None
            elif entry.back_since is None:
                entry.back_since = mono
            if not left.any() or (entry.back_since is not None and mono - entry.back_since > RETURN_S):
                del self.broken[name]
                continue
            paths.append(Path(name, left, entry.members, entry.since, entry.is_login))
        return paths


@dataclass(frozen=True, slots=True)
class _Seen:
    """What this console sees of each node."""

    via: tuple[str, ...]
    gone: Flags
    """Found by a rule about sight, or not heard for too long."""
    is_heard: Flags
    """Has sent a frame at all."""
    is_settled: Flags
    """Has been heard, or could not be reached."""
    refused: Flags
    lost_at: Floats
    """Wall seconds at which it was noticed that a node is not heard any more, or would be."""
    patience_s: Floats
    """By then a node that is still there has sent something."""
    last_heard: Floats
    """Wall seconds of the last frame, -inf of nodes that are gone."""
    is_on_time: Flags
    """Is connected, and sent its last frame when it should."""
    is_shown: Flags
    """Something else than the path says that the node does not answer."""

    @classmethod
    def of(cls, moment: Moment, unseen: Flags) -> _Seen:
        """Read the nodes of a moment."""
        nodes = moment.snapshot.nodes
        links = [node.link for node in nodes]
        heard = np.array([np.nan if node.frame_mono is None else node.frame_mono for node in nodes], dtype=np.float64)
        ticks = np.array([node.tick_s for node in nodes], dtype=np.float64)
        since = np.array([link.since for link in links], dtype=np.float64)
        codes = np.array([_CODES[link.state] for link in links], dtype=np.int8)
        failed = codes >= _FAILED
        # By the clock that does not jump.
        walls = moment.wall - (moment.mono - heard)
        patience_s = 3 * ticks + 2
        is_heard = ~np.isnan(heard)
        gone = unseen | (is_heard & ~moment.fresh)
        shown = np.zeros(len(nodes), dtype=bool)
        for index in np.flatnonzero(gone).tolist():
            shown[index] = _is_shown(nodes[index])
        return cls(
            via=tuple(link.via for link in links),
            gone=gone,
            is_heard=is_heard,
            is_settled=is_heard | failed,
            refused=codes == _REFUSED,
            lost_at=np.where(failed | ~is_heard, since, walls + patience_s),
            patience_s=patience_s,
            last_heard=np.where(is_heard & ~gone, walls, -np.inf),
            is_on_time=(codes == _LIVE) & ~gone & (moment.wall - walls <= ticks + 1),
            is_shown=shown,
        )

    def is_witnessed(self, on_path: Flags) -> Flags:
        """Return which nodes were lost while their path was not, or are lost as others say too."""
        if self.is_on_time[on_path].any():
            return np.ones_like(on_path)
        return self.is_shown | (float(self.last_heard[on_path].max()) > self.lost_at + 1.0)


def _is_shown(node: Node) -> bool:
    is_down = node.scheduler is not None and node.scheduler.standing is Standing.DOWN
    return is_down or node.link.detail.endswith(FROM_JUMP)


def _is_broken(members: Flags, seen: _Seen) -> bool:
    count = np.count_nonzero(members)
    if count < (LEAST if np.any(members & seen.is_heard) else LEAST_UNHEARD):
        return False
    return bool(np.all(seen.gone[members]))
