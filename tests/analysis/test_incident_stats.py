"""What incidents add up to: how long what took, how many when, what comes back; references are not counted."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.analysis.incident_stats import Spans, Took, spans_of, stats
from stethoscope.clock import from_iso
from stethoscope.model.incident import Incident, Link, Status, Times
from stethoscope.store.incident_tables import terms_of


def at(text: str) -> float:
    wall = from_iso(text)
    assert wall is not None
    return wall


def one(number: int, day: str, **more: object) -> Incident:
    began = at(f"{day}T02:00:00Z")
    made = Incident(f"INC-{day}-aaa{number:02d}", "x", times=Times(began=began))
    return replace(made, **more)  # type: ignore[arg-type]


def test_spans_count_from_the_first_sign_and_never_backwards() -> None:
    times = Times(began=0.0, detected=60.0, located=360.0, mitigated=660.0, resolved=3660.0)
    assert spans_of(Incident("a", "x", times=times)) == Spans(60.0, 300.0, 600.0, 3600.0)
    unseen = replace(times, detected=None, resolved=None)
    assert spans_of(Incident("a", "x", times=unseen)) == Spans(None, 360.0, 660.0, None)
    assert spans_of(Incident("a", "x", times=Times(began=100.0, detected=50.0))).detect_s is None


def test_what_is_the_same_as_another_is_counted_once() -> None:
    first, second = one(1, "2026-01-15"), one(2, "2026-01-15")
    link = (Link("same_as", first.id),)
    summed = stats([first, replace(second, links=link)])
    assert (summed.n, summed.same, summed.as_json()["same_as_left_out"]) == (1, 1, 1)
    back = replace(first, links=(Link("same_as", second.id),))
    assert stats([back, replace(second, links=link)]).n == 1
    # One that is not here, itself, or another relation leaves nothing out.
    assert stats([replace(second, links=link)]).n == 1
    assert stats([replace(first, links=link)]).n == 1
    assert stats([first, replace(second, links=(Link("related", first.id),))]).n == 2


def test_sums_are_over_time_without_gaps_and_unknown_stands_last() -> None:
    summed = stats(
        [
            one(1, "2026-01-15", root_cause="ib_link_fault", component="optic"),
            one(2, "2026-01-20", component="gpu"),
            one(3, "2026-03-01", component="gpu"),
            one(4, "2026-03-02", root_cause="host_oom", status=Status.RESOLVED),
            one(5, "2026-03-03", root_cause="host_oom", status=Status.REFERENCE),
        ],
        step="month",
    )
    assert (summed.n, summed.references) == (4, 1)
    assert summed.periods == ("2026-01-01", "2026-02-01", "2026-03-01")
    assert summed.total == (2, 0, 2)
    assert [(count.name, count.n, count.over_time) for count in summed.causes] == [
        ("host_oom", 1, (0, 0, 1)),
        ("ib_link_fault", 1, (1, 0, 0)),
        ("unknown", 2, (1, 0, 1)),
    ]
    assert [(count.name, count.n) for count in summed.components] == [("gpu", 2), ("optic", 1), ("unknown", 1)]
    assert summed.by_status == (("open", 3), ("resolved", 1))


def test_periods_fit_the_time_that_they_cover() -> None:
    assert stats([one(1, "2026-03-01"), one(2, "2026-03-20")]).step == "week"
    assert stats([one(1, "2025-03-01"), one(2, "2026-03-20")]).step == "month"
    assert stats([one(1, "2023-03-01"), one(2, "2026-03-20")]).step == "quarter"
    years = stats([one(1, "2003-03-01"), one(2, "2026-03-20")])
    assert (years.step, len(years.periods)) == ("year", 24)
    assert stats([one(1, "0001-01-01"), one(2, "9999-12-31")]).n == 2


def test_how_long_it_took_says_of_how_many() -> None:
    began = at("2026-03-01T00:00:00Z")
    made = [
        replace(one(number, "2026-03-01"), times=Times(began=began, resolved=began + 3600 * hours if hours else None))
        for number, hours in enumerate((1, 2, 9, 0))
    ]
    summed = stats(made)
    assert summed.repair == Took(mean_s=14400.0, median_s=7200.0, longest_s=32400.0, n=3)
    assert summed.detect is None
    assert summed.as_json()["time_to"]["repair"] == {
        "mean_s": 14400.0, "median_s": 7200.0, "longest_s": 32400.0, "n": 3,
    }  # fmt: skip


def test_what_comes_back_is_the_part_and_the_node_where_more_of_it_came() -> None:
    summed = stats(
        [
            one(1, "2026-03-01", places=("gpu-014/gpu/3",), root_cause="gpu_hw_fault"),
            one(2, "2026-03-02", places=("gpu-014/gpu/3",)),
            one(3, "2026-03-03", places=("gpu-014/ib/mlx5_0",)),
            one(4, "2026-03-04", places=("gpu-020/gpu/1",)),
            one(5, "2026-03-05", places=("gpu-020/gpu/1",)),
            one(6, "2026-03-06", nodes="gpu-[030-031]"),
            one(7, "2026-03-07", nodes="gpu-031"),
            one(8, "2026-03-08", nodes="gpu-[001-100]"),
            one(9, "2026-03-09", nodes="gpu-[001-100]"),
            one(10, "2026-03-09", nodes="[broken"),
            one(11, "2026-03-10", places=("leaf/leaf-01",)),
            one(12, "2026-03-10", places=("leaf/leaf-02",)),
        ]
    )
    assert [(repeat.place, repeat.n) for repeat in summed.repeats] == [
        ("gpu-014", 3),
        ("gpu-031", 2),
        ("gpu-020/gpu/1", 2),
        ("gpu-014/gpu/3", 2),
    ]
    assert summed.repeats[0].incidents[0] == "INC-2026-03-03-aaa03"
    assert summed.repeats[3].causes == (("gpu_hw_fault", 1), ("unknown", 1))


def test_what_is_on_no_node_makes_none_come_back() -> None:
    every = [one(number, "2026-01-15", places=("rail/3", "spine/s1")) for number in (1, 2)]
    assert sorted(repeat.place for repeat in stats(every).repeats) == ["rail/3", "spine/s1"]
    assert terms_of(every[0]) & {("node", "rail"), ("node", "spine")} == set()


def test_nothing_adds_up_to_nothing() -> None:
    empty = stats([])
    assert (empty.n, empty.periods, empty.repair, empty.repeats) == (0, (), None, ())
