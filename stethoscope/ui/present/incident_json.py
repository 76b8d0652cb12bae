"""The JSON of an incident, of a hit and of a trouble, as docs/incidents.md describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.analysis.incident_stats import spans_of
from stethoscope.clock import iso
from stethoscope.model.incident import END, HIT

if TYPE_CHECKING:
    from stethoscope.model.incident import Hit, Incident, Lemon, Trouble

_TIMES = ("began", "detected", "located", "mitigated", "resolved", "recorded")


def incident_json(incident: Incident, *, body: bool = True) -> dict[str, Any]:
    """Return one incident; lists leave the `body` out."""
    times, spans = incident.times, spans_of(incident)
    document: dict[str, Any] = {
        "id": incident.id,
        "title": incident.title,
        "status": incident.status.value,
        "severity": incident.severity.value,
        "root_cause": incident.root_cause or None,
        "component": incident.component or None,
        "fleet": incident.fleet or None,
        "times": {name: _moment(getattr(times, name)) for name in _TIMES},
        "took": {
            "detect_s": spans.detect_s,
            "locate_s": spans.locate_s,
            "mitigate_s": spans.mitigate_s,
            "repair_s": spans.repair_s,
        },
        "nodes": incident.nodes,
        "places": list(incident.places),
        "around": list(incident.around),
        "job": incident.job or None,
        "symptoms": list(incident.symptoms),
        "confidence": incident.confidence,
        "resolution": incident.resolution or None,
        "tags": list(incident.tags),
        "links": [{"how": link.how, "to": link.to} for link in incident.links],
        "author": incident.author or None,
        "redacted": incident.redacted,
        "extra": {key: _plain(value) for key, value in incident.extra},
    }
    if body:
        document["body"] = incident.body
    return document


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return one answer to a search; the snippet is without the marks of what fits, which `matched` lists."""
    words = [part.partition(END)[0] for part in hit.snippet.split(HIT)[1:]]
    return {
        **incident_json(hit.incident, body=False),
        "score": round(hit.score, 4),
        "snippet": hit.snippet.replace(HIT, "").replace(END, "") or None,
        "matched": list(dict.fromkeys(words)),
    }


def trouble_json(trouble: Trouble) -> dict[str, Any]:
    """Return what is wrong with a file of the directory."""
    return {"file": trouble.path, "line": trouble.line or None, "message": trouble.message}


def lemon_json(lemon: Lemon) -> dict[str, Any]:
    """Return a part that keeps coming back."""
    return {
        "place": lemon.place,
        "n": lemon.count,
        "days": round(lemon.days, 2),
        "incidents": list(lemon.incidents),
        "advice": lemon.advice,
    }


def _moment(wall: float | None) -> str | None:
    return None if wall is None else iso(wall)


def _plain(value: Any) -> Any:
    # A key that this version does not know may hold anything that YAML can say.
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
