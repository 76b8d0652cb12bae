"""Scripts that run on demand: on real servers beside a probe, on this machine, with hostile tools."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope import paths
from stethoscope.clock import SystemClock
from stethoscope.collect import ondemand
from stethoscope.collect.command import CommandError
from stethoscope.collect.local import LocalSource
from stethoscope.collect.ssh import SshSource
from stethoscope.specs.probes import load_manifest
from tests import needs
from tests.collect.fake_tools import not_root, path_with, sudo, tool
from tests.collect.player import player, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.collect.command import Answer
    from tests.collect.sshd import Sshd

CLOCK = SystemClock()
SCRIPTS = sorted(path.stem for path in (paths.bundled("probes") / "ondemand").glob("*.sh") if path.stem != "common")


async def ask(
    sshd: Sshd, probe: str, *arguments: str, limit_s: float = 10, may_sudo: bool = False
) -> tuple[Answer, list[str]]:
    """Run a script beside a probe; return its answer and the lines of its standard output."""
    source = SshSource(sshd.fleet("n1"), CLOCK, program=player(), ssh_config="none")
    async with running(source) as watcher:
        await watcher.live("n1")
        line = ondemand.command(probe, limit_s, arguments, sudo=may_sudo)
        answer = await source.run_script("n1", line, ondemand.script(probe), limit_s)
        before = len(watcher.frames["n1"])
        await watcher.until(lambda: len(watcher.frames["n1"]) > before)
    return answer, answer.stdout.decode("utf-8", "replace").split("\n")


async def gone(pid: int) -> None:
    """Wait until a process is no more."""
    async with asyncio.timeout(10):
        while (Path("/proc") / str(pid)).exists():
            await asyncio.sleep(0.02)


def here(
    tmp_path: Path,
    shell: str,
    probe: str,
    *arguments: str,
    limit_s: float = 20,
    may_sudo: bool = False,
    is_waited_for: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a script from a shell, with its input open to its end or, where it is not waited for, closed at once."""
    with subprocess.Popen(
        [shell, "-c", ondemand.command(probe, limit_s, arguments, sudo=may_sudo)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": path_with(tmp_path / "bin"), "HOME": str(tmp_path)},
        start_new_session=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(ondemand.script(probe))
        child.stdin.flush()
        if not is_waited_for:
            child.stdin.close()
        status = child.wait(30)
        return subprocess.CompletedProcess(child.args, status, child.stdout.read(), child.stderr.read())


# ---------------------------------------------------------------- what is sent


def test_every_script_of_the_manifest_is_there_and_no_other() -> None:
    assert sorted(probe.id for probe in load_manifest().ondemand) == SCRIPTS


@pytest.mark.parametrize("probe", SCRIPTS)
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox", "mksh"])
def test_every_shell_can_read_every_script(probe: str, shell: str) -> None:
    program = [needs.tool(shell), *(["sh"] if shell == "busybox" else [])]
    done = subprocess.run([*program, "-n"], input=ondemand.script(probe), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("probe", SCRIPTS)
def test_every_script_says_what_it_does_and_why_that_is_harmless(probe: str) -> None:
    assert re.search(r"only reads|It starts no test|refused while a job", ondemand.about(probe)), ondemand.about(probe)
    assert "#" not in ondemand.commands_of(probe).replace("$#", "")


@pytest.mark.parametrize(
    "word", ["", "-rf", "a b", "a;b", "$(id)", "`id`", "a\nb", "'", '"', "\\", "*", "~root", "=ls", "!x", "ü"]
)
def test_no_argument_that_a_shell_could_read_in_its_own_way(word: str) -> None:
    with pytest.raises(ValueError, match="argument"):
        ondemand.command("mlxlink", 10, [word], sudo=False)


@given(st.text(max_size=40))
def test_an_argument_arrives_as_it_is_or_not_at_all(word: str) -> None:
    try:
        line = ondemand.command("mlxlink", 10, [word], sudo=False)
    except ValueError:
        return
    assert line.endswith(f" stethoscope-probe mlxlink 10 - {word}")
    assert set(word) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-")


@pytest.mark.parametrize(("probe", "limit_s"), [("../x", 10), ("a b", 10), ("mlxlink", 0), ("mlxlink", 1e9)])
def test_no_other_id_and_no_other_limit(probe: str, limit_s: float) -> None:
    with pytest.raises(ValueError, match="probe"):
        ondemand.command(probe, limit_s, [], sudo=False)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "csh", "tcsh", "fish", "mksh", "ksh"])
def test_every_login_shell_takes_the_command_line(tmp_path: Path, shell: str) -> None:
    tool(tmp_path / "bin", "mlxlink", 'echo "got $*"; cat; exit 3')
    done = here(tmp_path, needs.tool(shell), "mlxlink", "mlx5_3", "1")
    assert done.stdout == (
        "stethoscope-probe: $ mlxlink -d mlx5_3 -p 1 -m -c\ngot -d mlx5_3 -p 1 -m -c\n\nstethoscope-probe: exit 3\n"
    )
    assert done.stderr == "stethoscope-probe: $ mlxlink -d mlx5_3 -p 1 -m -c\n"
    assert done.returncode == 3


@pytest.mark.parametrize("sh", ["dash", "bash", "mksh", "ksh", "busybox"])
def test_every_sh_runs_the_script_and_ends_it_with_its_input(tmp_path: Path, sh: str) -> None:
    programs = tmp_path / "bin"
    tool(programs, "smartctl", f'echo "got $*"; echo complaint >&2; [ ! -e {tmp_path}/slow ] || sleep 30; exit 4')
    not_root(programs)
    sudo(programs)
    (programs / "sh").symlink_to(needs.tool(sh))
    done = here(tmp_path, "/bin/sh", "smartctl", "nvme0n1", may_sudo=True)
    assert (done.returncode, done.stdout) == (
        4,
        "stethoscope-probe: $ sudo -n smartctl -j -a /dev/nvme0n1\ngot -j -a /dev/nvme0n1\n\n"
        "stethoscope-probe: exit 4\n",
    )
    (tmp_path / "slow").touch()
    began = time.monotonic()
    here(tmp_path, "/bin/sh", "smartctl", "nvme0n1", may_sudo=True, is_waited_for=False)
    assert time.monotonic() - began < 10


def test_a_tool_that_reads_its_input_does_not_swallow_the_script(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ethtool", "cat; echo one")
    done = here(tmp_path, "/bin/sh", "ethtool", "eth0")
    assert done.stdout.count("one\n") == 3
    assert done.stdout.count("stethoscope-probe: exit 0\n") == 3


# ---------------------------------------------------------------- over a real server


async def test_beside_the_probe_on_the_connection_that_is_kept(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "mlxlink", "echo light; echo complaint >&2")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    answer, lines = await ask(sshd, "mlxlink", "mlx5_3", "1")
    assert (answer.status, answer.late, answer.cut) == (0, False, False)
    assert lines == ["stethoscope-probe: $ mlxlink -d mlx5_3 -p 1 -m -c", "light", "", "stethoscope-probe: exit 0", ""]
    assert answer.stderr.endswith("complaint\n")
    assert sshd.log.read_text().count("Accepted publickey") == 1


@pytest.mark.parametrize("shell", ["tcsh", "fish"])
async def test_behind_a_strange_login_shell(sshds: Callable[..., Sshd], tmp_path: Path, shell: str) -> None:
    tool(tmp_path / "bin", "mstlink", "echo light")
    program = needs.tool(shell)
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")}, force=f'exec {program} -c "$SSH_ORIGINAL_COMMAND"')
    answer, lines = await ask(sshd, "mlxlink", "mlx5_3", "1")
    assert answer.status == 0
    assert lines[:2] == ["stethoscope-probe: $ mstlink -d mlx5_3 -p 1 -m -c", "light"]


async def test_a_tool_that_is_not_there(sshd: Sshd) -> None:
    answer, _ = await ask(sshd, "mlxlink", "mlx5_3", "1")
    assert (answer.status, answer.stdout, answer.stderr) == (127, b"", "stethoscope-probe: not installed: mlxlink\n")


async def test_a_flood_is_cut_and_ended(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", "yes flood")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    began = time.monotonic()
    answer, _ = await ask(sshd, "ibstat", limit_s=30)
    assert answer.cut
    assert len(answer.stdout) == ondemand.OUTPUT_LIMIT
    assert time.monotonic() - began < 10


async def test_the_node_ends_what_takes_too_long(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", "echo begun; sleep 60")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    answer, lines = await ask(sshd, "ibstat", limit_s=1)
    assert (answer.status, answer.late) == (124, False)
    assert "begun" in lines


async def test_what_ignores_that_it_should_end_is_killed(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    answer, _ = await ask(sshd, "ibstat", limit_s=1)
    assert (answer.status, answer.late, answer.held) == (None, False, False)
    await gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("kind", ["GNU", "busybox", "none"])
async def test_nothing_runs_on_once_nobody_waits(sshds: Callable[..., Sshd], tmp_path: Path, kind: str) -> None:
    programs = tmp_path / "bin"
    tool(programs, "ibstat", f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")
    if kind == "busybox":
        (programs / "timeout").symlink_to(needs.tool("busybox"))
    elif kind == "none":
        tool(programs, "timeout", "exit 127")
    sshd = sshds(environment={"PATH": path_with(programs)})
    source = SshSource(sshd.fleet("n1"), CLOCK, program=player(), ssh_config="none")
    async with running(source) as watcher:
        await watcher.live("n1")
        line = ondemand.command("ibstat", 60, [], sudo=False)
        asking = asyncio.create_task(source.run_script("n1", line, ondemand.script("ibstat"), 60))
        await watcher.until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        asking.cancel()
        await gone(int((tmp_path / "pid").read_text()))
        before = len(watcher.frames["n1"])
        await watcher.until(lambda: len(watcher.frames["n1"]) > before)


async def test_a_daemon_that_keeps_the_output_is_not_waited_for(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", f"echo out; sleep 30 & echo $! > {tmp_path}/pid")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    began = time.monotonic()
    answer, lines = await ask(sshd, "ibstat", limit_s=20)
    assert (answer.status, answer.late, answer.held) == (0, False, True)
    assert lines[1] == "out"
    assert time.monotonic() - began < 15
    # It is none of ours to end.
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


async def test_what_a_login_prints_stands_before_the_first_command(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", "echo fine")
    noisy = 'echo welcome; echo noise >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")}, force=noisy)
    answer, lines = await ask(sshd, "ibstat")
    assert answer.status == 0
    assert lines[:3] == ["welcome", "stethoscope-probe: $ ibstat ", "fine"]


async def test_what_cannot_be_killed_is_late_and_what_it_said_is_kept(
    sshds: Callable[..., Sshd], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ondemand, "AFTER_S", 0.5)
    # A `timeout` that does not end stands for one that waits for a process in state D.
    tool(tmp_path / "bin", "timeout", 'case "$*" in *true) exit 0;; esac; echo begun; exec sleep 20')
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    answer, lines = await ask(sshd, "ibstat", limit_s=1)
    assert (answer.status, answer.late) == (None, True)
    assert lines[0] == "begun"


async def test_a_connection_that_goes_meanwhile(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    tool(tmp_path / "bin", "ibstat", f"echo x > {tmp_path}/begun; sleep 30")
    sshd = sshds(environment={"PATH": path_with(tmp_path / "bin")})
    source = SshSource(sshd.fleet("n1"), CLOCK, program=player(), ssh_config="none")
    async with running(source) as watcher:
        await watcher.live("n1")
        line = ondemand.command("ibstat", 30, [], sudo=False)
        asking = asyncio.create_task(source.run_script("n1", line, ondemand.script("ibstat"), 30))
        await watcher.until((tmp_path / "begun").exists)
        sshd.stop()
        with pytest.raises(CommandError, match="connection was lost"):
            await asking


async def test_a_node_without_a_link(sshd: Sshd) -> None:
    source = SshSource(sshd.fleet("n1"), CLOCK, program=player(), ssh_config="none")
    with pytest.raises(CommandError, match="there is no link"):
        await source.run_script("n1", "true", "", 1)


async def test_a_server_that_gives_no_second_channel(sshds: Callable[..., Sshd]) -> None:
    sshd = sshds(extra="MaxSessions 1")
    with pytest.raises(CommandError, match="second channel"):
        await ask(sshd, "ibstat")


# ---------------------------------------------------------------- root


async def test_sudo_is_used_where_it_is_allowed(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    sudo(programs)
    tool(programs, "smartctl", "echo healthy")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, lines = await ask(sshd, "smartctl", "nvme0n1", may_sudo=True)
    assert answer.status == 0
    assert lines[:2] == ["stethoscope-probe: $ sudo -n smartctl -j -a /dev/nvme0n1", "healthy"]
    assert (programs / "sudo.log").read_text() == f"timeout -k 2 10 {programs}/smartctl -j -a /dev/nvme0n1\n"


async def test_sudo_for_the_tool_alone(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    tool(programs, "smartctl", "echo healthy")
    sudo(programs, allows=f"{programs}/smartctl*")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, _ = await ask(sshd, "smartctl", "nvme0n1", may_sudo=True)
    assert answer.status == 0
    assert (programs / "sudo.log").read_text() == f"{programs}/smartctl -j -a /dev/nvme0n1\n"


@pytest.mark.parametrize("may_sudo", [True, False])
async def test_what_needs_root_is_not_run_without(sshds: Callable[..., Sshd], tmp_path: Path, may_sudo: bool) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    sudo(programs, allows="nothing" if may_sudo else "*")
    tool(programs, "smartctl", f"touch {tmp_path}/ran")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, _ = await ask(sshd, "smartctl", "nvme0n1", may_sudo=may_sudo)
    assert (answer.status, answer.stderr) == (126, "stethoscope-probe: needs root: smartctl\n")
    assert not (tmp_path / "ran").exists()
    assert not (programs / "sudo.log").exists()


@pytest.mark.parametrize("words", ["sudo: a password is required", "sudo: interactive authentication is required"])
async def test_sudo_that_lists_a_command_and_then_wants_a_password(
    sshds: Callable[..., Sshd], tmp_path: Path, words: str
) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    tool(programs, "sudo", f'[ "$2" = -l ] && exit 0; echo "{words}" >&2; exit 1')
    tool(programs, "smartctl", f"touch {tmp_path}/ran")
    tool(programs, "ethtool", "echo light; exit 1")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, _ = await ask(sshd, "smartctl", "nvme0n1", may_sudo=True)
    assert answer.status == 126
    assert answer.stderr.endswith("stethoscope-probe: needs root: smartctl\n")
    assert not (tmp_path / "ran").exists()
    answer, lines = await ask(sshd, "ethtool", "eth0", may_sudo=True)
    assert lines[-8:] == [
        "stethoscope-probe: $ sudo -n ethtool -m eth0", "", "stethoscope-probe: exit refused",
        "stethoscope-probe: $ ethtool -m eth0", "light", "", "stethoscope-probe: exit 1", "",
    ]  # fmt: skip
    assert answer.status == 1


async def test_what_sudo_says_of_its_own_stays_with_its_command(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    tool(
        programs,
        "sudo",
        '[ "$2" = -l ] && exit 0; echo "We trust you have received the usual lecture" >&2; shift; "$@"',
    )
    tool(programs, "smartctl", "echo healthy; echo complaint >&2; exit 4")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, lines = await ask(sshd, "smartctl", "nvme0n1", may_sudo=True)
    assert (answer.status, lines[1]) == (4, "healthy")
    assert answer.stderr == (
        "stethoscope-probe: $ sudo -n smartctl -j -a /dev/nvme0n1\n"
        "We trust you have received the usual lecture\ncomplaint\n\n"
    )


async def test_what_is_better_with_root_runs_without(sshds: Callable[..., Sshd], tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    not_root(programs)
    sudo(programs, allows="nothing")
    tool(programs, "mlxlink", "echo light")
    sshd = sshds(environment={"PATH": path_with(programs)})
    answer, lines = await ask(sshd, "mlxlink", "mlx5_3", "1", may_sudo=True)
    assert (answer.status, lines[0]) == (0, "stethoscope-probe: $ mlxlink -d mlx5_3 -p 1 -m -c")


# ---------------------------------------------------------------- this machine


async def run_local(probe: str, *arguments: str, limit_s: float = 10) -> Answer:
    source = LocalSource(CLOCK, tick_s=0.2, program=player())
    name = source.nodes[0].name
    async with running(source) as watcher:
        await watcher.live(name)
        line = ondemand.command(probe, limit_s, arguments, sudo=False)
        return await source.run_script(name, line, ondemand.script(probe), limit_s)


async def test_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "mlxlink", "echo light; exit 2")
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin"))
    answer = await run_local("mlxlink", "mlx5_3", "1")
    assert answer.status == 2
    assert answer.stdout.split(b"\n")[1] == b"light"


async def test_a_flood_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "ibstat", "yes flood")
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin"))
    answer = await run_local("ibstat", limit_s=30)
    assert (answer.cut, len(answer.stdout)) == (True, ondemand.OUTPUT_LIMIT)


async def test_no_end_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ondemand, "AFTER_S", 0.5)
    tool(tmp_path / "bin", "timeout", 'case "$*" in *true) exit 0;; esac; echo begun; exec sleep 20')
    monkeypatch.setenv("PATH", path_with(tmp_path / "bin"))
    answer = await run_local("ibstat", limit_s=1)
    assert (answer.status, answer.late, answer.stdout) == (None, True, b"begun\n")


# ---------------------------------------------------------------- the switch behind a port

SMPQUERY = """\
case "$*" in
*nodedesc*) echo 'Node Description:........MF0;leaf-02-5:MQM9790/U1' ;;
*portinfo*) echo 'Lid:.............................21' ;;
*nodeinfo*) printf 'NodeType:........................Switch\\nNumPorts:........................3\\n' ;;
*vlarb*)
  for last; do :; done
  low='|0x10|0x0 |'
  [ "$last" = 2 ] && low='|0x0 |0x0 |'
  printf '# Low priority VL Arbitration Table:\\nVL    : |0x0 |0x1 |\\nWEIGHT: %s\\n' "$low"
  printf '# High priority VL Arbitration Table:\\nVL    : |0x4 |0x1 |\\nWEIGHT: |0x40|0x20|\\n'
  ;;
esac
"""
PERFQUERY = """\
count=$(cat "$HOME/count" 2>/dev/null || echo 0)
echo $((count + 1)) >"$HOME/count"
for port in 1 17; do
  echo "# Port extended counters: Lid 21 port $port (CapMask: 0x5A00 CapMask2: 0x0000002)"
  echo "PortXmitWait:....................$((1000000 + count * port * 4000000))"
  echo "LinkDownedCounter:...............$port"
done
"""


@pytest.mark.parametrize("sh", ["dash", "busybox"])
def test_a_switch_is_asked_through_a_port_without_a_login(tmp_path: Path, sh: str) -> None:
    program = needs.tool(sh)
    tool(tmp_path / "bin", "sh", f'exec {program} {"sh" if sh == "busybox" else ""} "$@"')
    tool(tmp_path / "bin", "smpquery", SMPQUERY)
    tool(tmp_path / "bin", "perfquery", PERFQUERY)
    tool(tmp_path / "bin", "id", "echo 0")
    done = here(tmp_path, "sh", "switch_counters", "mlx5_5", "1")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.split("\n") if line.startswith("port ")]
    still = "xmit_data 0/s xmit_discards 0/s symbol_errors 0.0/s rcv_errors 0.0/s"
    assert rows == [
        f"port 1 xmit_wait 2000000/s {still} link_downed 1",
        f"port 17 xmit_wait 34000000/s {still} link_downed 17",
    ]
    done = here(tmp_path, "sh", "switch_qos", "mlx5_5", "1")
    assert [line for line in done.stdout.split("\n") if line.startswith("port ")] == [
        "port 1 vl-arb: weighted (high 4:64,1:32  low 0:16)",
        "port 2 vl-arb: strict_priority (high 4:64,1:32)",
        "port 3 vl-arb: weighted (high 4:64,1:32  low 0:16)",
    ]
    assert "Node Description:........MF0;leaf-02-5:MQM9790/U1" in done.stdout


def test_a_port_behind_which_nothing_answers(tmp_path: Path) -> None:
    tool(tmp_path / "bin", "smpquery", "echo 'ibwarn: mad_rpc failed' >&2; exit 1")
    tool(tmp_path / "bin", "perfquery", "echo wrong")
    tool(tmp_path / "bin", "id", "echo 0")
    for probe in ("switch_counters", "switch_qos"):
        done = here(tmp_path, "dash", probe, "mlx5_5", "1")
        assert done.returncode == 1
        assert "wrong" not in done.stdout
