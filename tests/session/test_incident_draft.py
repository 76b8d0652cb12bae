"""Incidents as they are filled in before a person says what fixed it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.errors import DataError
from stethoscope.model.event import LogEvent
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.incident import Clues, Incident, Status, Times
from stethoscope.model.logs import Culprit, Event, LogVerdict, Origin
from stethoscope.model.night import Entry
from stethoscope.model.verdict import Diagnosis, PathStep, Verdict
from stethoscope.parse.pci import slot_of
from stethoscope.session.incident_draft import (
    LogSaid,
    around_of,
    clues_of,
    clues_of_incident,
    draft_by_hand,
    draft_of_entry,
    draft_of_log,
    draft_of_verdict,
)
from stethoscope.session.incident_said import diagnosis_of, log_said_of
from stethoscope.session.incident_words import component_of, title_of
from stethoscope.specs.root_cause import load_root_causes
from tests.builders import WALL, fleet
from tests.ui.triage_scenes import LINK, scene, sick_link

SINCE = 1773454267.0
VERDICT = Verdict(
    "ib_link_fault",
    0.93,
    Severity.P1,
    "A sick link: symbol errors +41/s",
    (Culprit(host="gpu-007", device="ib/mlx5_3", place=LINK),),
    (Fact("ib_symbol_error", 41.0, "below 10.1/h", LINK, "2026-03-14T02:11:07Z", "sysfs"),),
    rules_out=(("switch_congestion", "errors move"),),
    affected=("job/4242",),
    since=SINCE,
)
FOUND = Diagnosis("global", "communication", VERDICT, path=(PathStep("scope", "Is it everywhere?", "all alike"),))


def test_a_verdict_fills_all_but_what_fixed_it() -> None:
    at = scene(sick_link())
    one = draft_of_verdict(FOUND, WALL, snapshot=at.snapshot, entries=at.entries, author="ann")
    assert one.id == ""
    assert one.title == f"{LINK}: A sick link: symbol errors +41/s"
    assert (one.status, one.severity, one.root_cause, one.component) == (
        Status.OPEN,
        Severity.P1,
        "ib_link_fault",
        "optic",
    )
    assert one.times == Times(detected=SINCE, located=WALL, recorded=WALL), "nobody knows what was before the finding"
    before = replace(FOUND, verdict=replace(VERDICT, since=SINCE - 30))
    assert draft_of_verdict(before, WALL, snapshot=at.snapshot, entries=at.entries).times.began == SINCE - 30
    assert (one.fleet, one.nodes, one.places, one.job) == ("prod-a", "gpu-007", (LINK,), "4242")
    assert one.around == around_of((LINK,), at.snapshot)
    assert any(place.startswith("leaf/") for place in one.around)
    assert one.symptoms == ("ib_symbol_errors", "job_slow")
    assert (one.resolution, one.confidence, one.author) == ("", 0.93, "ann")
    assert "- ib_symbol_error: 41, expected below 10.1/h, gpu-007/ib/mlx5_3 (2026-03-14T02:11:07Z)" in one.body
    assert "## Path\n\n1. Is it everywhere? all alike\n" in one.body
    assert one.body.startswith("## Evidence\n")


def test_nothing_found_is_no_cause() -> None:
    one = draft_of_verdict(replace(FOUND, verdict=Verdict("healthy", 0.9, Severity.NONE, "")), WALL)
    assert (one.title, one.root_cause, one.severity, one.confidence) == ("Nothing found wrong", "", Severity.P2, None)
    assert one.times.located is None


def test_a_finding_fills_what_it_knows() -> None:
    at = scene(sick_link())
    entry = next(entry for entry in at.entries if entry.finding.rule == "ib_symbol_errors")
    one = draft_of_entry(entry, WALL, snapshot=at.snapshot, say=lambda fact: f"said {fact.fact}")
    assert (one.places, one.symptoms, one.root_cause) == ((LINK,), ("ib_symbol_errors",), "ib_link_fault")
    assert (one.times.began, one.times.detected) == (None, entry.since)
    assert one.times.mitigated is None
    assert one.job == "4242", "the only job on that node"
    assert "- said ib_symbol_error\n" in one.body


def _log_said() -> LogSaid:
    event = Event(
        "xid.79", "cause", Severity.P0, "NVRM: Xid 79 ``` GPU has fallen", at=SINCE, origin=Origin(host="gpu-014"),
        device="gpu/3",
    )  # fmt: skip
    verdict = LogVerdict(
        "gpu_fallen_off_bus", 0.9, Severity.P0, "GPU 3 fell off the bus.", "xid.79",
        (Culprit(host="gpu-014", device="gpu/3", place="gpu-014/gpu/3"),),
    )  # fmt: skip
    return LogSaid(verdict, (event,), (), lambda signature: f"meaning of {signature}", ("dmesg.log",), "7")


def test_a_log_fills_its_events_and_lines() -> None:
    one = draft_of_log(_log_said(), SINCE + 60, fleet="prod-a")
    assert (one.places, one.symptoms, one.job, one.component) == (("gpu-014/gpu/3",), ("xid.79",), "7", "gpu")
    assert one.title == "gpu-014/gpu/3: GPU 3 fell off the bus"
    assert "- 02:11:07 xid.79 gpu-014/gpu/3: meaning of xid.79" in one.body
    assert "```log\nNVRM: Xid 79 ''' GPU has fallen\n```" in one.body, "no line ends the block that it stands in"
    assert one.times == Times(began=SINCE, located=SINCE + 60, recorded=SINCE + 60)
    assert draft_of_log(_log_said(), SINCE + 25_000).times.located is None, "an old log was read long after"


def test_by_hand_there_is_a_place_and_a_time() -> None:
    one = draft_by_hand(WALL, place="gpu-003/gpu/1", snapshot=fleet(8))
    assert (one.title, one.nodes, one.places) == ("", "gpu-003", ("gpu-003/gpu/1",))
    assert one.times == Times(detected=WALL, recorded=WALL)
    assert draft_by_hand(WALL, fleet="x").fleet == "x"


def test_a_verdict_has_the_signatures_that_a_decoded_log_of_it_has() -> None:
    slots = [slot_of(gpu.pci) for gpu in fleet(4).node("gpu-002").gpus]
    line = LogEvent("gpu-002", "kernel", "Xid", SINCE - 20, xid=79, pci=slots[2])
    other = replace(line, xid=13, pci=slots[3])
    old, elsewhere = replace(line, xid=48, at=SINCE - 9e3), replace(line, xid=63, node="gpu-001")
    snapshot = replace(fleet(4), events=(line, other, old, elsewhere))
    place = "gpu-002/gpu/2"
    verdict = replace(
        VERDICT,
        culprits=(Culprit(host="gpu-002", device="gpu/2", place=place),),
        supports=(
            Fact("nccl.timeout", "Watchdog", "", "gpu-002", "", "log"),
            Fact("Xid 79", "x", "", place, "", "log"),
        ),
    )
    found = replace(FOUND, verdict=verdict)
    assert draft_of_verdict(found, WALL, snapshot=snapshot).symptoms == ("nccl.timeout", "xid.79")
    assert clues_of(found, snapshot).symptoms == ("nccl.timeout", "xid.79")
    lost = replace(scene(sick_link()).entries[0].finding, rule="gpu_lost", where=(place,))
    entry = Entry(lost, SINCE, ((SINCE, None),))
    assert draft_of_entry(entry, WALL, snapshot=snapshot).symptoms == ("gpu_lost", "xid.79")
    assert clues_of(entry, snapshot).symptoms == ("gpu_lost", "xid.79")


def test_clues_are_what_can_be_compared() -> None:
    at = scene(sick_link())
    clues = clues_of(FOUND, at.snapshot, at.entries)
    assert clues.symptoms == ("ib_symbol_errors", "job_slow")
    assert (clues.root_causes, clues.places, clues.job, clues.component) == (
        ("ib_link_fault",),
        (LINK,),
        "4242",
        "optic",
    )
    entry = clues_of(at.entries[0], at.snapshot)
    assert entry.places == at.entries[0].finding.where
    log = clues_of(_log_said(), fleet="prod-a")
    assert (log.symptoms, log.places, log.fleet) == (("xid.79",), ("gpu-014/gpu/3",), "prod-a")
    one = Incident("INC-1", "t", symptoms=("xid.79",), resolution="riser")
    assert clues_of_incident(one) == Clues(symptoms=("xid.79",), text="t riser", but="INC-1")


def test_every_root_cause_has_a_word_for_what_was_broken() -> None:
    assert {cause for cause in load_root_causes() if not component_of(cause, ())} == {"healthy", "unknown"}
    assert component_of("unknown", ("leaf/leaf-01",)) == "switch"
    assert component_of("", ("gpu-001/disk/nvme0n1",)) == "disk"
    assert component_of("", ("gpu-001",)) == "node"
    assert component_of("", ("job/4242",)) == "", "a slow job says nothing of what is broken"
    assert component_of("", ("job/4242", "gpu-001/gpu/3")) == "gpu"


def test_a_title_names_its_place_once_and_is_short() -> None:
    assert title_of("gpu-007 is hot.", ("gpu-007/gpu/3",)) == "gpu-007 is hot"
    assert title_of("", ("gpu-007",)) == "gpu-007"
    assert len(title_of("x" * 500, ("gpu-007",))) == 120


def test_what_the_program_printed_is_read_back() -> None:
    read = diagnosis_of(json.loads(json.dumps(FOUND.as_json())))
    assert (read.verdict.root_cause, read.verdict.places, read.path[0].answer) == (
        "ib_link_fault",
        (LINK,),
        "all alike",
    )
    said = log_said_of(
        {
            "schema": "stethoscope.decode/1",
            "verdict": {"root_cause": "gpu_oom", "culprits": [{"host": "a", "place": None}], "severity": "bad"},
            "events": [{"signature": "x", "meaning": "m", "role": "cause", "at": "2026-03-14T02:11:07Z", "count": 2}],
            "files": [{"name": "f\x1b[31m"}],
        }
    )
    assert (said.verdict.severity, said.meaning("x"), said.files, said.events[0].count) == (Severity.P1, "m", ("f",), 2)


@pytest.mark.parametrize("document", [None, [], {}, {"schema": "stethoscope.check/1"}, {"schema": 3}])
def test_another_document_is_an_error(document: object) -> None:
    for read in (diagnosis_of, log_said_of):
        with pytest.raises(DataError):
            read(document, "x.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(("verdict", "alternatives", "path", "events", "files", "actions")), _JSON))
def test_no_document_breaks_the_reading(said: dict[str, object]) -> None:
    draft_of_verdict(diagnosis_of({**said, "schema": "stethoscope.triage/1"}), WALL)
    draft_of_log(log_said_of({**said, "schema": "stethoscope.decode/1"}), WALL)
