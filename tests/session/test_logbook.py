"""The logs that a console opens: pasted, here, on nodes, of jobs, and the kernels of the fleet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import SystemClock
from stethoscope.collect import ondemand
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import Commands
from stethoscope.errors import UsageError
from stethoscope.model.event import LogEvent
from stethoscope.model.scheduler import Job
from stethoscope.session import logbook, nodefile
from stethoscope.session.logbook import LogBook
from stethoscope.specs.fleet import FleetNode
from tests.builders import WALL, fleet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.logbook import OpenLog

XID = "NVRM: Xid (PCI:0000:4f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
CRASH = "RuntimeError: CUDA error: device-side assert triggered\n"


class Here:
    """A source whose nodes are all this machine, but for those that are out of reach."""

    def __init__(self, snapshot: FleetSnapshot, *, gone: tuple[str, ...] = (), read_only: bool = False) -> None:
        self.nodes = tuple(FleetNode(node.name) for node in snapshot.nodes)
        self.commands = Commands(read_only=read_only)
        self.read_only = read_only
        self.gone = gone
        self.asked: list[str] = []

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        self.asked.append(node)
        if node in self.gone:
            raise CommandError("there is no link: unreachable")
        return await ondemand.run_here(line, text, limit_s)


class Jobs:
    """A scheduler that knows one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def job(self, job: str) -> Job:
        if job != self._job.id:
            raise UsageError(f"Slurm knows no job {job}")
        return self._job


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logbook, "POLL_S", 0.05)
    monkeypatch.setattr(logbook, "RETRY_S", 0.05)


def book_on(source: object = None, scheduler: object = None) -> LogBook:
    return LogBook(source, scheduler, SystemClock())


async def until(book: LogBook, log: OpenLog, is_so: Callable[[OpenLog], object]) -> OpenLog:
    async with asyncio.timeout(20):
        while not is_so(log):
            book.watch(log)
            await asyncio.sleep(0.01)
    return log


def causes(log: OpenLog) -> list[str]:
    assert log.decoded is not None
    return [log.decoded.verdict.root_cause, *(other.root_cause for other in log.decoded.alternatives)]


async def test_pasted_text_is_judged() -> None:
    book = book_on()
    log = await until(book, book.paste(f"[  12.5] {XID}\nnext"), lambda log: log.decoded)
    assert (log.title, log.state, causes(log)[0]) == ("pasted text, 2 lines", "read", "gpu_fallen_off_bus")
    assert book.opened == [log]


async def test_files_here_are_judged_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "dmesg.txt").write_text(f"[  12.5] {XID}\n")
    book = book_on()
    log = await until(book, book.open_files([str(tmp_path / "*.txt")]), lambda log: log.decoded)
    assert causes(log)[0] == "gpu_fallen_off_bus"
    none = await until(book, book.open_files([str(tmp_path / "none")]), lambda log: log.trouble)
    assert (none.state, none.trouble) == ("not read", f"{tmp_path / 'none'}: no such file")
    assert book.opened == [none, log]


async def test_the_kernels_of_the_fleet_are_one_time_line_and_nothing_is_taken_twice() -> None:
    snapshot, book = fleet(4), book_on()
    first = LogEvent("gpu-002", "kernel", XID, WALL - 30, 3, 79, "0000:4f:00")
    snapshot = replace(snapshot, events=(first,))
    book.feed_fleet(snapshot)
    await until(book, book.fleet, lambda log: log.decoded)
    earlier = LogEvent("gpu-001", "kernel", "NVRM: GPU at PCI:0000:52:00: GPU-0", WALL - 40.5)
    second = LogEvent("gpu-003", "kernel", XID.replace("4f", "87"), WALL - 29.25)
    version = book.fleet.version
    book.feed_fleet(replace(snapshot, events=(first, earlier, second)))
    await until(book, book.fleet, lambda log: log.version > version)
    assert book.fleet.decoded is not None
    xids = [event for event in book.fleet.decoded.log.events if event.signature == "xid.79"]
    assert [(event.origin.host, event.at, event.count) for event in xids] == [
        ("gpu-002", WALL - 30, 1),
        ("gpu-003", WALL - 29.25, 1),
    ]
    assert causes(book.fleet) == ["gpu_fallen_off_bus", "gpu_fallen_off_bus"]
    await book.close()


async def test_a_replay_that_jumps_is_read_anew() -> None:
    snapshot, book = fleet(2), book_on()
    for _ in range(2):
        # The same line, but not the same event: it was told again.
        snapshot = replace(snapshot, events=(LogEvent("gpu-002", "kernel", XID, WALL - 30),))
        version = book.fleet.version
        book.feed_fleet(snapshot)
        await until(book, book.fleet, lambda log, version=version: log.version > version)
    assert book.fleet.decoded is not None
    assert [event.count for event in book.fleet.decoded.log.events] == [1]


async def test_a_quiet_fleet_is_said_to_be_quiet() -> None:
    book = book_on()
    book.feed_fleet(fleet(2))
    await until(book, book.fleet, lambda log: log.decoded)
    assert causes(book.fleet) == ["healthy"]


