"""What the keys of the fleet screen do to the choice of what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.text import clean
from stethoscope.ui.bindings import works
from stethoscope.ui.present.view import DENSITIES, FOLDS, GROUPS, MODES, SORTS, View, following
from stethoscope.ui.screens.at_once import AtOnceScreen
from stethoscope.ui.widgets.grid import GridView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.session.view_state import ViewState
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.grid import FleetGrid
    from stethoscope.ui.widgets.blocks import BlocksView


class FleetKeys(AtOnceScreen):
    """The keys that choose; the screen draws what is chosen."""

    AT_ONCE = frozenset((
        "move", "page", "cursor_first", "cursor_last", "jump", "next_wrong", "previous_wrong", "pause", "mark",
        "mark_and_go_on", "mark_all", "mark_none", "next_metric", "next_sort", "next_group", "next_fold", "next_mode",
    ))  # fmt: skip

    def __init__(self, console: StethoscopeApp) -> None:
        """Belong to `console`, whose choices and session it uses."""
        super().__init__()
        self._owner = console
        self._grid: FleetGrid | None = None
        self._snapshot: FleetSnapshot | None = None
        self._now = (0.0, 0.0)
        self.chosen = View()
        self.metric_chosen = False
        self.marked: set[str] = set()
        """Names of the selected nodes; those that are not in the fleet now are kept."""
        self.memory: ViewState | None = None
        """Where choices are kept for the next time; None for not at all."""
        self.views: ViewState | None = None
        """Where views are saved under names; None before there is a session."""

    @property
    def view(self) -> GridView | BlocksView:
        """Return the widget that shows the nodes."""
        raise NotImplementedError

    def draw(self) -> None:
        """Draw what is chosen, and keep it for the next time."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        """Draw what is so now: behind another screen nothing was drawn, and a large fleet is looked at seldom."""
        if self._snapshot is not None:
            self._owner.call_after_refresh(self._owner.pull)

    def take_at_once(self, key: str) -> bool:
        """Let keys that move the cursor, and those of the metric, act at once while the nodes have them."""
        ready = self._grid is not None and self._grid.layout is not None and self.focused is self.view
        return ready and super().take_at_once(key)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Some keys mean something else in a replay."""
        return works(action, parameters, replay=self._owner.replay is not None)

    # ---- what is shown, and how

    def action_next_metric(self, step: int) -> None:
        """Show the next or previous metric of the catalogue."""
        if self._snapshot is not None:
            ids = [metric.id for metric in choosable(self._snapshot)]
            place = ids.index(self.chosen.metric) if self.chosen.metric in ids else 0
            self.choose_metric(ids[(place + step) % len(ids)])

    def choose_metric(self, metric: str) -> None:
        """Show `metric` in the grid."""
        self.chosen.metric = metric
        self.metric_chosen = True
        self.draw()

    def action_choose_metric(self) -> None:
        """Ask which metric to show."""
        if self._snapshot is not None:
            choices = [(metric.title, metric.meaning, metric.id) for metric in choosable(self._snapshot)]
            self._owner.choose("metric", choices, self.choose_metric)

    def action_next_density(self) -> None:
        """Give a GPU the next amount of room."""
        now = self.chosen.density
        if now == "auto" and self._grid is not None and self._grid.layout is not None:
            now = "numbers" if self._grid.layout.has_numbers else "cells"
        self.chosen.density = following(DENSITIES, now)
        self.draw()

    def action_zoom(self, steps: int) -> None:
        """Look at the map closer, or from farther away."""
        view = self.view
        if isinstance(view, GridView):
            self._owner.tell("d gives the map, on which one can look closer")
        elif view.zoom_by(steps):
            self.draw()

    def action_next_mode(self) -> None:
        """Compare the metric in the next way; with the mark only where one is set."""
        modes = MODES if self._owner.session is not None and self._owner.session.mark is not None else MODES[:2]
        self.chosen.mode = following(modes, self.chosen.mode)
        if len(modes) < len(MODES) and self.chosen.mode == MODES[0]:
            self._owner.tell("M sets a mark: then the metric can also be compared with what it was there")
        self.draw()

    def action_next_sort(self) -> None:
        """Order the rows in the next way."""
        self.chosen.sort = following(SORTS, self.chosen.sort)
        self.draw()

    def action_next_group(self) -> None:
        """Group the nodes by the next thing that is known of some of them."""
        if self._snapshot is not None:
            known = known_groups(self._snapshot)
            self.chosen.group = following(known, self.chosen.group)
            if len(known) == 1:
                self._owner.tell("no rack, pod, leaf, job or partition of a node is known: the fleet file can say them")
            self.draw()

    def action_next_fold(self) -> None:
        """Fold healthy nodes in the next way."""
        self.chosen.fold = following(FOLDS, self.chosen.fold)
        self.draw()

    # ---- the cursor

    def action_open_jobs(self) -> None:
        """Show how jobs go."""
        self._owner.open_jobs()

    def action_next_wrong(self) -> None:
        """Go to the next node that deserves a look."""
        self.action_jump(1)

    def action_previous_wrong(self) -> None:
        """Go to the previous node that deserves a look."""
        self.action_jump(-1)

    def action_jump(self, step: int) -> None:
        """Go to the next node that deserves a look, or the previous one; from the last one to the first."""
        current = self.view.current
        if self._grid is None or current is None:
            return
        if not isinstance(self.view, GridView):
            if not self.view.next_wrong(step):
                self._owner.tell("no other node deviates")
            return
        line = self._grid.line_of(current[0])
        start = self._grid.arranged.index(line) if line is not None else 0
        found = self._grid.next_wrong(start, step)
        if found is None:
            self._owner.tell("no other node deviates")
        else:
            self.view.select(self._grid.lines[found])

    def action_move(self, rows: int, columns: int) -> None:
        """Move the cursor."""
        self.view.move(rows, columns)

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.view.move(pages * max(1, self.view.size.height - 1))

    def action_cursor_first(self) -> None:
        """Go to the worst node."""
        self.view.home()

    def action_cursor_last(self) -> None:
        """Go to the last row."""
        self.view.move(self.view.line_count())

    # ---- the selection

    def selected(self) -> list[str]:
        """Return the names of the selected nodes of this fleet, in the fleet's order; without a selection the node
        under the cursor."""
        if self._snapshot is None:
            return []
        names = [node.name for node in self._snapshot.nodes if node.name in self.marked]
        return names or self._under_cursor()

    def _under_cursor(self) -> list[str]:
        if not isinstance(self.view, GridView):
            return self.view.under_cursor()
        current = self.view.current
        line = self._grid.line_of(current[0]) if self._grid is not None and current is not None else None
        return self._grid.members(line) if self._grid is not None and line is not None else []

    def action_triage(self) -> None:
        """Be led to the cause of what is wrong with the selected nodes, without a selection with the fleet."""
        self._owner.open_triage_of(self.selected() if self.marked else ())

    def action_mark(self) -> None:
        """Select what the cursor is on, or let it go."""
        self._mark(self._under_cursor())

    def action_mark_and_go_on(self) -> None:
        """Select what the cursor is on, or let it go, and step on."""
        self._mark(self._under_cursor())
        self.view.move(1)

    def action_mark_all(self) -> None:
        """Select all nodes that fit the filter, or let them go."""
        if self._grid is not None and self._snapshot is not None:
            self._mark(self._grid.fitting())
            self._owner.tell(f"{len(self.marked):,} selected")

    def action_mark_none(self) -> None:
        """Let all selected nodes go."""
        self._mark(list(self.marked))

    def _mark(self, names: Iterable[str]) -> None:
        """Select `names`; where all of them are selected already, let them go."""
        some = set(names)
        if some <= self.marked:
            self.marked -= some
        else:
            self.marked |= some
        self.draw()

    # ---- views under a name

    def action_choose_view(self) -> None:
        """Ask which of the saved views to open."""
        views = self.views.named() if self.views is not None else {}
        if not views:
            self._owner.tell("no view is saved; V saves this one")
            return
        known = {name: View.from_dict(view) for name, view in views.items()}
        choices = [(name, view.words(), name) for name, view in known.items()]
        self._owner.choose("view", choices, lambda name: self.take_view(known[name]))

    def take_view(self, view: View) -> None:
        """Show what `view` says."""
        self.chosen = view
        self.metric_chosen = bool(view.metric)
        if self._grid is not None:
            self._grid.view = view
        self.draw()

    def action_save_view(self) -> None:
        """Ask for a name and save the view under it."""
        from stethoscope.ui.screens.ask import AskScreen

        self._owner.push_screen(AskScreen(self._owner, "name of this view"), self._save_view)

    def _save_view(self, answer: str | None) -> None:
        name = clean(answer or "", 60).strip()
        if self.views is None or not name:
            return
        try:
            self.views.save_named(name, self.chosen.to_dict())
        except OSError as error:
            self._owner.tell(f"not saved: {error.strerror or error}", seconds=10)
        else:
            self._owner.tell(f"saved as {name}; v opens it")


