"""Logs on nodes: the real scripts, in every shell that is here, on real files; kernel logs from false tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect import nodelog, ondemand
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import READ_ONLY, Commands
from stethoscope.collect.nodelog import Position, kernel_log, tail
from stethoscope.collect.ssh import SshSource
from tests.collect.fake_tools import path_with, tool
from tests.collect.player import player, running
from tests.collect.test_ondemand import CLOCK

if TYPE_CHECKING:
    from tests.collect.sshd import Sshd

SHELLS = [shell for shell in ("sh", "bash", "mksh", "busybox") if shutil.which(shell)]


class Here:
    """A source whose only node is this machine."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.commands = Commands(read_only=read_only)

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        return await ondemand.run_here(line, text, limit_s)


NAMES = [
    "train.log", "with blank.log", "$(touch owned).log", "`touch owned`.log", "; touch owned", "a'b\"c.log", "-n", "*",
    "训练.log", "back\\slash", "new\ttab", "x" * 200, "\udcff.log", "%s%d\\060", "|cat", "&", "#",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_any_name_is_a_name_and_nothing_else(name: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    path = logs / name
    path.write_bytes(b"one\ntwo\n")
    piece = await tail(Here(), "n1", str(path))
    assert (piece.data, piece.at, piece.size, piece.is_new_file) == (b"one\ntwo\n", 0, 8, False)
    assert os.listdir(logs) == [name]


async def test_a_growing_file_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "grows"
    path.write_bytes(b"one\n")
    first = await tail(Here(), "n1", str(path))
    again = await tail(Here(), "n1", str(path), first.position)
    assert (again.data, again.is_new_file) == (b"", False)
    with path.open("ab") as file:
        file.write(b"two\n\x00\xff\r")
    more = await tail(Here(), "n1", str(path), again.position)
    assert (more.data, more.at, more.size, more.is_new_file) == (b"two\n\x00\xff\r", 4, 11, False)


async def test_a_rotated_and_a_shortened_file_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "rotates"
    path.write_bytes(b"old\n" * 10)
    first = await tail(Here(), "n1", str(path))
    path.rename(tmp_path / "rotates.1")
    path.write_bytes(b"new\n" * 20)
    rotated = await tail(Here(), "n1", str(path), first.position)
    assert (rotated.data, rotated.at, rotated.is_new_file) == (b"new\n" * 20, 0, True)
    path.write_bytes(b"cut\n")
    cut = await tail(Here(), "n1", str(path), rotated.position)
    assert (cut.data, cut.is_new_file) == (b"cut\n", True)


async def test_no_more_than_wanted_comes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(bytes(range(256)) * 10)
    piece = await tail(Here(), "n1", str(path), most=100)
    assert (piece.data, piece.at) == ((bytes(range(256)) * 10)[-100:], 2460)
    middle = await tail(Here(), "n1", str(path), Position(piece.position.number, 5), most=100)
    assert (middle.data, middle.position.offset) == ((bytes(range(256)) * 10)[5:105], 105)


async def test_what_cannot_be_read_is_said_why(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    for path, why in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "a directory, not a file"),
        (fifo, "not a plain file"),
        ("train.log", "write the whole path, from /"),
        ("/a\nb", "a path has no line feed"),
        ("/" + "x" * 2000, "at most 1000 bytes"),
    ):
        with pytest.raises(CommandError, match=why):
            await tail(Here(), "n1", str(path))
    closed = tmp_path / "closed"
    closed.write_bytes(b"secret")
    closed.chmod(0)
    if os.geteuid():
        with pytest.raises(CommandError, match="not readable as "):
            await tail(Here(), "n1", str(closed))


async def test_a_read_only_console_reads_no_log(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=READ_ONLY):
        await tail(Here(read_only=True), "n1", "/var/log/syslog")


@pytest.mark.parametrize("shell", SHELLS)
async def test_every_shell_reads_alike(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The command line runs `sh`: here that is another one.
    own = shutil.which(shell)
    assert own is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(own)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    path = tmp_path / "a b$c"
    path.write_bytes(b"line\n" * 3)
    piece = await tail(Here(), "n1", str(path))
    assert piece.data == b"line\n" * 3


async def test_over_a_real_server(sshd: Sshd, tmp_path: Path) -> None:
    path = tmp_path / "over ssh.log"
    path.write_bytes(b"NCCL WARN\n")
    source = SshSource(sshd.fleet("n1"), CLOCK, program=player(), ssh_config="none")
    async with running(source) as watcher:
        await watcher.live("n1")
        piece = await tail(source, "n1", str(path))
        with pytest.raises(CommandError, match="no link"):
            await tail(source, "n2", str(path))
    assert piece.data == b"NCCL WARN\n"


JOURNAL = """case "$*" in
*-n\\ 1*) echo "1764453247.000000 n1 kernel: last" ;;
*--since*) printf '%s\\n' "1764453247.123456 n1 kernel: NVRM: Xid (PCI:0000:4f:00): 79" ;;
esac"""
DMESG = "printf '%s\\n' '[    1.500000] early' '[  100.250000] late' 'a line that goes on'"
CLOSED = "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"


async def test_the_journal_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "journalctl", JOURNAL)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    said = await kernel_log(Here(), "n1", 1764450000)
    assert said == b"1764453247.123456 n1 kernel: NVRM: Xid (PCI:0000:4f:00): 79\n"


async def test_the_kernel_is_asked_where_there_is_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "journalctl", "exit 0")
    tool(tmp_path, "dmesg", DMESG)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    booted = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line[:5] == "btime")
    said = await kernel_log(Here(), "n1", booted + 50)
    assert said.decode().splitlines() == [f"{booted + 100}.250000 localhost kernel: late", "a line that goes on"]


async def test_a_closed_kernel_log_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "journalctl", "exit 0")
    tool(tmp_path, "dmesg", CLOSED)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    with pytest.raises(CommandError, match=r"the kernel log is closed to \S+: add the user to group systemd-journal"):
        await kernel_log(Here(), "n1", 0)


@pytest.mark.parametrize("said", [b"", b"hello\n", b"stethoscope-log: x\n", b"stethoscope-log: 1 2\n"])
async def test_an_answer_that_is_no_log_is_not_taken(said: bytes) -> None:
    class Strange(Here):
        async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
            return Answer(0, said, "")

    with pytest.raises(CommandError, match="no log"):
        await tail(Strange(), "n1", "/x")


async def test_a_file_system_that_hangs_is_named() -> None:
    class Hanging(Here):
        async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
            return Answer(None, b"", "", late=True)

    with pytest.raises(CommandError, match="may hang"):
        await tail(Hanging(), "n1", "/x")
    assert nodelog.LIMIT_S <= 600
