"""Lines of training jobs as their programs print them, and the judge over them: all names and numbers are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.judge import judge
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stethoscope.model.logs import LogVerdict

NOW = 1_773_454_447.0
"""2026-03-14T02:14:07Z."""
TRACEBACK = ["Traceback (most recent call last):", '  File "/app/train.py", line 214, in <module>', "    main()"]


def judge_files(files: Mapping[str, Iterable[str]]) -> tuple[LogVerdict, list[LogVerdict]]:
    """Return the verdict over these files, name to lines, and its alternatives."""
    signatures = load_signatures()
    scanner = Scanner(signatures, now=NOW)
    for name, lines in files.items():
        data = ("\n".join(lines) + "\n").encode()
        scan = scanner.file(name, size=len(data), modified_at=NOW)
        scan.feed(data)
        scan.end("")
    return judge(scanner.finish(), signatures)


def verdict_of(*parts: str | Sequence[str]) -> LogVerdict:
    """Return the verdict over one file of these lines."""
    return judge_files({"job.log": lines_of(*parts)})[0]


def lines_of(*parts: str | Sequence[str]) -> list[str]:
    """Return lines and lists of lines as one list."""
    return [line for part in parts for line in ([part] if isinstance(part, str) else part)]


def answer(verdict: LogVerdict) -> tuple[str, str, list[tuple[int | None, str | None]]]:
    """Return the class, the severity and whom it names: rank and host."""
    return verdict.root_cause, str(verdict.severity), [(c.rank, c.host) for c in verdict.culprits]


def steps(first: int, last: int, *, ms: float = 4100.0, every: int = 10, total: int = 50_000) -> list[str]:
    """Return Megatron's lines of progress."""
    return [
        f" iteration {it:8d}/{total:8d} | consumed samples: {it * 1024:12d} | elapsed time per iteration (ms): {ms:.1f}"
        f" | learning rate: 2.9E-04 | global batch size:  1024 | lm loss: 2.230000E+00 | loss scale: 1.0 | grad norm:"
        f" 0.410 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        for it in range(first, last, every)
    ]


def bars(count: int, *, total: int = 8191) -> list[str]:
    """Return progress bars and losses of a Trainer."""
    found = []
    for step in range(1, count + 1):
        found.append(f"  0%|          | {step}/{total} [00:{step * 2 % 60:02d}<8:11:09,  4.01s/it]")
        found.append(f"{{'loss': {2 - step / 1000:.4f}, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}}")
    return found


def by(rank: int, *lines: str, traceback: bool = True) -> list[str]:
    """Return what one rank prints under torchrun."""
    return [f"[rank{rank}]: {line}" for line in [*(TRACEBACK if traceback else []), *lines]]


def timed_out(
    rank: int,
    seq: int,
    *,
    op: str = "ALLREDUCE",
    numel: int = 4096,
    timeout_ms: int = 600_000,
    clock: str = "314 01:24:53",
    old: bool = False,
) -> str:
    """Return the line of a watchdog; `old` as torch 2.0 printed it, without times."""
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)={timeout_ms})"
    ran = f"{work} ran for {timeout_ms + 41} milliseconds before timing out."
    said = f"Watchdog caught collective operation timeout: {ran}"
    if old:
        return f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] {said}"
    return f"[rank{rank}]:[E{clock}.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] {said}"


def stood_at(
    rank: int, enqueued: int, completed: int, *, group: str = "ID 0 PG GUID 0(default_pg)", inner: int | None = None
) -> str:
    """Return the line that says how far a rank was in its group when the watchdog looked."""
    return (
        f"[rank{rank}]:[E314 01:24:53.223456789 ProcessGroupNCCL.cpp:2168] [PG {group} Rank"
        f" {rank if inner is None else inner}]  failure detected by watchdog at work sequence id: {completed + 1} PG"
        f" status: last enqueued work: {enqueued}, last completed work: {completed}"
    )


def idle(rank: int, done: int, *, told_by: int = 1) -> str:
    """Return the line of a rank that had nothing left to do."""
    return (
        f"[rank{rank}]:[E314 01:24:53.323456789 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        f" Received a dump signal due to a collective timeout from  rank {told_by} and we will try our best to dump the"
        f" debug info. Last enqueued NCCL work: {done}, last completed NCCL work: {done}."
    )


def started(
    host: str,
    ip: str,
    rank: int,
    ranks: int,
    *,
    version: str = "2.21.5",
    device: int = 0,
    network: str = "IB",
    kind: str = "IB",
    ports: int = 4,
    interface: str = "eth0",
    ready: bool = True,
) -> list[str]:
    """Return what NCCL prints when a rank makes its communicator."""
    pid = 1000 + rank
    said = f"{host}:{pid}:{pid + 9} [{device}] NCCL INFO "
    listed = " ".join(f"[{port}]mlx5_{port}:1/{kind}" for port in range(ports))
    comm = f"ncclCommInitRank comm 0x55d0c{rank:04x} rank {rank} nranks {ranks} cudaDev {device} nvmlDev {device}"
    comm += f" busId {0x1B + device:x}000 commId 0x9a1b2c3d"
    lines = [said + f"Bootstrap : Using {interface}:{ip}<0>", said + f"NCCL version {version}+cuda12.4"]
    if network == "IB":
        lines.append(said + f"NET/IB : Using {listed} [RO]; OOB {interface}:{ip}<0>")
    else:
        lines += [said + "NET/IB : No device found.", said + f"NET/Socket : Using [0]{interface}:{ip}<0>"]
    lines += [said + f"Using network {network}", said + f"{comm} - Init START"]
    if ready:
        lines += [said + "Connected all rings", said + f"{comm} - Init COMPLETE"]
    return lines


def completion(
    host: str,
    rank: int,
    peer: str,
    *,
    status: int = 12,
    vendor: int = 129,
    device: int = 0,
    hca: str = "mlx5_0",
    clock: str = "",
    gids: tuple[str, str] = ("fe80::1", "fe80::2"),
) -> list[str]:
    """Return a failed completion of NCCL 2.22 to 2.28 as one rank prints it."""
    pid = 1000 + rank
    stamp = f"[2026-03-14 {clock}] " if clock else ""
    return [
        "",
        f"{stamp}{host}:{pid}:{pid + 9} [{device}] transport/net_ib.cc:2256 NCCL WARN NET/IB: Got completion from peer"
        f" {peer}<54862> with status={status} opcode=0 len=0 vendor err {vendor} (Send) localGid {gids[0]}"
        f" remoteGids{gids[1]} hca {hca}",
        f"{host}:{pid}:{pid + 9} [{device}] NCCL INFO transport/net.cc:1302 -> 6",
    ]


def table(
    host: str, rank: int, local: int, *, code: int, pid: int = 4711, stopped: Sequence[int] = (4712,)
) -> list[str]:
    """Return what the elastic launcher of one host prints when a worker has failed."""
    stamp = "0314 01:14:53.123000 2287 torch/distributed/elastic/multiprocessing/api.py"
    signals = {-6: "SIGABRT", -7: "SIGBUS", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}
    reason = f"Signal {-code} ({signals[code]}) received by PID {pid}" if code < 0 else "To enable traceback see: docs"
    return [
        *[f"W{stamp}:897] Sending process {other} closing signal SIGTERM" for other in stopped],
        f"E{stamp}:869] failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-03-14_01:14:53",
        f"  host      : {host}",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {code} (pid: {pid})",
        "  error_file: <N/A>",
        f"  traceback : {reason}",
    ]
