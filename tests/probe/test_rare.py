"""What the driver says rarely: real pynvml in the real child on the fake library."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import struct
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.collect import payload
from stethoscope.model import wire
from tests.native.fake_nvml import FakeNvml, build
from tests.probe.running import interpreters, strike, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from tests.probe.running import RunningProbe
    from tests.probe.trees import Tree

    Part = dict[str, Any]
    Read = Callable[..., Part]

EVERY_GPU = 8
TICK_S = 0.1


def child_payload() -> bytes:
    """Return what the probe hands on to its NVML child."""
    return wire.unpack(payload.stages()[0])[1]


def later_source() -> bytes:
    """Return the part of the child that comes with the first `watch` line."""
    return wire.unpack(b"".join(payload.stages()))[3]


class Driven:
    """The probe's side of the driver, and what the probe's loop does with it."""

    def __init__(self, gpus: Any) -> None:
        self.gpus = gpus
        self.due = 0.0

    def step(self) -> None:
        """Do what the loop does once."""
        now = time.monotonic()
        self.gpus.take(now, EVERY_GPU)
        if now >= self.due:
            self.due = now + TICK_S
            self.gpus.ask(now, TICK_S)
        self.gpus.push()
        self.gpus.check(now)

    def until(self, condition: Callable[[], Any], patience_s: float = 10.0) -> None:
        """Go on until the condition is true."""

        def met() -> Any:
            self.step()
            return condition()

        assert wait_for(met, patience_s)

    def part(self, patience_s: float = 10.0) -> Part:
        """Go on to the next part and return it."""
        found: list[Part] = []

        def came() -> bool:
            found.extend(part for part in [self.gpus.take_part()] if part is not None)
            return bool(found)

        self.until(came, patience_s)
        return found[0]

    def next_part(self) -> Part:
        """Ask anew and return the first part after that."""
        self.until(lambda: self.gpus.pid and self.gpus.asked_at is None)
        self.gpus.watch(30.0)
        return self.part()


@pytest.fixture
def library(fake_nvml: FakeNvml) -> FakeNvml:
    """Return the driver that the child is to find."""
    return fake_nvml


@pytest.fixture
def driven(nvml: ModuleType, library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    """Yield the probe's side of the driver, which looks again after a tenth of a second."""
    for name, value in library.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvml, "LOOK_AGAIN_S", 0.1)
    gpus = nvml.Gpus(child_payload())
    gpus.rare_source = later_source()
    yield Driven(gpus)
    library.settings.clear()
    library.set()
    if gpus.pid:
        os.close(gpus.into)
        os.close(gpus.out)
        os.waitpid(gpus.pid, 0)


def of(part: Part, gpu: int) -> dict[str, Any]:
    """Return all values of one GPU."""
    return {metric: cells[gpu] for metric, cells in part["gpu"].items()}


HOPPER = {
    "gpu_ecc_mode": 1,
    "gpu_retired_pages_sbe": "unsupported",
    "gpu_retired_pages_dbe": "unsupported",
    "gpu_retired_pages_pending": "unsupported",
    "gpu_throttle_time_sw_power_cap": 5000003,
    "gpu_throttle_time_sw_thermal": 7000000,
    "gpu_throttle_time_hw_thermal": 14000000,
    "gpu_throttle_time_hw_power_brake": 21000000,
    "gpu_pcie_replay": 152,
    "gpu_remapped_rows_corr": 2,
    "gpu_remapped_rows_uncorr": 1,
    "gpu_row_remap_pending": 0,
    "gpu_row_remap_failure": 0,
    "gpu_row_remap_banks_none": 3,
    "gpu_temp_slowdown": "unsupported",
    "gpu_recovery_action": 0,
    "gpu_pstate": 0,
    "gpu_mem_clock": 2619,
    "gpu_persistence_mode": 1,
    "gpu_pcie_link_gen": 5,
    "gpu_pcie_link_width": 16,
    "gpu_pcie_link_gen_max": 5,
    "gpu_pcie_link_width_max": 16,
    "gpu_power_limit_default": 700.5,
    "gpu_sm_clock_max": 1980,
    "gpu_ecc_corr_volatile_dram": 2,
    "gpu_ecc_corr_aggregate_dram": 12,
    "gpu_ecc_uncorr_volatile_dram": 102,
    "gpu_ecc_uncorr_aggregate_dram": 112,
    "gpu_ecc_corr_volatile_sram": 32,
    "gpu_ecc_corr_aggregate_sram": 4,
    "gpu_ecc_uncorr_volatile_sram": 8 + 16,
    "gpu_ecc_uncorr_aggregate_sram": 1 + 2,
    "gpu_sram_threshold_exceeded": 0,
    "gpu_mig_mode": 0,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_health_mask": 0x2AA,
    "gpu_process_count": 0,
    "nvlink_active_count": 18,
}
"""What the fake driver of 580.126 says about GPU 2."""
LINK_5 = {
    "nvlink_state": 1,
    "nvlink_speed": 26.562,
    "nvlink_crc_errors": 16305,
    "nvlink_replay_errors": 16105,
    "nvlink_recovery_errors": 16205,
    "nvlink_effective_errors": "unsupported",
    "nvlink_symbol_errors": "unsupported",
}


