"""Words of other people's lists: dates, severities, parts, Xids."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.clock import iso
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Status
from stethoscope.specs.incident_words import (
    component_of,
    moment_at_start,
    moment_in,
    root_cause_of,
    severity_of,
    span_of,
    status_of,
    xids_in,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-03-14", "2026-03-14T00:00:00Z"),
        ("2026-03-14T02:14:07Z", "2026-03-14T02:14:07Z"),
        ("2026-03-14T02:14:07.5+08:00", "2026-03-13T18:14:07Z"),
        ("2026/3/14 2:14 PM", "2026-03-14T14:14:00Z"),
        ("12:30 AM", None),
        ("14.03.2026 02:14", "2026-03-14T02:14:00Z"),
        ("14/03/2026", "2026-03-14T00:00:00Z"),
        ("03/14/2026 12:14:05 am", "2026-03-14T00:14:05Z"),
        ("14 Mar 2026 02:14 UTC", "2026-03-14T02:14:00Z"),
        ("March 14th, 2026 at 02:14", "2026-03-14T02:14:00Z"),
        ("Sat, 14 Mar 2026 02:14:07 -0330", "2026-03-14T05:44:07Z"),
        ("2026年3月14日 下午2:14", "2026-03-14T14:14:00Z"),
        ("2026年3月14日14时05分", "2026-03-14T14:05:00Z"),
        ("2026-03-14 24:00", "2026-03-15T00:00:00Z"),
        ("1773454447", "2026-03-14T02:14:07Z"),
        ("1773454447123", "2026-03-14T02:14:07Z"),
        ("3/3/2026", "2026-03-03T00:00:00Z"),
        ("someday", None),
        ("2026-13-14", None),
        ("2026-02-30", None),
        ("2026-03-14 25:00", None),
        ("2026-03-14 02:14 CST", None),
    ],
)
def test_dates_of_many_forms(text: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(ValueError, match="is no date that is understood"):
            moment_in(text)
        return
    wall = moment_in(text)
    assert wall is not None
    assert iso(wall) == meant


def test_what_no_date_is_said_to_be_is_none() -> None:
    assert [moment_in(text) for text in ("", " - ", "N/A", "tbd", "无")] == [None] * 5


def test_a_day_that_may_be_two_is_refused_until_somebody_says_which() -> None:
    with pytest.raises(ValueError, match="--day-first"):
        moment_in("3/4/2026")
    assert iso(moment_in("3/4/2026", day_first=True) or 0) == "2026-04-03T00:00:00Z"
    assert iso(moment_in("3/4/2026", day_first=False) or 0) == "2026-03-04T00:00:00Z"


def test_a_time_without_a_zone_is_of_the_one_that_is_given() -> None:
    assert iso(moment_in("2026-07-14 02:14", ZoneInfo("Europe/Berlin")) or 0) == "2026-07-14T00:14:00Z"
    east = timezone(timedelta(hours=8))
    assert iso(moment_in("2026-07-14 02:14 UTC", east) or 0) == "2026-07-14T02:14:00Z"


def test_a_line_of_a_timeline_begins_with_a_time() -> None:
    day = moment_in("2026-03-14")
    found = moment_at_start("**02:14** - alert fired", day)
    assert found is not None
    assert (iso(found[0]), found[1]) == ("2026-03-14T02:14:00Z", "alert fired")
    found = moment_at_start("2026-03-15 02:14:05 UTC: paged", None)
    assert found is not None
    assert (iso(found[0]), found[1]) == ("2026-03-15T02:14:05Z", "paged")
    assert moment_at_start("02:14 alert", None) is None
    assert moment_at_start("400 Gb/s", day) is None


def test_severities_states_and_parts_have_many_names() -> None:
    assert [severity_of(word) for word in ("SEV-1", "critical", "严重", "High", "p2", "odd")] == [
        Severity.P0, Severity.P0, Severity.P0, Severity.P1, Severity.P2, None,
    ]  # fmt: skip
    assert [status_of(word) for word in ("Closed", "In  Progress", "已解决", "Monitoring", "odd")] == [
        Status.RESOLVED, Status.OPEN, Status.RESOLVED, Status.MITIGATED, None,
    ]  # fmt: skip
    assert [component_of(word) for word in ("GPU Memory", "HCA", "光模块", "optic", "odd")] == [
        "gpu_memory", "nic", "optic", "optic", "",
    ]  # fmt: skip
    assert root_cause_of("IB link-fault", ["ib_link_fault"]) == "ib_link_fault"
    assert root_cause_of("`ib_link_fault`: a dying optic", ["ib_link_fault"]) == "ib_link_fault"
    assert root_cause_of("the riser", ["ib_link_fault"]) == ""


def test_spans_need_a_unit() -> None:
    said = ("45 min", "1h30m", "1 小时 30 分钟", "01:30", "90", "soon")
    assert [span_of(text) for text in said] == [2700.0, 5400.0, 5400.0, 5400.0, None, None]


def test_xids_are_found_as_people_and_kernels_write_them() -> None:
    text = "NVRM: Xid (PCI:0000:4f:00): 79, pid; XID 48, xid=79 and SXid (PCI:0000:c1:00.0): 20034"
    assert xids_in(text) == ("xid.79", "xid.48", "sxid.20034")


@given(st.text(max_size=60))
def test_no_text_is_a_surprise(text: str) -> None:
    with suppress(ValueError):
        moment_in(text, UTC, day_first=True)
    moment_at_start(text, 1.7e9)
    severity_of(text), status_of(text), component_of(text), span_of(text), xids_in(text)
