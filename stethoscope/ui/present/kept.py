"""The form in which choices, selection and cursor are kept from one start to the next."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from stethoscope.ui.present.filter_line import MOST_REMEMBERED
from stethoscope.ui.present.view import LONGEST, View

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stethoscope.session.view_state import ViewState

_MOST = 20_000
"""Selected nodes that are read."""
_LONGEST = 255


def to_keep(view: View, marked: Collection[str], cursor: str | None, filters: Sequence[str] = ()) -> dict[str, object]:
    """Return what is kept; `cursor` is the row that it stands on, None when it follows the first one."""
    return {"view": view.to_dict(), "selected": sorted(marked), "cursor": cursor, "filters": list(filters)}


def read_kept(said: Mapping[str, object]) -> tuple[View, set[str], str | None, list[str]]:
    """Return view, selection, cursor and history of filters; what is not as it should be is as at the first start."""
    view, selected, cursor = said.get("view"), said.get("selected"), said.get("cursor")
    filters = said.get("filters")
    texts = filters if isinstance(filters, list) else []
    names = selected if isinstance(selected, list) else []
    return (
        View.from_dict(view) if isinstance(view, dict) else View(),
        {name for name in names[:_MOST] if isinstance(name, str) and len(name) <= _LONGEST},
        cursor if isinstance(cursor, str) and len(cursor) <= 2 * _LONGEST else None,
        [
            text
            for text in texts[:MOST_REMEMBERED]
            if isinstance(text, str) and text.isprintable() and len(text) <= LONGEST
        ],
    )


def keep(memory: ViewState, said: Mapping[str, object]) -> None:
    """Write it; a directory that cannot be written costs nothing but what would be kept."""
    with suppress(OSError):
        memory.save(said)
