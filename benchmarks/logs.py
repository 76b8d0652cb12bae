"""How fast logs are read: `python -m benchmarks.logs [GB]`, 1 GB without it.

The log of a job on 2,000 nodes is made in a temporary directory: NCCL INFO lines of the start, then steps and, few
beside them, errors. `decode` reads it in a process of its own; its CPU time and memory are the kernel's count. In the
same run `rg -c -F -f` (else `grep`) counts the lines with one of the same literals, which is all that it could do. Then
a log that is nothing but errors, 512 files of a rank each, and a small log from the start of the process to its end.
Returns 1 when a budget is missed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

BLOCK = 16 * 1024 * 1024
SMALL_RUNS = 7
FILES = 512


class Cost(NamedTuple):
    """What a process took."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def main() -> int:
    """Measure all; see the module."""
    size = int(float(sys.argv[1]) * 1e9) if len(sys.argv) > 1 else 1_000_000_000
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="logs-") as name:
        folder = Path(name)
        large = folder / "job.log"
        write(large, size, start_and_steps(random.Random(1)), start_and_steps(random.Random(2), is_steps=True))
        run(
            [sys.executable, "-m", "stethoscope", "decode", str(large), "--until", "2026-01-01"]
        )  # warms the page cache
        cost = decode(large)
        speed = large.stat().st_size / 1e6 / cost.cpu_s
        print(f"1 log of {large.stat().st_size / 1e9:.2f} GB: {speed:,.0f} MB/s of one core, "
              f"wall {cost.wall_s:.1f} s, {cost.peak_mib:.0f} MiB")  # fmt: skip
        check(missed, "few hits", speed, 300, "MB/s", is_least=True)
        check(missed, "memory", cost.peak_mib, 100, "MiB")
        beside(large, folder)
        large.unlink()

        errors = folder / "errors.log"
        write(errors, min(size // 10, 100_000_000), nothing_but_errors(random.Random(3)))
        cost = decode(errors)
        speed = errors.stat().st_size / 1e6 / cost.cpu_s
        print(f"nothing but errors, {errors.stat().st_size / 1e6:.0f} MB: {speed:.1f} MB/s, {cost.peak_mib:.0f} MiB")
        check(missed, "all errors", speed, 10, "MB/s", is_least=True)
        errors.unlink()

        ranks = folder / "ranks"
        ranks.mkdir()
        for rank in range(FILES):
            (ranks / f"rank{rank}.log").write_bytes(one_rank(rank))
        cost = decode(ranks)
        print(f"{FILES} files: {cost.wall_s:.2f} s, CPU {cost.cpu_s:.2f} s, {cost.peak_mib:.0f} MiB")

        small = ranks / "rank7.log"
        times = sorted(decode(small).wall_s for _ in range(SMALL_RUNS))
        bare = sorted(run([sys.executable, "-c", "pass"]).wall_s for _ in range(SMALL_RUNS))
        middle = times[len(times) // 2] * 1e3
        print(f"a small log, from exec to exit: {middle:.0f} ms; `python -c pass` {bare[len(bare) // 2] * 1e3:.0f} ms")
        check(missed, "small log", middle, 150, "ms")
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


def decode(path: Path) -> Cost:
    """Decode a path in a process of its own."""
    return run([sys.executable, "-m", "stethoscope", "decode", "--json", str(path)])


def run(arguments: list[str]) -> Cost:
    """Run a command, without its output."""
    started = time.perf_counter()
    # As an installed program runs: with its compiled modules.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1, 2):
        sys.exit(f"{' '.join(arguments)}: {said.decode(errors='replace')}")
    return Cost(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def beside(path: Path, folder: Path) -> None:
    """Count the lines with the same literals by a tool that does nothing else."""
    from stethoscope.specs.signature import load_signatures

    tool = next((name for name in ("rg", "grep") if shutil.which(name)), None)
    if tool is None:
        print("neither rg nor grep is here to compare with")
        return
    literals = folder / "literals"
    literals.write_bytes(b"\n".join(sorted(load_signatures().anchors)) + b"\n")
    cost = run([tool, "-c", "-F", "-f", str(literals), str(path)])
    speed = path.stat().st_size / 1e6 / cost.cpu_s
    print(f"  beside it: {tool} -c -F -f (the same {len(load_signatures().anchors)} literals) {speed:,.0f} MB/s")


def check(missed: list[str], what: str, value: float, limit: float, unit: str, *, is_least: bool = False) -> None:
    """Take down what misses its budget."""
    if (value < limit) if is_least else (value > limit):
        missed.append(f"{what}: {value:,.1f} {unit}, budget {limit:g} {unit}")


def write(path: Path, size: int, head: bytes, rest: bytes = b"") -> None:
    """Write `head` once and `rest`, or `head` again, until the file has about `size` bytes."""
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(rest if rest and file.tell() else head)


def start_and_steps(rng: random.Random, *, is_steps: bool = False) -> bytes:
    """Return 16 MiB: the start of a job, or its steps with an error now and then."""
    lines: list[str] = []
    written = second = 0
    while written < BLOCK:
        second += 1
        stamp = (
            f"2026-03-14 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d},{rng.randint(0, 999):03d}"
        )
        line = _step(rng, stamp) if is_steps or rng.random() < 0.05 else _start(rng)
        if is_steps and rng.random() < 0.0001:
            line = _error(rng, second)
        lines.append(line)
        written += len(line) + 1
    return ("\n".join(lines) + "\n").encode()


def nothing_but_errors(rng: random.Random) -> bytes:
    """Return 16 MiB of which each line is an event."""
    lines: list[str] = []
    written = 0
    while written < BLOCK:
        lines.append(_error(rng, len(lines) / 100))
        written += len(lines[-1]) + 1
    return ("\n".join(lines) + "\n").encode()


def one_rank(rank: int) -> bytes:
    """Return the log of one rank of a job whose rank 7 ran out of memory."""
    rng = random.Random(rank)
    lines = [_start(rng, rank) for _ in range(60)]
    lines += [_step(rng, f"2026-03-14 02:{minute:02d}:00,000") for minute in range(14)]
    if rank == 7:
        lines.append("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 7 has 1.20 GiB free.")
    else:
        lines.append(_watchdog(rng, rank, 24 * 60 + rng.random()))
    return ("\n".join(lines) + "\n").encode()


def _prefix(rng: random.Random, rank: int | None = None, level: str = "INFO") -> str:
    rank = rng.randrange(16_000) if rank is None else rank
    return f"gpu-{rank // 8:04d}:{4000 + rank % 8}:{5000 + rank % 8} [{rank % 8}] NCCL {level} "


def _start(rng: random.Random, rank: int | None = None) -> str:
    kind = rng.random()
    a, b, gpu = rng.randrange(16_000), rng.randrange(16_000), rng.randrange(8)
    if kind < 0.4:
        text = f"Channel {rng.randrange(32):02d}/0 : {a}[{gpu}] -> {b}[{gpu}] [send] via NET/IB/{gpu}/GDRDMA"
    elif kind < 0.7:
        text = f"Channel {rng.randrange(32):02d}/0 : {a}[{gpu}] -> {b}[{7 - gpu}] via P2P/CUMEM/read"
    elif kind < 0.9:
        text = "Trees " + " ".join(f"[{n}] {rng.randint(-1, 7)}/-1/-1->{gpu}->{rng.randint(-1, 7)}" for n in range(8))
    elif kind < 0.95:
        text = (
            f"comm 0x{rng.getrandbits(44):x} rank {a} nranks 16000 cudaDev {gpu} nvmlDev {gpu} "
            f"busId {rng.randrange(256):x}000 commId 0x{rng.getrandbits(60):x} - Init COMPLETE"
        )
    else:
        text = f"NCCL_IB_TIMEOUT set by environment to {rng.randint(14, 22)}."
    return _prefix(rng, rank) + text


def _step(rng: random.Random, stamp: str) -> str:
    return (
        f"[{stamp}] iteration {rng.randrange(10**6)}/ 1000000 | elapsed time per iteration (ms): "
        f"{rng.uniform(800, 1200):.1f} | learning rate: 3.0E-04 | lm loss: {rng.uniform(1, 4):.6E} | grad norm: "
        f"{rng.random():.3f}"
    )


def _error(rng: random.Random, second: float) -> str:
    rank, kind = rng.randrange(512), rng.random()
    node, gpu = rank // 8, rank % 8
    stamp = f"2026-03-14T02:{int(second // 60) % 60:02d}:{second % 60:09.6f}Z "
    if kind < 0.45:
        return (
            f"{stamp}{_prefix(rng, rank, 'WARN')}NET/IB: Got completion from peer 10.1.2.{node}<{40000 + rank}> with "
            f"status=12 opcode=0 len={rng.randrange(10**5)} vendor err 129 (Recv) hca mlx5_{gpu}"
        )
    if kind < 0.8:
        return _watchdog(rng, rank, second)
    if kind < 0.9:
        return (
            f"{stamp}gpu-{node:04d} kernel: NVRM: Xid (PCI:0000:{16 + gpu:02x}:00): 31, pid={rng.randint(1000, 9999)}, "
            f"name=python3, Ch {rng.randrange(256):08x}, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 "
            f"faulted @ 0x7f1c_{rng.getrandbits(32):08x}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
        )
    slot = f"0000:{gpu:02x}"
    return f"{stamp}gpu-{node:04d} kernel: pcieport {slot}:01.0: AER: Corrected error received: {slot}:00.0"


def _watchdog(rng: random.Random, rank: int, second: float) -> str:
    stamp = f"[E314 02:{int(second // 60) % 60:02d}:{second % 60:012.9f} ProcessGroupNCCL.cpp:632]"
    return (
        f"[rank{rank}]:{stamp} [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={8000 + rng.randrange(8)}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        f"ran for 600{rng.randrange(1000):03d} milliseconds before timing out."
    )


if __name__ == "__main__":
    sys.exit(main())
