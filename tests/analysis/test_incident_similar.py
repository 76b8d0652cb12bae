"""Which incidents of the past look like what happens now, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.incident_similar import LEAST, Past, nodes_of, similar
from stethoscope.analysis.incident_words import can_be_one
from stethoscope.model.incident import Clues, Incident, Status, Times

RISER = Incident(
    "INC-2026-03-14-aaaaa",
    "Xid 79",
    root_cause="gpu_fallen_off_bus",
    component="pcie",
    fleet="prod",
    times=Times(began=1000.0),
    places=("gpu-014/gpu/3",),
    around=("rack/r3",),
    symptoms=("xid.79", "gpu_lost", "nccl.timeout"),
    resolution="riser replaced",
)
OPTIC = Incident(
    "INC-2026-04-02-bbbbb",
    "optic",
    root_cause="ib_link_fault",
    component="optic",
    fleet="prod",
    times=Times(began=2000.0),
    places=("gpu-007/ib/mlx5_3",),
    around=("leaf/leaf-01", "pod/a"),
    symptoms=("ib_symbol_errors", "ib_recoveries"),
)
TIMEOUT = Incident(
    "INC-2026-05-01-ccccc",
    "wrong interface",
    root_cause="wrong_interface",
    fleet="prod",
    times=Times(began=3000.0),
    places=("job/77",),
    symptoms=("nccl.timeout",),
)
KIND = Incident(
    "INC-reference-xid79",
    "A GPU falls off the bus",
    status=Status.REFERENCE,
    root_cause="gpu_fallen_off_bus",
    symptoms=("xid.79", "gpu_lost"),
    resolution="power-cycle",
)
ALL = (OPTIC, TIMEOUT, KIND, RISER)
AGAIN = Clues(
    symptoms=("xid.79", "nccl.timeout"),
    root_causes=("gpu_fallen_off_bus", "pcie_fault"),
    places=("gpu-014/gpu/3",),
    around=("rack/r3",),
    fleet="prod",
)


def names(clues: Clues, text: dict[str, float] | None = None) -> list[str]:
    return [match.incident.id for match in similar(clues, ALL, text)]


def test_the_same_part_with_the_same_signs_is_first_and_a_shared_symptom_alone_is_nothing() -> None:
    found = similar(AGAIN, ALL)
    assert [match.incident for match in found] == [RISER, KIND]
    assert found[0].score > 0.85
    assert found[0].reasons == ("same Xid 79 on the same GPU", "same cause", "2 of 3 signs")
    assert found[1].reasons[:2] == ("same Xid 79", "same cause")


def test_another_node_is_less_alike_and_the_same_leaf_says_so() -> None:
    other = replace(OPTIC, id="", places=(), symptoms=())
    clues = Clues(OPTIC.symptoms, ("ib_link_fault",), ("gpu-009/ib/mlx5_3",), OPTIC.around, fleet="prod")
    (match,) = similar(clues, (OPTIC, other))[:1]
    assert match.incident is OPTIC
    assert match.reasons == ("same sign ib_symbol_errors", "same cause", "both signs", "same leaf")
    here = similar(replace(clues, places=("gpu-007/ib/mlx5_3",)), (OPTIC,))
    node = similar(replace(clues, places=("gpu-007/ib/mlx5_1",)), (OPTIC,))
    away = similar(replace(clues, around=()), (OPTIC,))
    assert [round(found[0].score, 2) for found in (here, node, match and [match], away)] == [1.0, 0.86, 0.76, 0.65]
    assert node[0].reasons[0] == "same sign ib_symbol_errors on the same node"


def test_places_of_another_fleet_are_other_places() -> None:
    away = similar(replace(AGAIN, fleet="lab"), ALL)
    assert away[0].incident is RISER
    assert away[0].reasons[0] == "same Xid 79"
    assert away[0].score < 0.7


def test_a_device_whose_hardware_failed_before_is_told_of_and_a_node_is_not() -> None:
    clues = Clues(symptoms=("xid.48",), root_causes=("gpu_memory_fault",), places=("gpu-014/gpu/3",), fleet="prod")
    assert similar(clues, ALL)[0].reasons == ("same GPU",)
    assert similar(replace(clues, root_causes=("cuda_app_bug",)), ALL) == []
    assert similar(replace(clues, places=("gpu-014/gpu/4",)), ALL) == []
    assert similar(replace(clues, places=("gpu-014",)), ALL) == []


def test_the_same_signs_of_another_cause_say_less() -> None:
    clues = replace(AGAIN, places=(), around=())
    other = replace(clues, root_causes=("psu_fault",))
    assert similar(clues, (RISER,))[0].score > 0.55
    assert similar(other, (RISER,)) == []
    assert similar(replace(other, places=RISER.places), (RISER,))[0].score < similar(AGAIN, (RISER,))[0].score


def test_what_nearly_every_night_has_is_little_of_a_likeness() -> None:
    slow = [replace(TIMEOUT, id=f"slow-{n}", root_cause=f"cause_{n}", symptoms=("job_slow",)) for n in range(40)]
    assert similar(Clues(symptoms=("job_slow",), fleet="prod"), slow, limit=40) == []
    assert len(similar(Clues(symptoms=("xid.79", "gpu_lost"), fleet="prod"), [*slow, RISER])) == 1


def test_healthy_and_unknown_are_no_causes_that_two_nights_share() -> None:
    some = replace(TIMEOUT, root_cause="unknown", symptoms=())
    assert similar(Clues(root_causes=("unknown",)), [some]) == []


def test_words_alone_are_never_enough_and_decide_between_equals() -> None:
    assert names(Clues(text="riser"), {RISER.id: 7.0}) == []
    twin = replace(RISER, id="INC-2026-03-20-ddddd")
    clues = replace(AGAIN, places=(), around=())
    assert similar(clues, (RISER, twin), {RISER.id: 9.0, twin.id: 1.0})[0].incident is RISER


def test_of_equals_a_night_of_ours_then_what_says_how_it_was_fixed_then_the_newest() -> None:
    old, new = replace(RISER, id="old"), replace(RISER, id="new", times=Times(began=9000.0))
    open_ = replace(RISER, id="open", times=Times(began=99_000.0), resolution="")
    kind = replace(RISER, id="kind", status=Status.REFERENCE)
    found = similar(AGAIN, (kind, open_, old, new), limit=4)
    assert [match.incident.id for match in found] == ["new", "old", "open", "kind"]


def test_it_is_not_like_itself_and_an_empty_past_is_like_nothing() -> None:
    assert RISER.id not in names(replace(AGAIN, but=RISER.id))
    assert similar(AGAIN, ()) == []


@pytest.mark.parametrize(
    ("nodes", "known"),
    [
        ("gpu-001", {"gpu-001"}),
        ("gpu-[001-003]", {"gpu-001", "gpu-002", "gpu-003"}),
        ("gpu-[001-128]", set()),
        ("gpu-[001-999999999]", set()),
        ("gpu-[", set()),
        ("", set()),
    ],
)
def test_an_incident_of_few_nodes_names_them(nodes: str, known: set[str]) -> None:
    assert nodes_of(replace(OPTIC, places=(), nodes=nodes)) == known


def test_a_reference_names_the_telling_signs_alone_and_is_found_by_them() -> None:
    many = replace(AGAIN, symptoms=("xid.79", "gpu_lost", *(f"other_{n}" for n in range(8))))
    assert KIND.id in names(replace(many, places=(), around=(), root_causes=()))


_WORDS = st.text(max_size=12)
_INCIDENTS = st.builds(
    Incident,
    id=st.text(min_size=1, max_size=4),
    title=_WORDS,
    status=st.sampled_from(Status),
    root_cause=_WORDS,
    component=_WORDS,
    fleet=_WORDS,
    nodes=_WORDS,
    places=st.lists(_WORDS, max_size=3).map(tuple),
    around=st.lists(_WORDS, max_size=3).map(tuple),
    symptoms=st.lists(_WORDS, max_size=3).map(tuple),
)


@given(st.lists(_INCIDENTS, max_size=6))
def test_every_incident_that_says_anything_is_most_like_itself(incidents: list[Incident]) -> None:
    past = Past(incidents)
    for one in incidents:
        clues = Clues(one.symptoms, (one.root_cause,), one.places, one.around, fleet=one.fleet, component=one.component)
        found = past.similar(clues, limit=9)
        assert all(0.7 * LEAST <= match.score <= 1.0 and match.reasons for match in found)
        assert found == past.similar(clues, limit=9)
        # A well-known kind says less than any night of this fleet, be it its own.
        if one.symptoms and one.places and not one.is_reference:
            own = max(match.score for match in found if match.incident == one)
            assert found[0].score <= own + 0.01


def test_a_fleet_that_is_called_by_its_nodes_is_part_of_any() -> None:
    assert can_be_one("prod-a", "gpu-[001-064]")
    assert can_be_one("gpu-001,gpu-002", "prod-a")
    assert can_be_one("", "prod-a")
    assert not can_be_one("prod-a", "prod-b")