async def test_a_file_on_a_node_is_followed_over_growth_and_rotation(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step 1 loss 2.0\n")
    snapshot = fleet(2)
    book = book_on(Here(snapshot))
    log = await until(book, book.open_path("gpu-001", str(path), "4242"), lambda log: log.decoded)
    assert (log.title, log.state, log.node) == (f"gpu-001:{path}", "following, 0.0 MB", "gpu-001")
    assert log.job == "4242"
    assert causes(log)[0] == "healthy"
    with path.open("a") as file:
        file.write(CRASH)
    await until(book, log, lambda log: causes(log)[0] == "cuda_app_bug")
    path.rename(tmp_path / "train.log.1")
    path.write_text(XID + "\n")
    await until(book, log, lambda log: log.decoded and len(log.decoded.log.files) == 2)
    await until(book, log, lambda log: any(event.signature == "xid.79" for event in log.decoded.log.events))
    await book.close()
    assert log.task is not None
    assert log.task.cancelled()


async def test_of_a_long_file_only_the_end_is_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodefile, "FIRST_BYTES", 2_000_000)
    path = tmp_path / "long.log"
    path.write_bytes(XID.encode() + b"\n" + b"step 1 loss 2.0\n" * 250_000 + CRASH.encode())
    book = book_on(Here(fleet(1)))
    log = await until(book, book.open_path("gpu-001", str(path)), lambda log: log.decoded and "following" in log.state)
    await until(book, log, lambda log: causes(log)[0] == "cuda_app_bug")
    assert log.state == "following, the last 2.0 of 4.0 MB"
    assert not any(event.signature == "xid.79" for event in log.decoded.log.events)
    await book.close()


async def test_what_nobody_looks_at_is_not_read_on(tmp_path: Path) -> None:
    path = tmp_path / "quiet.log"
    path.write_text("step 1\n")
    source = Here(fleet(1))
    book = book_on(source)
    log = await until(book, book.open_path("gpu-001", str(path)), lambda log: log.decoded)
    await asyncio.sleep(0.4)
    asked = len(source.asked)
    await asyncio.sleep(0.3)
    assert len(source.asked) == asked
    await until(book, log, lambda _: len(source.asked) > asked)
    await book.close()


async def test_a_node_that_comes_back_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(CRASH)
    source = Here(fleet(2), gone=("gpu-001",))
    book = book_on(source)
    log = await until(book, book.open_path("gpu-001", str(path)), lambda log: log.trouble)
    assert (log.state, log.trouble) == ("not read", "there is no link: unreachable")
    source.gone = ()
    await until(book, log, lambda log: log.decoded)
    await until(book, log, lambda log: not log.trouble)
    await book.close()


async def test_a_job_is_read_on_the_first_node_that_has_its_output_with_their_kernels(tmp_path: Path) -> None:
    path = tmp_path / "slurm-4242.out"
    path.write_text(CRASH)
    snapshot = fleet(4)
    source = Here(snapshot, gone=("gpu-002",))
    job = Job("4242", "llama", "running", nodes=("gpu-002.cluster", "gpu-003"), batch_host="gpu-002", stdout=str(path))
    book = book_on(source, Jobs(job))
    log = await until(book, book.open_job("4242", snapshot), lambda log: log.decoded)
    assert log.title == f"job 4242 llama: {path}"
    assert (log.node, log.job) == ("gpu-003", "4242")
    events = (
        LogEvent("gpu-003", "kernel", XID, SystemClock().wall() - 60),
        LogEvent("gpu-001", "kernel", XID, SystemClock().wall() - 60),
    )
    book.feed_kernels(log, replace(snapshot, events=events))
    await until(book, log, lambda log: any(event.signature == "xid.79" for event in log.decoded.log.events))
    assert {event.origin.host for event in log.decoded.log.events if event.signature == "xid.79"} == {"gpu-003"}
    assert causes(log)[0] == "gpu_fallen_off_bus"
    await book.close()


@pytest.mark.parametrize(
    ("job", "trouble"),
    [
        (Job("1", nodes=("gpu-001",)), "Slurm does not say where job 1 prints to"),
        (
            Job("1", nodes=("gpu-001",), stdout="/x/%t.out"),
            "each task of job 1 has a file of its own (/x/%t.out): name one of them",
        ),
        (Job("1", nodes=("other-1",), stdout="/x"), "job 1 has no node of this fleet"),
        (Job("2", nodes=("gpu-001",), stdout="/x"), "Slurm knows no job 1"),
    ],
)
async def test_a_job_without_a_log_is_told_why(job: Job, trouble: str) -> None:
    snapshot = fleet(1)
    book = book_on(Here(snapshot), Jobs(job))
    log = await until(book, book.open_job("1", snapshot), lambda log: log.trouble)
    assert (log.state, log.trouble) == ("not read", trouble)


async def test_without_a_scheduler_the_jobs_of_the_snapshot_are_known() -> None:
    snapshot = replace(fleet(1), jobs=(Job("7", nodes=("gpu-001",)),))
    book = book_on(Here(snapshot))
    known = await until(book, book.open_job("7", snapshot), lambda log: log.trouble)
    assert known.trouble == "Slurm does not say where job 7 prints to"
    other = await until(book, book.open_job("8", snapshot), lambda log: log.trouble)
    assert other.trouble == "no Slurm is asked here: name a node and the path of the log instead"


async def test_a_ninth_log_closes_the_first() -> None:
    book = book_on()
    logs = [book.paste(f"text {number}") for number in range(logbook.MOST_OPEN + 1)]
    assert book.opened == logs[:0:-1]
    await book.close()


def test_where_nothing_can_be_run_it_is_said() -> None:
    assert book_on().why_not_on_nodes == "a recording runs nothing"
    assert "--read-only" in book_on(Here(fleet(1), read_only=True)).why_not_on_nodes
    assert book_on(Here(fleet(1))).why_not_on_nodes == ""
