"""Where nodes stand on a map of the whole fleet: slots of a few characters, one node or two in each, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stethoscope.ui.present.spans import width

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

NAME_LIMIT = 20
_BETWEEN = 2
"""Blanks between two groups on a line."""


class Zoom(IntEnum):
    """How close the map is looked at."""

    GROUP = 0
    """One tile for each group."""
    NODE = 1
    """One cell for each node."""
    GPU = 2
    """One cell for each GPU (or port), nodes without names."""
    NAME = 3
    """One line for each node, with its name."""


class Section(NamedTuple):
    """Nodes that stand together."""

    label: str
    """Name of the group, empty where nothing is grouped."""
    nodes: tuple[int, ...]
    """Indices into the snapshot's nodes."""


@dataclass(frozen=True, slots=True)
class Form:
    """How one item (a node; at Zoom.GROUP a group) is drawn."""

    zoom: Zoom
    halves: bool
    """Two items share a line, each has the upper or the lower half of every character."""
    lead: int
    """Characters before the cells; the first of them is the item's sign."""
    cells: int
    gap: int
    """Blanks behind the cells."""
    label: int = 0
    """Characters for the name of a group, or of the first node of a line."""
    ruled: bool = False
    """Labels stand at the left edge, one for each line."""
    broken: bool = False
    """A group begins wherever there is room and goes on in the next line."""

    @property
    def width(self) -> int:
        """Return the characters of a slot."""
        return self.lead + self.cells + self.gap

    def stops(self) -> Ints:
        """Return the places in a slot on which the cursor can stand: the sign, then the cells."""
        count = 0 if self.zoom in (Zoom.GROUP, Zoom.NODE) else self.cells
        return np.concatenate(([0], self.lead + np.arange(count, dtype=np.int64)))


@dataclass(frozen=True, slots=True)
class Places:
    """The place of every item, in the order of the items."""

    form: Form
    lines: int
    line: Ints
    column: Ints
    """Of the first character of the item's slot."""
    lower: npt.NDArray[np.bool_]
    labels: tuple[tuple[int, int], ...]
    """Line and column of the label of each section that has one."""
    owner: Ints
    """By line (by half line where two share one) and column: the item on which the cursor stands there, -1 for none."""

    def row(self, item: int) -> int:
        """Return the row of `owner` in which an item stands."""
        return int(self.line[item]) * 2 + int(self.lower[item]) if self.form.halves else int(self.line[item])


