"""The job screen: all jobs, or how one goes, what its trend is, and what is found about it and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.job import JobLine, job_lines, job_title, list_lines
from stethoscope.ui.screens.pages import LinesScreen
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.present.spans import Row


class JobScreen(LinesScreen):
    """All jobs, or one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("job", moves=True)
    part = "job"

    def __init__(self, console: StethoscopeApp, job: str = "") -> None:
        """Show the job of that id; without one all jobs, where there is more than one."""
        super().__init__(console)
        self._job = job
        self._snapshot: FleetSnapshot | None = None
        self._now_wall = 0.0
        self._lines: list[JobLine] = []
        self._chosen = -1

    def show_snapshot(self, snapshot: FleetSnapshot, _now_mono: float, now_wall: float) -> None:
        """Take the state of this moment."""
        self._snapshot, self._now_wall = snapshot, now_wall
        self.draw()

    @property
    def _shown(self) -> Job | None:
        """Return the job that is shown, None for the list."""
        jobs = self._snapshot.jobs if self._snapshot is not None else ()
        if not self._job:
            return jobs[0] if len(jobs) == 1 else None
        return next((job for job in jobs if job.id == self._job), None)

    def draw(self) -> None:
        """Draw everything that is known."""
        # A picture can be due before the screen is laid out, and while it is taken away.
        if self._snapshot is None or not self.query(RowsView):
            return
        view, cells, glyphs = self.query_one(RowsView), self.size.width or 80, self._owner.glyphs
        replay = self._owner.replay.state if self._owner.replay is not None else None
        job = self._shown
        title = job_title(self._snapshot, job, self._now_wall, cells, glyphs, replay=replay)
        self.query_one("#top", Lines).show([title])
        wide = (view.cells or cells) - 1
        before = self._lines[self._chosen] if 0 <= self._chosen < len(self._lines) else None
        if job is not None:
            self._lines = job_lines(self._snapshot, job, glyphs, wide)
        else:
            self._lines = list_lines(self._snapshot, glyphs, wide)
        self._chosen = self._again(before)
        self.show_lines()

    def _again(self, before: JobLine | None) -> int:
        """Return where the line is that leads to where the cursor stood, else the first that leads anywhere."""
        leading = [number for number in range(len(self._lines)) if self.leads(number)]
        if before is not None:
            same = [number for number in leading if self._lines[number][1:] == before[1:]]
            near = [number for number in same if number >= self._chosen] or same
            if near:
                return near[0]
        return leading[0] if leading else -1

    def line_rows(self) -> Sequence[Row]:
        """Return the lines as they look without the cursor."""
        return [line.row for line in self._lines]

    def leads(self, number: int) -> bool:
        """Tell whether a line leads to a node or a job."""
        return bool(self._lines[number].node or self._lines[number].job)

    # ---- what the keys do

    def action_open_line(self) -> None:
        """Open the job or the node that the line under the cursor is about."""
        line = self._lines[self._chosen] if 0 <= self._chosen < len(self._lines) else None
        if line is not None and line.job:
            self._owner.open_jobs(line.job)
        elif line is not None and line.node:
            self._owner.open_node(line.node)
        else:
            self._owner.tell("this line leads nowhere")

    def action_triage(self) -> None:
        """Be led to the cause of what is wrong with the job."""
        line = self._lines[self._chosen] if 0 <= self._chosen < len(self._lines) else None
        job = self._shown.id if self._shown is not None else line.job if line is not None else ""
        self._owner.open_triage(f"job/{job}" if job else "")

    def action_open_job_log(self) -> None:
        """Decode the log of the job."""
        line = self._lines[self._chosen] if 0 <= self._chosen < len(self._lines) else None
        job = self._shown.id if self._shown is not None else line.job if line is not None else ""
        standing = self._snapshot.standings.get(job) if self._snapshot is not None else None
        if standing is None or not standing.log.node:
            self._owner.tell("no log of this job was read" if job else "choose a job first")
        else:
            self._owner.open_log_at(standing.log.node, standing.log.path, job)
