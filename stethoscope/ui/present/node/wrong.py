"""The head of the node screen: what is wrong with this one, and what cannot be seen on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import hms
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Missing
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, link_words, peers_median, short_place
from stethoscope.ui.present.lines import note_title, since_text
from stethoscope.ui.present.node.devices import joined
from stethoscope.ui.present.node.view import Line, Piece, Section, Spot, View, text_line
from stethoscope.ui.present.numbers import fact_text, value_text
from stethoscope.ui.present.replay import replay_marks
from stethoscope.ui.present.spans import Level, Row, Span, Tone, cut, level_tone, row_width, spread, width

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.ui.present.node.judge import Beyond
    from stethoscope.ui.present.replay import ReplayStanding

_MOST = 8
"""Values beyond their limits that are listed; their sections open anyway."""


def node_title(view: View, cells: int, *, paused: bool = False, replay: ReplayStanding | None = None) -> Row:
    """Return the top line of the node screen."""
    assessment, node, glyphs, wall = view.assessment, view.node, view.glyphs, view.wall
    level = int(assessment.nodes[node.index])
    fresh = assessment.ages[node.index]
    age = age_word(node, assessment.now_mono)
    parts = [node.link.state.value + (f", data {age}" if age else "")]
    if node.gpus:
        parts.append(f"{len(node.gpus)} x {node.gpus[0].name.removeprefix('NVIDIA ')}")
    if node.ports:
        parts.append(f"{len(node.ports)} ports")
    if node.rack:
        parts.append(node.rack)
    right: Row = (Span(f"{hms(wall)} UTC ", Tone.QUIET),)
    if replay is not None:
        right = replay_marks(replay, wall)[1]
    elif paused:
        right = (Span(" PAUSED ", Tone.KEY, selected=True), Span(f"  picture of {hms(wall)} UTC ", Tone.QUIET))
    if view.mark is not None and cells >= 100:
        right = (Span(f"mark {hms(view.mark.wall)}   ", Tone.KEY), *right)
    words = f" {glyphs.dot} ".join(parts)
    left = (
        Span(f" {glyphs.level(level)} ", level_tone(level)),
        Span(node.name, Tone.TITLE),
        Span("  "),
        Span(
            cut(words, max(0, cells - width(node.name) - max(21, row_width(right) + 7)), glyphs.ellipsis),
            level_tone(fresh) if fresh else Tone.QUIET,
        ),
    )
    return spread(left, right, cells)


def head(view: View, beyond: list[Beyond]) -> list[Line]:
    """Return what is wrong: findings first, then values that are not as they should be, with what they should be; one
    quiet line when nothing is."""
    found = view.assessment.findings.get(view.node.name, ())
    lines = [line for finding in found for line in _finding_lines(view, finding)]
    named = {place for finding in found for place in finding.where}
    told = [one for one in beyond if not _is_told(view, one, named)]
    room = max(2, _MOST - len(lines))
    shown = told if view.all_open or len(told) <= room else told[: room - 1]
    lines += [_beyond_line(view, one) for one in shown]
    if len(shown) < len(told):
        lines.append((Piece(f"   and {len(told) - len(shown)} more below", Tone.QUIET),))
    fresh = view.assessment.ages[view.node.index]
    if fresh is not Level.NORMAL and not found:
        words = link_words(view.node, view.wall, next_try=True)
        lines.append(text_line(view, "wrong", "", words, level=fresh if fresh > Level.MISSING else 0))
    if not lines:
        lines.append(_nothing(view))
    return lines


def _finding_lines(view: View, finding: Finding) -> list[Line]:
    glyphs, level = view.glyphs, SEVERITY_LEVELS[finding.severity]
    tone = level_tone(level) if finding.severity.rank <= Severity.P2.rank else Tone.QUIET
    where = ", ".join(short_place(place) or view.node.name for place in finding.where[:4])
    if len(finding.where) > 4:
        where += f" and {len(finding.where) - 4} more"
    since = since_text(finding.since, view.wall)
    evidence = "".join(
        f" {glyphs.dot} {fact_text(fact, view.snapshot.catalogue)}"
        for fact in finding.evidence
        if fact.value is not None
    )
    lead = f" {glyphs.level(level)} {finding.severity.value} "
    whole = f"{finding.severity.value} {where} {finding.summary}, for {since}{evidence}"
    text = f"{where}  {finding.summary} {glyphs.dot} {since}"
    room = view.cells - width(lead) - 1
    spot = Spot("wrong", text=whole)
    line = [Piece(lead, tone), Piece(cut(text, room, glyphs.ellipsis), tone, spot)]
    rest = room - width(text)
    if evidence and rest > 20:
        line.append(Piece(cut(evidence, rest, glyphs.ellipsis), Tone.QUIET))
    return [tuple(line)]


def _is_told(view: View, one: Beyond, named: set[str]) -> bool:
    """Tell whether a finding says the same: that this device, or its node, is gone or does not answer."""
    if one.level not in (Level.LOST, Level.HUNG):
        return False
    return view.node.name in named or f"{view.node.name}/{one.where}" in named


def _beyond_line(view: View, one: Beyond) -> Line:
    glyphs = view.glyphs
    text = f"{one.where}  {one.words}" if one.where else one.words
    parts = [one.should, _peers(view, one)]
    beside = joined(view, parts)
    room = view.cells - 7
    line = [
        Piece(f" {glyphs.level(one.level)}    ", level_tone(one.level)),
        Piece(cut(text, room, glyphs.ellipsis), level_tone(one.level), one.spot),
    ]
    if beside and room - width(text) > 12:
        line.append(Piece("   " + cut(beside, room - width(text) - 3, glyphs.ellipsis), Tone.QUIET))
    return tuple(line)


def _peers(view: View, one: Beyond) -> str:
    spot = one.spot
    if (
        spot is None
        or spot.scope is None
        or one.level in (Level.LOST, Level.HUNG)
        or " on " in one.should
        or one.should == "should be 0"
    ):
        return ""
    metric = view.snapshot.catalogue[spot.metric]
    row = view.snapshot.rows(view.node, spot.scope)[spot.position]
    if metric.words or isinstance(view.snapshot.tables[spot.scope].get(spot.metric, row), Missing):
        return ""
    median = peers_median(view.assessment, spot.scope, spot.metric, row)
    return f"peers {value_text(metric, median)}" if median is not None else ""


def _nothing(view: View) -> Line:
    node = view.node
    if not node.frames:
        return (Piece("   nothing read yet", Tone.QUIET),)
    parts = [f"{len(node.gpus)} GPUs" if node.gpus else "no GPU", f"{len(node.ports)} ports" if node.ports else ""]
    text = f"nothing wrong: {', '.join(part for part in parts if part)}, every value within its limits"
    return (Piece(f" {view.glyphs.level(0)} ", Tone.NORMAL), Piece(text, Tone.QUIET))


def unseen(view: View) -> Section | None:
    """Return the section of what cannot be seen, None when all can be."""
    notes = sorted((what, why) for what, why in view.node.notes.items() if not what.endswith(("_tried", "_pid")))
    if not notes:
        return None

    def body(view: View) -> list[Line]:
        return [text_line(view, "unseen", "", f"{note_title(what)}: {why}", Tone.PLAIN) for what, why in notes]

    summary = joined(view, (f"{note_title(what)}: {why}" for what, why in notes))
    return Section("unseen", "Not seen", Level.MISSING, summary, body)
