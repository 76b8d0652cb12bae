"""How far values are from what is expected: static expectations, as long as no baseline is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN
from stethoscope.model.metric import Scope
from stethoscope.specs.condition_baseline import EXPECTED, FLEET_FILE, OWN_MAXIMUM, SAID, STORED, Deviates

if TYPE_CHECKING:
    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.model.fleet import Floats


def deviates(leaf: Deviates, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell where a metric is too far from what is expected of it; unknown where nothing is expected."""
    values = moment.values(leaf.metric)
    expected = expectations(leaf, moment)
    unknown = np.isnan(values) | ~(expected > 0)
    true = np.zeros(len(values), dtype=bool)
    if leaf.below is not None:
        true |= values < expected * (1 - leaf.below)
    if leaf.above is not None:
        true |= values > expected * (1 + leaf.above)
    verdicts = np.where(true, np.int8(TRUE), np.int8(FALSE))
    verdicts[unknown] = UNKNOWN
    return verdicts, values


def expectations(leaf: Deviates, moment: Moment) -> Floats:
    """Return what is expected of the metric of each row, NaN for nothing."""
    scope = leaf.scope(moment.catalogue)
    nothing = np.full(moment.rows(scope), np.nan)
    if leaf.of == STORED:
        return nothing
    if scope is Scope.JOB:
        standings, jobs = moment.snapshot.standings, moment.snapshot.jobs
        usual = [standings[job.id].usual.get(leaf.metric) if job.id in standings else None for job in jobs]
        return np.array([np.nan if value is None else value for value in usual], dtype=np.float64)
    if leaf.metric in SAID and leaf.of in (EXPECTED, FLEET_FILE):
        known = moment.layout.said(leaf.metric, scope)
    else:
        own = OWN_MAXIMUM.get(leaf.metric)
        known = moment.values(own) if own is not None and own in moment.catalogue else nothing
    if leaf.of != EXPECTED:
        return known
    return np.where(np.isnan(known), moment.medians(leaf.metric, "fleet" if scope is Scope.NODE else "model"), known)
