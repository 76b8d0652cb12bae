"""The command line under every login shell, the payload, and its cache."""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stethoscope import paths
from stethoscope.collect import payload, shrink, watchlist
from stethoscope.model import wire
from tests import needs

NONCE = "0f1e2d3c4b5a6978"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the payload out of the user's cache; return the directory that it goes to."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "payload-cache"))
    return paths.cache_dir() / "payload"


def run(shell: str, *, path: str = "/usr/bin:/bin", sent: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Start the probe in a login shell and stop it by a control line right behind the payload, without an end of
    input, which would end it sooner."""
    command = [shell, "-c", payload.command(NONCE, 2.0)]
    if sent is None:
        sent = payload.payload() + b'{"do":"full"}\n{"do":"stop"}\n'
    read, write = os.pipe()
    os.write(write, sent)
    complete = sent.endswith(b'{"do":"stop"}\n')
    if not complete:
        os.close(write)
    try:
        return subprocess.run(
            command,
            stdin=read,
            capture_output=True,
            env={"PATH": path, "HOME": "/nonexistent"},
            timeout=30,
            check=False,
        )
    finally:
        os.close(read)
        if complete:
            os.close(write)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "tcsh", "fish"])
def test_every_login_shell_starts_the_probe(shell: str) -> None:
    done = run(needs.tool(shell))
    lines = done.stdout.splitlines()
    assert lines[0].decode() == wire.sentinel(NONCE)
    messages = [wire.decode(line) for line in lines[1:]]
    assert isinstance(messages[0], wire.Hello)
    # Control lines that came with the payload were not swallowed by whoever read the payload.
    assert isinstance(messages[-1], wire.Bye)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "tcsh", "fish"])
def test_without_python_it_says_so(shell: str, tmp_path: Path) -> None:
    command = payload.command(NONCE, 2.0)
    # Nothing of that name is anywhere: not in PATH, not in the usual places.
    for name in ("python3", "platform-python"):
        command = command.replace(name, "no-such-" + name)
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = subprocess.run(
        [needs.tool(shell), "-c", command],
        input=b"",
        stdout=subprocess.PIPE,
        env={"PATH": str(tmp_path), "HOME": "/nonexistent"},
        timeout=30,
        check=False,
    )
    assert done.stdout.decode() == f"{wire.sentinel(NONCE)} no-python\n"
    assert done.returncode == 127


def test_an_old_or_broken_python_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho noise; echo noise >&2; exit 1\n")
    old.chmod(0o755)
    newer = tmp_path / "python3.12"
    newer.symlink_to(sys.executable)
    done = run("/bin/sh", path=f"{tmp_path}:/usr/bin:/bin")
    assert done.stdout.startswith(wire.sentinel(NONCE).encode())
    assert done.returncode == 0


def test_the_command_line_is_safe_in_every_quoting() -> None:
    command = payload.command(NONCE, 5.0)
    assert command.endswith(f" {NONCE} 5 '{wire.sentinel(NONCE)}'")
    inner = command.split("'")[1::2]
    assert len(inner) == 3
    assert not set("".join(inner)) & set("!\n\\'")
    assert len(command) < 2048
    ast.parse(inner[1])


@pytest.mark.parametrize("nonce", ["", "a b", "a'b", "$(id)", "a" * 65, "ä", "a\n"])
def test_a_nonce_that_a_shell_could_read_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        payload.command(nonce, 2.0)


@pytest.mark.parametrize("tick_s", [0.0, -1.0, 1e9, float("nan"), float("inf")])
def test_a_tick_out_of_reason_is_refused(tick_s: float) -> None:
    with pytest.raises(ValueError, match="tick"):
        payload.command(NONCE, tick_s)


@pytest.mark.parametrize("sent", [b"", b"12", b"100\nabc"])
def test_a_payload_that_breaks_off_ends_it_quietly(sent: bytes) -> None:
    done = run("/bin/sh", sent=sent)
    assert (done.stdout, done.stderr) == (b"", b"")


def unpack(data: bytes) -> tuple[str, str]:
    """Return the sources in a payload: the probe's, and that of its NVML child."""
    length, _, blob = data.partition(b"\n")
    assert int(length) == len(blob)
    probe, child = (text.decode("ascii") for text in wire.unpack(blob)[:2])
    return probe, child


def unpack_later() -> tuple[str, str]:
    """Return the sources in the second stage."""
    probe, child = (text.decode("ascii") for text in wire.unpack(b"".join(payload.stages()))[2:4])
    return probe, child


def test_both_stages_are_small_and_all_that_a_node_gets() -> None:
    first = len(payload.payload())
    sent = first + max(len(payload.watch_line(sudo, watchlist.MANY_PACE)) for sudo in (False, True))
    assert sent <= 15 * 1024
    probe, child = unpack(payload.payload())
    later = unpack_later()
    for source in (probe, child, *later):
        # Nothing is written in a way that is newer than the oldest Python.
        ast.parse(source, feature_version=(3, 6))
        assert '"""' not in source
        assert "# " not in source


@pytest.mark.parametrize("stage", [0, 1])
def test_nothing_is_lost_of_any_part(stage: int) -> None:
    parts = {file.stem: ast.parse(file.read_text()) for file in paths.bundled("probes").glob("*.py")}
    first = {"files", "processes", "fabric", "host", "kernel_log", "nvml", "stream", "nvml_child"}
    chosen = [tree for name, tree in parts.items() if (name in first) == (stage == 0)]
    texts = unpack_later() if stage else unpack(payload.payload())
    shipped = [ast.parse(text) for text in texts]
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Call, ast.Compare, ast.Try, ast.Return, ast.Raise, ast.While, ast.For)
    for kind in kinds:
        # Both processes are started by a call of `main`; the one behind the guard of a file that is run stays behind.
        more = {} if stage else {ast.Call: 1, ast.Compare: -1}
        assert count(shipped, kind) - count(chosen, kind) == more.get(kind, 0)


