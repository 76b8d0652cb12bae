"""A fleet whose every line was made beforehand, served over SSH: `python -m benchmarks.rendered DIRECTORY NODES TICK_S
SPAN_S`.

What the probes say is taken from the simulated fleet, for SPAN_S seconds from a node's connect, so that serving costs
the machine as little as it can. 40 healthy nodes are repeated; eight others, each once, have a GPU that is too hot or a
port that loses light. Prints the port once it serves, with the fleet file `fleet.yaml` in DIRECTORY. A line `lose N` on
standard input closes the connections of N nodes at once; none of them comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncssh
import msgspec

from benchmarks.links import address
from stethoscope.collect.fanout import raise_file_limit
from stethoscope.collect.watchlist import pace_of, watch_groups
from stethoscope.model import wire
from stethoscope.session.session import THREADS
from stethoscope.sim.parts import Order
from stethoscope.sim.readings import Readings
from stethoscope.sim.scenarios import open_scenario
from stethoscope.sim.speaker import Speaker
from stethoscope.sim.twin import Twin

HEALTHY, SICK = 40, 8
GPUS = 8
_START = re.compile(re.escape(wire.SCHEMA) + r" ([A-Za-z0-9]{1,64})")
_WALL = re.compile(rb'"wall":[0-9.]+')
_PARTS_A_TICK = 2
_SCENARIO = """\
schema: stethoscope.scenario/1
id: benchmark
title: A fleet for measuring
source: constructed
seed: 7
duration: 2h
fleet: {{nodes: 48, gpus_per_node: 8, gpu: H100-SXM5-80GB, ib_ports_per_node: 8, ib_rate_gbps: 400,
        nodes_per_rack: 4, nodes_per_pod: 24}}
jobs:
  - {{id: "1", nodes: "gpu-[001-048]", step_time_s: 0.8, shares: {{compute: 0.6, comm: 0.3, data: 0.05, other: 0.05}},
      samples_per_step: 3712, framework: pytorch}}
events:
{events}
background: []
expect: {{scope: global, layer: communication, root_cause: ib_link_fault, culprits: [gpu-041/ib/mlx5_3],
         not_blamed: [], detect_within: 90s, severity: P1}}
