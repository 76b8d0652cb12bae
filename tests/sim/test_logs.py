"""Logs of simulated nodes, read over real SSH by what reads those of real ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect import nodelog, ondemand
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import Commands
from stethoscope.sim.logs import EVERY_S, PAST_S, SharedLogs, path_of
from tests.sim.test_server import _client, _fleet
from tests.sim.worlds import twin

if TYPE_CHECKING:
    import asyncssh

CRASH = "at: 30s, fault: gpu_fell_off_bus, where: gpu-001/gpu/2, params: {outcome: crash, crash_after: 5s}"


class Over:
    """A source with one node, behind a connection."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.commands = Commands()
        self._connection = connection

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        return await ondemand.run_over(self._connection, line, text, limit_s)


async def test_any_node_reads_what_the_job_prints_and_its_own_kernel_log() -> None:
    async with _fleet(CRASH, start_at_s=60.0) as server, _client(server, 0) as first, _client(server, 2) as third:
        piece = await nodelog.tail(Over(third), "gpu-003", path_of("7"))
        job = piece.data.decode()
        assert "[rank2]" in job or "CUDA error" in job
        assert piece.position.offset == piece.size == len(piece.data)
        again = await nodelog.tail(Over(third), "gpu-003", path_of("7"), piece.position)
        assert again.at == piece.size
        assert not again.is_new_file
        kernel = (await nodelog.kernel_log(Over(first), "gpu-001", server.twin.wall_at_0)).decode()
        assert "Xid (PCI:0000:" in kernel
        assert "GPU has fallen off the bus" in kernel
        at = float(next(line for line in kernel.splitlines() if "Xid" in line).split()[0])
        assert 30 <= at - server.twin.wall_at_0 <= 60
        assert await nodelog.kernel_log(Over(first), "gpu-001", server.twin.wall_at_0 + 3600) == b""
        with pytest.raises(CommandError, match="no such file"):
            await nodelog.tail(Over(first), "gpu-001", "/shared/train/none.out")


def test_a_running_job_says_how_far_it_is_and_a_dead_one_does_not() -> None:
    world = twin(CRASH, nodes=3, job_nodes="gpu-[001-002]")
    logs = SharedLogs(world)
    for second in range(121):
        logs.take(world.advance_to(float(second)))
    lines = logs.files[path_of("7")].decode().splitlines()
    steps = [line for line in lines if " step " in line]
    past = round(PAST_S / EVERY_S)
    assert " step 41210 | loss 1.79" in steps[past]
    assert re.search(
        r"step_time (?:0\.99|1\.00)\d\d s \| data_time 0\.0[45]\d\d s \| (?:99\d|100\d)\.\d samples/s", steps[past]
    )
    assert past <= len(steps) <= past + 1 + 35 / EVERY_S
    assert any("CUDA error" in line or "NCCL" in line for line in lines)
