"""Flight recorder dumps of all ranks laid beside each other: who came where, who waits for whom, whose calls differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from stethoscope.analysis.flight_differ import Difference, Key, compare, sizes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.parse.flight_recorder import Call, Dump, Standing

Reason = Literal["late", "stuck", "absent", "together", "cycle"]
"""Why waiting ends at a rank: `late` never asked for the call and waits for nothing, `stuck` does not finish what its
peers finished, `absent` left no dump, `together` all are in the call and none finishes, `cycle` they wait for one
another in different calls."""
MOST_DIFFERENCES = 8


@dataclass(slots=True)
class GroupState:
    """Where the ranks of one group stand at the first call of it that is not done on all of them."""

    key: Key
    description: str
    seq: int | None = None
    """None when nothing of it is pending."""
    op: str = ""
    sizes: str = ""
    waiting: list[int] = field(default_factory=list)
    """Asked for it and have not finished it."""
    started: list[int] = field(default_factory=list)
    """Those of them whose GPU began it."""
    done: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    """Never asked for it, as their dumps say."""
    absent: list[int] = field(default_factory=list)
    """Of whom there is no dump."""


class End(NamedTuple):
    """Where the waiting of ranks ends."""

    reason: Reason
    ranks: tuple[int, ...]
    key: Key | None
    seq: int
    op: str


class Waits(NamedTuple):
    """One end, and the ranks that wait for it, directly or through others."""

    end: End
    victims: tuple[int, ...]


class Flight:
    """The dumps of a job, by group and by rank."""

    def __init__(self, dumps: Sequence[Dump]) -> None:
        self.dumps = {dump.rank: dump for dump in dumps}
        self.keys: dict[tuple[int, str], Key] = {}
        self.descriptions: dict[Key, str] = {}
        holders: dict[str, list[int]] = {}
        for dump in dumps:
            for name, (_, ranks) in dump.groups.items():
                if not ranks:
                    holders.setdefault(name, []).append(dump.rank)
        for dump in dumps:
            for name, (description, ranks) in dump.groups.items():
                # Without the list of its ranks a group is what the dumps say that have it.
                key = Key(name, ranks or tuple(sorted(holders[name])))
                self.keys[dump.rank, name] = key
                self.descriptions.setdefault(key, description)
        world = {rank for key in self.descriptions for rank in key.ranks} | set(self.dumps)
        self._knows_ranks = any(ranks for dump in dumps for _, ranks in dump.groups.values())
        if not self._knows_ranks:
            # Old dumps do not say who is in a group: a gap in the ranks of the files is all there is.
            world |= set(range(max(self.dumps, default=-1) + 1))
        self.world = sorted(world)
        self.absent = [rank for rank in self.world if rank not in self.dumps]
        self._calls: dict[tuple[int, Key], dict[int, Call]] = {}
        self._pending: dict[int, list[Call]] = {rank: [] for rank in self.dumps}
        self._came_to: dict[tuple[int, Key], int | None] = {}
        self._ends_of: dict[tuple[object, ...], tuple[End, ...]] = {}
        for dump in dumps:
            for call in dump.calls:
                if not call.is_p2p:
                    self._calls.setdefault((dump.rank, self.key(dump.rank, call)), {})[call.seq] = call
                if call.is_pending:
                    self._pending[dump.rank].append(call)

    def key(self, rank: int, call: Call) -> Key:
        """Return the group of a call of `rank`."""
        return self.keys[rank, call.group]

    def calls(self, rank: int, key: Key) -> dict[int, Call]:
        """Return the recorded collectives of a rank in a group, by their number."""
        return self._calls.get((rank, key), {})

    def blocked(self, rank: int) -> Call | None:
        """Return the first call that a rank has not finished: what its GPU, or its host, waits in."""
        pending = self._pending.get(rank, [])
        return pending[0] if pending else None

    def came_to(self, rank: int, key: Key) -> int | None:
        """Return the number of the last collective that a rank asked for in a group."""
        place = (rank, key)
        if place not in self._came_to:
            standing = self._standing(rank, key)
            recorded = max(self.calls(rank, key), default=None)
            known = [n for n in (standing.enqueued if standing else None, recorded) if n is not None]
            self._came_to[place] = max(known, default=None)
        return self._came_to[place]

    def state(self, rank: int, key: Key, seq: int) -> Literal["absent", "late", "waiting", "done", "unknown"]:
        """Return where a rank stands with one collective of a group."""
        if rank not in self.dumps:
            return "absent"
        call = self.calls(rank, key).get(seq)
        if call is not None:
            return "waiting" if call.is_pending else "done"
        last = self.came_to(rank, key)
        if last is None:
            # A rank that has the group and no call of it, where others have some from the first on, never came.
            return "late" if (rank, key.name) in self.keys else "unknown"
        return "late" if last < seq else "done"

    def groups(self) -> list[GroupState]:
        """Return every group at its first unfinished collective; those whose ranks stand apart come first."""
        found = []
        for key, description in self.descriptions.items():
            firsts = [seq for rank in key.ranks for seq, call in self.calls(rank, key).items() if call.is_pending]
            state = GroupState(key, description)
            if firsts:
                state.seq = min(firsts)
                for rank in key.ranks:
                    self._place(state, rank, state.seq)
            found.append(state)
        return sorted(found, key=_telling)

    def waits(self) -> list[Waits]:
        """Return where all the waiting ends, what most ranks wait for first."""
        ends: dict[End, set[int]] = {}
        for rank in self.dumps:
            node = self._node(rank)
            if node is None:
                continue
            if node not in self._ends_of:
                self._ends_of[node] = tuple(self._ends(rank))
            for end in self._ends_of[node]:
                ends.setdefault(end, set()).update({rank} - set(end.ranks))
        order = {"late": 0, "stuck": 0, "absent": 1, "cycle": 2, "together": 3}
        found = [Waits(end, tuple(sorted(victims))) for end, victims in ends.items()]
        return sorted(found, key=lambda w: (order[w.end.reason], -len(w.victims), w.end.ranks))

    def differences(self) -> list[Difference]:
        """Return the first unfinished place of each group at which its ranks' calls differ, the earliest first."""
        found = [difference for key in self.descriptions if (difference := self._difference(key)) is not None]
        return sorted(found, key=lambda d: (d.what != "op", d.created_ns, d.key))[:MOST_DIFFERENCES]

    def _standing(self, rank: int, key: Key) -> Standing | None:
        dump = self.dumps.get(rank)
        return dump.standings.get(key.name) if dump is not None and self.keys.get((rank, key.name)) == key else None

    def _place(self, state: GroupState, rank: int, seq: int) -> None:
        where = self.state(rank, state.key, seq)
        if where == "waiting":
            call = self.calls(rank, state.key)[seq]
            state.waiting.append(rank)
            state.op, state.sizes = state.op or call.op, state.sizes or sizes_text(call.inputs)
            if call.state == "started":
                state.started.append(rank)
        elif where == "done":
            state.done.append(rank)
        elif where == "late":
            state.late.append(rank)
        elif where == "absent":
            state.absent.append(rank)

    def _ends(self, rank: int) -> list[End]:
        """Return where the waiting of one rank ends: ranks that wait in the same collective count as one."""
        ends: dict[End, None] = {}
        seen: set[tuple[object, ...] | None] = {self._node(rank)}
        ranks = {rank}
        queue = [rank]
        cycle = True
        while queue:
            current = queue.pop(0)
            end, others = self._step(current)
            if end is not None:
                ends[end] = None
                cycle = False
            for other in others:
                node = self._node(other)
                if node not in seen:
                    seen.add(node)
                    ranks.add(other)
                    queue.append(other)
        if cycle:
            call = self.blocked(rank)
            ends[End("cycle", tuple(sorted(ranks)), None, call.seq if call else 0, call.op if call else "")] = None
        return list(ends)

    def _node(self, rank: int) -> tuple[object, ...] | None:
        """Return what a rank waits in; one send or receive is one rank's own."""
        call = self.blocked(rank)
        if call is None:
            return None
        return (self.key(rank, call), call.seq, rank if call.is_p2p else None)

    def _step(self, rank: int) -> tuple[End | None, list[int]]:
        """Return the end at `rank`, or the ranks that it waits for."""
        call = self.blocked(rank)
        if call is None:
            return None, []
        key = self.key(rank, call)
        if call.is_p2p:
            return self._step_p2p(rank, call, key)
        places: dict[str, list[int]] = {}
        for member in key.ranks:
            places.setdefault(self.state(member, key, call.seq), []).append(member)
        late = places.get("late", [])
        idle = [member for member in late if self.blocked(member) is None]
        if idle:
            return End("late", tuple(idle), key, call.seq, call.op), [m for m in late if m not in idle]
        if late:
            return None, late
        if places.get("absent"):
            return End("absent", tuple(places["absent"]), key, call.seq, call.op), []
        if places.get("done"):
            return End("stuck", tuple(places["waiting"]), key, call.seq, call.op), []
        earlier = [m for m in key.ranks if m != rank and (own := self.blocked(m)) is not None and not _same(own, call)]
        if earlier:
            return None, earlier
        if self.absent and not self._knows_ranks:
            return End("absent", tuple(self.absent), key, call.seq, call.op), []
        return End("together", tuple(places.get("waiting", [])), key, call.seq, call.op), []

    def _step_p2p(self, rank: int, call: Call, key: Key) -> tuple[End | None, list[int]]:
        if call.peer is None or call.peer >= len(key.ranks):
            return None, [member for member in key.ranks if member != rank and self.blocked(member) is not None]
        peer = key.ranks[call.peer]
        if peer not in self.dumps:
            return End("absent", (peer,), key, call.seq, call.op), []
        theirs = self.blocked(peer)
        if theirs is None:
            return End("late", (peer,), key, call.seq, call.op), []
        back = theirs.is_p2p and theirs.group == call.group and theirs.peer is not None
        if back and theirs.op != call.op and key.ranks[theirs.peer or 0 : (theirs.peer or 0) + 1] == (rank,):
            return End("together", tuple(sorted((rank, peer))), key, call.seq, call.op), []
        return None, [peer]

    def _difference(self, key: Key) -> Difference | None:
        calls: dict[int, list[tuple[int, Call]]] = {}
        for rank in key.ranks:
            for seq, call in self.calls(rank, key).items():
                calls.setdefault(seq, []).append((rank, call))
        for seq in sorted(calls):
            if len(calls[seq]) > 1 and any(call.is_pending for _, call in calls[seq]):
                found = compare(key, seq, calls[seq], partial(self._of_siblings, key, seq))
                if found is not None:
                    return found
        return None

    def _of_siblings(self, key: Key, seq: int) -> list[Call]:
        """Return the same call of other groups that are for the same thing: the program is one."""
        description = self.descriptions[key]
        others = [other for other, named in self.descriptions.items() if named == description and other != key]
        found = (self.calls(rank, other).get(seq) for other in others for rank in other.ranks)
        return [call for call in found if call is not None]


def _telling(state: GroupState) -> tuple[bool, bool, int, int, Key]:
    """Return what sorts groups whose ranks stand apart before those that all wait alike."""
    gone = len(state.late) + len(state.absent)
    return (state.seq is None, not gone and not state.done, -gone, -len(state.key.ranks), state.key)


def _same(one: Call, other: Call) -> bool:
    return (one.group, one.seq, one.is_p2p) == (other.group, other.seq, other.is_p2p)
