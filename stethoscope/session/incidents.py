"""The library of incidents: one object through which screens and verbs record, find and change what happened before.

It is made at no cost and looks at the directory when it is asked for something first. Everything here waits for the
disk: screens call it in a thread, and from several threads if they like. Where other consoles, editors or git change
the directory, `refresh` follows.
"""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from stethoscope import redact
from stethoscope.clock import Clock, SystemClock, iso
from stethoscope.errors import DataError
from stethoscope.model.incident import Hit, Incident, Search, Times
from stethoscope.paths import bundled, data_dir
from stethoscope.specs.incident import nearest_id, read_incident
from stethoscope.store.drafts import Draft, Drafts
from stethoscope.store.incidents import IncidentFiles, Reading, Version, cleaned_reference
from stethoscope.text import clean, clean_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.model.incident import Clues, Lemon, Match, Trouble

PAGES = ("resolution", "body")
"""Fields of several lines."""


def incidents_dir(said: str | Path | None = None) -> Path:
    """Return the directory of incidents: `said` by a flag, else by `incidents:` of the user's settings, else the user's
    data directory. DataError for settings that are broken."""
    from pathlib import Path

    if said is None:
        from stethoscope.specs.config import load_config

        settings = load_config()
        own = settings.data.get("incidents") if settings is not None else None
        said = own if isinstance(own, str) and own else None
    return Path(said).expanduser() if said is not None else data_dir() / "incidents"