def link(part: Part, gpu: int, number: int) -> dict[str, Any]:
    """Return all values of one link."""
    return {metric: gpus[gpu][number] for metric, gpus in part["links"].items()}


def links_of(part: Part, gpu: int) -> list[Any]:
    """Return the states of a GPU's links."""
    states: list[Any] = part["links"]["nvlink_state"][gpu]
    return states


def test_a_healthy_node(driven: Driven) -> None:
    before = time.monotonic()
    part = driven.next_part()
    assert of(part, 2) == HOPPER
    assert all(len(cells) == EVERY_GPU for cells in part["gpu"].values())
    assert part["links"].keys() == LINK_5.keys()
    assert {tuple(map(len, gpus)) for gpus in part["links"].values()} == {(18,) * EVERY_GPU}
    assert link(part, 7, 5) == LINK_5
    assert part["apps"] == []
    assert part["words"] == {
        "driver_version": "580.126.20",
        "cuda_version": "13.0",
        "gpu_vbios_version": ["96.00.74.00.01"] * EVERY_GPU,
    }
    assert before - 0.001 <= part["mono"] <= time.monotonic()
    assert abs(part["wall"] - time.time()) < 10
    assert part.keys() == {"gpu", "links", "apps", "words", "mono", "wall"}


def test_nothing_is_read_rarely_before_it_is_asked_for_and_after_it_is_no_longer(driven: Driven) -> None:
    driven.until(lambda: driven.gpus.note == "")
    for _ in range(5):
        driven.until(lambda: driven.gpus.asked_at is None)
        assert driven.gpus.take_part() is None
    driven.next_part()
    driven.gpus.watch(0)
    assert (driven.gpus.take_part(), driven.gpus.rare_s) == (None, 0)


def test_it_is_read_once_in_its_interval(driven: Driven) -> None:
    driven.gpus.watch(1.0)
    driven.part()
    began = time.monotonic()
    # A reading begins a little later when PCIe traffic is sampled before it, so the third is counted from the first.
    driven.part()
    driven.part()
    assert 1.4 < time.monotonic() - began < 4.0


