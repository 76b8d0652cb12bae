"""How processes ended and what they said: the cause is who failed by itself, not who met its absence."""

from __future__ import annotations

import pytest

from stethoscope.analysis.judge_ranks import tasks_in
from tests.analysis.job_lines import TRACEBACK, answer, bars, by, judge_files, steps, table, timed_out, verdict_of

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has a total capacity of 79.15 GiB of"
    " which 1.20 GiB is free. Process 2301 has 77.94 GiB memory in use. Of the allocated memory 74.01 GiB is allocated"
    " by PyTorch, and 2.60 GiB is reserved by PyTorch but unallocated."
)
FOREIGN_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of"
    " which 200.00 MiB is free. Process 111 has 70.20 GiB memory in use. Process 2301 has 8.60 GiB memory in use. Of"
    " the allocated memory 7.01 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch but unallocated."
)
VICTIMS = [timed_out(rank, 733) for rank in range(16) if rank != 5]


def test_a_rank_out_of_memory_below_fifteen_time_outs_is_the_cause() -> None:
    verdict = verdict_of(bars(20), VICTIMS, by(5, OUT_OF_MEMORY))
    assert answer(verdict) == ("gpu_oom", "P1", [(5, None)])
    assert verdict.summary.startswith("Rank 5: GPU memory ran out (torch.OutOfMemoryError: CUDA out of memory.")


def test_memory_that_others_hold_is_contention() -> None:
    assert answer(verdict_of(by(0, FOREIGN_MEMORY))) == ("multi_job_contention", "P2", [(0, None)])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda_app_bug"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_app_bug"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_memory_fault"),
        ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", "nvlink_fault"),
        ("RuntimeError: CUDA error: invalid device ordinal", "config_env_error"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "version_mismatch"),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "multi_job_contention"),
        ("RuntimeError: CUDA error: out of memory", "gpu_oom"),
        ("RuntimeError: DataLoader worker (pid 4411) is killed by signal: Killed. ", "host_oom"),
        ("RuntimeError: DataLoader timed out after 300 seconds", "data_loading"),
        ("RuntimeError: can't start new thread", "resource_limits"),
        ("OSError: [Errno 24] Too many open files", "resource_limits"),
        ("OSError: [Errno 28] No space left on device: '/tmp/inductor/abc'", "fs_full_or_readonly"),
        ("OSError: [Errno 28] No space left on device: '/scratch/ckpt/global_step500/rank4.pt'", "ckpt_io"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/torch_11'", "shm_too_small"),
        ("OSError: [Errno 5] Input/output error: '/mnt/data/shard_0001.tar'", "storage_io"),
        ("OSError: [Errno 12] Cannot allocate memory", "host_oom"),
        ("OSError: libcudart.so.12: cannot open shared object file: No such file or directory", "config_env_error"),
        ("ImportError: /opt/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister", "version_mismatch"),
        ("ModuleNotFoundError: No module named 'flash_attn'", "config_env_error"),
        ("requests.exceptions.ConnectionError: Failed to resolve 'hub.example' (name resolution)", "dns_or_hostname"),
        ("KeyError: 'attention_mask'", "cuda_app_bug"),
    ],
)
def test_an_exception_of_one_rank_beats_the_time_outs_of_the_others(text: str, cause: str) -> None:
    verdict = verdict_of(bars(10), by(3, text), [timed_out(rank, 50) for rank in (0, 1, 2)])
    assert (verdict.root_cause, verdict.culprits[0].rank) == (cause, 3)
    assert verdict.confidence >= 0.6


def test_a_quota_that_is_full_while_a_checkpoint_is_written_is_the_checkpoint() -> None:
    saving = "Saving model checkpoint to /home/u/out/checkpoint-100"
    verdict = verdict_of(bars(10), saving, by(0, "OSError: [Errno 122] Disk quota exceeded"))
    assert answer(verdict) == ("ckpt_io", "P1", [(0, None)])


def test_the_launcher_names_the_rank_of_a_traceback_without_one() -> None:
    verdict = verdict_of(bars(10), "free(): invalid pointer", table("w3", 9, 1, code=-6))
    assert answer(verdict) == ("cuda_app_bug", "P1", [(9, "w3")])


@pytest.mark.parametrize(
    ("code", "cause", "severity"),
    [
        (-9, "host_oom", "P1"),
        (-7, "shm_too_small", "P1"),
        (-11, "cuda_app_bug", "P1"),
        (-15, "scheduler_preemption", "P2"),
    ],
)
def test_exit_codes_alone_are_believed_little(code: int, cause: str, severity: str) -> None:
    verdict = verdict_of(bars(10), table("node-b", 11, 3, code=code))
    assert answer(verdict) == (cause, severity, [(11, "node-b")])
    assert verdict.confidence <= 0.5


def test_the_kernel_proves_what_the_exit_code_hints_at() -> None:
    killed = (
        "Mar 14 01:14:50 node-b kernel: Memory cgroup out of memory: Killed process 4711 (python) total-vm:98123456kB,"
        " anon-rss:63123456kB, file-rss:1234kB, shmem-rss:2048kB, UID:0 pgtables:1kB oom_score_adj:0"
    )
    verdict = verdict_of(table("node-a", 0, 0, code=-6, pid=99), killed, table("node-b", 11, 3, code=-9))
    assert answer(verdict) == ("host_oom", "P1", [(11, "node-b")])
    assert verdict.confidence >= 0.85


