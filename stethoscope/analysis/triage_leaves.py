"""Leaf switches behind which the ports of a job wait longer than elsewhere, and who else sends through them."""

from __future__ import annotations

from bisect import bisect_left
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stethoscope.model.fleet import FleetSnapshot, Node, Table

_TIMES = 4.0
"""The ports of a leaf wait so many times as long as those of the others."""
_LEAST_PORTS, _LEAST_OTHERS = 2, 4
_FOREIGN = 2.0
"""Who is not of the job sends so many times as much as its ports do."""


def waiting_leaves(snapshot: FleetSnapshot, nodes: Iterable[Node]) -> Iterator[tuple[str, str, float]]:
    """Yield `leaf_waits` and `leaf_foreign` with the leaf and how many times as much as elsewhere it is."""
    table = snapshot.tables.get(Scope.PORT)
    if table is None or not {"ib_port_xmit_wait", "ib_port_xmit_data"} <= table.index.keys():
        return
    own = {node.name for node in nodes}
    mine: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}
    for node in snapshot.nodes:
        for position, row in enumerate(snapshot.rows(node, Scope.PORT)):
            leaf = node.leaf(position)
            if leaf:
                (mine if node.name in own else others).setdefault(leaf, []).append(row)
    waits = _of_rows(table, "ib_port_xmit_wait", mine)
    order = sorted(wait for wait in waits.values() if wait is not None)
    for leaf in sorted(waits):
        wait = waits[leaf]
        if wait is None or len(mine[leaf]) < _LEAST_PORTS or len(order) < _LEAST_OTHERS:
            continue
        usual = _without(order, wait)
        if not wait > _TIMES * usual > 0:
            continue
        yield "leaf_waits", f"leaf/{leaf}", round(wait / usual, 1)
        sent = _of_rows(table, "ib_port_xmit_data", {leaf: mine[leaf]})[leaf]
        foreign = _most(table, "ib_port_xmit_data", others.get(leaf, []))
        if sent is not None and foreign > _FOREIGN * sent > 0:
            yield "leaf_foreign", f"leaf/{leaf}", round(foreign / sent, 1)


def _without(order: list[float], value: float) -> float:
    """Return the median of sorted values, one of which is left out."""
    place, left = bisect_left(order, value), len(order) - 1
    below, above = (order[at + (at >= place)] for at in ((left - 1) // 2, left // 2))
    return (below + above) / 2


def _of_rows(table: Table, metric: str, rows: dict[str, list[int]]) -> dict[str, float | None]:
    """Return the median over the rows of each leaf, None where nothing is known."""
    number = table.index[metric]
    values = np.asarray(table.values[number], dtype=np.float64).tolist()
    known = (np.asarray(table.reasons[number]) == 0).tolist()
    found: dict[str, float | None] = {}
    for leaf, own in rows.items():
        said = [values[row] for row in own if known[row]]
        found[leaf] = float(median(said)) if said else None
    return found


def _most(table: Table, metric: str, rows: list[int]) -> float:
    number = table.index[metric]
    known = [row for row in rows if int(table.reasons[number, row]) == 0]
    return max((float(table.values[number, row]) for row in known), default=0.0)
