"""What the parts of the node screen are made of: pieces that the cursor can stand on, lines of them, and sections."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.ui.present.row_levels import metric_levels
from stethoscope.ui.present.spans import Level, Span, Tone, cut, level_tone, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stethoscope.analysis.history import History
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.incident import Incident, Lemon
    from stethoscope.model.mark import Mark
    from stethoscope.model.metric import Metric, Scope
    from stethoscope.ui.present.assess import Assessment, Levels
    from stethoscope.ui.present.spans import Glyphs, Row


class Spot(NamedTuple):
    """Something that the cursor can stand on: a value, a line of text, or the line of a section."""

    section: str
    scope: Scope | None = None
    metric: str = ""
    position: int = 0
    """Of the device in the node's inventory of `scope`."""
    key: str = ""
    """What tells a line of words from the others, also when its words change."""

    @property
    def is_value(self) -> bool:
        """Tell whether it is a value of a metric."""
        return self.scope is not None

    @property
    def is_section(self) -> bool:
        """Tell whether it is the line of a section."""
        return self.scope is None and not self.key


class Piece(NamedTuple):
    """A piece of a line."""

    text: str
    tone: Tone = Tone.PLAIN
    spot: Spot | None = None
    words: str = ""
    """All that the piece stands for, where it is no value."""


Line = tuple[Piece, ...]


Marks = dict[tuple["Scope", str, int], int]
"""Level of values (scope, metric, position of the device) that no limit of their metric tells of."""


@dataclass(frozen=True, slots=True)
class View:
    """What the node screen is drawn from."""

    assessment: Assessment
    node: Node
    wall: float
    cells: int
    glyphs: Glyphs
    past: History | None = None
    """What is remembered of the last minutes."""
    mark: Mark | None = None
    focus: Spot | None = None
    """Where the cursor stands: tables show the trend of that device."""
    opened: Mapping[str, bool] = field(default_factory=dict)
    """Sections that somebody opened or closed; the others open by themselves."""
    all_open: bool = False
    marks: Marks = field(default_factory=dict)
    roomy: bool = False
    """There is room for sections that are open although nothing is wrong in them."""
    incidents: tuple[Incident, ...] = ()
    """What is recorded of the node and its parts, the latest first."""
    lemons: tuple[Lemon, ...] = ()
    """What of it keeps coming back."""

    @property
    def snapshot(self) -> FleetSnapshot:
        """Return the fleet."""
        return self.assessment.snapshot

    def narrowed(self, cells: int) -> View:
        """Return the same view for a column of `cells`."""
        return replace(self, cells=cells)

    def levels(self, scope: Scope) -> Levels:
        """Return the levels of the node's devices of `scope`."""
        part = self.snapshot.rows(self.node, scope)
        levels = self.assessment.rows[scope][part.start : part.stop].copy()
        for (of, _, position), level in self.marks.items():
            if of is scope:
                levels[position] = max(level, int(levels[position]))
        return levels

    def metric_levels(self, metric: Metric) -> Levels:
        """Return the levels of a metric of the node's devices, by its limits and by comparison."""
        part = self.snapshot.rows(self.node, metric.scope)
        levels = metric_levels(self.snapshot.tables[metric.scope], metric, part)
        for position in range(len(part)) if self.marks else ():
            mark = self.marks.get((metric.scope, metric.id, position), 0)
            levels[position] = max(mark, int(levels[position]))
        return levels

    def is_whole(self, group: str) -> bool:
        """Tell whether the group of what is read rarely has come."""
        return group in self.node.parts


class Section(NamedTuple):
    """One section: how it stands, what it says in one line, and what it says when it is open."""

    id: str
    title: str
    level: int
    summary: str
    body: Callable[[View], list[Line]]
    keeps_open: bool = False
    """Open where there is room, although nothing is wrong."""


def is_open(view: View, section: Section) -> bool:
    """Tell whether a section shows its body: as somebody chose, else when something in it is wrong."""
    if view.all_open:
        return True
    wrong = section.level > Level.MISSING or (section.keeps_open and view.roomy)
    return view.opened.get(section.id, wrong)


def row_of(line: Line, spot: Spot | None = None) -> Row:
    """Return a line as a row of spans, with the piece under the cursor marked."""
    return tuple(Span(piece.text, piece.tone, piece.spot is not None and piece.spot == spot) for piece in line)


def line_width(line: Line) -> int:
    """Return the cells that a line takes."""
    return sum(width(piece.text) for piece in line)


def fitted(line: Line, cells: int, ellipsis: str) -> Line:
    """Return a line cut to `cells`."""
    kept: list[Piece] = []
    for piece in line:
        size = width(piece.text)
        if size > cells:
            if cells > 0:
                kept.append(piece._replace(text=cut(piece.text, cells, ellipsis)))
            break
        kept.append(piece)
        cells -= size
    return tuple(kept)


def text_line(
    view: View, section: str, name: str, text: str, tone: Tone = Tone.QUIET, *, level: int = 0, key: str = ""
) -> Line:
    """Return a line of words with a quiet name before them; `key` is what it is known by, when that is not its name."""
    loud = level > Level.MISSING
    sign = Piece(f" {view.glyphs.level(level) if loud else ' '} ", level_tone(level))
    room = max(8, view.cells - 3 - (NAME + 1 if name else 0) - 1)
    words = Piece(
        cut(text, room, view.glyphs.ellipsis),
        level_tone(level) if loud else tone,
        Spot(section, key=key or name.strip() or text),
        f"{name.strip()} {text}".strip(),
    )
    lead = Piece(cut(name, NAME, view.glyphs.ellipsis).ljust(NAME + 1), Tone.QUIET)
    return (sign, lead, words) if name else (sign, words)


NAME = 12
"""Cells of the name before a line of words."""


def flowed(view: View, lead: str, pieces: Iterable[Piece], indent: int = 3) -> list[Line]:
    """Return pieces one after the other, with dots between them, over as many lines as they need."""
    lines: list[Line] = []
    line: list[Piece] = [Piece(" " * indent + lead, Tone.QUIET)]
    used = indent + width(lead)
    room = max(30, view.cells - 1)
    first, dot = True, f" {view.glyphs.dot} "
    for piece in pieces:
        text = piece.text if first else f"{dot}{piece.text}"
        if used + width(text) + 1 > room and not first:
            lines.append(tuple(line))
            line = [Piece(" " * indent, Tone.QUIET)]
            used, text = indent, piece.text
        elif not first:
            line.append(Piece(dot, Tone.NORMAL))
        shown = cut(piece.text, room - used, view.glyphs.ellipsis)
        line.append(piece._replace(text=shown))
        used += width(text)
        first = False
    return lines if first else [*lines, tuple(line)]


def range_text(values: Sequence[float], say: Callable[[float], str]) -> str:
    """Return what `say` makes of the lowest and highest value: `1980 MHz`, `1410..1980 MHz`."""
    low, high = say(min(values)), say(max(values))
    if low == high:
        return high
    low_unit, high_unit = low.partition(" ")[2], high.partition(" ")[2]
    return f"{low.partition(' ')[0] if low_unit == high_unit else low}..{high}"
