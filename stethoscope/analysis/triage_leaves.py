"""Leaf switches behind which the ports of a job wait longer than elsewhere, and who else sends through them."""

from __future__ import annotations

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
    waits = {leaf: _median(table, "ib_port_xmit_wait", rows) for leaf, rows in mine.items()}
    for leaf in sorted(waits):
        rest = [wait for other, wait in waits.items() if other != leaf and not np.isnan(wait)]
        usual = float(np.median(rest)) if len(rest) >= _LEAST_OTHERS - 1 else np.nan
        if len(mine[leaf]) < _LEAST_PORTS or not waits[leaf] > _TIMES * usual > 0:
            continue
        yield "leaf_waits", f"leaf/{leaf}", round(waits[leaf] / usual, 1)
        sent = _median(table, "ib_port_xmit_data", mine[leaf])
        foreign = _most(table, "ib_port_xmit_data", others.get(leaf, []))
        if foreign > _FOREIGN * sent > 0:
            yield "leaf_foreign", f"leaf/{leaf}", round(foreign / sent, 1)


def _values(table: Table, metric: str, rows: list[int]) -> list[float]:
    number = table.index[metric]
    known = np.asarray(table.reasons[number, rows]) == 0
    return [float(value) for value in np.asarray(table.values[number, rows], dtype=np.float64)[known]]


def _median(table: Table, metric: str, rows: list[int]) -> float:
    values = _values(table, metric, rows) if rows else []
    return float(np.median(values)) if values else float("nan")


def _most(table: Table, metric: str, rows: list[int]) -> float:
    values = _values(table, metric, rows) if rows else []
    return max(values, default=0.0)
