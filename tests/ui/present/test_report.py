"""The answer of `check`, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from stethoscope.clock import iso
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.scheduler import SchedulerState
from stethoscope.session.check import CheckResult
from stethoscope.ui.present.report import report_json, report_rows
from stethoscope.ui.present.spans import ASCII, UNICODE, plain
from tests.builders import WALL, fleet


def finding(where: tuple[str, ...], summary: str, severity: Severity = Severity.P1, age_s: float = 41) -> Finding:
    nodes = where[0].split("/")[0] if len(where) == 1 else "gpu-[005-044]"
    return Finding("id", "made", severity, where, nodes, iso(WALL - age_s), summary)


def result(findings: tuple[Finding, ...] = (), *, seen_once: tuple[str, ...] = (), **of_fleet: Any) -> CheckResult:
    snapshot = fleet(**{"nodes": 4, **of_fleet}, findings=findings)
    nodes = tuple(replace(node, frames=0) if node.frame_mono is None else node for node in snapshot.nodes)
    snapshot = replace(snapshot, nodes=nodes)
    reached = tuple(node.name for node in nodes if node.frames)
    unreached = tuple(node.name for node in nodes if not node.frames)
    return CheckResult(snapshot, 6.24, reached, unreached, seen_once, 0)


def text(answer: CheckResult) -> list[str]:
    return [plain(row) for row in report_rows(answer, UNICODE)]


def test_a_healthy_fleet_is_two_lines() -> None:
    assert text(result()) == [
        "·      gpu-[001-004]  4 nodes · 8 x H100 80GB HBM3 · 8 x InfiniBand · healthy",
        "4 nodes · 32 GPUs · 32 ports · nothing found · 6.2 s · 02:14:07 UTC",
    ]


def test_findings_first_and_nodes_that_are_alike_folded() -> None:
    lost = finding(("gpu-002/gpu/2",), "fell off the bus · Xid 79", Severity.P0)
    pinned = finding(("gpu-003/ib/mlx5_1",), "error counter pinned", Severity.INFO, 3)
    assert text(result((lost, pinned))) == [
        "✖ P0   gpu-002/gpu/2 fell off the bus · Xid 79 · 41 s ago",
        "· info gpu-003/ib/mlx5_1 error counter pinned · 3 s ago",
        "·      gpu-[001,003-004]  3 nodes · 8 x H100 80GB HBM3 · 8 x InfiniBand · healthy",
        "4 nodes · 32 GPUs · 32 ports · 1 P0, 1 info · 6.2 s · 02:14:07 UTC",
    ]


def test_many_places_are_counted() -> None:
    nodes = tuple(f"gpu-{n:03}" for n in range(5, 45))
    gpus = tuple(f"gpu-001/gpu/{n}" for n in range(3))
    rows = text(
        result((finding(nodes, "unreachable"), replace(finding(gpus, "power brake"), nodes="gpu-001")), nodes=64)
    )
    assert rows[0] == "▲ P1   gpu-[005-044] unreachable · 40 nodes · 41 s ago"
    assert rows[1] == "▲ P1   gpu-001 power brake · 3 places · 41 s ago"


def test_what_was_not_seen() -> None:
    notes = {name: {"kernel_log": "permission", "kernel_log_tried": "x"} for name in ("gpu-001", "gpu-002")}
    answer = result(seen_once=("gpu-003",), notes=notes, waiting=["gpu-004"])
    assert text(answer)[-4:] == [
        "·      gpu-003  8 x H100 80GB HBM3 · 8 x InfiniBand · nothing wrong in one frame",
        "?      kernel log not seen on gpu-[001-002]: permission",
        "?      no second frame of gpu-003: what moves there is not known",
        "3 of 4 nodes · 24 GPUs · 24 ports · nothing found · 6.2 s · 02:14:07 UTC",
    ]


def test_a_node_out_of_service_is_not_called_healthy_and_says_why() -> None:
    answer = result()
    drained = SchedulerState(("idle", "drain"), "maint BMC firmware", "root", WALL)
    nodes = tuple(
        replace(node, scheduler=drained if node.name == "gpu-002" else None) for node in answer.snapshot.nodes
    )
    answer = replace(answer, snapshot=replace(answer.snapshot, nodes=nodes, scheduler_note="no answer in 20 s"))
    rows = text(answer)
    assert "·      gpu-002  8 x H100 80GB HBM3 · 8 x InfiniBand · drained: maint BMC firmware (root)" in rows
    assert "?      Slurm not seen: no answer in 20 s" in rows
    document = report_json(answer)
    assert document["nodes"][1]["scheduler"] == {
        "states": ["idle", "drain"],
        "standing": "drained",
        "reason": "maint BMC firmware",
        "owner": "root",
        "since": "2026-03-14T02:14:07Z",
        "reservation": None,
        "jobs": [],
    }
    assert document["summary"]["out_of_service"] == ["gpu-002"]
    assert document["summary"]["scheduler_note"] == "no answer in 20 s"


def test_ascii() -> None:
    rows = [plain(row) for row in report_rows(result((finding(("gpu-001",), "sick", Severity.P2),)), ASCII)]
    assert rows[0] == "o P2   gpu-001 sick | 41 s ago"


def test_json() -> None:
    lost = finding(("gpu-002/gpu/2",), "fell off the bus", Severity.P0)
    link = Link(LinkState.UNREACHABLE, since=WALL, detail="no route to host")
    answer = report_json(result((lost,), links={"gpu-004": link}, waiting=["gpu-004"]))
    assert json.loads(json.dumps(answer)) == answer
    assert {key: answer[key] for key in ("schema", "fleet", "at", "simulated")} == {
        "schema": "stethoscope.check/1",
        "fleet": "test",
        "at": "2026-03-14T02:14:07Z",
        "simulated": False,
    }
    [told] = answer["findings"]
    assert {key: told[key] for key in lost.as_json()} == lost.as_json()
    assert (told["standing"], told["times"], told["acknowledged"]) == ("loud", 1, None)
    assert answer["nodes"][1] == {
        "node": "gpu-002",
        "link": "ok",
        "detail": None,
        "verified": True,
        "scheduler": None,
        "gpus": 8,
        "ports": 8,
        "age_s": 1.0,
        "notes": {},
        "findings": [told],
    }
    assert (answer["nodes"][3]["link"], answer["nodes"][3]["detail"]) == ("unreachable", "no route to host")
    assert answer["nodes"][3]["age_s"] is None
    assert answer["summary"] == {
        "expected": 4,
        "reached": 3,
        "unreached": ["gpu-004"],
        "seen_once": [],
        "gpus": 24,
        "ports": 24,
        "findings": {"P0": 1, "P1": 0, "P2": 0, "info": 0},
        "out_of_service": [],
        "scheduler_note": None,
        "worst": "P0",
        "seconds": 6.24,
    }
