"""`stethoscope job`: how training jobs go, from their logs, as text or JSON, once or on and on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.check import look_back, print_rows
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, open_source, source_options, with_keys
from stethoscope.errors import (
    EXIT_HEALTHY,
    EXIT_PLANNED,
    EXIT_UNREACHABLE,
    EXIT_URGENT,
    DataError,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job
    from stethoscope.ui.present.spans import Glyphs, Row

_WIDTH = 118


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", metavar="[ID]", required=False)
@source_options
@click.option("--log", "log", metavar="FILE", help="A log on this machine, instead of nodes.")
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (stethoscope.job/1); with --follow a line each time.")
@click.option("--follow", is_flag=True, help="Go on, and print again at every new step, until interrupted.")
@click.option("--timeout", metavar="TIME", default="40s", show_default=True, help="Longest wait for nodes and logs.")
@playbooks_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Print ASCII signs alone.")
def command(
    job: str | None,
    source: SourceOptions,
    log: str | None,
    at: str | None,
    as_json: bool,
    follow: bool,
    timeout: str,
    playbooks: tuple[str, ...],
    ascii_only: bool,
) -> int:
    """Say how training jobs go: step time, throughput against the job's own past, loss, checkpoints, findings.

    Without ID all jobs are listed; a single one is shown whole. Exit status: 0 nothing wrong with them, 1 something to
    be planned (P2), 2 something urgent (P0, P1), 69 when no node was reached.
    """
    shown = _Shown(job or "", as_json=as_json, ascii_only=ascii_only)
    if log is not None:
        if source.names_nodes or source.replay is not None:
            raise UsageError("--log is a file on this machine: give no nodes beside it")
        return _of_file(Path(log), shown, follow=follow)
    recording, directories = source.recording(), directories_of(playbooks)
    if recording is not None:
        if follow:
            raise UsageError("--replay shows one moment: --at says which; there is nothing to follow")
        return shown.show(look_back(recording, at, directories).snapshot)
    if at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    return _live(source, directories, shown, timeout, follow=follow)


class _Shown:
    """What is asked for, and how it is printed."""

    def __init__(self, job: str, *, as_json: bool, ascii_only: bool) -> None:
        self._job, self.as_json, self._ascii = job, as_json, ascii_only

    def jobs(self, snapshot: FleetSnapshot) -> Sequence[Job]:
        """Return the jobs that are meant; UsageError for one that is not known."""
        if not self._job:
            return snapshot.jobs
        found = [one for one in snapshot.jobs if one.id == self._job]
        if not found:
            near = did_you_mean(self._job, [one.id for one in snapshot.jobs])
            raise UsageError(f'no job is called "{self._job}"{near}')
        return found

    def show(self, snapshot: FleetSnapshot) -> int:
        """Print the answer and return the exit status."""
        jobs = self.jobs(snapshot)
        if self.as_json:
            import msgspec

            from stethoscope.ui.present.job_json import jobs_json

            say(msgspec.json.encode(jobs_json(snapshot, jobs)).decode())
        else:
            print_rows(lambda glyphs: self._rows(snapshot, jobs, glyphs), ascii_only=self._ascii)
        return self._status(snapshot, jobs)

    def _rows(self, snapshot: FleetSnapshot, jobs: Sequence[Job], glyphs: Glyphs) -> list[Row]:
        from stethoscope.ui.present.job import job_lines, list_lines
        from stethoscope.ui.present.spans import Span, Tone

        if len(jobs) != 1:
            return [line.row for line in list_lines(snapshot, glyphs, _WIDTH)]
        name = f" {glyphs.dot} ".join(part for part in (f"job {jobs[0].id}", jobs[0].name) if part)
        return [(Span(name, Tone.STRONG),), *(line.row for line in job_lines(snapshot, jobs[0], glyphs, _WIDTH))]

    def tell(self, snapshot: FleetSnapshot, text: str) -> None:
        """Print a new step: a line of `text`, or the whole answer as JSON."""
        if self.as_json:
            self.show(snapshot)
        else:
            say(text)
        sys.stdout.flush()

    def one_line(self, snapshot: FleetSnapshot) -> tuple[object, str]:
        """Return what changes with every step, and the jobs in a line of text."""
        from stethoscope.clock import hms
        from stethoscope.ui.present.job_words import pace_words, seconds_text, speed_text
        from stethoscope.ui.present.spans import ASCII

        texts: list[str] = []
        steps: list[object] = []
        for job in self.jobs(snapshot):
            standing = snapshot.standings.get(job.id)
            if standing is None or standing.last is None:
                steps.append((job.id, standing.log.trouble if standing is not None else ""))
                why = standing.log.trouble if standing is not None else "log not read"
                texts.append(f"job {job.id} {why or 'no step yet'}")
                continue
            values = standing.values
            parts = [f"job {job.id} step {standing.last.step:,}"]
            parts += [seconds_text(values["job_step_time"])] if "job_step_time" in values else []
            parts += [speed_text(values["job_throughput"], "samples/s")] if "job_throughput" in values else []
            parts += [f"loss {values['job_loss']:.4g}"] if "job_loss" in values else []
            parts += [pace_words(standing, ASCII), standing.phase]
            texts.append("  ".join(part for part in parts if part))
            steps.append((job.id, standing.last.step, standing.phase))
        return steps, "\n".join(f"{hms(snapshot.wall)}  {text}" for text in texts)

    def _status(self, snapshot: FleetSnapshot, jobs: Sequence[Job]) -> int:
        from stethoscope.model.finding import Severity
        from stethoscope.ui.present.job_words import touching

        found = {finding.severity for job in jobs for finding in touching(snapshot, job)}
        if found & {Severity.P0, Severity.P1}:
            return EXIT_URGENT
        return EXIT_PLANNED if Severity.P2 in found else EXIT_HEALTHY


def _live(source: SourceOptions, directories: list[Path], shown: _Shown, timeout: str, *, follow: bool) -> int:
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.session.job_look import look_at_jobs
    from stethoscope.session.open import open_session
    from stethoscope.specs.duration import duration_s

    try:
        timeout_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None

    said: list[object] = []

    def tell(snapshot: FleetSnapshot) -> None:
        steps, text = shown.one_line(snapshot)
        if [steps] != said:
            said[:] = [steps]
            shown.tell(snapshot, text)

    clock = SystemClock()
    nodes = open_source(with_keys(source), clock)
    session = open_session(nodes, clock, *directories, single_look=True, kept=not source.demo)
    try:
        snapshot = asyncio.run(look_at_jobs(session, timeout_s=timeout_s, tell=tell if follow else None))
    except KeyboardInterrupt:
        return EXIT_HEALTHY
    if not any(node.frames for node in snapshot.nodes):
        return EXIT_UNREACHABLE
    return shown.show(snapshot)


def _of_file(path: Path, shown: _Shown, *, follow: bool) -> int:
    import time

    from stethoscope.session.job_look import LogFile

    try:
        file = LogFile(path)
        if not follow:
            return shown.show(file.snapshot())
        said: object = None
        while True:
            snapshot = file.snapshot()
            steps, text = shown.one_line(snapshot)
            if steps != said:
                said = steps
                shown.tell(snapshot, text)
            time.sleep(1.0)
    except KeyboardInterrupt:
        return EXIT_HEALTHY
    except BrokenPipeError:
        # Who reads the answer has enough of it: that is not about the log.
        raise
    except OSError as error:
        raise DataError(error.strerror or str(error), where=str(path)) from None
