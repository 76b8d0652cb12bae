"""Rules test themselves: their series go the way of real frames through the fold into an engine of that rule alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.errors import DataError, did_you_mean
from stethoscope.model import wire
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.ids import node_of
from stethoscope.model.metric import WIRE_REASONS, Metric, Scope
from stethoscope.specs.duration import duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.specs.rule import Rule, TestSpec

SUBJECT = "subject"
WALL = 1_773_454_447.0
_TIMES = re.compile(r"(.*?)\s+x(\d{1,4})")
_PCI = "0000:1b:00"


@dataclass(slots=True)
class _Node:
    name: str
    tick_s: float
    expected_gpus: int | None
    rack: str = ""
    pod: str = ""
    leaves: tuple[tuple[str, str], ...] = ()


def check_rule(rule: Rule, catalogue: Mapping[str, Metric]) -> Iterator[DataError]:
    """Yield what is wrong with the rule's own tests: missing ones, broken ones, and those that the rule fails."""
    expectations = {test.expect for test in rule.tests}
    if not expectations - {"none"}:
        yield DataError(f"{rule.id}: no test expects a finding", where=rule.where)
    if "none" not in expectations:
        yield DataError(f"{rule.id}: no test says when there must be no finding (expect: none)", where=rule.where)
    for number, test in enumerate(rule.tests):
        try:
            message = _fails(rule, test, catalogue)
        except ValueError as error:
            message = str(error)
        if message:
            yield DataError(f'{rule.id}: test "{test.name}": {message}', where=rule.test_where(number))


def _fails(rule: Rule, test: TestSpec, catalogue: Mapping[str, Metric]) -> str | None:
    """Return what is wrong, or None when the rule does what the test expects."""
    findings: list[Finding] = []
    for sample, found in enumerate(_play(rule, test, catalogue)):
        findings = [finding for finding in found if finding.state == "active"]
        astray = next((finding for finding in findings if node_of(finding.where[0]) != SUBJECT), None)
        if astray is not None:
            return f"sample {sample}: a finding about a healthy peer: {astray.summary}"
        if findings and test.expect == "none":
            return f"sample {sample}: {findings[0].severity.value} where none was expected: {findings[0].summary}"
    if test.expect == "none":
        return None
    if not findings:
        return f"{test.expect} was expected after the last sample, and there is no finding"
    if findings[0].severity is not Severity(test.expect):
        return f"{test.expect} was expected, and the finding is {findings[0].severity.value}"
    if test.summary is not None and findings[0].summary != test.summary:
        return f'the summary is "{findings[0].summary}"'
    return None


def _play(rule: Rule, test: TestSpec, catalogue: Mapping[str, Metric]) -> Iterator[tuple[Finding, ...]]:
    """Yield the findings after each sample of the test."""
    every_s = duration_s(test.every)
    links = [LinkState(str(word)) for word in _repeated(test.link)]
    subject = {_known(metric, catalogue): _repeated(cells) for metric, cells in test.series.items()}
    peers = {_known(metric, catalogue): _repeated(cells) for metric, cells in test.peers.items()}
    samples = max([len(links), *(len(cells) for cells in subject.values()), *(n + 1 for n in test.xid)])
    nodes = [_Node(SUBJECT, every_s, test.expected_gpus)]
    nodes += [_Node(f"peer-{number}", every_s, None) for number in range(1, test.peer_count + 1)]
    fleet = FleetState(catalogue, nodes, "self-test")
    engine = Engine([rule], catalogue, single_look=test.single_look)
    linked: dict[str, LinkState] = {}
    for sample in range(samples):
        at = sample * every_s
        for node in nodes:
            own = node.name == SUBJECT
            state = _at(links, sample) if own else LinkState.LIVE
            if linked.get(node.name) is not state:
                linked[node.name] = state
                fleet.set_link(node.name, Link(state, since=WALL + at))
            quiet = own and test.frames is not None and sample >= test.frames
            if state is not LinkState.LIVE or quiet:
                continue
            frame = Frame(node.name, WALL + at, at, b"")
            fleet.apply(frame, _full(sample, at, subject if own else peers, catalogue))
            if own and sample in test.xid:
                text = f"NVRM: Xid (PCI:{_PCI}): {test.xid[sample]}, pid='<unknown>', name=<unknown>"
                event = wire.Event(
                    seq=2 * sample + 1, mono=at, wall=WALL + at, source="kernel", text=text, at=WALL + at
                )
                fleet.apply(frame, event)
        yield engine.evaluate(fleet.snapshot(WALL + at, at))


def _full(sample: int, at: float, series: Mapping[str, list[Any]], catalogue: Mapping[str, Metric]) -> wire.Full:
    full = wire.Full(
        seq=2 * sample,
        mono=at,
        wall=WALL + at,
        gpus=[wire.GpuIdentity(0, "GPU", "GPU-0", f"{_PCI}.0")],
        ports=[wire.PortIdentity("mlx5_0", 1, "InfiniBand")],
    )
    for metric, cells in series.items():
        cell = _at(cells, sample)
        if isinstance(cell, str) and cell not in WIRE_REASONS:
            raise ValueError(f'{metric}: "{cell}" is no reason that a probe gives{did_you_mean(cell, WIRE_REASONS)}')
        if catalogue[metric].scope is Scope.NODE:
            full.node[metric] = cell
        else:
            (full.gpu if catalogue[metric].scope is Scope.GPU else full.port)[metric] = [cell]
    return full


def _known(metric: str, catalogue: Mapping[str, Metric]) -> str:
    if metric not in catalogue:
        raise ValueError(f'unknown metric "{metric}"{did_you_mean(metric, catalogue)}')
    if catalogue[metric].tier == "console":
        raise ValueError(f"{metric} is worked out by the console: use link, frames or xid")
    return metric


def _at(cells: list[Any], sample: int) -> Any:
    """Return the cell of a sample; the last one stands from then on."""
    return cells[min(sample, len(cells) - 1)]


def _repeated(cells: Any) -> list[Any]:
    """Return the list that `cells` stands for: `40 x6` is six times 40."""
    expanded: list[Any] = []
    for cell in cells if isinstance(cells, list) else [cells]:
        match = _TIMES.fullmatch(cell) if isinstance(cell, str) else None
        value = match[1] if match else cell
        expanded += [_number(value)] * (int(match[2]) if match else 1)
    if not expanded:
        raise ValueError("an empty series")
    return expanded


def _number(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    try:
        return int(cell, 0)
    except ValueError:
        pass
    try:
        return float(cell)
    except ValueError:
        return cell
