"""What is said of a finding wherever it stands: how sure it is, what its places share, who has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import duration, hms
from stethoscope.model.night import LOOKED_S, Standing
from stethoscope.ui.present.assess import SEVERITY_LEVELS
from stethoscope.ui.present.numbers import fact_text
from stethoscope.ui.present.spans import Tone, level_tone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.finding import Fact, Finding
    from stethoscope.model.metric import Metric
    from stethoscope.model.night import Entry
    from stethoscope.ui.present.spans import Glyphs

_UNSEEN_S = 2 * LOOKED_S
"""A finding that no console has seen for longer may be over."""
_SURE = ((0.95, "as good as certain"), (0.85, "very likely"), (0.7, "likely"), (0.5, "rather yes than no"))


def sure_words(confidence: float) -> str:
    """Return a confidence in words: `very likely`."""
    return next((words for least, words in _SURE if confidence >= least), "a guess")


def cause_words(finding: Finding) -> str:
    """Return the likely common cause of a finding's places, and for how many others it stands; empty without."""
    parts = [f"likely common cause {finding.cause}"] if finding.cause else []
    if finding.explained:
        parts.append(f"explains {finding.explained:,} more")
    return ", ".join(parts)


def standing_words(entry: Entry, now: float, *, under: str = "") -> str:
    """Return who has seen a finding, until when it is quiet, or how it ended; empty for one that is loud. What the
    heading above it says already (`under` names the standing) is left out."""
    standing = entry.standing(now)
    said = _standing_words(entry, standing)
    if entry.is_active and now - entry.seen > _UNSEEN_S:
        # A console of before saw it; this one has not found it again.
        said = f"{said}, last seen {hms(entry.seen)}" if said else f"last seen {hms(entry.seen)}"
    return said.removeprefix(f"{standing.value} ") if under == standing.value else said


def _standing_words(entry: Entry, standing: Standing) -> str:
    if standing is Standing.ACKNOWLEDGED and entry.acknowledged is not None:
        return f"acknowledged by {entry.acknowledged.by} {hms(entry.acknowledged.at)}"
    if standing is Standing.SNOOZED and entry.snoozed is not None:
        until = entry.snoozed.until
        return "snoozed until it changes" if until is None else f"snoozed until {hms(until)}"
    if standing is Standing.CLEARED and entry.cleared_at is not None:
        return f"{ended_words(entry)} {hms(entry.cleared_at)} after {span_words(entry.cleared_at - entry.since)}"
    if entry.acknowledged is not None:
        return f"worse than acknowledged by {entry.acknowledged.by} {hms(entry.acknowledged.at)}"
    return ""


def ended_words(entry: Entry) -> str:
    """Return how a finding ended."""
    return {"lapsed": "last seen", "folded": "explained by another finding since"}.get(entry.ended, "cleared")


def alert_of(finding: Finding) -> str:
    """Return the message of a rule's alert, empty where the summary says it already."""
    return "" if finding.message == finding.summary else finding.message


def times_words(times: int) -> str:
    """Return how often a finding came, empty for once."""
    return {1: "", 2: "twice tonight"}.get(times, f"{times:,} times tonight")


def span_words(seconds: float) -> str:
    """Return a length of time: `41 s`, `5 m`."""
    return f"{max(0.0, seconds):.0f} s" if seconds < 99.5 else duration(seconds)


def evidence_text(fact: Fact, catalogue: Mapping[str, Metric]) -> str:
    """Return a piece of evidence in words, also one that is about no metric: `affected together: 12 of 12 ports`."""
    if fact.fact.partition(" ")[0] in catalogue or fact.value is None:
        return fact_text(fact, catalogue)
    said = f"{fact.value:g}" if isinstance(fact.value, float) else f"{fact.value}"
    if fact.fact in ("xid", "kernel_log"):
        # The line speaks for itself.
        return said
    if fact.fact == "link":
        return f"link {said}"
    text = f"{fact.fact.replace('_', ' ')}: {said}"
    lead = "" if fact.expected.startswith(("elsewhere ", "peers ", "others ")) else "expected "
    return f"{text}, {lead}{fact.expected}" if fact.expected else text


def sign(finding: Finding, glyphs: Glyphs, *, quiet: bool) -> tuple[str, Tone]:
    """Return the glyph and the severity of a finding, and how loud they are."""
    level = SEVERITY_LEVELS[finding.severity]
    text = f" {glyphs.level(level)} {finding.severity.value:<4}"
    return text, Tone.QUIET if quiet else level_tone(level)
