"""The jobs of a session: which there are, their logs on real files, and what a recording keeps of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from stethoscope.analysis.job_list import guess, listed, rank_spans, ranks
from stethoscope.clock import SystemClock
from stethoscope.collect import ondemand
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import Commands
from stethoscope.model.facts import GpuProcess
from stethoscope.model.metric import Missing, Reason, Scope
from stethoscope.model.scheduler import Job, JobSource
from stethoscope.session import jobs as module
from stethoscope.session.job_notes import JOB_LOG, JobNote
from stethoscope.session.job_tail import LocalTail
from stethoscope.session.jobs import Jobs, path_of
from tests.builders import catalogue, fleet

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot

JOB = Job("4242", "pretrain", "running", "alice", nodes=("gpu-001", "gpu-002"), source=JobSource.FLEET_FILE)


class Here:
    """A source whose nodes are all this machine, but for those that are out of reach."""

    def __init__(self, *jobs: Job, gone: tuple[str, ...] = (), read_only: bool = False) -> None:
        self.jobs = jobs
        self.commands = Commands(read_only=read_only)
        self.read_only = read_only
        self.gone = gone
        self.asked: list[str] = []

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        self.asked.append(node)
        if node in self.gone:
            raise CommandError("there is no link: unreachable")
        return await ondemand.run_here(line, text, limit_s)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_S", "RETRY_S"):
        monkeypatch.setattr(module, name, 0.05)


def lines(first: int, last: int, seconds: float = 0.8) -> str:
    return "".join(f"step {step} | loss 2.5 | {seconds} s/step | 640 samples/s\n" for step in range(first, last + 1))


def keep(source: object, notes: list[tuple[str, Any]] | None = None) -> Jobs:
    told = notes if notes is not None else []
    return Jobs(source, catalogue(), SystemClock(), lambda kind, value: told.append((kind, value)))


def now(snapshot: FleetSnapshot) -> FleetSnapshot:
    clock = SystemClock()
    return replace(snapshot, wall=clock.wall(), mono=clock.monotonic())


async def until(jobs: Jobs, snapshot: FleetSnapshot, is_so: Any) -> FleetSnapshot:
    running = asyncio.create_task(jobs.run(lambda: now(snapshot)))
    try:
        async with asyncio.timeout(20):
            while not is_so(picture := jobs.picture(now(snapshot))):
                await asyncio.sleep(0.02)
        return picture
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_log_on_a_node_is_read_from_its_end_and_on_and_what_it_told_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "train-4242.out"
    path.write_text(lines(1, 60))
    source, notes = Here(replace(JOB, stdout=str(tmp_path / "train-%j.out"))), list[tuple[str, Any]]()
    jobs = keep(source, notes)
    picture = await until(jobs, fleet(4), lambda s: jobs.first_read.is_set() and s.standings["4242"].last)
    standing = picture.standings["4242"]
    assert (standing.log.node, standing.log.path, standing.log.family) == ("gpu-001", str(path), "plain")
    assert picture.tables[Scope.JOB].get("job_step_time", 0) == 0.8
    with path.open("a") as file:
        file.write(lines(61, 62))
    picture = await until(jobs, fleet(4), lambda s: s.standings["4242"].last.step == 62)
    # A rotated log begins anew.
    path.rename(tmp_path / "train-4242.out.1")
    path.write_text(lines(63, 64))
    await until(jobs, fleet(4), lambda s: s.standings["4242"].last.step == 64)
    assert [kind for kind, _ in notes] == [JOB_LOG] * len(notes)
    said = [msgspec.convert(value, JobNote) for _, value in notes]
    assert [len(note.lines) for note in said] == [60, 2, 2]
    assert [note.is_new for note in said] == [False, True, True]


async def test_a_node_that_is_out_of_reach_is_passed_over_and_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(lines(1, 9))
    source = Here(replace(JOB, stdout=str(tmp_path / "log")), gone=("gpu-001",))
    picture = await until(keep(source), fleet(4), lambda s: s.standings and s.standings["4242"].last)
    assert picture.standings["4242"].log.node == "gpu-002"
    source = Here(replace(JOB, stdout=str(tmp_path / "none")))
    picture = await until(keep(source), fleet(4), lambda s: s.standings and s.standings["4242"].log.trouble)
    assert picture.standings["4242"].log.trouble.startswith("no such file")
    assert picture.tables[Scope.JOB].get("job_step_time", 0) == Missing(Reason.ERROR)


async def test_nothing_is_read_where_nothing_may_be_run(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(lines(1, 9))
    source = Here(replace(JOB, stdout=str(tmp_path / "log")), read_only=True)
    jobs = keep(source)
    await jobs.run(lambda: fleet(4))
    assert (source.asked, jobs.first_read.is_set()) == ([], True)


async def test_a_log_of_each_task_is_that_of_the_first(tmp_path: Path) -> None:
    job = replace(JOB, stdout="/logs/%j-%N-%t.out", batch_host="gpu-001.cluster")
    assert path_of(job) == "/logs/4242-gpu-001-0.out"
    assert path_of(replace(job, id="77_3", stdout="/logs/%A_%a.out")) == "/logs/77_3.out"


async def test_only_some_of_many_jobs_are_followed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(lines(1, 9))
    many = [replace(JOB, id=str(number), stdout=str(tmp_path / "log")) for number in range(12)]
    source = Here(*many)
    source.follow_jobs = 3  # type: ignore[attr-defined]
    picture = await until(keep(source), fleet(4), lambda s: len(s.standings) == 3)
    assert len(picture.jobs) == 12


def test_a_recording_tells_of_a_job_and_its_past_what_was_read() -> None:
    jobs, snapshot = keep(object()), now(fleet(4))
    at = snapshot.wall - 100
    common: dict[str, Any] = {"id": "4242", "nodes": ("gpu-001", "gpu-002"), "path": "/x", "source": "fleet file"}
    # The first that is seen may be new lines; the past comes later and is not taken for what happens then.
    jobs.take_note(JobNote(**common, at=at, lines=tuple(lines(1, 40).splitlines()), is_new=False), at)
    jobs.take_note(JobNote(**common, at=at + 5, lines=tuple(lines(41, 44, 1.2).splitlines())), at + 5)
    jobs.take_note(JobNote(**common, at=at + 9, lines=tuple(lines(1, 44).splitlines()), is_new=False), at + 9)
    picture = jobs.picture(snapshot)
    assert [job.id for job in picture.jobs] == ["4242"]
    last = picture.standings["4242"].last
    assert last is not None
    assert (last.step, picture.standings["4242"].restarts) == (44, 0)
    assert not JobNote(id="a/b", nodes=(), path="", at=1.0).is_sound
    assert not JobNote(id="a", nodes=(), path="", at=1e300).is_sound


def test_the_fleet_file_adds_to_what_the_scheduler_says() -> None:
    slurm = Job("4242", "train", "running", nodes=("gpu-001",), stdout="/slurm.out")
    said = replace(JOB, stdout="/mine.out", samples_per_step=512)
    (job,) = listed((slurm,), (said,), ())
    assert (job.name, job.stdout, job.samples_per_step, job.source) == ("train", "/mine.out", 512, JobSource.SLURM)
    assert [job.id for job in listed((), (), (JOB,))] == ["4242"]
    assert [job.id for job in listed((slurm,), (), (replace(JOB, id="guess"),))] == ["4242"]


def test_jobs_are_guessed_from_processes_on_several_nodes() -> None:
    snapshot = fleet(4)

    def with_processes(index: int, *processes: GpuProcess) -> None:
        nodes[index] = replace(nodes[index], processes=processes)

    nodes = list(snapshot.nodes)
    for index in (0, 1):
        with_processes(index, *(GpuProcess(100 + gpu, gpu, name="/usr/bin/python3", user="alice") for gpu in range(8)))
    with_processes(
        2, GpuProcess(7, 0, name="jupyter", user="bob"), GpuProcess(8, 1, name="x", user="eve", slurm_job="9")
    )
    found = {job.id: job for job in guess(replace(snapshot, nodes=tuple(nodes)))}
    assert set(found) == {"alice:python3", "9"}
    assert found["alice:python3"].nodes == ("gpu-001", "gpu-002")
    assert found["9"].source is JobSource.GUESSED
    hostile = replace(nodes[0], processes=(GpuProcess(1, 0, name="\x1b[31m/../a b", user="x/y", slurm_job="../\n1"),))
    assert [job.id for job in guess(replace(snapshot, nodes=(hostile,)))] == ["..-1"]


def test_ranks_follow_the_order_of_the_nodes() -> None:
    snapshot = fleet(4)
    job = replace(JOB, nodes=("gpu-003", "gpu-001"))
    assert [(r.rank, r.node, r.gpu) for r in ranks(job, snapshot)][7:9] == [(7, "gpu-003", 7), (8, "gpu-001", 0)]
    assert rank_spans(job, snapshot) == {"gpu-003": (0, 7), "gpu-001": (8, 15)}
    assert ranks(replace(job, nodes=("elsewhere", "gpu-001")), snapshot) == []


def test_a_log_on_this_machine(tmp_path: Path) -> None:
    from stethoscope.analysis.job_judge import JobJudge

    path = tmp_path / "log"
    path.write_text(lines(1, 30))
    tail = LocalTail(JobJudge(0.0), path, SystemClock())
    tail.read_on()
    assert len(tail.judge.reader.entries.entries) == 30
    path.write_text(lines(1, 2))
    tail.read_on()
    assert tail.judge.reader.entries.entries[-1].step == 2
