"""What a full pass of all rules costs: `python -m benchmarks.rules [nodes]`.

A simulated fleet that trains, with the noise of real readings, is folded tick by tick and shown to the rules that ship:
healthy, with every GPU throttled, and with a quarter of the nodes lost at once. Prints milliseconds of CPU for a pass,
the memory of the windows, and the rules that cost most when each is evaluated alone; as the floor beside them, one
comparison of every value of the tables with its own threshold. Returns 1 when a pass is beyond its budget.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.fold import GPUS, START_WALL, Spec
from benchmarks.rendered import HEALTHY, streams
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.grid import Grid
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job
from stethoscope.parse.stream import parse
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    import numpy.typing as npt

    from stethoscope.model.fleet import FleetSnapshot, Table

    Array = npt.NDArray[Any]

TICK_S = 5.0
WARM, TICKS = 16, 76
"""Ticks until everything was read, and all of them: five minutes are looked at."""
ALONE = 8
"""In so many of the last ticks each rule is also evaluated alone."""
TOP = 3
LOST_SHARE = 0.25
BUDGET_MS = 50.0


@dataclass
class Passes:
    """The passes of one engine."""

    title: str
    engine: Engine
    spent_ms: list[float] = field(default_factory=list)
    findings: int = 0

    def look(self, snapshot: FleetSnapshot) -> None:
        """Make one more pass."""
        began = time.thread_time()
        findings = self.engine.evaluate(snapshot)
        self.spent_ms.append((time.thread_time() - began) * 1e3)
        self.findings = sum(finding.state == "active" for finding in findings)

    @property
    def median_ms(self) -> float:
        """Return the median pass, without the first one, which makes room for everything."""
        return statistics.median(self.spent_ms[1:])


def snapshots(nodes: int) -> Iterator[FleetSnapshot]:
    """Yield a fleet of `nodes` nodes after each tick, WARM of them passed over; each says what one of 40 simulated ones
    says, and all are in one job."""
    names = [f"gpu-{number + 1:04}" for number in range(nodes)]
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
        said = streams(TICK_S, TICKS * TICK_S, nodes)[:HEALTHY]
    specs = [Spec(name, f"rack-{at // 4 + 1:03}", f"pod-{at // 32 + 1}") for at, name in enumerate(names)]
    state = FleetState(load_catalogue(), specs, "bench")
    for name in names:
        state.set_link(name, Link(LinkState.LIVE, since=START_WALL))
    jobs = (Job("1", "train", "running", nodes=tuple(names)),)
    for tick in range(TICKS):
        mono = tick * TICK_S
        wall = b'"wall":%.3f' % (START_WALL + mono)
        lines = [wall.join(node[tick]).splitlines() for node in said]
        for at, name in enumerate(names):
            for raw in lines[at % HEALTHY]:
                state.apply(Frame(name, START_WALL + mono, mono, raw), parse(raw))
        if tick >= WARM:
            yield replace(state.snapshot(START_WALL + mono, mono), jobs=jobs)


class Changed:
    """Snapshots in which something else is so. As from the fold, a column is the same array as at the tick before where
    nothing moves in it."""

    def __init__(self) -> None:
        """Remember no column yet."""
        self._made: dict[tuple[Scope, str, int], tuple[Array, Array]] = {}

    def _grid(self, table: Table, what: str, rows: slice, value: float, only: Container[int] | None = None) -> Any:
        grid = getattr(table, what)
        columns = []
        for number in range(len(grid)):
            column = grid[number]
            if only is None or number in only:
                key = (table.scope, what, number)
                if key not in self._made or self._made[key][0] is not column:
                    changed = np.array(column)
                    changed[rows] = value
                    self._made[key] = column, changed
                column = self._made[key][1]
            columns.append(column)
        return Grid(columns, table.first_at.size, grid.dtype)

    def throttled(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Return the fleet with every GPU slowed down because it is hot."""
        table = snapshot.tables[Scope.GPU]
        values = self._grid(table, "values", slice(None), 0x40, {table.index["gpu_clocks_event_reasons"]})
        return replace(snapshot, tables={**snapshot.tables, Scope.GPU: replace(table, values=values)})

    def lost(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Return the fleet with the last quarter of the nodes not reached."""
        first = int(len(snapshot.nodes) * (1 - LOST_SHARE))
        gone = [
            replace(node, link=Link(LinkState.UNREACHABLE, START_WALL), frame_mono=TICK_S * WARM)
            for node in snapshot.nodes[first:]
        ]
        tables = {**snapshot.tables}
        for scope, each in ((Scope.NODE, 1), (Scope.GPU, GPUS), (Scope.PORT, GPUS)):
            tables[scope] = self._unreachable(tables[scope], slice(first * each, None))
        return replace(snapshot, nodes=(*snapshot.nodes[:first], *gone), tables=tables)

    def _unreachable(self, table: Table, rows: slice) -> Table:
        of_console = {table.index[name] for name in ("node_reachable",) if name in table.index}
        others = set(range(len(table.metrics))) - of_console
        reached = self._grid(table, "values", rows, np.nan, others)
        told = self._grid(replace(table, values=reached), "values", rows, 0.0, of_console) if of_console else reached
        return replace(
            table,
            values=told,
            reasons=self._grid(table, "reasons", rows, Reason.UNREACHABLE, others),
            total_reasons=self._grid(table, "total_reasons", rows, Reason.UNREACHABLE),
        )


def floor_ms(snapshot: FleetSnapshot) -> float:
    """Return milliseconds of CPU for comparing every value once."""
    began = time.thread_time()
    for table in snapshot.tables.values():
        for column in range(len(table.metrics)):
            np.count_nonzero(table.values[column] > column)
    return (time.thread_time() - began) * 1e3


def main() -> int:
    """Print the figures; fail beyond the budget of 16,000 GPUs."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    catalogue = load_catalogue()
    rules = load_rules(catalogue, load_root_causes())
    cases: list[tuple[Passes, Callable[[FleetSnapshot], FleetSnapshot]]] = [
        (Passes("healthy", Engine(rules, catalogue)), lambda snapshot: snapshot),
        (Passes("every GPU throttled", Engine(rules, catalogue)), Changed().throttled),
        (Passes(f"{LOST_SHARE:.0%} of the nodes lost", Engine(rules, catalogue)), Changed().lost),
    ]
    alone = [Passes(rule.id, Engine([rule], catalogue)) for rule in rules]
    empty = Passes("none", Engine([], catalogue))
    floors: list[float] = []
    print(f"{len(rules)} rules, {nodes:,} nodes, {nodes * GPUS:,} GPUs, a pass every {TICK_S:g} s", flush=True)
    for number, snapshot in enumerate(snapshots(nodes)):
        gc.freeze()
        for passes, changed in cases:
            passes.look(changed(snapshot))
        if number >= TICKS - WARM - ALONE:
            floors.append(floor_ms(snapshot))
            for passes in (empty, *alone):
                passes.look(snapshot)
    for passes, _ in cases:
        print(
            f"  {passes.title}: median {passes.median_ms:.1f} ms of CPU "
            f"({passes.median_ms / min(floors):.0f} x the floor), longest {max(passes.spent_ms[1:]):.1f} ms, "
            f"{passes.findings} findings, windows {passes.engine.nbytes / 2**20:.1f} MiB"
        )
    dear = sorted(alone, key=lambda one: one.median_ms, reverse=True)[:TOP]
    print(
        f"  floor: {min(floors):.2f} ms; no rule {empty.median_ms:.1f} ms; most expensive alone, beyond that: ", end=""
    )
    print(", ".join(f"{one.title} {one.median_ms - empty.median_ms:.1f} ms" for one in dear))
    worst = max(passes.median_ms for passes, _ in cases)
    if worst > BUDGET_MS:
        print(f"missed: a pass of {worst:.1f} ms, budget {BUDGET_MS:g} ms")
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
