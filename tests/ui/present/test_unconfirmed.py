"""What stands in alarm and no rule has found yet."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.model.finding import Severity
from stethoscope.model.verdict import Verdict
from stethoscope.ui.present.unconfirmed import unconfirmed
from tests.builders import fleet

CALM = Verdict("healthy", 0.7, Severity.NONE, "Nothing is wrong")


def test_what_the_fleet_shows_is_not_passed_over() -> None:
    assert unconfirmed(CALM, fleet(4), "") == ""
    alarmed = fleet(4, set={("gpu-003/ib/mlx5_3", "ib_symbol_error"): 20})
    said = unconfirmed(CALM, alarmed, "job/4242")
    assert said.startswith("no rule is sure of it yet: gpu-003 ib/mlx5_3 symbol errors 20/s; ask again")
    assert unconfirmed(CALM, alarmed, "gpu-001/gpu/3") == ""
    assert unconfirmed(CALM, alarmed, "gpu-003") == said
    assert unconfirmed(replace(CALM, root_cause="gpu_thermal", severity=Severity.P1), alarmed, "") == ""
