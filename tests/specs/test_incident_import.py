"""Tables and post-mortems become incidents, and nothing of them is lost."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.clock import iso
from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.incident import Link, Status
from stethoscope.specs.incident_import import Imported, Options, decoded
from stethoscope.specs.incident_postmortem import read_postmortem
from stethoscope.specs.incident_table import read_table

OPTIONS = Options(now=1_780_000_000.0, root_causes=frozenset({"gpu_fallen_off_bus", "ib_link_fault"}))
TABLE = """\
Ticket,Title,Severity,Status,Start,Resolved,Host,GPU,Root Cause,Component,Fix,Owner,Lead,Comments
OPS-12,"GPU lost, again",SEV-1,Closed,2026/3/14 2:14 AM,04:00,gpu-014,3,gpu_fallen_off_bus,GPU,riser,kim,lee,"Xid 79
second line"
OPS-13,掉卡,严重,已解决,2026年3月20日 23:50,00:30,gpu-[001-003],,riser loose,PCIe,重插,,,
,odd,weird,foo,someday,,rack 7 all of it!,,,,,,,
"""
POSTMORTEM = """\
# Postmortem: NCCL hang from a dying optic

**Date:** 2026-03-14
- Severity: SEV2
Hosts: gpu-007

## Timeline (UTC)

- 23:10 - step time rises
- 23:12 alert fired
- 23:40: root cause identified: mlx5_3 on gpu-007
- **00:05** job restarted without the node
- 02:00 transceiver replaced, all clear

## Root Cause

IB link fault

## Resolution

Replaced the transceiver.

Then cleaned it.

```
# no title
NVRM: Xid (PCI:0000:4f:00): 79
```
"""


def times(one: Imported) -> dict[str, str]:
    said = one.incident.times
    names = ("began", "detected", "located", "mitigated", "resolved")
    return {name: iso(when) for name in names if (when := getattr(said, name)) is not None}


def test_a_row_is_an_incident() -> None:
    first, second, third = read_table(TABLE, "ops.csv", OPTIONS)
    one = first.incident
    assert (one.title, one.status, one.severity) == ("GPU lost, again", Status.RESOLVED, Severity.P0)
    assert (one.root_cause, one.component, one.resolution) == ("gpu_fallen_off_bus", "gpu", "riser")
    assert (one.nodes, one.places, one.symptoms) == ("gpu-014", ("gpu-014/gpu/3",), ("xid.79",))
    assert (one.links, one.author) == ((Link("ticket", "OPS-12"),), "kim")
    assert times(first) == {"began": "2026-03-14T02:14:00Z", "resolved": "2026-03-14T04:00:00Z"}
    assert one.body == "## Notes\n\nXid 79\nsecond line\n\n## Imported\n\n- Lead: lee\n"
    assert (first.where, first.notes) == ("ops.csv:2", ())
    assert (second.where, second.incident.nodes) == ("ops.csv:4", "gpu-[001-003]")
    assert times(second) == {"began": "2026-03-20T23:50:00Z", "resolved": "2026-03-21T00:30:00Z"}
    assert second.incident.body == "## Cause\n\nriser loose\n"
    assert third.incident.status is Status.OPEN
    assert third.notes == (
        'began: "someday" is no date that is understood',
        'severity "weird" is not known',
        'status "foo" is not known',
        "no time of it is known: it counts as of today",
    )
    for lost in ("someday", "weird", "foo", "rack 7 all of it!"):
        assert lost in third.incident.body


def test_the_same_row_has_the_same_key_and_id() -> None:
    again = read_table(TABLE, "other.csv", OPTIONS)
    first = read_table(TABLE, "ops.csv", OPTIONS)
    assert [one.key for one in again] == [one.key for one in first]
    assert [one.incident.id for one in again][:2] == ["INC-2026-03-14-tzks5", "INC-2026-03-20-aasbj"]
    # A ticket is known by its number, whatever else was changed.
    moved = read_table(TABLE.replace("again", "once more"), "ops.csv", OPTIONS)
    assert [one.key for one in moved] == [one.key for one in first]


def test_columns_can_be_named_and_semicolons_separate() -> None:
    table = "Ereignis;Wann;Ende\nLink weg;3/4/2026 10:00;1h\n"
    with pytest.raises(DataError, match=r"no column is understood \(Ereignis, Wann, Ende\)"):
        read_table(table, "x.csv", OPTIONS)
    options = Options(
        now=0.0, day_first=True, columns={"title": "ereignis", "began": "Wann", "duration": "Ende"}, fleet="prod-a"
    )
    (one,) = read_table(table, "x.csv", options)
    assert (one.incident.title, one.incident.fleet) == ("Link weg", "prod-a")
    assert times(one) == {"began": "2026-04-03T10:00:00Z", "resolved": "2026-04-03T11:00:00Z"}
    with pytest.raises(DataError, match=r'x\.csv:1: no column is called "Was"'):
        read_table(table, "x.csv", Options(now=0.0, columns={"title": "Was"}))


def test_a_table_that_is_none_says_so() -> None:
    with pytest.raises(DataError, match="an empty table"):
        read_table("\n\n", "x.csv", OPTIONS)


def test_a_postmortem_keeps_its_text_and_gives_its_fields() -> None:
    one = read_postmortem(POSTMORTEM, "pm.md", OPTIONS)
    said = one.incident
    assert said.title == "NCCL hang from a dying optic"
    assert (said.root_cause, said.resolution, said.nodes) == ("ib_link_fault", "Replaced the transceiver.", "gpu-007")
    assert (said.severity, said.status, said.symptoms) == (Severity.P1, Status.RESOLVED, ("xid.79",))
    assert times(one) == {
        "began": "2026-03-14T23:10:00Z",
        "detected": "2026-03-14T23:12:00Z",
        "located": "2026-03-14T23:40:00Z",
        "mitigated": "2026-03-15T00:05:00Z",
        "resolved": "2026-03-15T02:00:00Z",
    }
    assert said.body == POSTMORTEM.partition("\n")[2].strip("\n") + "\n"


def test_front_matter_of_others_is_read_and_kept() -> None:
    text = "---\ntitle: Lustre stalls\nseverity: high\ntags: [lustre, mds]\nteam: storage\n---\nIt stood.\n"
    said = read_postmortem(text, "x.md", OPTIONS).incident
    assert (said.title, said.severity, said.tags) == ("Lustre stalls", Severity.P1, ("lustre", "mds"))
    assert said.body == "It stood.\n\n## Imported\n\n- team: storage\n"


def test_files_of_spreadsheets_are_read_in_their_encodings() -> None:
    text = "标题,时间\n掉卡,2026-03-14\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "gb18030"):
        assert decoded(text.encode(encoding)) == text
    assert decoded("Störung".encode("cp1252")) == "Störung"


@given(st.text(max_size=200))
def test_no_table_and_no_postmortem_is_a_surprise(text: str) -> None:
    for one in [read_postmortem(text, "x.md", OPTIONS)]:
        assert one.incident.title
        assert one.incident.id.startswith("INC-")
    with suppress(DataError):
        read_table(f"title,start\n{text}", "x.csv", OPTIONS)
