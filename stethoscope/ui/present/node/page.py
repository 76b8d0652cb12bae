"""The node screen as a page: what is wrong, then the sections, side by side where there is room."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.text import clean
from stethoscope.ui.present.node import about, devices, history, host, links
from stethoscope.ui.present.node.judge import finding_levels, judge
from stethoscope.ui.present.node.view import (
    Line,
    Piece,
    Section,
    Spot,
    View,
    fitted,
    is_open,
    line_width,
    row_of,
)
from stethoscope.ui.present.node.wrong import head, node_title, unseen
from stethoscope.ui.present.spans import Level, Tone, cut, level_tone, plain, width

if TYPE_CHECKING:
    from stethoscope.ui.present.node.judge import Beyond
    from stethoscope.ui.present.spans import Row

WIDE = 160
"""From this width on sections stand side by side."""
ROOMY_LINES = 40
"""From this height on, on a wide screen, the main sections are open although nothing is wrong."""
TEXT_CELLS = 132
"""Width of the page as text."""
_RIGHT = 78
"""Width of the right column, where the left one can spare it."""
_TITLE = 11
_LEFT = ("unseen", "gpus", "nvlink", "fabric", "pcie")


class Page(NamedTuple):
    """The lines of the screen, and where the right column begins."""

    lines: list[Line]
    split: int
    """Cells left of the right column; the whole width when there is one column."""
    open: frozenset[str]
    """Sections that are open."""
    ids: tuple[str, ...]
    """All sections, in their order."""
    worst: int = 0
    """Level of the worst value on it."""


def node_page(view: View) -> Page:
    """Return the page of a node."""
    wrong: list[Beyond] = []
    if host.has_values(view):
        wrong, marks = judge(view)
        view = replace(view, marks=marks)
    lines = head(view, wrong)
    sections = _sections(view, wrong)
    ids = tuple(section.id for section in sections)
    opened = frozenset(section.id for section in sections if is_open(view, section))
    lines.append(())
    worst = max((one.level for one in wrong), default=0)
    if view.cells < WIDE:
        return Page(lines + _column(view, sections), view.cells, opened, ids, worst)
    split = max(106, min(view.cells - _RIGHT, round(view.cells * 0.65)))
    left = _column(view.narrowed(split - 1), [section for section in sections if section.id in _LEFT])
    rest = view.narrowed(view.cells - split)
    right = _column(rest, [section for section in sections if section.id not in _LEFT])
    return Page(lines + _beside(left, right, split, view.glyphs.ellipsis), split, opened, ids, worst)


def _sections(view: View, wrong: list[Beyond]) -> list[Section]:
    """Return the sections in their order, each with the worst level of what is wrong in it."""
    levels = finding_levels(view)
    for one in wrong:
        levels[one.section] = max(levels.get(one.section, 0), one.level)

    def level(name: str) -> int:
        return levels.get(name, 0)

    made: list[Section | None] = [unseen(view)]
    if host.has_values(view):
        made += [
            devices.gpus(view, level("gpus")),
            links.nvlink(view, level("nvlink")),
            devices.fabric(view, level("fabric")),
            links.pcie(view, level("pcie")),
            host.host(view, level("host")),
            devices.storage(view, level("storage")),
            host.processes(view, level("processes")),
        ]
    # A table of nothing but reasons says no more than the link does.
    made += [
        history.history(view),
        host.log(view, level("log")),
        about.identity(view, level("identity")),
        about.probe(view, level("probe")),
    ]
    return [section for section in made if section is not None]


def _column(view: View, sections: list[Section]) -> list[Line]:
    lines: list[Line] = []
    for section in sections:
        opened = is_open(view, section)
        body = section.body(view) if opened else []
        if body and lines and lines[-1] != ():
            lines.append(())
        lines.append(_section_line(view, section, opened=opened))
        lines += [fitted(line, view.cells - 1, view.glyphs.ellipsis) for line in body]
        if body:
            lines.append(())
    return lines[:-1] if lines and lines[-1] == () else lines


def _section_line(view: View, section: Section, *, opened: bool) -> Line:
    loud = section.level > Level.MISSING
    sign = view.glyphs.level(section.level) if loud else "-" if opened else "+"
    tone = Tone.STRONG if opened or loud else Tone.PLAIN
    title = Piece(section.title, tone, Spot(section.id), f"{section.title}: {section.summary}")
    gap = " " * max(2, _TITLE + 2 - width(section.title))
    summary = cut(section.summary, view.cells - 4 - width(section.title) - len(gap), view.glyphs.ellipsis)
    return (
        Piece(f" {sign} ", level_tone(section.level) if loud else Tone.NORMAL),
        title,
        Piece(gap),
        Piece(summary, Tone.QUIET if loud or opened else Tone.NORMAL),
    )


def _beside(left: list[Line], right: list[Line], split: int, ellipsis: str) -> list[Line]:
    lines: list[Line] = []
    for one, other in zip_longest(left, right, fillvalue=()):
        if not other:
            lines.append(one)
            continue
        one = fitted(one, split - 1, ellipsis)
        lines.append((*one, Piece(" " * (split - line_width(one))), *other))
    return lines


def node_rows(view: View) -> list[Row]:
    """Return the rows of the page, without a cursor."""
    return [row_of(line) for line in node_page(view).lines]


def node_text(view: View) -> str:
    """Return the whole node as text: the page with all sections open and everything in one column."""
    view = replace(view, cells=TEXT_CELLS, all_open=True, focus=None)
    page = node_page(view)
    title = clean(plain(node_title(view, TEXT_CELLS, worst=page.worst)), 4 * TEXT_CELLS).strip()
    # Everything remote was cleaned when it was parsed; what is left here is a defect that must not reach a file.
    rows = [clean(plain(row_of(line)), 4 * TEXT_CELLS).rstrip() for line in page.lines]
    return "\n".join([f" {title}", *rows]) + "\n"
