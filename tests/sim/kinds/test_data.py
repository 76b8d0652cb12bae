"""The kinds of data and checkpoints show what the catalogue says: who starves, who waits, what the clients count."""

from __future__ import annotations

import re

import pytest

from stethoscope.sim.files import gpu, host, mounts
from stethoscope.sim.parts import command
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, step_s, view
from tests.sim.worlds import mean, twin

LATE = "at: 10s, fault: data_loader_slow, where: gpu-003"
STALL = "at: 10s, fault: shared_fs_stall, where: storage/shared"


# ---------------------------------------------------------------- data_loader_slow


def test_loaders_of_one_node_starve_its_gpus_and_the_others_look_busy() -> None:
    world = twin(LATE)
    healthy = Readings(world)
    world.advance_to(200)
    now = Readings(world)
    assert step_s(world) == pytest.approx(1.4)
    # 94 -> 40-70 on the late node, 97-100 on those that wait for it.
    assert 40 <= mean(now, "gpu_util", 2) <= 72
    assert min(mean(now, "gpu_util", node) for node in (0, 1, 3, 4)) >= 96
    assert mean(now, "gpu_power_draw", 2) < mean(healthy, "gpu_power_draw", 2)
    cpu = [float(value) for value in now.node["cpu_util"]]  # type: ignore[arg-type]
    assert cpu[2] > cpu[0] + 20
    assert now.node["cpu_iowait"][2] == pytest.approx(0.25, abs=0.2)
    assert printed(world, 2, "py_spy").count("__next__ (torch/utils/data/dataloader.py") == 8
    assert "dataloader.py" not in printed(world, 0, "py_spy")


def test_loaders_that_wait_take_no_processor_and_one_rank_alone_can_be_late() -> None:
    world = twin("at: 10s, fault: data_loader_slow, where: job/7/rank/17, params: {workers_busy: false}")
    world.advance_to(200)
    now = Readings(world)
    assert step_s(world) == pytest.approx(1.4)
    util = [float(value) for value in now.gpu["gpu_util"][2]]  # type: ignore[arg-type]
    assert util[1] < 72
    assert min(value for number, value in enumerate(util) if number != 1) >= 96
    assert now.node["cpu_util"][2] == pytest.approx(float(now.node["cpu_util"][0]), abs=4)  # type: ignore[arg-type]


def test_when_all_ranks_starve_nobody_spins() -> None:
    world = twin("at: 10s, fault: data_loader_slow, where: job/7")
    world.advance_to(200)
    now = Readings(world)
    assert max(mean(now, "gpu_util", node) for node in range(5)) < 72


# ---------------------------------------------------------------- shared_fs_stall


def test_all_wait_for_the_file_system_and_the_fabric_is_idle() -> None:
    world = twin(STALL)
    healthy = Readings(world)
    world.advance_to(200)
    now = Readings(world)
    assert step_s(world) == pytest.approx(2.5)
    for node in range(5):
        assert 20 <= mean(now, "gpu_util", node) <= 50
        assert mean(now, "gpu_power_draw", node) < 0.6 * mean(healthy, "gpu_power_draw", node)
        assert 10 <= float(now.node["cpu_iowait"][node]) <= 30  # type: ignore[arg-type]
        assert 2 <= float(now.node["procs_blocked"][node]) <= 10  # type: ignore[arg-type]
        assert 2 <= host.tasks(view(world, node)).count("rpc_wait_bit_killable") <= 10
    # A node without a job reads nothing.
    assert float(now.node["cpu_iowait"][5]) < 1  # type: ignore[arg-type]


def _grown(world: object, operation: str, seconds: float = 60.0) -> list[float]:
    """Return requests, and milliseconds queued and under way for each, over some time."""
    seen = []
    for _ in range(2):
        text = mounts.files(view(world, 0))["/proc/self/mountstats"]  # type: ignore[arg-type]
        row = next(line for line in text.splitlines() if f" {operation}:" in line)
        seen.append([int(word) for word in row.split()[1:]])
        world.advance_to(world.t_s + seconds)  # type: ignore[attr-defined]
    count = seen[1][0] - seen[0][0]
    return [count / seconds, (seen[1][5] - seen[0][5]) / count, (seen[1][6] - seen[0][6]) / count]


