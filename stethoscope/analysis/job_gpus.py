"""What the GPUs of a job do while no step comes: all that wait, idle or spinning in a collective, tell of a hang."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.model.metric import Missing, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.job import Standing

LOOK_AFTER_S = 60.0
"""Without a step for so long it is asked what the GPUs do."""
_IDLE = 5.0
_BUSY = 95.0
_SPINS = 0.45
"""Below this share of its power limit a busy GPU computes nothing: it waits in a kernel for others."""
_KNOWN = 0.75
_FRESH_S = 30.0


def with_gpus(standing: Standing, nodes: Sequence[Node], snapshot: FleetSnapshot) -> Standing:
    """Return `standing` with the share of the job's GPUs that wait, where its step is late enough to ask."""
    if standing.values.get("job_step_age", 0.0) < LOOK_AFTER_S:
        return standing
    share = waiting(nodes, snapshot)
    return standing if share is None else replace(standing, values={**standing.values, "job_gpus_waiting": share})


def waiting(nodes: Sequence[Node], snapshot: FleetSnapshot) -> float | None:
    """Return the share of the GPUs of `nodes` that idle or spin, None where it is not known of nearly all."""
    table = snapshot.tables.get(Scope.GPU)
    if table is None or not {"gpu_util", "gpu_power_draw", "gpu_power_limit"} <= table.index.keys():
        return None
    known = wait = of = 0
    for node in nodes:
        count = max(len(node.gpus), node.expected_gpus or 0)
        of += count
        age_s = node.age_s(snapshot.mono)
        if node.gpu_first < 0 or age_s is None or age_s > _FRESH_S or not node.link.state.is_live:
            continue
        rows = range(node.gpu_first, node.gpu_first + len(node.gpus))
        utils, draws, limits = (
            table.get_all(metric, rows) for metric in ("gpu_util", "gpu_power_draw", "gpu_power_limit")
        )
        for util, draw, limit in zip(utils, draws, limits, strict=True):
            waits = _waits(util, draw, limit)
            known += waits is not None
            wait += bool(waits)
    return wait / known if known and known >= _KNOWN * of else None


def _waits(util: float | Missing, draw: float | Missing, limit: float | Missing) -> bool | None:
    if isinstance(util, Missing):
        return None
    if util <= _IDLE:
        return True
    if util < _BUSY:
        return False
    if isinstance(draw, Missing) or isinstance(limit, Missing) or limit <= 0:
        return None
    return draw < _SPINS * limit
