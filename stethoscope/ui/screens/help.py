"""All keys, and what the signs mean."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from textual.screen import Screen

from stethoscope.ui.bindings import MOVES
from stethoscope.ui.keys import DRILL, KEYS, shown
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.spans import HEAT_LEVELS, Level, Row, Span, Tone, heat_tone, level_tone, pad
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Glyphs

_SIGNS: tuple[tuple[Level, str, str], ...] = (
    (Level.NORMAL, "normal", "nothing deviates"),
    (Level.PLANNED, "planned", "P2: worth a look in working hours"),
    (Level.WARNING, "warning", "P1: today"),
    (Level.CRITICAL, "critical", "P0: now"),
    (Level.MISSING, "missing", "there is no value; the cursor line says why"),
    (Level.STALE, "stale", "there was a value, and it is too old to be believed"),
    (Level.HUNG, "hung", "the GPU driver does not answer"),
    (Level.LOST, "lost", "the node or the device cannot be reached"),
)


def help_rows(
    glyphs: Glyphs, cells: int, *, replay: bool = False, here: str = "fleet", drill: bool = False
) -> list[Row]:
    """Return the text of the help screen, wrapped to `cells`: the keys of the screen `here` first; with those
    of a replay in one."""
    rows: list[Row] = [(Span(" Keys", Tone.STRONG),)]
    parts = [
        ("fleet", "on the fleet"),
        ("node", "on a node"),
        ("findings", "in the night's list"),
        ("finding", "on a finding"),
        ("job", "on jobs"),
        ("triage", "in a triage"),
        ("verdict", "on its verdict"),
        ("drift", "in the drift table"),
        ("heat", "in the heat over time"),
        ("preview", "before a probe is run"),
        ("result", "with what a probe said"),
        ("logs", "on the logs"),
        ("explained", "on an explanation"),
        ("incidents", "on the incidents"),
        ("incident", "on one incident"),
        ("form", "in the form of an incident"),
        ("conflict", "where two edited one incident"),
        ("everywhere", "everywhere"),
    ]
    parts.sort(key=lambda part: part[0] != here)
    if replay:
        parts.insert(0, ("replay", "in this replay"))
    if drill:
        parts.insert(0, (DRILL, "in this drill"))
    for where, title in parts:
        rows += [(), (Span(f"   {title}", Tone.QUIET),)]
        for key in KEYS:
            if (where == "replay") if key.replay else (where in key.where and not (replay and key.live)):
                names = "  ".join(shown(name) for name in key.keys)
                for place, text in enumerate(wrap(key.help, max(20, cells - _HELP - 1))):
                    rows.append((Span(pad("" if place else f"   {names}", _HELP), Tone.KEY), Span(text, Tone.PLAIN)))
    rows += [(), (Span(" Signs", Tone.STRONG),), ()]
    for level, word, meaning in _SIGNS:
        sign = pad(f"   {glyphs.level(level)} {word}", _HELP)
        for place, text in enumerate(wrap(meaning, max(20, cells - _HELP - 1))):
            rows.append((Span("".ljust(_HELP) if place else sign, level_tone(level)), Span(text, Tone.PLAIN)))
    scale = [Span("   ")] + [Span(glyphs.heat[step], heat_tone(step)) for step in range(HEAT_LEVELS)]
    rows += [(), (*scale, Span(pad("", _HELP - 3 - HEAT_LEVELS)), Span("magnitude, low to high", Tone.PLAIN))]
    notes = (
        f"A line of several nodes shows their median, or {glyphs.differ} where they differ too much for one.",
        "A sign marks a device with something wrong; a number or block that differs from its peers stands out.",
        "Ages are rounded to the interval at which a node sends: a healthy row stands still.",
        "Rates are over the last interval. A counter that went back or stands at its end has no rate.",
    )
    rows.append(())
    rows += [(Span(f"   {text}", Tone.QUIET),) for note in notes for text in wrap(note, max(20, cells - 4))]
    return rows


_HELP = 27


class HelpScreen(Screen[None]):
    """The help; escape closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        (key, action, "") for key, action in MOVES.items() if "page" in action or not action.endswith("1)")
    ]
    AUTO_FOCUS = "RowsView"

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`; the keys of the screen that was in front come first."""
        super().__init__()
        self._owner = console
        self._here = "fleet" if console.screen is console.fleet_screen else getattr(console.screen, "part", "node")

    def compose(self) -> ComposeResult:
        """Lay out the text and the way back."""
        yield RowsView(id="text")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Show the text."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    def _draw(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        rows = help_rows(
            glyphs, cells, replay=self._owner.replay is not None, here=self._here, drill=self._owner.drill is not None
        )
        self.query_one(RowsView).show(rows)
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs)])
        self.query_one("#keys", Lines).show([footer([("escape", "back"), ("up down", "scroll")], cells)])
