"""The driver in trouble: real pynvml in the real child on the fake library."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.model import wire
from tests.native.fake_nvml import LIBRARY
from tests.probe.running import children_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.native.fake_nvml import FakeNvml
    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Start = Callable[..., RunningProbe]


@pytest.fixture
def probe(start: Start, fake_nvml: FakeNvml, tree: Tree) -> Callable[[], RunningProbe]:
    """Return a function that starts a probe on the fake driver."""
    return lambda: start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})


def column(frame: wire.Full, gpu: int) -> dict[str, Any]:
    """Return all values of one GPU."""
    return {metric: values[gpu] for metric, values in frame.gpu.items()}


def test_a_gpu_lost_while_running_costs_only_itself(probe: Callable[[], RunningProbe], fake_nvml: FakeNvml) -> None:
    running = probe()
    before = running.gpus()
    fake_nvml.set(code__any__3=15)
    running.until(lambda message: isinstance(message, wire.Delta) and message.gpu.get("gpu_handle_error"))
    frame = running.full()
    lost = column(frame, 3)
    assert lost.pop("gpu_handle_error") == 15
    assert set(lost.values()) == {"lost"}
    assert frame.gpus == before.gpus
    assert frame.gpus[3].pci == "0000:1d:00.0"
    assert (frame.node["gpu_count"], frame.node["gpu_count_pci"]) == (7, 8)
    for other in (0, 1, 2, 4, 5, 6, 7):
        assert column(frame, other)["gpu_util"] == 98
        assert column(frame, other)["gpu_handle_error"] == 0
    fake_nvml.unset("code__any__3")
    running.until(
        lambda message: isinstance(message, wire.Delta) and message.gpu.get("gpu_handle_error", [None] * 4)[3] == 0
    )
    assert column(running.full(), 3)["gpu_power_draw"] == 312.3


def test_a_call_that_says_lost_makes_the_gpu_lost(probe: Callable[[], RunningProbe], fake_nvml: FakeNvml) -> None:
    fake_nvml.set(code__nvmlDeviceGetPowerUsage__5=15)
    frame = probe().gpus()
    assert column(frame, 5)["gpu_handle_error"] == 15
    assert column(frame, 5)["gpu_temp"] == "lost"
    assert frame.gpus[5].uuid == "GPU-00000000-0000-0000-0000-000000abc005"


@pytest.mark.parametrize(("code", "word"), [(15, "lost"), (16, "error"), (999, "error"), (4, "permission")])
def test_a_handle_that_fails_from_the_start(
    probe: Callable[[], RunningProbe], fake_nvml: FakeNvml, code: int, word: str
) -> None:
    fake_nvml.set(code__nvmlDeviceGetHandleByIndex_v2__6=code)
    frame = probe().gpus()
    broken = column(frame, 6)
    assert broken.pop("gpu_handle_error") == code
    assert set(broken.values()) == {word}
    assert frame.gpus[6] == wire.GpuIdentity(6)
    assert column(frame, 7)["gpu_temp"] == 61
    assert frame.node["gpu_count"] == 7


@pytest.mark.parametrize("code", [3, 999])
def test_a_gpu_that_does_not_say_who_it_is_is_asked_again(
    probe: Callable[[], RunningProbe], fake_nvml: FakeNvml, code: int
) -> None:
    fake_nvml.set(code__nvmlDeviceGetUUID__2=code)
    running = probe()
    assert running.gpus().gpus[2] == wire.GpuIdentity(2)
    fake_nvml.unset("code__nvmlDeviceGetUUID__2")
    # A frame read before the driver answered again may still be on its way.
    frame = running.until(lambda message: isinstance(message, wire.Full) and message.gpus[2].uuid)
    assert frame.gpus[2].uuid == "GPU-00000000-0000-0000-0000-000000abc002"


@pytest.mark.parametrize(("code", "word"), [(3, "unsupported"), (4, "permission"), (999, "error"), (10, "error")])
def test_each_value_has_its_own_reason(
    probe: Callable[[], RunningProbe], fake_nvml: FakeNvml, code: int, word: str
) -> None:
    fake_nvml.set(
        code__nvmlDeviceGetUtilizationRates__1=code,
        code__nvmlDeviceGetMarginTemperature=code,
        code__field__82__2=code,
        code__nvmlDeviceGetEnforcedPowerLimit__4=code,
        code__nvmlDeviceGetPcieThroughput=code,
    )
    running = probe()
    running.gpus()
    frame = running.full()
    while "waiting" in frame.gpu["gpu_pcie_tx"]:
        frame = running.full()
    assert (column(frame, 1)["gpu_util"], column(frame, 1)["gpu_mem_copy_util"]) == (word, word)
    assert frame.gpu["gpu_temp_margin"] == [word] * 8
    assert frame.gpu["gpu_mem_temp"] == [55, 55, word, 55, 55, 55, 55, 55]
    assert frame.gpu["gpu_power_limit"][4] == word
    assert frame.gpu["gpu_pcie_tx"] == [word] * 8
    assert frame.gpu["gpu_handle_error"] == [0] * 8


def test_an_older_driver_answers_under_older_names(probe: Callable[[], RunningProbe], fake_nvml: FakeNvml) -> None:
    fake_nvml.set(
        code__nvmlDeviceGetTemperatureV=13,
        code__nvmlDeviceGetMemoryInfo_v2=13,
        code__nvmlDeviceGetCurrentClocksEventReasons=13,
        code__nvmlDeviceGetMarginTemperature=13,
    )
    values = column(probe().gpus(), 0)
    assert values["gpu_temp"] == 60
    assert values["gpu_fb_used"] == 71000
    assert values["gpu_clocks_event_reasons"] == 1
    assert values["gpu_temp_margin"] == "unsupported"


def test_newer_nvlinks_are_summed_link_by_link(probe: Callable[[], RunningProbe], fake_nvml: FakeNvml) -> None:
    fake_nvml.set(code__field__138=3, code__field__139=3, value__field__202=1024000, value__field__204=2048000)
    values = column(probe().gpus(), 0)
    assert (values["nvlink_tx"], values["nvlink_rx"]) == (18 * 1000, 18 * 2000)


@pytest.mark.parametrize(
    ("settings", "words", "count"),
    [
        ({"code__nvmlInitWithFlags": 18}, "driver/library version mismatch", "error"),
        ({"code__nvmlInitWithFlags": 9}, "no driver loaded", "error"),
        ({"code__nvmlInitWithFlags": 6}, "no devices", 0),
        ({"code__nvmlInitWithFlags": 999}, "NVML error 999", "error"),
        ({"code__nvmlDeviceGetCount_v2": 999}, "NVML error 999", "error"),
        ({"count": 0}, "no devices", 0),
    ],
)
def test_a_driver_that_refuses_says_why(
    probe: Callable[[], RunningProbe],
    fake_nvml: FakeNvml,
    settings: dict[str, int],
    words: str,
    count: object,
) -> None:
    fake_nvml.set(**settings)
    running = probe()
    running.note("nvml", words)
    frame = running.full()
    assert frame.notes["nvml"] == words
    assert (frame.gpus, frame.gpu, frame.node["gpu_count"]) == ([], {}, count)


def test_no_library_on_a_node_with_gpus_and_on_one_without(start: Start, tree: Tree, tmp_path: Path) -> None:
    with_gpus = start({"STETHOSCOPE_ROOT": str(tree.root)})
    with_gpus.note("nvml", "no NVML library")
    assert with_gpus.full().node["gpu_count"] == "error"
    tree.put("sys/bus/pci/devices/.keep", "")
    for device in (tree.root / "sys/bus/pci/devices").glob("0000:*/vendor"):
        device.write_text("0x8086\n")
    without = start({"STETHOSCOPE_ROOT": str(tree.root)})
    without.note("nvml", "no NVML library")
    frame = without.full()
    assert (frame.node["gpu_count"], frame.node["gpu_count_pci"]) == ("absent", 0)
    assert wait_for(lambda: not children_of(without.process.pid), 5)


def test_a_library_that_the_loader_does_not_know_is_found(start: Start, fake_nvml: FakeNvml, tree: Tree) -> None:
    folder = tree.root / "usr/local/nvidia/lib64"
    folder.mkdir(parents=True)
    shutil.copy(fake_nvml.directory / LIBRARY, folder)
    environment = {"FAKE_NVML_CONTROL": str(fake_nvml.control), "STETHOSCOPE_ROOT": str(tree.root)}
    assert len(start(environment).gpus().gpus) == 8
