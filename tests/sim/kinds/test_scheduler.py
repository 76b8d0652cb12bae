"""What shares machines, who ends jobs, and what is harmless, shows what the catalogue says."""

from __future__ import annotations

import pytest

from stethoscope.sim import slurm
from stethoscope.sim.files.gpu import fields
from stethoscope.sim.logs import SharedLogs, path_of
from stethoscope.sim.readings import Readings
from tests.sim.looks import rate, step_s, view, waiting
from tests.sim.worlds import gpu, mean, twin

# ---------------------------------------------------------------- multi_job_contention


def test_a_leftover_on_a_gpu_makes_its_rank_late_and_stays_in_the_list_of_processes() -> None:
    world = twin("at: 10s, fault: multi_job_contention, where: gpu-002/gpu/3")
    world.advance_to(200)
    now = Readings(world)
    # fc = 1 / (1 - 0.35)
    assert step_s(world) == pytest.approx(1 + 0.62 * (1 / 0.65 - 1), abs=0.001)
    assert gpu(now, "gpu_util", 1, 3) >= 98
    assert gpu(now, "gpu_power_draw", 1, 3) > mean(now, "gpu_power_draw", 0) + 50
    assert 5 <= 100 * (gpu(now, "gpu_fb_used", 1, 3) - gpu(now, "gpu_fb_used", 1, 2)) / 81_559 <= 20
    part = fields(view(world, 1))
    assert part is not None
    assert part["gpu"]["gpu_process_count"] == [1, 1, 1, 2, 1, 1, 1, 1]
    pid = next(app[1] for app in part["apps"] if app[0] == 3 and app[1] < 20_000)
    assert part["files"][f"/proc/{pid}/comm"] == "python3\n"
    assert "job_" not in part["files"][f"/proc/{pid}/cgroup"]
    assert part["files"][f"/proc/{pid}/user"] == "bob"


def test_another_job_on_a_gpu_is_one_that_slurm_knows() -> None:
    world = twin(
        "at: 10s, fault: multi_job_contention, where: gpu-002/gpu/3, "
        "params: {foreign_job: 8800, foreign_proc: vllm, nvlink_share: 0.5}"
    )
    usual = float(world.machine.rates["nvlink_tx"][1, 3])
    world.advance_to(30)
    part = fields(view(world, 1))
    assert part is not None
    pid = next(app[1] for app in part["apps"] if app[1] < 20_000)
    assert "/job_8800/" in part["files"][f"/proc/{pid}/cgroup"]
    assert "8800 RUNNING gpu-002\n" in slurm.answer(world, ["squeue", "-o", "%i %T %N"])[1]
    assert float(world.machine.rates["nvlink_tx"][1, 3]) > usual
    # The collective has 1 - 0.3 * 0.5 of its bandwidth.
    assert step_s(world) == pytest.approx(1 + 0.62 * (1 / 0.65 - 1) + 0.25 * (1 / 0.85 - 1), abs=0.001)


def test_a_job_that_shares_a_leaf_lets_all_ranks_wait_longer_in_their_collective() -> None:
    world = twin("at: 10s, fault: multi_job_contention, where: leaf/leaf-02-3, params: {foreign_job: 8800}")
    world.advance_to(100)
    assert step_s(world) == pytest.approx(1 + 0.25 * (1 / 0.6 - 1))
    assert waiting(world, 4, 3) > 5 * waiting(world, 4, 2)
    # gpu-006 is behind the same leaf and has no job of ours.
    assert rate(world, "ib_port_xmit_data", 5, 3) * 32 / 1e9 == pytest.approx(320, rel=0.02)
    assert "8800 gpu-006\n" in slurm.answer(world, ["squeue", "-o", "%i %N"])[1]


