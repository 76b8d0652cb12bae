"""The journal and what goes through it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import SLURM, STREAM, AllowedRunner, Commands
from stethoscope.collect.journal import Entry, Journal, read_journal
from stethoscope.collect.link import LinkFailure
from stethoscope.model.frame import LinkState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Runner:
    where = "login1"

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.status: int | None = 0

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        self.ran.append(list(arguments))
        if arguments[0] == "lost":
            raise CommandError("login1: \x1b[31mthe connection was lost")
        return Answer(self.status, b"", "")

    async def close(self) -> None:
        return None


def results(directory: Path) -> list[tuple[str, str, str, str]]:
    return [(entry.node, entry.kind, entry.command, entry.result) for entry in read_journal(directory)]


async def test_every_command_is_one_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", FixedClock())
    commands, runner = Commands(journal), Runner()
    allowed = AllowedRunner(runner, commands, SLURM)
    await allowed.run(["scontrol", "show", "a b"], 1.0)
    runner.status = 1
    await allowed.run(["scontrol"], 1.0)
    with pytest.raises(CommandError):
        await allowed.run(["lost"], 1.0)

    async def refused() -> None:
        raise LinkFailure(LinkState.CLOSED, "the server started no command")

    with pytest.raises(LinkFailure):
        await commands.run("gpu-001", STREAM, "stream probe, every 2 s", refused)
    given_up = asyncio.create_task(commands.run("gpu-002", STREAM, "x", asyncio.Event().wait))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    assert results(tmp_path / "journal") == [
        ("login1", "slurm", "scontrol show 'a b'", "ok"),
        ("login1", "slurm", "scontrol", "failed: status 1"),
        ("login1", "slurm", "lost", "failed: login1: the connection was lost"),
        ("gpu-001", "stream", "stream probe, every 2 s", "failed: closed: the server started no command"),
        ("gpu-002", "stream", "x", "failed: given up"),
    ]
    path = tmp_path / "journal" / "2026-03.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    first = json.loads(path.read_text().splitlines()[0])
    assert list(first) == ["at", "node", "who", "kind", "command", "result", "seconds"]
    assert first["at"] == "2026-03-14T02:14:07Z"
    assert first["who"].count("@") == 1


async def test_read_only_lets_the_stream_through_alone(tmp_path: Path) -> None:
    commands, runner = Commands(Journal(tmp_path, FixedClock()), read_only=True), Runner()
    with pytest.raises(CommandError, match="--read-only allows no command but the stream probe"):
        await AllowedRunner(runner, commands, SLURM).run(["scontrol"], 1.0)
    assert runner.ran == []

    async def started() -> str:
        return "started"

    assert await commands.run("gpu-001", STREAM, "probe", started) == "started"
    assert [result for _, _, _, result in results(tmp_path)] == [
        "refused: --read-only allows no command but the stream probe",
        "ok",
    ]


def test_months_have_files_of_their_own_and_bad_lines_cost_themselves(tmp_path: Path) -> None:
    clock = FixedClock()
    journal = Journal(tmp_path, clock)
    journal.write("a", "stream", "probe \x1b[2J", "ok", 0.12345)
    clock.advance(20 * 86_400.0)
    journal.write("b", "stream", "probe", "ok", 1.0)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["2026-03.jsonl", "2026-04.jsonl"]
    with (tmp_path / "2026-03.jsonl").open("ab") as file:
        file.write(b'{"at":"2026-03\xff\n[]\n{"at":1}\n')
    found = list(read_journal(tmp_path))
    assert [(entry.node, entry.command, entry.seconds) for entry in found] == [
        ("a", "probe ", 0.123),
        ("b", "probe", 1.0),
    ]
    assert [entry.node for entry in read_journal(tmp_path, "2026-03-15")] == ["b"]
    assert isinstance(found[0], Entry)


def test_what_cannot_be_written_is_told_once_and_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file where the directory should be")
    journal = Journal(tmp_path / "journal", FixedClock())
    for _ in range(3):
        journal.write("a", "stream", "probe", "ok", 0.1)
    assert journal.take_notices() == [f"commands are not written to {tmp_path / 'journal'}: File exists"]
    assert Commands(journal).take_notices() == []
    (tmp_path / "journal").unlink()
    journal.write("a", "stream", "probe", "ok", 0.1)
    assert len(list(read_journal(tmp_path / "journal"))) == 1


def test_several_consoles_share_a_file(tmp_path: Path) -> None:
    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            journal = Journal(tmp_path, FixedClock())
            for _ in range(200):
                journal.write(f"n{number}", "stream", "x" * 500, "ok", 0.1)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    entries = list(read_journal(tmp_path))
    assert len(entries) == 800
    assert {entry.command for entry in entries} == {"x" * 500}


def test_a_script_is_kept_once_for_the_user_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", FixedClock())
    journal.keep("echo 1\n", "ab12")
    journal.keep("echo 1\n", "ab12")
    (kept,) = (tmp_path / "journal" / "scripts").iterdir()
    assert (kept.name, kept.read_text(), kept.stat().st_mode & 0o777) == ("ab12.sh", "echo 1\n", 0o600)
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700
    assert list(read_journal(tmp_path / "journal")) == []


def test_a_script_that_cannot_be_kept_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file where the directory should be")
    journal = Journal(tmp_path / "journal", FixedClock())
    for _ in range(3):
        journal.keep("echo 1\n", "ab12")
    (notice,) = journal.take_notices()
    assert notice.startswith(f"scripts are not kept in {tmp_path / 'journal' / 'scripts'}: ")