def test_how_often_the_driver_is_called(driven: Driven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls"
    monkeypatch.setenv("FAKE_NVML_CALLS", str(log))
    driven.next_part()
    driven.until(lambda: driven.gpus.asked_at is None)
    log.write_text("")
    driven.next_part()
    driven.until(lambda: driven.gpus.asked_at is None)
    calls = Counter(
        line.split()[0].removeprefix("nvmlDeviceGet") for line in log.read_text().splitlines() if line.endswith(" 6")
    )
    often = calls["PowerUsage"]
    # A GPU with 18 links that was read before is called 17 times; the questions between are not counted.
    assert calls["FieldValues"] - often == 2
    assert calls["ClockInfo"] - often == 1
    once: tuple[str, ...] = (
        "PerformanceState",
        "PersistenceMode",
        "CurrPcieLinkGeneration",
        "CurrPcieLinkWidth",
        "MigMode",
    )
    once = (*once, "RowRemapperHistogram", "SramEccErrorStatus", "GpuFabricInfoV")
    once = (*once, "ComputeRunningProcesses_v3", "GraphicsRunningProcesses_v3")
    quick = {"HandleByIndex_v2", "PowerUsage", "EnforcedPowerLimit", "MarginTemperature", "UtilizationRates"}
    quick |= {
        "TemperatureV",
        "CurrentClocksEventReasons",
        "MemoryInfo_v2",
        "PcieThroughput",
        "FieldValues",
        "ClockInfo",
    }
    assert {name: count for name, count in calls.items() if name not in quick} == {
        **dict.fromkeys(once, 1),
        "MemoryErrorCounter": 4,
    }


def test_ecc_that_is_off_has_no_errors_to_tell(driven: Driven, library: FakeNvml) -> None:
    library.set(value__ecc_mode__1=0)
    part = driven.next_part()
    ecc = {metric for metric in part["gpu"] if metric.startswith("gpu_ecc_") and metric != "gpu_ecc_mode"}
    assert len(ecc) == 8
    assert of(part, 1) == {
        **HOPPER,
        "gpu_pcie_replay": 151,
        "gpu_throttle_time_sw_power_cap": 5000002,
        "gpu_ecc_mode": 0,
        **dict.fromkeys(ecc, "unsupported"),
        "gpu_sram_threshold_exceeded": "unsupported",
    }
    assert of(part, 2) == HOPPER


def test_a_board_that_retires_pages(driven: Driven, library: FakeNvml) -> None:
    fields = {"value__field__29": 3, "value__field__30": 1, "value__field__31": 1}
    gone = {f"code__field__{number}": 3 for number in (142, 143, 144, 145)}
    library.set(**fields, **gone, code__nvmlDeviceGetRowRemapperHistogram=3, code__nvmlDeviceGetSramEccErrorStatus=3)
    volta = of(driven.next_part(), 0)
    assert [volta[f"gpu_retired_pages_{kind}"] for kind in ("sbe", "dbe", "pending")] == [3, 1, 1]
    for metric in (
        *("gpu_remapped_rows_corr", "gpu_remapped_rows_uncorr", "gpu_row_remap_pending", "gpu_row_remap_failure"),
        *("gpu_row_remap_banks_none", "gpu_sram_threshold_exceeded"),
    ):
        assert volta[metric] == "unsupported"
    # Without the newer call the plain counter tells of SRAM.
    assert volta["gpu_ecc_uncorr_aggregate_sram"] == 117
    assert volta["gpu_ecc_corr_volatile_sram"] == 7


def test_a_board_that_remaps_rows_retires_no_pages(driven: Driven, library: FakeNvml) -> None:
    library.set(value__field__29=0, value__field__30=0, value__field__31=0, value__field__144=1)
    values = of(driven.next_part(), 0)
    assert [values[f"gpu_retired_pages_{kind}"] for kind in ("sbe", "dbe", "pending")] == ["unsupported"] * 3
    assert values["gpu_row_remap_pending"] == 1


def test_a_board_without_a_margin_has_a_temperature_to_slow_down_at(driven: Driven, library: FakeNvml) -> None:
    library.set(code__field__194=3, code__nvmlDeviceGetTemperatureThreshold__1=3)
    assert driven.next_part()["gpu"]["gpu_temp_slowdown"][:3] == [89, "unsupported", 89]


@pytest.mark.parametrize(
    ("major", "minor", "times"),
    [
        (580, 126, [7000000, 14000000, 21000000]),
        (580, 82, [7000000, 14000000, 21000000]),
        (595, 45, [7000000, 14000000, 21000000]),
        (580, 65, [7000000, 14000000, 21000000]),
        (575, 51, [7000000, 14000000, 21000000]),
        # Between the two nobody knows; before, other things have these numbers.
        (580, 76, ["unsupported"] * 3),
        (570, 172, ["unsupported"] * 3),
        (535, 161, ["unsupported"] * 3),
    ],
)
def test_throttle_times_by_driver(driven: Driven, library: FakeNvml, major: int, minor: int, times: list[Any]) -> None:
    library.set(value__driver_major=major, value__driver_minor=minor)
    part = driven.next_part()
    names = ("sw_thermal", "hw_thermal", "hw_power_brake")
    assert [part["gpu"][f"gpu_throttle_time_{name}"][0] for name in names] == times
    assert part["gpu"]["gpu_throttle_time_sw_power_cap"][0] == 5000001
    assert part["gpu"]["gpu_recovery_action"][0] == (0 if major >= 570 else "unsupported")
    assert part["words"]["driver_version"] == f"{major}.{minor:02}.20"


def test_a_link_that_is_down(driven: Driven, library: FakeNvml) -> None:
    library.set(value__field__165__at5__3=0, value__field__164__at5__3=0, value__field__165__at6__3=2)
    part = driven.next_part()
    assert links_of(part, 3) == [1] * 5 + [0] + [1] * 12
    assert part["gpu"]["nvlink_active_count"] == [18, 18, 18, 17, 18, 18, 18, 18]
    assert link(part, 3, 5) == {**LINK_5, "nvlink_state": 0, "nvlink_speed": "unsupported"}
    library.unset("value__field__165__at5__3", "value__field__164__at5__3")
    assert links_of(driven.next_part(), 3) == [1] * 18


def test_a_link_without_traffic_is_not_up(driven: Driven, library: FakeNvml) -> None:
    library.set(value__field__165__at0=3)
    assert driven.next_part()["gpu"]["nvlink_active_count"] == [17] * EVERY_GPU


def test_a_model_with_eight_links_and_one_without(driven: Driven, library: FakeNvml) -> None:
    library.set(value__links=8, value__links__4=0)
    for part in (driven.next_part(), driven.next_part()):
        assert list(map(len, part["links"]["nvlink_crc_errors"])) == [8, 8, 8, 8, 0, 8, 8, 8]
        assert part["gpu"]["nvlink_active_count"] == [8, 8, 8, 8, "unsupported", 8, 8, 8]


def test_a_link_that_is_not_there_below_one_that_is(driven: Driven, library: FakeNvml) -> None:
    library.set(code__field__165__at1=3)
    part = driven.next_part()
    assert links_of(part, 0) == [1, "absent"] + [1] * 16
    assert part["gpu"]["nvlink_active_count"][0] == 17


def test_a_link_whose_state_fails_is_not_counted_as_down(driven: Driven, library: FakeNvml) -> None:
    library.set(code__field__165__at2__0=999, code__field__163__at3__0=999)
    part = driven.next_part()
    assert links_of(part, 0) == [1, 1, "error"] + [1] * 15
    assert part["gpu"]["nvlink_active_count"][:2] == ["error", 18]
    assert part["links"]["nvlink_crc_errors"][0][2:5] == [16302, "error", 16304]


def test_fields_that_fail_as_a_whole(driven: Driven, library: FakeNvml) -> None:
    library.set(code__nvmlDeviceGetFieldValues__2=999)
    part = driven.next_part()
    values = of(part, 2)
    assert (values["gpu_ecc_mode"], values["nvlink_active_count"], links_of(part, 2)) == ("error", "error", [])
    assert values["gpu_mem_clock"] == 2619


def test_blackwell_counts_other_link_errors(driven: Driven, library: FakeNvml) -> None:
    library.set(value__generation=10, value__field__164=53125)
    assert link(driven.next_part(), 0, 5) == {
        "nvlink_state": 1,
        "nvlink_speed": 53.125,
        "nvlink_crc_errors": "unsupported",
        "nvlink_replay_errors": "unsupported",
        "nvlink_recovery_errors": "unsupported",
        "nvlink_effective_errors": 21905,
        "nvlink_symbol_errors": 22105,
    }


def test_processes(driven: Driven, library: FakeNvml) -> None:
    library.set(
        value__compute__0=2,
        value__graphics__0=1,
        value__graphics__1=1,
        value__compute__2=1,
        value__process_unknown__2=1,
        value__process_mib__0=71234,
        code__nvmlDeviceGetComputeRunningProcesses_v3__3=4,
        code__nvmlDeviceGetComputeRunningProcesses_v3__4=999,
        value__compute__5=3000,
    )
    part = driven.next_part()
    assert part["apps"] == [[0, 4000, 71234, "C+G"], [0, 4001, 71234, "C"], [1, 4010, 60000, "G"], [2, 4020, None, "C"]]
    assert part["gpu"]["gpu_process_count"] == [2, 1, 1, "permission", "error", "error", 0, 0]


def test_processes_on_a_divided_gpu(driven: Driven, library: FakeNvml) -> None:
    library.set(value__mig__1=1, value__instances__1=2, value__compute__1=2, value__process_mib=9000, value__mig__2=1)
    part = driven.next_part()
    assert part["gpu"]["gpu_mig_mode"] == [0, 1, 1, 0, 0, 0, 0, 0]
    # One of them is on both instances.
    assert part["apps"] == [[1, 4010, 9000, "C"], [1, 4011, 18000, "C"], [1, 4012, 9000, "C"]]
    assert part["gpu"]["gpu_process_count"][:3] == [0, 3, 0]


@pytest.mark.parametrize(
    ("settings", "cells"),
    [
        ({"value__fabric_state": 0}, ("unsupported", "unsupported", "unsupported")),
        ({"value__fabric_state": 2, "value__fabric_status": 999}, (2, "waiting", 0x2AA)),
        ({"value__fabric_status": 999}, (3, 999, 0x2AA)),
        ({"value__fabric_mask": 0}, (3, 0, "unsupported")),
        ({"code__nvmlDeviceGetGpuFabricInfoV": 13}, (3, 0, "unsupported")),
        ({"code__nvmlDeviceGetGpuFabricInfoV": 25}, (3, 0, "unsupported")),
        ({"code__nvmlDeviceGetGpuFabricInfoV": 4}, ("permission", "permission", "permission")),
    ],
)
def test_the_fabric(driven: Driven, library: FakeNvml, settings: dict[str, int], cells: tuple[Any, ...]) -> None:
    library.set(**settings)
    gpu = driven.next_part()["gpu"]
    assert (gpu["fabric_state"][0], gpu["fabric_status"][0], gpu["fabric_health_mask"][0]) == cells


@pytest.mark.parametrize(("code", "word"), [(3, "unsupported"), (4, "permission"), (13, "unsupported"), (999, "error")])
def test_each_call_has_its_own_reason(driven: Driven, library: FakeNvml, code: int, word: str) -> None:
    calls = {
        "PerformanceState": "gpu_pstate",
        "ClockInfo": "gpu_mem_clock",
        "PersistenceMode": "gpu_persistence_mode",
        "CurrPcieLinkGeneration": "gpu_pcie_link_gen",
        "CurrPcieLinkWidth": "gpu_pcie_link_width",
        "MaxPcieLinkGeneration": "gpu_pcie_link_gen_max",
        "MaxPcieLinkWidth": "gpu_pcie_link_width_max",
        "PowerManagementDefaultLimit": "gpu_power_limit_default",
        "MaxClockInfo": "gpu_sm_clock_max",
        "MigMode": "gpu_mig_mode",
        "RowRemapperHistogram": "gpu_row_remap_banks_none",
    }
    library.set(**{f"code__nvmlDeviceGet{name}__2": code for name in calls})
    driven.gpus.rare_at = 0.0
    part = driven.next_part()
    assert of(part, 2) == {**HOPPER, **dict.fromkeys(calls.values(), word)}
    library.set(**{f"code__nvmlDeviceGet{name}__2": 0 for name in calls})
    if word == "error":
        assert of(driven.next_part(), 2) == HOPPER


def test_a_state_that_the_driver_does_not_know(driven: Driven, library: FakeNvml) -> None:
    library.set(value__pstate=32, code__nvmlDeviceGetVbiosVersion__1=3, code__field__230=2)
    part = driven.next_part()
    assert part["gpu"]["gpu_pstate"] == part["gpu"]["gpu_recovery_action"] == ["unsupported"] * EVERY_GPU
    assert part["words"]["gpu_vbios_version"][:2] == ["96.00.74.00.01", ""]


class TestAnOldDriver:
    """Functions and fields that came later are not there."""

    @pytest.fixture
    def library(self, tmp_path: Path) -> FakeNvml:
        """Return a driver of 2021."""
        build(tmp_path, old=True)
        driver = FakeNvml(tmp_path, tmp_path / "control")
        driver.set(value__driver_major=470, value__driver_minor=57, value__cuda=11040, value__generation=7)
        return driver

    def test_tells_what_it_can(self, driven: Driven, library: FakeNvml) -> None:
        library.set(value__links=12, value__compute__2=1, value__link_state__3=0, code__field__194=2)
        part = driven.next_part()
        unsupported = (
            *("gpu_throttle_time_sw_thermal", "gpu_throttle_time_hw_thermal", "gpu_throttle_time_hw_power_brake"),
            *("gpu_sram_threshold_exceeded", "fabric_state", "fabric_status", "fabric_health_mask"),
            "gpu_recovery_action",
        )
        assert of(part, 2) == {
            **HOPPER,
            **dict.fromkeys(unsupported, "unsupported"),
            "gpu_ecc_corr_volatile_sram": 7,
            "gpu_ecc_corr_aggregate_sram": 17,
            "gpu_ecc_uncorr_volatile_sram": 107,
            "gpu_ecc_uncorr_aggregate_sram": 117,
            "gpu_temp_slowdown": 89,
            "gpu_process_count": 1,
            "nvlink_active_count": 11,
        }
        assert links_of(part, 2) == [1, 1, 1, 0] + [1] * 8
        assert link(part, 2, 5) == {
            "nvlink_state": 1,
            "nvlink_speed": 25.781,
            "nvlink_crc_errors": 1205,
            "nvlink_replay_errors": 1005,
            "nvlink_recovery_errors": 1105,
            "nvlink_effective_errors": "unsupported",
            "nvlink_symbol_errors": "unsupported",
        }
        assert part["apps"] == [[2, 4020, 60000, "C"]]
        assert part["words"]["driver_version"] == "470.57.20"
        assert part["words"]["cuda_version"] == "11.4"
        assert links_of(driven.next_part(), 2) == [1, 1, 1, 0] + [1] * 8


def test_a_lost_gpu_costs_only_itself(driven: Driven, library: FakeNvml) -> None:
    driven.next_part()
    library.set(code__any__3=15, value__compute=1)
    part = driven.next_part()
    assert set(of(part, 3).values()) == {"lost"}
    assert {tuple(gpus[3]) for gpus in part["links"].values()} == {("lost",) * 18}
    assert part["words"]["gpu_vbios_version"][2:5] == ["96.00.74.00.01", "", "96.00.74.00.01"]
    assert [app[0] for app in part["apps"]] == [0, 1, 2, 4, 5, 6, 7]
    assert of(part, 2) == {**HOPPER, "gpu_process_count": 1}
    library.unset("code__any__3")
    driven.until(lambda: driven.gpus.values["gpu_handle_error"][3] == 0)
    assert links_of(driven.next_part(), 3) == [1] * 18


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetMemoryErrorCounter",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "field__165",
        "field__163",
    ],
)
def test_a_gpu_that_is_lost_in_the_middle(driven: Driven, library: FakeNvml, function: str) -> None:
    library.set(**{f"code__{function}__3": 15}, value__compute=1)
    part = driven.next_part()
    assert set(of(part, 3).values()) == {"lost"}
    assert all(cell == "lost" for gpus in part["links"].values() for cell in gpus[3])
    assert [app[0] for app in part["apps"]] == [0, 1, 2, 4, 5, 6, 7]
    for other in (0, 1, 2, 4, 5, 6, 7):
        assert of(part, other)["gpu_mem_clock"] == 2619
        assert links_of(part, other) == [1] * 18


