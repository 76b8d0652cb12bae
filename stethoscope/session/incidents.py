"""The library of incidents: one object through which screens and verbs record, find and change what happened before.

It is made at no cost and looks at the directory when it is asked for something first. Everything here waits for the
disk: screens call it in a thread, and from several threads if they like. Where other consoles, editors or git change
the directory, `refresh` follows.
"""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from stethoscope.clock import Clock, SystemClock, iso
from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.incident import Incident, Times
from stethoscope.paths import bundled, cache_dir, config_dir, data_dir, is_there
from stethoscope.store.incidents import IncidentFiles, Reading, Version
from stethoscope.text import clean, clean_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stethoscope.analysis.incident_similar import Past
    from stethoscope.model.incident import Clues, Lemon, Match, Search, Trouble
    from stethoscope.store.drafts import Draft, Drafts
    from stethoscope.store.incident_index import IncidentIndex

Answer = TypeVar("Answer")

PAGES = ("resolution", "body")
"""Fields of several lines."""
_NAMED = 4


def incidents_dir(said: str | Path | None = None) -> Path:
    """Return the directory of incidents: `said` by a flag, else by `incidents:` of the user's settings, else the user's
    data directory. DataError for settings that are broken."""
    from pathlib import Path

    # Most have no settings, and do not wait for a reader of YAML to find none.
    if said is None and is_there(config_dir() / "config.yaml"):
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
        self._draft_directory = drafts
        self._lock = threading.RLock()
        self._index: IncidentIndex | None = None
        self._listed: tuple[int, list[Incident]] = (-1, [])
        self._past: tuple[int, Past] | None = None

    @property
    def directory(self) -> Path:
        """Return where the files are."""
        return self.files.directory

    def refresh(self) -> bool:
        """Follow the directory; return whether anything changed. DataError when it cannot be looked into."""
        with self._lock:
            following = self._opened(follow=False).follow()
        changed = False
        while True:
            # Others ask between two steps: the first look at a large directory takes long.
            with self._lock:
                if next(following, None) is None:
                    return changed
                changed = True

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many files the look that goes on has read, and of how many; it waits for nothing."""
        index = self._index
        return (index.to_read - index.waiting, index.to_read) if index is not None else (0, 0)

    def rebuild(self) -> None:
        """Throw the index away and read every file again."""
        with self._lock:
            self._opened(follow=False).rebuild()
            self._listed, self._past = (-1, []), None
        self.refresh()

    def close(self) -> None:
        """Let the index go; the next question opens it again."""
        with self._lock:
            if self._index is not None:
                self._index.close()

    def _opened(self, follow: bool = True) -> IncidentIndex:
        with self._lock:
            if self._index is None:
                # Its library takes its time to load.
                from stethoscope.store.incident_index import IncidentIndex

                cache = self._cache if self._cache is not None else cache_dir()
                self._index = IncidentIndex(self.files, self._seeds, cache, self._clock)
            # One that was lost or broken is empty until the files were looked at.
            if follow and not self._index.is_followed:
                self.refresh()
            return self._index

    def _asked(self, question: Callable[[IncidentIndex], Answer]) -> Answer:
        """Return the answer of the index; one that is broken is made anew first, one that cannot be used any more is
        done in memory: that costs time and nothing else."""
        import apsw

        from stethoscope.store.incident_db import BROKEN

        with self._lock:
            try:
                return question(self._opened())
            except BROKEN:
                self._opened().rebuild()
            except apsw.Error:
                self._opened().to_memory()
            return question(self._opened())

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Return the files that cannot be read, or say something odd, with line and fault."""
        return self._asked(lambda index: index.troubles())

    def all(self, references: bool = False) -> list[Incident]:
        """Return the incidents, the latest first; with `references` the well-known kinds behind them."""
        with self._lock:
            generation = self._asked(lambda index: index.generation)
            if self._listed[0] != generation:
                self._listed = (generation, self._asked(lambda index: index.all()))
            return [one for one in self._listed[1] if references or not one.is_reference]

    def search(self, text: str, limit: int = 50, *, typing: bool = False) -> Search:
        """Return what fits `text`, best first, the latest first without words; never fails, whatever the text.

        `typing`: the last word may be the beginning of one. Empty text gives everything.
        """
        from stethoscope.store.incident_search import searched

        start = self._clock.monotonic()
        found = self._asked(lambda index: searched(index, text, self._clock.wall(), max(limit, 0), typing=typing))
        return replace(found, seconds=self._clock.monotonic() - start)

    def get(self, identity: str) -> Incident:
        """Return the incident of that id, or of a part that begins or ends one alone: `k7qmx`.

        DataError names the nearest.
        """
        whole = self.id_of(identity)
        found = self._asked(lambda index: index.by_id(whole))
        if found is None:
            raise DataError(f'no incident "{clean(identity, 80)}"')
        return found

    def id_of(self, identity: str) -> str:
        """Return the whole id of what `identity` begins or ends. DataError as `get`."""
        word = identity.strip().lower()
        known = self._asked(lambda index: index.ids())
        fits = [one for one in known if one.lower() == word]
        fits = fits or [one for one in known if word and (one.lower().startswith(word) or one.lower().endswith(word))]
        if not fits:
            raise DataError(f'no incident "{clean(identity, 80)}"{did_you_mean(clean(identity, 80), known)}')
        if len(fits) > 1:
            some = ", ".join(fits[:_NAMED]) + (" ..." if len(fits) > _NAMED else "")
            raise DataError(f'"{clean(identity, 80)}" fits {len(fits)} incidents: {some}')
        return fits[0]

    def version(self, identity: str) -> Version:
        """Return what the file of that incident said when it was read last: give it to `save`. DataError as `get`."""
        return self._version(identity)[1]

    def path(self, identity: str) -> Path:
        """Return the file of that incident. DataError as `get`."""
        root, version = self._version(identity)
        files = self._seeds if root and self._seeds is not None else self.files
        return files.directory / version.path

    def _version(self, identity: str) -> tuple[int, Version]:
        whole = self.id_of(identity)
        found = self._asked(lambda index: index.version(whole))
        if found is None:
            raise DataError(f'no incident "{clean(identity, 80)}"')
        return found

    def reading(self, identity: str) -> Reading:
        """Return what the file of that incident says at this moment, whatever was read before. DataError as `get`."""
        root, version = self._version(identity)
        return (self._seeds if root and self._seeds is not None else self.files).read(version.path)

    def create(self, incident: Incident) -> Incident:
        """Record a new incident and return it as it was written: with its id, its time, and without secrets.

        DataError when it cannot be written.
        """
        now = self._clock.wall()
        times = incident.times if incident.times.recorded is not None else replace(incident.times, recorded=now)
        fresh = redacted(replace(incident, times=times))
        with self._lock:
            if not fresh.id:
                at = fresh.times.began if fresh.times.began is not None else fresh.times.detected
                fresh = replace(fresh, id=self.files.new_id(iso(now if at is None else at)[:10]))
            self._opened(follow=False).take(self.files.create(fresh).path)
        return fresh

    def save(self, incident: Incident, expected: Version | None) -> Version:
        """Write an incident over what its file said as `expected`, without secrets.

        `store.incidents.ConflictError`, with what it says now, when somebody else changed it meanwhile.
        """
        with self._lock:
            written = self.files.write(redacted(incident), expected)
            self._opened(follow=False).take(written.path)
            return written

    def save_text(self, text: str, expected: Version) -> Incident:
        """Write the text of a file as a person edited it, with its comments.

        DataError, with line and column, where it says no incident; else as `save`.
        """
        from stethoscope.specs.incident import read_incident

        incident = read_incident(text, expected.path)
        safe = redacted(incident)
        with self._lock:
            same = safe == incident
            written = self.files.write_text(text, expected) if same else self.files.write(safe, expected)
            self._opened(follow=False).take(written.path)
        return safe

    def similar(self, clues: Clues, limit: int = 3, *, words: bool = True) -> list[Match]:
        """Return what of the past looks like `clues`, the likest first, with the reasons.

        Without `words` their text is not compared, which spares the time that this takes to load.
        """
        from stethoscope.analysis.incident_similar import Past

        with self._lock:
            everything = self.all(references=True)
            if not everything:
                return []
            scores: dict[str, float] = {}
            if words and clues.text:
                from stethoscope.store.incident_search import key_tokens, more_like

                text, but = clues.text, clues.but
                scores = dict(self._asked(lambda index: more_like(index, key_tokens(index, text), but)))
            if self._past is None or self._past[0] != self._listed[0]:
                self._past = (self._listed[0], Past(everything))
            past = self._past[1]
        return past.similar(clues, scores, limit)

    def more_like(self, about: str, limit: int = 20) -> list[tuple[str, float]]:
        """Return ids of incidents whose words are like those of an incident, by its id, or of a text, and how much."""
        from stethoscope.store.incident_search import key_tokens, more_like

        return self._asked(lambda index: more_like(index, key_tokens(index, about), about))[:limit]

    def history(self, place: str, fleet: str = "") -> list[Incident]:
        """Return the incidents of a node or of a part of it, the latest first: `gpu-014`, `gpu-014/gpu/3`; with `fleet`
        none of another fleet, whose node of that name is another one."""
        from stethoscope.analysis.incident_words import can_be_one

        found = self._asked(lambda index: index.for_place(place))
        return [one for one in found if can_be_one(fleet, one.fleet)]

    def lemons(self, places: Sequence[str] | None = None, fleet: str = "") -> list[Lemon]:
        """Return the parts that keep coming back, of all or of `places`, with `fleet` of no other fleet; DataError for
        broken settings of theirs."""
        from stethoscope.analysis.incident_lemons import lemons
        from stethoscope.analysis.incident_words import can_be_one
        from stethoscope.specs.lemons import load_limits

        own = [one for one in self.all() if can_be_one(fleet, one.fleet)]
        return lemons(own, self._clock.wall(), load_limits(), places)

    @cached_property
    def _drafts(self) -> Drafts:
        from stethoscope.store.drafts import Drafts

        return Drafts(self._draft_directory)

    def save_draft(self, key: str, incident: Incident, expected: Version | None = None, *, writer: str = "") -> None:
        """Keep what is being written under `key`, by the console `writer` where it is still in its form; DataError when
        that cannot be."""
        from stethoscope.store.drafts import Draft

        digest = expected.digest if expected is not None else ""
        self._drafts.save(Draft(key=key, saved=self._clock.wall(), expected=digest, incident=incident, writer=writer))

    def drafts(self) -> list[Draft]:
        """Return what was being written and not recorded, the latest first."""
        return self._drafts.all()

    def drop_draft(self, key: str) -> None:
        """Forget the draft of `key`."""
        self._drafts.drop(key)


def redacted(incident: Incident) -> Incident:
    """Return an incident with all its text clean and without what looks like a secret, and how many those were."""
    from stethoscope import redact

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
