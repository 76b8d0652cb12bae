"""The drift screen: which nodes differ from the others in versions and settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from stethoscope.analysis.drift import comparison
from stethoscope.analysis.history import MANY_NODES
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.drift import drift_lines, drift_title
from stethoscope.ui.screens.pages import LinesScreen
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from textual.binding import BindingType

    from stethoscope.analysis.drift import DriftTable
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.drift import Line
    from stethoscope.ui.present.spans import Row

COMPARE_S, COMPARE_MANY_S = 3.0, 15.0
"""What is compared is read once a minute or more rarely, and 2,000 nodes take more than a tenth of a second, ..."""
PAUSE_S = 0.01
"""... which is done in steps with this between, so that keys need not wait."""


class DriftScreen(LinesScreen):
    """A line for everything that is compared, and below it those who differ."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("drift", moves=True)
    part = "drift"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`."""
        super().__init__(console)
        self._snapshot: FleetSnapshot | None = None
        self._table: DriftTable | None = None
        self._compared_mono = 0.0
        self._steps: Generator[None, None, DriftTable] | None = None
        self._now_wall = 0.0
        self._lines: list[Line] = []
        self._chosen = 0

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Take the state of this moment, and compare it now and then."""
        self._now_wall = now_wall
        every_s = COMPARE_S if len(snapshot.nodes) <= MANY_NODES else COMPARE_MANY_S
        is_due = self._table is None or not 0 <= now_mono - self._compared_mono < every_s
        if self._steps is None and is_due:
            self._compared_mono, self._steps = now_mono, comparison(snapshot)
            self._compare(snapshot)
        self.draw()

    def _compare(self, snapshot: FleetSnapshot) -> None:
        """Go on with the comparison; that of a small fleet is done at once."""
        if self._steps is None:
            return
        is_small = len(snapshot.nodes) <= MANY_NODES
        try:
            next(self._steps)
            while is_small:
                next(self._steps)
        except StopIteration as end:
            self._snapshot, self._table, self._steps = snapshot, end.value, None
        else:
            self.set_timer(PAUSE_S, partial(self._compare, snapshot))

    def draw(self) -> None:
        """Draw the newest comparison."""
        # A picture can be due before the screen is laid out, and while it is taken away.
        if self._table is None or self._snapshot is None or not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width, self._owner.glyphs
        replay = self._owner.replay.state if self._owner.replay is not None else None
        title = drift_title(self._table, self._snapshot, self._now_wall, cells, glyphs, replay=replay)
        self.query_one("#top", Lines).show([title])
        said = self._lines[self._chosen].says if self._chosen < len(self._lines) else ""
        self._lines = drift_lines(self._table, glyphs, (view.cells or cells) - 1)
        # The cursor stays on what it stood on when lines come above it.
        same = [number for number, line in enumerate(self._lines) if said and line.says == said]
        if same and self._chosen not in same:
            self._chosen = same[0]
        self._chosen = max(0, min(self._chosen, len(self._lines) - 1))
        self.show_lines()

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        return [line.row for line in self._lines]

    def leads(self, number: int) -> bool:
        """Tell that the cursor can stand on every line."""
        return True

    def action_open_nodes(self) -> None:
        """Open the node that the line is about, or ask which of several."""
        if not self._lines or self._snapshot is None:
            return
        line = self._lines[self._chosen]
        if len(line.nodes) == 1:
            self._owner.open_node(line.nodes[0])
        elif line.nodes:
            choices = [(name, line.says, name) for name in line.nodes]
            self._owner.choose("node", choices, self._owner.open_node)
        else:
            self._owner.tell("all nodes have the same here")
