"""What is said of a job in few words: its pace, its trend, the segment of the fleet's top lines."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from stethoscope.clock import duration, hms
from stethoscope.model.ids import job_place, node_of
from stethoscope.model.scheduler import JobSource
from stethoscope.ui.present.assess import SEVERITY_LEVELS, worst_findings
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, level_tone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.job import Standing
    from stethoscope.model.scheduler import Job
    from stethoscope.ui.present.spans import Glyphs

SLOW = -20.0
"""Change of the throughput, in percent, from which on it is drawn as wrong."""
_NOTICED = -5.0
_FLAT = 0.02
_LONGEST_NAME = 24


def seconds_text(seconds: float) -> str:
    """Return the time of a step: `0.81 s`, `12.4 s`, `132 s`; below a tenth of a second `31 ms`."""
    if seconds < 0.0995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:,.0f} s"


def speed_text(value: float, unit: str = "") -> str:
    """Return a speed: `4,640 samples/s`, `3.17 samples/s`."""
    text = f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def age_text(seconds: float) -> str:
    """Return an age: `5 s`, `4 m`."""
    return f"{max(0.0, seconds):.0f} s" if seconds < 99.5 else duration(seconds)


def change_text(change: float, glyphs: Glyphs) -> str:
    """Return a change in percent with its sign."""
    minus = "-" if glyphs.dash == "-" else "−"
    return f"{'+' if change >= 0.5 else minus if change <= -0.5 else ''}{abs(change):.0f} %"


def arrow(glyphs: Glyphs) -> str:
    """Return what stands between before and now."""
    return "->" if glyphs.dash == "-" else "→"


def level_of(standing: Standing | None, findings: Sequence[Finding]) -> Level:
    """Return how a job stands: by its findings, else by its pace."""
    if findings:
        return SEVERITY_LEVELS[findings[0].severity]
    if standing is None or standing.last is None:
        return Level.MISSING
    return Level.WARNING if standing.values.get("job_throughput_change", 0.0) < SLOW else Level.NORMAL


def own_findings(snapshot: FleetSnapshot, job: Job) -> list[Finding]:
    """Return the active findings about a job itself, worst first."""
    place = job_place(job.id)
    return [finding for finding in worst_findings(snapshot) if place in finding.where or finding.cause == place]


def touching(snapshot: FleetSnapshot, job: Job) -> list[Finding]:
    """Return the active findings about a job and those about its nodes, its own first, then worst first."""
    own = own_findings(snapshot, job)
    nodes = set(job.nodes)
    others = [
        finding
        for finding in worst_findings(snapshot)
        if finding not in own
        and SEVERITY_LEVELS[finding.severity] > Level.MISSING
        and any(node_of(place) in nodes for place in finding.where)
    ]
    return [*own, *others]


def step_words(standing: Standing, glyphs: Glyphs) -> str:
    """Return the time of a step: `0.81 s`, and where it changed `0.81→1.20 s`; empty when it is not known."""
    now, usual = standing.values.get("job_step_time"), standing.usual.get("job_step_time")
    if now is None:
        # All that is known may be warm-up.
        last = standing.last.step_time_s if standing.last is not None else None
        return seconds_text(last) if last is not None else ""
    change = standing.values.get("job_throughput_change")
    if usual is None or change is None or change > _NOTICED:
        return seconds_text(now)
    before = seconds_text(usual)
    text = seconds_text(now)
    before = before.rpartition(" ")[0] if before.rpartition(" ")[2] == text.rpartition(" ")[2] else before
    return f"{before}{arrow(glyphs)}{text}"


def pace_words(standing: Standing, glyphs: Glyphs) -> str:
    """Return by how much the job is slower than usual: `−33 %`; empty when it is as ever, or nobody knows."""
    change = standing.values.get("job_throughput_change")
    return change_text(change, glyphs) if change is not None and change <= _NOTICED else ""


def shown_job(snapshot: FleetSnapshot) -> Job | None:
    """Return the job that the fleet screen tells of: the one that stands worst, of those alike the largest; None when
    no log of a job is read."""
    read = [job for job in snapshot.jobs if job.id in snapshot.standings]
    levels = {job.id: level_of(snapshot.standings[job.id], own_findings(snapshot, job)) for job in read}
    return max(read, key=lambda job: (levels[job.id], len(job.nodes)), default=None)


def job_segment(snapshot: FleetSnapshot, glyphs: Glyphs) -> tuple[Row, Row]:
    """Return the words about the job that stands worst, for a wide line and for a narrow one; empty when none is
    read."""
    job = shown_job(snapshot)
    if job is None:
        return (), ()
    standing, findings = snapshot.standings[job.id], own_findings(snapshot, job)
    level = level_of(standing, findings)
    name = f"job {cut(job.id, _LONGEST_NAME, glyphs.ellipsis)}"
    lead = Span(f"{name} ", Tone.QUIET if level <= Level.MISSING else Tone.STRONG)
    if standing.last is None:
        why = "log not read" if standing.log.trouble else "no step read yet"
        return (lead, Span(why, Tone.QUIET)), (lead, Span(why, Tone.QUIET))
    sign = f"{glyphs.level(level)} " if level > Level.MISSING else ""
    stopped = next((finding for finding in findings if finding.rule == "job_no_step"), None)
    if stopped is not None:
        told = Span(f"{sign}{stopped.summary.partition(' · ')[0]}", level_tone(level))
        return (lead, told), (lead, told)
    step, pace = step_words(standing, glyphs), pace_words(standing, glyphs)
    tone = level_tone(level) if level > Level.MISSING else Tone.QUIET
    wide = (lead, Span(f"step {step} " if step else "", Tone.QUIET), Span(f"{sign}{pace}".strip(), tone))
    since = standing.since.get("job_throughput_change")
    when = f" since {hms(since)[:5]}" if since is not None and pace else ""
    narrow = (lead, Span(f"{sign}{pace.replace(' %', '%')}{when}" if pace else f"step {step}" if step else "", tone))
    return wide, narrow


def source_words(job: Job) -> str:
    """Return who says that there is such a job."""
    return (
        "by Slurm"
        if job.source is JobSource.SLURM
        else f"by the {job.source.value}"
        if (job.source is JobSource.FLEET_FILE)
        else job.source.value
    )


def sparks(values: Sequence[float | None], cells: int, glyphs: Glyphs) -> str:
    """Return a row of bars of the last values, blank where there was none; what hardly moves is a level line."""
    shown = _fitted(values, cells)
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    middle = (low + high) / 2
    if high - low <= _FLAT * abs(middle):
        # Noise must not look like a mountain range.
        room = 5 * _FLAT * abs(middle) or 1.0
        low, high = middle - room, middle + room
    steps = len(glyphs.spark) - 1
    return "".join(
        " " if value is None else glyphs.spark[round(steps * (value - low) / (high - low))] for value in shown
    )


def _fitted(values: Sequence[float | None], cells: int) -> list[float | None]:
    """Return means of neighbours, so many that they fit."""
    finite = [value if value is not None and abs(value) < 1e300 else None for value in values]
    if len(finite) <= cells:
        return finite
    edges = [round(at * len(finite) / cells) for at in range(cells + 1)]
    groups = [[value for value in finite[start:end] if value is not None] for start, end in pairwise(edges)]
    return [sum(group) / len(group) if group else None for group in groups]
