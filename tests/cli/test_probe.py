"""`stethoscope probe` as a command: against real servers with tools of the test on their PATH, and on this machine."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.collect.ondemand import script
from stethoscope.specs.probes import load_manifest
from tests.cli.terminals import in_terminal
from tests.collect.fake_tools import path_with, tool
from tests.collect.sshd import USER, Sshd, free_port
from tests.probe.trees import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MLXLINK = """printf 'Operational Info\\n----------------\\nState                              : Active\\n'
echo "asked $*" >> {log}
"""


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    return tmp_path / "bin"


@pytest.fixture
def sshd(tmp_path: Path, bin_: Path) -> Iterator[Sshd]:
    tree = Tree.healthy(tmp_path / "root")
    server = Sshd(tmp_path / "sshd", environment={"PATH": path_with(bin_), "STETHOSCOPE_ROOT": str(tree.root)})
    yield server
    server.stop()


@pytest.fixture
def fleet(tmp_path: Path, sshd: Sshd) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "schema: stethoscope.fleet/1\nname: lab\n"
        f"defaults: {{address: 127.0.0.1, port: {sshd.port}, user: {USER}, identity_file: {sshd.identity}, "
        f"known_hosts: {sshd.known_hosts}, interval: 500ms, gpus: 0}}\n"
        f"hosts:\n  gpu-001: {{}}\n  gpu-002: {{}}\n  gpu-003: {{port: {free_port()}}}\n"
    )
    return path


def stethoscope(tmp_path: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program with an empty home."""
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    environment.pop("SSH_AUTH_SOCK", None)
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, "-m", "stethoscope", *arguments],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_the_list_has_every_probe_and_its_cost(tmp_path: Path) -> None:
    done = stethoscope(tmp_path, "probe", "list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [one.id for one in load_manifest().ondemand]
    assert "an adapter port, 3 s · harmless · better as root" in done.stdout
    document = json.loads(stethoscope(tmp_path, "probe", "list", "--json").stdout)
    assert document["schema"] == "stethoscope.probe_list/1"
    assert document["probes"][0]["id"] == "mlxlink"
    ascii_only = stethoscope(tmp_path, "probe", "list", "--ascii").stdout
    assert ascii_only.isascii()


def test_show_has_the_commands(tmp_path: Path) -> None:
    done = stethoscope(tmp_path, "probe", "show", "smartctl")
    assert done.returncode == 0
    assert 'must_root "$tool" -j -a "/dev/$1"' in done.stdout
    assert "It starts no test." in done.stdout
    done = stethoscope(tmp_path, "probe", "show", "smartclt\x1b[2J")
    assert (done.returncode, done.stdout) == (64, "")
    assert "\x1b" not in done.stderr


def test_a_narrow_terminal_gets_two_lines_a_probe(tmp_path: Path) -> None:
    _, written = in_terminal(tmp_path, "probe", "list", columns=80)
    lines = written.decode().replace("\r", "").splitlines()
    assert max(map(len, lines)) < 80
    assert "                    an adapter port, 3 s · harmless · better as root" in lines
    _, written = in_terminal(tmp_path, "probe", "list", columns=200)
    assert len(written.decode().splitlines()) == len(load_manifest().ondemand)


def test_show_prints_what_is_sent_byte_for_byte(tmp_path: Path) -> None:
    done = stethoscope(tmp_path, "probe", "show", "mlxlink", "--script")
    assert (done.returncode, done.stdout) == (0, script("mlxlink"))


def test_one_node_without_the_device_costs_the_others_nothing(tmp_path: Path, fleet: Path, bin_: Path) -> None:
    log = tmp_path / "asked"
    tool(bin_, "mlxlink", MLXLINK.format(log=log))
    options = ("--fleet", str(fleet), "--ssh-config", "none", "--json")
    wanted = ("--on", "gpu-001/ib/mlx5_0/", "--on", "gpu-002/ib/mlx5_99")
    done = stethoscope(tmp_path, "probe", "run", "mlxlink", *options, *wanted)
    assert done.returncode == 1, done
    said = [(one["place"], one["status"], one["words"]) for one in json.loads(done.stdout)["results"]]
    assert said == [
        ("gpu-001/ib/mlx5_0", "ok", ""),
        (
            "gpu-002/ib/mlx5_99",
            "refused",
            "mlxlink looks at one adapter port, and gpu-002/ib/mlx5_99 is none that is known; "
            'did you mean "gpu-002/ib/mlx5_2"?',
        ),
    ]
    assert log.read_text().splitlines() == ["asked -d mlx5_0 -p 1 -m -c"]


def test_a_full_disk_is_said_in_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stethoscope", "probe", "show", "mlxlink"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 70
    assert done.stderr == "stethoscope: the output cannot be written: No space left on device\n"


def test_devices_of_some_nodes_and_nothing_else(tmp_path: Path, fleet: Path, sshd: Sshd, bin_: Path) -> None:
    log = tmp_path / "asked"
    tool(bin_, "mlxlink", MLXLINK.format(log=log))
    options = ("--fleet", str(fleet), "--ssh-config", "none")
    done = stethoscope(tmp_path, "probe", "run", "mlxlink", *options, "--on", "gpu-[001-002]/ib/mlx5_0", "--json")
    assert done.returncode == 0, done
    document = json.loads(done.stdout)
    assert document["schema"] == "stethoscope.probe_run/1"
    assert document["summary"] == {"runs": 2, "answered": 2, "critical": 0, "warnings": 0}
    assert [one["place"] for one in document["results"]] == ["gpu-001/ib/mlx5_0", "gpu-002/ib/mlx5_0"]
    assert document["results"][0]["commands"][0]["command"] == "mlxlink -d mlx5_0 -p 1 -m -c"
    assert log.read_text().splitlines() == ["asked -d mlx5_0 -p 1 -m -c"] * 2
    assert sshd.log.read_text().count("Accepted publickey") == 2, "one connection a node, and no other node"
    journal = json.loads(stethoscope(tmp_path, "journal", "--json").stdout)["entries"]
    entries = [entry for entry in journal if entry["kind"] == "ondemand"]
    assert sorted(entry["node"] for entry in entries) == ["gpu-001", "gpu-002"]
    assert f"< {document['sha256']}.sh" in entries[0]["command"]


def test_what_people_read(tmp_path: Path, fleet: Path, bin_: Path) -> None:
    tool(bin_, "ibstat", "printf 'hostile \\033[31mtext\\033]0;x\\007\\n'; echo complaint >&2; exit 3")
    options = ("--fleet", str(fleet), "--ssh-config", "none", "--timeout", "10s")
    done = stethoscope(tmp_path, "probe", "run", "ibstat", *options)
    assert done.returncode == 1, done
    assert "\x1b" not in done.stdout
    first, second, *rest = done.stdout.splitlines()
    assert first == " ▲ gpu-[001-002]  ibstat ended with status 3: complaint"
    assert second.startswith(" ▲ gpu-003  there is no link: refused: ")
    text = "\n".join(rest)
    assert " $ ibstat   exit 3\n" in text
    assert "   hostile text\n   complaint" in text


def test_a_dry_run_runs_nothing(tmp_path: Path, fleet: Path, bin_: Path) -> None:
    tool(bin_, "mlxlink", f"touch {tmp_path}/ran")
    options = ("--fleet", str(fleet), "--ssh-config", "none", "--on", "gpu-001", "--dry-run")
    done = stethoscope(tmp_path, "probe", "run", "mlxlink", *options)
    assert done.returncode == 0, done
    assert 'run_root "$tool" -d "$1" -p "$2" -m -c' in done.stdout
    assert "gpu-001 mlx5_0 1  as the user who logged in" in done.stdout
    # The command line is long, and broken where the terminal ends.
    assert "stethoscope-probe mlxlink 40 - mlx5_0 1" in " ".join(done.stdout.split())
    assert not (tmp_path / "ran").exists()


def test_read_only_refuses_with_words(tmp_path: Path, fleet: Path, bin_: Path) -> None:
    tool(bin_, "ibstat", f"touch {tmp_path}/ran")
    options = ("--fleet", str(fleet), "--ssh-config", "none", "--on", "gpu-001", "--read-only")
    done = stethoscope(tmp_path, "probe", "run", "ibstat", *options)
    assert done.returncode == 1
    assert "--read-only allows no command but the stream probe" in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["mlxlnk"], 64, 'no probe is called "mlxlnk"; did you mean "mlxlink"?'),
        (["ibstat", "--on", "nowhere"], 64, 'no node is called "nowhere" here'),
        (["ibstat", "--timeout", "soon"], 64, "--timeout"),
        (["ibstat", "--on", "gpu-003", "--timeout", "10s"], 69, ""),
        (["mlxlink", "--on", "gpu-001/ib/mlx5_99"], 64, "gpu-001/ib/mlx5_99 is none that is known"),
    ],
)
def test_what_cannot_be_done(tmp_path: Path, fleet: Path, arguments: list[str], code: int, words: str) -> None:
    done = stethoscope(tmp_path, "probe", "run", *arguments, "--fleet", str(fleet), "--ssh-config", "none")
    assert done.returncode == code, done
    assert words in done.stderr


