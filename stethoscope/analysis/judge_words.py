"""The words of a verdict: one sentence, what to check next, what would settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.analysis.judge_case import Candidate
    from stethoscope.model.logs import Culprit

TITLES = {
    "wrong_interface": "connections between nodes go over an interface that does not lead there",
    "firewall_or_port_blocked": "the address is right and something on the way drops or refuses the connection",
    "dns_or_hostname": "a host name does not resolve, or resolves to the wrong address",
    "ib_link_fault": "a fabric link failed: cable, transceiver, port or adapter",
    "ib_link_down": "a fabric port is down",
    "nic_fault": "a network adapter failed",
    "roce_misconfig": "the lossless Ethernet path is set wrong: flow control, priorities, MTU or routing",
    "gid_or_pkey_misconfig": "queue pairs use an address entry that cannot reach the peer: GID, P_Key or subnet",
    "topology_or_affinity": "GPUs and network ports are paired so that they cannot reach each other, or only slowly",
    "p2p_acs_iommu": "ACS, IOMMU or virtualisation breaks direct access between GPUs, or of network adapters to GPUs",
    "nvlink_fault": "NVLink between GPUs is down or faulty",
    "pcie_fault": "a PCIe link reports errors",
    "gpu_fallen_off_bus": "a GPU no longer answers",
    "gpu_memory_fault": "memory of a GPU has an uncorrectable error",
    "gpu_hw_fault": "a GPU failed",
    "fabric_manager_fault": "the NVLink fabric is not set up: Fabric Manager, NVLS or IMEX",
    "gpu_oom": "GPU memory ran out",
    "host_oom": "host or cgroup memory ran out and a process was killed",
    "peer_process_died": "a process left first and the others lost their connection to it; its own reason is not here",
    "shm_too_small": "shared memory (/dev/shm) is too small or not usable",
    "resource_limits": "a limit of the process was reached: locked memory, open files, processes or ports",
    "version_mismatch": "two versions meet that do not fit: NCCL, driver or libraries",
    "driver_bug": "the driver reports something that cannot be, or refuses what it should do",
    "nccl_bug": "a defect of this NCCL or plug-in version",
    "cuda_app_bug": "the program itself failed",
    "collective_mismatch_desync": "ranks issued different collectives and wait for each other",
    "straggler_or_slow_rank": "one rank is slower than the others and sets the pace",
    "data_loading": "the input pipeline starves the job or ends at different steps on different ranks",
    "storage_io": "a file system or disk failed or stalled",
    "ckpt_io": "saving or reading a checkpoint failed or took too long",
    "timeout_too_short": "legitimate long work outlived the time-out of the others",
    "config_env_error": "environment, launch arguments, devices or container are set wrong",
    "multi_job_contention": "another job or a leftover process holds what this one needs",
    "scheduler_preemption": "the scheduler or a person ended the job",
    "node_down": "a node of the job is gone",
    "healthy": "nothing is wrong",
    "unknown": "it failed and nothing here says why",
}
CHECKS: dict[str, tuple[str, ...]] = {
    "ckpt_io": (
        "is the checkpoint complete: size and time of its files; write latency of the file system at that time",
        "stack of the saving rank next time (py-spy dump); sharded or asynchronous saving, longer time-out around it",
    ),
    "timeout_too_short": (
        "do the long work before init_process_group, once for all, or on all ranks",
        "raise the time-out: init_process_group(timeout=...), ddp_timeout; NCCL_TIMEOUT does not exist",
    ),
    "data_loading": (
        "count batches and files per rank; drop the tail, pad, or use Join",
        "stack of a loader worker on that rank; num_workers, prefetch, storage latency",
    ),
    "collective_mismatch_desync": (
        "which code runs on some ranks only: saving, evaluation, logging, early exit",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL or the flight recorder on the next run",
    ),
    "host_oom": (
        "dmesg -T | grep -iE 'oom|killed process' on that host; memory.events of the job's cgroup",
        "fewer loader workers and prefetch; memory during checkpoint and offload",
    ),
    "gpu_oom": (
        "which rank and step; other processes on that GPU (nvidia-smi)",
        "smaller batch or longest sample; expandable_segments; the time-outs that follow mean nothing",
    ),
    "peer_process_died": ("the log and the kernel log of the named peer for the same minute",),
    "scheduler_preemption": ("sacct -j JOB -o State,ExitCode,Reason,NodeList; go on from the last checkpoint",),
    "multi_job_contention": (
        "ss -ltnp and nvidia-smi on that host: who holds it; end the leftover, one port for each job",
    ),
    "cuda_app_bug": (
        "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer on the first rank that failed",
        "does it follow the code and the data, or the GPU?",
    ),
    "p2p_acs_iommu": (
        "the same run with NCCL_P2P_DISABLE=1 and with NCCL_NET_GDR_LEVEL=LOC: which one helps?",
        "lspci -vvv | grep ACSCtl (SrcValid+ is bad); iommu=pt or off; nvidia-peermem",
    ),
    "fabric_manager_fault": (
        "systemctl status nvidia-fabricmanager; is its version the driver's, was it restarted since boot?",
        "nvidia-smi -q | grep -A3 Fabric: State Completed, Status Success; after a restart reset all GPUs",
    ),
    "nvlink_fault": ("nvidia-smi nvlink -s and -e on the host; dmesg for Xid 74, SXid, 144-150",),
    "gpu_memory_fault": ("nvidia-smi -q -d ECC,ROW_REMAPPER on the host; drain, reset, dcgmi diag -r 3",),
    "gpu_hw_fault": ("dmesg -T | grep -i xid on the host; drain, reset, dcgmi diag -r 3",),
    "gpu_fallen_off_bus": ("dmesg for Xid 79 and AER on the host; drain, power-cycle, reseat",),
    "version_mismatch": ("print the versions on every host: NCCL, driver, container image, LD_LIBRARY_PATH",),
    "unknown": ("logs of all ranks and kernel logs of all hosts for the minute before the first error",),
}


def sentence(candidate: Candidate) -> str:
    """Return the verdict in one plain sentence."""
    said = candidate.summary or TITLES.get(candidate.root_cause, candidate.root_cause.replace("_", " "))
    whom = named(candidate.culprits)
    line = candidate.first.event.text.strip() if candidate.first is not None else ""
    text = f"{whom}: {said}" if whom else said
    if not candidate.summary and candidate.supports and candidate.kind:
        text += f": {candidate.supports[0].fact}"
    elif not candidate.summary and line and not candidate.kind:
        text += f" ({line[:140]})"
    return text[:1].upper() + text[1:]


def named(culprits: list[Culprit]) -> str:
    """Return culprits in words."""
    words = []
    for culprit in culprits[:4]:
        rank = f"rank {culprit.rank}" if culprit.rank is not None else ""
        host = culprit.host or ""
        device = culprit.device or ""
        words.append(
            " ".join(w for w in (rank, f"on {host}" if rank and host else host, f"({device})" if device else "") if w)
        )
    return ", ".join(w for w in words if w)


def next_checks(candidate: Candidate) -> tuple[str, ...]:
    """Return what to do next: what the evidence asks for first, then what the class asks for."""
    wanted = [*candidate.checks, *CHECKS.get(candidate.root_cause, ())]
    return tuple(dict.fromkeys(check for check in wanted if check))[:5]
