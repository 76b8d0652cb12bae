"""Two who edited one incident: both shown, and nothing written before somebody says what."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.incident_conflict import conflict_rows
from stethoscope.ui.present.incident_merge import merged
from stethoscope.ui.present.spans import Row, Span, Tone, fit
from stethoscope.ui.screens.pages import PlacedScreen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.binding import BindingType

    from stethoscope.model.incident import Incident
    from stethoscope.store.incidents import Reading, Version
    from stethoscope.ui.app import StethoscopeApp


class ToWrite(NamedTuple):
    """What is to be written, and over what: None for a new file."""

    incident: Incident
    over: Version | None


class ConflictScreen(PlacedScreen):
    """What the file says now and what stands in the form, field by field; going back writes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("conflict", moves=True)
    part = "conflict"

    def __init__(
        self,
        console: StethoscopeApp,
        mine: Incident,
        theirs: Reading | None,
        base: Incident | None,
        take: Callable[[ToWrite], object],
    ) -> None:
        """Show `mine` beside `theirs`, what the file says now (None where it is gone); both were made of `base`. What
        is to be written is given to `take`."""
        super().__init__(console)
        self._mine = mine
        self._theirs = theirs
        self._base = base
        self._take = take

    def title_row(self, cells: int) -> Row:
        """Return which incident it is, and what happened."""
        title = (Span(f" {self._mine.id}", Tone.TITLE), Span("  somebody else changed it meanwhile", Tone.WARNING))
        return fit(title, cells, self._owner.glyphs.ellipsis)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the fields."""
        theirs = self._theirs.incident if self._theirs is not None else None
        why = self._theirs.troubles[0].message if self._theirs is not None and self._theirs.troubles else ""
        return conflict_rows(self._mine, theirs, self._base, cells, why)

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
                self._write(ToWrite(self._mine, None))
            else:
                self._owner.tell("the file is gone: m writes yours as a new one, escape goes back")
        elif theirs.incident is None:
            # A broken file is somebody's work all the same: it is mended by hand, never written over.
            self._owner.tell("the file cannot be read now: mend it first, your text is kept as a draft", seconds=10)
        else:
            both = merged(self._mine, theirs.incident, self._base, prefer_mine=prefer_mine)
            self._write(ToWrite(both, theirs.version))

    def _write(self, chosen: ToWrite) -> None:
        self._owner.pop_screen()
        self._take(chosen)
