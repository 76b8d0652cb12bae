"""One node as JSON: every value with its place, unit, age, level and what it is compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stethoscope.clock import iso
from stethoscope.model.metric import REASON_WORDS, Kind, Missing, Scope
from stethoscope.ui.present.assess import peers_median
from stethoscope.ui.present.node.judge import COMPARED, MAXIMA, expectation, judge
from stethoscope.ui.present.numbers import shown, words
from stethoscope.ui.present.spans import WORDS, Level

if TYPE_CHECKING:
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.node.view import View

SCHEMA = "stethoscope.node/1"


def node_json(view: View) -> dict[str, Any]:
    """Return the node in the form of `stethoscope.node/1`."""
    beyond, marks = judge(view)
    view = replace(view, marks=marks)
    snapshot, node = view.snapshot, view.node
    place = snapshot.place
    return {
        "schema": SCHEMA,
        "fleet": snapshot.fleet,
        "at": iso(view.wall),
        "simulated": snapshot.simulated,
        "node": node.name,
        "link": "ok" if node.link.state.is_live else node.link.state.value,
        "detail": node.link.detail or None,
        "age_s": _rounded(node.age_s(view.assessment.now_mono)),
        "level": WORDS[Level(max(int(view.assessment.nodes[node.index]), *(one.level for one in beyond), 0))],
        "findings": [finding.as_json() for finding in view.assessment.findings.get(node.name, ())],
        "beyond": [
            {
                "where": f"{node.name}/{one.where}" if one.where else node.name,
                "level": WORDS[Level(one.level)],
                "section": one.section,
                "metric": one.spot.metric or None if one.spot is not None else None,
                "summary": one.words,
                "expected": one.should or None,
            }
            for one in beyond
        ],
        "notes": dict(node.notes),
        "words": dict(node.words),
        "devices": [
            {
                "place": place(node, scope, at),
                "about": dict(node.about.get((scope, node.devices[scope][at]), {})) if scope in node.devices else {},
                "values": _values(view, scope, at),
            }
            for scope in Scope
            for at in range(len(snapshot.rows(node, scope)))
        ],
        "processes": None
        if node.processes is None
        else [
            {
                "pid": one.pid,
                "gpu": one.gpu,
                "memory_mib": one.memory_mib,
                "kind": one.kind or None,
                "name": one.name or None,
                "user": one.user or None,
                "state": one.state or None,
                "slurm_job": one.slurm_job or None,
                "pod": one.pod or None,
                "container": one.container or None,
            }
            for one in node.processes
        ],
        "tasks": None
        if node.tasks is None
        else [
            {
                "pid": one.pid,
                "state": one.state,
                "name": one.name or None,
                "user": one.user or None,
                "waits_in": one.waits_in or None,
                "on_gpu": one.on_gpu,
            }
            for one in node.tasks
        ],
        "log": [
            {"at": iso(event.at), "source": event.source, "xid": event.xid, "text": event.text}
            for event in snapshot.events
            if event.node == node.name
        ],
    }


def _values(view: View, scope: Scope, at: int) -> dict[str, Any]:
    snapshot = view.snapshot
    table, row = snapshot.tables[scope], snapshot.rows(view.node, scope)[at]
    return {name: _value(view, snapshot.catalogue[name], at, row) for name in table.metrics}


def _value(view: View, metric: Metric, at: int, row: int) -> dict[str, Any]:
    """Return one value: null with a reason, or a number in its unit (of a counter: its rate), its word, its level."""
    snapshot, scope = view.snapshot, metric.scope
    table = snapshot.tables[scope]
    value = table.get(metric.id, row)
    said: dict[str, Any] = {
        "value": None if isinstance(value, Missing) else shown(metric, value),
        "unit": metric.shown_unit,
        "age_s": _rounded(snapshot.age_s(view.node, metric.id, view.assessment.now_mono)),
    }
    if isinstance(value, Missing):
        said["reason"] = REASON_WORDS[value.reason]
    else:
        if metric.words:
            said["word"] = words(metric, value)
        level = int(view.metric_levels(metric)[at]) if metric.id != "node_data_age" else 0
        if level > Level.MISSING:
            said["level"] = WORDS[Level(level)]
            median = None if metric.words else peers_median(view.assessment, scope, metric.id, row)
            said["peers"] = None if median is None else shown(metric, median)
        if metric.id in COMPARED.get(scope, ()) or metric.id in MAXIMA:
            expected = expectation(view, scope, metric.id, at)
            if expected is not None:
                said["expected"] = {"value": expected.value, "source": expected.source}
    if metric.kind is Kind.COUNTER:
        total = table.total(metric.id, row)
        said["total"] = None if isinstance(total, Missing) else total
        said["since_first"] = (
            None if isinstance(total, Missing) else int(table.since_first[table.counter_index[metric.id], row])
        )
        said["pinned"] = not isinstance(total, Missing) and total in metric.pins
    return said


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
