"""The head of the node screen: what is wrong with this one, and what cannot be seen on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import hms
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Missing
from stethoscope.model.night import Standing
from stethoscope.ui.present.assess import SEVERITY_LEVELS, age_word, link_words, peers_median, short_place
from stethoscope.ui.present.finding_words import cause_words, standing_words
from stethoscope.ui.present.lines import note_title, since_text
from stethoscope.ui.present.node.devices import gpu_words, joined
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


def node_title(
    view: View, cells: int, *, paused: bool = False, replay: ReplayStanding | None = None, worst: int = 0
) -> Row:
    """Return the top line of the node screen; `worst` is the level of what its page says."""
    assessment, node, glyphs, wall = view.assessment, view.node, view.glyphs, view.wall
    out_of_service = node.scheduler is not None and node.scheduler.is_out_of_service
    # What is wrong with a node that somebody took out of service is known.
    level = int(assessment.nodes[node.index]) if out_of_service else max(int(assessment.nodes[node.index]), worst)
    fresh = assessment.ages[node.index]
    age = age_word(node, assessment.now_mono)
    parts = [node.link.state.value + (f", data {age}" if age else "")]
    if node.scheduler is not None and out_of_service:
        parts.append(node.scheduler.phrase)
    if node.gpus:
        parts.append(", ".join(gpu_words(view)))
    if node.ports:
        parts.append(_counted(len(node.ports), "port"))
    if node.rack:
        parts.append(node.rack)
    right: Row = (Span(f"{hms(wall)} UTC ", Tone.QUIET),)
    if replay is not None:
        right = replay_marks(replay, wall)[1]
    elif paused:
        right = (Span(" PAUSED ", Tone.KEY, selected=True), Span(f"  picture of {hms(wall)} UTC ", Tone.QUIET))
    if view.mark is not None and cells >= 100:
        right = (Span(f"mark {hms(view.mark.wall)}   ", Tone.KEY), *right)
    room = cells - width(node.name) - row_width(right) - 7
    while len(parts) > 1 and width(joined(view, parts)) > room:
        parts.pop()
    left = (
        Span(f" {glyphs.level(level)} ", level_tone(level)),
        Span(node.name, Tone.TITLE),
        Span("  "),
        Span(cut(joined(view, parts), max(0, room), glyphs.ellipsis), level_tone(fresh) if fresh else Tone.QUIET),
    )
    return spread(left, right, cells)


def head(view: View, beyond: list[Beyond]) -> list[Line]:
    """Return what is wrong: findings first, then values that are not as they should be, with what they should be; one
    quiet line when nothing is."""
    found = view.assessment.findings.get(view.node.name, ())
    lines = [line for finding in found for line in _finding_lines(view, finding)]
    left = [one for one in beyond if not _is_told(view, one)]
    room = max(2, _MOST - len(lines))
    shown = left if view.all_open or len(left) <= room else left[: room - 1]
    lines += [_beyond_line(view, one) for one in shown]
    if len(shown) < len(left):
        lines.append((Piece(f"   and {len(left) - len(shown)} more below", Tone.QUIET),))
    fresh = view.assessment.ages[view.node.index]
    if fresh is not Level.NORMAL and not found:
        words = link_words(view.node, view.wall, next_try=True)
        lines.append(text_line(view, "wrong", "", words, level=fresh if fresh > Level.MISSING else 0, key="link"))
    if not lines:
        lines.append(_nothing(view))
    return lines


def _finding_lines(view: View, finding: Finding) -> list[Line]:
    glyphs, level = view.glyphs, SEVERITY_LEVELS[finding.severity]
    entry = view.snapshot.night.get(finding.id)
    words = standing_words(entry, view.wall) if entry is not None else ""
    is_quiet = entry is not None and entry.standing(view.wall) is not Standing.LOUD
    tone = level_tone(level) if finding.severity.rank <= Severity.P2.rank and not is_quiet else Tone.QUIET
    where = ", ".join(short_place(place) or view.node.name for place in finding.where[:4])
    if len(finding.where) > 4:
        where += f" and {len(finding.where) - 4} more"
    since = since_text(finding.since, view.wall)
    known = [fact for fact in finding.evidence if fact.value is not None]
    facts = [f" {glyphs.dot} {said}" for said in (words, cause_words(finding)) if said]
    facts += [f" {glyphs.dot} {fact_text(fact, view.snapshot.catalogue)}" for fact in known]
    lead = f" {glyphs.level(level)} {finding.severity.value} "
    whole = f"{finding.severity.value} {where} {finding.summary}, for {since}{''.join(facts)}"
    text = f"{where}  {finding.summary} {glyphs.dot} {since}"
    room = view.cells - width(lead) - 1
    spot = Spot("wrong", key=finding.id)
    line = [Piece(lead, tone), Piece(cut(text, room, glyphs.ellipsis), tone, spot, whole)]
    left = room - width(text)
    for fact in facts:
        # A fact that is cut says less than none.
        if width(fact) > left:
            break
        line.append(Piece(fact, Tone.QUIET))
        left -= width(fact)
    return [tuple(line)]


def _is_told(view: View, one: Beyond) -> bool:
    """Tell whether a finding says the same: that this value is wrong, or that the device, or the node, is gone."""
    place = f"{view.node.name}/{one.where}" if one.where else view.node.name
    gone = one.level in (Level.LOST, Level.HUNG)
    for finding in view.assessment.findings.get(view.node.name, ()):
        if gone and (place in finding.where or view.node.name in finding.where):
            return True
        if (
            place in finding.where
            and one.spot is not None
            and one.spot.metric == "gpu_xid_events"
            and "Xid" in finding.summary
        ):
            return True
        metrics = {fact.fact.partition(" ")[0] for fact in finding.evidence}
        if place in finding.where and one.spot is not None and one.spot.metric in metrics:
            return True
    return False


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
        or one.words.endswith(" in all")
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
    parts = [
        _counted(len(node.gpus), "GPU") if node.gpus else "no GPU",
        _counted(len(node.ports), "port") if node.ports else "",
    ]
    text = f"nothing wrong: {', '.join(part for part in parts if part)}, every value within its limits"
    shown = cut(text, max(1, view.cells - 4), view.glyphs.ellipsis)
    return (Piece(f" {view.glyphs.level(0)} ", Tone.NORMAL), Piece(shown, Tone.QUIET))


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' if count != 1 else ''}"


def unseen(view: View) -> Section | None:
    """Return the section of what cannot be seen, None when all can be."""
    notes = sorted((what, why) for what, why in view.node.notes.items() if not what.endswith(("_tried", "_pid")))
    if not notes:
        return None

    def body(view: View) -> list[Line]:
        return [text_line(view, "unseen", "", f"{note_title(what)}: {why}", Tone.PLAIN) for what, why in notes]

    summary = joined(view, (f"{note_title(what)}: {why}" for what, why in notes))
    return Section("unseen", "Not seen", Level.MISSING, summary, body)
