"""Incidents without their text, compiled: what is asked at every log need not read them from their files. Those are the
well-known kinds that come with the program, and a library of few files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Status, Times
from stethoscope.paths import bundled
from stethoscope.specs.compiled import cached

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_READERS = ("stethoscope.specs.incident_kinds", "stethoscope.specs.incident")
_FEW, _SMALL = 128, 2**20
"""Files and bytes of a library that is compiled; a larger one has its index."""
_FIELDS = (
    "id", "title", "root_cause", "component", "fleet", "nodes", "places", "around", "job", "symptoms", "resolution",
    "tags",
)  # fmt: skip
"""What a comparison asks for beside status, severity and time."""


def load_kinds() -> tuple[Incident, ...]:
    """Return the bundled kinds without their text; DataError for a file that is broken."""
    paths = sorted((bundled("playbooks") / "incidents").glob("*.md"))
    return tuple(_unpack(one) for one in cached("kinds", paths, _READERS, lambda: _pack(paths)))


def load_few(directory: Path) -> tuple[Incident, ...] | None:
    """Return the incidents of a directory without their text, of two with one id the first; a broken file is left out.

    None for a directory that has many, or anything but files: that one has an index.
    """
    paths: list[Path] = []
    size = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name[0] == "." or not (entry.name.endswith(".md") or entry.is_dir()):
                    continue
                status = entry.stat()
                size += status.st_size
                if not stat.S_ISREG(status.st_mode) or len(paths) >= _FEW or size > _SMALL:
                    return None
                paths.append(directory / entry.name)
        paths.sort()
        found = cached("few", paths, _READERS, lambda: _pack(paths, is_strict=False))
    except (OSError, UnicodeError, DataError):
        return None
    return tuple({one.id: one for one in map(_unpack, reversed(found))}.values())


def _pack(paths: Iterable[Path], *, is_strict: bool = True) -> list[list[Any]]:
    from stethoscope.specs.incident import fronts_incident, read_incident

    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")
            if (path.name.startswith("INC-") and not is_strict) or fronts_incident(text):
                found.append(read_incident(text, str(path)))
        except (DataError, UnicodeDecodeError):
            if is_strict:
                raise
    return [[one.status.value, one.severity.value, one.at, *(getattr(one, name) for name in _FIELDS)] for one in found]


def _unpack(values: Sequence[Any]) -> Incident:
    status, severity, at, *others = values
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in zip(_FIELDS, others, strict=True)
    }
    return Incident(status=Status(status), severity=Severity(severity), times=Times(began=at), **said)
