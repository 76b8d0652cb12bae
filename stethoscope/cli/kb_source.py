"""What an incident can be made of: options for the JSON of a triage or of a decoded log, or a finding of the night."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stethoscope.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.incident import Clues, Incident

OF_NOW_S = 6 * 3600.0
"""What was seen so long ago was hardly located, and hardly mended, at the moment that it is written down."""
_LARGEST = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Source:
    """At most one of them is given."""

    triage: str | None = None
    decode: str | None = None
    finding: str | None = None
    of: str | None = None
    """Fleet of the finding."""

    @property
    def is_given(self) -> bool:
        """Tell whether there is one."""
        return any(one is not None for one in (self.triage, self.decode, self.finding))

    @property
    def key(self) -> str:
        """Return the key of the draft that is made of it."""
        for name, value in (("triage", self.triage), ("decode", self.decode), ("finding", self.finding)):
            if value is not None:
                return f"{name}/{value}"
        return "hand"

    def draft(self, now: float, author: str) -> Incident:
        """Return the incident that it fills, with an empty id."""
        from stethoscope.session import incident_draft, incident_said

        if not self.is_given:
            return incident_draft.draft_by_hand(now, author=author)
        from stethoscope.specs.metric import load_catalogue
        from stethoscope.ui.present.incident_fact import fact_writer

        say = fact_writer(load_catalogue())
        if self.triage is not None:
            found = incident_said.diagnosis_of(*_document(self.triage, "--triage"))
            made = incident_draft.draft_of_verdict(found, now, author=author, say=say)
            detected = made.times.detected
            is_old = detected is not None and now - detected > OF_NOW_S
            # A verdict of a recording, or of a file of last night, does not say when it was given.
            return replace(made, times=replace(made.times, located=None)) if is_old else made
        if self.decode is not None:
            said = incident_said.log_said_of(*_document(self.decode, "--decode"))
            return incident_draft.draft_of_log(said, now, author=author, say=say)
        fleet, entry = _entry(self.finding or "", self.of)
        return replace(incident_draft.draft_of_entry(entry, now, author=author, say=say), fleet=fleet)

    def clues(self) -> Clues:
        """Return what of it is compared with the past."""
        from stethoscope.session import incident_draft, incident_said

        if self.triage is not None:
            return incident_draft.clues_of(incident_said.diagnosis_of(*_document(self.triage, "--triage")))
        if self.decode is not None:
            return incident_draft.clues_of(incident_said.log_said_of(*_document(self.decode, "--decode")))
        fleet, entry = _entry(self.finding or "", self.of)
        return incident_draft.clues_of(entry, fleet=fleet)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it gets them as one argument, `source`."""

    @functools.wraps(function)
    def with_source(
        *args: Any, triage: str | None, decode: str | None, finding: str | None, of: str | None, **options: Any
    ) -> Any:
        if sum(one is not None for one in (triage, decode, finding)) > 1:
            raise UsageError("say one of --triage, --decode, --finding")
        if of is not None and finding is None:
            raise UsageError("--of is the fleet of --finding")
        return function(*args, source=Source(triage, decode, finding, of), **options)

    decorated: Callable[..., Any] = with_source
    for option in (
        click.option("--of", metavar="FLEET", help="With --finding: whose list, where several have such a one."),
        click.option("--finding", metavar="ID", help="A finding of tonight, as `findings --night` lists them."),
        click.option("--decode", metavar="FILE", help="What `decode --json` printed; - is stdin."),
        click.option("--triage", metavar="FILE", help="What `triage --auto --json` printed; - is stdin."),
    ):
        decorated = option(decorated)
    return decorated


def _document(name: str, option: str) -> tuple[Any, str]:
    """Return a JSON document and what to call it."""
    import msgspec

    where = "stdin" if name == "-" else name
    try:
        raw = sys.stdin.buffer.read(_LARGEST + 1) if name == "-" else _content(Path(name))
    except OSError as error:
        raise UsageError(f"{option}: {name}: {error.strerror or error}") from None
    if len(raw) > _LARGEST:
        raise DataError(f"larger than {_LARGEST // 2**20} MiB", where=where)
    try:
        return msgspec.json.decode(raw), where
    except (msgspec.DecodeError, RecursionError) as error:
        said = "triage --auto --json" if option == "--triage" else "decode --json"
        raise DataError(f"not what `{said}` prints: {error}", where=where) from None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def _entry(name: str, fleet: str | None) -> tuple[str, Any]:
    from stethoscope.clock import SystemClock
    from stethoscope.session.kept import find, kept_lists

    now = SystemClock().wall()
    of, _, entry = find(name, kept_lists(now), fleet)
    return of, entry
