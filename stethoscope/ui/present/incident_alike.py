"""What looks like it in the past, as rows: which incident, what fixed it, and why it looks alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.text import clean
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.present.wrapped import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stethoscope.model.incident import Lemon

LABEL = "looks like"
_LONGEST, _MOST_LINES = 240, 3


def alike_rows(similar: Iterable[Mapping[str, Any]], cells: int, label_cells: int, label: str = LABEL) -> Iterator[Row]:
    """Return rows of matches as `Match.as_json` writes them, behind a label of `label_cells`."""
    for one in similar:
        for number, line in enumerate(_lines(one, cells - label_cells - 2)):
            yield (Span(f" {label:<{label_cells}}", Tone.QUIET), Span(line, Tone.QUIET if number else Tone.PLAIN))
            label = ""


def _lines(one: Mapping[str, Any], cells: int) -> Sequence[str]:
    fixed = clean(" ".join(str(one.get("fixed_by") or "").split()), _LONGEST)
    helps = "helps" if one.get("status") == "reference" else "fixed by"
    told = f"{helps}: {fixed}" if fixed else "nobody wrote down what fixed it"
    reasons = ", ".join(clean(str(reason), 60) for reason in one.get("reasons") or ())
    kind = "  reference" if one.get("status") == "reference" else ""
    head = f"{clean(str(one.get('id')), 40)}{kind}  {clean(str(one.get('title')), 120)}"
    first = f"{head}  ({reasons})" if reasons else head
    return [*wrap(first, cells)[:_MOST_LINES], *wrap(told, cells, "  ", "  ")[:_MOST_LINES]]


def lemon_rows(lemons: Iterable[Lemon], cells: int, label_cells: int, sign: str) -> Iterator[Row]:
    """Return rows about parts that keep coming back; `sign` is that of a warning."""
    label = "again"
    for lemon in lemons:
        text = f"{sign} {lemon.place}: {lemon.advice}  ({', '.join(lemon.incidents[:3])})"
        for number, line in enumerate(wrap(text, cells - label_cells - 2)[:_MOST_LINES]):
            yield (Span(f" {label:<{label_cells}}", Tone.QUIET), Span(line, Tone.QUIET if number else Tone.WARNING))
            label = ""
