"""The triage playbooks in reach: what the diagnosis asks, in which order, and what it knows of root causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.specs.root_cause import load_root_causes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stethoscope.specs.root_cause import RootCause


@dataclass(frozen=True, slots=True)
class Playbooks:
    """Everything that an operator may edit of the diagnosis."""

    causes: Mapping[str, RootCause]
    """The vocabulary of root causes by id."""


def load_playbooks(*directories: Path) -> Playbooks:
    """Return the playbooks of `directories`, the user's and the bundled ones; raises DataError with positions."""
    return Playbooks(load_root_causes(*directories))
