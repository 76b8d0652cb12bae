"""A driver that refused, died or hung is taken up again when it works; the pauses between are made short here."""

from __future__ import annotations

import os
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.collect import payload
from tests.probe.running import children_of, has_mark, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree


@pytest.fixture
def gpus(stream: ModuleType, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the probe's side of the driver, which looks again after a tenth of a second."""
    for name, value in fake_nvml.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stream, "LOOK_AGAIN_S", 0.1)
    blob = payload.payload().partition(b"\n")[2]
    stream.BLOB, stream.PYNVML = blob, zlib.decompress(blob).partition(b"\0")[2]
    driver = stream.Gpus()
    yield driver
    if driver.pid:
        os.close(driver.into)
        os.close(driver.out)
        os.waitpid(driver.pid, 0)


def go_on(gpus: Any, until: Callable[[], bool], patience_s: float = 10.0) -> bool:
    """Do what the probe's loop does until the condition is true; tell whether it became so."""

    def step() -> bool:
        now = time.monotonic()
        gpus.take(now, 8)
        gpus.ask(now, 2.0)
        gpus.check(now)
        return until()

    return wait_for(step, patience_s)


def test_a_driver_that_is_loaded_later(gpus: Any, fake_nvml: FakeNvml) -> None:
    fake_nvml.set(code__nvmlInitWithFlags=9)
    assert go_on(gpus, lambda: gpus.note == "no driver loaded")
    assert gpus.identities == []
    fake_nvml.unset("code__nvmlInitWithFlags")
    assert go_on(gpus, lambda: gpus.note == "")
    assert len(gpus.identities) == 8
    assert gpus.node["gpu_count"] == 8


def test_a_child_that_died_is_replaced(gpus: Any) -> None:
    assert go_on(gpus, lambda: gpus.note == "")
    first = gpus.pid
    os.kill(first, 11)
    assert go_on(gpus, lambda: gpus.note.startswith("child"))
    assert set(map(tuple, gpus.values.values())) == {("error",) * 8}
    assert go_on(gpus, lambda: gpus.note == "")
    assert gpus.pid != first
    assert gpus.values["gpu_util"] == [98] * 8


def test_a_stuck_child_of_an_earlier_console_that_ends(
    gpus: Any, fake_nvml: FakeNvml, start: Callable[..., RunningProbe], tree: Tree
) -> None:
    fake_nvml.set(hang__nvmlInitWithFlags=1)
    earlier = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    assert wait_for(lambda: children_of(earlier.process.pid), 5)
    (child,) = children_of(earlier.process.pid)
    earlier.close_input()
    assert earlier.ended_within(2)
    assert go_on(gpus, lambda: gpus.note == "hung")
    assert (gpus.stuck, gpus.pid, gpus.notes()) == (child, 0, {"nvml": "hung", "nvml_pid": str(child)})
    fake_nvml.unset("hang__nvmlInitWithFlags")
    assert go_on(gpus, lambda: gpus.note == "")
    assert not has_mark(child, "stethoscope-nvml")
    assert gpus.notes() == {}
    assert len(gpus.identities) == 8
