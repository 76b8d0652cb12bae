"""What it costs to fold the frames of a fleet: `python -m benchmarks.fold [nodes] [tick_s]`.

Prints microseconds per line (parsing included), the share of a core at one line per node and tick, the time of a
snapshot, and memory; then the same with the parts of what is read rarely, of which half change from one reading to the
next. The last snapshot is held while the next one is made, as a console does. The floor beside it is decoding the same
lines into typed structs and nothing else.
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.parts import CHANGING, STANDING, PartProbe, every_s
from stethoscope.analysis.fold import FleetState
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.metric import Kind, Scope
from stethoscope.parse.stream import parse
from stethoscope.specs.metric import load_catalogue

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot

GPUS = PORTS = 8
START_WALL = 1_773_454_447.0


@dataclass
class Spec:
    """A node as a fleet file would describe it."""

    name: str
    rack: str = "rack-01"
    pod: str = "pod-1"
    tick_s: float = 5.0
    expected_gpus: int | None = GPUS
    leaves: tuple[tuple[str, str], ...] = ()


class Probe:
    """A node that trains: what a probe of it would print."""

    def __init__(self, seed: int) -> None:
        """Start with random totals."""
        self.random = random.Random(seed)
        self.seq = 0
        self.catalogue = [m for m in load_catalogue().values() if m.tier == "fast"]
        self.totals = {m.id: [self.random.randrange(2**20, 2**31)] * 8 for m in self.catalogue}

    def full(self, mono: float) -> bytes:
        """Return a line with every value."""
        line = wire.Full(seq=self.seq, mono=mono, wall=START_WALL + mono)
        line.gpus = [wire.GpuIdentity(i, "NVIDIA H100", f"GPU-{i}", f"0000:{i + 16:02x}:00.0") for i in range(GPUS)]
        line.ports = [wire.PortIdentity(f"mlx5_{i}") for i in range(PORTS)]
        for metric in self.catalogue:
            cells = self.totals[metric.id] if metric.kind is Kind.COUNTER else [self.random.randrange(90)] * 8
            if metric.scope is Scope.NODE:
                line.node[metric.id] = cells[0]
            else:
                (line.gpu if metric.scope is Scope.GPU else line.port)[metric.id] = list(cells)
        self.seq += 1
        return wire.encode(line)

    def delta(self, mono: float) -> bytes:
        """Return what changes on a busy node: power, temperatures, clocks, traffic, CPU; a few GPUs did not move."""
        line = wire.Delta(seq=self.seq, mono=mono, wall=START_WALL + mono)
        for metric in ("gpu_power_draw", "gpu_util", "gpu_pcie_rx", "gpu_pcie_tx", "gpu_mem_copy_util"):
            line.gpu[metric] = [self.random.randrange(60, 700) for _ in range(GPUS)]
        for metric in ("gpu_temp", "gpu_mem_temp", "gpu_sm_clock"):
            line.gpu[metric] = [self.random.choice((None, 60, 61)) for _ in range(GPUS)]
        for part, names in (
            (line.gpu, ("nvlink_rx", "nvlink_tx")),
            (line.port, ("ib_port_xmit_data", "ib_port_rcv_data", "ib_port_xmit_wait")),
        ):
            for name in names:
                self.totals[name] = [total + self.random.randrange(1, 10**9) for total in self.totals[name]]
                part[name] = list(self.totals[name])
        for metric in ("cpu_util", "cpu_softirq", "cpu_softirq_max", "load1", "mem_available", "nvml_latency"):
            line.node[metric] = round(self.random.random() * 30, 2)
        self.seq += 1
        return wire.encode(line)


def main() -> None:
    """Run and print."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    tick_s = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    names = [f"gpu-{number:04}" for number in range(nodes)]
    state = FleetState(load_catalogue(), [Spec(name, tick_s=tick_s) for name in names], "bench")
    probes = [Probe(number) for number in range(20)]
    for name in names:
        state.set_link(name, Link(LinkState.LIVE, START_WALL))
    print(f"{nodes} nodes x {GPUS} GPUs x {PORTS} ports, one line per node every {tick_s:g} s")
    costs: dict[str, float] = {}
    for number, kind in enumerate(("full", "delta", "delta", "delta", "full")):
        mono = 10.0 + number * tick_s
        said = [probe.full(mono) if kind == "full" else probe.delta(mono) for probe in probes]
        lines = [said[position % len(said)] for position in range(nodes)]
        floor = time.process_time()
        for raw in lines:
            wire.decode(raw)
        began = time.process_time()
        for name, raw in zip(names, lines, strict=True):
            state.apply(Frame(name, START_WALL + mono, mono, raw), parse(raw))
        ended = time.process_time()
        costs[kind] = (ended - began) / nodes * 1e6
        print(
            f"  {kind:5} {len(lines[0]):5} bytes  {costs[kind]:6.1f} us a line, parsed and folded"
            f"   (decoding alone {(began - floor) / nodes * 1e6:.1f} us)"
        )
    per_second = nodes / tick_s * (costs["delta"] + tick_s / 60 * (costs["full"] - costs["delta"])) / 1e6
    print(f"  fold {per_second * 100:.1f} % of a core")
    _print_memory(_snapshots(state, probes[0], names, 400.0))
    share = _rare(state, names)
    snapshot = _snapshots(state, probes[0], names, 800.0)
    print(f"  parse and fold of all {(per_second + share) * 100:.1f} % of a core")
    _print_memory(snapshot)


