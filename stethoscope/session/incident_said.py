"""Reads back what the program printed as JSON (a triage, a decoded log), to make an incident of it.

Such a file may have been edited, or come from elsewhere: every text is cleaned, and what has another form is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from stethoscope.clock import from_iso
from stethoscope.errors import DataError
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, Event, LogVerdict, Origin
from stethoscope.model.verdict import Diagnosis, PathStep, Verdict
from stethoscope.session.incident_draft import LogSaid
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.logs import Role

_MOST = 100_000
_ROLES = ("cause", "symptom", "either", "context", "benign")


def diagnosis_of(document: object, where: str = "") -> Diagnosis:
    """Return what `triage --json` printed; DataError for another document. `where` names it."""
    said = _document(document, "stethoscope.triage/1", where)
    return Diagnosis(
        scope=_text(said.get("scope")),
        layer=_text(said.get("layer")),
        verdict=_verdict(_map(said.get("verdict"))),
        alternatives=tuple(_verdict(one) for one in _maps(said.get("alternatives"))),
        path=tuple(
            PathStep(_text(one.get("step")), _text(one.get("question")), _text(one.get("answer")), _text(one.get("by")))
            for one in _maps(said.get("path"))
        ),
        actions=_texts(said.get("actions")),
    )


def log_said_of(document: object, where: str = "") -> LogSaid:
    """Return what `decode --json` printed; DataError for another document. `where` names it."""
    said = _document(document, "stethoscope.decode/1", where)
    events = _maps(said.get("events"))
    meanings = {_text(one.get("signature")): _text(one.get("meaning")) for one in events}
    return LogSaid(
        _log_verdict(_map(said.get("verdict"))),
        tuple(_event(one) for one in events),
        tuple(_log_verdict(one) for one in _maps(said.get("alternatives"))),
        lambda signature: meanings.get(signature, ""),
        tuple(name for one in _maps(said.get("files")) if (name := _text(one.get("name")))),
    )


def _document(document: object, schema: str, where: str) -> Mapping[str, Any]:
    said = _map(document)
    if said.get("schema") != schema:
        found = clean(str(said.get("schema")), 60) if said.get("schema") else "none"
        raise DataError(f"the document should be {schema}; its schema is {found}", where=where)
    return said


def _verdict(said: Mapping[str, Any]) -> Verdict:
    return Verdict(
        root_cause=_text(said.get("root_cause")) or "unknown",
        confidence=_number(said.get("confidence")) or 0.0,
        severity=_severity(said.get("severity")),
        summary=_text(said.get("summary")),
        culprits=_culprits(said.get("culprits")),
        supports=_facts(said.get("supports")),
        contradicts=_facts(said.get("contradicts")),
        rules_out=tuple(
            (_text(one.get("root_cause")), _text(one.get("because"))) for one in _maps(said.get("rules_out"))
        ),
        next_checks=_texts(said.get("next_checks")),
        signature=_text(said.get("signature")) or None,
        affected=_texts(said.get("affected")),
        since=_moment(said.get("since")),
    )


def _log_verdict(said: Mapping[str, Any]) -> LogVerdict:
    return LogVerdict(
        root_cause=_text(said.get("root_cause")) or "unknown",
        confidence=_number(said.get("confidence")) or 0.0,
        severity=_severity(said.get("severity")),
        summary=_text(said.get("summary")),
        signature=_text(said.get("signature")) or None,
        culprits=_culprits(said.get("culprits")),
        supports=_facts(said.get("supports")),
        contradicts=_facts(said.get("contradicts")),
        next_checks=_texts(said.get("next_checks")),
    )


def _event(said: Mapping[str, Any]) -> Event:
    role, rank, count = _text(said.get("role")), said.get("rank"), said.get("count")
    return Event(
        signature=_text(said.get("signature")),
        role=cast("Role", role if role in _ROLES else "context"),
        severity=_severity(said.get("severity")),
        text=_text(said.get("text")),
        at=_moment(said.get("at")),
        origin=Origin(host=_text(said.get("host")) or None, rank=rank if isinstance(rank, int) else None),
        device=_text(said.get("device")) or None,
        count=count if isinstance(count, int) and count > 0 else 1,
        last_at=_moment(said.get("last_at")),
    )


def _culprits(said: object) -> tuple[Culprit, ...]:
    return tuple(
        Culprit(
            one["rank"] if isinstance(one.get("rank"), int) else None,
            _text(one.get("host")) or None,
            _text(one.get("device")) or None,
            _text(one.get("place")) or None,
        )
        for one in _maps(said)
    )


def _facts(said: object) -> tuple[Fact, ...]:
    found = []
    for one in _maps(said):
        value = one.get("value")
        number = _number(value)
        found.append(
            Fact(
                _text(one.get("fact")),
                number if number is not None else _text(value) or None,
                _text(one.get("expected")),
                _text(one.get("where")),
                _text(one.get("at")),
                _text(one.get("source")),
            )
        )
    return tuple(found)


def _map(said: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", said) if isinstance(said, dict) else {}


def _maps(said: object) -> list[Mapping[str, Any]]:
    return [_map(one) for one in said[:_MOST] if isinstance(one, dict)] if isinstance(said, list) else []


def _text(said: object) -> str:
    return clean(said) if isinstance(said, str) else ""


def _texts(said: object) -> tuple[str, ...]:
    return tuple(text for one in said[:_MOST] if (text := _text(one))) if isinstance(said, list) else ()


def _number(said: object) -> float | None:
    is_number = isinstance(said, (int, float)) and not isinstance(said, bool) and abs(said) < 1e300
    return float(cast("float", said)) if is_number else None


def _moment(said: object) -> float | None:
    return from_iso(said) if isinstance(said, str) else None


def _severity(said: object) -> Severity:
    try:
        return Severity(str(said))
    except ValueError:
        return Severity.P1
