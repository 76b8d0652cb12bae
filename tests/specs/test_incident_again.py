"""A report that this program wrote is a post-mortem that it reads."""

from __future__ import annotations

from stethoscope.model.finding import Severity
from stethoscope.model.incident import Incident, Link, Status, Times
from stethoscope.specs.incident_import import Options
from stethoscope.specs.incident_postmortem import read_postmortem
from stethoscope.ui.present.incident_report import report_md

ONE = Incident(
    id="INC-2026-03-14-k7qmx",
    title="Sick optic slows job 4242",
    status=Status.RESOLVED,
    severity=Severity.P0,
    root_cause="ib_link_fault",
    component="optic",
    fleet="prod-a",
    times=Times(1773454258.0, 1773454280.0, 1773454447.0, 1773455000.0, 1773461000.0),
    nodes="gpu-007",
    places=("gpu-007/ib/mlx5_3",),
    job="4242",
    symptoms=("ib_symbol_errors", "xid.79"),
    resolution="光模块更换后恢复",
    links=(Link("ticket", "OPS-12"),),
    author="kim",
    body="## Evidence\n\nXid 79 at last\n",
)


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