# ---------------------------------------------------------------- scheduler_preemption, job_finished


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [("PREEMPTION", "PREEMPTED", " DUE TO PREEMPTION ***"), ("TIME LIMIT", "TIMEOUT", " DUE TO TIME LIMIT ***"),
     ("NODE FAILURE", "NODE_FAIL", " DUE TO NODE FAILURE ***"), ("(cancelled)", "CANCELLED", " ***")],
)  # fmt: skip
def test_slurm_ends_all_ranks_in_the_same_seconds_and_says_why(reason: str, state: str, words: str) -> None:
    world = twin(f'at: 10s, fault: scheduler_preemption, where: job/7, params: {{reason: "{reason}"}}')
    logs = SharedLogs(world)
    said = world.advance_to(12)
    logs.take(said)
    ended = [line for line in said if line.sink == "slurm"]
    assert len({line.node for line in ended}) == 5
    assert {line.at_s for line in ended} == {10.0}
    assert all(line.text.startswith("slurmstepd: error: *** JOB 7 ON gpu-00") for line in ended)
    assert all(line.text.endswith(words) for line in ended)
    assert ("DUE TO" in ended[0].text) == (state != "CANCELLED")
    assert "*** JOB 7 ON gpu-001 CANCELLED AT" in logs.files[path_of("7")].decode()
    assert not any(world.job_states()[0].rank_alive)
    assert world.job_states()[0].state == state
    assert f"JobState={state} " in slurm.answer(world, ["scontrol", "show", "job", "7"])[1]
    assert slurm.answer(world, ["squeue", "-o", "%i"])[1] == ""
    assert not any("NCCL" in line.text for line in said)
    world.advance_to(30)
    assert mean(Readings(world), "gpu_util", 0) == 0


def test_a_job_that_is_done_leaves_its_nodes_idle() -> None:
    world = twin("at: 10s, fault: job_finished, where: job/7")
    said = world.advance_to(60)
    assert [line.text for line in said] == ["[rank0]: training finished, final checkpoint saved"]
    assert world.job_states()[0].state == "COMPLETED"
    assert "ExitCode=0:0" in slurm.answer(world, ["scontrol", "show", "job", "7"])[1]
    now = Readings(world)
    assert max(mean(now, "gpu_util", node) for node in range(5)) == 0
    assert {world.slurm_state(node) for node in range(5)} == {"idle"}


# ---------------------------------------------------------------- checkpoint_periodic, ambient_shift


def test_a_job_pauses_for_its_checkpoints_at_regular_times() -> None:
    world = twin("at: 0s, fault: checkpoint_periodic, where: job/7, params: {every: 2m, write_s: 25}")
    logs = SharedLogs(world)
    logs.take(world.advance_to(90))
    assert step_s(world) == pytest.approx(1.0)
    logs.take(world.advance_to(100))
    assert step_s(world) is None
    assert max(mean(Readings(world), "gpu_util", node) for node in range(5)) == 0
    logs.take(world.advance_to(125))
    assert step_s(world) == pytest.approx(1.0)
    logs.take(world.advance_to(300))
    saved = [line for line in logs.files[path_of("7")].decode().splitlines() if "done in" in line]
    assert saved == [
        "[rank0]: saving checkpoint to /shared/ckpt/step_0041295 ... done in 24.8 s",
        "[rank0]: saving checkpoint to /shared/ckpt/step_0041390 ... done in 24.8 s",
    ]


def test_warm_air_warms_all_alike_and_slows_all_by_a_little() -> None:
    world = twin("at: 10s, fault: ambient_shift, where: fleet")
    healthy = Readings(world)
    world.advance_to(1200)
    now = Readings(world)
    assert step_s(world) == pytest.approx(1 + 0.015 * 0.62, abs=1e-4)
    for node in range(5):
        assert mean(now, "gpu_temp", node) - mean(healthy, "gpu_temp", node) == pytest.approx(4, abs=1)
        assert mean(now, "gpu_sm_clock", node) / mean(healthy, "gpu_sm_clock", node) == pytest.approx(0.985, abs=0.01)
    assert {int(value) & 0x68 for row in now.gpu["gpu_clocks_event_reasons"] for value in row} == {0}  # type: ignore[arg-type]
