"""Training: what an answer is worth, what a drill begins with, and where faults can come."""

from __future__ import annotations

from random import Random

import pytest

from stethoscope.errors import UsageError
from stethoscope.session.training import blamable, plan_of
from stethoscope.session.training_score import WIDE, Reply, Report, Said, Truth, false_accusations, marks
from stethoscope.sim.chosen import places_of, surprise
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.scenarios import open_scenario, vocabulary
from stethoscope.specs.scenario_read import read_fault

OPTIC = Truth(
    "ib_optic_degraded", "An optic is bad", "gpu-007/ib/mlx5_3", 100.0, "ib_link_fault", "communication",
    ("gpu-007/pcie/0000:5e:00.0",), 15.0,
)  # fmt: skip
OLD = Truth("historic_counters", "Old counts", "gpu-003/ib/mlx5_1", 90.0, "healthy", "none")


@pytest.mark.parametrize(
    ("cause", "layer", "place", "points"),
    [
        ("ib_link_fault", "communication", "gpu-007/ib/mlx5_3", (1.0, 1.0)),
        ("ib_link_fault", "communication", "gpu-007/pcie/0000:5e:00.0", (1.0, 1.0)),
        ("ib_link_fault", "communication", "gpu-007", (1.0, 0.5)),
        ("ib_link_fault", "communication", "gpu-008", (1.0, 0.0)),
        ("switch_congestion", "communication", "gpu-007/ib/mlx5_3", (0.5, 1.0)),
        ("gpu_thermal", "hardware", "gpu-007/ib/mlx5_3", (0.0, 1.0)),
        ("switch_congestion", "communication", "leaf/leaf-01-3", (0.0, 0.0)),
        ("unknown", "none", "", (0.0, 0.0)),
        ("healthy", "none", "", (0.0, 0.0)),
    ],
)
def test_cause_and_place_are_worth_a_half_each(cause: str, layer: str, place: str, points: tuple[float, float]) -> None:
    (mark,) = marks([OPTIC, OLD], [Reply(174.0, cause, place, layer)], [])
    assert (mark.cause, mark.place) == points
    assert mark.answer_s == (74.0 if any(points) else None)


def test_the_best_answer_counts_and_one_from_before_the_fault_does_not() -> None:
    early = Reply(99.0, "ib_link_fault", "gpu-007/ib/mlx5_3", "communication")
    near = Reply(120.0, "ib_link_fault", "gpu-007", "communication")
    right = Reply(160.0, "ib_link_fault", "gpu-007/ib/mlx5_3", "communication")
    assert marks([OPTIC], [early], [])[0].reply is None
    (mark,) = marks([OPTIC], [early, near, right, right], [])
    assert (mark.reply, mark.points) == (right, 1.0)


def test_who_blames_what_is_not_wrong_accuses_falsely() -> None:
    replies = [
        Reply(50.0, "ib_link_fault", "gpu-007/ib/mlx5_3"),
        Reply(150.0, "ib_link_fault", "gpu-003/ib/mlx5_1"),
        Reply(151.0, "gpu_thermal", "gpu-007/ib/mlx5_3"),
        Reply(152.0, "unknown"),
        Reply(153.0, "healthy"),
    ]
    assert false_accusations([OPTIC, OLD], replies) == tuple(replies[:2])


def test_the_diagnosis_is_told_with_when_it_was_right() -> None:
    said = [
        Said(110.0, "unknown", (), 0.3),
        Said(130.0, "ib_link_fault", ("gpu-007/ib/mlx5_3",), 0.9),
        Said(190.0, "healthy", (), 0.9),
    ]
    (mark,) = marks([OPTIC], [], said)
    assert (mark.said, mark.said_is_right) == (said[1], True)
    (mark,) = marks([OPTIC], [], said[:1])
    assert (mark.said, mark.said_is_right) == (said[0], False)


def test_the_score_says_all_of_it_in_lines_that_fit() -> None:
    replies = (Reply(174.0, "ib_link_fault", "gpu-007", "communication"), Reply(180.0, "node_down", "gpu-009"))
    report = Report(
        marks([OPTIC], replies, [Said(130.0, "ib_link_fault", ("gpu-007/ib/mlx5_3",), 0.9)]), (OLD,),
        false_accusations([OPTIC], replies), replies, 312.0, seed=7,
    )  # fmt: skip
    lines = report.lines()
    assert max(map(len, lines)) <= WIDE
    text = " ".join(" ".join(lines).split())
    assert "The drill lasted 5 min 12 s." in text
    assert "root cause ib_link_fault, you said ib_link_fault: right" in text
    assert "place gpu-007/ib/mlx5_3, you said gpu-007: partly" in text
    assert "first finding 15 s after it began your answer 1 min 14 s after it began" in text
    assert "the diagnosis ib_link_fault at gpu-007/ib/mlx5_3, 30 s after it began: right" in text
    assert "Harmless: Old counts" in text
    assert "False accusations 1 node_down, gpu-009" in text
    assert text.endswith("Score 0.75 of 1 Seed 7")
    assert not report.is_right


def test_of_a_fleet_in_which_nothing_was_wrong_one_can_be_right() -> None:
    right = Report((), (OLD,), (), (Reply(5.0, "healthy"),), 60.0)
    assert "Nothing was wrong, and you said so." in right.lines()
    assert right.is_right
    silent = Report((), (), (), (), 60.0)
    assert "Nothing was wrong, and you did not say so." in silent.lines()
    assert not silent.is_right


def test_what_a_drill_begins_with() -> None:
    assert plan_of("", None) == ("training", None)
    assert plan_of("random", None) == ("training", "")
    assert plan_of("gpu_sdc", "demo") == ("demo", "gpu_sdc")
    assert plan_of("demo", None) == ("demo", None)
    with pytest.raises(UsageError, match='did you mean "gpu_sdc"'):
        plan_of("gpu_sdcc", None)
    with pytest.raises(UsageError, match="both name a scenario"):
        plan_of("demo", "training")


def test_every_kind_has_places_that_the_fleet_takes_and_a_seed_chooses_the_same_again() -> None:
    scenario, words = open_scenario("training"), vocabulary()
    for kind in KINDS:
        places = places_of(kind, scenario)
        for where in {places[0], places[-1], surprise(Random(5), scenario, kind)[1]}:
            assert read_fault(f"{kind} {where}", scenario, words, 10.0).where.text == where
    chosen = [surprise(Random(seed), scenario) for seed in range(40)]
    assert chosen == [surprise(Random(seed), scenario) for seed in range(40)]
    assert len({kind for kind, _ in chosen}) > 15
    assert {"gpu-016", "gpu-001/gpu/0", "leaf/leaf-01-7", "job/4242/rank/119"} <= set(blamable(scenario))
