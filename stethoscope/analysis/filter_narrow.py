"""A fleet of the nodes that fit a filter, as if there were no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.model.ids import fold, node_of
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Collection

    from stethoscope.analysis.windows import Flags
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot


def narrowed(snapshot: FleetSnapshot, fits: Flags) -> FleetSnapshot:
    """Return `snapshot` with the nodes for which `fits` is set, by their index, and what was found at them; places that
    are on no node stay."""
    kept = np.flatnonzero(fits)
    nodes = tuple(replace(snapshot.nodes[old], index=new) for new, old in enumerate(kept.tolist()))
    table = snapshot.tables[Scope.NODE]
    own = replace(
        table,
        values=table.values[:, kept],
        reasons=table.reasons[:, kept],
        totals=table.totals[:, kept],
        total_reasons=table.total_reasons[:, kept],
        since_first=table.since_first[:, kept],
        first_at=table.first_at[kept],
    )
    gone = snapshot.by_name.keys() - {node.name for node in nodes}
    some = (_narrowed(finding, gone) for finding in snapshot.findings)
    staying = [row for row, job in enumerate(snapshot.jobs) if not gone.issuperset(job.nodes) or not job.nodes]
    jobs = snapshot.tables[Scope.JOB]
    if jobs.values.shape[1]:
        jobs = replace(
            jobs,
            values=jobs.values[:, staying],
            reasons=jobs.reasons[:, staying],
            first_at=jobs.first_at[staying],
        )
    return replace(
        snapshot,
        nodes=nodes,
        tables={**snapshot.tables, Scope.NODE: own, Scope.JOB: jobs},
        by_name={node.name: node.index for node in nodes},
        findings=tuple(finding for finding in some if finding is not None),
        events=tuple(event for event in snapshot.events if event.node not in gone),
        jobs=tuple(snapshot.jobs[row] for row in staying),
    )


def _narrowed(finding: Finding, gone: Collection[str]) -> Finding | None:
    where = tuple(place for place in finding.where if node_of(place) not in gone)
    if not where:
        return None
    if len(where) == len(finding.where):
        return finding
    evidence = tuple(fact for fact in finding.evidence if node_of(fact.where) not in gone)
    return replace(finding, where=where, nodes=fold(dict.fromkeys(map(node_of, where))), evidence=evidence)
