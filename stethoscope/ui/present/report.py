"""The answer of `check` as lines of text: findings worst first, equal nodes folded, what was not seen, one sum."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from stethoscope.clock import from_iso, hms, iso
from stethoscope.model.finding import Severity
from stethoscope.model.ids import fold, node_of
from stethoscope.model.metric import Scope
from stethoscope.ui.present.finding_report import entries_of, evidence_rows, finding_line
from stethoscope.ui.present.lines import note_title
from stethoscope.ui.present.spans import Glyphs, Level, Row, Span, Tone

if TYPE_CHECKING:
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import Node
    from stethoscope.session.check import CheckResult

SCHEMA = "stethoscope.check/1"
_NOT_HEALTHY = (Severity.P0, Severity.P1, Severity.P2)


def report_rows(result: CheckResult, glyphs: Glyphs) -> list[Row]:
    """Return the whole answer, one row a line, none of them cut."""
    return [
        *(row for finding in result.findings for row in _finding_rows(finding, result, glyphs)),
        *_group_rows(result, glyphs),
        *_unseen_rows(result, glyphs),
        _sum_row(result, glyphs),
    ]


def _finding_rows(finding: Finding, result: CheckResult, glyphs: Glyphs) -> list[Row]:
    """Return the line of a finding, and below it the curves of what it rests on, where there is a past."""
    snapshot = result.snapshot
    rows = [finding_line(finding, snapshot.wall, glyphs, entry=snapshot.night.get(finding.id))]
    if result.history is not None and finding.severity in _NOT_HEALTHY:
        since = from_iso(finding.since) or snapshot.wall
        rows += evidence_rows(finding, snapshot.catalogue, since, glyphs, snapshot, result.history)
    return rows


def _group_rows(result: CheckResult, glyphs: Glyphs) -> list[Row]:
    """Return one row for all nodes that are alike: reached, of the same build, and without a finding that matters."""
    bad = {node_of(where) for f in result.findings if f.severity in _NOT_HEALTHY for where in f.where}
    groups: dict[str, list[str]] = {}
    for node in result.snapshot.nodes:
        if node.frames and node.name not in bad:
            word = "healthy" if node.name not in result.seen_once else "nothing wrong in one frame"
            if not node.gpus:
                # What is wrong with a GPU that nobody sees cannot be told.
                word = f"no GPU seen {glyphs.dot} host {word}"
            said = [node.scheduler.phrase] if node.scheduler is not None and node.scheduler.phrase else []
            if node.scheduler is not None and node.scheduler.is_out_of_service:
                # What was found there is listed above as information; nothing calls such a node healthy.
                said, word = [], node.scheduler.phrase
            groups.setdefault(f" {glyphs.dot} ".join([*_build(node), word, *said]), []).append(node.name)
    rows: list[Row] = []
    for what, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        count = f"{len(names):,} nodes {glyphs.dot} " if len(names) > 1 else ""
        rows.append(
            (
                Span(f"{glyphs.level(Level.NORMAL)}      ", Tone.NORMAL),
                Span(f"{fold(names)}  {count}{what}", Tone.QUIET),
            )
        )
    return rows


def _build(node: Node) -> list[str]:
    models = Counter(gpu.name.removeprefix("NVIDIA ") or "GPU" for gpu in node.gpus)
    layers = Counter(port.layer or "port" for port in node.ports)
    parts = [f"{count} x {model}" for model, count in models.items()]
    return parts + [f"{count} x {layer}" for layer, count in layers.items()]


def _unseen_rows(result: CheckResult, glyphs: Glyphs) -> list[Row]:
    """Return what could not be seen: what probes say they cannot read, and nodes that sent one frame only."""
    notes: dict[tuple[str, str], list[str]] = {}
    for node in result.snapshot.nodes:
        for what, why in node.notes.items():
            if not why.startswith("hung") and not what.endswith(("_tried", "_pid")):
                notes.setdefault((what, why), []).append(node.name)
    texts = [f"{note_title(what)} not seen on {fold(names)}: {why}" for (what, why), names in notes.items()]
    if result.seen_once:
        texts.append(f"no second frame of {fold(result.seen_once)}: what moves there is not known")
    if result.snapshot.scheduler_note:
        texts.append(f"Slurm not seen: {result.snapshot.scheduler_note}")
    if result.defects:
        texts.append(f"{result.defects} lines were lost to a defect of this program")
    sign = f"{glyphs.level(Level.MISSING)}      "
    return [(Span(sign, Tone.MISSING), Span(text, Tone.QUIET)) for text in texts]


def _sum_row(result: CheckResult, glyphs: Glyphs) -> Row:
    total, reached = len(result.snapshot.nodes), len(result.reached)
    counts = severity_counts(result)
    found = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    nodes = f"{reached:,} of {total:,} nodes" if reached < total else f"{total:,} node{'s' if total != 1 else ''}"
    parts = [
        nodes,
        f"{devices(result, Scope.GPU):,} GPUs",
        f"{devices(result, Scope.PORT):,} ports",
        found or "nothing found",
        f"{result.seconds:.1f} s",
        f"{hms(result.snapshot.wall)} UTC",
    ]
    if result.snapshot.simulated:
        parts.insert(0, "simulated")
    return (Span(f" {glyphs.dot} ".join(parts), Tone.STRONG),)


def devices(result: CheckResult, scope: Scope) -> int:
    """Return the number of GPUs or ports of the nodes that were reached."""
    return sum(len(node.gpus if scope is Scope.GPU else node.ports) for node in result.snapshot.nodes if node.frames)


def severity_counts(result: CheckResult) -> dict[str, int]:
    """Return the number of findings of each severity, the most urgent first."""
    counts = Counter(finding.severity.value for finding in result.findings)
    return {severity.value: counts[severity.value] for severity in Severity if severity is not Severity.NONE}


def report_json(result: CheckResult) -> dict[str, Any]:
    """Return the answer in the form of `stethoscope.check/1`."""
    findings = [entry.as_json(result.snapshot.wall) for entry in entries_of(result.snapshot)]
    by_node: dict[str, list[dict[str, Any]]] = {}
    for finding, as_json in zip(result.findings, findings, strict=True):
        for node in dict.fromkeys(node_of(place) for place in finding.where):
            by_node.setdefault(node, []).append(as_json)
    snapshot = result.snapshot
    return {
        "schema": SCHEMA,
        "fleet": snapshot.fleet,
        "at": iso(snapshot.wall),
        "simulated": snapshot.simulated,
        "nodes": [
            {
                "node": node.name,
                "link": "ok" if node.link.state.is_live else node.link.state.value,
                "detail": node.link.detail or None,
                "verified": node.link.verified,
                "scheduler": _scheduler_json(node),
                "gpus": len(node.gpus),
                "ports": len(node.ports),
                "age_s": _rounded(node.age_s(snapshot.mono)),
                "notes": dict(node.notes),
                "findings": by_node.get(node.name, []),
            }
            for node in snapshot.nodes
        ],
        "findings": findings,
        "summary": {
            "expected": len(snapshot.nodes),
            "reached": len(result.reached),
            "unreached": list(result.unreached),
            "seen_once": list(result.seen_once),
            "gpus": devices(result, Scope.GPU),
            "ports": devices(result, Scope.PORT),
            "findings": severity_counts(result),
            "out_of_service": [
                node.name for node in snapshot.nodes if node.scheduler is not None and node.scheduler.is_out_of_service
            ],
            "scheduler_note": snapshot.scheduler_note or None,
            "worst": findings[0]["severity"] if findings else "none",
            "seconds": round(result.seconds, 3),
        },
    }


def _scheduler_json(node: Node) -> dict[str, Any] | None:
    state = node.scheduler
    if state is None:
        return None
    return {
        "states": list(state.words),
        "standing": state.standing.value,
        "reason": state.reason or None,
        "owner": state.owner or None,
        "since": None if state.since is None else iso(state.since),
        "reservation": state.reservation or None,
        "jobs": list(state.jobs),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
