"""What a scheduler's states come to."""

from __future__ import annotations

import pytest

from stethoscope.model.scheduler import Job, SchedulerState, Standing

JOB = ("4242",)


@pytest.mark.parametrize(
    ("words", "reason", "jobs", "standing"),
    [
        (("idle",), "", (), Standing.SERVING),
        (("allocated",), "", JOB, Standing.SERVING),
        (("idle", "planned"), "", (), Standing.SERVING),
        (("idle", "drain"), "maint BMC firmware", (), Standing.DRAINED),
        (("idle", "drain"), "Kill task failed", (), Standing.DOWN),
        (("idle", "drain"), "NHC: check_hw_ib:  No IB port is ACTIVE (State=DOWN).", (), Standing.DOWN),
        (("idle", "drain"), "nhcarter swaps an optic", (), Standing.DRAINED),
        (("mixed", "drain"), "swap optic", (), Standing.DRAINING),
        (("idle", "drain"), "swap optic", JOB, Standing.DRAINING),
        (("down", "not_responding", "drain"), "maint: firmware", (), Standing.DRAINED),
        (("down", "not_responding", "drain"), "Not responding", (), Standing.DOWN),
        (("idle", "drain", "invalid_reg"), "gres/gpu count reported lower than configured (7 < 8)", (), Standing.DOWN),
        (("idle", "drain", "invalid_reg"), "", (), Standing.DOWN),
        (("idle", "drain"), "", (), Standing.DRAINED),
        (("down",), "CPU dead", (), Standing.DOWN_BY_ADMIN),
        (("down",), "Node unexpectedly rebooted", (), Standing.DOWN),
        (("down", "not_responding"), "", (), Standing.DOWN),
        (("unknown", "not_responding"), "", (), Standing.DOWN),
        (("allocated", "maintenance"), "", JOB, Standing.MAINTENANCE),
        (("idle", "powered_down"), "", (), Standing.POWERED_DOWN),
    ],
)
def test_standing(words: tuple[str, ...], reason: str, jobs: tuple[str, ...], standing: Standing) -> None:
    assert SchedulerState(words, reason, "root", jobs=jobs).standing is standing


def test_what_the_scheduler_does_under_its_own_name_excuses_nothing() -> None:
    assert SchedulerState(("idle", "drain"), "GPU check failed", "slurm").standing is Standing.DOWN
    assert SchedulerState(("idle", "drain"), "GPU check failed", "ops").standing is Standing.DRAINED
    assert SchedulerState(("down",), "CPU dead", "slurm").standing is Standing.DOWN


@pytest.mark.parametrize("wall", [-1.0, 1e11, 9_223_372_036_854_775_807, float("inf"), float("nan")])
def test_a_time_that_is_none_is_not_known(wall: float) -> None:
    assert SchedulerState(("idle", "drain"), "maint", since=wall).since is None
    assert Job("4242", started=wall).started is None
    assert SchedulerState(("idle",), since=1_773_454_447.0).since == 1_773_454_447.0


def test_a_reservation_for_maintenance() -> None:
    assert SchedulerState(("idle", "reserved"), reservation="maintenance-2026").standing is Standing.MAINTENANCE
    assert SchedulerState(("idle", "reserved"), reservation="big-run").standing is Standing.SERVING


def test_phrases() -> None:
    assert SchedulerState(("idle",)).phrase == ""
    assert (
        SchedulerState(("idle", "drain"), "maint BMC firmware", "root").phrase == "drained: maint BMC firmware (root)"
    )
    assert SchedulerState(("idle", "drain")).phrase == "drained"
    assert SchedulerState(("allocated", "maintenance"), reservation="m1").phrase == "maintenance: m1"
    down = SchedulerState(("down", "not_responding"), "Not responding", "slurm")
    assert down.phrase == "down, not responding: Not responding (slurm)"
