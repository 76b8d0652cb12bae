"""The functions of sh that read what is read rarely, made of the manifest."""

from __future__ import annotations

import re
import subprocess

import pytest

from stethoscope.collect import shell, shgroups
from stethoscope.specs.probes import Read, Run, Watch, load_manifest
from tests import needs


def body(read: list[Read] | None = None, run: list[Run] | None = None, *, sudo: bool = False) -> list[str]:
    """Return the lines of the function for one group."""
    text = shgroups.functions([Watch("a", "a", 30, "medium", read or [], run or [])], sudo=sudo)
    return text.split("read_a() {\n")[1].split("\n")[:-1]


@pytest.mark.parametrize("program", ["dash", "bash", "mksh"])
@pytest.mark.parametrize("sudo", [False, True])
def test_the_manifest_becomes_a_script_that_every_shell_reads(program: str, sudo: bool) -> None:
    head, _, script = shell.watch_line(sudo).partition(b"\n")
    assert head == b'{"do":"watch","bytes":%d}' % len(script)
    subprocess.run([needs.tool(program), "-n"], input=script, check=True, capture_output=True)
    assert script.isascii()
    assert b"<<" not in script, "some shells keep here-documents in files"
    assert len(script) < 20_000


def test_files_of_one_kind_are_read_at_once() -> None:
    reads = [
        Read("/proc/{a,b}"),
        Read("/sys/*/c", "once"),
        Read("/proc/d", "only ^it's \\d+ "),
        Read("/sys/e*", "link"),
        Read("/sys/f", "nonzero"),
        Read("/sys/g*", "count"),
        Read("/proc", "tasks"),
    ]
    assert body(reads) == [
        "some '^it'\"'\"'s [0-9]+ ' proc/d",
        "count '/sys/g*' sys/g*",
        "link sys/e*",
        "plain proc/a proc/b sys/*/c",
        "nonzero sys/f",
        "tasks",
    ]


def test_commands_are_quoted_and_get_root_where_they_need_it() -> None:
    runs = [
        Run("df", ["df", "-x", "a b", "$(id)"], limit_s=5),
        Run("smart", ["smartctl", "-a"], each="/dev/{sd[a-z],nvme[0-9]}", root=True, limit_s=20),
    ]
    assert body(run=runs, sudo=True) == [
        "run df 5 df exec df -x 'a b' '$(id)'",
        "for each in dev/sd[a-z] dev/nvme[0-9]; do",
        '[ ! -e "$each" ] || run "smart ${each##*/}" 20 smartctl exec $sudo smartctl -a "/$each"',
        "done",
    ]
    assert "use_sudo\n" in shgroups.functions([], sudo=True)
    assert "use_sudo\n" not in shgroups.functions([], sudo=False)


def test_groups_are_as_far_apart_as_they_may() -> None:
    groups = [
        Watch("gpu", "a", 30, "medium"),
        Watch("b", "b", 30, "medium"),
        Watch("c", "c", 300, "slow"),
        Watch("d", "d", 60, "slow"),
    ]
    text = shgroups.functions(groups, sudo=False, pace=2.0)
    assert "every_gpu=60 limit_gpu=65 first_gpu=15" in text
    assert "every_b=60 limit_b=5 first_b=30" in text
    assert "every_c=600 limit_c=5 first_c=450" in text
    assert "every_d=60 limit_d=5 first_d=60" in text


@pytest.mark.parametrize("path", ["/a b", "/$(id)", "/a;b", "/a'b", "a", "/`x`", "/a\n", "/~", "/a&b", '/"'])
def test_a_path_that_a_shell_could_read_as_more_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        body([Read(path)])
    with pytest.raises(ValueError, match="path"):
        body(run=[Run("a", ["true"], each=path)])


@pytest.mark.parametrize("name", ["a b", "A", "a;b", "$(id)", ""])
def test_so_is_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        body(run=[Run(name, ["true"])])
    with pytest.raises(ValueError, match="name"):
        shgroups.functions([Watch(name, "a", 30, "medium")], sudo=False)


@pytest.mark.parametrize("expression", ["a(?=b)", "a*?", r"[\d]", r"\bx", r"a{2}+", "(?:a)"])
def test_an_expression_that_grep_cannot_say_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="grep"):
        shgroups.extended(expression)


LINES = [
    " 259       0 nvme0n1 1 2 3",
    "   8       1 sda1 1 2 3",
    "   8       0 sda 1 2 3",
    " 253 0 dm-0 1",
    "22 1 259:2 / / rw - ext4 /dev/a rw",
    "23 1 0:5 / /x rw - fuse.sshfs a rw",
    "24 1 0:5 / /y rw - sysfs a rw",
    "25 1 0:5 / /z rw - nfs4 a rw",
    "device a mounted on /",
    "\tage:\t5",
    "        READ: 1 2",
    "\tread: 1",
    "current_state: FULL",
    "Tcp: 1",
    "oom_kill 5",
    "oom_kill_x 5",
    "SwapTotal:  5 kB",
    "Max locked memory  1",
    "nvidia 5",
    "nvidia_uvm 5",
    "nvidia_peermem 5",
    "btime 5",
    "PRETTY_NAME=x",
]


@pytest.mark.parametrize(
    "expression",
    [
        read.keep.partition(" ")[2]
        for group in load_manifest().watch
        for read in group.read
        if read.keep.startswith("only ")
    ],
)
@pytest.mark.parametrize("program", [["grep"], ["busybox", "grep"]])
def test_grep_finds_what_python_finds(program: list[str], expression: str) -> None:
    text = "\n".join(LINES) + "\n"
    command = [needs.tool(program[0]), *program[1:], "-E", "-e", shgroups.extended(expression)]
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    assert found.stdout.splitlines() == [line for line in LINES if re.search(expression, line)]
    assert found.stdout