def count(trees: list[ast.Module], kind: type[ast.AST]) -> int:
    """Return how many nodes of a kind there are."""
    return sum(isinstance(node, kind) for tree in trees for node in ast.walk(tree))


def unpacked(line: bytes) -> list[dict[str, Any]]:
    """Return the groups of a watch line."""
    head, _, packed = line.partition(b"\n")
    said = json.loads(head)
    assert said.pop("bytes") == len(packed)
    groups = wire.loose(wire.watch_groups(packed, payload.stages()[0]), said.pop("pace", 1))
    assert said in ({"do": "watch"}, {"do": "watch", "sudo": True})
    return groups


def test_the_line_after_the_first_frame_has_the_groups_of_the_manifest() -> None:
    assert unpacked(payload.watch_line(False)) == unpacked(payload.watch_line(True))
    sudo = {json.loads(payload.watch_line(allowed).partition(b"\n")[0]).get("sudo") for allowed in (False, True)}
    assert sudo == {None, True}
    found = unpacked(payload.watch_line(True))
    groups = {group["name"]: group for group in found}
    assert groups["gpu"] == {"name": "gpu", "s": 30, "read": [], "run": []}
    reads = {path for group in found for path, _ in group["read"]}
    assert {"/proc/diskstats", "/sys/class/net/*/device"} <= reads
    assert "/sys/bus/pci/drivers/nvme/0*/max_link_width" in {path for braced in reads for path in wire.expand(braced)}
    each = "/dev/{sd[a-z],sd[a-z][a-z],nvme[0-9],nvme[0-9][0-9]}"
    smart = {"id": "smart", "argv": ["smartctl", "--json=c", "-a"], "limit": 20, "sudo": 1, "each": each}
    assert groups["smart"]["run"] == [smart]
    assert [run["id"] for group in found for run in group["run"] if run["sudo"]] == [
        "bmc",
        "smart",
        "chassis",
        "air",
        "sel",
    ]
    # What the node gets says all that the manifest does.
    whole = [{"read": [], "run": [], **group} for group in watchlist.watch_groups(sudo=True)]
    for group in whole:
        group["run"] = [{"limit": 10, "sudo": 0, "each": "", **run} for run in group["run"]]
    assert [{**group, "read": sorted(group["read"])} for group in found] == [
        {**group, "read": sorted(group["read"])} for group in whole
    ]


