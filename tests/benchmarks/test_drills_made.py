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
        assert scenario.expect.root_cause in (KINDS[kind].root_cause, "unknown")
        assert made(kind, form, number) == document


def test_what_nothing_tells_is_expected_to_be_unknown() -> None:
    """A hang in which all tools say that all is well; with a recorder that was on, the collectives do not match."""
    told = {}
    for seed in range(40):
        document = made("collective_mismatch", "plain", seed)
        params = document["events"][0]["params"]
        is_told = "/rank/" in document["events"][0]["where"] or (
            params["ras"] == "mismatch" or params["flight_recorder"] == "on" or params["py_spy"] == "differs"
        )
        told[is_told] = document["expect"]["root_cause"]
    assert told == {True: "collective_mismatch_desync", False: "unknown"}
