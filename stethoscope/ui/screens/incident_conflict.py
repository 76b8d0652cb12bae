"""Two who edited one incident: both shown, and nothing written before somebody says what."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding
from textual.screen import ModalScreen

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import footer, position, rule
from stethoscope.ui.present.incident_conflict import conflict_rows
from stethoscope.ui.present.incident_merge import merged
from stethoscope.ui.present.spans import Span, Tone, fit
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.model.incident import Incident
    from stethoscope.store.incidents import Reading, Version
    from stethoscope.ui.app import StethoscopeApp


class ToWrite(NamedTuple):
    """What is to be written, and over what: None for a new file."""

    incident: Incident
    over: Version | None


class ConflictScreen(ModalScreen[ToWrite | None]):
    """What the file says now and what stands in the form, field by field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("conflict", moves=True),
        Binding("escape", "back_to_form", show=False, priority=False),
    ]
    AUTO_FOCUS = "RowsView"
    part = "conflict"

    def __init__(self, console: StethoscopeApp, mine: Incident, theirs: Reading | None, base: Incident | None) -> None:
        """Show `mine` beside `theirs`, what the file says now (None where it is gone); both were made of `base`."""
        super().__init__()
        self._owner = console
        self._mine = mine
        self._theirs = theirs
        self._base = base

    def compose(self) -> ComposeResult:
        """Lay out a title, the fields, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="values")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Draw."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    def _draw(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        title = (Span(f" {self._mine.id}", Tone.TITLE), Span("  somebody else changed it meanwhile", Tone.WARNING))
        self.query_one("#top", Lines).show([fit(title, cells, glyphs.ellipsis)])
        self.query_one("#rule-top", Lines).show([rule(cells, glyphs)])
        view = self.query_one(RowsView)
        theirs = self._theirs.incident if self._theirs is not None else None
        why = self._theirs.troubles[0].message if self._theirs is not None and self._theirs.troubles else ""
        view.show(conflict_rows(self._mine, theirs, self._base, view.cells or cells, why))
        words = position(view.scroll_offset.y, view.size.height, view.line_count(), glyphs)
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs, words)])
        self.query_one("#keys", Lines).show([footer(footer_of(self.part), cells)])

    def action_move(self, rows: int, _columns: int) -> None:
        """Scroll."""
        view = self.query_one(RowsView)
        view.scroll_to(y=view.scroll_offset.y + rows, animate=False, immediate=True)
        self._draw()

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * max(1, self.query_one(RowsView).size.height - 1), 0)

    def action_keep_mine(self) -> None:
        """Write both together; where both changed a field, what stands in the form."""
        self._give(prefer_mine=True)

    def action_keep_theirs(self) -> None:
        """Write both together; where both changed a field, what the file says."""
        self._give(prefer_mine=False)

    def _give(self, *, prefer_mine: bool) -> None:
        theirs = self._theirs
        if theirs is None:
            if prefer_mine:
                self.dismiss(ToWrite(self._mine, None))
            else:
                self._owner.tell("the file is gone: m writes yours as a new one, escape goes back")
        elif theirs.incident is None:
            # A broken file is somebody's work all the same: it is mended by hand, never written over.
            self._owner.tell("the file cannot be read now: mend it first, your text is kept as a draft", seconds=10)
        else:
            both = merged(self._mine, theirs.incident, self._base, prefer_mine=prefer_mine)
            self.dismiss(ToWrite(both, theirs.version))

    def action_back_to_form(self) -> None:
        """Write nothing."""
        self.dismiss(None)
