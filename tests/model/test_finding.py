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
        "cause": None, "explained": 0, "offers": [], "message": None, "held": [],
    }  # fmt: skip


def test_what_it_stands_for_is_told() -> None:
    found = Finding(
        "f1", "dead_leaf", Severity.P1, ("gpu-001",), "gpu-001", "2026-03-14T02:13:26Z", "lost", cause="leaf/leaf-1",
        explained=3, offers=("triage",), message="Node gpu-001 lost", held=("POST http://pager.example/",),
    )  # fmt: skip
    said = found.as_json()
    assert (said["cause"], said["explained"], said["offers"]) == ("leaf/leaf-1", 3, ["triage"])
    assert (said["message"], said["held"]) == ("Node gpu-001 lost", ["POST http://pager.example/"])
