"""What a person chose to see, kept in the state directory: by fleet for the next time, by name for all fleets."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from stethoscope.paths import state_dir, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = "stethoscope.view/1"
_LARGEST = 4_000_000
"""Bytes of a file that is read: twenty thousand selected nodes fit."""
MOST_NAMED = 200
"""Views that are kept under names."""


class ViewState:
    """The choices for one fleet, and the named views; what cannot be read is as if there were nothing."""

    def __init__(self, fleet: str, directory: Path | None = None) -> None:
        """Keep the choices for `fleet` in `directory`, that of the user by default."""
        self._fleet = fleet
        self._directory = directory if directory is not None else state_dir() / "views"
        word = re.sub(r"[^A-Za-z0-9._-]+", "-", fleet).strip("-.")[:60]
        # Names that differ only in what a file name cannot have are different fleets all the same.
        mark = hashlib.sha256(fleet.encode(errors="backslashreplace")).hexdigest()[:8]
        self.path = self._directory / f"{word or 'fleet'}-{mark}.json"
        self.named_path = self._directory / "named.json"
        self.triage_path = self.path.with_suffix(".triage.json")

    def load(self) -> dict[str, Any]:
        """Return what was kept last, empty when there is nothing."""
        said = _read(self.path)
        return said if said.get("fleet") == self._fleet else {}

    def save(self, said: Mapping[str, object]) -> None:
        """Keep `said`, in one step and for the user alone; OSError when that cannot be."""
        _write(self.path, {"schema": SCHEMA, "fleet": self._fleet, **said})

    def load_triage(self) -> dict[str, Any]:
        """Return what was said in a guided triage of this fleet, empty when there is nothing."""
        said = _read(self.triage_path)
        return said if said.get("fleet") == self._fleet else {}

    def save_triage(self, said: Mapping[str, object]) -> None:
        """Keep what was said in a guided triage; OSError when that cannot be."""
        _write(self.triage_path, {"schema": SCHEMA, "fleet": self._fleet, **said})

    def named(self) -> dict[str, dict[str, Any]]:
        """Return the named views, in the order of their names."""
        views = _read(self.named_path).get("views")
        if not isinstance(views, dict):
            return {}
        kept = {name: view for name, view in views.items() if isinstance(view, dict) and name.isprintable()}
        return dict(sorted(kept.items())[:MOST_NAMED])

    def save_named(self, name: str, view: Mapping[str, object]) -> None:
        """Keep `view` as `name`, in place of another of that name; OSError when that cannot be."""
        _write(self.named_path, {"schema": SCHEMA, "views": {**self.named(), name: dict(view)}})


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        said = json.loads(text) if len(text) <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and said.get("schema") == SCHEMA else {}


def _write(path: Path, said: Mapping[str, object]) -> None:
    write_private(path, json.dumps(said, ensure_ascii=True, indent=1).encode())
