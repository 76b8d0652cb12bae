"""The filter of the fleet screen: typed in place of the cursor line, at work while it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.screens.fleet_keys import FleetKeys
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from textual.widgets import Input

    from stethoscope.analysis.filter import Completion
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Row
    from stethoscope.ui.widgets.filter_field import FilterField


class FleetFilter(FleetKeys):
    """What typing a filter does; while the field is open it stands in place of the cursor line."""

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`."""
        super().__init__(console)
        self.filters: list[str] = []
        """Filters that were used before, newest first."""
        self._before = ""
        self._field: FilterField | None = None

    def show_line(self, name: str, row: Row) -> None:
        """Show `row` in the line of that name."""
        self.query_one(f"#{name}", Lines).show([row])

    def action_edit_filter(self) -> None:
        """Open the filter's field in place of the cursor line."""
        from stethoscope.ui.widgets.filter_field import FilterField

        if self._field is None and self._snapshot is not None:
            self._before = self.chosen.filter
            self._field = FilterField(self._owner, self.chosen.filter, self.filters, self._complete)
            self.mount(self._field, before="#keys")
            self.query_one("#cursor", Lines).add_class("-gone")
            self._field.focus()
            self.draw_filter()

    def _complete(self, text: str, cursor: int) -> Completion:
        from stethoscope.analysis.filter import completion

        assert self._snapshot is not None
        return completion(text, cursor, self._snapshot)

    def draw_filter(self) -> bool:
        """Draw the field with what is around it; False when it is not open."""
        from stethoscope.analysis.filter_complete import meaning_of
        from stethoscope.ui.present.filter_line import FilterLine, below_row

        field, grid, cells, glyphs = self._field, self._grid, self.size.width, self._owner.glyphs
        if field is None or grid is None or grid.assessment is None:
            return False
        fits, hidden = grid.filtered()
        candidates, at = field.candidates
        chosen = "" if at is None or at >= len(candidates) else candidates[at]
        line = FilterLine(
            field.value,
            field.cursor_position,
            error=grid.mistake,
            candidates=candidates,
            chosen=at,
            meaning=meaning_of(chosen, grid.snapshot.catalogue) if chosen else "",
            fits=fits,
            nodes=len(grid.snapshot.nodes),
            hidden=hidden,
        )
        field.show(line)
        dot = f" {glyphs.dot} "
        words = dot.join(("tab completes", "up brings back", "enter keeps", "escape drops"))
        self.show_line("rule-bottom", rule(cells, glyphs, words))
        self.show_line("keys", below_row(line, cells, glyphs))
        return True

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        self.set_filter(event.value)

    def on_filter_field_looked(self) -> None:
        """Show what can stand at the cursor."""
        self.draw_filter()

    def on_input_submitted(self) -> None:
        """Keep the filter and give the keys back to the nodes; one that cannot be read is not kept."""
        from stethoscope.ui.present.filter_line import remembered

        if self._grid is not None and self._grid.mistake is not None:
            self.app.bell()
            return
        self.filters = remembered(self.filters, self.chosen.filter)
        self.close_filter()
        self.draw()

    def close_filter(self) -> bool:
        """Close the filter's field; False when it was not open."""
        if self._field is None:
            return False
        self._field.remove()
        self._field = None
        self.query_one("#cursor", Lines).remove_class("-gone")
        self.view.focus()
        replay, drill = self._owner.replay is not None, self._owner.drill is not None
        self.show_line("keys", footer(footer_of("fleet", replay=replay, drill=drill), self.size.width))
        return True

    def drop_filter(self) -> bool:
        """Close the filter's field and show again what was shown before it; False when it was not open."""
        if not self.close_filter():
            return False
        self.set_filter(self._before)
        return True

    def set_filter(self, text: str) -> None:
        """Show only the nodes that fit `text`."""
        self.chosen.filter = text.strip()
        self.draw()
