"""The lines around the grid: who and how many, the legend, the findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.clock import duration, from_iso, hms
from stethoscope.model.ids import fold
from stethoscope.ui.present.assess import SEVERITY_LEVELS, worst_findings
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import (
    Level,
    Row,
    Span,
    Tone,
    cut,
    level_tone,
    row_width,
    spread,
)

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.replay import ReplayStanding
    from stethoscope.ui.present.spans import Glyphs

_NARROW = 100
_WIDE = 140


@dataclass(frozen=True, slots=True)
class Counts:
    """How many nodes and GPUs there are and how they stand."""

    nodes: int
    gpus: int
    live: int
    pending: int
    stale: int
    hung: int
    lost: int
    age_s: float | None
    """Age of the oldest data among the live nodes."""
    tick_s: float
    """Longest interval at which a node is asked to send."""
    findings: Counter[Level]


def count(assessment: Assessment) -> Counts:
    """Count the nodes of a snapshot by how they stand; a hung driver counts as hung even on a live node."""
    if "counts" not in assessment.made:
        assessment.made["counts"] = _count(assessment)
    counts: Counts = assessment.made["counts"]
    return counts


def _count(assessment: Assessment) -> Counts:
    snapshot = assessment.snapshot
    fresh = Counter(assessment.ages)
    hung = sum(assessment.ages[index] in (Level.NORMAL, Level.STALE) for index in np.flatnonzero(assessment.hung))
    heard = [
        node.frame_mono
        for node, age in zip(snapshot.nodes, assessment.ages, strict=True)
        if age is Level.NORMAL and node.frame_mono is not None
    ]
    return Counts(
        nodes=len(snapshot.nodes),
        gpus=sum([len(node.gpus) for node in snapshot.nodes]),
        live=fresh[Level.NORMAL],
        pending=fresh[Level.MISSING],
        stale=fresh[Level.STALE],
        hung=hung,
        lost=fresh[Level.LOST],
        age_s=max(0.0, assessment.now_mono - min(heard)) if heard else None,
        tick_s=max([node.tick_s for node in snapshot.nodes], default=1.0) or 1.0,
        findings=Counter(SEVERITY_LEVELS[finding.severity] for finding in worst_findings(snapshot)),
    )


def top_line(
    assessment: Assessment,
    wall: float,
    cells: int,
    glyphs: Glyphs,
    *,
    paused: bool,
    replay: ReplayStanding | None = None,
) -> Row:
    """Return the top line: the fleet, how its nodes stand, how old the data is, what was found, and the time."""
    counts = count(assessment)
    if replay is not None:
        return _replay_line(assessment, counts, replay_marks(replay, wall), cells, glyphs)
    right = [Span(f"{hms(wall)} UTC ", Tone.QUIET)]
    if paused:
        right[:0] = [Span(" PAUSED ", Tone.KEY, selected=True), Span("  ")]
    # The form follows from the width alone: nothing must shift at the moment when something goes wrong.
    if cells >= _NARROW:
        lead = Span(" stethoscope  " if cells >= _WIDE else " ", Tone.QUIET)
        wide = (lead, *_wide_counts(assessment, counts, glyphs))
        if row_width((*wide, *right)) + 2 <= cells:
            return spread(wide, tuple(right), cells)
    right[-1] = Span(f"{hms(wall)} ", Tone.QUIET)
    return spread((Span(" "), *_short_counts(assessment, counts, glyphs)), tuple(right), cells)


def _replay_line(assessment: Assessment, counts: Counts, marks: tuple[Row, Row], cells: int, glyphs: Glyphs) -> Row:
    wide = (Span(" "), *_wide_counts(assessment, counts, glyphs))
    for mark in marks if cells >= _NARROW else ():
        if row_width((*wide, *mark)) + 2 <= cells:
            return spread(wide, mark, cells)
    short = (Span(" "), *_short_counts(assessment, counts, glyphs))
    # The mark is never cut: what is seen here is not now.
    while len(short) > 2 and row_width((*short, *marks[1])) + 1 > cells:
        short = short[:-1]
    return spread(short, marks[1], cells)


def _states(counts: Counts) -> list[tuple[int, Level, str]]:
    states = [
        (counts.hung, Level.HUNG, "hung"),
        (counts.lost, Level.LOST, "lost"),
        (counts.stale, Level.STALE, "stale"),
        (counts.pending, Level.MISSING, "connecting"),
    ]
    return [state for state in states if state[0]]


def _found(counts: Counts) -> list[Level]:
    return [level for level in (Level.CRITICAL, Level.WARNING, Level.PLANNED) if counts.findings[level]]


def _age_text(age_s: float, tick_s: float) -> str:
    # To the nearest tick: within one, the age says only when in it one looked, and the line would flicker.
    return f"{max(1, round(age_s / tick_s)) * tick_s:g} s"


def _wide_counts(assessment: Assessment, counts: Counts, glyphs: Glyphs) -> list[Span]:
    snapshot = assessment.snapshot
    row = [Span(snapshot.fleet, Tone.TITLE)]
    if snapshot.simulated:
        row.append(Span("  SIMULATED", Tone.PLANNED))
    if snapshot.read_only:
        row.append(Span("  READ-ONLY", Tone.PLANNED))
    dot = f" {glyphs.dot} "
    gpus = f"{dot}{counts.gpus:,} GPUs" if counts.gpus else ""
    nodes = "1 node" if counts.nodes == 1 else f"{counts.nodes:,} nodes"
    row.append(Span(f"  {nodes}{gpus}{dot}{counts.live:,} live", Tone.PLAIN))
    for many, level, word in _states(counts):
        row += [Span(dot, Tone.QUIET), Span(f"{many:,} {word}", level_tone(level))]
    if counts.age_s is not None:
        row.append(Span(f"   data {_age_text(counts.age_s, counts.tick_s)}", Tone.QUIET))
    row.append(Span("  "))
    row += [Span(f"  {glyphs.level(level)} {counts.findings[level]}", level_tone(level)) for level in _found(counts)]
    return row


def _short_counts(assessment: Assessment, counts: Counts, glyphs: Glyphs) -> list[Span]:
    snapshot = assessment.snapshot
    row = [Span(cut(snapshot.fleet, 16, glyphs.ellipsis), Tone.TITLE)]
    if snapshot.simulated:
        row.append(Span(" SIM", Tone.PLANNED))
    if snapshot.read_only:
        row.append(Span(" RO", Tone.PLANNED))
    gpus = f" {counts.gpus}g" if counts.gpus else ""
    row.append(Span(f" {counts.nodes}n{gpus} {glyphs.dot} {counts.live} live", Tone.PLAIN))
    row += [Span(f" {glyphs.level(level)}{many}", level_tone(level)) for many, level, _ in _states(counts)]
    if counts.age_s is not None:
        row.append(Span(f" {glyphs.dot} {_age_text(counts.age_s, counts.tick_s)}", Tone.QUIET))
    if found := _found(counts):
        row.append(Span(f" {glyphs.dot}", Tone.QUIET))
        row += [Span(f" {glyphs.level(level)}{counts.findings[level]}", level_tone(level)) for level in found]
    return row


def unseen_line(assessment: Assessment, cells: int, glyphs: Glyphs) -> Row | None:
    """Return what cannot be seen of the scheduler and on live nodes, most frequent first, or None when all can be."""
    notes: Counter[tuple[str, str]] = Counter()
    for node in assessment.snapshot.nodes:
        if node.notes and assessment.ages[node.index] is Level.NORMAL:
            notes.update((what, why) for what, why in node.notes.items() if not why.startswith("hung"))
    parts = [f"Slurm not seen: {assessment.snapshot.scheduler_note}"] if assessment.snapshot.scheduler_note else []
    if not notes and not parts:
        return None
    for (what, why), nodes in notes.most_common(3):
        many = f" on {nodes:,} nodes" if len(assessment.snapshot.nodes) > 1 else ""
        parts.append(f"{note_title(what)} not seen{many}: {why}")
    text = f" {glyphs.dot} ".join(parts)
    return (
        Span(f" {glyphs.level(Level.MISSING)} ", Tone.MISSING),
        Span(cut(text, cells - 4, glyphs.ellipsis), Tone.QUIET),
    )


def note_title(what: str) -> str:
    """Return the name of a thing that a probe could not read, in words."""
    return {
        "nvml": "GPU driver",
        "kernel_log": "kernel log",
        "psi": "pressure",
        "ib": "InfiniBand",
        "traffic": "NVLink and PCIe traffic",
    }.get(what, what.replace("_", " "))


def finding_place(finding: Finding) -> str:
    """Return the place of a finding, or its node set when it is at several."""
    return finding.where[0] if len(finding.where) == 1 else finding.nodes or fold(finding.where)


def since_text(since: str, wall: float) -> str:
    """Return how long ago an ISO 8601 time was."""
    then = from_iso(since)
    if then is None:
        return "?"
    seconds = max(0.0, wall - then)
    return f"{seconds:.0f} s" if seconds < 99.5 else duration(seconds)
