"""The night's list: what records add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.night import AGAIN_S, GAP_S, KEEP_S, LAPSE_S, MOST, Night
from stethoscope.clock import iso
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.night import Acknowledged, Looked, Noted, Records, Snoozed, Standing

T0 = 1_773_454_447.0


def a_finding(
    id_: str = "hot@gpu-001", severity: str = "P1", since: float = T0, where: tuple[str, ...] = ("gpu-001/gpu/4",)
) -> Finding:
    """Return an active finding."""
    nodes = ",".join(dict.fromkeys(place.split("/")[0] for place in where))
    return Finding(id_, id_.split("@")[0], Severity(severity), where, nodes, iso(since), "88 °C")


def cleared(finding: Finding, at: float) -> Finding:
    """Return the finding as the rules keep it when it is over."""
    return replace(finding, state="cleared", cleared_at=iso(at))


def words(told: list[tuple[str, Records]]) -> list[str]:
    """Return what is told."""
    return [word for word, _ in told]


def acknowledged(night: Night, id_: str, at: float, *, undo: bool = False) -> Acknowledged:
    """Return what a console writes when somebody acknowledges a finding."""
    entry = night.entries[id_]
    return Acknowledged(at=at, id=id_, by="kim", severity=entry.finding.severity, nodes=entry.nodes, undo=undo)


def snoozed(night: Night, id_: str, at: float, until: float | None) -> Snoozed:
    """Return what a console writes when somebody snoozes a finding."""
    entry = night.entries[id_]
    return Snoozed(
        at=at, id=id_, by="kim", severity=entry.finding.severity, nodes=entry.nodes, until=until, as_was=entry.as_is
    )


def test_a_finding_comes_clears_and_comes_back() -> None:
    night, one = Night(), a_finding()
    assert words(night.take([one], T0 + 1)) == ["new"]
    assert words(night.take([replace(one, summary="89 °C")], T0 + 2)) == []
    assert night.entries[one.id].finding.summary == "89 °C"
    assert words(night.take([cleared(one, T0 + 60)], T0 + 90)) == ["cleared"]
    entry = night.entries[one.id]
    assert (entry.spans, entry.ended, entry.standing(T0 + 91)) == (((T0, T0 + 60),), "cleared", Standing.CLEARED)
    assert words(night.take([a_finding(severity="P0", since=T0 + 200)], T0 + 201)) == ["back"]
    entry = night.entries[one.id]
    assert (entry.times, entry.spans) == (2, ((T0, T0 + 60), (T0 + 200, None)))
    assert (entry.worst, entry.standing(T0 + 202)) == (Severity.P0, Standing.LOUD)
    night.take([a_finding(severity="P2", since=T0 + 200)], T0 + 240)
    assert night.entries[one.id].worst is Severity.P0


def test_what_is_told_by_another_finding_now_has_not_cleared() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    assert words(night.take([], T0 + 5)) == ["folded"]
    assert night.entries[one.id].ended == "folded"
    assert words(night.take([replace(one, since=iso(T0 + 30))], T0 + 30)) == ["still"]
    entry = night.entries[one.id]
    assert (entry.times, entry.spans) == (1, ((T0, None),))


def test_more_places_are_told_a_while_later_and_worse_at_once() -> None:
    night = Night()
    night.take([a_finding()], T0)
    wider = a_finding(where=("gpu-001/gpu/4", "gpu-002/gpu/1"))
    assert words(night.take([wider], T0 + 1)) == []
    assert words(night.take([wider], T0 + AGAIN_S)) == ["changed"]
    assert words(night.take([replace(wider, severity=Severity.P0)], T0 + AGAIN_S + 1)) == ["changed"]


def test_an_acknowledged_finding_is_quiet_until_it_is_worse() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    night.apply(acknowledged(night, one.id, T0 + 5))
    assert night.entries[one.id].standing(T0 + 6) is Standing.ACKNOWLEDGED
    night.take([cleared(one, T0 + 60)], T0 + 90)
    night.take([a_finding(since=T0 + 200)], T0 + 200)
    assert night.entries[one.id].standing(T0 + 201) is Standing.ACKNOWLEDGED
    night.take([a_finding(severity="P0", since=T0 + 200)], T0 + 202)
    assert night.entries[one.id].standing(T0 + 203) is Standing.LOUD
    night.apply(acknowledged(night, one.id, T0 + 204))
    assert night.entries[one.id].standing(T0 + 205) is Standing.ACKNOWLEDGED
    night.apply(acknowledged(night, one.id, T0 + 206, undo=True))
    assert night.entries[one.id].standing(T0 + 207) is Standing.LOUD


def test_an_acknowledged_finding_that_spreads_is_loud() -> None:
    night, one = Night(), a_finding("lost@fleet", where=("n1", "n2", "n3"))
    night.take([one], T0)
    night.apply(acknowledged(night, one.id, T0 + 5))
    night.take([a_finding("lost@fleet", where=tuple(f"n{i}" for i in range(6)))], T0 + 6)
    assert night.entries[one.id].standing(T0 + 7) is Standing.ACKNOWLEDGED
    night.take([a_finding("lost@fleet", where=tuple(f"n{i}" for i in range(7)))], T0 + 8)
    assert night.entries[one.id].standing(T0 + 9) is Standing.LOUD


def test_a_snooze_ends_at_its_time() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    night.apply(snoozed(night, one.id, T0 + 5, T0 + 1800))
    assert night.entries[one.id].standing(T0 + 1799) is Standing.SNOOZED
    assert night.entries[one.id].standing(T0 + 1800) is Standing.LOUD


@pytest.mark.parametrize(
    "then",
    [
        [a_finding(severity="P2")],
        [a_finding(where=("gpu-001/gpu/4", "gpu-001/gpu/5"))],
    ],
)
def test_a_snooze_until_it_changes_ends_when_it_does(then: list[Finding]) -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    night.apply(snoozed(night, one.id, T0 + 5, None))
    night.take([replace(one, summary="91 °C")], T0 + 3600)
    assert night.entries[one.id].standing(T0 + 3601) is Standing.SNOOZED
    night.take(then, T0 + 3602)
    assert night.entries[one.id].standing(T0 + 3603) is Standing.LOUD


def test_a_snooze_until_it_changes_ends_when_it_comes_again() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    night.apply(snoozed(night, one.id, T0 + 5, None))
    night.take([cleared(one, T0 + 60)], T0 + 90)
    night.take([a_finding(since=T0 + 100)], T0 + 100)
    assert night.entries[one.id].standing(T0 + 101) is Standing.LOUD


def again(night: Night) -> Night:
    """Return the list of another console that reads the same records."""
    other = Night("other")
    other.apply_all(night.whole(T0))
    return other


def test_a_restarted_console_takes_it_up_again() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0 + 10)
    night.apply(acknowledged(night, one.id, T0 + 11))
    later = again(night)
    young = a_finding(since=T0 + 300)
    assert words(later.take([young], T0 + 300)) == ["still"]
    entry = later.entries[one.id]
    assert (entry.times, entry.since, entry.standing(T0 + 301)) == (1, T0, Standing.ACKNOWLEDGED)
    assert later.findings((young,))[0].since == iso(T0)


def test_a_restart_after_a_long_time_is_another_time() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0 + 10)
    later = again(night)
    now = T0 + 10 + GAP_S + 1
    assert words(later.take([a_finding(since=now)], now)) == ["back"]
    assert later.entries[one.id].spans == ((T0, T0 + 10), (now, None))


def test_what_is_not_found_again_has_lapsed() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0 + 10)
    later = again(night)
    later.take([], T0 + 20)
    assert later.entries[one.id].is_active
    assert words(later.take([], T0 + 20 + LAPSE_S)) == ["cleared"]
    entry = later.entries[one.id]
    assert (entry.ended, entry.cleared_at) == ("lapsed", T0 + 10)


def test_what_another_console_still_sees_has_not_lapsed() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0 + 10)
    later = again(night)
    later.take([], T0 + 20)
    later.apply(Looked(at=T0 + 100, who="first"))
    later.take([], T0 + 20 + LAPSE_S)
    assert later.entries[one.id].is_active
    later.apply(Looked(at=T0 + 1000, who="other"))
    assert later.entries[one.id].seen == T0 + 100, "that it looked itself says nothing of what others saw"


def test_two_consoles_that_see_the_same_count_it_once() -> None:
    one, first, second = a_finding(), Night("a"), Night("b")
    records = [record for _, record in first.take([one], T0 + 1)]
    records += [record for _, record in second.take([a_finding(since=T0 + 2)], T0 + 2)]
    records += [record for _, record in first.take([cleared(one, T0 + 60)], T0 + 90)]
    records += [record for _, record in second.take([cleared(one, T0 + 61)], T0 + 91)]
    both = Night()
    both.apply_all(records)
    entry = both.entries[one.id]
    assert (entry.times, entry.spans) == (1, ((T0, T0 + 60),))


def test_a_console_that_sees_the_end_a_moment_later_does_not_count_it_again() -> None:
    one, first, second = a_finding(), Night("a"), Night("b")
    second.apply_all(record for _, record in first.take([one], T0 + 1))
    second.take([one], T0 + 1)
    second.apply_all(record for _, record in first.take([cleared(one, T0 + 60)], T0 + 90))
    assert words(second.take([one], T0 + 91)) == []
    assert words(second.take([cleared(one, T0 + 61)], T0 + 92)) == []
    assert second.entries[one.id].spans == ((T0, T0 + 60),)
    second.take([a_finding(since=T0 + 200)], T0 + 200)
    assert second.entries[one.id].times == 2


def test_old_ones_and_too_many_are_forgotten() -> None:
    night = Night()
    night.take([a_finding("old@n1"), a_finding("long@n1")], T0)
    night.take([cleared(a_finding("old@n1"), T0 + 5), a_finding("long@n1")], T0 + 6)
    night.take([a_finding("long@n1")], T0 + KEEP_S + 60)
    assert set(night.entries) == {"long@n1"}
    night = Night()
    many = [a_finding(f"r@n{number}") for number in range(MOST + 5)]
    night.take(many, T0)
    night.take([*(cleared(one, T0 + 10) for one in many[:10]), *many[10:]], T0 + 61)
    night.trim(T0 + 62)
    assert len(night.entries) == MOST
    assert sum(entry.is_active for entry in night.entries.values()) == MOST - 5


def test_notes_are_kept_once_and_in_order() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    note = Noted(at=T0 + 1, id=one.id, by="kim", text="swapped the cable")
    night.apply_all(
        [note, note, Noted(at=T0 + 2, id=one.id, by="bob", text="better"), Noted(at=T0, id="x@y", by="", text="")]
    )
    assert [said.text for said in night.entries[one.id].notes] == ["swapped the cable", "better"]


def test_the_json_form_holds_both() -> None:
    night, one = Night(), a_finding()
    night.take([one], T0)
    night.apply(acknowledged(night, one.id, T0 + 1))
    night.apply(snoozed(night, one.id, T0 + 2, None))
    night.apply(Noted(at=T0 + 3, id=one.id, by="kim", text="hm"))
    document = night.entries[one.id].as_json(T0 + 4)
    assert document["standing"] == "snoozed"
    assert document["acknowledged"] == {"at": iso(T0 + 1), "by": "kim", "severity": "P1"}
    assert document["snoozed"] == {"at": iso(T0 + 2), "by": "kim", "severity": "P1", "until": "changed"}
    assert (document["times"], document["spans"], document["highest"]) == (1, [[iso(T0), None]], "P1")
    assert document["notes"] == [{"at": iso(T0 + 3), "by": "kim", "text": "hm"}]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["P0", "P1", "clear", "gone", "ack"])), max_size=30))
def test_whatever_happens_a_second_reader_has_the_same(steps: list[tuple[str, str]]) -> None:
    night, records, now = Night("a"), list[Records](), T0
    there: dict[str, Finding] = {}
    for name, what in steps:
        now += 40
        id_ = f"r@{name}"
        if what in ("P0", "P1"):
            there[id_] = a_finding(id_, what, now)
        elif what == "ack":
            if id_ in night.entries:
                records.append(acknowledged(night, id_, now))
                night.apply(records[-1])
        elif id_ in there:
            if what == "clear":
                there[id_] = cleared(there[id_], now)
            else:
                del there[id_]
        records += [record for _, record in night.take(there.values(), now)]
    other = Night("b")
    other.apply_all(records)
    assert {i: (e.spans, e.times, e.worst, e.ended, e.acknowledged) for i, e in night.entries.items()} == {
        i: (e.spans, e.times, e.worst, e.ended, e.acknowledged) for i, e in other.entries.items()
    }
    for entry in night.entries.values():
        assert all(end is not None for _, end in entry.spans[:-1])
        assert all(end is None or end >= since for since, end in entry.spans)


def test_what_a_rule_logs_is_kept_once_for_each_time_it_came() -> None:
    night = Night()
    one = replace(a_finding(), log=("gpu-001 at 88 C",))
    later = replace(one, log=("gpu-001 at 91 C",))
    night.take([one], T0 + 1)
    night.take([later], T0 + 5)
    night.take([replace(later, severity=Severity.P0)], T0 + 60)
    assert [(line.at, line.text) for line in night.entries[one.id].logged] == [(T0 + 1, "gpu-001 at 88 C")]
    night.take([cleared(later, T0 + 70)], T0 + 100)
    night.take([replace(later, since=iso(T0 + 200))], T0 + 210)
    kept = [(T0 + 1, "gpu-001 at 88 C"), (T0 + 210, "gpu-001 at 91 C")]
    assert [(line.at, line.text) for line in night.entries[one.id].logged] == kept
    again = Night()
    again.apply_all(night.whole(T0 + 211))
    assert [(line.at, line.text) for line in again.entries[one.id].logged] == kept
    assert again.entries[one.id].as_json(T0 + 212)["log"][0] == {"at": iso(T0 + 1), "text": "gpu-001 at 88 C"}


def test_two_consoles_keep_a_line_of_the_log_once() -> None:
    first, second = Night("a"), Night("b")
    finding = replace(a_finding(), log=("seen",))
    told = [record for _, record in first.take([finding], T0 + 1)]
    told += [record for _, record in second.take([finding], T0 + 2)]
    both = Night("c")
    both.apply_all(told)
    assert [line.text for line in both.entries[finding.id].logged] == ["seen"]
