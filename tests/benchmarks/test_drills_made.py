"""Scenarios that are made at random: all can be played, and the same seed makes the same."""

from __future__ import annotations

import pytest
import yaml

from benchmarks.drills_made import FORMS, made
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.load import loads
from stethoscope.specs.scenario_read import read_scenario


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_makes_a_scenario_that_loads(form: str) -> None:
    """With its place, parameters within what the kind takes, and an expectation."""
    words = vocabulary()
    for number, kind in enumerate(KINDS):
        document = made(kind, form, number)
        scenario = read_scenario(loads(yaml.safe_dump(document), f"{kind}.yaml"), words)
        assert scenario.expect is not None
        assert scenario.expect.root_cause == KINDS[kind].root_cause
        assert made(kind, form, number) == document
