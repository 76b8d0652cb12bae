"""The file of an incident: what is written is what is read, in any language, and errors say where."""

from __future__ import annotations

import string
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Link, Status, Times
from stethoscope.specs.incident import fronts_incident, read_incident, read_with_remarks
from stethoscope.specs.incident_text import incident_text
from stethoscope.text import clean, clean_page
from tests.incidents import LOST_GPU

FULL = replace(
    LOST_GPU,
    title="掉卡: GPU fell off the bus",
    times=Times(1773454447.0, 1773454460.25, None, 1773455000.0, 1773458000.0, 1773459000.0),
    nodes="gpu-[003,007-009]",
    places=("gpu-014/gpu/3", "leaf/leaf-01"),
    around=("rack/r3",),
    confidence=0.93,
    resolution="换了 riser。\nBurned in for an hour.",
    tags=("replaced", "on"),
    links=(Link("same_as", "INC-2026-01-02-aaaaa"), Link("url", "https://tickets/12")),
    redacted=2,
    body="## Evidence\n\n- Xid 79\n\n---\nnot: front matter\n",
    extra=(("shift", "night"), ("cost", {"gpu_hours": 12.5, "paid": None})),
)
TEXT = """---
schema: stethoscope.incident/1
id: INC-2026-03-14-k7qmx
title: "掉卡: GPU fell off the bus"
status: resolved
severity: P0
root_cause: gpu_fallen_off_bus
component: pcie
fleet: prod
times:
  began: 2026-03-14T02:14:07Z
  detected: 2026-03-14T02:14:20.250Z
  mitigated: 2026-03-14T02:23:20Z
  resolved: 2026-03-14T03:13:20Z
  recorded: 2026-03-14T03:30:00Z
nodes: gpu-[003,007-009]
places: [gpu-014/gpu/3, leaf/leaf-01]
around: [rack/r3]
job: "4242"
symptoms: [xid.79, gpu_lost]
confidence: 0.93
resolution: |-
  换了 riser。
  Burned in for an hour.
tags: [replaced, "on"]
links:
  - same_as: INC-2026-01-02-aaaaa
  - url: https://tickets/12
author: Li Wei
redacted: 2
shift: night
cost: {gpu_hours: 12.5, paid: null}
---

## Evidence

- Xid 79

---
not: front matter
"""


def test_what_people_read_is_in_a_fixed_order_and_reads_back_as_it_was() -> None:
    assert incident_text(FULL) == TEXT
    assert read_incident(TEXT, "x.md") == FULL


def test_what_is_not_known_is_left_out() -> None:
    small = Incident(id="INC-1", title="")
    assert incident_text(small) == (
        '---\nschema: stethoscope.incident/1\nid: INC-1\ntitle: ""\nstatus: open\nseverity: P1\n---\n'
    )
    assert read_incident(incident_text(small), "x.md") == small


def _front(lines: str) -> str:
    return f"---\nschema: stethoscope.incident/1\nid: INC-1\ntitle: t\n{lines}---\n"


def test_what_people_write_by_hand_is_understood() -> None:
    text = (
        "\ufeff---  \r\nschema: stethoscope.incident/1 # comment\r\nid: INC-1\r\ntitle: 79\r\nseverity: critical\r\n"
        "status: Resolved\r\njob: 4242\r\ntags: optic\r\nplaces:\r\n  - gpu-1/gpu/3\r\n  -\r\n"
        "links: {ticket: [A-1, 7]}\r\ntimes: {began: 2026-03-14, detected: 2026-03-14 02:14}\r\n...\r\n\r\nbody\r\n"
    ).removeprefix("\ufeff")
    one = read_incident(text, "x.md")
    assert (one.title, one.severity, one.status, one.job) == ("79", Severity.P1, Status.RESOLVED, "4242")
    assert (one.tags, one.places) == (("optic",), ("gpu-1/gpu/3",))
    assert one.links == (Link("ticket", "A-1"), Link("ticket", "7"))
    assert one.times == Times(began=1773446400.0, detected=1773454440.0)
    assert one.body == "body\r\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("title: x\n", "x.md:1:1: an incident begins with a line `---` and its front matter"),
        ("---\nid: x\n", "x.md:1:1: the front matter has no end: a line `---` is missing below it"),
        ("---\n- a\n---\n", "x.md:1: the lines between --- and --- are no `name: value` lines"),
        ("---\nid: x\n---\n", "no `schema: stethoscope.incident/1`"),
        ("---\nschema: stethoscope.fleet/1\n---\n", 'x.md:2:9: "stethoscope.fleet/1" is not stethoscope.incident/1'),
        (_front("severity: P9\n"), 'x.md:5:11: severity "P9" is none of P0, P1, P2, info, none'),
        (_front("status: opne\n"), 'x.md:5:9: status "opne" is none of'),
        (_front("status: opne\n"), 'did you mean "open"?'),
        (_front("times: {begun: 2026-03-14}\n"), 'x.md:5:9: times: "begun" is none of'),
        (_front("times: {begun: 2026-03-14}\n"), 'did you mean "began"?'),
        (_front("times: {began: yesterday}\n"), 'x.md:5:16: times: "yesterday" is no time'),
        (_front("times: {began: 2026-02-30}\n"), "no day or time that exists"),
        (_front("times: 5\n"), "x.md:5:8: times are `began:"),
        (_front("confidence: 2\n"), "x.md:5:13: confidence is a number from 0 to 1"),
        (_front("redacted: x\n"), "x.md:5:11: redacted is a whole number"),
        (_front("nodes: [a]\n"), "x.md:5:8: nodes: text is expected here"),
        (_front("tags: [{a: 1}]\n"), "x.md:5:8: tags: text is expected here"),
        (_front("links: [{a: b, c: d}]\n"), "x.md:5:9: a link is one"),
        (_front("id: x\n"), 'the key "id" stands here twice'),
        (_front("job: on\n"), "x.md:5:6: on is a truth value"),
        ("---\nschema: stethoscope.incident/1\nidd: x\n---\n", 'no `id`; did you mean "idd"?'),
        ("---\nschema: stethoscope.incident/1\nid: ../x\n---\n", 'x.md:3:5: "../x" is no id'),
    ],
)
def test_an_error_says_where_and_the_nearest_word(text: str, error: str) -> None:
    with pytest.raises(DataError) as raised:
        read_incident(text, "x.md")
    assert error in str(raised.value)


