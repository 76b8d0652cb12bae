"""The command line under every login shell, the payload, and its cache."""

from __future__ import annotations

import ast
import base64
import json
import os
import shutil
import subprocess
import sys
import zlib
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


def unpack(data: bytes) -> tuple[dict[str, str], dict[str, str], str]:
    """Return the sources in a payload: the probe's parts by name, those of its NVML child, and pynvml."""
    length, _, blob = data.partition(b"\n")
    assert int(length) == len(blob)
    probe, _, child = zlib.decompress(blob).decode().partition("\1")
    *own, nvml = child.split("\0")
    return named(probe.split("\0")), named(own), nvml


def named(texts: list[str]) -> dict[str, str]:
    """Return sources by name, of names and sources in turn."""
    return dict(zip(texts[::2], texts[1::2], strict=True))


def names_in(source: str) -> set[str]:
    """Return the functions and classes that a source defines."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_payload_is_small_and_has_what_the_probe_reaches() -> None:
    data = payload.payload()
    assert len(data) < 15360
    parts, child, nvml = unpack(data)
    # What a part imports comes before it.
    assert list(parts) == ["files", "processes", "fabric", "host", "kernel_log", "nvml", "stream"]
    assert list(child) == ["nvml_child"]
    later = named(payload.watch_parts().decode().split("\0"))
    assert list(later) == ["commands", "keep", "watch", "nvml_rare"]
    assert {*parts, *child, *later} == {file.stem for file in paths.bundled("probes").glob("*.py")}
    assert len(parts) + len(child) + len(later) == len({*parts, *child, *later})
    for source in (*parts.values(), *child.values(), *later.values(), nvml):
        assert '"""' not in source
        assert "# " not in source
    names = names_in(nvml)
    assert {"nvmlInit", "nvmlDeviceGetFieldValues", "NVMLError", "_LoadNvmlLibrary"} <= names
    assert not [name for name in names if "Vgpu" in name or name.startswith("nvmlDeviceSet")]
    # What only people read, and only Windows needs.
    assert "_errcode_to_string" not in nvml
    assert ".dll" not in nvml


def unpacked(line: bytes) -> list[dict[str, Any]]:
    """Return the groups of a watch line."""
    message = json.loads(line)
    assert message["do"] == "watch"
    return wire.unpack(message["packed"])


def test_the_line_after_the_first_frame_has_the_groups_of_the_manifest() -> None:
    plain, sudo = (unpacked(watchlist.watch_line(allowed)) for allowed in (False, True))
    groups = {group["name"]: group for group in plain}
    assert groups["gpu"] == {"name": "gpu", "s": 30}
    reads = {path for group in groups.values() for path, _ in group.get("read", ())}
    assert {"/proc/diskstats", "/sys/bus/pci/drivers/nvme/0*/max_link_width"} <= reads
    assert not [path for path in reads if set("{} ") & set(path)]
    smart = {"id": "smart", "argv": ["smartctl", "--json=c", "-a"], "limit": 20}
    each = "/dev/sd[a-z] /dev/sd[a-z][a-z] /dev/nvme[0-9] /dev/nvme[0-9][0-9]"
    assert groups["smart"]["run"] == [{**smart, "each": each}]
    assert sudo[-1]["run"] == [{**smart, "each": each, "sudo": 1}]
    runs = [run for group in sudo for run in group.get("run", ())]
    assert [run["id"] for run in runs if run.get("sudo")] == ["bmc", "smart"]
    packed = json.loads(watchlist.watch_line(True))["packed"]
    parts = zlib.decompress(base64.b85decode(packed)).decode().split("\0")[1:]
    assert named(parts).keys() >= {"watch", "keep"}
    # With what is sent at the start this is all that a node gets.
    assert len(watchlist.watch_line(True)) < 13_000


