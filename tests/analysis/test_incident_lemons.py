"""Parts and nodes that keep coming back."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.analysis.incident_lemons import lemons
from stethoscope.model.incident import Incident, LemonLimits, Link, Status, Times

DAY_S = 86_400.0
NOW = 200 * DAY_S


def night(name: str, day: float, **more: object) -> Incident:
    base = Incident(
        name,
        name,
        root_cause="gpu_memory_fault",
        places=("gpu-014/gpu/3",),
        symptoms=("xid.48",),
        times=Times(began=day * DAY_S),
    )
    return replace(base, **more)  # type: ignore[arg-type]


FIRST, SECOND = night("a", 150.0), night("b", 190.0)


def test_the_same_xid_twice_on_one_gpu_leads_to_its_return() -> None:
    (found,) = lemons([FIRST, SECOND], NOW)
    assert (found.place, found.count, found.days, found.incidents) == ("gpu-014/gpu/3", 2, 40.0, ("b", "a"))
    assert found.advice == "RMA: Xid 48 twice on this GPU in 40 d"


def test_what_is_another_gpu_another_xid_too_old_or_to_come_does_not_count() -> None:
    for other in (
        night("o", 150.0, places=("gpu-014/gpu/4",)),
        night("o", 150.0, symptoms=("xid.31",)),
        night("o", 50.0),
        night("o", 201.0),
        night("o", 150.0, times=Times()),
    ):
        assert lemons([other, SECOND], NOW) == []


def test_one_night_that_two_people_wrote_down_is_one() -> None:
    again = night("c", 190.0 + 0.004)
    assert lemons([again, SECOND], NOW) == []
    assert lemons([replace(again, root_cause=""), SECOND], NOW) == []
    assert len(lemons([night("c", 190.0 + 0.1), SECOND], NOW)) == 1
    assert lemons([replace(again, root_cause="gpu_hw_fault"), SECOND], NOW) == []
    (found,) = lemons([FIRST, again, SECOND], NOW)
    assert found.count == 2


def test_references_and_what_is_no_hardware_do_not_count() -> None:
    assert lemons([replace(FIRST, status=Status.REFERENCE), SECOND], NOW) == []
    assert lemons([replace(FIRST, root_cause="cuda_app_bug"), SECOND], NOW) == []
    assert len(lemons([replace(FIRST, root_cause=""), SECOND], NOW)) == 1


def test_what_hits_many_nodes_at_once_comes_from_none_of_them() -> None:
    places = tuple(f"gpu-{n:03}/gpu/3" for n in range(10, 20))
    assert lemons([replace(FIRST, places=places), SECOND], NOW) == []


def test_two_files_about_one_night_are_one() -> None:
    assert lemons([FIRST, replace(SECOND, links=(Link("same_as", "a"),))], NOW) == []
    assert lemons([replace(FIRST, links=(Link("same_as", "b"),)), SECOND], NOW) == []


def test_what_began_before_the_other_was_over_or_came_of_it_is_no_failure_of_its_own() -> None:
    long = night("a", 189.5, times=Times(began=189.5 * DAY_S, resolved=190.2 * DAY_S))
    assert lemons([long, SECOND], NOW) == []
    for how in ("caused_by", "same_as"):
        assert lemons([FIRST, night("b", 190.0, links=(Link(how, "a"),))], NOW) == []
    assert (
        lemons([night("INC-2026-01-01-k7qmx", 150.0), night("b", 190.0, links=(Link("same_as", "k7qmx"),))], NOW) == []
    )


def test_planned_work_and_another_fleet_of_the_same_names_make_nothing_come_back() -> None:
    assert lemons([FIRST, replace(SECOND, tags=("maintenance",))], NOW) == []
    assert lemons([replace(FIRST, fleet="lab"), replace(SECOND, fleet="prod")], NOW) == []


def test_a_rack_that_lost_power_is_no_fault_of_its_nodes() -> None:
    lost = [
        night(f"{day}-{n}", day + n / 1000, places=(f"gpu-{n:03}",), root_cause="psu_fault")
        for day in (180.0, 185.0, 190.0)
        for n in range(4)
    ]
    assert lemons(lost, NOW) == []
    assert [one.place for one in lemons([one for one in lost if one.places == ("gpu-002",)], NOW)] == ["gpu-002"]


def test_after_a_replacement_it_is_other_hardware() -> None:
    swapped = replace(FIRST, tags=("replaced",))
    assert lemons([swapped, SECOND], NOW) == []
    assert len(lemons([swapped, SECOND, night("c", 195.0)], NOW)) == 1


def test_three_incidents_on_one_node_in_a_month() -> None:
    three = [
        night("x", 175.0, symptoms=(), places=("gpu-014/gpu/1",)),
        night("y", 180.0, symptoms=(), places=("gpu-014",), root_cause="node_down"),
        night("z", 185.0, symptoms=(), places=("gpu-014/ib/mlx5_3",), root_cause="nic_fault"),
    ]
    (found,) = lemons(three, NOW)
    assert (found.place, found.count) == ("gpu-014", 3)
    assert found.advice == "keep jobs off it until a burn-in passes: 3 times broken in 10 d"
    assert lemons(three[:2], NOW) == []


def test_a_port_with_the_same_cause_three_times() -> None:
    ports = [
        night(str(day), day, symptoms=(), places=("gpu-007/ib/mlx5_3",), root_cause="ib_link_fault")
        for day in (115.0, 150.0, 185.0)
    ]
    (found,) = lemons(ports, NOW)
    assert found.advice == "swap the transceiver, then the cable, then the port: ib_link_fault 3 times here in 70 d"


def test_limits_are_what_is_asked_for() -> None:
    assert lemons([FIRST, SECOND], NOW, LemonLimits(signs=("xid.79",))) == []
    assert lemons([FIRST, SECOND], NOW, LemonLimits(sign_times=3)) == []
    assert lemons([FIRST, SECOND], NOW, LemonLimits(sign_days=20.0)) == []


def test_some_places_alone_with_what_is_on_them_and_around() -> None:
    for places in (["gpu-014"], ["gpu-014/gpu/3"]):
        assert len(lemons([FIRST, SECOND], NOW, places=places)) == 1
    assert lemons([FIRST, SECOND], NOW, places=["gpu-014/gpu/4", "gpu-015"]) == []
