"""What a full pass of all rules costs: `python -m benchmarks.rules [nodes]`.

A simulated fleet that trains, with the noise of real readings, is folded and shown to the rules that ship: as a console
sees it, each node at its own time and eight of them sick; then all at once, healthy, with every GPU throttled, and with
a quarter of the nodes lost. Prints milliseconds of CPU for a pass,
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
from benchmarks.rendered import HEALTHY, SICK, streams
from stethoscope.analysis.fold import FleetState
from stethoscope.analysis.rules import Engine
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.grid import Grid
from stethoscope.model.metric import Reason, Scope
from stethoscope.model.scheduler import Job
from stethoscope.parse.stream import parse
from stethoscope.session.session import EVALUATE_MANY_S
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
LOOK_S = EVALUATE_MANY_S
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


class Fleet:
    """A fleet that is folded as its nodes say something; all of them are in one job."""

    def __init__(self, nodes: int) -> None:
        """Have so many nodes, of which nobody has said anything yet."""
        self._names = [f"gpu-{number + 1:04}" for number in range(nodes)]
        specs = [Spec(name, f"rack-{at // 4 + 1:03}", f"pod-{at // 32 + 1}") for at, name in enumerate(self._names)]
        self._state = FleetState(load_catalogue(), specs, "bench")
        for name in self._names:
            self._state.set_link(name, Link(LinkState.LIVE, since=START_WALL))
        self._jobs = (Job("1", "train", "running", nodes=tuple(self._names)),)

    def say(self, node: int, mono: float, pieces: list[bytes]) -> None:
        """Let a node say something at a moment."""
        name = self._names[node]
        for raw in (b'"wall":%.3f' % (START_WALL + mono)).join(pieces).splitlines():
            self._state.apply(Frame(name, START_WALL + mono, mono, raw), parse(raw))

    def snapshot(self, mono: float) -> FleetSnapshot:
        """Return what is known at a moment."""
        return replace(self._state.snapshot(START_WALL + mono, mono), jobs=self._jobs)


def said_by_all(nodes: int) -> list[list[list[bytes]]]:
    """Return what the simulated nodes say at each tick, the healthy ones first."""
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
        return streams(TICK_S, TICKS * TICK_S, nodes)


def snapshots(nodes: int, said: list[list[list[bytes]]]) -> Iterator[FleetSnapshot]:
    """Yield a fleet of `nodes` nodes after each tick, WARM of them passed over; each says what one of the healthy ones
    says, all at the same moment."""
    fleet = Fleet(nodes)
    for tick in range(TICKS):
        for node in range(nodes):
            fleet.say(node, tick * TICK_S, said[node % HEALTHY][tick])
        if tick >= WARM:
            yield fleet.snapshot(tick * TICK_S)


def as_seen(nodes: int, said: list[list[list[bytes]]]) -> Iterator[FleetSnapshot]:
    """Yield the same as a console sees it: each node says something at a moment of its own, so that all that comes
    rarely comes at any time; eight nodes are sick, so that groups have somebody who is far from the others."""
    fleet, step = Fleet(nodes), nodes // SICK
    who = [HEALTHY + node // step if node % step == step // 2 else node % HEALTHY for node in range(nodes)]
    ticks = [0] * nodes
    for look in range(1, int((TICKS - 1) * TICK_S / LOOK_S) + 1):
        for node in range(nodes):
            while ticks[node] < TICKS and (at := (ticks[node] + node / nodes) * TICK_S) <= look * LOOK_S:
                fleet.say(node, at, said[who[node]][ticks[node]])
                ticks[node] += 1
        if look * LOOK_S >= WARM * TICK_S:
            yield fleet.snapshot(look * LOOK_S)


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
    said = said_by_all(nodes)
    seen = Passes(f"as a console sees it, every {LOOK_S:g} s, {SICK} nodes sick", Engine(rules, catalogue))
    for snapshot in as_seen(nodes, said):
        gc.freeze()
        seen.look(snapshot)
    for number, snapshot in enumerate(snapshots(nodes, said)):
        gc.freeze()
        for passes, changed in cases:
            passes.look(changed(snapshot))
        if number >= TICKS - WARM - ALONE:
            floors.append(floor_ms(snapshot))
            for passes in (empty, *alone):
                passes.look(snapshot)
    every = [seen, *(passes for passes, _ in cases)]
    for passes in every:
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
    worst = max(passes.median_ms for passes in every)
    if worst > BUDGET_MS:
        print(f"missed: a pass of {worst:.1f} ms, budget {BUDGET_MS:g} ms")
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
