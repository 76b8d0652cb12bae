"""The kinds of programs show what the catalogue says: who dies first, who stands, what the logs and tools tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from stethoscope.sim import slurm
from stethoscope.sim.files.gpu import processes
from stethoscope.sim.logs import SharedLogs, path_of
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, rate, step_s, view
from tests.sim.worlds import gpu, mean, twin

if TYPE_CHECKING:
    from stethoscope.sim.twin import Twin


def _printed_by_job(world: Twin, until_s: int) -> list[str]:
    logs = SharedLogs(world)
    for second in range(5, until_s + 1, 5):
        logs.take(world.advance_to(float(second)))
    return logs.files[path_of("7")].decode().splitlines()


# ---------------------------------------------------------------- rank_process_died


def test_the_first_rank_to_end_frees_its_memory_before_all_others() -> None:
    world = twin("at: 10s, fault: rank_process_died, where: job/7/rank/13")
    said = world.advance_to(16)
    first = said[0]
    assert (first.sink, first.node, first.at_s) == ("kernel", "gpu-002", 10.0)
    assert first.text.startswith("python3[20102]: segfault at 0 ip ")
    now = Readings(world)
    assert gpu(now, "gpu_fb_used", 1, 5) == 0
    assert gpu(now, "gpu_fb_used", 1, 4) > 70_000
    assert mean(now, "gpu_util", 0) >= 97
    alive = world.job_states()[0].rank_alive
    assert [rank for rank, is_alive in enumerate(alive) if not is_alive] == [13]
    # Peers complain between 0.1 and 5 s later, the launcher and Slurm after them.
    said += world.advance_to(60)
    peers = [line for line in said if "remote process exited" in line.text or "Connection closed" in line.text]
    assert {0.1 <= line.at_s - 10 <= 5 for line in peers} == {True}
    failed = next(line for line in said if "failed (exitcode" in line.text)
    assert "failed (exitcode: -11) local_rank: 5 " in failed.text
    assert failed.node == "gpu-002"
    assert 5 <= failed.at_s - 10 <= 30
    assert said[-1].text.startswith("slurmstepd: error: *** STEP 7.0 ON gpu-002 CANCELLED AT ")
    assert world.job_states()[0].state == "FAILED"
    assert "7.0|train|FAILED|0:11|" in slurm.answer(world, ["sacct", "-P", "-j", "7"])[1]


def test_a_rank_may_end_without_a_word_and_leave_the_others_waiting() -> None:
    world = twin("at: 10s, fault: rank_process_died, where: job/7/rank/13, params: {signal: silent, outcome: hang}")
    assert world.advance_to(600) == []
    assert mean(Readings(world), "gpu_util", 3) >= 97
    assert "The missing rank: 13\n" in printed(world, 0, "nccl_ras")
    said = world.advance_to(620)
    assert len([line for line in said if "Watchdog caught" in line.text]) == 39


def test_a_whole_job_may_end_in_one_second() -> None:
    world = twin("at: 10s, fault: rank_process_died, where: job/7, params: {all_ranks: true, signal: exception}")
    said = world.advance_to(11)
    assert len([line for line in said if "ValueError" in line.text]) == 40
    assert not any(world.job_states()[0].rank_alive)


# ---------------------------------------------------------------- app_illegal_access, rank_cuda_oom


@pytest.mark.parametrize(("xid", "words"), [(31, "MMU Fault"), (13, "Warp Exception")])
def test_an_illegal_access_has_its_xid_a_traceback_and_no_memory_error(xid: int, words: str) -> None:
    world = twin(f"at: 10s, fault: app_illegal_access, where: gpu-002/gpu/3, params: {{xid: {xid}}}")
    said = world.advance_to(40)
    kernel = [line.text for line in said if line.sink == "kernel"]
    assert len(kernel) == 2
    assert f": {xid}, " in kernel[0]
    assert words in kernel[0]
    assert ": 43, pid=" in kernel[1]
    traced = next(line.text for line in said if line.rank == 11)
    assert traced == "[rank11]: RuntimeError: CUDA error: an illegal memory access was encountered"
    assert not world.job_states()[0].rank_alive[11]
    assert "SRAM Uncorrectable" in printed(world, 1, "nvidia_smi_q", "3")
    assert world.job_states()[0].state == "FAILED"


def test_a_full_gpu_is_seen_full_before_its_rank_ends() -> None:
    world = twin("at: 10s, fault: rank_cuda_oom, where: job/7/rank/13, params: {foreign_gb: 20}")
    said = world.advance_to(14)
    assert [line.text[:62] for line in said] == ["[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to"]
    now = Readings(world)
    total = gpu(now, "gpu_fb_total", 1, 5)
    assert gpu(now, "gpu_fb_used", 1, 5) / total == pytest.approx(0.998, abs=0.001)
    assert gpu(now, "gpu_fb_used", 1, 4) / total == pytest.approx(0.88, abs=0.001)
    world.advance_to(20)
    now = Readings(world)
    assert gpu(now, "gpu_fb_used", 1, 5) == pytest.approx(20 * 1024)
    assert [app[0] for app in processes(view(world, 1))].count(5) == 1
    assert not world.job_states()[0].rank_alive[13]


# ---------------------------------------------------------------- collective_mismatch


def test_a_symmetric_hang_has_no_culprit_and_no_error() -> None:
    world = twin("at: 10s, fault: collective_mismatch, where: job/7")
    assert world.advance_to(300) == []
    now = Readings(world)
    for node in range(5):
        assert mean(now, "gpu_util", node) >= 97
        assert 100 <= mean(now, "gpu_power_draw", node) <= 170
        assert rate(world, "ib_port_xmit_data", node, 0, 1) == 0
    assert {state for row in now.port["ib_port_state"] for state in row} == {4}
    assert "RUNNING  OK" in printed(world, 0, "nccl_ras")
    assert (world.printed_at("job/7", "flight_recorder") or "").startswith("no dumps")
    said = world.advance_to(640)
    assert len({line.rank for line in said if "Watchdog caught" in line.text}) == 40


def test_ranks_that_did_not_join_do_nothing_and_are_named_by_who_looks() -> None:
    world = twin(
        "at: 10s, fault: collective_mismatch, where: job/7, "
        'params: {behind: [3, 17], ras: mismatch, flight_recorder: "on", py_spy: differs}'
    )
    world.advance_to(100)
    now = Readings(world)
    assert (gpu(now, "gpu_util", 0, 3), gpu(now, "gpu_util", 2, 1)) == (0, 0)
    assert gpu(now, "gpu_util", 0, 4) >= 97
    ras = printed(world, 0, "nccl_ras")
    assert "MISMATCH" in ras
    assert "Rank 3 -- GPU 3" in ras
    assert "Rank 17 -- GPU 1" in ras
    assert "missing ranks: {3, 17}" in (world.printed_at("job/7", "flight_recorder") or "")
    assert "evaluate (" in printed(world, 0, "py_spy")


def test_a_mismatch_that_ras_sees_is_printed_also_where_nobody_says_whose() -> None:
    world = twin("at: 10s, fault: collective_mismatch, where: job/7, params: {ras: mismatch}")
    world.advance_to(100)
    ras = printed(world, 0, "nccl_ras")
    assert "MISMATCH" in ras
    assert [line.split()[1] for line in ras.splitlines() if line.startswith("  Rank ")] == ["5", "21", "37"]


# ---------------------------------------------------------------- timeout_too_short, drifts


def test_a_job_whose_rank_0_prepares_dies_ten_minutes_after_its_start_every_time() -> None:
    world = twin("at: 10s, fault: timeout_too_short, where: job/7/rank/0")
    world.advance_to(100)
    now = Readings(world)
    assert gpu(now, "gpu_util", 0, 0) == 0
    assert mean(now, "gpu_util", 3) >= 97
    assert max(gpu(now, "gpu_fb_used", node, 2) for node in range(5)) < 2000
    assert float(now.node["cpu_util"][0]) > float(now.node["cpu_util"][1]) + 10  # type: ignore[arg-type]
    said = world.advance_to(640)
    caught = [line for line in said if "Watchdog caught" in line.text]
    assert len(caught) == 39
    assert all("SeqNum=1," in line.text and "NumelIn=1," in line.text for line in caught)
    assert world.job_states()[0].state == "FAILED"
    quick = twin("at: 10s, fault: timeout_too_short, where: job/7/rank/0, params: {work_s: 300}")
    quick.advance_to(400)
    assert step_s(quick) == pytest.approx(1.0)


def test_another_driver_is_seen_and_may_slow_the_node_or_keep_the_job_from_starting() -> None:
    world = twin("at: 10s, fault: driver_version_drift, where: gpu-002, params: {effect: slow, compute_factor: 1.2}")
    world.advance_to(20)
    assert [view(world, node).build.driver_version for node in (0, 1)] == ["550.90.07", "535.183.01"]
    assert step_s(world) == pytest.approx(1.0 + 0.2 * 0.62)
    world = twin("at: 10s, fault: driver_version_drift, where: gpu-002, params: {effect: start_fail}")
    said = world.advance_to(60)
    assert [line.text for line in said if line.sink == "kernel"] == [
        "NVRM: API mismatch: the client 'python3' (pid 20097)"
    ]
    assert Readings(world).node["gpu_count"][1] == "error"
    assert world.job_states()[0].state == "FAILED"


def test_adapters_that_are_not_listed_carry_nothing_and_the_others_twice_as_much() -> None:
    world = twin("at: 10s, fault: nccl_env_drift, where: gpu-002")
    usual = rate(world, "ib_port_xmit_data", 1, 0, 9)
    said = world.advance_to(60)
    assert "gpu-002:20097:20697 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0,mlx5_1,mlx5_2,mlx5_3" in [
        line.text for line in said
    ]
    using = {line.node: line.text for line in said if "NET/IB : Using" in line.text}
    assert "mlx5_3:1/IB [RO]" in using["gpu-002"]
    assert "mlx5_7:1/IB [RO]" in using["gpu-001"]
    assert step_s(world) == pytest.approx(1.25)
    pace = 1 / 1.25
    assert rate(world, "ib_port_xmit_data", 1, 0) / usual == pytest.approx(2 * pace, rel=0.03)
    assert rate(world, "ib_port_xmit_data", 1, 6) == 0
    assert rate(world, "ib_port_xmit_data", 0, 6) / usual == pytest.approx(pace, rel=0.03)
    assert "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3" in printed(world, 1, "env_diff")
    assert "NCCL_IB_HCA=mlx5\n" in printed(world, 0, "env_diff")


# ---------------------------------------------------------------- loss_divergence


def test_the_loss_climbs_then_is_no_number_at_full_speed() -> None:
    world = twin("at: 30s, fault: loss_divergence, where: job/7")
    lines = _printed_by_job(world, 200)
    steps = [line for line in lines if " samples/s" in line][-19:]
    losses = [float(line.split("loss ")[1].split()[0]) for line in steps]
    norms = [float(line.split("grad_norm ")[1].split()[0]) for line in steps]
    assert losses[0] == pytest.approx(1.8, abs=0.05)
    highest = max(loss for loss in losses if not math.isnan(loss))
    assert 2 <= highest / losses[0] <= 5
    assert max(norm for norm in norms if not math.isnan(norm)) > 10
    assert math.isnan(losses[-1])
    assert math.isnan(norms[-1])
    assert any(line.endswith("| loss nan | grad_norm nan | lr 2.95e-04 | skipping update") for line in lines)
    assert step_s(world) == pytest.approx(1.0)
    world = twin('at: 10s, fault: loss_divergence, where: job/7, params: {to: "6"}')
    last = _printed_by_job(world, 200)[-1]
    assert float(last.split("loss ")[1].split()[0]) == pytest.approx(6, abs=0.3)