"""
_FAULTS = (
    "  - {{at: 1s, fault: gpu_thermal_throttle, where: gpu-{node:03}/gpu/4, "
    "params: {{temp_c: 88, clock_mhz: 1100, ramp: 30s}}}}",
    "  - {{at: 1s, fault: ib_optic_degraded, where: gpu-{node:03}/ib/mlx5_3, "
    "params: {{symbol_errors_per_s: 41, bandwidth_factor: 0.5, rx_power_dbm: -9.5, ramp: 30s}}}}",
)


def streams(tick_s: float, span_s: float, nodes: int) -> list[list[list[bytes]]]:
    """Return, for each of the 48 nodes and each tick, its lines, cut where the wall time belongs."""
    faults = [_FAULTS[node % 2].format(node=node) for node in range(HEALTHY + 1, HEALTHY + SICK + 1)]
    written = Path("scenario.yaml")
    written.write_text(_SCENARIO.format(events="\n".join(faults)))
    twin = Twin(open_scenario("./scenario.yaml"))
    orders = msgspec.convert(watch_groups(sudo=False, pace=pace_of(nodes)), tuple[Order, ...])
    speakers = [Speaker(twin, node, tick_s) for node in range(HEALTHY + SICK)]
    said: list[list[list[bytes]]] = [[] for _ in speakers]
    for tick in range(int(span_s / tick_s)):
        twin.advance_to(tick * tick_s)
        readings = Readings(twin)
        for lines, speaker in zip(said, speakers, strict=True):
            if tick == 0:
                lines.append(_WALL.split(speaker.hello() + speaker.frame(readings)))
                speaker.watch(orders)
                continue
            frame = speaker.frame(readings)
            parts = speaker.parts(readings, twin.t_s, _PARTS_A_TICK)
            lines.append(_WALL.split(b"".join([frame, *parts])))
    return said


def fleet_file(directory: Path, nodes: int, port: int) -> str:
    """Return the text of the fleet file: four nodes a rack, 32 a pod, each with an address of its own."""
    names = [f"gpu-{node + 1:04}" for node in range(nodes)]
    lines = [
        "schema: stethoscope.fleet/1",
        "name: benchmark",
        f'defaults: {{user: u, port: {port}, identity_file: "{directory / "id"}", '
        f'known_hosts: "{directory / "known"}", gpus: {GPUS}}}',
        "groups:",
        *(
            f'  rack-{rack:03}: {{nodes: "gpu-[{4 * rack + 1:04}-{min(nodes, 4 * rack + 4):04}]", '
            f"rack: rack-{rack:03}, pod: pod-{rack // 8 + 1}}}"
            for rack in range(-(-nodes // 4))
        ),
        "hosts:",
        *(f"  {name}: {{address: {address(node)}}}" for node, name in enumerate(names)),
    ]
    return "\n".join(lines) + "\n"


class Servers:
    """All nodes on one port, told apart by their addresses."""

    def __init__(self, said: list[list[list[bytes]]], nodes: int, tick_s: float) -> None:
        """Serve `said`; of `nodes` the eight sick ones are spread evenly."""
        self._tick_s = tick_s
        self._numbers = {address(node): node for node in range(nodes)}
        step = nodes // SICK
        self._said = {
            node: said[HEALTHY + node // step] if node % step == step // 2 else said[node % HEALTHY]
            for node in range(nodes)
        }
        self._lost: set[int] = set()
        self.open: dict[int, asyncssh.SSHServerConnection] = {}

    def lose(self, count: int) -> None:
        """Close the connections of the last `count` nodes."""
        for node in sorted(self.open)[-count:]:
            self._lost.add(node)
            self.open[node].abort()

    def door(self) -> asyncssh.SSHServer:
        """Return what takes note of a new connection."""
        servers = self

        class Door(asyncssh.SSHServer):
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                node = servers._numbers[conn.get_extra_info("sockname")[0]]
                if node in servers._lost:
                    conn.abort()
                else:
                    servers.open[node] = conn

        return Door()

    async def play(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Be the probe of one node."""
        found = _START.search(process.command or "")
        node = self._numbers[process.get_extra_info("sockname")[0]]
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, asyncssh.Error):
            if found is None:
                process.exit(127)
                return
            drained = loop.create_task(_drain(process))
            process.stdout.write(wire.sentinel(found[1]).encode() + b"\n")
            due = loop.time()
            for pieces in self._said[node]:
                process.stdout.write((b'"wall":%.3f' % time.time()).join(pieces))
                due += self._tick_s
                await asyncio.sleep(max(0.0, due - loop.time()))
                if drained.done():
                    break
            process.exit(0)


async def _drain(process: asyncssh.SSHServerProcess[bytes]) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while await process.stdin.read(65536):
            pass


async def serve(directory: Path, nodes: int, tick_s: float, span_s: float) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    raise_file_limit(4 * nodes + 200)
    servers = Servers(streams(tick_s, span_s, nodes), nodes, tick_s)
    server = await asyncssh.listen(
        "0.0.0.0", 0, server_factory=servers.door, server_host_keys=[directory / "host"],
        authorized_client_keys=str(directory / "id.pub"), process_factory=servers.play, encoding=None, backlog=4096,
        login_timeout=600, line_editor=False,
    )  # fmt: skip
    key = " ".join((directory / "host.pub").read_text().split()[:2])
    (directory / "known").write_text(f"* {key}\n")
    (directory / "fleet.yaml").write_text(fleet_file(directory, nodes, server.get_port()))
    print(server.get_port(), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, _, count = line.partition(" ")
        if verb == "lose":
            servers.lose(int(count))


@contextlib.contextmanager
def fleet(directory: Path, nodes: int, tick_s: float, span_s: float):  # type: ignore[no-untyped-def]
    """Run the servers as a process of their own; yield it once they serve."""
    for key in ("host", "id"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key)], check=True)
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "benchmarks.rendered", str(directory), str(nodes), str(tick_s), str(span_s)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=directory, env={"PYTHONPATH": str(root)}
    )
    try:
        assert child.stdout is not None
        if not child.stdout.readline():
            raise RuntimeError("the servers did not start")
        yield child
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
