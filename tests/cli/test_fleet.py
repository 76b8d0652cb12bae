"""`stethoscope fleet` and sources from Slurm and groups, as commands: a fake Slurm on PATH and behind a real sshd."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.collect.sshd import Sshd
from tests.fake_slurm import NODES, FakeSlurm
from tests.store.made import record

if TYPE_CHECKING:
    from pathlib import Path

STETHOSCOPE = [sys.executable, "-m", "stethoscope"]
FABRIC = """\
CA   1  1 0x0000000000000001 4x NDR - SW  9 1 0x00000000000000aa ( 'gpu-001 HCA-1' - 'MF0;leaf-a-0:MQM9700/U1' )
CA   2  1 0x0000000000000002 4x NDR - SW  8 1 0x00000000000000bb ( 'gpu-001 HCA-2' - 'MF0;leaf-a-1:MQM9700/U1' )
CA   3  1 0x0000000000000003 4x NDR - SW  9 2 0x00000000000000aa ( 'gpu-002 HCA-1' - 'MF0;leaf-a-0:MQM9700/U1' )
CA   4  1 0x0000000000000004 4x NDR - SW  8 2 0x00000000000000bb ( 'gpu-002 HCA-2' - 'MF0;leaf-a-1:MQM9700/U1' )
CA   5  1 0x0000000000000005 4x NDR - SW  8 3 0x00000000000000bb ( 'other HCA-1' - 'MF0;leaf-a-1:MQM9700/U1' )
"""


class Run:
    """Runs the command with a home of its own."""

    def __init__(self, home: Path, path: str | None = None) -> None:
        self.environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        self.environment.pop("SSH_AUTH_SOCK", None)
        if path is not None:
            self.environment["PATH"] = path

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*STETHOSCOPE, *arguments], capture_output=True, text=True, env=self.environment, check=False, timeout=60
        )


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def run(tmp_path: Path, slurm: FakeSlurm) -> Run:
    return Run(tmp_path, slurm.path)


def test_init_from_slurm_with_the_fabric_loads_and_shows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ports.txt").write_text(FABRIC)
    path = tmp_path / "fleet.yaml"
    done = run(
        "fleet", "init", str(path), "--from-slurm", "--name", "lab", "--ibnetdiscover", str(tmp_path / "ports.txt")
    )
    assert done.returncode == 0, done.stderr
    assert f"{path}: 3 nodes, 4 groups" in done.stderr
    assert "no cable of cpu-001" in done.stderr
    assert "1 hosts there are not of this fleet" in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    shown = json.loads(run("fleet", "show", "--fleet", str(path), "--json").stdout)
    nodes = {node["node"]: node for node in shown["nodes"]}
    assert (nodes["gpu-001"]["address"], nodes["gpu-001"]["expected_gpus"], nodes["gpu-001"]["rack"]) == (
        "10.0.0.1", 8, "rack-a",
    )  # fmt: skip
    assert nodes["gpu-002"]["ports"] == [
        {"device": "mlx5_0", "port": 1, "rail": "0", "leaf": "leaf-a-0"},
        {"device": "mlx5_1", "port": 1, "rail": "1", "leaf": "leaf-a-1"},
    ]
    assert (nodes["cpu-001"]["expected_gpus"], nodes["cpu-001"]["rack"]) == (0, "rack-b")
    assert nodes["gpu-001"]["origins"]["expected_gpus"] == "defaults"
    assert shown["slurm"] == {"via": "local"}
    assert shown["groups"]["train"] == ["gpu-001", "gpu-002"]
    text = run("fleet", "show", "--fleet", str(path), "--user", "ops").stdout
    assert "leaf    leaf-a-0" in text
    assert "from command line" in text


def test_a_file_is_never_replaced_unasked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("mine\n")
    done = run("fleet", "init", str(path), "--hosts", "n[1-3]")
    assert (done.returncode, path.read_text()) == (64, "mine\n")
    assert "--force" in done.stderr
    assert run("fleet", "init", str(path), "--hosts", "n[1-3]", "--force").returncode == 0
    assert "n[1-3]" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_name_the_file_is_where_it_is_looked_for(run: Run, tmp_path: Path) -> None:
    assert run("fleet", "show").returncode == 64
    assert run("fleet", "init", "--hosts", "n[1-3]").returncode == 0
    assert (tmp_path / ".config" / "stethoscope" / "fleet.yaml").exists()
    assert run("fleet", "show").stdout.startswith("fleet · 3 nodes  n[1-3]")


def test_init_from_an_ssh_configuration_and_from_a_list(run: Run, tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("Host gpu7\n  User x\n")
    (tmp_path / "config").write_text(
        "Include more.conf\nHost gpu1 gpu2 # two\n  Port 23\nHost *\n  User y\nHost !a b?\n"
    )
    done = run("fleet", "init", "-", "--from-ssh-config", str(tmp_path / "config"))
    assert 'nodes: "gpu[1-2,7]"' in done.stdout
    (tmp_path / "list").write_text("# all\ngpu[1-2]\nlogin1, gpu9\n")
    assert 'nodes: "gpu[1-2,9],login1"' in run("fleet", "init", "-", "--list", str(tmp_path / "list")).stdout
    (tmp_path / "list").write_text("gpu1\nuser@gpu2\n")
    broken = run("fleet", "init", "-", "--list", str(tmp_path / "list"))
    assert broken.returncode == 65
    assert "list:2" in broken.stderr


def test_init_leaves_out_what_no_fleet_file_can_have(run: Run, slurm: FakeSlurm, tmp_path: Path) -> None:
    nodes = [
        "NodeName=n1 NodeAddr=-oProxyCommand=x Gres=gpu:h100:8 State=IDLE Partitions=gpu",
        "NodeName=n2 NodeAddr=10.0.0.2 Gres=gpu:h100:999 State=IDLE Partitions=gpu,true,1:30,*",
        "NodeName=n3 NodeAddr=10.0.0.3 Gres=gpu:h100:8 State=IDLE Partitions=nodes",
    ]
    slurm.say("scontrol show node", "\n".join(nodes) + "\n")
    slurm.say("scontrol show topology", "SwitchName=gpu Nodes=n[1-3]\n")
    path = tmp_path / "f.yaml"
    done = run("fleet", "init", str(path), "--from-slurm")
    assert done.returncode == 0
    assert "note: n1: its address -oProxyCommand=x is none; left out" in done.stderr
    assert "note: n2: 999 GPUs are more than a node has; left out" in done.stderr
    shown = json.loads(run("fleet", "show", "--fleet", str(path), "--json").stdout)
    assert {(node["node"], node["address"], node["rack"]) for node in shown["nodes"]} == {
        ("n1", None, "gpu"), ("n2", "10.0.0.2", "gpu"), ("n3", "10.0.0.3", "gpu"),
    }  # fmt: skip
    for group, members in (("gpu", "n[1-2]"), ("nodes", "n3"), ("true", "n2"), ("1:30", "n2")):
        asked = run("fleet", "show", "--fleet", str(path), "--group", group).stdout
        assert f"  {members}\n" in asked.splitlines(keepends=True)[0]


def test_an_ssh_configuration_that_includes_itself_and_names_that_are_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Include config\n" * 9 + "Include more\n" * 9 + "Host gpu1 $(id) a/b\n")
    (tmp_path / "more").write_text("Include config\n" * 9 + "Include more\n" * 9 + "Host gpu2\n")
    done = run("fleet", "init", "-", "--from-ssh-config", str(tmp_path / "config"))
    assert 'nodes: "gpu[1-2]"' in done.stdout
    assert done.stderr == "note: 2 names are none of hosts and left out, such as $(id)\n"


HOSTILE = "x\x1b]0;owned\x07\x1b[31mred\u202ey"


def test_names_of_files_and_words_of_the_command_line_reach_no_terminal_raw(run: Run, tmp_path: Path) -> None:
    name, broken = tmp_path / f"{HOSTILE}.sthr", tmp_path / "all" / f"{HOSTILE}.sthr"
    record(name, until_s=4.0)
    broken.parent.mkdir()
    broken.write_text("text")
    shutil.copy(name, broken.with_name(f"1{HOSTILE}.sthr"))
    shutil.copy(name, broken.with_name(f"2{HOSTILE}.sthr"))
    for arguments in (
        ("replay", "--info", str(broken.parent)),
        ("replay", "--info", "--json", str(broken.parent)),
        ("replay", "--info", str(broken)),
        ("replay", str(name), "--at", HOSTILE),
        ("check", "--replay", str(name), "--at", HOSTILE),
        ("check", "--replay", HOSTILE),
        ("check", "--playbooks", HOSTILE),
        ("record", "--hosts", HOSTILE),
        ("fleet", "init", str(tmp_path / f"{HOSTILE}.yaml"), "--hosts", "a"),
        ("fleet", "init", "-", "--hosts", "a", "--iblinkinfo", str(broken)),
        ("fleet", "show", "--fleet", str(broken)),
        ("fleet", f"--{HOSTILE}"),
        (HOSTILE,),
    ):
        status, said = on_a_terminal(run, *arguments)
        assert b"red" in said
        assert not [mark for mark in (b"\x1b]0", b"\x1b[31m", "\u202e".encode()) if mark in said], arguments
        assert status in (0, 64, 65)


def on_a_terminal(run: Run, *arguments: str) -> tuple[int, bytes]:
    """Return the exit status and the bytes that reach a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*STETHOSCOPE, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env={**run.environment, "TERM": "xterm"}
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):
        while data := os.read(ours, 65536):
            said += data
    os.close(ours)
    return process.wait(), said


