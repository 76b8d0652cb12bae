"""Which level every place of a snapshot has, and the one sentence that says what is wrong with a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stethoscope.analysis.alike import Recall
from stethoscope.analysis.expect import MOST_NODES, peer_rows
from stethoscope.analysis.service import at_most
from stethoscope.clock import duration
from stethoscope.model.finding import Severity
from stethoscope.model.frame import LinkState
from stethoscope.model.ids import node_of
from stethoscope.model.metric import DEVICE_SCOPES, Reason, Scope
from stethoscope.ui.present.numbers import title_in_text
from stethoscope.ui.present.row_levels import is_judged, metric_levels, row_levels, where_all, wrong_text
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot, Node, Table

    Levels = npt.NDArray[np.uint8]

SEVERITY_LEVELS: dict[Severity, Level] = {
    Severity.P0: Level.CRITICAL,
    Severity.P1: Level.WARNING,
    Severity.P2: Level.PLANNED,
    Severity.INFO: Level.NORMAL,
    Severity.NONE: Level.NORMAL,
}
_LINK_LEVELS = {
    state: Level.MISSING
    if state.is_pending
    else Level.STALE
    if state in (LinkState.SILENT, LinkState.FLOODING)
    else Level.LOST
    for state in LinkState
}
"""Of links that bring nothing now."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The levels of one snapshot: rows of the GPU and port tables by themselves, nodes with all that is on them."""

    snapshot: FleetSnapshot
    now_mono: float
    rows: dict[Scope, Levels]
    nodes: Levels
    """Worst of each node: its link, its driver, its rows, those of its devices, and its findings."""
    findings: dict[str, tuple[Finding, ...]]
    """Active findings by node, worst first."""
    hung: npt.NDArray[np.bool_]
    """Nodes whose GPU driver does not answer."""
    owners: dict[Scope, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    """For every row of the GPU and port tables its node's index, -1 without one, and its position in the inventory."""
    ages: tuple[Level, ...]
    """STALE or LOST for a node whose values must not be read as current, MISSING before the first, else NORMAL."""
    like: dict[tuple[Scope, str], npt.NDArray[np.bool_]] = field(default_factory=dict)
    """By kind of device (GPU model, port layer) its rows on some nodes all over the fleet, once they were asked for."""
    made: dict[str, Any] = field(default_factory=dict)
    """By name what else was made of it, once it was asked for: the top line of a large fleet is drawn each second."""

    def finding_at(self, place: str) -> Finding | None:
        """Return the worst active finding that names exactly this place."""
        for finding in self.findings.get(node_of(place), ()):
            if place in finding.where:
                return finding
        return None


class _Named(NamedTuple):
    """What a finding names."""

    where: tuple[str, ...]
    nodes: tuple[str, ...]
    rows: dict[Scope, npt.NDArray[np.intp]]
    """Rows of GPUs and ports."""


def worst_findings(snapshot: FleetSnapshot) -> list[Finding]:
    """Return the active findings, most urgent first, older before newer."""
    active = [finding for finding in snapshot.findings if finding.state == "active"]
    return sorted(active, key=lambda finding: (finding.severity.rank, finding.since, finding.id))


def assess(snapshot: FleetSnapshot, now_mono: float, recall: Recall | None = None) -> Assessment:
    """Return the levels of `snapshot` at `now_mono` of the console's monotonic clock; what stands since the snapshot
    before is in `recall`, and is not worked out again."""
    recall = recall or Recall()
    found: dict[str, list[Finding]] = {}
    named = _all_named(snapshot, recall)
    for finding, places in named:
        for name in places.nodes:
            found.setdefault(name, []).append(finding)
    findings = {name: tuple(some) for name, some in found.items()}
    # Those of links, which are many, are not changed.
    rows = {scope: row_levels(snapshot, scope, recall) for scope in Scope}
    rows.update({scope: rows[scope].copy() for scope in (Scope.GPU, Scope.PORT)})
    _raise_named(named, rows)
    owners = {scope: _owners(snapshot, scope) for scope in (Scope.GPU, Scope.PORT)}
    hung = _hung(snapshot, owners[Scope.GPU][0])
    ages = tuple([freshness(node, now_mono) for node in snapshot.nodes])
    fresh = np.array(ages, dtype=np.uint8)
    nodes = np.maximum(rows[Scope.NODE], np.where(hung, np.uint8(Level.HUNG), np.uint8(0)))
    for scope, (owner, _) in owners.items():
        known = owner >= 0
        np.maximum.at(nodes, owner[known], rows[scope][known])
    for scope in DEVICE_SCOPES:
        _raise_owners(snapshot, scope, rows[scope], nodes)
    for name, some in findings.items():
        if name in snapshot.by_name:
            index = snapshot.by_name[name]
            nodes[index] = max(int(nodes[index]), SEVERITY_LEVELS[some[0].severity])
    # One unsupported value does not make a live node a gap.
    nodes[nodes == Level.MISSING] = Level.NORMAL
    np.maximum(nodes, fresh, out=nodes)
    _excuse(snapshot, nodes)
    return Assessment(snapshot, now_mono, rows, nodes, findings, hung, owners, ages)


def _excuse(snapshot: FleetSnapshot, nodes: Levels) -> None:
    """Let nodes that the scheduler has out of service, or is taking out, not stand among those that need somebody."""
    for node in snapshot.nodes:
        if node.scheduler is not None and node.scheduler.is_out_of_service:
            # Not healthy either: such a node is not folded away with those that are.
            nodes[node.index] = Level.MISSING
        elif node.scheduler is not None:
            nodes[node.index] = min(int(nodes[node.index]), SEVERITY_LEVELS[at_most(node)])


def _raise_owners(snapshot: FleetSnapshot, scope: Scope, levels: Levels, nodes: Levels) -> None:
    """Let nodes stand no better than the worst of their devices of `scope`."""
    wrong = np.flatnonzero(levels > Level.MISSING)
    if scope is Scope.FS:
        # What is mounted when it is needed comes and goes.
        wrong = wrong[levels[wrong] != Level.LOST]
    if not wrong.size:
        # Nearly always: thousands of nodes have hundreds of thousands of links.
        return
    first = np.array([node.device_first.get(scope, -1) for node in snapshot.nodes], dtype=np.int64)
    count = np.array([len(node.devices.get(scope, ())) for node in snapshot.nodes], dtype=np.int64)
    having = np.flatnonzero((first >= 0) & (count > 0))
    order = having[np.argsort(first[having])]
    at = np.searchsorted(first[order], wrong, side="right") - 1
    # Rows that nobody has any more lie before, between and behind those of others.
    wrong, owner = wrong[at >= 0], order[at[at >= 0]]
    owned = wrong < first[owner] + count[owner]
    np.maximum.at(nodes, owner[owned], levels[wrong[owned]])


def _owners(snapshot: FleetSnapshot, scope: Scope) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    nodes = snapshot.nodes
    if scope is Scope.GPU:
        first, counts = [node.gpu_first for node in nodes], [len(node.gpus) for node in nodes]
    else:
        first, counts = [node.port_first for node in nodes], [len(node.ports) for node in nodes]
    return _owners_of(snapshot.tables[scope].values.shape[1], tuple(first), tuple(counts))


@lru_cache(maxsize=8)
def _owners_of(
    size: int, first: tuple[int, ...], counts: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the owners of `size` rows; as a rule nothing has changed since the last look, so they are kept."""
    owner, position = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
    starts = np.array(first, dtype=np.int64)
    many = np.where(starts >= 0, np.array(counts, dtype=np.int64), 0)
    index = np.repeat(np.arange(len(first)), many)
    within = np.arange(index.size) - np.repeat(np.cumsum(many) - many, many)
    rows = starts[index] + within
    owner[rows] = index
    position[rows] = within
    owner.flags.writeable = position.flags.writeable = False
    return owner, position


def _hung(snapshot: FleetSnapshot, owner: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return the nodes all of whose GPUs have a value that the driver did not give in time."""
    table = snapshot.tables[Scope.GPU]
    hung = ~where_all(table.reasons, lambda reasons: reasons != Reason.HUNG)
    known = owner >= 0
    size = len(snapshot.nodes)
    of_all = np.bincount(owner[known], minlength=size)
    of_hung = np.bincount(owner[known & hung], minlength=size)
    said = np.array([node.notes.get("nvml", "").startswith("hung") for node in snapshot.nodes], dtype=bool)
    hung_nodes: npt.NDArray[np.bool_] = said | ((of_all > 0) & (of_hung == of_all))
    return hung_nodes


def freshness(node: Node, now_mono: float) -> Level:
    """Return how far the values of a node can be read as current."""
    if node.link.state is not LinkState.LIVE:
        return _LINK_LEVELS[node.link.state]
    if node.frame_mono is None:
        return Level.MISSING
    return Level.STALE if node.is_stale(now_mono) else Level.NORMAL


def _raise_named(named: Sequence[tuple[Finding, _Named]], rows: dict[Scope, Levels]) -> None:
    for finding, places in named:
        for scope, some in places.rows.items():
            rows[scope][some] = np.maximum(rows[scope][some], np.uint8(SEVERITY_LEVELS[finding.severity]))


def _all_named(snapshot: FleetSnapshot, recall: Recall) -> list[tuple[Finding, _Named]]:
    """Return all active findings with what they name: hundreds of places at times, which are looked up once."""
    known: dict[str, _Named] = recall.made("named", (snapshot.inventory or snapshot,), dict)
    found = []
    for finding in worst_findings(snapshot):
        named = known.get(finding.id)
        if named is None or named.where is not finding.where:
            named = _named(snapshot, finding.where)
        found.append((finding, named))
    known.clear()
    known.update({finding.id: named for finding, named in found})
    return found


def _named(snapshot: FleetSnapshot, where: tuple[str, ...]) -> _Named:
    by_node: dict[str, list[str]] = {}
    for place in where:
        by_node.setdefault(node_of(place), []).append(place)
    rows: dict[Scope, list[int]] = {Scope.GPU: [], Scope.PORT: []}
    for name, places in by_node.items():
        if name not in snapshot.by_name or places == [name]:
            continue
        node, wanted = snapshot.node(name), frozenset(places)
        for scope, found in rows.items():
            for position, row in enumerate(snapshot.rows(node, scope)):
                if snapshot.place(node, scope, position) in wanted:
                    found.append(row)
    return _Named(where, tuple(by_node), {scope: np.array(some, np.intp) for scope, some in rows.items() if some})


def age_word(node: Node, now_mono: float) -> str:
    """Return how old a node's values are, rounded up to its tick so that a healthy row stands still."""
    age = node.age_s(now_mono)
    return "" if age is None else duration(float(np.ceil(max(age, node.tick_s, 1.0)))).replace(".0 s", " s")


def link_words(node: Node, now_wall: float, *, next_try: bool = False) -> str:
    """Return the state of a node's link in words: what happened, since when, and with `next_try` when it is tried
    again."""
    link = node.link
    parts = [link.state.value]
    if not link.state.is_pending and not link.state.is_live:
        parts[0] += f" {duration(max(0.0, now_wall - link.since))}"
    if next_try and link.next_try is not None:
        parts.append(f"next try in {duration(np.ceil(max(0.0, link.next_try - now_wall)))}".replace(".0 s", " s"))
    if link.detail:
        parts.append(link.detail)
    return " · ".join(parts)


def what_is_wrong(assessment: Assessment, node: Node, now_wall: float) -> tuple[str, Level]:
    """Return the one sentence for a node's row and the level of what it says: its worst finding, its link, its worst
    value; empty when healthy."""
    found = assessment.findings.get(node.name, ())
    level = Level(int(assessment.nodes[node.index]))
    if node.scheduler is not None and node.scheduler.is_out_of_service:
        return node.scheduler.phrase, Level.NORMAL
    fresh = assessment.ages[node.index]
    if found and found[0].severity.rank <= Severity.P2.rank:
        finding = found[0]
        where = short_place(next((place for place in finding.where if node_of(place) == node.name), ""))
        more = f" (+{len(found) - 1})" if len(found) > 1 else ""
        return f"{where} {finding.summary}{more}".strip(), SEVERITY_LEVELS[finding.severity]
    if fresh is Level.STALE and node.link.state.is_live:
        return f"no frame for {duration(node.age_s(assessment.now_mono) or 0.0)}", fresh
    if fresh is not Level.NORMAL:
        return link_words(node, now_wall), fresh
    if assessment.hung[node.index]:
        return "GPU driver does not answer", Level.HUNG
    if level > Level.MISSING:
        return _worst_value(assessment, node), level
    return (node.scheduler.phrase, Level.NORMAL) if node.scheduler is not None else ("", Level.NORMAL)


def _worst_value(assessment: Assessment, node: Node) -> str:
    snapshot = assessment.snapshot
    best: tuple[int, str] = (0, "")
    for scope in (Scope.GPU, Scope.PORT, Scope.NODE, *DEVICE_SCOPES):
        table = snapshot.tables[scope]
        part = snapshot.rows(node, scope)
        if not len(part) or int(assessment.rows[scope][part.start : part.stop].max()) <= best[0]:
            continue
        for name in table.metrics:
            metric = snapshot.catalogue[name]
            if not is_judged(metric):
                continue
            levels = metric_levels(table, metric, part)
            position = int(levels.argmax())
            if int(levels[position]) > best[0] and int(levels[position]) > Level.MISSING:
                value = wrong_text(table, metric, part[position])
                where = short_place(snapshot.place(node, scope, position)) if scope is not Scope.NODE else ""
                best = (int(levels[position]), f"{where} {title_in_text(metric.title)} {value}".strip())
    return best[1]


def short_place(place: str) -> str:
    """Return a place without its node: `gpu/4`, `ib/mlx5_3`; empty for the node itself."""
    return place.partition("/")[2]


def peers_median(assessment: Assessment, scope: Scope, metric: str, row: int) -> float | None:
    """Return the median of `metric` over the other rows of the same kind (GPU model, port layer; for other devices the
    same place on comparable nodes, and their like on the same node) that have a value."""
    return median_of(assessment.snapshot.tables[scope], metric, peers_of(assessment, scope, row))


def median_of(table: Table, metric: str, rows: npt.NDArray[np.int64]) -> float | None:
    """Return the median of `metric` over those of `rows` that have a value, None when none has."""
    column = table.index[metric]
    values = table.values[column, rows][table.reasons[column, rows] == Reason.PRESENT]
    return float(np.median(values)) if values.size else None


def peers_of(assessment: Assessment, scope: Scope, row: int) -> npt.NDArray[np.int64]:
    """Return the rows that `row` is compared with, itself not among them."""
    if scope in DEVICE_SCOPES:
        snapshot = assessment.snapshot
        node = next(node for node in snapshot.nodes if row in snapshot.rows(node, scope))
        return peer_rows(snapshot, node, scope, row - snapshot.rows(node, scope).start)
    mask = _like(assessment, scope, row)
    mask[row] = False
    return np.flatnonzero(mask)


def _like(assessment: Assessment, scope: Scope, row: int) -> npt.NDArray[np.bool_]:
    """Return which rows of a table are comparable with `row`: those of its node and of no more than MOST_NODES."""
    snapshot = assessment.snapshot
    size = snapshot.tables[scope].values.shape[1]
    if scope is Scope.NODE:
        return np.ones(size, dtype=bool)
    owner, position = assessment.owners[scope]
    node = snapshot.nodes[int(owner[row])]
    wanted = node.gpus[int(position[row])].name if scope is Scope.GPU else node.ports[int(position[row])].layer
    some = assessment.like.get((scope, wanted))
    if some is None:
        step = -(-len(snapshot.nodes) // MOST_NODES) or 1
        some = assessment.like[scope, wanted] = np.zeros(size, dtype=bool)
        for other in snapshot.nodes[::step]:
            _mark_like(snapshot, other, scope, wanted, some)
    like = some.copy()
    _mark_like(snapshot, node, scope, wanted, like)
    return like


def _mark_like(snapshot: FleetSnapshot, node: Node, scope: Scope, wanted: str, like: npt.NDArray[np.bool_]) -> None:
    names = [gpu.name for gpu in node.gpus] if scope is Scope.GPU else [port.layer for port in node.ports]
    part = snapshot.rows(node, scope)
    like[part.start : part.stop] = [name == wanted for name in names] if len(part) else False