def test_a_large_fleet_is_read_half_as_often() -> None:
    assert (watchlist.pace_of(256), watchlist.pace_of(257)) == (1.0, 2.0)
    small, large = (unpacked(watchlist.watch_line(False, watchlist.pace_of(nodes))) for nodes in (256, 257))
    seconds = {group["name"]: group["s"] for group in large}
    assert seconds == {
        "gpu": 60, "pcie": 60, "disks": 60, "mounts": 60, "net": 60, "host": 60, "clock": 60, "tuning": 300,
        "identity": 300, "smart": 600,
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
def test_braces_stand_for_several_patterns(pattern: str, patterns: list[str]) -> None:
    assert watchlist.expand(pattern) == patterns


def test_the_manifest_names_every_part() -> None:
    stream, shell = yaml.safe_load((paths.bundled("probes") / "manifest.yaml").read_text())["probes"]
    assert (paths.bundled("probes") / shell["file"]).is_file()
    files = {file.name for file in paths.bundled("probes").glob("*.py")}
    assert {stream["file"], *stream["parts"]} == files
    assert len(stream["parts"]) == len(files) - 1


def test_the_sources_stay_what_they_were() -> None:
    for file in paths.bundled("probes").glob("*.py"):
        tree = ast.parse(file.read_text())
        # Nothing is written in a way that is newer than the oldest Python.
        shipped = ast.parse(shrink.compact(file.read_text()), feature_version=(3, 6))
        assert shape(shipped) == shape(tree)


def shape(tree: ast.Module) -> list[tuple[str, ...]]:
    """Return what others see of a module: the names that it defines, with the attributes and texts that each uses."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            attributes = sorted({node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)})
            found.append((statement.name, *attributes))
        elif isinstance(statement, ast.Assign):
            found.append((ast.unparse(statement.targets[0]),))
    return sorted(found)


def test_pruning_follows_what_is_mentioned() -> None:
    source = (
        '"""Text."""\nimport os\nA = 1\nB = A + 1\nC = 3\nstate = None\n'
        "def used(x):\n    '''Text.'''\n    global state\n    return helper(x, B)\n"
        "def helper(x, y=C):\n    return Kind\nclass Kind:\n    '''Text.'''\nclass Other:\n    pass\n"
        "def unused():\n    return Other\nused.ready = True\nused(0)\n"
    )
    pruned = shrink.compact(shrink.prune(source, {"used"}))
    assert {"A", "B", "C", "state", "used", "helper", "Kind"} == {
        name
        for node in ast.parse(pruned).body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [target.id for target in node.targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.Assign)
            else []
        )
    }
    assert "Text" not in pruned
    assert "used(0)" in pruned
    exec(compile(pruned, "pruned", "exec"), {})
    # An import that nothing needs any more goes as well.
    assert "import os" not in pruned


def test_what_is_never_needed_goes_wherever_it_stands() -> None:
    source = (
        "import sys, string\nTEXTS = {1: 'one'}\nclass Kind:\n    _fmt_ = {}\n    def __str__(self):\n"
        "        return TEXTS[1]\n    def value(self):\n        if sys.platform[:3] == 'win':\n            return 1\n"
        "        else:\n            return 2\nclass Empty:\n    _fmt_ = {}\ndef show():\n    return string\nshow()\n"
    )
    pruned = shrink.prune(source, {"Kind", "Empty"}, frozenset({"_fmt_", "__str__", "show"}))
    assert pruned == "class Kind:\n\n    def value(self):\n        return 2\n\nclass Empty:\n    pass"


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
    # They take a while; what they leave out is looked at above.
    monkeypatch.setattr(shrink, "compact", str)
    monkeypatch.setattr(shrink, "prune", lambda source, *_: source)
    made = {(payload.payload(), payload.watch_parts())}
    for number, file in enumerate(sorted((tmp_path / "probes").glob("*.py")), 2):
        file.write_text(file.read_text() + f"\nchanged = {number}\n")
        made.add((payload.payload(), payload.watch_parts()))
        assert len(made) == number


def test_a_cache_that_cannot_be_written_costs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert unpack(payload.payload())[0].keys() > {"stream"}


def test_a_console_without_pynvml_still_sends_the_probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    data = payload.payload()
    assert unpack(data)[1:] == ({}, "")
    done = run("/bin/sh", sent=data + b'{"do":"stop"}\n')
    full = wire.decode(done.stdout.splitlines()[2])
    assert isinstance(full, wire.Full)
    assert full.notes["nvml"] == "console has no pynvml"
    assert full.node["gpu_count"] == "unsupported"


def test_pynvml_is_never_imported_into_the_console() -> None:
    code = "import sys; from stethoscope.collect import payload; payload.payload(); sys.exit('pynvml' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(payload.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_the_module_warms_the_cache_and_prints_sizes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope.collect.payload"],
        stdout=subprocess.PIPE,
        cwd=Path(payload.__file__).parents[2],
        check=True,
    )
    assert done.stdout.startswith(b"payload %d bytes: probe " % len(payload.payload()))
