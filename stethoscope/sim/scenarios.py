"""The scenarios that came with the program, and how any scenario file is opened for the twin."""

from __future__ import annotations

from pathlib import Path

from stethoscope.errors import UsageError, did_you_mean
from stethoscope.sim.board import DATA, boards
from stethoscope.sim.columns import METRICS
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.specs.scenario import Scenario, Vocabulary
from stethoscope.specs.scenario_read import load_scenario

DEMO = "demo"


def bundled() -> dict[str, Path]:
    """Return the bundled scenarios: name -> file."""
    return {path.stem: path for path in sorted((DATA / "scenarios").glob("*.yaml"))}


def vocabulary() -> Vocabulary:
    """Return the words that a scenario of this twin may use."""
    return Vocabulary({name: kind.form() for name, kind in KINDS.items()}, METRICS, boards())


def open_scenario(name: str) -> Scenario:
    """Return a scenario by the path of its file or its bundled name.

    Raises UsageError for an unknown name, listing the bundled ones, and DataError for a broken file.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return load_scenario(Path(name), vocabulary())
    known = bundled()
    if name not in known:
        listed = f"{did_you_mean(name, known)}; bundled: {', '.join(known)}".replace("?;", "?")
        raise UsageError(f'no scenario "{name}"{listed}')
    return load_scenario(known[name], vocabulary())
