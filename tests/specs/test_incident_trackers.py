"""Exports of trackers and post-mortems of the usual templates are understood as they are."""

from __future__ import annotations

import pytest

from stethoscope.clock import iso
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Link, Status
from stethoscope.specs.incident_import import Imported, Options
from stethoscope.specs.incident_postmortem import read_postmortem
from stethoscope.specs.incident_table import read_table

OPTIONS = Options(now=1_780_000_000.0)
JIRA = """\
Summary,Issue key,Issue Type,Status,Priority,Resolution,Assignee,\
Created,Resolved,Component/s,Description,Labels,Labels,Comment,Comment
"Job hung, Xid 79",OPS-1,Incident,Done,Highest,Done,kim,\
14/Mar/26 2:14 AM,14/Mar/26 4:06 AM,gpu,"GPU 3 is gone",gpu,riser,first,second
"""
PAGERDUTY = """\
id,incident_number,description,created_on,resolved_on,assigned_to_user_names,urgency
Q1,5521,GpuXidError gpu-021 xid=48,2026-04-02T03:10:11Z,2026-04-02T05:12:44Z,Kim Lee,high
"""
SERVICENOW = """\
"Number","Opened","Short description","Priority","State","Assigned to","Configuration item","Close notes","Resolved"
"INC12","2026-02-11 04:20:11","Node unreachable","1 - Critical","Closed","Kim","gpu-031","PSU 2","2026-02-11 07:45:00"
"""
GOOGLE = """\
# Job stalls

**Status:** Complete, action items in progress

**Resolution:** Replaced the riser.

## Timeline

2026-03-14 (*all times UTC*)

- 14:51 Maintenance ends
- 14:54 **OUTAGE BEGINS** - job 4242 hangs
- 14:55 On-call receives pager storm
- 15:28 INCIDENT MITIGATED
- 16:30 OUTAGE ENDS
"""
GITLAB = """\
## Incident Review: optic on leaf-03

- Time to detection: 12 minutes

### Timeline

**2026-04-20**

- `03:10` - symbol errors
- `03:22` - alert pages on-call
- `04:45` - optic swapped, back to normal

### Corrective Actions

- clean optics
"""
ATLASSIAN = """\
# Postmortem: storage stall

| Incident | OPS-77 |
|---|---|
| Severity | SEV-2 |
| Incident date | May 3, 2026 |

## Recovery

Moved files.

## Timeline

*All times are Europe/Berlin.*

| Time | Event |
|---|---|
| 23:40 | Checkpoints get slow |
| 01:05 | Resolved: files migrated |
"""
CHINESE = """\
# 故障复盘：训练任务掉卡

- 日期：2026年3月14日
- 负责人：李雷

## 时间线（北京时间）

- 02:10 训练卡住
- 02:14 收到告警
- 04:06 更换 riser 后恢复正常

## 处理方法

更换 riser 卡。
"""


def times(one: Imported) -> dict[str, str]:
    said = one.incident.times
    names = ("began", "detected", "located", "mitigated", "resolved")
    return {name: iso(when)[5:16] for name in names if (when := getattr(said, name)) is not None}


def test_jira() -> None:
    (one,) = read_table(JIRA, "jira.csv", OPTIONS)
    said = one.incident
    assert (said.title, said.severity, said.status) == ("Job hung, Xid 79", Severity.P0, Status.RESOLVED)
    assert (said.author, said.component, said.tags) == ("kim", "gpu", ("gpu", "riser"))
    # `Done` says how the ticket was closed; what fixed it nobody wrote down.
    assert said.resolution == ""
    assert times(one) == {"detected": "03-14T02:14", "resolved": "03-14T04:06"}
    assert said.body == (
        "## Summary\n\nGPU 3 is gone\n\n## Notes\n\nfirst\n\nsecond\n\n"
        "## Imported\n\n- Issue Type: Incident\n- Resolution: Done\n"
    )
    assert one.notes == ()


def test_pagerduty_and_servicenow() -> None:
    (one,) = read_table(PAGERDUTY, "pd.csv", OPTIONS)
    said = one.incident
    assert (said.title, said.severity, said.status) == ("GpuXidError gpu-021 xid=48", Severity.P1, Status.RESOLVED)
    assert (said.author, said.symptoms, said.links) == ("Kim Lee", ("xid.48",), (Link("ticket", "Q1"),))
    assert times(one) == {"detected": "04-02T03:10", "resolved": "04-02T05:12"}
    (one,) = read_table(SERVICENOW, "snow.csv", OPTIONS)
    said = one.incident
    assert (said.title, said.severity, said.nodes) == ("Node unreachable", Severity.P0, "gpu-031")
    assert (said.resolution, said.author) == ("PSU 2", "Kim")


@pytest.mark.parametrize(
    ("rows", "wanted", "notes"),
    [
        ("a,3/4/2026\nb,25/4/2026\n", ["2026-04-03", "2026-04-25"], 0),
        ("a,3/4/26\nb,4/25/26\n", ["2026-03-04", "2026-04-25"], 0),
        # Two that contradict each other say nothing about a third.
        ("a,3/4/2026\nb,4/25/2026\nc,25/4/2026\n", [None, "2026-04-25", "2026-04-25"], 2),
        ("a,3/4/2026\n", [None], 2),
    ],
)
def test_what_a_date_means_is_told_by_its_table(rows: str, wanted: list[str | None], notes: int) -> None:
    made = read_table(f"title,start\n{rows}", "x.csv", OPTIONS)
    began = [one.incident.times.began for one in made]
    assert [None if when is None else iso(when)[:10] for when in began] == wanted
    assert len(made[0].notes) == notes


@pytest.mark.parametrize(
    ("text", "title", "resolution", "wanted"),
    [
        (
            GOOGLE,
            "Job stalls",
            "Replaced the riser.",
            {"began": "03-14T14:54", "detected": "03-14T14:55", "mitigated": "03-14T15:28", "resolved": "03-14T16:30"},
        ),
        (
            GITLAB,
            "optic on leaf-03",
            "",
            {"began": "04-20T03:10", "detected": "04-20T03:22", "resolved": "04-20T04:45"},
        ),
        (ATLASSIAN, "storage stall", "Moved files.", {"began": "05-03T21:40", "resolved": "05-03T23:05"}),
        (
            CHINESE,
            "训练任务掉卡",
            "更换 riser 卡。",
            {"began": "03-13T18:10", "detected": "03-13T18:14", "resolved": "03-13T20:06"},
        ),
    ],
)
def test_postmortems(text: str, title: str, resolution: str, wanted: dict[str, str]) -> None:
    one = read_postmortem(text, "x.md", OPTIONS)
    assert (one.incident.title, one.incident.resolution, times(one)) == (title, resolution, wanted)
    assert one.incident.status is Status.RESOLVED
    # All of it but its first heading stays.
    assert one.incident.body == text.partition("\n")[2].strip("\n") + "\n"
