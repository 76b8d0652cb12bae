"""The section of what happened to a node before, and the warning that it, or a part of it, keeps coming back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.incident import Status
from stethoscope.ui.present.node.view import Line, Section, View, text_line
from stethoscope.ui.present.spans import Level, Tone

if TYPE_CHECKING:
    from stethoscope.model.incident import Incident

SECTION = "history"
_MOST = 12


def history(view: View) -> Section | None:
    """Return the section of the incidents of a node; none where nothing is recorded."""
    if not view.incidents and not view.lemons:
        return None
    count, latest = len(view.incidents), view.incidents[0] if view.incidents else None
    said = [f"{count} incident{'s' if count != 1 else ''} recorded"]
    if latest is not None and latest.at is not None:
        said.append(f"the last {iso(latest.at)[:10]}")
    if view.lemons:
        said.append(view.lemons[0].advice)
    level = Level.WARNING if view.lemons else 0
    return Section(SECTION, "History", level, f" {view.glyphs.dot} ".join(said), _body)


def _body(view: View) -> list[Line]:
    lines = [
        text_line(view, SECTION, _part(lemon.place), lemon.advice, level=Level.WARNING, key=f"again {lemon.place}")
        for lemon in view.lemons
    ]
    for one in view.incidents[:_MOST]:
        day = iso(one.at)[:10] if one.at is not None else "no day"
        tone = Tone.PLAIN if one.status is Status.OPEN else Tone.QUIET
        lines.append(text_line(view, SECTION, day, _words(one, view), tone, key=one.id))
    if len(view.incidents) > _MOST:
        lines.append(text_line(view, SECTION, "", f"and {len(view.incidents) - _MOST} more: I shows them", key="more"))
    return lines


def _words(one: Incident, view: View) -> str:
    fixed = " ".join(one.resolution.split())
    told = f"fixed by: {fixed}" if fixed else one.status.value
    return f" {view.glyphs.dot} ".join((one.title or "(no title)", told, one.id))


def _part(place: str) -> str:
    return place.partition("/")[2] or "this node"
