"""What two people made of one incident, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.ui.present.incident_merge import differing
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.incident import Incident

_LABEL = 12
_MOST_LINES = 12


def conflict_rows(mine: Incident, theirs: Incident | None, base: Incident | None, cells: int, why: str) -> list[Row]:
    """Return the fields that differ, each as the file says it now and as it stands in the form; `why` says why the
    file cannot be read, where it cannot."""
    if theirs is None:
        words = f"the file cannot be read now: {why}" if why else "the file is gone: removed, or renamed"
        then = "mend it by hand; your text is kept as a draft" if why else "m writes yours as a new file"
        return [(Span(f" {line}", Tone.WARNING),) for line in wrap(f"{words}; {then}", cells - 2)]
    rows: list[Row] = []
    for one in differing(mine, theirs, base):
        both = base is None or one.before not in (one.mine, one.theirs)
        tone = Tone.WARNING if both else Tone.QUIET
        said = "both changed it" if both else "you changed it" if one.theirs == one.before else "they changed it"
        rows.append((Span(f" {one.name}", Tone.TITLE), Span(f"  {said}", tone)))
        rows += _lines("file now", one.theirs, cells)
        rows += _lines("yours", one.mine, cells)
        rows.append(())
    return rows or [(Span(" nothing differs any more", Tone.QUIET),)]


def _lines(label: str, text: str, cells: int) -> Iterator[Row]:
    lines = [part for line in (text.strip() or "(nothing)").splitlines() for part in wrap(line, cells - _LABEL - 2)]
    more = len(lines) - _MOST_LINES
    if more > 0:
        lines = [*lines[:_MOST_LINES], f"... and {more} more lines"]
    for line in lines:
        yield (Span(f"  {label:<{_LABEL - 2}}", Tone.QUIET), Span(line))
        label = ""