def test_a_large_fleet_is_read_half_as_often() -> None:
    assert (watchlist.pace_of(256), watchlist.pace_of(257)) == (1.0, 2.0)
    small, large = (unpacked(payload.watch_line(False, watchlist.pace_of(nodes))) for nodes in (256, 257))
    seconds = {group["name"]: group["s"] for group in large}
    assert seconds == {
        "gpu": 60, "pcie": 60, "disks": 60, "mounts": 60, "net": 60, "host": 60, "clock": 60, "tuning": 60,
        "identity": 600, "smart": 240, "bmc": 60,
    }  # fmt: skip
    assert [{**group, "s": 0} for group in small] == [{**group, "s": 0} for group in large]


def test_every_command_of_the_manifest_is_documented() -> None:
    text = (paths.bundled("probes").parent / "docs" / "probes.md").read_text()
    assert [command for command in watchlist.commands_of() if f"`{command}`" not in text] == []


@pytest.mark.parametrize(
    ("pattern", "patterns"),
    [
        ("/a/b*", ["/a/b*"]),
        ("/{a,b}/c", ["/a/c", "/b/c"]),
        ("/{a,b}/{c,d}_e", ["/a/c_e", "/a/d_e", "/b/c_e", "/b/d_e"]),
        ("/a{,x}", ["/a", "/ax"]),
    ],
)
def test_braces_stand_for_several_patterns(pattern: str, patterns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert wire.expand(pattern) == patterns
    monkeypatch.syspath_prepend(str(paths.bundled("probes")))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert importlib.import_module("keep").expand(pattern) == patterns


def test_the_manifest_names_every_part() -> None:
    stream, shell = yaml.safe_load((paths.bundled("probes") / "manifest.yaml").read_text())["probes"]
    assert (paths.bundled("probes") / shell["file"]).is_file()
    files = {file.name for file in paths.bundled("probes").glob("*.py")}
    assert {stream["file"], *stream["parts"]} == files
    assert len(stream["parts"]) == len(files) - 1


def test_the_cache_is_used_and_a_broken_one_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for old in cache.glob("*.bin"):
        old.unlink()
    data = payload.payload()
    (kept,) = cache.glob("*.bin")
    assert kept.stat().st_mode & 0o777 == 0o600
    with monkeypatch.context() as patch:
        patch.setattr(payload, "build", lambda *_: pytest.fail("made again although it is kept"))
        assert payload.payload() == data
    for broken in (b"", b"x" * 31, kept.read_bytes()[:-1]):
        kept.write_bytes(broken)
        assert payload.payload() == data
    assert payload.payload() == data


def test_a_change_of_any_part_makes_the_payload_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(paths.bundled("probes"), tmp_path / "probes", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(paths, "bundled", lambda kind: tmp_path / kind)
    # It takes a while; what it leaves out is looked at above.
    monkeypatch.setattr(shrink, "compact", str)
    made = {payload.stages()}
    for number, file in enumerate(sorted((tmp_path / "probes").glob("*.py")), 2):
        file.write_text(file.read_text() + f"\nchanged = 'text {number}'\n")
        made.add(payload.stages())
        assert len(made) == number


def test_a_cache_that_cannot_be_written_costs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert "stethoscope.probe/1" in unpack(payload.payload())[0]


def test_the_module_warms_the_cache_and_prints_sizes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope.collect.payload"],
        stdout=subprocess.PIPE,
        cwd=Path(payload.__file__).parents[2],
        check=True,
    )
    assert done.stdout.startswith(b"payload %d bytes before the first frame, " % len(payload.payload()))
