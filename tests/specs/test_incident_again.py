"""A report that this program wrote is a post-mortem that it reads."""

from __future__ import annotations

from dataclasses import replace

from stethoscope.model.finding import Severity
from stethoscope.specs.incident_import import Options
from stethoscope.specs.incident_postmortem import read_postmortem
from stethoscope.ui.present.incident_report import report_md
from tests.incidents import SICK_OPTIC

ONE = replace(SICK_OPTIC, severity=Severity.P0, fleet="prod-a", job="4242", body="## Evidence\n\nXid 79 at last\n")


def test_a_report_is_read_again() -> None:
    text = report_md([ONE], {"ib_link_fault": "a link stays up"}, 1773500000.0)
    one = read_postmortem(text, "x.md", Options(now=0.0, root_causes=frozenset({"ib_link_fault"}))).incident
    for name in ("title", "status", "severity", "root_cause", "component", "fleet", "nodes", "places", "job", "author"):
        assert getattr(one, name) == getattr(ONE, name), name
    assert one.times.began == ONE.times.began
    assert one.times.detected == ONE.times.detected
    assert one.times.located == ONE.times.located
    assert one.times.mitigated == ONE.times.mitigated
    assert one.times.resolved == ONE.times.resolved
    assert one.resolution == ONE.resolution
    assert "xid.79" in one.symptoms
