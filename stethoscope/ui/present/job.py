"""One job as lines: how it goes, what its trend is, what is found about it and its nodes; and all jobs as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.analysis.job_list import known_nodes, rank_spans
from stethoscope.clock import hms, iso
from stethoscope.model.ids import fold, job_place, node_of
from stethoscope.ui.present.assess import SEVERITY_LEVELS
from stethoscope.ui.present.job_words import (
    age_text,
    arrow,
    change_text,
    level_of,
    own_findings,
    pace_words,
    seconds_text,
    source_words,
    sparks,
    speed_text,
    step_words,
    touching,
)
from stethoscope.ui.present.lines import since_text
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, level_tone, pad, row_width, spread, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.job import Standing
    from stethoscope.model.scheduler import Job
    from stethoscope.ui.present.replay import ReplayStanding
    from stethoscope.ui.present.spans import Glyphs

_TITLE = 11
_WIDE = 100
_MOST_FINDINGS = 12
_TREND = 60


class JobLine(NamedTuple):
    """One line, and where it leads: a node, a job, or nowhere."""

    row: Row
    node: str = ""
    job: str = ""


class _Page:
    """Makes the lines of one job."""

    def __init__(self, snapshot: FleetSnapshot, job: Job, glyphs: Glyphs, cells: int) -> None:
        self.snapshot, self.job, self.glyphs, self.cells = snapshot, job, glyphs, cells
        self.standing = snapshot.standings.get(job.id)
        self.now = snapshot.wall
        self.lines: list[JobLine] = []

    def say(self, title: str, *spans: Span, node: str = "") -> None:
        self.lines.append(JobLine((Span(f"  {title:<{_TITLE}} ", Tone.QUIET), *spans), node))

    def blank(self) -> None:
        self.lines.append(JobLine(()))

    def joined(self, parts: Sequence[str]) -> str:
        return f" {self.glyphs.dot} ".join(part for part in parts if part)

    def more(self, parts: Sequence[str]) -> Span:
        """Return what stands behind the first words of a line."""
        text = self.joined(parts)
        return Span(f"{self.glyphs.dot} {text}" if text else "", Tone.QUIET)

    # ---- the parts

    def head(self) -> None:
        job = self.job
        if not job.nodes:
            return
        nodes = known_nodes(job, self.snapshot)
        missing = len(set(job.nodes)) - len(nodes)
        spans = rank_spans(job, self.snapshot)
        ranks = max((last for _, last in spans.values()), default=-1) + 1
        said = [fold(job.nodes), f"{ranks:,} ranks" if ranks else "ranks not known"]
        said.append(f"{missing:,} of them not watched here" if missing else "")
        self.say("nodes", Span(self.joined(said), Tone.PLAIN))
        began = (
            f"since {iso(job.started)[:16].replace('T', ' ')} UTC, {age_text(self.now - job.started)}"
            if (job.started is not None)
            else ""
        )
        words = [job.state or "state not known", f"user {job.user}" if job.user else "", began, source_words(job)]
        self.say("state", Span(self.joined(words), Tone.PLAIN))

    def pace(self, standing: Standing) -> None:
        last, values = standing.last, standing.values
        assert last is not None
        total = f" of {last.total:,}" if last.total else ""
        age = f"{age_text(self.now - last.at)} ago" if last.at is not None else ""
        level = level_of(standing, own_findings(self.snapshot, self.job))
        step = step_words(standing, self.glyphs) or "the log says no time"
        wobble = values.get("job_step_time_variation")
        swing = "" if wobble is None else f"varies by {100 * wobble:.0f} %"
        loud = level_tone(level) if level > Level.MISSING and pace_words(standing, self.glyphs) else Tone.STRONG
        phase = f"{standing.phase} now" if standing.phase else ""
        self.say(
            "step",
            Span(f"{step} ", loud),
            self.more([f"step {last.step:,}{total}", age, swing, phase]),
        )
        self.speed(standing, level)

    def speed(self, standing: Standing, level: Level) -> None:
        values, usual, last = standing.values, standing.usual, standing.last
        assert last is not None
        now, before = values.get("job_throughput", last.samples_per_s), usual.get("job_throughput")
        pace = pace_words(standing, self.glyphs)
        unit = "samples/s"
        if now is None and last.tokens_per_s is not None:
            now, before, unit = last.tokens_per_s, None, "tokens/s"
        if now is None:
            text = "the log says neither samples nor tokens per second"
        elif before is not None and pace:
            text = f"{speed_text(before)}{arrow(self.glyphs)}{speed_text(now, unit)}"
        else:
            text = speed_text(now, unit)
        change = values.get("job_throughput_change")
        if change is None:
            told = Span("too few steps yet to say what is usual", Tone.QUIET)
        elif not pace:
            told = Span(f"{change_text(change, self.glyphs)} against its own past", Tone.QUIET)
        else:
            since = standing.since.get("job_throughput_change")
            when = "" if since is None else f" since {hms(since)}, {age_text(self.now - since)}"
            sign = f"{self.glyphs.level(level)} " if level > Level.MISSING else ""
            told = Span(f"{sign}{pace}{when}", level_tone(level) if level > Level.MISSING else Tone.PLAIN)
        self.say("speed", Span(f"{text} ", Tone.PLAIN), Span(f"{self.glyphs.dot} ", Tone.QUIET), told)

    def loss(self, standing: Standing) -> None:
        values, last = standing.values, standing.last
        assert last is not None
        state = values.get("job_loss_state")
        if state is None:
            self.say("loss", Span("not in this log", Tone.QUIET))
            return
        loss = values.get("job_loss")
        variance = values.get("job_loss_variance")
        parts = [
            "" if variance is None else f"variance {variance:.2g}",
            "" if "job_grad_norm" not in values else f"gradient norm {values['job_grad_norm']:.3g}",
            "" if last.lr is None else f"learning rate {last.lr:.3g}",
            f"{standing.skipped:,} steps skipped" if standing.skipped else "",
            f"{standing.restarts:,} restarts" if standing.restarts else "",
        ]
        word = {0.0: "", 1.0: "diverging", 2.0: "NaN"}[state]
        tone = level_tone(Level.WARNING) if word else Tone.PLAIN
        if loss is None and not word:
            word = "no number at the last step"
        text = " ".join(part for part in (f"{loss:.4g}" if loss is not None else "", word) if part)
        self.say("loss", Span(f"{text} ", tone), self.more(parts))

    def data(self, standing: Standing) -> None:
        share = standing.values.get("job_data_share")
        if share is None:
            self.say("data", Span("the log says no time of waiting for data", Tone.QUIET))
        else:
            tone = level_tone(Level.WARNING) if share > 0.2 else Tone.PLAIN
            self.say("data", Span(f"{100 * share:.0f} % of a step waits for data", tone))

    def checkpoint(self, standing: Standing) -> None:
        if not standing.checkpoints:
            self.say("checkpoint", Span("none in what was read", Tone.QUIET))
            return
        at, took = standing.checkpoints[-1]
        usual = standing.usual.get("job_checkpoint_write_time")
        ago = f"{age_text(self.now - at)} ago" if at else ""
        usually = f"usually {seconds_text(usual)}" if usual is not None else ""
        tone = level_tone(Level.PLANNED) if usual and took > 2 * usual else Tone.PLAIN
        self.say("checkpoint", Span(f"{seconds_text(took)} ", tone), self.more([ago, usually]))

    def log(self) -> None:
        standing = self.standing
        if standing is None:
            why = "nobody says where it prints to" if not self.job.stdout else "its log is not read here"
            self.say("log", Span(why, Tone.QUIET))
            return
        log = standing.log
        where = f"{log.path} on {log.node}" if log.node else log.path
        if log.trouble:
            self.say(
                "log",
                Span(f"{self.glyphs.level(Level.MISSING)} {where}: {log.trouble}".replace(" : ", " "), Tone.PLAIN),
            )
            return
        ago = f"last line {age_text(self.now - log.line_at)} ago" if log.line_at is not None else ""
        family = f"as {log.family} prints" if log.family else "no step understood in it"
        self.say("log", Span(self.joined([where, ago, family]), Tone.PLAIN))

    def trends(self, standing: Standing) -> None:
        room = min(_TREND, self.cells - _TITLE - 32)
        if room < 10 or len(standing.step_time.steps) < 2:
            return
        self.blank()
        for title, curve, text in (
            ("step time", standing.step_time, seconds_text),
            ("throughput", standing.throughput, speed_text),
            ("loss", standing.loss, lambda value: f"{value:.4g}"),
        ):
            known = [value for value in curve.values if value is not None and abs(value) < 1e300]
            if known:
                first, last = text(known[0]), text(known[-1])
                bars = sparks(curve.values, room, self.glyphs)
                self.say(title, Span(f"{first:>10} ", Tone.QUIET), Span(bars, Tone.PLAIN), Span(f" {last}", Tone.PLAIN))
        steps = standing.step_time.steps
        self.say("", Span(f"steps {steps[0]:,} to {steps[-1]:,}", Tone.QUIET))

    def findings(self) -> None:
        found = touching(self.snapshot, self.job)
        self.blank()
        if not found:
            self.say("findings", Span("none about this job or its nodes", Tone.QUIET))
            return
        for finding in found[:_MOST_FINDINGS]:
            self.lines.append(JobLine(self._finding(finding), self._node_of(finding)))
        if len(found) > _MOST_FINDINGS:
            self.say("", Span(f"and {len(found) - _MOST_FINDINGS:,} more", Tone.QUIET))

    def _node_of(self, finding: Finding) -> str:
        return next((node_of(place) for place in finding.where if node_of(place) in self.snapshot.by_name), "")

    def _finding(self, finding: Finding) -> Row:
        level = SEVERITY_LEVELS[finding.severity]
        place = finding.where[0] if len(finding.where) == 1 else finding.nodes
        return (
            Span(f"  {self.glyphs.level(level)} {finding.severity.value:<4} ", level_tone(level)),
            Span(f"{cut(place, 28, self.glyphs.ellipsis)} ", Tone.STRONG),
            Span(finding.summary, level_tone(level)),
            Span(f" {self.glyphs.dot} {since_text(finding.since, self.now)}", Tone.QUIET),
        )

    def nodes(self) -> None:
        """Name the nodes that something was found on, with their ranks; fold the others."""
        spans = rank_spans(self.job, self.snapshot)
        own = job_place(self.job.id)
        worst: dict[str, Finding] = {}
        for finding in touching(self.snapshot, self.job):
            for place in finding.where:
                if place != own:
                    worst.setdefault(node_of(place), finding)
        quiet: list[str] = []
        self.blank()
        for node in known_nodes(self.job, self.snapshot):
            found = worst.get(node.name)
            if found is None and node.link.state.is_live:
                quiet.append(node.name)
                continue
            level = SEVERITY_LEVELS[found.severity] if found is not None else Level.LOST
            what = found.summary if found is not None else node.link.state.value
            ranks = (
                "" if node.name not in spans else f"ranks {spans[node.name][0]}{self.glyphs.dash}{spans[node.name][1]}"
            )
            row: Row = (
                Span(f"  {self.glyphs.level(level)} ", level_tone(level)),
                Span(pad(node.name, 20, self.glyphs.ellipsis), Tone.STRONG),
                Span(f" {ranks:<15} ", Tone.QUIET),
                Span(what, level_tone(level)),
            )
            self.lines.append(JobLine(row, node.name))
        if quiet:
            count = f"{len(quiet):,} nodes" if len(quiet) > 1 else "1 node"
            text = f"{fold(quiet)} {self.glyphs.dot} {count} with nothing found"
            row = (Span(f"  {self.glyphs.level(Level.NORMAL)} ", Tone.NORMAL), Span(text, Tone.QUIET))
            self.lines.append(JobLine(row, quiet[0] if len(quiet) == 1 else ""))


def job_lines(snapshot: FleetSnapshot, job: Job, glyphs: Glyphs, cells: int) -> list[JobLine]:
    """Return all that is known of a job."""
    page = _Page(snapshot, job, glyphs, cells)
    standing = page.standing
    page.head()
    if standing is not None and standing.last is not None:
        page.pace(standing)
        page.loss(standing)
        page.data(standing)
        page.checkpoint(standing)
    page.log()
    if standing is not None and standing.last is not None:
        page.trends(standing)
    if job.nodes:
        page.findings()
        page.nodes()
    return page.lines


def list_lines(snapshot: FleetSnapshot, glyphs: Glyphs, cells: int) -> list[JobLine]:
    """Return a line for each job, worst first, the largest before smaller ones."""
    if not snapshot.jobs:
        why = "no job is known: there is no Slurm here, the fleet file names none, and no GPU process shows one"
        return [JobLine((Span(f"  {why}", Tone.QUIET),))]
    graded = []
    for job in snapshot.jobs:
        standing, found = snapshot.standings.get(job.id), own_findings(snapshot, job)
        graded.append((level_of(standing, found), job, standing, found))
    graded.sort(key=lambda entry: (-entry[0], -len(entry[1].nodes), entry[1].id))
    longest = min(24, max(width(job.id) for _, job, _, _ in graded))
    named = min(20, max(width(job.name) for _, job, _, _ in graded)) if cells >= _WIDE else 0
    return [JobLine(_list_row(*entry, glyphs, longest, named), job=entry[1].id) for entry in graded]


def _list_row(
    level: Level,
    job: Job,
    standing: Standing | None,
    found: Sequence[Finding],
    glyphs: Glyphs,
    longest: int,
    named: int,
) -> Row:
    nodes = f"{len(job.nodes):,} node{'s' if len(job.nodes) != 1 else ''}"
    who = cut(job.user, 10, glyphs.ellipsis)
    if standing is None:
        told = "log not read" if job.stdout else "no log is known"
    elif standing.last is None:
        told = standing.log.trouble or "no step in its log yet"
    else:
        step = step_words(standing, glyphs)
        pace = pace_words(standing, glyphs)
        told = f" {glyphs.dot} ".join(part for part in (f"step {step}" if step else "", pace) if part)
    what = found[0].summary.partition(" · ")[0] if found else ""
    return (
        Span(f"  {glyphs.level(level)} ", level_tone(level)),
        Span(pad(job.id, longest, glyphs.ellipsis), Tone.STRONG),
        Span(f"  {pad(job.name, named, glyphs.ellipsis)}" if named else "", Tone.PLAIN),
        Span(f"  {pad(who, 10, glyphs.ellipsis)} {nodes:>11}   ", Tone.QUIET),
        Span(told, Tone.PLAIN if level > Level.MISSING else Tone.QUIET),
        Span(f"   {what}" if what and what not in told else "", level_tone(level)),
    )


def job_title(
    snapshot: FleetSnapshot,
    job: Job | None,
    wall: float,
    cells: int,
    glyphs: Glyphs,
    *,
    replay: ReplayStanding | None = None,
) -> Row:
    """Return the top line of the screen."""
    name = "jobs" if job is None else f"job {job.id}"
    if job is None:
        more = f"{len(snapshot.jobs):,} of them"
    else:
        more = f" {glyphs.dot} ".join(part for part in (job.name, job.state) if part)
    lead = " stethoscope  " if cells >= _WIDE else " "
    marks = replay_marks(replay, wall) if replay is not None else ((Span(f"{hms(wall)} UTC ", Tone.QUIET),),) * 2
    left = (Span(lead, Tone.QUIET), Span(f"{snapshot.fleet}  {name}", Tone.TITLE), Span(f"  {more}", Tone.QUIET))
    for mark in marks:
        if row_width((*left, *mark)) + 2 <= cells:
            return spread(left, mark, cells)
    text = cut("".join(span.text for span in left), cells - row_width(marks[1]) - 2, glyphs.ellipsis)
    return spread((Span(text, Tone.TITLE),), marks[1], cells)
