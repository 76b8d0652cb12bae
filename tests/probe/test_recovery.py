"""A driver that refused, died or hung is taken up again when it works; the pauses between are made short here."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.collect import payload
from stethoscope.model import wire
from tests.probe.running import children_of, has_mark, strike, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree


def child_payload() -> bytes:
    """Return what the probe hands on to its NVML child."""
    return wire.unpack(payload.stages()[0])[1]


@pytest.fixture
def gpus(nvml: ModuleType, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the probe's side of the driver, which looks again after a tenth of a second."""
    for name, value in fake_nvml.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvml, "LOOK_AGAIN_S", 0.1)
    driver = nvml.Gpus(child_payload())
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
        gpus.push()
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
    strike(first, 11)
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
    assert wait_for(lambda: Path(f"/proc/{child}/comm").read_text() == "stethoscope-nvm\n", 5)
    earlier.close_input()
    assert earlier.ended_within(2)
    assert go_on(gpus, lambda: gpus.note == "hung")
    assert (gpus.stuck, gpus.pid, gpus.notes()) == (child, 0, {"nvml": "hung", "nvml_pid": str(child)})
    fake_nvml.unset("hang__nvmlInitWithFlags")
    assert go_on(gpus, lambda: gpus.note == "")
    assert not has_mark(child, "stethoscope-nvml")
    assert gpus.notes() == {}
    assert len(gpus.identities) == 8


