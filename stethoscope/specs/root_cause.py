"""The closed vocabulary of root causes (`root_causes.yaml`): every verdict and finding uses these ids and no others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stethoscope.model.finding import Severity
from stethoscope.paths import bundled, config_dir
from stethoscope.specs.load import SeveralDataError, Spec, convert, load

if TYPE_CHECKING:
    from pathlib import Path

FILE = "root_causes.yaml"


class RootCauseSpec(Spec, frozen=True):
    """One entry of the file."""

    id: str
    layer: Literal["communication", "hardware", "node", "data", "software", "scheduler", "none"]
    severity: Literal["P0", "P1", "P2", "none"]
    meaning: str
    symptom_only: bool = False


class RootCauseFile(Spec, frozen=True):
    """The whole file."""

    schema: Literal["stethoscope.root_causes/1"]
    classes: list[RootCauseSpec]


@dataclass(frozen=True, slots=True)
class RootCause:
    """One class of causes."""

    id: str
    layer: str
    """Where the evidence that settles the case sits, in the order of triage."""
    severity: Severity
    """Default only: a rule or a verdict may know better."""
    meaning: str
    symptom_only: bool
    """Allowed only when nothing that can be read points further back."""


def load_root_causes(*directories: Path) -> dict[str, RootCause]:
    """Return every root cause by its id, the nearest definition of an id; raises DataError with the position."""
    causes: dict[str, RootCause] = {}
    for path in [*(directory / FILE for directory in directories), config_dir() / "playbooks" / FILE]:
        if path.exists():
            causes = {**read_root_causes(path), **causes}
    return {**read_root_causes(bundled("playbooks") / FILE), **causes}


def read_root_causes(path: Path) -> dict[str, RootCause]:
    """Return the root causes of one file by their id."""
    loaded = load(path)
    causes: dict[str, RootCause] = {}
    errors = []
    for position, spec in enumerate(convert(loaded, RootCauseFile).classes):
        if spec.id in causes:
            errors.append(loaded.error(f'the root cause "{spec.id}" is defined twice', "classes", position, "id"))
        causes[spec.id] = RootCause(spec.id, spec.layer, Severity(spec.severity), spec.meaning, spec.symptom_only)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return causes
