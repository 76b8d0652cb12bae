"""`stethoscope fleet test` on real servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.collect.sshd import USER, Sshd, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sshds(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    servers: list[Sshd] = []

    def start(**options: object) -> Sshd:
        servers.append(Sshd(tmp_path / f"sshd{len(servers)}", **options))  # type: ignore[arg-type]
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def stethoscope(tmp_path: Path, *arguments: str, code: int = 0) -> str:
    """Run the program with an empty home; return what it printed."""
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment.pop("SSH_AUTH_SOCK", None)
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope", *arguments],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def fleet_file(tmp_path: Path, sshd: Sshd, hosts: str, defaults: str = "") -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "schema: stethoscope.fleet/1\nname: lab\n"
        f"defaults: {{address: 127.0.0.1, port: {sshd.port}, user: {USER}, identity_file: {sshd.identity}, "
        f"known_hosts: {sshd.known_hosts}, interval: 500ms{defaults}}}\nhosts:\n{hosts}"
    )
    return path


def test_what_works_and_what_to_do(tmp_path: Path, sshds: Callable[..., Sshd]) -> None:
    # `sudo` lets nobody; the log of the kernel is out of reach for a probe that sees another /dev.
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sudo").write_text("#!/bin/sh\necho 'sudo: a \033[31mpassword is required' >&2\nexit 1\n")
    (programs / "sudo").chmod(0o755)
    sshd = sshds(environment={"PATH": f"{programs}:{os.environ['PATH']}"})
    stranger, closed = sshd.new_key("stranger"), free_port()
    file = fleet_file(
        tmp_path,
        sshd,
        '  gpu-001: {}\n  gpu-002: {sudo: "-n", gpus: 0}\n  gpu-003: {gpus: 8}\n'
        f"  gpu-004: {{identity_file: {stranger}}}\n  gpu-[005-006]: {{port: {closed}}}\n",
    )
    document = json.loads(
        stethoscope(tmp_path, "fleet", "test", "--fleet", str(file), "--ssh-config", "none", "--json", code=1)
    )
    assert document["schema"] == "stethoscope.fleet.test/1"
    found = {node["node"]: node for node in document["nodes"]}
    version = ".".join(str(part) for part in sys.version_info[:3])
    for name in ("gpu-001", "gpu-002", "gpu-003"):
        node = found[name]
        assert (node["link"], node["reached"], node["authenticated"]) == ("live", True, True), node
        assert node["interpreter"].count(".") == version.count(".")
        assert abs(node["clock_offset_s"]) < 1
    assert (found["gpu-001"]["sudo"], found["gpu-002"]["sudo"]) == (None, "sudo: a password is required")
    assert (found["gpu-004"]["link"], found["gpu-004"]["reached"], found["gpu-004"]["authenticated"]) == (
        "auth refused",
        True,
        False,
    )
    assert (found["gpu-005"]["reached"], found["gpu-005"]["authenticated"]) == (False, None)
    advice = {(entry["what"], entry["nodes"]): entry["do"] for entry in document["advice"]}
    assert advice["not reached (refused)", "gpu-[005-006]"] == "is sshd running there, and is it the right port?"
    assert advice["auth refused", "gpu-004"] == (
        f"user {USER}: 1 key offered, none accepted; the server takes publickey"
    )
    assert advice["sudo -n not possible", "gpu-002"] == (
        "allow it in sudoers (NOPASSWD), or set sudo: false (sudo: a password is required)"
    )
    assert found["gpu-002"]["driver"] == "none"
    if found["gpu-001"]["driver"] == "no NVML library":
        assert advice["GPU driver: no NVML library", "gpu-[001,003]"] == (
            "is the driver installed? a node without GPUs needs gpus: 0 in the fleet file"
        )

    entries = json.loads(stethoscope(tmp_path, "journal", "--json"))["entries"]
    assert [(entry["node"], entry["kind"], entry["command"], entry["result"]) for entry in entries[-1:]] == [
        ("gpu-002", "test", "sudo -n true", "failed: status 1")
    ]
    assert sorted(entry["node"] for entry in entries if entry["kind"] == "stream") == ["gpu-001", "gpu-002", "gpu-003"]
    kept = next((tmp_path / "state/stethoscope/journal").iterdir())
    assert kept.stat().st_mode & 0o777 == 0o600
    shown = stethoscope(tmp_path, "journal", "--node", "gpu-[002-003]", "--since", "1h")
    assert len(shown.splitlines()) == 3
    assert "gpu-001" not in shown
    assert stethoscope(tmp_path, "journal", "--since", "2999-01") == ""


def test_read_only_asks_for_no_sudo(tmp_path: Path, sshds: Callable[..., Sshd]) -> None:
    sshd = sshds()
    file = fleet_file(tmp_path, sshd, "  gpu-001: {}\n", ', gpus: 0, sudo: "-n"')
    options = ("--fleet", str(file), "--ssh-config", "none", "--read-only")
    text = stethoscope(tmp_path, "fleet", "test", *options, "--json", code=0 if _all_to_be_seen() else 1)
    assert json.loads(text)["nodes"][0]["sudo"] is None
    assert "sudo" not in sshd.log.read_text()
    stethoscope(tmp_path, "fleet", "show", "--slurm-job", "7", "--slurm-via", "login", "--read-only", code=69)
    entries = json.loads(stethoscope(tmp_path, "journal", "--node", "login", "--json"))["entries"]
    assert [entry["result"] for entry in entries] == ["refused: --read-only allows no command but the stream probe"]


def _all_to_be_seen() -> bool:
    return os.access("/dev/kmsg", os.R_OK)


def test_nobody_there(tmp_path: Path, sshds: Callable[..., Sshd]) -> None:
    file = fleet_file(tmp_path, sshds(), f"  gpu-[001-003]: {{port: {free_port()}}}\n")
    text = stethoscope(tmp_path, "fleet", "test", "--fleet", str(file), "--ssh-config", "none", code=69)
    assert text == (
        "lab: 3 nodes, 0 fine\n  gpu-[001-003]  refused\n\nwhat to do\n"
        "  not reached (refused) on gpu-[001-003]: is sshd running there, and is it the right port?\n"
    )


# ---- keys with a passphrase, on a terminal


class Terminal:
    """A run of the program on a terminal of its own."""

    def __init__(self, tmp_path: Path, *arguments: str, agent: str | None = None) -> None:
        environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        environment.pop("SSH_AUTH_SOCK", None)
        if agent is not None:
            environment["SSH_AUTH_SOCK"] = agent
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, "-m", "stethoscope", *arguments], environment)
        self.text = ""

    def until(self, words: str, count: int = 1) -> None:
        while self.text.count(words) < count:
            assert self._read(), self.text

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)


def locked(sshd: Sshd, passphrase: str = "open sesame") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-f", str(sshd.identity)], check=True)
    return sshd.identity


def test_a_passphrase_is_asked_for_once_for_all_nodes(tmp_path: Path, sshds: Callable[..., Sshd]) -> None:
    sshd = sshds()
    key = locked(sshd)
    file = fleet_file(tmp_path, sshd, "  gpu-[001-005]: {}\n")
    run = Terminal(tmp_path, "fleet", "test", "--fleet", str(file), "--ssh-config", "none", "--json")
    run.until(f"passphrase of {key}: ")
    run.type("wrong one\n")
    run.until("wrong passphrase")
    run.until("passphrase of", 2)
    run.type("open sesame\n")
    assert run.end() in (0, 1)
    assert run.text.count("passphrase of") == 2
    assert run.text.count('"authenticated": true') == 5
    for secret in ("open sesame", "wrong one"):
        assert secret not in run.text
        kept = [path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file()]
        assert not [text for text in kept if secret in text]


def test_three_wrong_passphrases_are_the_end(tmp_path: Path, sshds: Callable[..., Sshd]) -> None:
    sshd = sshds()
    key = locked(sshd)
    sshd.config.write_text(f"Host n1\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {key}\n")
    run = Terminal(tmp_path, "check", "--hosts", "n1", "--ssh-config", str(sshd.config))
    for number in range(1, 4):
        run.until("passphrase of", number)
        run.type(f"{number}\n")
    assert run.end() == 64
    assert f"stethoscope: {key}: wrong passphrase, 3 times" in run.text


def test_nothing_is_asked_without_a_terminal_or_when_the_agent_has_the_key(
    tmp_path: Path, sshds: Callable[..., Sshd]
) -> None:
    sshd = sshds()
    agent = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(agent)], stdout=subprocess.DEVNULL)
    try:
        while not agent.exists():
            pass
        environment = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
        subprocess.run(["ssh-add", "-q", str(sshd.identity)], env=environment, check=True)
        locked(sshd)
        file = fleet_file(tmp_path, sshd, "  gpu-001: {}\n")
        options = ("fleet", "test", "--fleet", str(file), "--ssh-config", "none", "--json")
        run = Terminal(tmp_path, *options, agent=str(agent))
        assert run.end() in (0, 1)
        assert "passphrase" not in run.text
        assert '"authenticated": true' in run.text
        refused = json.loads(stethoscope(tmp_path, *options, code=1))["nodes"][0]
        assert refused["link"] == "auth refused"
        assert f"{sshd.identity} has a passphrase: ssh-add it" in refused["detail"]
    finally:
        process.kill()
        process.wait()