def test_a_slow_reading_leaves_room_for_questions(driven: Driven, library: FakeNvml) -> None:
    driven.next_part()
    library.set(slow__nvmlDeviceGetPerformanceState=300)
    driven.gpus.watch(30.0)
    answers: list[float] = []

    def count() -> bool:
        if driven.gpus.asked_at is None:
            answers.append(time.monotonic())
        return driven.gpus.part is not None

    driven.until(count)
    assert driven.gpus.note == ""
    gaps = [after - before for before, after in itertools.pairwise(answers)]
    # Eight GPUs take 2.4 s; nobody waits for more than one of them.
    assert len(answers) >= 7
    assert max(gaps) < 1.5
    part = driven.part()
    assert of(part, 2) == HOPPER


def test_a_reading_that_hangs_is_a_driver_that_hangs(
    driven: Driven, library: FakeNvml, nvml: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "HUNG_S", 0.5)
    driven.next_part()
    library.set(hang__nvmlDeviceGetGpuFabricInfoV__4=1)
    driven.gpus.watch(30.0)
    driven.until(lambda: driven.gpus.note == "hung")
    part = driven.gpus.take_part()
    assert {cell for cells in part["gpu"].values() for cell in cells} == {"hung"}
    assert {len(cells) for cells in part["gpu"].values()} == {EVERY_GPU}
    assert part["links"]["nvlink_state"] == [["hung"] * 18] * EVERY_GPU
    assert part["apps"] == []
    assert driven.gpus.values["gpu_util"] == ["hung"] * EVERY_GPU
    library.unset("hang__nvmlDeviceGetGpuFabricInfoV__4")
    driven.until(lambda: driven.gpus.note == "")
    # At once, and not when its interval is over.
    assert of(driven.part(2.0), 2) == HOPPER


