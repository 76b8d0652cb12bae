"""The points of a drill: whole, half and none, as an engineer who is woken would give them."""

from __future__ import annotations

import pytest

from stethoscope.session.drill_score import Got, Row, is_related, points, score
from stethoscope.specs.scenario import Expect

LINK = Expect(
    scope="global",
    layer="communication",
    root_cause="ib_link_fault",
    culprits=("gpu-007/ib/mlx5_3",),
    severity="P1",
    not_blamed=("gpu-003",),
    detect_within="90s",
    accept={"root_cause": ("ib_link_down",), "severity": ("P0",)},
)
HEALTHY = Expect(scope="none", layer="none", root_cause="healthy", culprits=(), severity="none")
UNKNOWN = Expect(scope="unknown", layer="none", root_cause="unknown", culprits=(), severity="P1")


def got(
    scope: str = "global",
    layer: str = "communication",
    root_cause: str = "ib_link_fault",
    severity: str = "P1",
    culprits: tuple[str, ...] = ("gpu-007/ib/mlx5_3",),
    confidence: float = 0.9,
    detect_s: float | None = 15.0,
    false_alarms: int = 0,
) -> Got:
    """Return an answer that is all right for LINK unless told otherwise."""
    return Got(scope, layer, root_cause, severity, culprits, confidence, detect_s, false_alarms)


def test_everything_right_is_a_point_each() -> None:
    """Six answers are judged."""
    assert points(LINK, got(), 90.0) == {
        "scope": 1.0, "layer": 1.0, "root_cause": 1.0, "culprits": 1.0, "severity": 1.0, "in_time": 1.0,
    }  # fmt: skip


def test_what_is_accepted_is_half_a_point() -> None:
    """The second-best answers of the scenario count half."""
    found = points(LINK, got(root_cause="ib_link_down", severity="P0"), 90.0)
    assert (found["root_cause"], found["severity"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("culprits", "point"),
    [
        (("gpu-007/ib/mlx5_3",), 1.0),
        (("gpu-007",), 0.5),
        (("gpu-007/ib/mlx5_3", "gpu-008"), 0.5),
        (("gpu-007/ib/mlx5_3", "gpu-008", "gpu-009", "gpu-010"), 0.0),
        (("gpu-008",), 0.0),
        ((), 0.0),
        (("gpu-007/ib/mlx5_3", "gpu-003/gpu/1"), 0.0),
        (("gpu-0071",), 0.0),
    ],
)
def test_culprits(culprits: tuple[str, ...], point: float) -> None:
    """A part or the whole of the right place is half right; blaming an innocent one is wrong whatever else is said."""
    assert points(LINK, got(culprits=culprits), 90.0)["culprits"] == point


@pytest.mark.parametrize(("detect_s", "point"), [(90.0, 1.0), (90.5, 0.0), (None, 0.0)])
def test_in_time(detect_s: float | None, point: float) -> None:
    """The limit itself is in time; never is not."""
    assert points(LINK, got(detect_s=detect_s), 90.0)["in_time"] == point


def test_a_healthy_fleet_has_no_culprits() -> None:
    """Only the verdict counts there."""
    answer = got("none", "none", "healthy", "none", (), 0.8, None)
    assert points(HEALTHY, answer, None) == {"scope": 1.0, "layer": 1.0, "root_cause": 1.0}


@pytest.mark.parametrize(
    ("root_cause", "confidence", "culprits", "point"),
    [
        ("unknown", 0.3, (), 1.0),
        ("ib_link_fault", 0.4, (), 0.5),
        ("ib_link_fault", 0.4, ("gpu-001",), 0.0),
        ("ib_link_fault", 0.6, (), 0.0),
    ],
)
def test_what_nobody_can_know(root_cause: str, confidence: float, culprits: tuple[str, ...], point: float) -> None:
    """A guess that claims little and blames nobody is half right."""
    answer = got("unknown", "none", root_cause, "P1", culprits, confidence)
    assert points(UNKNOWN, answer, None)["root_cause"] == point


def test_score_is_the_mean_of_what_was_judged() -> None:
    """Broken scenarios are counted apart."""
    right = Row("a", "a.yaml", LINK, got(), points=points(LINK, got(), 90.0))
    late = got(detect_s=200.0, root_cause="nic_fault", false_alarms=1)
    wrong = Row("b", "b.yaml", LINK, late, points=points(LINK, late, 90.0))
    total = score([right, wrong, Row("c", "c.yaml", error="c.yaml:1: broken")])
    assert total == {
        "n": 2, "scope": 1.0, "layer": 1.0, "root_cause": 0.5, "culprits": 1.0, "severity": 1.0, "in_time": 0.5,
        "detect_s_median": 107.5, "false_alarms": 1, "right": 1, "broken": 1,
    }  # fmt: skip
    assert right.is_right
    assert not wrong.is_right


def test_related_places() -> None:
    """A device belongs to its node, and to nothing whose name only begins so."""
    assert is_related("gpu-001/gpu/1", "gpu-001")
    assert is_related("job/42", "job/42/rank/7")
    assert not is_related("gpu-001/gpu/1", "gpu-001/gpu/12")
