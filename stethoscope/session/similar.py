"""What of the past looks like an answer of now, for verbs that answer and end: it never spoils the answer itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.analysis.incident_similar import similar
from stethoscope.errors import StethoscopeError
from stethoscope.paths import config_dir, data_dir, is_there

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.incident import Clues, Match

LIMIT = 3


def looks_like(clues: Clues, said: str | None = None, warn: Callable[[str], None] = lambda _: None) -> list[Match]:
    """Return what looks like `clues` in the directory `said`, or the usual one, and among the well-known kinds.

    What is wrong with the incidents is one line to `warn`, and costs what they would have said.
    """
    try:
        directory = _directory(said)
        if _has_files(directory):
            from stethoscope.specs.incident_kinds import load_few, load_kinds

            few = load_few(directory)
            if few is not None:
                own = {one.id for one in few}
                return similar(clues, (*few, *(one for one in load_kinds() if one.id not in own)), limit=LIMIT)
            from stethoscope.session.incidents import Library

            return Library(directory).similar(clues, LIMIT, words=False)
    except (StethoscopeError, OSError) as error:
        warn(f"the incidents of the past are not looked at: {error}")
    return _of_kinds(clues, warn)


def _directory(said: str | None) -> Path:
    if said is None and not is_there(config_dir() / "config.yaml"):
        return data_dir() / "incidents"
    if said is not None:
        return Path(said).expanduser()
    # What reads settings and incidents takes longer to load than a small log to decode.
    from stethoscope.session.incidents import incidents_dir

    return incidents_dir(said)


def _of_kinds(clues: Clues, warn: Callable[[str], None]) -> list[Match]:
    # Where nobody wrote anything down yet, no index is needed.
    from stethoscope.specs.incident_kinds import load_kinds

    try:
        return similar(clues, load_kinds(), limit=LIMIT)
    except StethoscopeError as error:
        warn(f"the well-known kinds of incidents are not looked at: {error}")
        return []


def _has_files(directory: Path) -> bool:
    """Tell whether anything is in the directory that may be an incident, here or in a directory below."""
    try:
        with os.scandir(directory) as entries:
            return any(entry.name.endswith(".md") or entry.is_dir() for entry in entries if entry.name[0] != ".")
    except FileNotFoundError:
        return False