def test_a_pod_killed_for_its_memory_is_the_rank_that_the_launcher_names() -> None:
    said = ["$ kubectl describe pod worker-2", "    State:          Terminated", "      Reason:       OOMKilled"]
    assert answer(verdict_of(table("worker-2", 19, 3, code=-9), said)) == ("host_oom", "P1", [(19, "worker-2")])


def test_a_time_limit_explains_what_breaks_after_it() -> None:
    verdict = verdict_of(
        [f"0: {line}" for line in steps(10, 200)],
        "slurmstepd: error: *** STEP 4815.0 ON gpu-a03 CANCELLED AT 2026-03-14T02:00:12 DUE TO TIME LIMIT ***",
        "1: gpu-a03:22:23 [1] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer"
        " gpu-a04<48022>",
        "srun: error: gpu-a04: tasks 8-15: Terminated",
    )
    assert answer(verdict) == ("scheduler_preemption", "P2", [(None, "gpu-a03")])
    assert verdict.confidence >= 0.85


def test_a_cancel_because_a_task_failed_is_not_the_cause() -> None:
    verdict = verdict_of(
        ["11: Traceback (most recent call last):", "11: ValueError: batch of 8 does not match 7"],
        "srun: error: gpu-a04: task 11: Exited with exit code 1",
        "slurmstepd: error: *** STEP 4815.0 ON gpu-a03 CANCELLED AT 2026-03-14T02:00:12 ***",
        "srun: error: gpu-a03: tasks 0-7: Terminated",
    )
    assert answer(verdict) == ("cuda_app_bug", "P1", [(11, "gpu-a04")])


def test_a_cancel_without_a_reason_is_believed_little() -> None:
    cancelled = "slurmstepd: error: *** JOB 4815 ON gpu-a03 CANCELLED AT 2026-03-14T02:00:12 ***"
    verdict = verdict_of(steps(10, 200), cancelled)
    assert answer(verdict) == ("scheduler_preemption", "P2", [(None, "gpu-a03")])
    assert verdict.confidence <= 0.5
    assert verdict.missing == ("sacct -j JOB -o State,ExitCode,Reason: by a person, or because a task had failed",)


def test_a_lost_node_is_the_node_that_srun_names() -> None:
    verdict = verdict_of(
        steps(10, 200),
        "srun: error: Node failure on gpu-a07",
        "slurmstepd: error: *** STEP 9.0 ON gpu-a03 CANCELLED AT 2026-03-14T02:00:12 DUE TO NODE FAILURE, SEE SLURMCTLD"
        " LOG FOR DETAILS ***",
    )
    assert answer(verdict) == ("node_down", "P0", [(None, "gpu-a07")])


def test_a_person_at_the_keyboard_ended_a_run_that_worked() -> None:
    verdict = verdict_of(steps(10, 200), "^Csrun: sending Ctrl-C to StepId=5.0", "KeyboardInterrupt")
    assert (verdict.root_cause, str(verdict.severity)) == ("scheduler_preemption", "P2")


def test_a_worker_that_ray_lost_is_named_by_its_address() -> None:
    lost = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff"
        " Worker ID: d8 Node ID: 84 Worker IP address: 10.1.24.110 Worker port: 10185 Worker PID: 907 Worker exit type:"
        " SYSTEM_ERROR Worker exit detail: end of file."
    )
    verdict = verdict_of(lost, [timed_out(rank, 40) for rank in range(4)])
    assert answer(verdict) == ("peer_process_died", "P1", [(None, "10.1.24.110")])
    assert verdict.confidence <= 0.6


def test_of_two_independent_faults_the_earlier_is_the_cause() -> None:
    verdict, others = judge_files(
        {
            "a.log": [f"2026-03-14 01:10:0{i},000 INFO step {i} loss 2.{i} 1.0 s/step" for i in range(5)]
            + ["2026-03-14 01:14:53,001 [rank3]: " + line for line in by(3, OUT_OF_MEMORY)[-1:]],
            "b.log": [
                "[2026-03-14 02:10:20] n9:22:23 [0] transport/net_ib.cc:173 NCCL WARN NET/IB : mlx5_3:1 Got async error"
                " event: port error"
            ],
        }
    )
    assert verdict.root_cause == "gpu_oom"
    assert [other.root_cause for other in others] == ["ib_link_fault"]


@pytest.mark.parametrize(
    ("text", "tasks"), [("11", [11]), ("0-7", [0, 1, 2, 3, 4, 5, 6, 7]), ("[0-1,8]", [0, 1, 8]), ("", [])]
)
def test_task_lists_of_slurm(text: str, tasks: list[int]) -> None:
    assert tasks_in(text) == tasks


def test_an_error_survives_nothing_when_its_file_merely_stands_before_the_work() -> None:
    error = ["[rank3]: " + line for line in [*TRACEBACK, "torch.OutOfMemoryError: CUDA out of memory."]]
    assert answer(verdict_of(error, steps(10, 200))) == ("gpu_oom", "P1", [(3, None)])
    assert answer(verdict_of(steps(200, 300), error, steps(10, 200))) == ("gpu_oom", "P1", [(3, None)])
    assert verdict_of(steps(10, 200), error, steps(200, 300)).root_cause == "healthy"
