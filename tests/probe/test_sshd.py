"""The whole way: a real client, a real server, the login shell, the real probe and pynvml on the fake driver."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.model import wire
from tests import needs
from tests.collect.sshd import USER, Sshd
from tests.probe.running import children_of, has_mark, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Connect = Callable[[], RunningProbe]


@pytest.fixture
def connect(start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree, tmp_path: Path) -> Iterator[Connect]:
    """Yield a function that starts a probe over SSH."""
    ssh = needs.tool("ssh")
    environment = {**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)}
    server = Sshd(tmp_path / "sshd", environment=environment)
    options = ["UserKnownHostsFile=" + str(server.known_hosts), "IdentitiesOnly=yes", "BatchMode=yes"]
    arguments = [ssh, "-F", "/dev/null", "-T", "-i", str(server.identity), "-p", str(server.port), "-l", USER]
    for option in options:
        arguments += ["-o", option]
    yield lambda: start(through=[*arguments, server.address])
    server.stop()


def pid_of(probe: RunningProbe) -> int:
    """Return the process that said hello."""
    return probe.until(lambda message: isinstance(message, wire.Hello)).pid


def test_every_gpu_and_port_over_ssh(connect: Connect) -> None:
    probe = connect()
    frame = probe.gpus()
    assert len(frame.gpus) == 8
    assert frame.gpu["gpu_power_draw"] == [312.3] * 8
    assert [port.device for port in frame.ports] == ["mlx5_0", "mlx5_2", "mlx5_10"]


def test_it_is_small(connect: Connect) -> None:
    probe = connect()
    pid = pid_of(probe)
    probe.gpus()
    sizes = [Path(f"/proc/{each}/status").read_text() for each in (pid, *children_of(pid))]
    assert len(sizes) == 2
    assert sum(int(status.partition("VmRSS:")[2].split()[0]) for status in sizes) < 40_000


@pytest.mark.parametrize("how", ["SIGKILL", "eof"])
def test_nothing_is_left_on_the_node_when_the_console_goes(connect: Connect, how: str) -> None:
    probe = connect()
    pid = pid_of(probe)
    probe.gpus()
    (child,) = children_of(pid)
    if how == "eof":
        probe.close_input()
    else:
        os.kill(probe.process.pid, signal.SIGKILL)
    assert probe.ended_within(2)
    assert wait_for(lambda: not has_mark(pid, "stethoscope-probe"), 2)
    assert wait_for(lambda: not has_mark(child, "stethoscope-nvml"), 2)


def test_a_hung_driver_does_not_hold_the_channel(connect: Connect, fake_nvml: FakeNvml) -> None:
    fake_nvml.set(hang__nvmlInitWithFlags=1)
    probe = connect()
    pid = pid_of(probe)
    probe.until(lambda message: isinstance(message, wire.Delta))
    (child,) = children_of(pid)
    probe.close_input()
    assert probe.ended_within(2)
    assert has_mark(child, "stethoscope-nvml")
    assert Path(f"/proc/{child}/fd/2").readlink() == Path("/dev/null")
    fake_nvml.unset("hang__nvmlInitWithFlags")
    assert wait_for(lambda: not has_mark(child, "stethoscope-nvml"), 2)
