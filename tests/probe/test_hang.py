"""A driver that hangs is a finding, not a gap."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stethoscope.model import wire
from tests.probe.running import children_of, has_mark, strike, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Start = Callable[..., RunningProbe]


@pytest.fixture
def environment(fake_nvml: FakeNvml, tree: Tree) -> dict[str, str]:
    """Return the variables of a healthy node."""
    return {**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)}


def test_a_call_that_hangs_is_told_after_five_seconds_and_picked_up_again(
    start: Start, environment: dict[str, str], fake_nvml: FakeNvml
) -> None:
    probe = start(environment)
    healthy = probe.gpus()
    child = children_of(probe.process.pid)[0]
    fake_nvml.set(hang__nvmlDeviceGetUtilizationRates__4=1)
    late = probe.until(lambda message: isinstance(message, wire.Delta) and "nvlink_rx" in message.gpu)
    # What counts was not read, which is not the same as standing still; all else stands for a while.
    assert late.gpu["nvlink_rx"] == late.gpu["nvlink_tx"] == ["waiting"] * 8
    assert "gpu_temp" not in late.gpu
    began = late.mono
    told = probe.note("nvml", "hung")
    assert isinstance(told, wire.Delta)
    assert 4.0 < told.mono - began < 6.5
    assert told.notes is not None
    assert told.notes["nvml_pid"] == str(child)
    assert set(map(tuple, told.gpu.values())) == {("hung",) * 8}
    assert len(told.gpu) == 16
    assert (told.node["gpu_count"], told.node["nvml_latency"]) == ("hung", "hung")
    frame = probe.full()
    assert frame.gpus == healthy.gpus
    assert frame.node["load1"] == 12.34
    assert children_of(probe.process.pid) == [child]
    fake_nvml.unset("hang__nvmlDeviceGetUtilizationRates__4")
    again = probe.until(lambda message: isinstance(message, wire.Delta) and message.notes is not None)
    assert "nvml" not in again.notes
    assert probe.full().gpu["gpu_util"] == [98] * 8


def test_an_initialisation_that_hangs_and_the_next_console(
    start: Start, environment: dict[str, str], fake_nvml: FakeNvml
) -> None:
    fake_nvml.set(hang__nvmlInitWithFlags=1)
    first = start(environment)
    frame = first.until(lambda message: isinstance(message, wire.Full))
    assert (frame.gpus, frame.notes["nvml"], frame.node["gpu_count"]) == ([], "starting", "waiting")
    assert wait_for(lambda: children_of(first.process.pid), 5)
    child = children_of(first.process.pid)[0]
    # It gets its name from the kernel a moment after it has started, and waits for the driver from then on.
    assert wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == "stethoscope-nvm\n", 5)
    first.send(do="full")
    frame = first.until(lambda message: isinstance(message, wire.Full))
    assert (frame.notes, frame.node["gpu_count"]) == ({**frame.notes, "nvml": "starting"}, "waiting")
    first.close_input()
    assert first.ended_within(2)
    assert has_mark(child, "stethoscope-nvml")

    second = start(environment)
    told = second.note("nvml", "hung", patience_s=4)
    assert isinstance(told, wire.Delta)
    assert told.notes is not None
    assert told.notes["nvml_pid"] == str(child)
    assert children_of(second.process.pid) == []
    second.stop()
    fake_nvml.unset("hang__nvmlInitWithFlags")
    assert wait_for(lambda: not has_mark(child, "stethoscope-nvml"), 2)


def test_two_consoles_watch_one_node(start: Start, environment: dict[str, str]) -> None:
    first, second = start(environment), start(environment)
    assert len(first.gpus().gpus) == len(second.gpus().gpus) == 8
    assert len(children_of(first.process.pid)) == len(children_of(second.process.pid)) == 1


def test_a_child_that_dies_is_told(start: Start, environment: dict[str, str], fake_nvml: FakeNvml) -> None:
    probe = start(environment)
    probe.gpus()
    fake_nvml.set(hang__nvmlDeviceGetPowerUsage=1)
    probe.full()
    strike(children_of(probe.process.pid)[0], signal.SIGSEGV)
    probe.note("nvml", "child died, signal 11")
    frame = probe.full()
    assert frame.gpu["gpu_util"] == ["error"] * 8
    assert len(frame.gpus) == 8
    assert frame.node["gpu_count"] == "error"


def test_a_child_that_is_killed_between_two_questions_is_told_at_once(
    start: Start, environment: dict[str, str]
) -> None:
    probe = start(environment, tick_s=30)
    probe.gpus()
    strike(children_of(probe.process.pid)[0], signal.SIGKILL)
    told = probe.note("nvml", "child died, signal 9", patience_s=3)
    assert isinstance(told, wire.Delta)
    assert told.gpu["gpu_power_draw"] == ["error"] * 8
    assert told.node["nvml_latency"] == "error"
