"""Jobs as JSON, stethoscope.job/1; docs/jobs.md tells its fields."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.job_list import rank_spans
from stethoscope.clock import iso
from stethoscope.model.ids import fold
from stethoscope.model.metric import Scope
from stethoscope.ui.present.job_words import touching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.job import Curve, Standing
    from stethoscope.model.scheduler import Job

SCHEMA = "stethoscope.job/1"


def jobs_json(snapshot: FleetSnapshot, jobs: Sequence[Job]) -> dict[str, Any]:
    """Return the answer about `jobs`; what is not known is null."""
    return {
        "schema": SCHEMA,
        "fleet": snapshot.fleet or None,
        "at": iso(snapshot.wall),
        "simulated": snapshot.simulated,
        "jobs": [_job(snapshot, job) for job in jobs],
    }


def _job(snapshot: FleetSnapshot, job: Job) -> dict[str, Any]:
    standing = snapshot.standings.get(job.id)
    spans = rank_spans(job, snapshot)
    return {
        "id": job.id,
        "name": job.name or None,
        "state": job.state or None,
        "user": job.user or None,
        "source": job.source.value,
        "started": None if job.started is None else iso(job.started),
        "nodes": fold(job.nodes),
        "node_count": len(job.nodes),
        "ranks": [{"node": name, "first": first, "last": last} for name, (first, last) in spans.items()],
        "samples_per_step": job.samples_per_step,
        **_standing(snapshot, standing),
        "findings": [finding.as_json() for finding in touching(snapshot, job)],
    }


def _standing(snapshot: FleetSnapshot, standing: Standing | None) -> dict[str, Any]:
    metrics = [metric.id for metric in snapshot.catalogue.values() if metric.scope is Scope.JOB]
    if standing is None:
        return {"log": None, "step": None, "metrics": dict.fromkeys(metrics), "usual": {}, "since": {}, "phase": None}
    log, last = standing.log, standing.last
    return {
        "log": {
            "node": log.node or None,
            "path": log.path or None,
            "trouble": log.trouble or None,
            "read_at": _time(log.read_at),
            "line_at": _time(log.line_at),
            "lines": log.lines,
            "family": log.family or None,
        },
        "step": None
        if last is None
        else {
            "step": last.step,
            "total": last.total,
            "at": _time(last.at),
            "step_time_s": last.step_time_s,
            "samples_per_s": last.samples_per_s,
            "tokens_per_s": last.tokens_per_s,
            "loss": _number(last.loss),
            "lr": _number(last.lr),
            "grad_norm": _number(last.grad_norm),
            "data_time_s": last.data_time_s,
            "skipped": last.skipped,
        },
        "metrics": {name: _number(standing.values.get(name)) for name in metrics or standing.values},
        "usual": dict(standing.usual),
        "since": {name: _time(at) for name, at in standing.since.items()},
        "phase": standing.phase or None,
        "restarts": standing.restarts,
        "checkpoints": [{"at": _time(at) if at else None, "seconds": took} for at, took in standing.checkpoints],
        "curves": {
            "step_time": _curve(standing.step_time),
            "throughput": _curve(standing.throughput),
            "loss": _curve(standing.loss),
        },
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {"steps": list(curve.steps), "values": [_number(value) for value in curve.values]}


def _number(value: float | None) -> float | None:
    """Return a number that JSON has: NaN is none."""
    return value if value is not None and math.isfinite(value) else None


def _time(wall: float | None) -> str | None:
    return None if wall is None else iso(wall)