def _snapshots(state: FleetState, probe: Probe, names: list[str], mono: float) -> FleetSnapshot:
    """Print how long snapshots take while frames come, what these copy behind one included; return the last one."""
    snapshots = []
    for number in range(40):
        raw = probe.delta(mono + number)
        for name in names[1::20]:
            state.apply(Frame(name, START_WALL, mono + number, raw), parse(raw))
        line = parse(raw)
        began = time.process_time()
        snapshot = state.snapshot(START_WALL, mono + number)
        state.apply(Frame(names[0], START_WALL, mono + number, raw), line)
        snapshots.append((time.process_time() - began) * 1e3)
    print(f"  snapshot {statistics.median(snapshots):.2f} ms, worst {max(snapshots):.2f} ms (5 % of the nodes changed)")
    return snapshot


def _rare(state: FleetState, names: list[str]) -> float:
    """Tell of two rounds of parts; return the share of a core that they take in each interval."""
    probes = [PartProbe(number, load_catalogue()) for number in range(20)]
    held = state.snapshot(START_WALL, 50.0)
    spent: dict[str, list[float]] = {"first": [], "whole": [], "same": []}
    sizes: dict[str, int] = {}
    share = 0.0
    for turn in range(3):
        for group in (*CHANGING, *STANDING):
            kind = "first" if turn == 0 else "whole" if group in CHANGING else "same"
            mono, often_s = 100.0 + 60.0 * turn, every_s(group, len(names))
            lines = [probe.part(group, 0, mono, s=often_s, same=kind == "same") for probe in probes]
            sizes[group] = max(len(lines[0]), sizes.get(group, 0))
            began = time.process_time()
            for position, name in enumerate(names):
                raw = lines[position % len(lines)]
                state.apply(Frame(name, START_WALL + mono, mono, raw), parse(raw))
            cost = (time.process_time() - began) / len(names)
            spent[kind].append(cost)
            if turn == 2:
                share += cost * len(names) / often_s
                print(f"  part  {sizes[group]:5} bytes  {cost * 1e6:6.1f} us  {group}, {kind}, every {often_s:g} s")
        held = state.snapshot(START_WALL, 101.0 + 60.0 * turn)
    assert all(len(node.parts) == len((*CHANGING, *STANDING)) for node in held.nodes)
    print(f"  first parts of a node {sum(spent['first']) * 1e3:.2f} ms; parts {share * 100:.1f} % of a core")
    return share


def _print_memory(snapshot: FleetSnapshot) -> None:
    arrays = sum(t.values.nbytes + t.reasons.nbytes + 2 * t.totals.nbytes for t in snapshot.tables.values())
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {arrays / 2**20:.1f} MiB of arrays; peak RSS {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