def test_no_driver_has_nothing_to_tell(driven: Driven, library: FakeNvml) -> None:
    library.set(code__nvmlInitWithFlags=9)
    driven.until(lambda: driven.gpus.note == "no driver loaded")
    driven.gpus.watch(30.0)
    part = driven.gpus.take_part()
    assert (part["gpu"], part["links"], part["apps"], part["words"]) == ({}, {}, [], {})
    assert part["wall"] > 0


def test_a_child_that_dies_takes_its_values_along(driven: Driven) -> None:
    driven.next_part()
    driven.until(lambda: driven.gpus.pid and driven.gpus.asked_at is None)
    strike(driven.gpus.pid, 11)
    driven.until(lambda: driven.gpus.note.startswith("child"))
    assert driven.gpus.take_part()["gpu"]["gpu_mem_clock"] == ["error"] * EVERY_GPU
    assert of(driven.part(), 2) == HOPPER


@pytest.mark.parametrize(
    ("layout", "name", "members"),
    [
        ("SRAM", "c_nvmlEccSramErrorStatus_v1_t", None),
        ("HISTOGRAM", "c_nvmlRowRemapperHistogramValues", None),
        ("PROCESS", "c_nvmlProcessInfo_v3_t", None),
        ("PROCESS", "c_nvmlProcessInfo_v2_t", None),
        ("FABRIC", "c_nvmlGpuFabricInfo_v2_t", ["version", "status", "cliqueId", "state", "healthMask"]),
        ("OLD_FABRIC", "c_nvmlGpuFabricInfo_t", ["status", "cliqueId", "state"]),
    ],
)
def test_layouts_are_those_of_pynvml(
    part: Callable[[str], ModuleType], layout: str, name: str, members: list[str] | None
) -> None:
    pynvml = pytest.importorskip("pynvml")
    form = getattr(part("nvml_rare"), layout)
    kind = getattr(pynvml, name)
    names = members or [field[0] for field in kind._fields_]
    assert struct.calcsize(form) == ctypes.sizeof(kind)
    # A different number in each member comes back from its own place.
    filled = kind()
    for number, member in enumerate(names, 3):
        setattr(filled, member, number)
    assert struct.unpack(form, bytes(filled)) == tuple(range(3, 3 + len(names)))


