"""Incidents as text: whole ones, lists, charts and reports; a report runs nothing and swallows nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.analysis.incident_stats import stats
from stethoscope.model.incident import END, HIT, Hit, Incident, Lemon, Link, Match, Status, Times, Trouble
from stethoscope.model.incident_body import section, sections
from stethoscope.ui.present.incident_chart import stats_rows
from stethoscope.ui.present.incident_report import report_html, report_md
from stethoscope.ui.present.incident_table import hit_rows, list_rows, match_rows, trouble_rows
from stethoscope.ui.present.incident_text import incident_rows, span
from stethoscope.ui.present.spans import ASCII, UNICODE, Tone, plain, row_width, width
from stethoscope.ui.present.wrapped import wrap
from tests.incidents import SICK_OPTIC

BODY = """\
## Evidence

- symbol errors **+41 /s** at `gpu-007/ib/mlx5_3`

```
# no heading <script>alert(1)</script>
```

## What was done

1. drained

## Prevention

Clean first. [x](javascript:alert(1)) ![p](http://example.net/x.png) <img src=x onerror=alert(1)>

## 其他

### 更多
"""
ONE = replace(
    SICK_OPTIC,
    title="Sick optic on gpu-007 slows job 4242 <b>",
    times=replace(SICK_OPTIC.times, recorded=1773461500.0),
    nodes="gpu-[003,007-009]",
    around=("leaf/leaf-01",),
    symptoms=("ib_symbol_errors",),
    resolution="光模块更换后恢复。port cleaned | twice",
    links=(Link("same_as", "INC-2026-01-02-aaaaa"),),
    author="",
    redacted=1,
    body=BODY,
)
MEANINGS = {"ib_link_fault": "a link stays up and damages what it carries"}


def text(rows: object) -> list[str]:
    return [plain(row).rstrip() for row in rows]  # type: ignore[attr-defined]


def test_sections_are_by_headings_and_not_by_code() -> None:
    assert [one.title for one in sections(BODY)] == ["Evidence", "What was done", "Prevention", "其他"]
    assert section(BODY, "what was done") == "1. drained"
    assert [one.title for one in sections("before\n# a\n```\n## b\n")] == ["", "a"]
    assert sections("") == ()


def test_a_report_has_its_chapters_in_order_and_every_word() -> None:
    said = report_md([ONE], MEANINGS, 1773500000.0)
    chapters = re.findall(r"^## (.*)$", said, re.MULTILINE)
    assert chapters == ["Timeline", "Evidence", "Cause", "Fix", "Prevention", "其他"]
    for words in (
        "+22 s",
        "whole again",
        "光模块更换后恢复。",
        "### What was done",
        "1 secret was taken out",
        "### 更多",
    ):
        assert words in said
    assert said.endswith("Written 2026-03-14T14:53:20Z. Times are UTC.\n")


def in_short(one: Incident) -> list[str]:
    said = report_md([one], MEANINGS, 1773500000.0)
    return [line.rstrip() for line in said.split("\n\n")[1].splitlines()]


def test_a_report_says_first_whether_it_is_over_what_it_was_and_what_fixed_it() -> None:
    assert in_short(ONE) == [
        "**Resolved** 1 h 52 m after it began.",
        "It was `ib_link_fault` on `gpu-007/ib/mlx5_3`: a link stays up and damages what it carries.",
        "What fixed it: 光模块更换后恢复。port cleaned \\| twice",
    ]
    unknown = replace(
        ONE, status=Status.OPEN, root_cause="", resolution="", body="", times=Times(detected=1773454280.0)
    )
    assert in_short(unknown) == ["**Open** for 12 h 42 m, since 2026-03-14 02:11 UTC.", "What it was is not known."]
    imported = replace(unknown, body="## 根本原因\n\nPCIe riser 接触不良\n", status=Status.RESOLVED)
    assert in_short(imported) == ["**Resolved**.", "What it was: PCIe riser 接触不良"]
    # What the text says of the cause is not denied below it.
    assert "Not known." not in report_md([imported], MEANINGS, 1773500000.0)


def test_what_happened_when_stands_in_the_timeline_and_no_fix_stands_twice() -> None:
    one = replace(ONE, body="## Events\n\n- 02:14:07 xid.79\n\n## Resolution\n\nriser\n", resolution="riser\n")
    said = report_md([one], MEANINGS, 1773500000.0)
    assert said.index("### Events") < said.index("## Evidence")
    assert said.count("riser") == 2  # in short, and as the fix


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (83, "83 s"),
        (5000, "83 m"),
        (6720, "1 h 52 m"),
        (7200, "2 h"),
        (172799, "2 d"),
        (180000, "2 d 2 h"),
    ],
)
def test_how_long_it_took_is_said_to_the_minute(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_a_page_runs_nothing_and_fetches_nothing() -> None:
    page = report_html([ONE], MEANINGS, 1773500000.0)
    assert "<script" not in page
    assert "<img" not in page
    assert 'href="javascript' not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "slows job 4242 &lt;b&gt;</h1>" in page
    assert "src=" not in page.replace("&lt;img src=x", "")
    assert "default-src 'none'" in page


def test_a_block_of_code_that_never_ends_swallows_no_chapter() -> None:
    open_ended = replace(ONE, body="## Evidence\n\n~~~~\nnever closed\n", resolution="```\nfixed")
    page = report_html([open_ended, ONE], MEANINGS, 0.0)
    assert page.count("<h3>Prevention</h3>") == 2


@given(st.text(max_size=300), st.text(max_size=60))
def test_no_text_gets_out_of_a_page(body: str, title: str) -> None:
    page = report_html([replace(ONE, title=title, resolution=body, body=body)], MEANINGS, 0.0)
    known = {
        "!doctype", "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "h4", "h5", "h6", "table",
        "thead", "tbody", "tr", "th", "td", "p", "code", "pre", "ul", "ol", "li", "strong", "em", "hr", "br",
        "blockquote", "a",
    }  # fmt: skip
    assert {name.lower() for name in re.findall(r"</?([a-zA-Z!][a-zA-Z0-9]*)", page)} <= known


def test_an_incident_is_shown_within_its_cells() -> None:
    rows = incident_rows(ONE, 60, UNICODE, MEANINGS, [("INC-2026-04-01-bbbbb", "caused_by")])
    assert max(map(row_width, rows)) <= 60
    lines = text(rows)
    assert lines[0] == "INC-2026-03-14-k7qmx  P1  resolved"
    assert "          detected   2026-03-14 02:11:20 UTC  +22 s" in lines
    assert "named by  INC-2026-04-01-bbbbb (caused_by)" in lines
    assert "## 其他" in lines


def test_what_the_text_says_of_the_cause_is_shown_where_no_field_does() -> None:
    told = replace(ONE, root_cause="", body="## 根因\n\n- **riser** 接触不良\n")
    assert "cause     riser 接触不良" in text(incident_rows(told, 60, UNICODE, MEANINGS))
    assert "cause     nobody knows yet" in text(incident_rows(replace(told, body=""), 60, UNICODE, MEANINGS))


def test_lists_are_within_their_cells_and_hits_stand_out() -> None:
    for cells in (80, 120, 160):
        assert max(map(row_width, list_rows([ONE], cells, UNICODE))) <= cells
    rows = list(hit_rows([Hit(ONE, 1.0, f"光模块{HIT}更换{END}后恢复")], 80, UNICODE))
    assert [span.text for span in rows[1] if span.tone is Tone.STRONG] == ["更换"]
    rows = list(hit_rows([Hit(ONE, 1.0, f"…## Evidence ```log {HIT}xid{END} #79 ## What")], 80, UNICODE))
    assert plain(rows[1]).strip() == "… Evidence xid #79 What"
    long = replace(ONE, title="x" * 150, places=("gpu-014/" + "y" * 40,))
    (row,) = text(list_rows([long], 10_000, UNICODE))
    assert long.title in row
    assert long.places[0] in row
    (head, because, *_) = text(match_rows([Match(ONE, 0.83, ("same leaf",))], 80, UNICODE))
    assert head.startswith("0.83  INC-2026-03-14-k7qmx  P1  resolved  Sick optic")
    assert because == "      because same leaf"
    assert text(trouble_rows([Trouble("a.md", 3, "no such word")], 80)) == ["a.md:3: no such word"]


def test_a_chart_is_within_80_cells_and_in_ascii_where_asked() -> None:
    more = replace(ONE, id="INC-2026-06-01-ccccc", times=Times(began=1780272000.0, resolved=1780275600.0))
    lemon = Lemon("gpu-007", 2, 79.0, (more.id, ONE.id), "burn-in: 2 incidents of its hardware in 90 days")
    for glyphs in (UNICODE, ASCII):
        rows = list(stats_rows(stats([ONE, more]), 80, glyphs, lemons=[lemon]))
        assert max(map(row_width, rows)) <= 80
        lines = text(rows)
        assert lines[0] == "2 incidents, 2026-03-14 to 2026-06-01"
        assert "gpu-007/ib/mlx5_3              2  last 2026-06-01  ib_link_fault 2" in lines
        assert "repair          86 m      86 m  1 h 52 m           2 of 2  sign to whole again" in lines
    assert all(line.isascii() for line in lines)
    assert text(stats_rows(stats([]), 80, UNICODE)) == ["no incident"]


def test_lines_are_broken_by_cells() -> None:
    assert wrap("GPU 掉卡，需要更换", 10, "fix ", "    ") == ["fix GPU 掉", "    卡，需", "    要更换"]
    assert wrap("", 10, "x ") == ["x "]


@given(st.text(alphabet="ab 光，\t", max_size=60), st.integers(4, 20))
def test_no_line_is_too_long_and_no_word_lost(said: str, cells: int) -> None:
    lines = wrap(said, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join("".join(lines).split()) == "".join(said.split())