def arrange(sizes: Sequence[int], labelled: bool, form: Form, cells: int) -> Places:
    """Return where items stand that come in sections of `sizes`, on lines of `cells` characters."""
    each = 2 if form.halves else 1
    lines: list[Ints] = []
    columns: list[Ints] = []
    labels: list[tuple[int, int]] = []
    left = form.label if form.ruled else 0
    lead = form.label if labelled and not form.ruled else 0
    line, x = 0, left
    for size in sizes:
        slots = -(-size // each)
        start = x + _BETWEEN if x > left else x
        fits_whole = start + lead + slots * form.width - form.gap <= cells
        fits_one = start + lead + form.width - form.gap <= cells
        if x > left and not (fits_one if form.broken else fits_whole):
            line, start = line + 1, left
        labels.append((line, start))
        indent = left if form.broken else left + lead
        first = max(1, (cells - start - lead + form.gap) // form.width)
        more = max(1, (cells - indent + form.gap) // form.width)
        slot = np.arange(slots, dtype=np.int64)
        later = slot - first
        lines.append(np.where(later < 0, line, line + 1 + later // more))
        columns.append(
            np.where(later < 0, start + lead + slot * form.width, indent + later % more * form.width),
        )
        if slots:
            line, x = int(lines[-1][-1]), int(columns[-1][-1]) + form.width - form.gap
    return _places(sizes, form, lines, columns, tuple(labels) if labelled and not form.ruled else (), cells)


def _places(
    sizes: Sequence[int],
    form: Form,
    lines: list[Ints],
    columns: list[Ints],
    labels: tuple[tuple[int, int], ...],
    cells: int,
) -> Places:
    each = 2 if form.halves else 1
    empty = np.empty(0, dtype=np.int64)
    line = np.concatenate([np.repeat(some, each)[:size] for some, size in zip(lines, sizes, strict=True)] or [empty])
    column = np.concatenate(
        [np.repeat(some, each)[:size] for some, size in zip(columns, sizes, strict=True)] or [empty],
    )
    lower = np.concatenate(
        [np.arange(size) % each == 1 for size in sizes] or [np.empty(0, dtype=np.bool_)],
    )
    count = int(line[-1]) + 1 if line.size else 0
    stops = form.stops()
    widest = max(cells, int(column.max()) + form.width if column.size else 0)
    owner = np.full((count * each, widest), -1, dtype=np.int64)
    owner[(line * each + lower)[:, None], column[:, None] + stops] = np.arange(line.size)[:, None]
    return Places(form, count, line, column, lower, labels, owner)


def common_prefix(labels: Sequence[str]) -> str:
    """Return what all labels begin with, up to a `-`, `.` or `_`, so that the rest still says which one it is."""
    if len(labels) < 2:
        return ""
    first, last = min(labels), max(labels)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    prefix = first[:same]
    cut = max(prefix.rfind(sign) for sign in "-._") + 1
    return prefix[:cut] if all(len(label) > cut for label in labels) else ""


def forms(zoom: Zoom | None, *, halves: bool, positions: int, names: int, labels: Sequence[str]) -> list[Form]:
    """Return the forms to try, the one that says most first: those of `zoom`, or all from names to nodes for None.

    `names` is the width of the longest node name, `labels` are those of the groups, none where nothing is grouped.
    """
    wide = min(NAME_LIMIT, max((width(label) for label in labels), default=0))
    short = min(wide, max((width(label) - len(common_prefix(labels)) for label in labels), default=0))
    tried: list[Form] = []
    if zoom is Zoom.GROUP and not labels:
        # The groups for which it was chosen are gone.
        zoom = Zoom.NODE
    if zoom is Zoom.GROUP:
        return [Form(Zoom.GROUP, False, 2 + wide + 1 + _COUNTS + 1, 1, 3)]
    if zoom in (None, Zoom.NAME):
        tried.append(Form(Zoom.NAME, False, 2 + min(NAME_LIMIT, names) + 1, positions, 3, wide + bool(wide)))
    for level, lead, cells, gap in ((Zoom.GPU, 1, positions, 0), (Zoom.NODE, 0, 1, 0)):
        if level is Zoom.GPU and positions < 2 and zoom is None:
            # One cell a node is what the next closer look shows as well, with less on the screen.
            continue
        if zoom in (None, level):
            basis = Form(level, halves, lead, cells, gap)
            if labels:
                tried.append(_with(basis, wide + 1, broken=False))
                tried.append(_with(basis, short + 1, broken=False))
                tried.append(_with(basis, short + 1, broken=True))
            else:
                tried.append(_with(basis, min(NAME_LIMIT, names) + 1, ruled=True))
                tried.append(basis)
    return tried


_COUNTS = 9
"""Characters for how many of a group's nodes have something wrong: `12 of 128`."""


def _with(form: Form, label: int, *, ruled: bool = False, broken: bool = False) -> Form:
    return Form(form.zoom, form.halves, form.lead, form.cells, form.gap, label, ruled, broken)


def choose(tried: Sequence[Form], sizes: Sequence[int], labelled: bool, cells: int, height: int) -> Places:
    """Return the first arrangement that fits `height` lines; where none does, the last one, which is scrolled."""
    places: Places | None = None
    for form in tried:
        places = arrange(sizes, labelled, form, cells)
        if places.lines <= height and form.label + form.width - form.gap <= cells:
            break
    assert places is not None
    return places
