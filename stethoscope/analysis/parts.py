"""Facts of parts into the tables of all scopes, and into what is known of a node beside numbers.

A group has metrics of the node, of its GPUs, and of devices that are known by name; one group finds the devices of a
scope. A metric that a group has and its part does not name is not supported. A device that was seen and is no longer
named says LOST, or what keeps the driver from naming it; when it comes back it has its row, and what was counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stethoscope.analysis.cells import rows_of
from stethoscope.analysis.counters import MIN_INTERVAL_S
from stethoscope.analysis.inventory import merge_names, most_of
from stethoscope.analysis.node_state import Block, Told, gone_reason
from stethoscope.model.facts import Devices
from stethoscope.model.fleet import PartAge, PartAges
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any

    from stethoscope.analysis.columns import Columns
    from stethoscope.analysis.node_state import NodeState
    from stethoscope.model.facts import Facts
    from stethoscope.model.frame import Frame
    from stethoscope.model.wire import Cell

    Place = Callable[[Scope, int, int, int, int, frozenset[int]], tuple[int, int]]

T = TypeVar("T")

OF_FRAMES = (Scope.NODE, Scope.GPU, Scope.PORT)
"""Scopes whose rows come in frames."""
_EVERY_S = (1.0, 86_400.0)
"""An interval beyond these is not one: it is taken for the nearest of them."""
_MOST_GROUPS = 32
"""Groups that are remembered of one node; the manifest has eleven."""
_MOST_NUMBERED = 256
"""Lists of links that are known again."""
_MOST_SHARED, _MOST_TEXT = 65_536, 32 * 1024 * 1024
"""Names and words that nodes share, since nodes of one kind have the same, and the characters of what is said of them
beside numbers: of a node that says something else each time not everything is kept."""


class Parts:
    """Takes the facts of all nodes of one fleet."""

    def __init__(self, tables: Mapping[Scope, Columns], place: Place) -> None:
        """Fill `tables`; `place` finds room for a block of devices as FleetState does."""
        self._tables = tables
        self._place = place
        self._counting = {
            group: [scope for scope, columns in tables.items() if group in columns.counting]
            for group in {group for columns in tables.values() for group in columns.counting}
        }
        """By group: the tables that have counters of it."""
        self._shared: dict[Hashable, Any] = {}
        self._text = 0
        """Characters of what is said in what is shared."""
        self._numbers: dict[int, tuple[int, Devices]] = {}
        self._last_number = 0

    def take(self, node: NodeState, frame: Frame, mono: float, facts: Facts, every_s: float) -> bool:
        """Take one part; `mono` is the node's clock at its reading. Return False when it tells nothing: it means that
        nothing has changed since a part that was missed, or is of the past. A reading that is sent once more, because
        all groups were asked for, is neither."""
        group = facts.group
        known_mono = node.part_mono.get(group, -np.inf)
        if mono < known_mono or (facts.same and group not in node.whole):
            return False
        is_again = mono == known_mono
        if is_again and group in node.whole:
            return True
        if group not in node.part_mono and len(node.part_mono) >= _MOST_GROUPS:
            return False
        node.part_mono[group] = mono
        every_s = min(max(every_s, _EVERY_S[0]), _EVERY_S[1]) if every_s else 30.0
        every_s = self._share(("every", every_s), every_s)
        if not is_again or group not in node.parts:
            node.parts = PartAges(node.parts, group, PartAge(frame.received_mono, every_s))
        node.published = None
        if facts.same:
            self._same(node, group, mono)
            return True
        if group not in node.whole:
            node.whole = self._share(("whole", both := node.whole | {group}), both)
        dropped = self._put_known(node, mono, facts)
        for scope in DEVICE_SCOPES:
            columns = self._tables[scope]
            found = facts.devices.get(scope)
            if found is not None or group in columns.groups:
                is_timed = mono - known_mono >= MIN_INTERVAL_S
                dropped += self._put_devices(node, scope, columns, frame, mono, facts, every_s, is_timed=is_timed)
        self._hear(node, facts)
        node.touch()
        if dropped:
            node.bad_line(dropped)
            node.whole -= {group}
            node.complete = False
        return True

    def _same(self, node: NodeState, group: str, mono: float) -> None:
        """Take that nothing has changed: counters were read again, and stand still."""
        for scope in self._counting.get(group, ()):
            first, count = rows_in(node, scope)
            self._tables[scope].put(
                first, count, None, {}, mono, full=False, complete=True, group=group, changed=node.touch
            )

    def blocks(self, node: NodeState) -> list[tuple[Scope, int, int]]:
        """Return the first row and the number of rows that `node` has in each table."""
        return [(scope, *rows_in(node, scope)) for scope in (*OF_FRAMES, *node.blocks)]

    def _put_known(self, node: NodeState, mono: float, facts: Facts) -> int:
        """Put what is about the node and its GPUs; return how many lists were dropped."""
        self._tables[Scope.NODE].put_one(node.index, facts.node, mono, full=True, complete=True, group=facts.group)
        return self._tables[Scope.GPU].put(
            node.gpu_first, len(node.gpus), node.gpu_order, facts.gpu, mono,
            full=True, complete=True, group=facts.group,
        )  # fmt: skip

    def _put_devices(
        self, node: NodeState, scope: Scope, columns: Columns, frame: Frame, mono: float, facts: Facts, every_s: float,
        *, is_timed: bool,
    ) -> int:  # fmt: skip
        found = facts.devices.get(scope, _NOTHING)
        known = node.blocks.get(scope)
        number = self._number(scope, found)
        if number and known is not None and known.found == number and known.marks == columns.marks:
            # Many nodes say the same of their devices time and again, and then share what is read of it.
            columns.put(known.first, len(known.names), None, {}, mono, full=False, complete=True, group=facts.group)
            self._mark_gone(node, scope, columns, known)
            return 0
        if found.whole:
            if known is None or found.names != known.listed:
                found = _bounded(found, most_of(scope))
            self._list(node, scope, columns, found.names)
        elif known is None:
            node.early[facts.group] = (frame, mono, facts, every_s)
            return 0
        block = node.blocks.setdefault(scope, Block())
        order, values = block.order, found.values
        if not found.whole:
            order, values = _known(block, found)
        count = len(block.names)
        dropped = columns.put(
            block.first, count, None if order == _in_a_row(count) else order, values, mono,
            full=True, complete=True, group=facts.group,
        )  # fmt: skip
        if len(order) < len(block.order) and facts.group in columns.groups:
            unnamed = sorted(set(block.order).difference(order))
            columns.lack(rows_of(block.first, count, unnamed), facts.group)
        self._mark_gone(node, scope, columns, block)
        if found.whole:
            # A part just behind another one is passed over: not all that it says was taken.
            block.found = number if is_timed and not dropped else 0
            if block.marks != columns.marks:
                block.marks = columns.marks
                columns.began(block.first, count, frame.received_wall)
            for group in [*node.early]:
                if scope in node.early[group][2].devices:
                    early = node.early.pop(group)
                    dropped += self._put_devices(node, scope, columns, *early, is_timed=False)
        return dropped

    def _list(self, node: NodeState, scope: Scope, columns: Columns, names: tuple[str, ...]) -> None:
        """Take which devices there are."""
        block = node.blocks.setdefault(scope, Block())
        if names == block.listed and (names or block.first >= 0):
            return
        before, there = block.names, set(block.order)
        known, block.order, new = merge_names(before, names, most_of(scope))
        block.order = self._share(("order", block.order), block.order)
        block.first, block.room = self._place(scope, block.first, block.room, len(before), len(known), new)
        block.names, block.listed = self._share(known, known), self._share(names, names)
        back = [block.first + position for position in block.order if position not in there and position not in new]
        columns.mark(back, Reason.WAITING)
        devices = {**node.devices, scope: block.names}
        node.devices = self._share(("devices", *devices.items()), devices)
        node.device_first = {**node.device_first, scope: block.first}

    def _mark_gone(self, node: NodeState, scope: Scope, columns: Columns, block: Block) -> None:
        if len(block.order) < len(block.names):
            gone = sorted(set(range(len(block.names))).difference(block.order))
            # A driver that does not answer names no links: they are where they were.
            is_of_driver = scope is Scope.NVLINK and node.notes.get("nvml")
            reason = gone_reason(node.notes["nvml"]) if is_of_driver else Reason.LOST
            columns.mark([block.first + position for position in gone], reason)

    def _hear(self, node: NodeState, facts: Facts) -> None:
        # What says the same again is the same object: pictures of before may have it too.
        if facts.processes is not None and facts.processes != node.processes:
            node.processes = facts.processes
        if facts.tasks is not None and facts.tasks != node.tasks:
            node.tasks = facts.tasks
        said = (
            facts.group,
            *[
                (scope, name, *words.items())
                for scope, found in facts.devices.items()
                for name, words in found.about.items()
            ],
        )
        gpu_words = {id_: _in_order(words, node) for id_, words in facts.gpu_words.items()}
        before = node.told.get(facts.group)
        told = Told(
            said, before.about if before else _EMPTY, facts.words or _EMPTY, gpu_words or _EMPTY, facts.notes or _EMPTY
        )
        if told == before:
            return
        told = replace(told, words=self._words(told.words), gpu_words=self._words(told.gpu_words))
        if before is None or before.said != said:
            about = {
                (scope, name): words for scope, found in facts.devices.items() for name, words in found.about.items()
            }
            told = replace(told, said=self._share_text(("said", said), said), about=self._share(("about", said), about))
        else:
            told = replace(told, said=before.said)
        # These stay where they are for as long as what is shared has them.
        of = (id(told.said), id(told.about), id(told.words), id(told.gpu_words), *told.notes.items())
        node.hears(facts.group, self._share_text(("told", of), told, told.notes))
        node.words, node.gpu_words = self._words(node.words), self._words(node.gpu_words)
        if before is None or before.said != said:
            every = node.told.values()
            whole = {device: words for one in every for device, words in one.about.items()}
            node.about = self._share(("all", *[one.said for one in every]), whole)

    def _number(self, scope: Scope, found: Devices) -> int:
        """Return the number of what is said of links, the same for the same object; 0 for other devices, of which no
        two nodes say the same."""
        if scope is not Scope.NVLINK or not found.whole:
            return 0
        numbered = self._numbers.get(id(found))
        if numbered is None:
            if len(self._numbers) >= _MOST_NUMBERED:
                self._numbers.clear()
            self._last_number += 1
            numbered = self._numbers[id(found)] = self._last_number, found
        return numbered[0]

    def _words(self, words: Mapping[str, T]) -> Mapping[str, T]:
        """Return words of a node, or of its GPUs, each the same as those of other nodes."""
        items = tuple([(self._share(id_, id_), self._share(word, word)) for id_, word in words.items()])
        return self._share_text(("words", items), dict(items))

    def _share_text(self, key: Hashable, value: T, text: object = None) -> T:
        """Return what `_share` does; where no other node has it, its `text`, or all of it, is counted."""
        shared: T = self._share(key, value)
        if shared is value:
            self._text += len(repr(value if text is None else text))
        return shared

    def _share(self, key: Hashable, value: Any) -> Any:
        """Return the value of that key which another node has, if one has it, else this one."""
        if len(self._shared) >= _MOST_SHARED or self._text > _MOST_TEXT:
            self._shared.clear()
            self._text = 0
        return self._shared.setdefault(key, value)


def rows_in(node: NodeState, scope: Scope) -> tuple[int, int]:
    """Return the first row and the number of rows that a node has in the table of `scope`."""
    if scope is Scope.NODE:
        return node.index, 1
    if scope is Scope.GPU:
        return node.gpu_first, len(node.gpus)
    if scope is Scope.PORT:
        return node.port_first, len(node.ports)
    block = node.blocks.get(scope)
    return (-1, 0) if block is None else (block.first, len(block.names))


@lru_cache(maxsize=1024)
def _in_a_row(count: int) -> tuple[int, ...]:
    return tuple(range(count))


_NOTHING = Devices((), {}, whole=False)
_EMPTY: Mapping[Any, Any] = MappingProxyType({})
"""Most groups say nothing of most kinds of things."""


def _bounded(found: Devices, most: int) -> Devices:
    """Return devices with each name once, and no more than `most`."""
    if len(found.names) <= most and len(set(found.names)) == len(found.names):
        return found
    at = [position for position, name in enumerate(found.names) if found.names.index(name) == position][:most]
    values = {
        metric: [cells[position] for position in at]
        for metric, cells in found.values.items()
        if len(cells) == len(found.names)
    }
    return Devices(tuple(found.names[position] for position in at), values, found.about)


def _known(block: Block, found: Devices) -> tuple[tuple[int, ...], Mapping[str, Sequence[Cell]]]:
    """Return the positions of those devices that are there now, and their values."""
    there = {block.names[position]: position for position in block.order}
    at = {there[name]: number for number, name in enumerate(found.names) if name in there}
    values = {
        metric: [cells[number] for number in at.values()]
        for metric, cells in found.values.items()
        if len(cells) == len(found.names)
    }
    return tuple(at), values


def _in_order(words: tuple[str, ...], node: NodeState) -> tuple[str, ...]:
    """Return words about the listed GPUs in the order of the node's inventory, empty for those that are not listed."""
    order = node.gpu_order
    if order is None:
        return words if len(words) == len(node.gpus) else ()
    if len(words) != len(order):
        return ()
    by_row = dict(zip(order, words, strict=True))
    return tuple(by_row.get(position, "") for position in range(len(node.gpus)))
