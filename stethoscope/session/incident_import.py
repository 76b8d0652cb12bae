"""Puts incidents that were written down elsewhere into a library, each of them once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.session.incidents import redacted
from stethoscope.specs.incident import fronts_incident, read_incident
from stethoscope.specs.incident_import import KEY, Imported, decoded
from stethoscope.specs.incident_postmortem import read_postmortem
from stethoscope.specs.incident_table import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stethoscope.model.incident import Incident
    from stethoscope.session.incidents import Library
    from stethoscope.specs.incident_import import Options

LARGEST = 32 * 2**20
"""Bytes of a file that is read."""
_TABLES = (".csv", ".tsv", ".txt")
_TEXTS = (".md", ".markdown")
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_BINARY = (b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"\x89PNG")
_SEVERAL = re.compile(r"# \d+ incidents\n")
"""As `kb export` begins a report of several."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one incident, or of a file of which none could be made."""

    how: str
    """`new`, `here` (recorded before) or `fault`."""
    where: str
    id: str = ""
    title: str = ""
    notes: tuple[str, ...] = ()
    """What of it was not understood, and stands in its text."""
    fault: str = ""


def import_paths(books: Library, paths: Sequence[Path], options: Options, *, dry_run: bool = False) -> list[Taken]:
    """Record what files and directories tell of, and return what became of it; a fault costs its file alone."""
    every = books.all(references=True)
    ids = {one.id: one for one in every}
    keys = {str(dict(one.extra).get(KEY)): one.id for one in every if dict(one.extra).get(KEY)}
    taken: list[Taken] = []
    for path in _files(paths):
        try:
            found = _read(path, options)
        except (DataError, OSError) as error:
            said = str(error) if isinstance(error, DataError) else f"{path}: {error.strerror or error}"
            taken.append(Taken("fault", str(path), fault=said))
            continue
        for one in found:
            try:
                taken.append(_take(books, one, ids, keys, dry_run=dry_run))
            except DataError as error:
                taken.append(Taken("fault", one.where, one.incident.id, one.incident.title, fault=str(error)))
    if not dry_run:
        books.refresh()
    return taken


def _take(books: Library, one: Imported, ids: dict[str, Incident], keys: dict[str, str], *, dry_run: bool) -> Taken:
    known = keys.get(one.key) if one.key else None
    incident = one.incident
    if known is not None:
        return Taken("here", one.where, known, ids[known].title)
    safe = redacted(incident)
    if safe.id in ids:
        if not one.key and ids[safe.id] != safe:
            return Taken("here", one.where, safe.id, safe.title, ("what is here says something else, and stays",))
        if not one.key:
            return Taken("here", one.where, safe.id, safe.title)
        # Two things that were imported may come to the same letters.
        safe = replace(safe, id=books.files.new_id(safe.id.removeprefix("INC-")[:10]))
    if not dry_run:
        books.files.create(safe)
    ids[safe.id] = safe
    if one.key:
        keys[one.key] = safe.id
    secrets = (f"{safe.redacted} secrets taken out",) if safe.redacted > incident.redacted else ()
    return Taken("new", one.where, safe.id, safe.title, (*one.notes, *secrets))


def _read(path: Path, options: Options) -> list[Imported]:
    with path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise DataError(f"larger than {LARGEST // 2**20} MiB", where=str(path))
    if path.suffix.lower() not in (*_TABLES, *_TEXTS, "") or raw.startswith(_BINARY):
        said = "save it as CSV" if path.suffix.lower() in _SHEETS else "CSV and Markdown are read"
        raise DataError(f"no table and no text: {said}", where=str(path))
    text = decoded(raw)
    if "\0" in text:
        raise DataError("no text: it has NUL bytes", where=str(path))
    if _SEVERAL.match(text):
        raise DataError("a report of several incidents: take in their files, or a report of each", where=str(path))
    if path.suffix.lower() in _TABLES:
        return read_table(text, str(path), options)
    if fronts_incident(text):
        return [Imported(read_incident(text, str(path)), str(path))]
    return [read_postmortem(text.replace("\r\n", "\n"), str(path), options)]


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that are meant; below a directory those alone whose names say what they are."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in below.relative_to(path).parts)
            plain = below.stem.casefold() in ("readme", "index", "license", "changelog", "contributing", "template")
            if not hidden and not plain and below.suffix.lower() in (*_TABLES[:2], *_TEXTS) and below.is_file():
                yield below