def test_a_recording_runs_nothing(tmp_path: Path) -> None:
    done = stethoscope(tmp_path, "probe", "run", "ibstat", "--replay", "x.sthr")
    assert (done.returncode, "a recording runs nothing" in done.stderr) == (64, True)


def test_on_this_machine(tmp_path: Path, bin_: Path) -> None:
    tool(bin_, "ibstat", "echo hello from here")
    done = stethoscope(tmp_path, "probe", "run", "ibstat", "--interval", "500ms", path=path_with(bin_))
    assert " $ ibstat\n" in done.stdout
    assert "   hello from here" in done.stdout


def test_a_terminal_sees_what_is_waited_for(tmp_path: Path, fleet: Path, bin_: Path) -> None:
    tool(bin_, "ibstat", "sleep 1; echo done")
    terminal, side = pty.openpty()
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    child = subprocess.Popen(
        [sys.executable, "-m", "stethoscope", "probe", "run", "ibstat", "--fleet", str(fleet),
         "--ssh-config", "none", "--on", "gpu-[001-002]"],
        env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=side,
    )  # fmt: skip
    os.close(side)
    said = b""
    try:
        while block := os.read(terminal, 4096):
            said += block
    except OSError:  # the other side is closed
        pass
    child.wait(30)
    os.close(terminal)
    assert b"connecting to 2 nodes, 0 done" in said
    assert b"asking 2 nodes for ibstat, 0 back, 0 s" in said
    assert said.endswith(b"\r\x1b[K")