def choosable(snapshot: FleetSnapshot) -> list[Metric]:
    """Return the metrics that the grid can show."""
    return [
        metric
        for metric in snapshot.catalogue.values()
        if metric.fleet and metric.id in snapshot.tables[metric.scope].index
    ]


def first_metric(snapshot: FleetSnapshot) -> str:
    """Return the metric to start with: the GPU's clock, or how busy the CPU is where there is no GPU."""
    ids = [metric.id for metric in choosable(snapshot)]
    has_gpus = any(node.gpus for node in snapshot.nodes) or all(node.frame_mono is None for node in snapshot.nodes)
    wanted = "gpu_sm_clock" if has_gpus else "cpu_util"
    return wanted if wanted in ids else ids[0]


def known_groups(snapshot: FleetSnapshot) -> tuple[str, ...]:
    """Return by what the nodes can be grouped: what is known of at least one of them."""
    nodes = snapshot.nodes
    known = {
        "rack": any(node.rack for node in nodes),
        "pod": any(node.pod for node in nodes),
        "leaf": any(node.leaves for node in nodes),
        "job": bool(snapshot.jobs),
        "partition": any(node.scheduler is not None and node.scheduler.partitions for node in nodes),
    }
    return tuple(group for group in GROUPS if known.get(group, group == "none"))
