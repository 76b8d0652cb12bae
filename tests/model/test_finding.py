"""Findings in their JSON form."""

from __future__ import annotations

from stethoscope.model.finding import Fact, Finding, Severity


def test_severities_are_ordered_by_urgency() -> None:
    assert sorted(Severity, key=lambda severity: severity.rank) == ["P0", "P1", "P2", "info", "none"]


def test_the_json_form() -> None:
    fact = Fact("Xid 79", 1, "0", "gpu-002/gpu/2", "2026-03-14T02:14:07Z", "kernel log")
    found = Finding(
        "f1", "gpu_lost", Severity.P0, ("gpu-002/gpu/2",), "gpu-002", "2026-03-14T02:13:26Z", "fell off the bus",
        root_cause="gpu_fell_off_bus", evidence=(fact,),
    )  # fmt: skip
    assert found.as_json() == {
        "id": "f1", "rule": "gpu_lost", "severity": "P0", "state": "active", "where": ["gpu-002/gpu/2"],
        "nodes": "gpu-002", "since": "2026-03-14T02:13:26Z", "cleared_at": None, "summary": "fell off the bus",
        "confidence": 1.0, "root_cause": "gpu_fell_off_bus",
        "evidence": [{
            "fact": "Xid 79", "value": 1, "expected": "0", "where": "gpu-002/gpu/2", "at": "2026-03-14T02:14:07Z",
            "source": "kernel log",
        }],
    }  # fmt: skip
