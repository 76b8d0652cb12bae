"""The login node of a simulated fleet, asked over SSH by what asks real ones; and a session that reads it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import SystemClock
from stethoscope.collect.command import LocalRunner, SshRunner
from stethoscope.collect.slurm import Slurm
from stethoscope.errors import UsageError
from stethoscope.model.scheduler import Standing
from stethoscope.session.check import check
from stethoscope.session.open import open_fleet_file
from stethoscope.sim import fleetfile, slurm
from stethoscope.sim.login import LoginServer
from stethoscope.sim.server import FleetServer
from stethoscope.specs.fleet import read_fleet
from tests.sim.worlds import twin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DRAINS = (
    'at: 0s, fault: maintenance_drain, where: gpu-005, params: {reason: "maint: BMC", down: true}',
    'at: 0s, fault: maintenance_drain, where: gpu-001, params: {reason: "swap optic"}',
)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@asynccontextmanager
async def served(directory: Path, *events: str, start_at_s: float = 1.0) -> AsyncIterator[Path]:
    """Serve five nodes, two of them in job 7, and yield the path of their fleet file."""
    world = twin(*events, nodes=5, job_nodes="gpu-[001-002]")
    server = FleetServer(world, SystemClock(), start_at_s=start_at_s)
    login = LoginServer(server)
    path = directory / "fleet.yaml"
    try:
        await server.start()
        await login.start()
        fleetfile.write(server, path, directory / "private", login)
        yield path
    finally:
        await login.close()
        await server.close()


async def test_it_answers_as_a_login_node(tmp_path: Path) -> None:
    async with served(tmp_path, *DRAINS) as path:
        fleet = read_fleet(path)
        assert fleet.slurm is not None
        assert fleet.slurm.node is not None
        runner = SshRunner(fleet.slurm.node, ssh_config="none")
        asked = Slurm(runner)
        try:
            nodes = {node.name: node for node in (await asked.nodes()).nodes}
            assert asked.version == slurm.VERSION
            assert (nodes["gpu-005"].states, nodes["gpu-005"].reason, nodes["gpu-005"].owner) == (
                ("idle", "drain"), "maint: BMC", "root",
            )  # fmt: skip
            assert (nodes["gpu-001"].states, nodes["gpu-001"].gpus, nodes["gpu-001"].gpu_model) == (
                ("allocated", "drain"), 8, "h100",
            )  # fmt: skip
            assert nodes["gpu-003"].states == ("idle",)
            text = await runner.run(["env", "TZ=UTC0", "scontrol", "show", "node", "gpu-005", "-o"], 5)
            assert b"State=IDLE+DRAIN" in text.stdout
            assert b"Reason=maint: BMC [root@20" in text.stdout
            job, names = await asked.job_nodes("7")
            assert (job.user, job.stdout, names) == ("alice", "/shared/train/slurm-7.out", ("gpu-001", "gpu-002"))
            assert [(found.id, found.nodes) for found in await asked.running_jobs()] == [("7", names)]
            assert len(await asked.partition_nodes("train")) == 5
            assert (await asked.topology()).startswith("SwitchName=rack-01")
            with pytest.raises(UsageError, match="no job 8"):
                await asked.job_nodes("8")
            assert (await runner.run(["id"], 5)).status == 127
        finally:
            await asked.close()


async def test_a_look_at_the_fleet_blames_no_drained_node(tmp_path: Path) -> None:
    hot = "at: 0s, fault: gpu_fell_off_bus, where: gpu-004/gpu/2"
    drained = "at: 0s, fault: maintenance_drain, where: gpu-004"
    async with served(tmp_path, *DRAINS, hot, drained, start_at_s=60) as path:
        session = await asyncio.to_thread(open_fleet_file, path)
        result = await check(session, apart_s=1.0)
    nodes = {node.name: node.scheduler for node in result.snapshot.nodes}
    standing = {name: state.standing for name, state in nodes.items() if state is not None}
    assert standing == {
        "gpu-001": Standing.DRAINING,
        "gpu-002": Standing.SERVING,
        "gpu-003": Standing.SERVING,
        "gpu-004": Standing.DRAINED,
        "gpu-005": Standing.DRAINED,
    }
    assert [job.id for job in result.snapshot.jobs] == ["7"]
    found = {finding.nodes: (finding.severity.value, finding.summary) for finding in result.findings}
    assert found["gpu-004"][0] == "info"
    assert found["gpu-004"][1].endswith("drained: maint: firmware (root)")
    assert found["gpu-005"][0] == "info"
    assert not [finding for finding in result.findings if finding.severity.value in ("P0", "P1")]


async def test_a_login_node_that_is_gone_is_a_note_and_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as path:
        # A file without a login and one with a dead one differ in the note alone.
        head, _, rest = path.read_text().partition("slurm: ")
        dead = head + "slurm: {via: login, address: 127.0.0.1, port: 1}\n" + rest.partition("\n")[2]
        path.write_text(dead)
        session = await asyncio.to_thread(open_fleet_file, path)
        result = await check(session, apart_s=0.5)
    assert "login: refused" in result.snapshot.scheduler_note
    assert len(result.reached) == 5
    assert result.findings == ()
    assert all(node.scheduler is None for node in result.snapshot.nodes)


async def test_commands_here_are_run_without_a_shell() -> None:
    answer = await LocalRunner().run(["printf", "%s", "$(id); x"], 5)
    assert (answer.status, answer.stdout) == (0, b"$(id); x")
