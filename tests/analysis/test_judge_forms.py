"""Lines in forms of other versions and frameworks than the usual ones: each must alarm, and name whom it can."""

from __future__ import annotations

import pytest

from tests.analysis.job_lines import answer, bars, by, timed_out, verdict_of

NCCL = "node-4:77:91 [0] "


@pytest.mark.parametrize(
    ("line", "cause", "severity"),
    [
        ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "multi_job_contention", "P1"),
        ("Cuda failure common.cu:901 'CUDA driver version is insufficient for CUDA runtime version'",
         "version_mismatch", "P1"),
        (NCCL + "init.cu:671 WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
         "version_mismatch", "P1"),
        ("(Worker pid=7) CUDA Error: out of memory at /build/csrc/allocator.cpp:71", "gpu_oom", "P1"),
        ("ValueError: No available memory for the cache blocks. Try increasing it.", "gpu_oom", "P1"),
        ("Too many open files. Communication with the workers is no longer possible.", "resource_limits", "P1"),
        (NCCL + "include/socket.h:394 NCCL WARN Connect to fe80::5054:ff:fe12:3456%4<40112> failed : Network is"
         " unreachable", "wrong_interface", "P1"),
        (NCCL + "include/socket.h:362 NCCL WARN Call to connect timeout : Connection refused",
         "firewall_or_port_blocked", "P1"),
        (NCCL + "rdma_init:7975 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",
         "config_env_error", "P1"),
        (NCCL + "init.cc:77 NCCL WARN Something that no version said before", "unknown", "P1"),
        ("  what():  [/p/third_party/gloo/gloo/transport/tcp/pair.cc:760] connect [127.0.1.1]:5217: Connection refused",
         "dns_or_hostname", "P1"),
        ("  what():  [/p/third_party/gloo/gloo/transport/tcp/pair.cc:760] connect [10.1.2.3]:5217: Connection refused",
         "firewall_or_port_blocked", "P1"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "host_oom", "P1"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "scheduler_preemption", "P2"),
        ("=>> PBS: job killed: mem 41427376kb exceeded limit 33554432kb", "host_oom", "P1"),
        ("Job exceeded its walltime limit. Job was aborted", "scheduler_preemption", "P2"),
        ("E core/ring_reducer.cc:362] Aborting RingReduce with Unavailable: Socket closed", "peer_process_died", "P1"),
        (NCCL + "enqueue.cc:117 NCCL WARN Cuda failure 'API call is not supported in the installed CUDA driver'",
         "version_mismatch", "P1"),
        ("Exception: Caught Exception in DataLoader worker process 4.", "data_loading", "P1"),
        ("Exception: the reader met an empty shard", "cuda_app_bug", "P1"),
        ("download failed: s3://data/shard-000077.tar to - [Errno 32] Broken pipe", "data_loading", "P1"),
        ("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
         "loss_divergence", "P1"),
        ("OSError: [Errno 30] Read-only file system: '/local/cache/a'", "fs_full_or_readonly", "P0"),
        ("[c10d] The IPv6 network addresses of (head, 29500) cannot be retrieved (gai error: -3 - Temporary failure in"
         " name resolution).", "dns_or_hostname", "P1"),
    ],
)  # fmt: skip
def test_one_line_is_enough(line: str, cause: str, severity: str) -> None:
    assert answer(verdict_of(line))[:2] == (cause, severity)


