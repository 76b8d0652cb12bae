"""What a link costs the console: `python -m benchmarks.links [nodes] [tick_s] [steady_s]`.

Prints, per node, the CPU of this process from nothing to the first full frame, for three sets of files: one pattern in
known_hosts and no SSH configuration; 2,000 plain entries and 2,000 `Host` blocks; the same with hashed names. The floor
beside them is asyncssh connecting with everything prepared and no supervision; the peer is clush, which lets 64 `ssh`
at once fetch one frame each. Then ten times as many nodes, of which 5 % are dead: a third refuses, a third does not
answer, a third is mute. The servers are another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh

from stethoscope.clock import SystemClock
from stethoscope.collect import dial as _imported_before_the_clock_runs
from stethoscope.collect.fanout import SLOTS, raise_file_limit
from stethoscope.collect.program import Program
from stethoscope.collect.ssh import SshSource
from stethoscope.model import wire
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.session.session import THREADS
from stethoscope.specs.fleet import Fleet, FleetNode

if TYPE_CHECKING:
    from collections.abc import Iterator

assert _imported_before_the_clock_runs
ENTRIES = 2000
PAYLOAD = b"x" * 12_000
FRAME = wire.encode(
    wire.Full(
        seq=1,
        mono=1.0,
        wall=2.0,
        node={f"node_metric_{number}": number * 1.5 for number in range(30)},
        gpu={f"gpu_metric_{number}": [123.5 + gpu for gpu in range(8)] for number in range(70)},
    )
)


def address(node: int) -> str:
    """Return the loopback address of a node."""
    return f"127.70.{node // 250}.{node % 250 + 1}"


def cpu_s() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def serve(directory: Path) -> None:
    """Serve all nodes on one port; print it."""

    async def play(process: asyncssh.SSHServerProcess[bytes]) -> None:
        if not (process.command or "").startswith("probe "):
            process.stdout.write(FRAME + b"\n")
            process.exit(0)
            return
        nonce, tick = (process.command or "").split()[-2:]
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, asyncssh.Error):
            process.stdout.write(wire.sentinel(nonce).encode() + b"\n")
            due = loop.time()
            while not process.stdin.at_eof():
                process.stdout.write(FRAME + b"\n")
                due += float(tick)
                await asyncio.sleep(max(0.0, due - loop.time()))
            process.exit(0)

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    raise_file_limit(20_000)
    server = await asyncssh.listen(
        "0.0.0.0",
        0,
        server_host_keys=[directory / "host"],
        authorized_client_keys=str(directory / "id.pub"),
        process_factory=play,
        encoding=None,
        backlog=4096,
        login_timeout=600,
        line_editor=False,
    )
    print(server.get_port(), flush=True)
    await asyncio.Event().wait()


class Sink:
    """Counts."""

    def __init__(self, nodes: int) -> None:
        """Wait for so many live nodes."""
        self.frames = 0
        self.waiting = nodes
        self.all_live = asyncio.Event()

    def on_frame(self, frame: Frame) -> None:
        """Count a frame."""
        self.frames += 1

    def on_link(self, node: str, link: Link) -> None:
        """Count down."""
        if link.state is LinkState.LIVE:
            self.waiting -= 1
            if self.waiting == 0:
                self.all_live.set()


async def ours(name: str, nodes: tuple[FleetNode, ...], ssh_config: str, steady_s: float, dead: int = 0) -> None:
    """Connect to all nodes, of which so many are dead, through the source and print what it cost."""
    program = Program(lambda nonce, tick_s: f"probe {nonce} {tick_s}", lambda: PAYLOAD)
    sink = Sink(len(nodes) - dead)
    source = SshSource(Fleet("benchmark", nodes), SystemClock(), ssh_config=ssh_config, program=program)
    cpu, start = cpu_s(), time.perf_counter()
    task = asyncio.create_task(source.run(sink))
    async with asyncio.timeout(300):
        await sink.all_live.wait()
    cost = 1000 * (cpu_s() - cpu) / len(nodes)
    which = f"{len(nodes) - dead:,} of {len(nodes):,}" if dead else "all"
    print(f"{name:8} {cost:6.2f} ms of CPU a node, {which} live after {time.perf_counter() - start:.1f} s")
    if steady_s:
        gc.collect()
        gc.freeze()
        frames, cpu, start = sink.frames, cpu_s(), time.perf_counter()
        await asyncio.sleep(steady_s)
        elapsed = time.perf_counter() - start
        print(
            f"{'':8} {(sink.frames - frames) / elapsed:.0f} frames/s: {100 * (cpu_s() - cpu) / elapsed:.1f} % of a core"
        )
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def floor(directory: Path, port: int, nodes: int) -> None:
    """Connect to all nodes with asyncssh alone and print what it cost."""
    key, trusted = asyncssh.read_private_key(directory / "id"), asyncssh.read_public_key(directory / "host.pub")
    slots = asyncio.Semaphore(SLOTS)
    connections = []

    class Session(asyncssh.SSHClientSession[bytes]):
        def __init__(self) -> None:
            self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
            if not self.first.done():
                self.first.set_result(None)

    async def one(node: int) -> None:
        async with slots:
            connection = await asyncssh.connect(
                address(node),
                port,
                username="u",
                client_keys=[key],
                config=None,
                agent_path=None,
                known_hosts=lambda _host, _address, _port: ([trusted], [], []),
                encryption_algs=["aes128-gcm@openssh.com"],
                kex_algs=["curve25519-sha256"],
                compression_algs=["none"],
                x509_trusted_certs=None,
            )
            channel, session = await connection.create_session(Session, "probe abc 5", encoding=None)
            channel.write(PAYLOAD)
            await session.first
            connections.append(connection)

    cpu, start = cpu_s(), time.perf_counter()
    await asyncio.gather(*(one(node) for node in range(nodes)))
    cost = 1000 * (cpu_s() - cpu) / nodes
    print(f"{'floor':8} {cost:6.2f} ms of CPU a node, all live after {time.perf_counter() - start:.1f} s")
    for connection in connections:
        connection.abort()
    await asyncio.gather(*(connection.wait_closed() for connection in connections))


def clush(directory: Path, port: int, nodes: int) -> None:
    """Fetch one frame of all nodes with clush and print what it cost, its `ssh` included."""
    program, ssh = Path(sys.executable).with_name("clush"), shutil.which("ssh")
    found = str(program) if program.exists() else shutil.which("clush")
    if found is None or ssh is None:
        print(f"{'clush':8} skipped: {'clush' if found is None else 'ssh'} is not installed")
        return
    options = (
        f"-F none -p {port} -i {directory / 'id'} -o UserKnownHostsFile={directory / 'plain'} -o IdentitiesOnly=yes "
        "-o BatchMode=yes -o LogLevel=ERROR"
    )
    where = ",".join(address(node) for node in range(nodes))
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [found, "-S", "-q", "-f", "64", "-l", "u", "-o", options, "-w", where, "frame"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / nodes
    fetched = len(ran.stdout.splitlines())
    print(f"{'clush':8} {cost:6.2f} ms of CPU a node, {fetched} frames fetched after {elapsed:.1f} s")


@contextlib.contextmanager
def dead_ports() -> Iterator[tuple[int, int, int]]:
    """Yield a port that refuses, one that does not answer, and one that accepts and stays mute."""
    with socket.socket() as closed, socket.socket() as full, socket.create_server(("0.0.0.0", 0), backlog=4096) as mute:
        closed.bind(("0.0.0.0", 0))
        full.bind(("0.0.0.0", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", full.getsockname()[1]))
        yield closed.getsockname()[1], full.getsockname()[1], mute.getsockname()[1]
        for filler in fillers:
            filler.close()


async def wave(fleet: tuple[FleetNode, ...]) -> None:
    """Connect to a fleet of which every twentieth node is dead."""
    with dead_ports() as ports:
        dead = [node for node in range(len(fleet)) if node % 20 == 7]
        mixed = list(fleet)
        for number, node in enumerate(dead):
            mixed[node] = replace(fleet[node], port=ports[number % 3])
        await ours("5 % dead", tuple(mixed), "none", 0.0, len(dead))


async def measure(directory: Path, port: int, nodes: int, tick_s: float, steady_s: float) -> None:
    """Run all cases one after the other."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    raise_file_limit(10 * nodes)
    key, identity = " ".join((directory / "host.pub").read_text().split()[:2]), directory / "id"
    await floor(directory, port, 20)
    await floor(directory, port, nodes)
    (directory / "plain").write_text(f"* {key}\n")
    fleet = tuple(
        FleetNode(f"n{node}", address(node), port, "u", None, str(identity), str(directory / "plain"), tick_s=tick_s)
        for node in range(10 * nodes)
    )
    await asyncio.to_thread(clush, directory, port, nodes)
    await ours("plain", fleet[:nodes], "none", steady_s)
    await wave(fleet)
    entries = "".join(f"[{address(node)}]:{port} {key}\n" for node in range(ENTRIES))
    blocks = "".join(f"Host n{node}\n  HostName {address(node)}\n  Port {port}\n" for node in range(ENTRIES))
    bare = tuple(FleetNode(f"n{node}", tick_s=tick_s) for node in range(nodes))
    for name in ("many", "hashed"):
        known = directory / name
        known.write_text(entries)
        if name == "hashed":
            subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
        config = directory / f"{name}.config"
        config.write_text(f"{blocks}Host *\n  User u\n  IdentityFile {identity}\n  UserKnownHostsFile {known}\n")
        await ours(name, bare, str(config), 0.0)


def main() -> None:
    """Start the servers and measure."""
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
        return
    given = sys.argv[1:4]
    nodes, tick_s, steady_s = (float(text) for text in (*given, *("200", "5", "10")[len(given) :]))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for key in ("host", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key)], check=True)
        command = [sys.executable, "-m", "benchmarks.links", "serve", name]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            asyncio.run(measure(directory, port, int(nodes), tick_s, steady_s))
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
