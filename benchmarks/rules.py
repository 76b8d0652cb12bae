"""What a full pass of all rules costs: `python -m benchmarks.rules [nodes]`.

Prints milliseconds for a pass over a healthy fleet and over one in which every GPU is hot, the memory of the windows,
and, as the floor beside them, one comparison of every value of the tables with its own threshold.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.fold import GPUS, START_WALL, Probe, Spec
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Scope
from stethoscope.parse.stream import parse
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot, Table

PASSES, TICK_S = 40, 5.0
BUDGET_MS = 50.0


def fleet(nodes: int) -> FleetSnapshot:
    """Return a fleet of `nodes` nodes that have sent one frame each."""
    specs = [Spec(f"gpu-{number:04}") for number in range(nodes)]
    state = FleetState(load_catalogue(), specs, "bench")
    raw = Probe(1).full(0.0)
    message = parse(raw)
    for spec in specs:
        state.set_link(spec.name, Link(LinkState.LIVE, since=START_WALL))
        state.apply(Frame(spec.name, START_WALL, 0.0, raw), message)
    snapshot = state.snapshot(START_WALL, 0.0)
    calm = {"gpu_clocks_event_reasons": 0, "gpu_handle_error": 0, "gpu_temp": 60, "ib_port_state": 4, "gpu_count": GPUS}
    calm |= {"gpu_count_pci": GPUS, "psi_memory_full": 0, "psi_io_full": 0}
    tables = {scope: _with(snapshot, scope, calm) for scope in snapshot.tables}
    return replace(snapshot, tables=tables)


def _with(snapshot: FleetSnapshot, scope: Scope, values: dict[str, int]) -> Table:
    table = snapshot.tables[scope]
    changed = table.values.copy()
    for metric, value in values.items():
        if metric in table.index:
            changed[table.index[metric]] = value
    return replace(table, values=changed)


def passes(snapshot: FleetSnapshot, engine: Engine) -> tuple[list[float], int]:
    """Return milliseconds of each pass after the first, and the number of findings at the end."""
    spent = []
    findings = 0
    for number in range(PASSES):
        later = TICK_S * number
        nodes = tuple(replace(node, frame_mono=later) for node in snapshot.nodes)
        now = replace(snapshot, mono=later, wall=START_WALL + later, nodes=nodes)
        before = time.perf_counter()
        findings = len(engine.evaluate(now))
        spent.append((time.perf_counter() - before) * 1000)
    return spent[1:], findings


def floor_ms(snapshot: FleetSnapshot) -> float:
    """Return milliseconds of comparing every value once."""
    before = time.perf_counter()
    for table in snapshot.tables.values():
        np.count_nonzero(table.values > np.arange(len(table.metrics))[:, None])
    return (time.perf_counter() - before) * 1000


def main() -> int:
    """Print the figures; fail beyond the budget of 16,000 GPUs."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    catalogue = load_catalogue()
    rules = load_rules(catalogue, load_root_causes())
    healthy = fleet(count)
    hot = replace(
        healthy,
        tables={**healthy.tables, Scope.GPU: _with(healthy, Scope.GPU, {"gpu_clocks_event_reasons": 0x40})},
    )
    floor = min(floor_ms(healthy) for _ in range(5))
    worst = 0.0
    for title, snapshot in (("healthy", healthy), ("every GPU throttled", hot)):
        engine = Engine(rules, catalogue)
        spent, findings = passes(snapshot, engine)
        median = statistics.median(spent)
        worst = max(worst, median)
        print(
            f"{len(rules)} rules, {count * GPUS:,} GPUs, {title}: "
            f"median {median:.1f} ms ({median / floor:.1f} x the floor), "
            f"longest {max(spent):.1f} ms, {findings} findings, windows {engine.nbytes / 1e6:.1f} MB"
        )
    print(f"floor: {floor:.2f} ms")
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
