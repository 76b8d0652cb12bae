"""What stands in the cells of a map of the fleet: how each device, node and group is, and how much of the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.model.metric import Reason
from stethoscope.ui.present.spans import HEAT_LEVELS, Level, Tone, heat_tone

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.ui.present.block_places import Ints
    from stethoscope.ui.present.grid import FleetGrid

    Codes = npt.NDArray[np.uint8]

ABSENT = np.uint8(255)
"""Level of a cell in which nothing stands."""
_MOST_POSITIONS = 16
_HEAT_TONES = np.array([heat_tone(level) for level in range(HEAT_LEVELS)], dtype=np.uint8)
_FAINT = np.uint8(Tone.FAINT)


class Cells(NamedTuple):
    """Cells by item and position."""

    levels: Codes
    signs: Codes
    """The level whose sign is shown: of what has no value, why."""
    tones: Codes
    """Of the magnitude: faint where it is like that of most."""
    heats: Codes


def device_rows(grid: FleetGrid, order: Ints) -> Ints:
    """Return, for the nodes of `order` and the positions in them, the rows of the metric's table, -1 for none."""
    assert grid.assessment is not None
    owners = grid.assessment.owners.get(grid.metric.scope)
    if owners is None:
        return order[:, None]
    owner, place = owners
    known = np.flatnonzero((owner >= 0) & (place < _MOST_POSITIONS))
    positions = int(place[known].max()) + 1 if known.size else 1
    rows = np.full((len(grid.snapshot.nodes), positions), -1, dtype=np.int64)
    rows[owner[known], place[known]] = known
    return rows[order]


def cells_of(grid: FleetGrid, order: Ints, rows: Ints) -> tuple[Cells, Cells]:
    """Return the cells of the devices in `rows`, and one cell for each node of `order`: its level, and the magnitude of
    that device which is least like the others."""
    assert grid.assessment is not None
    table = grid.snapshot.tables[grid.metric.scope]
    column = table.index[grid.metric.id]
    there = rows >= 0
    row_tones: Codes | None = None
    distance = grid.deviation
    own = grid.own_levels
    if there.any():
        row_heats = grid.heat.astype(np.int64)
        present = table.reasons[column] == Reason.PRESENT
        usual = int(np.median(row_heats[present])) if present.any() else 0
        odd = grid.deviating(table.values[column]) | (np.abs(row_heats - usual) > 1)
        if distance is not None:
            row_heats, present, usual = distance.heats.astype(np.int64), distance.reasons == Reason.PRESENT, 0
            odd = distance.beyond
            own = np.where(present, own, np.maximum(own, np.uint8(Level.MISSING)))
        safe = np.where(there, rows, 0)
        levels = np.where(there, grid.levels[safe], ABSENT)
        signs = np.where(there, np.where(present, grid.levels, own)[safe], ABSENT)
        heats = np.where(there, np.clip(row_heats[safe], 0, HEAT_LEVELS - 1), 0)
        loud = there & odd[safe]
        if distance is not None:
            row_tones = distance.tones[safe]
    else:
        # No node has sent anything yet.
        usual, loud = 0, there
        levels, heats = np.full(rows.shape, ABSENT), np.zeros(rows.shape, dtype=np.int64)
        signs = levels
    away = np.array(grid.assessment.ages, dtype=np.uint8)[order][:, None]
    gone = (away > 0) & (there | ~there.any(axis=1, keepdims=True))
    levels = np.where(gone, away, levels).astype(np.uint8)
    signs = np.where(gone, away, signs).astype(np.uint8)
    tones = np.where(loud, _HEAT_TONES[heats] if row_tones is None else row_tones, _FAINT)
    least_like = np.where(there, np.abs(heats - usual) + HEAT_LEVELS * loud, -1).argmax(axis=1)[:, None]
    devices = Cells(levels, signs, tones, heats.astype(np.uint8))
    node_levels = grid.assessment.nodes[order][:, None]
    nodes = Cells(
        node_levels,
        node_levels,
        np.take_along_axis(devices.tones, least_like, axis=1),
        np.take_along_axis(devices.heats, least_like, axis=1),
    )
    return devices, nodes


def by_group(nodes: Cells, sizes: list[int]) -> Cells:
    """Return one cell for each group of nodes, which stand in the order of the groups: the worst level, and the mean of
    the magnitude, faint where most nodes are."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    worst = np.zeros(len(sizes), dtype=np.uint8)
    np.maximum.at(worst, group, nodes.levels[:, 0])
    members = np.maximum(np.array(sizes), 1)
    mean = np.rint(np.bincount(group, nodes.heats[:, 0], minlength=len(sizes)) / members).astype(np.uint8)
    loud = np.bincount(group, nodes.tones[:, 0] != _FAINT, minlength=len(sizes)) > members / 2
    tones = np.where(loud, _HEAT_TONES[mean], _FAINT)
    return Cells(worst[:, None], worst[:, None], tones[:, None], mean[:, None])