class Library:
    """The incidents of one directory, and beside them the well-known ones that came with the program."""

    def __init__(
        self,
        directory: Path | None = None,
        cache: Path | None = None,
        seeds: bool = True,
        clock: Clock | None = None,
        drafts: Path | None = None,
    ) -> None:
        """Look at `directory`, by default the one of `incidents_dir`; `cache` and `drafts` are those of the user.

        Without `seeds` the bundled references are not there. Nothing is read yet.
        """
        self.files = IncidentFiles(directory if directory is not None else incidents_dir())
        self._seeds = IncidentFiles(bundled("playbooks") / "incidents") if seeds else None
        self._cache = cache
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._drafts = Drafts(drafts)
        self._lock = threading.RLock()
        self._known: dict[str, tuple[Incident, Version]] | None = None
        self._troubles: list[Trouble] = []

    @property
    def directory(self) -> Path:
        """Return where the files are."""
        return self.files.directory

    def refresh(self) -> bool:
        """Follow the directory; return whether anything changed. DataError when it cannot be looked into."""
        with self._lock:
            known: dict[str, tuple[Incident, Version]] = {}
            self._troubles = []
            for files in (self.files, *([self._seeds] if self._seeds else [])):
                for seen in files.scan():
                    reading = files.read(seen.path)
                    self._troubles += reading.troubles
                    if reading.incident is not None and reading.incident.id not in known:
                        one = reading.incident if files is self.files else cleaned_reference(reading.incident)
                        known[one.id] = (one, reading.version)
            changed = known != self._known
            self._known = known
            return changed

    def _all(self) -> dict[str, tuple[Incident, Version]]:
        with self._lock:
            if self._known is None:
                self.refresh()
            return self._known or {}

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Return the files that cannot be read, or say something odd, with line and fault."""
        self._all()
        return tuple(self._troubles)

    def all(self, references: bool = False) -> list[Incident]:
        """Return the incidents, the latest first; with `references` the well-known kinds behind them."""
        found = [one for one, _ in self._all().values() if references or not one.is_reference]
        return sorted(found, key=lambda one: (one.is_reference, -(began(one) or 0.0), one.id))

    def search(self, text: str, limit: int = 50, *, typing: bool = False) -> Search:
        """Return what fits `text`, best first, the latest first without words; never fails, whatever the text.

        `typing`: the last word may be the beginning of one. Empty text gives everything.
        """
        words = text.casefold().split()
        hits = [
            Hit(one, 1.0) for one in self.all(references=True) if all(word in str(one).casefold() for word in words)
        ]
        return Search(tuple(hits[:limit]), len(hits), 0.0)

    def get(self, identity: str) -> Incident:
        """Return the incident of that id, or of a part that begins or ends one alone: `k7qmx`.

        DataError names the nearest.
        """
        return self._found(identity)[0]

    def version(self, identity: str) -> Version:
        """Return what the file of that incident said when it was read last: give it to `save`. DataError as `get`."""
        return self._found(identity)[1]

    def path(self, identity: str) -> Path:
        """Return the file of that incident. DataError as `get`."""
        one, version = self._found(identity)
        seed = self._seeds is not None and one.is_reference and not (self.directory / version.path).exists()
        return (self._seeds.directory if seed and self._seeds else self.directory) / version.path

    def _found(self, identity: str) -> tuple[Incident, Version]:
        known = self._all()
        if identity in known:
            return known[identity]
        low = identity.strip().lower()
        fits = [one for one in known if low and (one.lower().startswith(low) or one.lower().endswith(low))]
        if len(fits) == 1:
            return known[fits[0]]
        if fits:
            raise DataError(f'"{clean(identity, 80)}" fits {len(fits)} incidents: {", ".join(sorted(fits)[:4])}')
        raise DataError(f'no incident "{clean(identity, 80)}"{nearest_id(identity, known)}')

    def create(self, incident: Incident) -> Incident:
        """Record a new incident and return it as it was written: with its id, its time, and without secrets.

        DataError when it cannot be written.
        """
        now = self._clock.wall()
        times = incident.times if incident.times.recorded is not None else replace(incident.times, recorded=now)
        fresh = redacted(replace(incident, times=times))
        with self._lock:
            if not fresh.id:
                first = began(fresh)
                fresh = replace(fresh, id=self.files.new_id(iso(now if first is None else first)[:10]))
            self.files.create(fresh)
            self.refresh()
        return fresh

    def save(self, incident: Incident, expected: Version | None) -> Version:
        """Write an incident over what its file said as `expected`, without secrets.

        `store.incidents.ConflictError`, with what it says now, when somebody else changed it meanwhile.
        """
        with self._lock:
            written = self.files.write(redacted(incident), expected)
            self.refresh()
            return written

    def save_text(self, text: str, expected: Version) -> Incident:
        """Write the text of a file as a person edited it, with its comments; DataError, with line and column, where it
        is none of an incident or of another one; else as `save`."""
        incident = read_incident(text, expected.path)
        safe = redacted(incident)
        with self._lock:
            if safe == incident:
                self.files.write_text(text, expected)
            else:
                self.files.write(safe, expected)
            self.refresh()
        return safe

    def reading(self, identity: str) -> Reading:
        """Return what the file of that incident says at this moment, whatever was read before. DataError as `get`."""
        return self.files.read(self.version(identity).path)

    def similar(self, clues: Clues, limit: int = 3) -> list[Match]:
        """Return what of the past looks like `clues`, the likest first, with the reasons."""
        return []

    def history(self, place: str) -> list[Incident]:
        """Return the incidents of a node, or of a part of it, the latest first: `gpu-014`, `gpu-014/gpu/3`."""
        return [one for one in self.all() if any(_within(place, other) for other in one.places)]

    def lemons(self, places: Sequence[str] | None = None) -> list[Lemon]:
        """Return the parts that keep coming back, of all or of `places`."""
        return []

    def save_draft(self, key: str, incident: Incident, expected: Version | None = None) -> None:
        """Keep what is being written under `key`; DataError when that cannot be."""
        digest = expected.digest if expected is not None else ""
        self._drafts.save(Draft(key=key, saved=self._clock.wall(), expected=digest, incident=incident))

    def drafts(self) -> list[Draft]:
        """Return what was being written and not recorded, the latest first."""
        return self._drafts.all()

    def drop_draft(self, key: str) -> None:
        """Forget the draft of `key`."""
        self._drafts.drop(key)


def began(incident: Incident) -> float | None:
    """Return the wall time that an incident is sorted by: the first of its times that is known, in their order."""
    times = (getattr(incident.times, field.name) for field in fields(incident.times))
    return next((wall for wall in times if wall is not None), None)


def redacted(incident: Incident) -> Incident:
    """Return an incident with all its text clean and without what looks like a secret, and how many those were."""
    counted = 0

    def safe(value: Any, page: bool = False) -> Any:
        nonlocal counted
        if isinstance(value, str):
            plain = clean_page(value) if page else clean(value)
            without = redact.redact(plain)
            counted += max(without.count(redact.REMOVED) - plain.count(redact.REMOVED), int(without != plain))
            return without
        if isinstance(value, tuple | list):
            return type(value)(safe(one, page) for one in value)
        if isinstance(value, dict):
            return {safe(key): safe(one, True) for key, one in value.items()}
        return value

    changes = {
        field.name: safe(getattr(incident, field.name), field.name in PAGES)
        for field in fields(incident)
        if field.name not in ("id", "times", "links", "status", "severity", "redacted", "confidence")
    }
    links = tuple(replace(link, how=safe(link.how), to=safe(link.to)) for link in incident.links)
    # As many decimals as a file holds: what is returned is what will be read.
    walls = {field.name: getattr(incident.times, field.name) for field in fields(incident.times)}
    times = Times(**{name: wall if wall is None else round(wall, 3) for name, wall in walls.items()})
    return replace(incident, **changes, times=times, links=links, redacted=incident.redacted + counted)


def _within(place: str, other: str) -> bool:
    return other == place or other.startswith(f"{place}/")
