"""However the console goes away, nothing of the probe is left two seconds later; a hung driver call ends by itself."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope import paths
from stethoscope.collect import payload
from stethoscope.model import wire
from tests.probe.running import NONCE, children_of, group_of, has_mark, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Start = Callable[..., RunningProbe]

GRACE_S = 2.0


@pytest.fixture
def environment(fake_nvml: FakeNvml, tree: Tree) -> dict[str, str]:
    """Return the variables of a healthy node."""
    return {**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)}


def go_away(probe: RunningProbe, how: str) -> None:
    """Take the console away from the probe."""
    if how == "eof":
        probe.close_input()
    elif how == "stop":
        probe.send(do="stop")
    else:
        os.kill(probe.process.pid, getattr(signal, how))


@pytest.mark.parametrize("how", ["eof", "stop", "SIGHUP", "SIGTERM", "SIGINT"])
def test_nothing_is_left(how: str, start: Start, environment: dict[str, str]) -> None:
    probe = start(environment)
    probe.gpus()
    children = children_of(probe.process.pid)
    assert len(children) == 1
    go_away(probe, how)
    assert probe.ended_within(GRACE_S)
    assert group_of(probe.process.pid) == []
    assert wait_for(lambda: not has_mark(children[0], "stethoscope-nvml"), GRACE_S)


@pytest.mark.parametrize("how", ["eof", "SIGHUP", "SIGTERM"])
def test_a_hung_call_keeps_only_its_own_child(
    how: str, start: Start, environment: dict[str, str], fake_nvml: FakeNvml
) -> None:
    probe = start(environment)
    probe.gpus()
    fake_nvml.set(hang__nvmlDeviceGetPowerUsage__2=1)
    child = children_of(probe.process.pid)[0]
    for _ in range(4):
        probe.until(lambda message: isinstance(message, wire.Delta))
    go_away(probe, how)
    assert probe.ended_within(GRACE_S)
    assert group_of(probe.process.pid) == []
    assert has_mark(child, "stethoscope-nvml")
    fake_nvml.unset("hang__nvmlDeviceGetPowerUsage__2")
    assert wait_for(lambda: not has_mark(child, "stethoscope-nvml"), GRACE_S)


def test_a_reader_that_goes_away_ends_it(environment: dict[str, str]) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        ["/bin/sh", "-c", payload.command(NONCE, 0.2)],
        stdin=subprocess.PIPE,
        stdout=write,
        env={"PATH": "/usr/bin:/bin", **environment},
        start_new_session=True,
    )
    os.close(write)
    assert process.stdin is not None
    process.stdin.write(payload.payload())
    process.stdin.flush()
    assert os.read(read, 10) == b"stethoscop"
    os.close(read)
    assert process.wait(GRACE_S) == 0
    process.stdin.close()
    assert group_of(process.pid) == []


@pytest.mark.parametrize("how", ["eof", "SIGTERM"])
def test_a_reader_that_does_not_read_blocks_neither_its_end_nor_fills_memory(
    how: str, environment: dict[str, str]
) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        ["/bin/sh", "-c", payload.command(NONCE, 0.2)],
        stdin=subprocess.PIPE,
        stdout=write,
        env={"PATH": "/usr/bin:/bin", **environment},
        start_new_session=True,
    )
    os.close(write)
    assert process.stdin is not None
    process.stdin.write(payload.payload())
    process.stdin.flush()
    asked = b'{"do":"full"}\n' * 50

    held = [0] * 60

    def pipe_is_full() -> bool:
        assert process.stdin is not None
        process.stdin.write(asked)
        process.stdin.flush()
        held.append(struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, b"\0" * 4))[0])
        return held[-1] > 30000 and held[-1] == held[-60]

    assert wait_for(pipe_is_full, 10)
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert int(status.partition("VmRSS:")[2].split()[0]) < 40000
    if how == "eof":
        process.stdin.close()
    else:
        os.kill(process.pid, signal.SIGTERM)
    process.wait(GRACE_S)
    assert group_of(process.pid) == []
    os.close(read)


@pytest.mark.parametrize("how", ["eof", "SIGHUP", "SIGTERM"])
def test_a_file_that_blocks_its_reader_does_not_keep_it(
    how: str, start: Start, environment: dict[str, str], tree: Tree
) -> None:
    probe = start(environment)
    probe.gpus()
    state = tree.root / "sys/class/infiniband/mlx5_0/ports/1/state"
    state.unlink()
    os.mkfifo(state)
    with pytest.raises(AssertionError, match="nothing within"):
        for _ in probe.messages(patience_s=1.0):
            pass
    go_away(probe, how)
    assert probe.ended_within(GRACE_S)


def test_a_defect_of_the_probe_is_told_in_words(start: Start, tree: Tree) -> None:
    parts = {file.stem: file.read_text() for file in paths.bundled("probes").glob("*.py")}
    parts["host"] = parts["host"].replace("values = {}\n", "values = {}[0]\n", 1)
    blob = payload.build(parts)[0]
    probe = start({"STETHOSCOPE_ROOT": str(tree.root)}, sent=b"%d\n%s" % (len(blob), blob))
    bye = list(probe.messages())[-1]
    assert isinstance(bye, wire.Bye)
    assert re.fullmatch(r"KeyError: 0, line [0-9]+ of probe", bye.why)
    assert probe.ended_within(GRACE_S)


def test_run_as_a_file_it_does_without_the_driver(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-B", str(paths.bundled("probes") / "stream.py"), "probe", NONCE, "2"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", **environment},
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_console_being_killed_ends_it(environment: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        "data = open(sys.argv[2], 'rb').read()\n"
        "child = subprocess.Popen(['/bin/sh', '-c', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(data); child.stdin.flush()\n"
        "child.stdout.readline(); child.stdout.readline(); child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    (tmp_path / "payload").write_bytes(payload.payload())
    console = subprocess.Popen(
        [sys.executable, "-c", script, payload.command(NONCE, 0.2), str(tmp_path / "payload")],
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", **environment},
        start_new_session=True,
    )
    assert console.stdout is not None
    pid = int(console.stdout.readline())
    assert has_mark(pid, "stethoscope-probe")
    console.kill()
    console.wait()
    assert wait_for(lambda: group_of(console.pid) == [], GRACE_S)