@pytest.mark.parametrize(
    "line",
    [
        NCCL + "NCCL INFO Could not find real path of /sys/class/net/veth0/device",
        NCCL + "misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "[0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        NCCL + "misc/cudawrap.cc:171 NCCL WARN Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='')",
    ],
)
def test_what_containers_say_is_no_fault(line: str) -> None:
    assert verdict_of(line, bars(5)).root_cause == "healthy"
    assert verdict_of(line).root_cause == "healthy"


def test_a_watchdog_without_sizes_is_a_time_out() -> None:
    line = "[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, "
    line += "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1801649 milliseconds before timing out."
    assert answer(verdict_of(bars(20), line))[:2] == ("unknown", "P1")


def test_one_waiting_rank_does_not_accuse_all_lower_ones() -> None:
    verdict = verdict_of(timed_out(2, 733))
    assert answer(verdict) == ("unknown", "P1", [])
    assert "never came" not in verdict.summary


def test_the_only_rank_that_is_missing_of_many_is_named() -> None:
    verdict = verdict_of([timed_out(rank, 733) for rank in range(8) if rank != 5])
    assert [c.rank for c in verdict.culprits] == [5]


def test_ray_names_the_node_without_memory() -> None:
    line = "(raylet) node_manager.cc:3064: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers"
    line += " crashed due to other reasons at node (ID: 5f2a, IP: 10.1.2.3) over the last time period."
    assert answer(verdict_of(line)) == ("host_oom", "P1", [(None, "10.1.2.3")])


def test_a_launcher_that_is_silent_is_named() -> None:
    line = (
        "The node 'node-c07_4711_0' has failed to send a keep-alive heartbeat to the rendezvous 'none' due to an error"
    )
    assert answer(verdict_of(line)) == ("unknown", "P1", [(None, "node-c07")])


def test_an_event_of_the_launcher_names_rank_and_host() -> None:
    line = (
        '{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "metadata": {"run_id": "7", "global_rank": 5'
    )
    line += ', "group_rank": 1, "worker_id": "4711", "role": "default", "hostname": "node-c07", "state": "FAILED"}}'
    assert answer(verdict_of(line)) == ("unknown", "P1", [(5, "node-c07")])


def test_a_table_of_failures_alone_names_its_first_rank() -> None:
    rows = ["train.py FAILED", "Failures:", "[1]:", "  host      : n1.example", "  rank      : 1 (local_rank: 1)"]
    rows += [
        "  exitcode  : 1 (pid: 4712)",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-03-01_05:16:50",
    ]
    rows += ["  host      : n1.example", "  rank      : 0 (local_rank: 0)", "  exitcode  : 1 (pid: 4711)"]
    assert answer(verdict_of(rows)) == ("peer_process_died", "P1", [(0, "n1")])


def test_a_bus_error_says_which_space_ran_out() -> None:
    bus = "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. Out of shared memory?"
    assert verdict_of("OSError: [Errno 28] No space left on device", bus).root_cause == "shm_too_small"
    assert verdict_of("OSError: [Errno 28] No space left on device").root_cause == "fs_full_or_readonly"


def test_numbers_that_are_none_are_a_matter_of_the_mathematics() -> None:
    line = "AssertionError: Rank 9: found NaN in local grad norm in backward pass before data-parallel communication"
    verdict = verdict_of(by(9, line + " collective. Device: 1, node: node-c07"))
    assert answer(verdict) == ("loss_divergence", "P1", [(9, "node-c07")])
    row = (
        "iteration {}/ 900 | elapsed time per iteration (ms): 4247.9 | grad norm: nan | number of nan iterations:   0 |"
    )
    assert answer(verdict_of([row.format(i) for i in range(5)]))[:2] == ("loss_divergence", "P1")
    assert verdict_of([row.format(i).replace("norm: nan", "norm: 0.7") for i in range(5)]).root_cause == "healthy"


def test_a_process_that_ends_badly_after_the_end_is_no_health() -> None:
    ended = "{'train_runtime': 119.8, 'train_samples_per_second': 2.5, 'train_loss': 1.2, 'epoch': 2.57}"
    failed = "failed (exitcode: {}) local_rank: 0 (pid: 5037) of binary: /usr/bin/python3"
    assert answer(verdict_of(bars(9), ended, failed.format(1)))[:2] == ("peer_process_died", "P1")
    assert verdict_of(bars(9), ended, failed.format(-15)).root_cause == "healthy"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["      Reason:       CrashLoopBackOff", "      Reason:       OOMKilled", "      Exit Code:    137"],
         ("host_oom", "P1", [])),
        (["1m  1m  1  nb.154  Pod  Warning   Evicted  kubelet, n-1   The node was low on resource: memory."],
         ("host_oom", "P1", [])),
        (["An MPI communication peer process has unexpectedly disconnected.  This", "usually indicates a failure",
          "  Local host: node-a3", "  Peer host:  node-c7"], ("peer_process_died", "P1", [(None, "node-c7")])),
        (["Aborted: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt"],
         ("peer_process_died", "P1", [])),
        (["E c/coordination_service.cc:950] /job:jax_worker/replica:0/task:5 has been set to ERROR in coordination"
          " service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout."],
         ("peer_process_died", "P1", [(5, None)])),
        (["jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client."],
         ("unknown", "P1", [])),
        (["Memory access fault by GPU node-4 (Agent handle: 0x5581) on address 0x7f0000000000. Reason: Unknown."],
         ("cuda_app_bug", "P1", [])),
        (["[c10d] TCP client failed to connect/validate to host 10.1.2.3:29500 - retrying (try=6, timeout=1800000ms,"
          " delay=5241ms): Connection reset by peer"], ("unknown", "P1", [])),
    ],
)  # fmt: skip
def test_schedulers_and_other_frameworks(
    lines: list[str], wanted: tuple[str, str, list[tuple[int | None, str | None]]]
) -> None:
    assert answer(verdict_of(lines)) == wanted


def test_the_loopback_interface_of_an_old_version_is_the_wrong_one() -> None:
    lines = ["node-5:7:9 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>"]
    lines += ["node-4:77:91 [0] NCCL INFO NET : Using interface eth0:10.1.2.3<0>"]
    lines += ["node-4:77:91 [0] include/socket.h:362 NCCL WARN Call to connect timeout : Connection refused"]
    assert answer(verdict_of(lines)) == ("wrong_interface", "P1", [(None, "node-5")])