def test_the_clients_count_how_long_they_queue_and_how_long_the_server_takes() -> None:
    world = twin(STALL)
    reads, queued, answered = _grown(world, "READ", 9.0)
    assert reads == pytest.approx(30, rel=0.05)
    assert queued + answered == pytest.approx(2.0, abs=0.3)
    world.advance_to(100)
    reads, queued, answered = _grown(world, "READ")
    assert reads == pytest.approx(12, rel=0.1)
    assert queued + answered == pytest.approx(900, rel=0.02)
    assert queued > 2 * answered
    _, queued, answered = _grown(world, "WRITE")
    assert queued + answered == pytest.approx(1500, rel=0.02)
    assert re.search(r"^ +\d+\.\d+ +400\.000$", printed(world, 0, "nfsiostat"), re.MULTILINE)


def test_a_server_that_does_not_respond_hangs_df_and_the_kernels_of_all_nodes_say_so() -> None:
    world = twin(STALL + ", params: {not_responding: true}")
    said = world.advance_to(75)
    kernel = [line for line in said if line.sink == "kernel"]
    assert {line.text for line in kernel} == {"nfs: server shared not responding, still trying"}
    assert {line.at_s for line in kernel} == {70.0}
    assert len({line.node for line in kernel}) == 6
    assert command(view(world, 0), ["df", "-PkT", "-t", "nfs", "-t", "nfs4"]).status == "timeout"
    assert command(view(world, 0), ["df", "-PklT"]).status == "ok"


def test_lustre_of_another_name_is_mounted_under_it() -> None:
    world = twin("at: 10s, fault: shared_fs_stall, where: storage/fast, params: {kind: lustre, not_responding: true}")
    assert world.advance_to(75)[0].text.startswith("LustreError: 11-0: fast-OST0001")
    files = mounts.files(view(world, 0))
    assert re.search(r" /fast .* - lustre \S+:/fast ", files["/proc/self/mountinfo"])
    states = {path: text for path, text in files.items() if path.endswith("/state") and "fast-OST0001" in path}
    assert [text.split("\n")[0] for text in states.values()] == ["current_state: DISCONN"]


# ---------------------------------------------------------------- checkpoint_stall


def test_one_rank_writes_and_the_others_give_up_after_ten_minutes() -> None:
    world = twin("at: 10s, fault: checkpoint_stall, where: job/7")
    said = world.advance_to(100)
    assert [line.text for line in said] == ["[rank0]: saving checkpoint to /shared/ckpt/step_0041210 ..."]
    now = Readings(world)
    util = [float(value) for value in now.gpu["gpu_util"][0]]  # type: ignore[arg-type]
    assert util[0] == 0
    assert min(util[1:]) >= 97
    assert mean(now, "gpu_util", 4) >= 97
    assert 100 <= mean(now, "gpu_power_draw", 4) <= 170
    assert world.job_states()[0].rank_alive[0]
    assert "save_checkpoint" in printed(world, 0, "py_spy").split("rank 1\n")[0]
    said = world.advance_to(640)
    caught = [line for line in said if "Watchdog caught" in line.text]
    assert len(caught) == 39
    assert 0 not in {line.rank for line in caught}
    assert all("NumelIn=1," in line.text for line in caught)
    assert max(line.at_s for line in caught) - min(line.at_s for line in caught) <= 1
    assert world.job_states()[0].state == "FAILED"


def test_with_a_longer_time_out_the_job_goes_on_when_it_is_written() -> None:
    world = twin("at: 10s, fault: checkpoint_stall, where: job/7, params: {write_s: 700, watchdog: false}")
    world.advance_to(705)
    assert step_s(world) is None
    said = world.advance_to(720)
    assert [line.text[-11:] for line in said] == [" in 700.0 s"]
    assert step_s(world) == pytest.approx(1.0)
    assert world.job_states()[0].state == "RUNNING"
    assert gpu.processes(view(world, 0))
