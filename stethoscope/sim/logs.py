"""Logs that lie on simulated nodes: what a job prints, on a file system that all share, and the kernel's log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.sim.run import CHECKPOINT_S, DONE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.sim.lines import Said
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.twin import Twin

EVERY_S = 10.0
"""How often rank 0 prints how far the job is."""
PAST_S = 1200.0
"""So long the job has been printing when the scenario begins."""
_TO_DO = 500_000
_LONGEST = 8 * 1024 * 1024
_FIRST_NUMBER = 4_194_304
_REFUSED = 66


class SharedLogs:
    """The logs of all jobs, growing as the twin moves."""

    def __init__(self, twin: Twin) -> None:
        """Begin them with the twin's jobs."""
        self._twin = twin
        self._due_s = twin.t_s
        self._checkpoint_s = twin.t_s + CHECKPOINT_S
        self.files: dict[str, bytearray] = {path_of(job): bytearray() for job in twin.runs}
        self._printed: dict[str, tuple[float, int]] = {}
        """When each job printed last, and how many iterations it had done."""
        for job, run in twin.runs.items():
            self._print_past(job, run)

    def take(self, said: Iterable[Said]) -> None:
        """Write down what jobs said, and how far they are by now."""
        for line in said:
            if line.sink == "job":
                self._write(self._job_on(line.node), line.text)
        while self._due_s <= self._twin.t_s:
            for job, run in self._twin.runs.items():
                self._progress(job, run)
            self._due_s += EVERY_S
        while self._checkpoint_s <= self._twin.t_s:
            for job, run in self._twin.runs.items():
                self._save(job, run)
            self._checkpoint_s += CHECKPOINT_S

    def _job_on(self, node: str) -> str | None:
        number = self._twin.layout.numbers[node]
        return next((job for job, run in self._twin.runs.items() if number in run.job.nodes), None)

    def _print_past(self, job: str, run: JobRun) -> None:
        """Print what a healthy job printed before the scenario."""
        steps = max(1, round(EVERY_S / run.job.step_time_s))
        count = int(PAST_S / (steps * run.job.step_time_s))
        self._printed[job] = self._twin.t_s - count * steps * run.job.step_time_s, -count * steps
        for at in range(1 - count, 1):
            self._print(job, run, self._twin.t_s + at * steps * run.job.step_time_s, at * steps)

    def _progress(self, job: str, run: JobRun) -> None:
        state = run.state(self._twin.t_s)
        if job not in self._printed:
            # A job that began meanwhile.
            self.files.setdefault(path_of(job), bytearray())
            self._printed[job] = self._twin.t_s, state.steps
        if state.step_time_s is None or state.state != "RUNNING" or state.steps <= self._printed[job][1]:
            return
        self._print(job, run, self._twin.t_s, state.steps)

    def _print(self, job: str, run: JobRun, at_s: float, steps: int) -> None:
        """Print one line as Megatron-LM does: the mean of the iterations since the last one."""
        before_s, before = self._printed[job]
        self._printed[job] = at_s, steps
        done, batch = DONE_BEFORE + steps, max(1, round(run.job.samples_per_step))
        # The same at every run, and like no other step.
        noise = (done * 2_654_435_761 % 1000) / 1000 - 0.5
        # The clock of the job runs through the steps that it counts, not to the moment at which it is looked at.
        step_s = (at_s - before_s) / (steps - before) if run.step is None or steps <= 0 else run.step.step_s
        step_s *= 1 + 0.01 * noise
        at = datetime.fromtimestamp(self._twin.wall_at_0 + at_s, UTC)
        self._write(
            job,
            f" [{at:%Y-%m-%d %H:%M:%S}] iteration {done:8d}/{_TO_DO:8d} | consumed samples: {done * batch:12d} | "
            f"elapsed time per iteration (ms): {step_s * 1000:.1f} | learning rate: {3e-4:.6E} | "
            f"global batch size: {batch:5d} | lm loss: {1.7 + 4.0 / (1 + done / 900) + 0.04 * noise:.6E} | "
            f"loss scale: 1.0 | grad norm: {0.4 + 0.1 * noise:.3f} | number of skipped iterations:   0 | "
            "number of nan iterations:   0 |",
        )

    def _save(self, job: str, run: JobRun) -> None:
        state = run.state(self._twin.t_s)
        if state.step_time_s is None or state.state != "RUNNING":
            return
        done = DONE_BEFORE + state.steps
        longest_ms = 4000 + done % 400
        for line in (
            f"saving checkpoint at iteration {done:7d} to /shared/train/{job} in torch_dist format",
            f"  successfully saved checkpoint from iteration {done:7d} to /shared/train/{job} [ t 1/4, p 1/2 ]",
            "(min, max) time across ranks (ms):",
            f"    save-checkpoint ................................: ({longest_ms - 300:.2f}, {longest_ms:.2f})",
        ):
            self._write(job, line)

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
