"""What the fields of an incident's form say, and two who edited one incident."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.model.finding import Severity
from stethoscope.model.incident import END, HIT, Hit, Incident, Search, Status, Times, Trouble
from stethoscope.ui.present.incident_alike import alike_rows, lemon_rows
from stethoscope.ui.present.incident_conflict import conflict_rows
from stethoscope.ui.present.incident_form import FIELDS, PAIRS, moment_in_form, read_form, texts_of
from stethoscope.ui.present.incident_list import ALL, FAULTS, Listed, detail_rows, list_lines, query_of, words_of
from stethoscope.ui.present.incident_merge import differing, merged
from stethoscope.ui.present.spans import UNICODE, Tone, plain, row_width

BEGAN = 1773454258.0
NOW = BEGAN + 3600
ONE = Incident(
    "INC-2026-03-14-k7qmx",
    "gpu-007/ib/mlx5_3: a sick link",
    root_cause="ib_link_fault",
    component="optic",
    times=Times(BEGAN, BEGAN + 12.25, NOW - 60, recorded=NOW - 60),
    places=("gpu-007/ib/mlx5_3",),
    body="## Evidence\r\n\n- x  \n",
)
CAUSES = ("ib_link_fault", "ib_link_down", "gpu_oom")


def _read(**texts: str) -> Incident:
    said = read_form({**texts_of(ONE), **texts}, ONE, NOW, CAUSES)
    assert said.problems == ()
    return said.incident


def test_every_field_stands_on_the_form() -> None:
    assert set(texts_of(ONE)) == set(FIELDS)
    assert {name for pair in PAIRS for name in pair} == set(FIELDS) - {"title", "resolution", "body"}


def test_what_nobody_changed_stays_to_the_letter() -> None:
    assert _read() == ONE


def test_words_about_what_fixed_it_resolve_it() -> None:
    one = _read(resolution="换光模块 \n")
    assert (one.resolution, one.status, one.times.resolved) == ("换光模块", Status.RESOLVED, NOW)
    assert _read(resolution="wait", status="mitigated").times.mitigated == NOW
    assert _read(resolution="half", status="mitigated").status is Status.MITIGATED
    draft = replace(ONE, resolution="typed before")
    said = read_form(texts_of(draft), draft, NOW, CAUSES, fixed_before="")
    assert said.incident.status is Status.RESOLVED, "a draft that was taken up again"
    assert read_form(texts_of(draft), draft, NOW, CAUSES).incident == draft


def test_words_may_be_short_and_lists_have_commas() -> None:
    one = _read(status="RES", severity="p0", places="gpu-001， leaf/leaf-01 ,", tags="night")
    assert (one.status, one.severity, one.tags) == (Status.RESOLVED, Severity.P0, ("night",))
    assert one.places == ("gpu-001", "leaf/leaf-01")
    assert _read(root_cause=" gpu_oom ").root_cause == "gpu_oom"
    assert _read(root_cause="").root_cause == ""


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("root_cause", "ib_link_fautl", 'no root cause is called "ib_link_fautl"; did you mean "ib_link_fault"?'),
        ("status", "r", "status is one of open, mitigated, resolved, reference"),
        ("severity", "loud", "severity is one of P0, P1, P2, info, none"),
        ("began", "yesterday", "is no time"),
        ("resolved", "2026-03-01", "is before"),
    ],
)
def test_what_cannot_be_understood_is_said_and_keeps_its_value(field: str, text: str, words: str) -> None:
    said = read_form({**texts_of(ONE), field: text}, ONE, NOW, CAUSES)
    assert [name for name, _ in said.problems] == [field]
    assert words in said.problems[0][1]
    if field != "resolved":
        assert said.incident == ONE


def test_a_time_of_day_is_the_first_after_it_began() -> None:
    assert moment_in_form("02:20", NOW + 86_400 * 30, BEGAN) == BEGAN - BEGAN % 60 + 600
    assert moment_in_form("02:00:00", NOW, BEGAN) > BEGAN, "on the next day"
    assert moment_in_form("20m ago", NOW, BEGAN) == NOW - 1200
    assert moment_in_form("now", NOW, BEGAN) == NOW
    assert _read(detected="").times.detected is None


def test_two_who_changed_different_fields_are_put_together() -> None:
    mine, theirs = replace(ONE, title="mine"), replace(ONE, component="cable", resolution="theirs")
    both = replace(ONE, title="mine", component="cable", resolution="theirs")
    assert merged(mine, theirs, ONE, prefer_mine=True) == both
    assert merged(mine, theirs, ONE, prefer_mine=False) == both
    fixed = replace(mine, resolution="mine too")
    assert merged(fixed, theirs, ONE, prefer_mine=True).resolution == "mine too"
    assert merged(fixed, theirs, ONE, prefer_mine=False).resolution == "theirs"
    assert merged(fixed, theirs, None, prefer_mine=False) == theirs
    assert [one.name for one in differing(fixed, theirs, ONE)] == ["resolution", "title", "component"]
    said = "\n".join(plain(row) for row in conflict_rows(fixed, theirs, ONE, 60, ""))
    assert " resolution  both changed it\n  file now  theirs\n  yours     mine too" in said
    assert "is gone" in plain(conflict_rows(mine, None, ONE, 200, "")[0])
    assert "cannot be read now: bad" in plain(conflict_rows(mine, None, ONE, 200, "bad")[0])


# ---- the list


def test_the_list_has_hits_with_what_fits_loud() -> None:
    fixed = replace(ONE, status=Status.RESOLVED, resolution="swapped the optic")
    hit = Hit(fixed, 1.0, f"the {HIT}swapped{END} optic")
    lines = list_lines(Listed(Search((hit,), 3, 0.0, "swapped", ("no field sev",)), query="Swapped link"), UNICODE, 140)
    assert [line.kind for line in lines] == ["", "suggestion", "incident", "", ""]
    assert [span.text for span in lines[2].row if span.tone is Tone.KEY] == ["link", "swapped"]
    assert [span.text for span in lines[3].row if span.tone is Tone.KEY] == ["swapped"]
    assert plain(lines[4].row) == "   and 2 more: type what they say"
    assert "fixed by swapped the optic" in "\n".join(plain(row) for row in detail_rows(hit, UNICODE, 80, 4))


def test_files_with_faults_and_an_empty_library_say_so() -> None:
    trouble = Trouble("INC-x.md", 5, 'column 9: status "openn"')
    listed = Listed(Search((), 0, 0.0), troubles=(trouble,))
    said = [plain(line.row) for line in list_lines(listed, UNICODE, 80)]
    assert said[0].startswith("   nothing is recorded yet")
    assert said[-1] == ' ▲ INC-x.md:5  column 9: status "openn"'
    assert [line.kind for line in list_lines(listed._replace(only=FAULTS), UNICODE, 80)] == ["", "trouble"]
    assert plain(detail_rows(None, UNICODE, 80, 2, "INC-x.md: bad")[0]) == " INC-x.md: bad"


def test_a_query_is_narrowed_and_its_words_are_known() -> None:
    assert query_of("xid:79", "open") == "xid:79 status:open"
    assert query_of("xid:79", ALL) == query_of("xid:79", FAULTS) == "xid:79"
    assert words_of('掉卡 "two words" xid:79 -not rise* OR a') == ["掉卡", "two words", "rise", "a"]


@pytest.mark.parametrize("cells", [40, 80, 200])
def test_nothing_is_wider_than_the_screen(cells: int) -> None:
    evil = replace(ONE, title="[/foo] 掉卡 " * 40, resolution="x" * 300)
    listed = Listed(Search((Hit(evil, 1.0, "a" * 300),), 1, 0.0), query="foo")
    assert all(row_width(line.row) <= cells for line in list_lines(listed, UNICODE, cells))
    similar = [{"id": "I" * 60, "title": "掉" * 200, "fixed_by": "y" * 999, "reasons": ["z" * 99] * 9}]
    assert all(row_width(row) <= cells for row in alike_rows(similar, cells, 11))
    assert not list(lemon_rows((), cells, 11, "!"))