@pytest.fixture
def lost() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Yield a function that starts what looks like an NVML child whose probe is gone; it ends with its input."""
    code = "import sys; open('/proc/self/comm', 'w').write('stethoscope-nvml'[:15]); sys.stdin.read()"
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE)
        started.append(child)
        assert wait_for(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "stethoscope-nvm\n", 5)
        return child

    yield begin
    for child in started:
        child.communicate()


def test_children_of_others_that_come_and_go_are_not_stuck(
    gpus: Any, lost: Callable[[], subprocess.Popen[bytes]]
) -> None:
    notes = set()

    def seen(pids: set[int]) -> bool:
        notes.add(gpus.note)
        return bool(gpus.suspects >= pids)

    first = lost()
    assert go_on(gpus, lambda: seen({first.pid}))
    assert gpus.pid == 0
    # It ends within its grace, and another one is there by then, which may well outlive it.
    second = lost()
    first.communicate()
    assert go_on(gpus, lambda: seen(set()) and gpus.pid > 0)
    assert second.poll() is None
    assert notes == {"starting"}
    assert go_on(gpus, lambda: gpus.note == "")


def test_a_child_that_is_there_at_every_look_is_stuck(gpus: Any, lost: Callable[[], subprocess.Popen[bytes]]) -> None:
    first, second = lost(), lost()
    began = time.monotonic()
    assert go_on(gpus, lambda: len(gpus.suspects) >= 2)
    first.communicate()
    assert go_on(gpus, lambda: gpus.note == "hung")
    assert 2.0 <= time.monotonic() - began < 4.0
    assert gpus.notes() == {"nvml": "hung", "nvml_pid": str(second.pid)}
    second.communicate()
    assert go_on(gpus, lambda: gpus.note == "")


def test_a_driver_that_is_slow_to_start_is_not_hung_before_half_a_minute(nvml: ModuleType) -> None:
    driver = nvml.Gpus(b"any")
    driver.pid, driver.asked_at = 4242, 100.0
    assert not driver.check(130.0)
    assert (driver.notes(), driver.node) == ({"nvml": "starting"}, {"gpu_count": "waiting", "nvml_latency": "waiting"})
    assert driver.overdue_at() == 130.0
    assert driver.check(130.001)
    assert (driver.notes(), driver.node) == (
        {"nvml": "hung", "nvml_pid": "4242"},
        {"gpu_count": "hung", "nvml_latency": "hung"},
    )
    assert not driver.check(131.0)


def test_a_driver_that_has_answered_once_is_hung_after_five_seconds(nvml: ModuleType) -> None:
    driver = nvml.Gpus(b"any")
    driver.pid, driver.asked_at = 4242, 100.0
    driver.accept({"note": "no driver loaded"}, 8)
    driver.asked_at = 200.0
    assert driver.overdue_at() == 230.0
    node = {"gpu_count": 1, "nvml_latency": 9000.0}
    driver.accept({"note": "", "gpus": [{"index": 0}], "gpu": {"gpu_util": [98]}, "node": node}, 8)
    driver.asked_at = 300.0
    assert not driver.check(305.0)
    assert driver.check(305.001)
    assert (driver.note, driver.values) == ("hung", {"gpu_util": ["hung"]})


def test_a_child_that_does_not_end_is_not_doubled(gpus: Any, nvml: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert go_on(gpus, lambda: gpus.note == "")
    first, end = gpus.pid, os.waitpid
    # It closes its pipes and then stays in the driver's clean-up.
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    strike(first, 9)
    assert go_on(gpus, lambda: gpus.note == "hung")
    assert (gpus.pid, gpus.notes()) == (0, {"nvml": "hung", "nvml_pid": str(first)})
    assert set(map(tuple, gpus.values.values())) == {("hung",) * 8}
    monkeypatch.setattr(os, "waitpid", end)
    assert go_on(gpus, lambda: gpus.note == "starting")
    assert (gpus.notes(), gpus.node["gpu_count"]) == ({"nvml": "starting"}, "waiting")
    assert set(map(tuple, gpus.values.values())) == {("waiting",) * 8}
    assert go_on(gpus, lambda: gpus.note == "")
    assert nvml.processes.leaving == set()
    assert gpus.pid != first


def test_a_library_that_prints_does_not_spoil_the_answers(gpus: Any) -> None:
    noise = (
        b"import ctypes, os\nload = ctypes.CDLL\n"
        b"def noisily(name):\n os.write(1, b'{noise')\n print('noise', flush=True)\n return load(name)\n"
        b"ctypes.CDLL = noisily\n"
    )
    gpus.payload = noise + gpus.payload
    assert go_on(gpus, lambda: gpus.note == "")
    assert len(gpus.identities) == 8


def test_a_defect_in_the_child_is_told_in_words(gpus: Any) -> None:
    gpus.payload = b"import ctypes\ndef broken(name):\n 1 / 0\nctypes.CDLL = broken\n" + gpus.payload
    assert go_on(gpus, lambda: gpus.note == "error in the NVML child: ZeroDivisionError, line 3")


def test_a_node_without_room_for_a_process(gpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "")

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        gpus.ask(1.0, 2.0)
    assert (gpus.pid, gpus.asked_at) == (0, None)
    assert gpus.note == "cannot start a process: Resource temporarily unavailable"
    assert gpus.node == {"gpu_count": "error", "nvml_latency": "error"}
    assert len(os.listdir("/proc/self/fd")) == before
    assert go_on(gpus, lambda: gpus.note == "")


def test_a_child_that_does_not_read_does_not_hold_the_probe_up(
    gpus: Any, nvml: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It must not read at all: one that is quick would take all before this process looks again.
    monkeypatch.setattr(nvml, "BOOTSTRAP", "import time; print('now', flush=True); time.sleep(60)")
    gpus.payload = b"x" * 1000000
    gpus.ask(100.0, 2.0)
    assert len(gpus.unsent) > 500000
    assert not gpus.check(129.0)
    assert gpus.check(131.0)
    strike(gpus.pid, 9)


def test_an_answer_that_came_while_a_slow_reader_held_the_probe_up_is_taken(stream: ModuleType) -> None:
    probe = stream.Probe("n", 2.0, b"any")
    probe.put = lambda *_: None
    probe.gpus.out, answers = os.pipe()
    os.set_blocking(probe.gpus.out, False)
    probe.gpus.into = os.open("/dev/null", os.O_WRONLY)
    probe.gpus.pid, probe.gpus.asked_at, probe.gpus.has_answered = 4242, time.monotonic() - 60.0, True
    os.write(answers, b'{"note":"no devices","gpus":[],"gpu":{},"node":{"gpu_count":0,"nvml_latency":0.5}}\n')
    probe.tick()
    assert (probe.gpus.notes(), probe.gpus.node["gpu_count"]) == ({"nvml": "no devices"}, 0)
    for descriptor in (answers, probe.gpus.out, probe.gpus.into):
        os.close(descriptor)
