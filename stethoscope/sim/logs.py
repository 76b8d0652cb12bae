"""Logs that lie on simulated nodes: what a job prints, on a file system that all share, and the kernel's log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.sim import step_lines
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
_IN_THE_JOBS_LOG = ("slurmstepd:", "srun:")
"""Slurm writes this where the job prints; the rest stands in logs of its daemons."""
_SPIKED, _SPIKE = 0.3, 20.0
"""From this noise on (-0.5..0.5) wrong values have spoilt a step, and factor on its gradients."""
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
        self._printed: dict[str, tuple[float, float]] = {}
        """When each job printed last, and how many steps it had done, to the part of a step."""
        self._began: dict[str, float | None] = {}
        for job, run in twin.runs.items():
            self._began[job] = run.began_s
            self._print_past(job, run)

    def take(self, said: Iterable[Said]) -> None:
        """Write down what jobs said, and how far they are by now."""
        for line in said:
            if line.sink == "job" or (line.sink == "slurm" and line.text.startswith(_IN_THE_JOBS_LOG)):
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
        step_s = run.job.step_time_s
        steps = max(1, round(EVERY_S / step_s))
        count = int(PAST_S / (steps * step_s))
        for at in range(1 - count, 1):
            self._print(job, run, self._twin.t_s + at * steps * step_s, float(at * steps), float(steps))
        if count:
            # What follows is counted from now on.
            self._printed[job] = self._twin.t_s, run.progress_at(self._twin.t_s)

    def _progress(self, job: str, run: JobRun) -> None:
        now_s = self._twin.t_s
        done = run.progress_at(now_s)
        if job not in self._printed:
            # A job that began meanwhile.
            self.files.setdefault(path_of(job), bytearray())
            self._printed[job] = now_s, done
        if run.began_s != self._began.get(job):
            self._began[job] = run.began_s
            self._printed[job] = now_s, done
            self._write(job, step_lines.loaded(run.job.framework, job, DONE_BEFORE + int(done)))
        before = self._printed[job][1]
        if run.step is None or run.ended_at is not None or int(done) <= int(before):
            return
        self._print(job, run, now_s, done, done - before)

    def _print(self, job: str, run: JobRun, at_s: float, done: float, steps: float) -> None:
        """Print one line: the mean of the last `steps` steps."""
        spent_s = at_s - self._printed[job][0] if job in self._printed else steps * run.job.step_time_s
        self._printed[job] = at_s, done
        count = DONE_BEFORE + int(done)
        # The same at every run, and like no other step.
        noise = (count * 2_654_435_761 % 1000) / 1000 - 0.5
        step_s = spent_s / steps * (1 + 0.01 * noise)
        data_s = run.job.shares.data * run.job.step_time_s if run.step is None else float(run.step.data_s[0, 0])
        loss = (1.7 + 4.0 / (1 + count / 900) + 0.04 * noise) * run.effect.loss
        norm = (0.9 + 0.2 * noise) * run.effect.grad_norm
        if run.effect.spikes and noise > _SPIKED:
            loss, norm = loss + run.effect.spikes, norm * _SPIKE
        now_s = self._twin.t_s if at_s >= self._twin.t_s else None
        step_s = self._told(job, "job_step_time", step_s, now_s)
        speed = self._told(job, "job_throughput", run.job.samples_per_step / step_s, now_s)
        now = step_lines.Progress(
            at=datetime.fromtimestamp(self._twin.wall_at_0 + at_s, UTC),
            done=count,
            batch=max(1, round(run.job.samples_per_step)),
            step_s=step_s,
            data_s=self._told(f"{job}/rank/0", "rank_data_time", data_s * (1 + 0.1 * noise), now_s),
            samples_per_s=speed,
            loss=self._told(job, "job_loss", loss, now_s),
            grad_norm=self._told(job, "job_grad_norm", norm, now_s),
        )
        self._write(job, step_lines.step(run.job.framework, now))

    def _told(self, place: str, metric: str, modelled: float, now_s: float | None) -> float:
        """Return a number of the log with what the scenario sets of it; before its time nothing is set."""
        for override in self._twin.overrides if now_s is not None else ():
            event = override.event
            if event.metric == metric and event.where.text == f"job/{place}" and override.is_active(self._twin.t_s):
                modelled = override.moved(modelled, self._twin.t_s)
        return modelled

    def _save(self, job: str, run: JobRun) -> None:
        state = run.state(self._twin.t_s)
        if state.step_time_s is None or state.state != "RUNNING" or run.effect.saves_itself:
            return
        done = DONE_BEFORE + state.steps
        took_s = self._told(job, "job_checkpoint_write_time", 4 + done % 400 / 1000, self._twin.t_s)
        for line in step_lines.saved(run.job.framework, job, done, took_s):
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
