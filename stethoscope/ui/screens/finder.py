"""Find something by name: the palette of everything, and the chooser of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from stethoscope.ui.keys import DRILL, EVERYWHERE, KEYS, shown
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.spans import Row, Span, Tone, cut, pad, width
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from stethoscope.ui.app import StethoscopeApp

Choice = tuple[str, str, str]
"""Title, explanation, id."""
_TITLE = 34
"""Cells of a title at the most."""


def everything(console: StethoscopeApp) -> tuple[list[Choice], Callable[[str], object]]:
    """Return what the palette can do here and now, and the function that does it by id."""
    actions: dict[str, Callable[[], object]] = {}
    choices: list[Choice] = []
    screen = console.screen
    here = "fleet" if screen is console.fleet_screen else getattr(screen, "part", "node")
    for key in KEYS:
        if key.live if console.replay is not None else key.replay:
            continue
        in_drill = console.drill is not None and DRILL in key.where
        if key.palette and (here in key.where or EVERYWHERE in key.where or in_drill):
            choices.append((key.title, f"{key.help}  ({shown(key.keys[0])})", f"key {key.id}"))
            actions[f"key {key.id}"] = _action(console, key.action)
    if console.session is not None:
        from stethoscope.ui.screens.fleet_keys import choosable

        snapshot = console.session.snapshot()
        for metric in choosable(snapshot) if here == "fleet" else ():
            choices.append((f"metric: {metric.title}", metric.meaning, f"metric {metric.id}"))
            actions[f"metric {metric.id}"] = _metric(console, metric.id)
        for node in snapshot.nodes:
            choices.append((f"node: {node.name}", node.link.state.value, f"node {node.name}"))
            actions[f"node {node.name}"] = _node(console, node.name)
    return choices, lambda choice: actions[choice]()


def _action(console: StethoscopeApp, action: str) -> Callable[[], object]:
    async def run() -> None:
        name = action.partition("(")[0]
        await console.run_action(action, console.screen if hasattr(console.screen, f"action_{name}") else console)

    # Once the palette is gone and the screen below it is in front again.
    return lambda: console.call_later(run)


def _metric(console: StethoscopeApp, metric: str) -> Callable[[], object]:
    return lambda: console.fleet_screen.choose_metric(metric)


def _node(console: StethoscopeApp, name: str) -> Callable[[], object]:
    return lambda: console.open_node(name)


def matching(choices: Sequence[Choice], wanted: str) -> list[Choice]:
    """Return the choices that contain every word of `wanted`, those that begin with one first."""
    words = wanted.lower().split()
    found = []
    for place, (title, explanation, name) in enumerate(choices):
        low = title.lower()
        beside = f"{name} {explanation}".lower()
        if all(word in low for word in words):
            starts = sum(part.startswith(word) for word in words for part in low.split())
            found.append((0, -starts, place))
        elif words and all(word in low or word in beside for word in words):
            found.append((1, 0, place))
    return [choices[place] for _, _, place in sorted(found)]


class FinderScreen(ModalScreen[str | None]):
    """A line to type in, and below it what fits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]
    AUTO_FOCUS = "Input"

    def __init__(self, console: StethoscopeApp, what: str, choices: Sequence[Choice]) -> None:
        """Offer `choices`; `what` names them in the empty input."""
        super().__init__()
        self._owner = console
        self._what = what
        self._choices = list(choices)
        self.found: list[Choice] = list(choices)
        self._chosen = 0
        self._wide = min(_TITLE, max((width(title) for title, _, _ in choices), default=0) + 1)

    def compose(self) -> ComposeResult:
        """Lay out the input and the list."""
        yield Input(placeholder=f"{self._what}: type a part of its name", id="find")
        yield Lines(id="rule-top")
        yield RowsView(id="found")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Show everything at first."""
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Find again while typing."""
        self.found = matching(self._choices, event.value)
        self._chosen = 0
        self._draw()

    def on_input_submitted(self) -> None:
        """Take the marked choice."""
        if self.found:
            self.dismiss(self.found[self._chosen][2])

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def action_move(self, rows: int) -> None:
        """Mark another choice."""
        if self.found:
            self._chosen = max(0, min(len(self.found) - 1, self._chosen + rows))
            self._draw()

    def _draw(self) -> None:
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        view = self.query_one(RowsView)
        view.can_focus = False
        view.show([self._row(place, cells) for place in range(len(self.found))])
        top, height = view.scroll_offset.y, view.size.height
        if self._chosen < top or (height and self._chosen >= top + height):
            view.scroll_to(y=max(0, self._chosen - height // 2), animate=False, immediate=True)
            view.sync()
        for name in ("rule-top", "rule-bottom"):
            self.query_one(f"#{name}", Lines).show([rule(cells, glyphs)])
        words = f"{len(self.found):,} of {len(self._choices):,}"
        keys = [("enter", "take"), ("up down", "move"), ("escape", "back")]
        self.query_one("#keys", Lines).show([(*footer(keys, cells), Span(words, Tone.QUIET))])

    def _row(self, place: int, cells: int) -> Row:
        title, explanation, _ = self.found[place]
        marked = place == self._chosen
        return (
            Span(f" {pad(title, self._wide, self._owner.glyphs.ellipsis)} ", Tone.PLAIN, marked),
            Span(" " + cut(explanation, cells - self._wide - 4, self._owner.glyphs.ellipsis), Tone.QUIET),
        )
