"""Logs that lie on simulated nodes: what a job prints, on a file system that all share, and the kernel's log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.sim.lines import Said
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.twin import Twin

EVERY_S = 10.0
"""How often rank 0 prints how far the job is."""
_LONGEST = 8 * 1024 * 1024
_FIRST_NUMBER = 4_194_304
_REFUSED = 66


class SharedLogs:
    """The logs of all jobs, growing as the twin moves."""

    def __init__(self, twin: Twin) -> None:
        """Begin them with the twin's jobs."""
        self._twin = twin
        self._due_s = twin.t_s
        self.files: dict[str, bytearray] = {path_of(job): bytearray() for job in twin.runs}

    def take(self, said: Iterable[Said]) -> None:
        """Write down what jobs said, and how far they are by now."""
        for line in said:
            if line.sink == "job":
                self._write(self._job_on(line.node), line.text)
        while self._due_s <= self._twin.t_s:
            for job, run in self._twin.runs.items():
                self._progress(job, run)
            self._due_s += EVERY_S

    def _job_on(self, node: str) -> str | None:
        number = self._twin.layout.numbers[node]
        return next((job for job, run in self._twin.runs.items() if number in run.job.nodes), None)

    def _progress(self, job: str, run: JobRun) -> None:
        state = run.state(self._twin.t_s)
        if state.step_time_s is None or state.state != "RUNNING":
            return
        at = datetime.fromtimestamp(self._twin.wall_at_0 + self._twin.t_s, UTC)
        loss = 1.7 + 4.0 / (1.0 + state.steps / 900.0)
        self._write(
            job,
            f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}][rank0] step {state.steps} | loss {loss:.4f} | "
            f"{state.step_time_s:.3f} s/step | {state.throughput:,.0f} samples/s",
        )

    def _write(self, job: str | None, text: str) -> None:
        held = self.files.get(path_of(job)) if job is not None else None
        if held is not None and len(held) < _LONGEST:
            held += text.encode() + b"\n"


def path_of(job: str) -> str:
    """Return where a job prints to, as Slurm says it."""
    return f"/shared/train/slurm-{job}.out"


def tail(files: dict[str, bytearray], words: Sequence[str]) -> tuple[int, str, str]:
    """Answer what reads a part of a file: exit status, output, error output."""
    start, number, most, *coded = words
    digits = "".join(coded)
    path = bytes(int(digits[at : at + 3], 8) for at in range(0, len(digits), 3)).decode("utf-8", "replace")
    held = files.get(path)
    if held is None:
        return _REFUSED, "", "stethoscope-log: no such file, or a directory above it is closed to sim\n"
    own = str(_FIRST_NUMBER + list(files).index(path))
    offset = max(0, len(held) - int(most)) if start == "end" else int(start)
    if start != "end" and (number != own or offset > len(held)):
        offset = 0
    part = bytes(held[offset : offset + int(most)]).decode("utf-8", "replace")
    return 0, f"stethoscope-log: {own} {len(held)} {offset}\n{part}", ""


def kernel(said: Iterable[Said], words: Sequence[str], wall_at_0: float, booted: float) -> tuple[int, str, str]:
    """Answer what reads the kernel log since a time, in the journal's form."""
    since = float(words[0])
    lines = [
        f"{wall_at_0 + line.at_s:.6f} {line.node} kernel: {line.text}\n"
        for line in said
        if wall_at_0 + line.at_s >= since
    ]
    return 0, f"stethoscope-log: journal {booted:.0f}\n" + "".join(lines), ""
