"""Drift as lines: for a screen, where each line leads to nodes, for the verb's text, and as JSON."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.clock import hms, iso
from stethoscope.model.ids import fold
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import Glyphs, Level, Row, Span, Tone, cut, level_tone, pad, row_width, spread

if TYPE_CHECKING:
    from stethoscope.analysis.drift import Drift, DriftTable, Group, Held
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.present.replay import ReplayStanding

SCHEMA = "stethoscope.drift/1"
_TITLE = 22
_WIDE = 100
_LEAST_VALUE, _MOST_VALUE = 18, 48
"""Cells of the column of values."""
_TEXT = 100
"""Width of flowed words where nothing is cut."""
_SENTENCE = ("cmdline",)
"""Items whose values are many words: of another one is shown what it has more and less."""


class Line(NamedTuple):
    """One line, and the nodes that it is about: those that enter leads to."""

    row: Row
    nodes: tuple[str, ...] = ()
    says: str = ""
    """What the nodes have, for the question which of them to open."""


class _Layout(NamedTuple):
    title: int
    value: int
    cells: int | None
    """None cuts nothing."""
    glyphs: Glyphs

    def line(self, level: Level, title: str, value: str, where: str, *, loud: bool = False) -> Row:
        """Return one line; without cells, a value that is longer than its column pushes the places to the right."""
        words = Tone.PLAIN if loud else Tone.NORMAL
        sign = Span(f"{self.glyphs.level(level)} " if title else "  ", level_tone(level))
        name = Span(pad(title, self.title, self.glyphs.ellipsis) + " ", Tone.STRONG if loud else Tone.QUIET)
        room = self.room if self.cells is not None else len(value) + len(where)
        if not where:
            return (sign, name, Span(cut(value, self.value + 2 + room, self.glyphs.ellipsis), words))
        shown = value if self.cells is None else cut(value, self.value, self.glyphs.ellipsis)
        places = Span("  " + cut(where, room, self.glyphs.ellipsis), words if loud and not title else Tone.QUIET)
        return (sign, name, Span(shown.ljust(self.value), words), places)

    @property
    def room(self) -> int:
        """Return the cells of the places."""
        return (self.cells or 0) - self.title - 3 - self.value - 3


def drift_lines(table: DriftTable, glyphs: Glyphs, cells: int | None = None) -> list[Line]:
    """Return the whole comparison, the group with the most differences first; cut to `cells` when they are given."""
    title = _TITLE if cells is None else min(_TITLE, cells // 3)
    most = _MOST_VALUE if cells is None else min(_MOST_VALUE, (cells - title - 6) // 2)
    longest = max((len(text) for row in table.rows for text in _values(row)), default=0)
    layout = _Layout(title, min(max(longest, _LEAST_VALUE), most), cells, glyphs)
    lines: list[Line] = []
    differing = {group: sum(row.differs for row in table.rows if row.group is group) for group in table.groups}
    for group in sorted(table.groups, key=lambda group: -differing[group]):
        if len(table.groups) > 1:
            lines += [Line(()), Line(_group_row(group, cells, glyphs), group.nodes, group.label)]
        rows = [row for row in table.rows if row.group is group]
        for row in rows:
            if row.held:
                lines += _row_lines(row, layout)
        lines += _silent_lines([row for row in rows if not row.held], layout)
    lines += [
        Line(layout.line(Level.MISSING, "untold", untold.why, _nodes(untold.nodes)), untold.nodes, untold.why)
        for untold in table.untold
    ]
    return lines[1:] if len(table.groups) > 1 else lines


def _values(row: Drift) -> list[str]:
    """Return what is written in the column of values and ought to fit there."""
    if row.item.id in _SENTENCE:
        return [difference(row.expected, held.value) for held in row.others] if row.expected is not None else []
    return [held.value for held in row.held]


def _silent_lines(rows: list[Drift], layout: _Layout) -> list[Line]:
    """Return what nobody tells: the items by the reason, flowed."""
    titles: dict[str, list[str]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for row in rows:
        why = ", ".join(f"{unknown.why} on {_count(len(unknown.nodes))}" for unknown in row.unknown)
        titles.setdefault(why, []).append(row.item.title)
        names[why] = tuple(name for unknown in row.unknown for name in unknown.nodes)
    lines: list[Line] = []
    for why, found in titles.items():
        lines.append(Line(layout.line(Level.MISSING, "no value", why, ""), names[why], why))
        flowed = wrap(", ".join(found), (layout.cells or _TEXT) - layout.title - 4)
        lines += [Line(layout.line(Level.MISSING, "", text, "")) for text in flowed]
    return lines


def _group_row(group: Group, cells: int | None, glyphs: Glyphs) -> Row:
    text = f"  {group.label} {glyphs.dot} {_count(len(group.nodes))}"
    return (Span(text if cells is None else cut(text, cells - 1, glyphs.ellipsis), Tone.STRONG),)


def _row_lines(row: Drift, layout: _Layout) -> list[Line]:
    title = row.item.title
    missing = "".join(f" {layout.glyphs.dot} {len(unknown.nodes):,} {unknown.why}" for unknown in row.unknown)
    silent = tuple(name for unknown in row.unknown for name in unknown.nodes)
    first = row.held[0]
    if not row.differs:
        where = f"{_count(len(first.names))}{missing}"
        return [Line(layout.line(Level.NORMAL, title, first.value, where), silent, "no value")]
    # The first line of an item leads to all that are told below it.
    differing = tuple(dict.fromkeys(name for held in row.others for name in held.names))
    if row.is_tie:
        shown = layout.line(Level.PLANNED, title, "no majority", missing.removeprefix(" ")[2:], loud=True)
        head = Line(shown, differing, f"{title}: no majority")
    else:
        where = f"most: {_count(len(first.names))}{missing}"
        shown = layout.line(Level.PLANNED, title, first.value, where, loud=True)
        head = Line(shown, differing, f"{title} other than {first.value}")
    return [head, *(_other(row, held, layout) for held in row.others)]


def _other(row: Drift, held: Held, layout: _Layout) -> Line:
    value = held.value
    if row.item.id in _SENTENCE and row.expected is not None:
        value = difference(row.expected, held.value)
    text = f"{row.item.title} {held.value}"
    return Line(layout.line(Level.PLANNED, "", value, held.where, loud=True), held.names, text)


def difference(expected: str, value: str) -> str:
    """Return the words that `value` has more and less than `expected`: `+iommu=off -iommu=pt`."""
    usual, own = expected.split(), value.split()
    more = [f"+{word}" for word in own if word not in usual]
    less = [f"-{word}" for word in usual if word not in own]
    return " ".join(more + less) or "the same words in another order"


def drift_title(
    table: DriftTable,
    snapshot: FleetSnapshot,
    wall: float,
    cells: int,
    glyphs: Glyphs,
    *,
    replay: ReplayStanding | None = None,
) -> Row:
    """Return the top line of the screen: how many nodes told, how much differs, and the time."""
    lead = " stethoscope  " if cells >= _WIDE else " "
    left = (Span(lead, Tone.QUIET), Span(f"{snapshot.fleet}  drift", Tone.TITLE), *_sum(table, snapshot, glyphs))
    marks = replay_marks(replay, wall) if replay is not None else ((Span(f"{hms(wall)} UTC ", Tone.QUIET),),) * 2
    for mark in marks:
        if row_width((*left, *mark)) + 2 <= cells:
            return spread(left, mark, cells)
    room = cells - row_width(marks[1]) - 2
    text = cut("".join(span.text for span in left), room, glyphs.ellipsis)
    return spread((Span(text, Tone.TITLE),), marks[1], cells)


def _sum(table: DriftTable, snapshot: FleetSnapshot, glyphs: Glyphs) -> Row:
    differing = len({row.item for row in table.differing})
    total, told = len(snapshot.nodes), len(table.told)
    words = f"{differing} differ" if differing != 1 else "1 differs"
    nodes = f"{told:,} of {total:,} nodes told" if total != 1 else f"{told} of 1 node told"
    return (
        Span("  "),
        Span(nodes, Tone.PLAIN if told == total else level_tone(Level.STALE)),
        Span(f" {glyphs.dot} ", Tone.QUIET),
        Span(words if differing else "nothing differs", level_tone(Level.PLANNED) if differing else Tone.PLAIN),
    )


def drift_report(
    table: DriftTable, snapshot: FleetSnapshot, seconds: float, glyphs: Glyphs, cells: int | None = None
) -> list[Row]:
    """Return the answer of the verb, one row a line: all lines, cut to `cells` when they are given, then one sum."""
    parts = [f"{seconds:.1f} s", f"{hms(snapshot.wall)} UTC"]
    if snapshot.simulated:
        parts.insert(0, "simulated")
    tail = Span("".join(f" {glyphs.dot} {part}" for part in parts), Tone.QUIET)
    return [*(line.row for line in drift_lines(table, glyphs, cells)), (*_sum(table, snapshot, glyphs)[1:], tail)]


def drift_json(table: DriftTable, snapshot: FleetSnapshot, seconds: float) -> dict[str, Any]:
    """Return the answer as JSON, stethoscope.drift/1; its fields are told in docs/drift.md."""
    return {
        "schema": SCHEMA,
        "fleet": snapshot.fleet,
        "at": iso(snapshot.wall),
        "simulated": snapshot.simulated,
        "rows": [
            {
                "id": row.item.id,
                "title": row.item.title,
                "scope": "gpu" if row.item.of_gpu else "node",
                "group": {"gpus": row.group.gpus or None, "product": row.group.product or None},
                "differs": row.differs,
                "tie": row.is_tie,
                "expected": row.expected,
                "values": [
                    {"value": held.value, "where": held.where, "nodes": list(held.nodes), "gpus": list(held.gpus)}
                    for held in row.held
                ],
                "unknown": [{"why": unknown.why, "nodes": list(unknown.nodes)} for unknown in row.unknown],
            }
            for row in table.rows
        ],
        "groups": [
            {"gpus": group.gpus or None, "product": group.product or None, "nodes": list(group.nodes)}
            for group in table.groups
        ],
        "summary": {
            "expected": len(snapshot.nodes),
            "told": len(table.told),
            "untold": [{"why": untold.why, "nodes": list(untold.nodes)} for untold in table.untold],
            "differing": [*dict.fromkeys(row.item.id for row in table.differing)],
            "seconds": round(seconds, 3),
        },
    }


def _count(nodes: int) -> str:
    return f"{nodes:,} nodes" if nodes != 1 else "1 node"


def _nodes(names: tuple[str, ...]) -> str:
    return f"{fold(names)}  {_count(len(names))}" if len(names) > 1 else fold(names)
