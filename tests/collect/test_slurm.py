"""Slurm's commands, here and over a real sshd: versions, states and jobs, what does not exist, what does not answer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect import slurm as slurm_module
from stethoscope.collect.command import Answer, CommandError, LocalRunner, SshRunner
from stethoscope.collect.slurm import LiveSlurm, Slurm
from stethoscope.errors import UnreachableError, UsageError
from stethoscope.model.scheduler import Standing
from stethoscope.specs.fleet import FleetNode
from tests.fake_slurm import NODES, FakeSlurm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.collect.sshd import Sshd


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    made = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", made.path)
    return made


async def test_nodes_and_their_gpus_by_text(fake: FakeSlurm) -> None:
    slurm = Slurm(LocalRunner())
    read = await slurm.nodes()
    assert [(node.name, node.address, node.gpus) for node in read.nodes] == [
        ("gpu-001", "10.0.0.1", 8),
        ("gpu-002", "gpu-002", 8),
        ("cpu-001", "cpu-001", 0),
    ]
    assert slurm.version == "22.05.8"
    assert fake.calls() == ["scontrol --version", "scontrol show node -o"]
    assert fake.zones() == {"UTC0"}


async def test_json_where_the_version_has_it_and_text_where_its_plugins_lack(fake: FakeSlurm) -> None:
    fake.say("scontrol --version", "slurm-wlm 24.11.5\n")
    fake.say("scontrol show node --json", json.dumps({"nodes": [{"name": "gpu-009", "state": ["IDLE"]}]}))
    slurm = Slurm(LocalRunner())
    assert [node.name for node in (await slurm.nodes()).nodes] == ["gpu-009"]
    fake.say("scontrol show node --json", error="scontrol: error: Couldn't find the specified plugin name\n")
    assert len((await slurm.nodes()).nodes) == 3
    assert len((await slurm.nodes()).nodes) == 3
    assert fake.calls()[-2:] == ["scontrol show node -o"] * 2


async def test_a_job_and_a_partition(fake: FakeSlurm) -> None:
    slurm = Slurm(LocalRunner())
    job, nodes = await slurm.job_nodes("4242")
    assert (job.name, job.stdout, nodes) == ("llm", "/shared/slurm-4242.out", ("gpu-001", "gpu-002"))
    assert await slurm.partition_nodes("train") == ("gpu-001", "gpu-002")
    assert [found.id for found in await slurm.running_jobs()] == ["4242"]
    assert fake.calls()[-1].startswith("squeue --noheader --all --states=RUNNING,COMPLETING,SUSPENDED -o %i|%T|")


async def test_what_is_not_there(fake: FakeSlurm) -> None:
    slurm = Slurm(LocalRunner())
    with pytest.raises(UsageError, match="knows no job 9"):
        await slurm.job_nodes("9")
    fake.say("scontrol show job 5", "JobId=5 JobName=a\n   JobState=PENDING NodeList=(null)\n")
    with pytest.raises(UsageError, match="job 5 is pending: it has no nodes yet"):
        await slurm.job_nodes("5")
    with pytest.raises(UsageError, match="knows no partition nope"):
        await slurm.partition_nodes("nope")


@pytest.mark.parametrize("word", ["1;id", "$(id)", "-o", "--json", "", "a b", "1\n2"])
async def test_nothing_but_names_reaches_a_command(fake: FakeSlurm, word: str) -> None:
    slurm = Slurm(LocalRunner())
    with pytest.raises(UsageError):
        await slurm.job_nodes(word)
    with pytest.raises(UsageError):
        await slurm.partition_nodes(word)
    assert fake.calls() == []


async def test_no_scontrol_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="no scontrol on this machine: name a machine that has it with --slurm-via"):
        await Slurm(LocalRunner()).nodes()


async def test_a_controller_that_is_gone(fake: FakeSlurm) -> None:
    fake.say(
        "scontrol show node",
        error="slurm_load_node error: Unable to contact slurm controller\x1b[31m (connect failure)\n",
    )
    with pytest.raises(UnreachableError, match=r"Unable to contact slurm controller \(connect failure\)"):
        await Slurm(LocalRunner()).nodes()


async def test_one_that_does_not_answer_costs_its_time(fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_module, "LIMIT_S", 0.5)
    fake.say("scontrol show node", delay=True)
    with pytest.raises(UnreachableError, match=r"no answer in 0\.5 s"):
        await Slurm(LocalRunner()).nodes()


async def test_live_states_by_name_host_name_or_address(fake: FakeSlurm) -> None:
    live = LiveSlurm(
        Slurm(LocalRunner()), [("a", "10.0.0.1"), ("gpu-002.cluster", None), ("cpu-001", None), ("x", None)]
    )
    reading = await live.read()
    assert reading.note == ""
    assert reading.nodes["a"].jobs == ("4242",)
    assert reading.nodes["gpu-002.cluster"].phrase == "drained: maint BMC firmware (root)"
    assert reading.nodes["gpu-002.cluster"].since == 1_773_454_447.0
    assert reading.nodes["cpu-001"].standing is Standing.DOWN
    assert [job.id for job in reading.jobs] == ["4242"]
    fake.say("squeue", error="slurm_load_jobs error\n")
    assert (await live.read()).note == "Slurm on this machine: slurm_load_jobs error"


async def test_over_ssh_on_one_connection(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path / "slurm", version="slurm 20.11.9")
    sshd = sshds(environment={"PATH": fake.path})
    node = FleetNode(
        "login",
        address=sshd.address,
        port=sshd.port,
        identity_file=str(sshd.identity),
        known_hosts=str(sshd.known_hosts),
    )
    slurm = Slurm(SshRunner(node, ssh_config="none"))
    try:
        assert len((await slurm.nodes()).nodes) == 3
        assert (await slurm.job_nodes("4242"))[1] == ("gpu-001", "gpu-002")
        assert len((await slurm.nodes(("gpu-001", "gpu-002"))).nodes) == 3
        assert [job.user for job in await slurm.running_jobs()] == ["alice"]
    finally:
        await slurm.close()
    # Brackets and percent signs arrive as they were meant.
    assert "scontrol show node gpu-[001-002] -o" in fake.calls()
    assert fake.calls()[-1].endswith("-o %i|%T|%P|%u|%S|%B|%N|%j")
    assert sshd.log.read_text().count("Accepted publickey") == 1


async def test_a_login_node_that_is_not_there() -> None:
    runner = SshRunner(FleetNode("login", address="127.0.0.1", port=1), ssh_config="none")
    with pytest.raises(UnreachableError, match=r"login: refused: 127\.0\.0\.1:1 refuses connections"):
        await Slurm(runner).nodes()
    await runner.close()


async def test_more_than_an_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stethoscope.collect.command.OUTPUT_LIMIT", 1 << 20)
    with pytest.raises(CommandError, match="more than 1 MiB of output"):
        await LocalRunner().run(["yes"], 20)


class Flaky:
    """A runner whose first answer is a lost connection."""

    where = "login"

    def __init__(self) -> None:
        self.asked = 0

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        self.asked += 1
        if self.asked == 1:
            raise CommandError("login: the connection was lost")
        if "--version" in arguments:
            return Answer(0, b"slurm 20.11.9\n", "")
        return Answer(0, NODES.encode() if "node" in arguments else b"", "")

    async def close(self) -> None:
        await asyncio.sleep(0)


async def test_what_failed_once_is_tried_again() -> None:
    live = LiveSlurm(Slurm(Flaky()), [("gpu-001", None)])
    assert "connection was lost" in (await live.read()).note
    assert (await live.read()).nodes["gpu-001"].words == ("allocated",)