@pytest.mark.parametrize(
    ("line", "where", "words"),
    [
        (r'name: "a\e[31mb"', "2:7", 'ab" has characters that cannot be shown'),
        (r'groups: {g: {nodes: "a", rack: "r\u202e"}}', "2:32", 'r" has characters that cannot be shown'),
        (r'groups: {"g\a": {nodes: a}}', "2:10", 'the key "g" has characters that cannot be shown'),
    ],
)
def test_a_fleet_file_has_no_hidden_characters(run: Run, tmp_path: Path, line: str, where: str, words: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(f"schema: stethoscope.fleet/1\n{line}\n")
    done = run("fleet", "show", "--fleet", str(path))
    assert (done.returncode, f"f.yaml:{where}: " in done.stderr, words in done.stderr) == (65, True, True), done.stderr


@pytest.mark.parametrize("name", ["a" * 300, "file/x"])
def test_a_path_that_cannot_be_is_said_in_words(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    path = str(tmp_path / name)
    for arguments in (
        ("fleet", "init", path, "--hosts", "a"),
        ("replay", path),
        ("replay", "--info", path),
        ("check", "--replay", path),
        ("check", "--playbooks", path),
        ("lint", "--playbooks", path),
    ):
        done = run(*arguments)
        assert (done.returncode in (64, 65), "Traceback" in done.stderr, path in done.stderr) == (True, False, True)


def test_init_says_what_does_not_fit(run: Run, tmp_path: Path) -> None:
    assert run("fleet", "init", "-").returncode == 64
    assert run("fleet", "init", "-", "--hosts", "a", "--from-slurm").returncode == 64
    (tmp_path / "none").write_text("nothing\n")
    done = run("fleet", "init", "-", "--hosts", "a", "--iblinkinfo", str(tmp_path / "none"))
    assert (done.returncode, "names no cable" in done.stderr) == (65, True)


def test_topology_of_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.conf").write_text("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2\n")
    text = run("fleet", "init", "-", "--hosts", "n[1-4]", "--topology", str(tmp_path / "t.conf"))
    assert "rack: b1" in text.stdout
    assert "1 nodes are in no block" in text.stderr


def test_groups_of_clustershell_and_of_the_file(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / ".config" / "clustershell"
    (directory / "groups.d").mkdir(parents=True)
    (directory / "groups.conf").write_text(f"[Main]\ndefault: site\nautodir: {directory}/groups.d\n")
    (directory / "groups.d" / "site.yaml").write_text("site:\n  racks: 'n[1-4]'\n  gpu: 'n[1-2]'\n")
    assert "racks" not in run("fleet", "show", "--group", "gpu").stdout
    assert run("fleet", "show", "--hosts", "@racks,m1").stdout.startswith("@racks,m1 · 5 nodes")
    path = tmp_path / "f.yaml"
    path.write_text("schema: stethoscope.fleet/1\nname: lab\ngroups: {gpu: {nodes: 'x[1-3]', rack: r9}}\n")
    shown = run("fleet", "show", "--fleet", str(path), "--group", "gpu").stdout
    assert shown.startswith("lab @gpu · 3 nodes  x[1-3]")
    assert "rack    r9" in shown
    wrong = run("fleet", "show", "--group", "rack")
    assert (wrong.returncode, 'did you mean "racks"' in wrong.stderr) == (64, True)
    init = run("fleet", "init", "-", "--from-groups", "gpu,racks")
    assert 'racks: {nodes: "n[1-4]"}' in init.stdout


def test_a_job_and_a_partition_name_nodes(run: Run, slurm: FakeSlurm) -> None:
    slurm.say("scontrol show node gpu-[001-002]", "\n".join(NODES.splitlines()[:2]) + "\n")
    shown = run("fleet", "show", "--slurm-job", "4242").stdout
    assert shown.startswith("job 4242 llm · 2 nodes  gpu-[001-002]")
    assert "from Slurm" in shown
    assert run("fleet", "show", "--partition", "train").stdout.startswith("partition train · 2 nodes")
    both = run("fleet", "show", "--partition", "train", "--slurm-job", "4242")
    assert (both.returncode, "give one" in both.stderr) == (64, True)
    gone = run("fleet", "show", "--slurm-job", "1")
    assert (gone.returncode, "knows no job 1" in gone.stderr) == (64, True)
    slurm.say("scontrol show job 4242", error="slurm_load_jobs error: Unable to contact slurm controller\n")
    down = run("fleet", "show", "--slurm-job", "4242")
    assert (down.returncode, "Unable to contact" in down.stderr) == (69, True)


def test_via_a_login_node_over_ssh(tmp_path: Path, slurm: FakeSlurm) -> None:
    run = Run(tmp_path)
    sshd = Sshd(tmp_path / "sshd", environment={"PATH": slurm.path})
    try:
        reach = ["--identity", str(sshd.identity), "--known-hosts", str(sshd.known_hosts)]
        via = ["--slurm-via", f"127.0.0.1:{sshd.port}", *reach]
        assert run("fleet", "show", "--partition", "train", *via).stdout.startswith("partition train · 2 nodes")
        text = run("fleet", "init", "-", "--from-slurm", *via)
        assert f'slurm: {{via: "127.0.0.1:{sshd.port}"}}' in text.stdout
        wrong = run("fleet", "show", "--partition", "train", "--slurm-via", f"127.0.0.1:{sshd.port}")
        assert (wrong.returncode, "host key" in wrong.stderr) == (69, True)
    finally:
        sshd.stop()


def test_no_slurm_anywhere(tmp_path: Path) -> None:
    done = Run(tmp_path)("fleet", "show", "--slurm-job", "1")
    assert done.returncode == 64
    assert "--slurm-via" in done.stderr


def test_hostile_text_does_not_reach_the_terminal(run: Run, slurm: FakeSlurm) -> None:
    slurm.say("scontrol show job 4242", error="\x1b]0;owned\x07\x1b[31mred\u202e\n")
    done = run("fleet", "show", "--slurm-job", "4242")
    assert "red" in done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)
    slurm.say("scontrol show job 4242", "JobId=4242 JobName=\x1b[2Jx\n   JobState=RUNNING NodeList=gpu-[001-002]\n")
    done = run("fleet", "show", "--slurm-job", "4242")
    assert done.stdout.startswith("job 4242 x · 2 nodes")