def test_versions_and_numbers_are_those_of_pynvml(part: Callable[[str], ModuleType]) -> None:
    pynvml = pytest.importorskip("pynvml")
    rare = part("nvml_rare")
    assert 1 << 24 | struct.calcsize(rare.SRAM) == pynvml.nvmlEccSramErrorStatus_v1
    assert 2 << 24 | struct.calcsize(rare.FABRIC) == pynvml.nvmlGpuFabricInfo_v2
    assert rare.MOST_LINKS == pynvml.NVML_NVLINK_MAX_LINKS
    assert rare.BLACKWELL == pynvml.NVML_DEVICE_ARCH_BLACKWELL
    names = {
        "gpu_ecc_mode": "ECC_CURRENT",
        "gpu_retired_pages_sbe": "RETIRED_SBE",
        "gpu_retired_pages_dbe": "RETIRED_DBE",
        "gpu_retired_pages_pending": "RETIRED_PENDING",
        "gpu_throttle_time_sw_power_cap": "CLOCKS_EVENT_REASON_SW_POWER_CAP",
        "gpu_pcie_replay": "PCIE_REPLAY_COUNTER",
        "gpu_remapped_rows_corr": "REMAPPED_COR",
        "gpu_remapped_rows_uncorr": "REMAPPED_UNC",
        "gpu_row_remap_pending": "REMAPPED_PENDING",
        "gpu_row_remap_failure": "REMAPPED_FAILURE",
        "gpu_temp_slowdown": "TEMPERATURE_SLOWDOWN_TLIMIT",
        "gpu_recovery_action": "GET_GPU_RECOVERY_ACTION",
        "speed": "NVLINK_SPEED_MBPS_COMMON",
        "nvlink_state": "NVLINK_GET_STATE",
        "nvlink_speed": "NVLINK_GET_SPEED",
        "nvlink_replay_errors": "NVLINK_ERROR_DL_REPLAY",
        "nvlink_recovery_errors": "NVLINK_ERROR_DL_RECOVERY",
        "nvlink_crc_errors": "NVLINK_ERROR_DL_CRC",
        "nvlink_effective_errors": "NVLINK_COUNT_EFFECTIVE_ERRORS",
        "nvlink_symbol_errors": "NVLINK_COUNT_SYMBOL_ERRORS",
    }
    assert {name: getattr(pynvml, f"NVML_FI_DEV_{names[name]}") for name in (*rare.FIELDS, *rare.LINKS)} == {
        **rare.FIELDS,
        **rare.LINKS,
    }
    first = pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
    assert first == 269
    assert first + 1 == pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
    assert first + 2 == pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN


