"""The form of an incident as texts: what stands in its fields, and the incident that they say."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.errors import did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.model.incident import COMPONENTS, Status
from stethoscope.specs.moment import moment_of
from stethoscope.text import clean, clean_page
from stethoscope.ui.present.incident_text import STAGES, stamp

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stethoscope.model.incident import Incident, Times

_LONGEST = 400
_DAY_S = 86_400.0
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
STATUSES = tuple(status.value for status in Status)
SEVERITIES = tuple(severity.value for severity in Severity)
_LINES, _LISTS = {"title", "component", "nodes", "job"}, {"places", "tags"}


class Field(NamedTuple):
    """One field of the form."""

    id: str
    label: str
    hint: str
    """What belongs into it, for the line below the form."""


FIXED, BODY = "resolution", "body"
"""The two fields of several lines: the only one that needs a person, and the free text."""
_TIME = "02:14, 2026-03-14 02:14:07, 20m ago is 20m, now; UTC"
# fmt: off
FIELDS = {
    field.id: field
    for field in (
        Field("title", "title", "one line: what was wrong, and where"),
        Field(FIXED, "fixed by", "What fixed it? In your own words; enter saves, ctrl+j begins a new line"),
        Field("status", "status", f"{', '.join(STATUSES)}; with words about what fixed it, it is saved as resolved"),
        Field("severity", "severity", ", ".join(SEVERITIES)),
        Field("root_cause", "cause", "its id, empty while nobody knows; right takes what is offered"),
        Field("component", "part", ", ".join(COMPONENTS)),
        Field("places", "where", "what was broken: gpu-014/gpu/3, gpu-007/ib/mlx5_3, leaf/leaf-01; commas between"),
        Field("nodes", "nodes", "nodes that it touched, folded: gpu-[003,007-009]"),
        Field("job", "job", "id of the job"),
        Field("began", "began", f"the fault itself: {_TIME}"),
        Field("detected", "detected", f"the first finding, or when somebody was called: {_TIME}"),
        Field("located", "located", f"place and cause were known: {_TIME}"),
        Field("mitigated", "mitigated", f"the work went on: {_TIME}"),
        Field("resolved", "resolved", f"what was broken is whole again: {_TIME}"),
        Field("tags", "tags", "words of your own, commas between; `replaced` says that the part is another one now"),
        Field(BODY, "text", "what was seen, what was done, what would prevent it; ctrl+o opens it in your editor"),
    )
}
# fmt: on
PAIRS = (
    ("status", "severity"),
    ("root_cause", "component"),
    ("places",),
    ("nodes", "job"),
    ("began", "detected"),
    ("located", "mitigated"),
    ("resolved", "tags"),
)
"""What stands between the two first fields and the text, side by side."""


@dataclass(frozen=True, slots=True)
class FormSays:
    """What a form says."""

    incident: Incident
    problems: tuple[tuple[str, str], ...] = ()
    """Fields that cannot be understood, and why; they have their old value in the incident."""


def texts_of(one: Incident) -> dict[str, str]:
    """Return what stands in the fields for an incident."""
    times = {name: _stamp(getattr(one.times, name)) for name in STAGES}
    return {
        "title": clean(one.title),
        FIXED: clean_page(one.resolution),
        "status": one.status.value,
        "severity": one.severity.value,
        "root_cause": clean(one.root_cause),
        "component": clean(one.component),
        "places": clean(", ".join(one.places)),
        "nodes": clean(one.nodes),
        "job": clean(one.job),
        **times,
        "tags": clean(", ".join(one.tags)),
        BODY: clean_page(one.body),
    }


def read_form(
    texts: Mapping[str, str], base: Incident, now: float, causes: Collection[str], *, fixed_before: str | None = None
) -> FormSays:
    """Return the incident that `texts` say, with everything of `base` that no field was changed of; `now` is in wall
    seconds, `causes` are the known root causes.

    Words about what fixed it, others than `fixed_before` (by default those of `base`), make an open incident a resolved
    one, as long as nobody chose its status.
    """
    before = texts_of(base)
    changed = {name for name, text in texts.items() if _plain(name, text) != _plain(name, before[name])}
    problems: list[tuple[str, str]] = []
    said: dict[str, Any] = {name: clean(texts[name], _LONGEST).strip() for name in _LINES & changed}
    said |= {name: _parts(texts[name]) for name in _LISTS & changed}
    if FIXED in changed:
        said[FIXED] = clean_page(texts[FIXED]).rstrip()
    if BODY in changed:
        said[BODY] = clean_page(texts[BODY])
    if "root_cause" in changed:
        cause = texts["root_cause"].strip()
        if not cause or cause in causes:
            said["root_cause"] = cause
        else:
            problems.append(
                ("root_cause", f'no root cause is called "{clean(cause, 40)}"{did_you_mean(cause, causes)}')
            )
    for name, words, kind in (("status", STATUSES, Status), ("severity", SEVERITIES, Severity)):
        if name in changed:
            word = _word(texts[name], words)
            if word is not None:
                said[name] = kind(word)
            else:
                problems.append((name, f"{name} is one of {', '.join(words)}"))
    one = replace(base, **said)
    times = _times(base.times, texts, changed, now, problems)
    is_fixed = bool(one.resolution) and one.resolution != (base.resolution if fixed_before is None else fixed_before)
    if is_fixed and "status" not in changed and one.status in (Status.OPEN, Status.MITIGATED):
        one = replace(one, status=Status.RESOLVED)
    if one.status is not base.status:
        if one.status is Status.RESOLVED and times.resolved is None:
            times = replace(times, resolved=now)
        if one.status is Status.MITIGATED and times.mitigated is None:
            times = replace(times, mitigated=now)
    return FormSays(replace(one, times=times), tuple(problems))


def _parts(text: str) -> tuple[str, ...]:
    parts = (clean(part, _LONGEST).strip() for part in re.split(r"[,，;；\n]+", text))
    return tuple(dict.fromkeys(part for part in parts if part))


def _word(text: str, words: Collection[str]) -> str | None:
    """Return the one of `words` that a text is, or is the only one to begin with."""
    low = text.strip().lower()
    fits = [word for word in words if word.lower() == low] or [word for word in words if word.lower().startswith(low)]
    return fits[0] if len(fits) == 1 and low else None


def _times(
    before: Times, texts: Mapping[str, str], changed: set[str], now: float, problems: list[tuple[str, str]]
) -> Times:
    times = before
    for name in STAGES:
        text = texts[name].strip() if name in texts else ""
        if name not in changed:
            continue
        if not text:
            times = replace(times, **{name: None})
            continue
        try:
            times = replace(times, **{name: moment_in_form(text, now, times.began if name != "began" else None)})
        except ValueError as error:
            problems.append((name, clean(str(error), 200)))
    known = [(name, at) for name in STAGES if (at := getattr(times, name)) is not None]
    for (earlier, first), (later, second) in pairwise(known):
        if second < first and {earlier, later} & changed:
            problems.append((later, f"{later} {stamp(second)} is before {earlier} {stamp(first)}"))
            break
    return times


def moment_in_form(text: str, now: float, began: float | None) -> float:
    """Return the wall seconds of what stands in a field for a time: a time of day is the first such one after the
    incident began, else the last one up to `now`; a span is so long before `now`. ValueError for anything else."""
    if text.lower() == "now":
        return now
    word = text.removesuffix("UTC").removesuffix("Z").removesuffix("ago").strip()
    newest = began + _DAY_S - 1 if began is not None and _CLOCK.fullmatch(word) else now
    return moment_of(word, newest)


def seen_text(one: Incident) -> str:
    """Return what is known beside the fields: signs, fleet, and where the places hang."""
    parts = (
        f"seen {', '.join(one.symptoms)}" if one.symptoms else "",
        f"fleet {one.fleet}" if one.fleet else "",
        f"around {', '.join(one.around)}" if one.around else "",
    )
    return "  ".join(part for part in parts if part)


def _stamp(at: float | None) -> str:
    return "" if at is None else stamp(at)


def _plain(name: str, text: str) -> str:
    return text.rstrip() if name in (FIXED, BODY) else " ".join(text.split())
