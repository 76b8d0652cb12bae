"""A real SSH client, with host keys checked, against the real servers of a simulated fleet."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncssh
import pytest

from stethoscope.clock import SystemClock
from stethoscope.collect import ondemand
from stethoscope.errors import UsageError
from stethoscope.model import wire
from stethoscope.parse.parts import read_part
from stethoscope.sim import fleetfile
from stethoscope.sim import server as sim_server
from stethoscope.sim.server import FleetServer, Node
from stethoscope.specs.fleet import read_fleet
from tests.sim.watching import groups
from tests.sim.worlds import twin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMMAND = "exec sh -c 'python3 ...' sh 'import os' n0nce42 0.5 'stethoscope.probe/1 n0nce42'"


@asynccontextmanager
async def _fleet(*events: str, start_at_s: float = 0.0, nodes: int = 3) -> AsyncIterator[FleetServer]:
    server = FleetServer(twin(*events, nodes=nodes, job_nodes="gpu-[001-002]"), SystemClock(), start_at_s=start_at_s)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def _known(node: Node) -> asyncssh.SSHKnownHosts:
    key = node.key.export_public_key().decode()
    return asyncssh.import_known_hosts(f"[{node.address}]:{node.port} {key}")


@asynccontextmanager
async def _client(
    server: FleetServer, index: int, *, known: asyncssh.SSHKnownHosts | None = None, key: asyncssh.SSHKey | None = None
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    node = server.nodes[index]
    async with asyncssh.connect(
        node.address,
        node.port,
        username="sim",
        client_keys=[key or server.client_key],
        known_hosts=known or _known(node),
        config=None,
        agent_path=None,
    ) as connection:
        yield connection


async def _start(connection: asyncssh.SSHClientConnection) -> asyncssh.SSHClientProcess[bytes]:
    process = await connection.create_process(COMMAND, encoding=None)
    process.stdin.write(b"9\npay")
    process.stdin.write(b"load..")
    assert await process.stdout.readline() == b"stethoscope.probe/1 n0nce42\n"
    return process


async def _line(process: asyncssh.SSHClientProcess[bytes]) -> wire.Message:
    return wire.decode(await asyncio.wait_for(process.stdout.readline(), 5))


async def _silence_s(process: asyncssh.SSHClientProcess[bytes]) -> float:
    """Read until nothing comes for 1.2 s, more than two ticks; return how long nothing came, 0 at the end of output."""
    while True:
        try:
            if not await asyncio.wait_for(process.stdout.readline(), 1.2):
                return 0.0
        except TimeoutError:
            return 1.2


async def test_the_probe_speaks_after_its_payload_and_goes_on_at_its_tick() -> None:
    async with _fleet() as server, _client(server, 1) as connection:
        process = await _start(connection)
        hello, full, delta = [await _line(process) for _ in range(3)]
        assert isinstance(hello, wire.Hello)
        assert (hello.host, hello.tick_s) == ("gpu-002", 0.5)
        assert isinstance(full, wire.Full)
        assert len(full.gpu["gpu_temp"]) == 8
        assert isinstance(delta, wire.Delta)
        assert [message.seq for message in (hello, full, delta)] == [0, 1, 2]
        assert full.mono < delta.mono
        assert abs(delta.wall - SystemClock().wall()) < 5


async def test_the_control_line_asks_for_frames_and_stops() -> None:
    async with _fleet() as server, _client(server, 0) as connection:
        process = await _start(connection)
        process.stdin.write(
            b'not json\n{"do":"tick","s":60}\n{"do":"run","id":7,"probe":"old"}\n{"do":"full"}\n{"do":"stop"}\n'
        )
        lines = []
        while not isinstance(line := await _line(process), wire.Bye):
            lines.append(line)
        assert sum(isinstance(line, wire.Full) for line in lines) == 2
        assert line.why == "stop"
        await process.wait()
        assert process.exit_status == 0


async def test_the_watch_line_brings_every_group_once_and_full_brings_them_again() -> None:
    names = [group["name"] for group in groups()]
    async with _fleet() as server, _client(server, 1) as connection:
        process = await _start(connection)
        process.stdin.write(json.dumps({"do": "watch", "groups": wire.dense(groups())}).encode() + b"\n")
        for _ in range(2):
            seen: list[str] = []
            while len(seen) < len(names):
                line = await _line(process)
                if isinstance(line, wire.Part):
                    assert read_part(line).group == line.name
                    seen.append(line.name)
            assert seen == names
            process.stdin.write(b'{"do":"full"}\n')


async def test_an_on_demand_probe_is_answered_at_the_end_of_its_script_and_one_that_hangs_is_not() -> None:
    event = "at: 0s, fault: driver_hung, where: gpu-002"
    async with _fleet(event, start_at_s=5.0) as server, _client(server, 1) as connection:
        command = "exec sh -c '...' stethoscope-probe {} 10 -"
        answer = await connection.run(command.format("ibstat"), input=ondemand.script("ibstat"))
        assert (answer.exit_status, str(answer.stdout).count("State: Active")) == (0, 8)
        process = await connection.create_process(command.format("nvidia_smi_topo"))
        process.stdin.write(ondemand.script("nvidia_smi_topo"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.5)
        process.stdin.write_eof()
        await asyncio.wait_for(process.wait(), 5)
        assert (await connection.run("true")).exit_status == 0


async def test_the_end_of_input_ends_the_probe() -> None:
    async with _fleet() as server, _client(server, 0) as connection:
        process = await _start(connection)
        process.stdin.write_eof()
        await asyncio.wait_for(process.wait(), 5)
        assert process.exit_status == 0
        assert not server.nodes[0].sessions


async def test_other_commands_meet_a_very_small_shell() -> None:
    async with _fleet() as server, _client(server, 0) as connection:
        assert (await connection.run("true")).exit_status == 0
        assert (await connection.run("echo hello  there")).stdout == "hello there\n"
        assert (await connection.run("rm -rf /")).exit_status == 127
        assert (await connection.run('echo "')).exit_status == 127


async def test_every_node_has_its_own_key_and_another_one_is_noticed() -> None:
    async with _fleet() as server:
        assert len({node.key.public_data for node in server.nodes}) == 3
        first, second = server.nodes[:2]
        wrong = asyncssh.import_known_hosts(f"[{first.address}]:{first.port} {second.key.export_public_key().decode()}")
        with pytest.raises(asyncssh.HostKeyNotVerifiable):
            async with _client(server, 0, known=wrong):
                pass


async def test_no_other_client_key_is_let_in() -> None:
    async with _fleet() as server:
        with pytest.raises(asyncssh.PermissionDenied):
            async with _client(server, 0, key=asyncssh.generate_private_key("ssh-ed25519")):
                pass


async def test_kernel_lines_come_as_events_also_to_a_probe_that_starts_later() -> None:
    async with _fleet("at: 1s, fault: gpu_fell_off_bus, where: gpu-001/gpu/2", start_at_s=0.9) as server:
        async with _client(server, 0) as connection:
            process = await _start(connection)
            heard: list[wire.Event] = []
            while not any("79" in event.text for event in heard):
                line = await _line(process)
                heard += [line] if isinstance(line, wire.Event) else []
        async with _client(server, 0) as connection:
            process = await _start(connection)
            again: list[wire.Event] = []
            while not any("79" in event.text for event in again):
                line = await _line(process)
                again += [line] if isinstance(line, wire.Event) else []
        assert [event.text for event in again] == [event.text for event in heard]
        assert [event.at for event in again] == [event.at for event in heard]


@pytest.mark.parametrize("how", ["power", "hang"])
async def test_a_node_without_power_falls_silent_and_takes_no_one_in(how: str) -> None:
    event = f"at: 1s, fault: node_down, where: gpu-001, params: {{how: {how}}}"
    async with _fleet(event, start_at_s=0.5) as server, _client(server, 0) as connection, _client(server, 1) as other:
        process, living = await _start(connection), await _start(other)
        assert await _silence_s(process) >= 1.2
        assert server.nodes[0].link == how
        assert not process.stdout.at_eof()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), _client(server, 0):
                pass
        assert isinstance(await _line(living), wire.Hello)


async def test_a_panic_breaks_connections_and_the_node_returns_with_a_new_boot() -> None:
    event = "at: 1s, fault: node_down, where: gpu-001, params: {how: panic, back_after: 500ms}"
    async with _fleet(event, start_at_s=0.6) as server:
        async with _client(server, 0) as connection:
            process = await _start(connection)
            hello = await _line(process)
            await asyncio.wait_for(connection.wait_closed(), 5)
        while server.nodes[0].link != "up":
            await asyncio.sleep(0.02)
        async with _client(server, 0) as connection:
            again = await _line(await _start(connection))
        assert isinstance(hello, wire.Hello)
        assert isinstance(again, wire.Hello)
        assert hello.boot_id != again.boot_id
        assert again.mono < 60 < hello.mono


async def test_a_node_whose_sshd_is_gone_refuses_until_it_is_back() -> None:
    event = "at: 1s, until: 1500ms, fault: node_unreachable_but_job_alive, where: gpu-001, params: {how: sshd}"
    async with _fleet(event, start_at_s=0.6) as server:
        async with _client(server, 0) as connection:
            await _line(await _start(connection))
            await asyncio.wait_for(connection.wait_closed(), 5)
        with pytest.raises(ConnectionRefusedError):
            async with _client(server, 0):
                pass
        while server.nodes[0].link != "up":
            await asyncio.sleep(0.02)
        async with _client(server, 0) as connection:
            assert isinstance(await _line(await _start(connection)), wire.Hello)


async def test_a_node_without_an_interpreter_takes_us_in_and_says_so() -> None:
    event = "at: 0s, fault: monitor_heartbeat_lost, where: gpu-001, params: {how: no_python}"
    async with _fleet(event, start_at_s=1) as server, _client(server, 0) as connection:
        process = await connection.create_process(COMMAND, encoding=None)
        process.stdin.write(b"9\npayload..")
        assert await asyncio.wait_for(process.stdout.readline(), 5) == b"n0nce42 no-python\n"
        assert (await process.wait()).exit_status == 127


async def test_the_fleet_file_leads_a_client_to_every_node(tmp_path: Path) -> None:
    async with _fleet() as server:
        path = tmp_path / "fleet.yaml"
        fleetfile.write(server, path, tmp_path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "client_key").stat().st_mode & 0o777 == 0o600
        fleet = read_fleet(path)
        assert fleet.simulated
        assert [node.name for node in fleet.nodes] == ["gpu-001", "gpu-002", "gpu-003"]
        assert {(node.rack, node.pod, node.expected_gpus) for node in fleet.nodes} == {("rack-01", "pod-01", 8)}
        for node in fleet.nodes:
            async with asyncssh.connect(
                node.address or "",
                node.port or 0,
                username=node.user,
                client_keys=[node.identity_file],
                known_hosts=node.known_hosts,
                config=None,
                agent_path=None,
            ) as connection:
                assert (await connection.run("true")).exit_status == 0


async def test_with_one_loopback_address_the_nodes_differ_by_port(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sim_server._socket

    def one_address(address: str, port: int) -> object:
        if address != "127.0.0.1":
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return real(address, port)

    monkeypatch.setattr(sim_server, "_socket", one_address)
    async with _fleet() as server:
        assert {node.address for node in server.nodes} == {"127.0.0.1"}
        assert len({node.port for node in server.nodes}) == 3
        async with _client(server, 2) as connection:
            hello = await _line(await _start(connection))
            assert isinstance(hello, wire.Hello)
            assert hello.host == "gpu-003"


async def test_a_port_that_is_taken_everywhere_is_said() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        server = FleetServer(twin(), SystemClock())
        with pytest.raises(UsageError, match="in use"):
            await server.start(taken.getsockname()[1])