def test_what_is_odd_is_a_remark_and_kept() -> None:
    one, remarks = read_with_remarks(
        "---\nschema: stethoscope.incident/1\nid: INC-1\nseverty: P0\ncomponent: optics\n---\nx\x1b[31m\n", "x.md"
    )
    assert one.extra == (("severty", "P0"),)
    assert one.component == "optics"
    assert "\x1b" not in one.body
    assert [(remark.line, remark.message) for remark in remarks] == [
        (7, "text below the front matter has characters that a terminal obeys"),
        (4, '"severty" is not known and kept; did you mean "severity"?'),
        (5, 'no component "optics"; did you mean "optic"?'),
        (2, "no title"),
    ]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (TEXT, True),
        ("# README\n\nschema: stethoscope.incident/1\n", False),
        ("---\ntitle: page\n---\nschema: stethoscope.incident/1\n", False),
        ("", False),
        ("---\n", False),
    ],
)
def test_other_markdown_is_no_incident(text: str, is_one: bool) -> None:
    assert fronts_incident(text) is is_one


_ANY = some.text(some.characters(exclude_categories=["Cs"]), max_size=60)
_LINE = _ANY.map(lambda text: clean(text).strip())
_LINES = some.lists(_LINE.filter(bool), max_size=4).map(tuple)
_WALL = some.none() | some.integers(0, 4_000_000_000_000).map(lambda thousandths: thousandths / 1000)
_PAGE = some.lists(
    some.sampled_from(
        ["---", "...", "掉卡 ", " x", "", "\t", "a: b # c", "|", "> q", '"', "\\", "\u3000x\u200d", "%YAML"]
    )
    | _ANY,
    max_size=6,
).flatmap(lambda lines: some.sampled_from(["\n", "\r\n"]).map(lambda end: clean_page(end.join(lines))))
_VALUE: Any = some.recursive(
    some.none() | some.booleans() | some.integers(-(10**30), 10**30) | _PAGE
    | some.floats(allow_nan=False, allow_infinity=False),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_LINE.filter(bool), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_KNOWN = {*Incident.__dataclass_fields__, "schema", "<<"}
_INCIDENT = some.builds(
    Incident,
    id=some.text(string.ascii_letters + string.digits + "._-", max_size=20).map(lambda rest: f"I0{rest}x"),
    title=_LINE,
    status=some.sampled_from(Status),
    severity=some.sampled_from(Severity),
    root_cause=_LINE,
    component=_LINE,
    fleet=_LINE,
    times=some.builds(Times, *[_WALL] * 6),
    nodes=_LINE,
    places=_LINES,
    around=_LINES,
    job=_LINE,
    symptoms=_LINES,
    confidence=some.none() | some.floats(0, 1),
    resolution=_PAGE,
    tags=_LINES,
    links=some.lists(some.builds(Link, _LINE, _LINE.filter(bool)), max_size=3).map(tuple),
    author=_LINE,
    redacted=some.integers(0, 10**6),
    body=_PAGE,
    extra=some.dictionaries(_LINE.filter(lambda key: key not in _KNOWN), _VALUE, max_size=3).map(
        lambda found: tuple(found.items())
    ),
)


@given(_INCIDENT)
def test_any_incident_reads_back_as_it_was_written(one: Incident) -> None:
    text = incident_text(one)
    assert text.isascii() or text == text.encode().decode()
    assert read_incident(text, "x.md") == one


@example("", "fixed\n\n")
@given(some.text(max_size=300), some.text(max_size=200))
def test_any_body_is_kept_to_the_letter_where_it_is_harmless(body: str, page: str) -> None:
    one = read_incident(incident_text(Incident(id="INC-1", title="t", body=body, resolution=page)), "x.md")
    assert one.body == clean_page(body)
    assert one.resolution == clean_page(page)
    assert read_incident(incident_text(one), "x.md") == one


@given(some.text(max_size=300))
def test_any_text_is_an_incident_or_an_error(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n", _front(text + "\n")):
        with suppress(DataError):
            read_incident(whole, "x.md")
