"""On-demand probes of a node: choose one, see exactly what would be run, run it, read what came back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.clock import duration
from stethoscope.errors import StethoscopeError
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.outside import copy, save
from stethoscope.ui.present.probe import cost, preview_rows, result_rows, summary_rows
from stethoscope.ui.present.spans import Row, Span, Tone, spread
from stethoscope.ui.screens.pages import RowsScreen, as_text
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.ondemand import Batch, OnDemandRuns, Preview
    from stethoscope.session.probe_result import Result
    from stethoscope.specs.probes import OnDemand
    from stethoscope.ui.app import StethoscopeApp

MOST_LINES = 20_000
"""Lines of one command that are shown: a node that prints a megabyte of line feeds does not hold the console up."""
_RESULT, _PROBE, _BATCH = "result ", "probe ", "batch "


def offer(console: StethoscopeApp, node: str, under_cursor: str = "") -> None:
    """Let a person choose a probe for `node`, or a result that is there already; say so where nothing can be run.

    `under_cursor` is the place that the cursor stands on: probes that can are aimed at it first.
    """
    runs: OnDemandRuns | None = getattr(console.session, "ondemand", None)
    if console.replay is not None or runs is None:
        console.tell("a recording runs nothing" if console.replay is not None else "the session is not open yet")
        return
    if runs.why_not:
        console.tell(runs.why_not)
        return
    try:
        probes = runs.probes
    except StethoscopeError as error:
        console.tell(str(error), seconds=15)
        return
    running = [batch for batch in runs.batches if node in batch.preview.nodes]
    results, now = runs.results_of(node), console.clock.wall()
    choices = [
        (f"now: {batch.preview.probe.id}", batch.progress(console.clock.monotonic()), f"{_BATCH}{place}")
        for place, batch in enumerate(running)
    ]
    choices += [(f"{probe.id}", _explained(probe), f"{_PROBE}{probe.id}") for probe in probes.values()]
    choices += [
        (f"read: {_called(result)}", f"{duration(max(0.0, now - result.at))} ago, {_how(result)}", f"{_RESULT}{place}")
        for place, result in enumerate(results)
    ]

    def take(choice: str) -> None:
        kind, _, rest = choice.partition(" ")
        if kind == _RESULT.strip():
            console.push_screen(ProbeResultScreen(console, [results[int(rest)]]))
        elif kind == _BATCH.strip():
            console.push_screen(ProbeResultScreen(console, [], running[int(rest)]))
        else:
            aim(console, runs, probes[rest], node, under_cursor)

    console.choose(f"probe {node}", choices, take)


def _explained(probe: OnDemand) -> str:
    return f"{probe.title} · {cost(probe)}"


def _called(result: Result) -> str:
    return " ".join((result.probe, *result.aim.arguments))


def _how(result: Result) -> str:
    wrong = sum(bool(item.level) for item in result.items) + len(result.remarks)
    return f"{result.status.value}, {wrong} wrong" if wrong else result.status.value


def aim(console: StethoscopeApp, runs: OnDemandRuns, probe: OnDemand, node: str, under_cursor: str = "") -> None:
    """Let a person choose what of `node` the probe looks at, where there is a choice, and show what would be run."""

    def show(place: str) -> None:
        try:
            preview = runs.preview(probe.id, [place])
        except StethoscopeError as error:
            console.tell(str(error))
            return
        console.push_screen(ProbePreviewScreen(console, runs, preview, node))

    try:
        every = runs.aims(probe.id, node)
    except StethoscopeError as error:
        console.tell(str(error))
        return
    if len(every) < 2 and not (every and probe.whole):
        show(every[0].place if every else node)
        return
    whole = "the whole node" if probe.whole else f"all {len(every)}, one after the other"
    choices = [(whole, node, node)]
    choices += [(one.place.removeprefix(f"{node}/"), " ".join(one.arguments), one.place) for one in every]
    if under_cursor and _fits(runs, probe, under_cursor):
        choices.insert(0, ("what the cursor stands on", under_cursor, under_cursor))
    console.choose(f"{probe.id} on {node}", choices, show)


def _fits(runs: OnDemandRuns, probe: OnDemand, place: str) -> bool:
    try:
        return bool(runs.preview(probe.id, [place]).steps)
    except StethoscopeError:
        return False


class ProbePreviewScreen(RowsScreen):
    """What would be run, where, and what forbids it; enter runs it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("preview", moves=True)
    part = "preview"

    def __init__(self, console: StethoscopeApp, runs: OnDemandRuns, preview: Preview, node: str) -> None:
        """Show `preview`, made for a place on `node`."""
        super().__init__(console)
        self._runs = runs
        self.preview = preview
        self._node_name = node

    @property
    def _can_force(self) -> bool:
        return any(step.refusal is not None and step.refusal.can_force for step in self.preview.steps)

    @property
    def _is_refused(self) -> bool:
        return all(step.refusal is not None for step in self.preview.steps)

    def title_row(self, cells: int) -> Row:
        """Return the title; what the probe is called gives way to how it stands."""
        probe, where = self.preview.probe, f"on {self._node_name}"
        words = "refused, F runs it anyway " if self._can_force else "refused " if self._is_refused else ""
        right = (Span(words or "nothing runs yet ", Tone.WARNING if words else Tone.QUIET),)
        short, long = (
            (Span(f" {probe.id}", Tone.TITLE), Span(f"  {text}", Tone.QUIET))
            for text in (where, f"{probe.title} {where}")
        )
        row = spread(long, right, cells)
        return row if row != long else spread(short, right, cells)

    def footer_keys(self) -> list[tuple[str, str]]:
        """Return what can be done: what is refused is not run by enter."""
        keys = [(key, word) for key, word in footer_of(self.part) if key != "enter" or not self._is_refused]
        return [("F", "run anyway"), *keys] if self._can_force else keys

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the preview."""
        return preview_rows(self.preview, cells, self._owner.glyphs)

    def action_run_probe(self) -> None:
        """Run what nothing forbids."""
        if self._is_refused:
            self._owner.tell("refused" + (": F runs it anyway" if self._can_force else ""))
            return
        self._start(force=False)

    def action_force_probe(self) -> None:
        """Run it although a GPU is busy, after asking once more."""
        words = [step.refusal.words for step in self.preview.steps if step.refusal and step.refusal.can_force]
        if not words:
            self._owner.tell("nothing is refused that could be forced")
            return
        from stethoscope.ui.screens.ask import AskScreen

        def go(answer: str | None) -> None:
            if answer is not None and answer.lower() == "yes":
                self._start(force=True)
            else:
                self._owner.tell("nothing was run")

        self._owner.push_screen(AskScreen(self._owner, "type yes to run it; the journal says so", words[0]), go)

    def _start(self, *, force: bool) -> None:
        batch = self._runs.start(self.preview, force=force)
        self._owner.switch_screen(ProbeResultScreen(self._owner, [], batch))


class ProbeResultScreen(RowsScreen):
    """What came back, or how far it is; leaving does not end what runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("result", moves=True)
    part = "result"

    def __init__(self, console: StethoscopeApp, results: Sequence[Result], batch: Batch | None = None) -> None:
        """Show `results`, or those of a batch as they come."""
        super().__init__(console)
        self._given = list(results)
        self._batch = batch
        self._shown = -1

    @property
    def results(self) -> list[Result]:
        """Return what is there by now, in the order of the preview."""
        if self._batch is None:
            return self._given
        done = {result.aim: result for result in self._batch.results}
        return [done[step.aim] for step in self._batch.preview.steps if step.aim in done]

    def show_snapshot(self, snapshot: FleetSnapshot, now_mono: float, now_wall: float) -> None:
        """Look how far it is."""
        if self._batch is not None and self._shown < len(self._batch.preview.steps):
            self._shown = len(self._batch.results)
            self._draw()
        else:
            self.query_one("#top", Lines).show([self.title_row(self.size.width or 80)])

    def action_copy_result(self) -> None:
        """Copy everything that came back."""
        copy(self._owner, self.text() if self.results else "", "the result")

    def action_save_result(self) -> None:
        """Write everything that came back into a file."""
        results = self.results
        if results:
            save(self._owner, self.text(), f"{results[0].aim.node}-{results[0].probe}", self._owner.clock.wall())

    def title_row(self, cells: int) -> Row:
        """Return what is asked, and how far it is."""
        if self._batch is not None and not self._batch.done:
            words = self._batch.progress(self._owner.clock.monotonic())
            return spread((Span(f" {words}", Tone.TITLE),), (Span("escape lets it run on ", Tone.QUIET),), cells)
        results = self.results
        if not results:
            return (Span(" nothing was run", Tone.TITLE),)
        place = results[0].aim.place if len(results) == 1 else results[0].aim.node
        left = (Span(f" {results[0].probe}", Tone.TITLE), Span(f"  {place}", Tone.QUIET))
        age_s = max(0.0, self._owner.clock.wall() - max(result.at for result in results))
        return spread(left, (Span(f"{duration(age_s)} ago ", Tone.QUIET),), cells)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the results, one after the other, and how they went where there are many."""
        return self._rows(cells, MOST_LINES)

    def text(self) -> str:
        """Return all results as text, whole."""
        return as_text(self._rows(10_000, None))

    def _rows(self, cells: int, most: int | None) -> list[Row]:
        glyphs, results = self._owner.glyphs, self.results
        many = self._batch is not None and len(self._batch.preview.steps) > 1
        rows: list[Row] = list(summary_rows(results, glyphs)) if many else []
        for result in results:
            if rows:
                rows.append(())
            rows += result_rows(result, cells, glyphs, most=most)
        return rows