@pytest.mark.parametrize("python", interpreters())
def test_every_python_reads_the_same(python: str, nvml: ModuleType, fake_nvml: FakeNvml) -> None:
    fake_nvml.set(value__compute__2=1)
    sent, later = child_payload(), later_source()
    child = subprocess.Popen(
        [python, "-I", "-S", "-c", nvml.BOOTSTRAP, nvml.CHILD_MARK],
        stdin=subprocess.PIPE,
        env={**os.environ, **fake_nvml.environment},
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        child.stdin.write(b"%d\n%s2.000 1 %d\n%s" % (len(sent), sent, len(later), later))
        child.stdin.flush()
        quick = json.loads(child.stdout.readline())
        part = json.loads(child.stdout.readline())["part"]
    assert child.wait(5) == 0
    assert quick["node"]["gpu_count"] == EVERY_GPU
    assert of(part, 2) == {**HOPPER, "gpu_process_count": 1}
    assert part["apps"] == [[2, 4020, 60000, "C"]]
    assert link(part, 7, 5) == LINK_5


GROUP = {"name": "gpu", "s": 30}


def watch(running: RunningProbe) -> None:
    """Let a probe read what the driver tells rarely."""
    running.write(payload.line_of([GROUP]))


def test_it_goes_out_as_a_part(start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree) -> None:
    fake_nvml.set(value__compute__2=1)
    running = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)})
    running.gpus()
    watch(running)
    part = running.until(lambda message: isinstance(message, wire.Part))
    assert (part.name, part.s) == ("gpu", 30.0)
    assert {metric: cells[2] for metric, cells in part.gpu.items()} == {**HOPPER, "gpu_process_count": 1}
    assert {metric: gpus[7][5] for metric, gpus in part.links.items()} == LINK_5
    assert part.apps == [[2, 4020, 60000, "C"]]
    assert part.words["cuda_version"] == "13.0"


def test_a_slow_reading_costs_no_frame(start: Callable[..., RunningProbe], fake_nvml: FakeNvml, tree: Tree) -> None:
    running = start({**fake_nvml.environment, "STETHOSCOPE_ROOT": str(tree.root)}, tick_s=0.5)
    running.gpus()
    fake_nvml.set(slow__nvmlDeviceGetPerformanceState__3=2500)
    watch(running)
    frames: list[wire.Delta] = []
    parts: list[wire.Part] = []
    for message in running.messages():
        if isinstance(message, wire.Delta):
            frames.append(message)
        elif isinstance(message, wire.Part):
            parts.append(message)
            break
    assert parts[0].gpu["gpu_pstate"] == [0] * EVERY_GPU
    assert all(not frame.notes for frame in frames)
    gaps = [after.mono - before.mono for before, after in itertools.pairwise(frames)]
    assert len(frames) >= 5
    assert max(gaps) < 1.4
