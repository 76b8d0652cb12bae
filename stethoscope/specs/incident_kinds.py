"""The well-known kinds of incidents that come with the program, compiled: what is asked at every log need not read
them from their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Status
from stethoscope.paths import bundled
from stethoscope.specs.compiled import cached

if TYPE_CHECKING:
    from pathlib import Path

_READERS = ("stethoscope.specs.incident_kinds", "stethoscope.specs.incident")


def load_kinds() -> tuple[Incident, ...]:
    """Return the bundled kinds without their text; DataError for a file that is broken."""
    paths = sorted((bundled("playbooks") / "incidents").glob("*.md"))
    return tuple(_unpack(one) for one in cached("kinds", paths, _READERS, lambda: _pack(paths)))


def _pack(paths: list[Path]) -> list[list[Any]]:
    from stethoscope.specs.incident import fronts_incident, read_incident

    texts = {path: path.read_text(encoding="utf-8-sig") for path in paths}
    found = [read_incident(text, str(path)) for path, text in texts.items() if fronts_incident(text)]
    return [
        [one.id, one.title, one.severity.value, one.root_cause, one.component, one.symptoms, one.resolution, one.tags]
        for one in found
    ]


def _unpack(values: list[Any]) -> Incident:
    identity, title, severity, root_cause, component, symptoms, resolution, tags = values
    return Incident(
        identity,
        title,
        Status.REFERENCE,
        Severity(severity),
        root_cause,
        component,
        symptoms=tuple(symptoms),
        resolution=resolution,
        tags=tuple(tags),
    )
