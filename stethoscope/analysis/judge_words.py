"""The words of a verdict: one sentence, what to check next, what would settle it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stethoscope.analysis.judge_case import Candidate
    from stethoscope.model.logs import Culprit

_SOURCE = re.compile(r"^(?:[\w./]+:\d+ (?:\(\w+\) )?)?NCCL (?:WARN|INFO) ")
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
    "shared_fs_stall": "the shared file system stalls for several hosts",
    "fs_full_or_readonly": "a local file system is full or read-only",
    "switch_fault": "a switch fails, and all ports behind it",
    "ib_speed_low": "a fabric port runs at a lower rate or width than its peers",
    "switch_congestion": "packets wait in a switch",
    "nic_pcie_fault": "the PCIe link of a network adapter is degraded",
    "gpu_thermal": "a GPU is too hot and throttles",
    "gpu_power": "a GPU gets too little power",
    "gpu_clock_config": "clocks of a GPU were set low",
    "cooling_fault": "the cooling fails",
    "psu_fault": "a power supply fails",
    "cpu_or_memory_fault": "the CPU or memory of a host reports errors",
    "disk_wear": "a disk is worn out or failing",
    "driver_hung": "calls of the GPU driver do not return",
    "telemetry_lost": "the node cannot be seen, its work goes on",
    "cpu_contention": "something else takes the CPU that the ranks need",
    "cpu_config": "the CPU is set to run slow",
    "clock_skew": "the clock of a node is wrong",
    "loss_divergence": "the mathematics of the training go wrong",
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
    "wrong_interface": (
        "ip -br addr and ip route get PEER on both hosts",
        "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME: the interface that routes between the nodes",
    ),
    "firewall_or_port_blocked": (
        "nc -zv PEER PORT from the failing side while a listener runs there",
        "iptables -S, nft list ruleset; cloud: the security group must allow all traffic to itself, in and out",
    ),
    "dns_or_hostname": ("getent hosts NAME on each node; /etc/hosts for 127.0.1.1",),
    "ib_link_fault": (
        "ibstat and ibdev2netdev on the named host; dmesg for mlx5 link events at that minute",
        "link_downed and symbol_error of that port and of its switch port; then cable and transceiver",
    ),
    "ib_link_down": ("ibstat on the named host; its cable, transceiver and switch port",),
    "nic_fault": ("dmesg of that host for mlx5 health, firmware and PCIe errors; mstflint -d DEVICE q",),
    "roce_misconfig": (
        "NCCL_IB_TC against the lossless class; mlnx_qos and the DSCP map of the switch",
        "ethtool -S: rx_prio*_pause, rx_discards_phy, out_of_buffer; ib_write_bw many to one",
    ),
    "gid_or_pkey_misconfig": (
        "show_gids on both hosts: the RoCE v2 entry with an IPv4 address; on InfiniBand smpquery pkeys",
        "NCCL 2.21 and newer choose by themselves: unset NCCL_IB_GID_INDEX",
    ),
    "topology_or_affinity": (
        "nvidia-smi topo -m against the via NET/IB lines of the log",
        "NCCL_CROSS_NIC=0 on rail-only fabrics; the run without NCCL_TOPO_FILE",
    ),
    "pcie_fault": ("lspci -vv: LnkSta against LnkCap of the device; dmesg for AER; reseat, riser, BIOS",),
    "shm_too_small": (
        "df -h /dev/shm inside of the container; leftover /dev/shm/nccl-* of dead jobs",
        "--shm-size=16g, --ipc=host or an emptyDir with medium Memory",
    ),
    "resource_limits": ("ulimit -l, -n and -u inside of the job; LimitMEMLOCK and LimitNOFILE of its daemon",),
    "driver_bug": ("driver version against hosts that work: nvidia-smi; another driver version as a test",),
    "nccl_bug": (
        "the same run with another NCCL release (LD_PRELOAD)",
        "the newest feature off: NCCL_CUMEM_ENABLE=0, NCCL_NVLS_ENABLE=0, NCCL_RUNTIME_CONNECT=0",
    ),
    "straggler_or_slow_rank": (
        "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER of that GPU: throttle reasons",
        "its ECC, NVLink, PCIe and network counters; load of its host",
    ),
    "storage_io": ("df -h, df -i and mount on that host; dmesg for nfs, lustre, nvme; caches to a local disk",),
    "shared_fs_stall": ("state of the file system's servers; the same mount on another host",),
    "fs_full_or_readonly": ("df -h, df -i and mount on that host; dmesg for the reason of a read-only remount",),
    "config_env_error": (
        "the NCCL_* variables, CUDA_VISIBLE_DEVICES, RANK and LOCAL_RANK of each rank",
        "nvidia-smi -L and /dev/infiniband inside of the container",
    ),
    "node_down": ("is the node reachable: BMC, ping, sinfo -R; console and SEL for panic, power, machine check",),
    "cpu_or_memory_fault": ("mcelog or rasdaemon and the SEL of that host; drain it",),
    "driver_hung": ("ps for processes in state D; dmesg for hung tasks and Xid; reboot the host",),
    "unknown": ("logs of all ranks and kernel logs of all hosts for the minute before the first error",),
}


def sentence(candidate: Candidate) -> str:
    """Return the verdict in one plain sentence: who, what, when, and the line or fact that shows it."""
    if candidate.is_sentence:
        return candidate.summary
    said = candidate.summary or TITLES.get(candidate.root_cause, candidate.root_cause.replace("_", " "))
    whom = named(candidate.culprits)
    text = f"{whom}: {said}" if whom else said[:1].upper() + said[1:]
    if whom.startswith("rank "):
        text = text[:1].upper() + text[1:]
    moment = clock(candidate.began())
    if moment:
        text += f", {moment}"
    if candidate.summary:
        return text
    if candidate.supports and candidate.kind:
        text += ": " + "; ".join(note.fact for note in candidate.supports[:2])[:300]
    elif candidate.first is not None and not candidate.kind:
        text += f" ({quoted(candidate.first.event.text)})"
    return text


def quoted(line: str, limit: int = 140) -> str:
    """Return a line as a sentence quotes it: without its place in NCCL's source, at most `limit` characters."""
    line = _SOURCE.sub("", line.strip())
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."


def clock(at: float | None) -> str:
    """Return a moment as a sentence says it, empty when it is unknown."""
    if at is None:
        return ""
    return "at " + datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


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
