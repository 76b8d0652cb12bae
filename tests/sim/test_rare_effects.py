"""What faults and settings of a scenario do to rarely read values: which, where, and in which direction."""

from __future__ import annotations

import pytest

from stethoscope.model.metric import Scope
from tests.sim.watching import facts, parts
from tests.sim.worlds import twin

GPU = "0000:52:00.0"


def _device(found: object, scope: Scope, name: str, metric: str) -> object:
    devices = found.devices[scope]  # type: ignore[attr-defined]
    return devices.values[metric][devices.names.index(name)]


def test_a_throttling_gpu_adds_up_the_time_it_is_held() -> None:
    event = "at: 10s, fault: gpu_thermal_throttle, where: gpu-002/gpu/3, params: {temp_c: 91, ramp: 20s}"
    world = twin(event, driver="575.57.08")
    world.advance_to(9)
    before = facts(world, 1)["gpu"].gpu
    assert before["gpu_throttle_time_sw_thermal"] == [0] * 8
    world.advance_to(60)
    at_60 = facts(world, 1)["gpu"].gpu
    world.advance_to(90)
    at_90 = facts(world, 1)["gpu"].gpu
    for metric in ("gpu_throttle_time_sw_thermal", "gpu_throttle_time_hw_thermal"):
        grown = [later - past for later, past in zip(at_90[metric], at_60[metric], strict=True)]
        assert grown[3] == pytest.approx(30e6, rel=0.01)
        assert [value for index, value in enumerate(grown) if index != 3] == [0] * 7
    # What is held because of heat is not held because of the power limit.
    power = "gpu_throttle_time_sw_power_cap"
    assert at_90[power][3] == at_60[power][3]
    assert sum(later > past for later, past in zip(at_60[power], before[power], strict=True)) >= 4
    assert at_90["gpu_throttle_time_hw_power_brake"] == [0] * 8


def test_an_older_driver_has_no_name_for_the_time_of_thermal_throttling() -> None:
    found = facts(twin(), 1)["gpu"].gpu
    assert found["gpu_throttle_time_sw_thermal"] == ["unsupported"] * 8
    assert found["gpu_recovery_action"] == ["unsupported"] * 8
    assert all(isinstance(value, int) for value in found["gpu_throttle_time_sw_power_cap"])


@pytest.mark.parametrize("aer", [True, False])
def test_a_gpu_that_fell_off_its_bus_is_lost_everywhere_and_the_others_are_not(aer: bool) -> None:
    event = f"at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2, params: {{aer_before: {str(aer).lower()}}}"
    world = twin(event)
    world.advance_to(12)
    found = facts(world, 1)
    gpu = found["gpu"]
    assert gpu.gpu["gpu_ecc_uncorr_volatile_dram"] == [0, 0, "lost", 0, 0, 0, 0, 0]
    assert gpu.gpu["gpu_pcie_link_width"] == [16, 16, "lost", 16, 16, 16, 16, 16]
    assert gpu.gpu_words["gpu_vbios_version"][2] == ""
    assert gpu.processes is not None
    assert [process.gpu for process in gpu.processes] == [0, 1, 3, 4, 5, 6, 7]
    assert _device(gpu, Scope.NVLINK, "2/0", "nvlink_state") == "lost"
    assert _device(gpu, Scope.NVLINK, "1/0", "nvlink_state") == 1
    pcie = found["pcie"]
    assert not isinstance(_device(pcie, Scope.PCIE, GPU, "pcie_link_width"), int | float)
    assert _device(pcie, Scope.PCIE, "0000:43:00.0", "pcie_link_width") == 16
    assert _device(pcie, Scope.PCIE, GPU, "pcie_aer_fatal") == int(aer)
    assert "??" in parts(world, 1)["identity"].files[f"/proc/driver/nvidia/gpus/{GPU}/information"]


def test_a_hung_driver_says_nothing_rarely_and_leaves_its_callers_stuck() -> None:
    world = twin("at: 10s, fault: driver_hung, where: gpu-002, params: {d_procs: 3}")
    world.advance_to(9)
    assert facts(world, 1)["host"].tasks == ()
    world.advance_to(12)
    found = facts(world, 1)
    assert "gpu" not in found
    assert found["host"].node["dstate_processes"] == 3
    assert found["host"].tasks is not None
    assert [(task.state, task.name) for task in found["host"].tasks] == [
        ("D", "nvidia-smi"), ("D", "python3"), ("D", "python3"),
    ]  # fmt: skip
    assert all("rwlock" in task.waits_in for task in found["host"].tasks)
    assert found["pcie"].devices[Scope.PCIE].values["pcie_link_width"].count(16) == 8 * 4 + 8 * 2
    assert "gpu" in facts(world, 0)


def test_old_counters_are_the_same_in_every_place_that_shows_them() -> None:
    world = twin(
        "at: 0s, fault: historic_counters, where: gpu-002/ib/mlx5_4, params: {link_downed: 3}",
        "at: 0s, fault: historic_counters, where: gpu-002/gpu/5, params: {sbe: 14}",
        "at: 0s, fault: historic_counters, where: gpu-002/nvlink/1/7, params: {crc: 9}",
    )
    world.advance_to(40)
    found = facts(world, 1)
    assert _device(found["net"], Scope.NET, "ib4", "net_link_down_events_phy") == 3
    assert _device(found["net"], Scope.NET, "ib4", "net_carrier_changes") == 7
    assert _device(found["net"], Scope.NET, "ib3", "net_carrier_changes") == 1
    assert found["gpu"].gpu["gpu_ecc_corr_volatile_dram"][5] == 14
    assert found["gpu"].gpu["gpu_ecc_corr_aggregate_dram"][5] >= 14
    assert _device(found["gpu"], Scope.NVLINK, "1/7", "nvlink_crc_errors") == 9
    assert set(found["gpu"].devices[Scope.NVLINK].values["nvlink_crc_errors"]) == {0, 9}


def test_an_idle_node_has_slow_links_to_its_gpus_when_it_saves_power() -> None:
    world = twin("at: 0s, fault: idle_node, where: gpu-006, params: {pcie_gen: 1}")
    found = facts(world, 5)
    assert found["gpu"].gpu["gpu_pcie_link_gen"] == [1] * 8
    assert found["gpu"].gpu["gpu_pcie_link_gen_max"] == [5] * 8
    assert _device(found["pcie"], Scope.PCIE, GPU, "pcie_link_speed") == 2.5
    assert _device(found["pcie"], Scope.PCIE, GPU, "pcie_max_link_speed") == 32.0


STATES = [
    ("gpu-002/disk/nvme1n1", "nvme_percentage_used", 104, "smart", Scope.DISK, "nvme1n1", 104),
    ("gpu-002/disk/nvme1n1", "nvme_available_spare", 4, "smart", Scope.DISK, "nvme1n1", 4),
    ("gpu-002/disk/nvme2n1", "nvme_critical_warning", 5, "smart", Scope.DISK, "nvme2n1", 5),
    ("gpu-002/disk/nvme0n1", "fs_readonly", 1, "mounts", Scope.FS, "/", 1),
    ("gpu-002/disk/nvme1n1", "fs_readonly", 1, "mounts", Scope.FS, "/local", 1),
    ("gpu-002/gpu/2", "pcie_link_width", 8, "pcie", Scope.PCIE, GPU, 8),
    ("gpu-002/gpu/2", "gpu_pcie_link_gen", 2, "pcie", Scope.PCIE, GPU, 5.0),
    ("gpu-002/ib/mlx5_3", "pcie_link_width", 8, "pcie", Scope.PCIE, "0000:5e:00.0", 8),
    ("gpu-002/nvlink/3/5", "nvlink_state", 0, "gpu", Scope.NVLINK, "3/5", 0),
]


@pytest.mark.parametrize(("where", "metric", "value", "group", "scope", "name", "shown"), STATES)
def test_a_state_that_a_scenario_sets_is_read_at_its_place_only_and_until_its_end(
    where: str, metric: str, value: float, group: str, scope: Scope, name: str, shown: float
) -> None:
    world = twin(f"at: 10s, until: 40s, set: {{where: {where}, metric: {metric}, value: {value}}}")
    read = {"gpu_pcie_link_gen": "pcie_link_speed"}.get(metric, metric)
    world.advance_to(9)
    before = dict(facts(world, 1)[group].devices[scope].values)[read]
    world.advance_to(20)
    there, elsewhere = facts(world, 1)[group].devices[scope], facts(world, 0)[group].devices[scope]
    place = there.names.index(name)
    assert there.values[read][place] == shown
    changed = [index for index, past in enumerate(before) if there.values[read][index] != past]
    assert changed == [place]
    assert shown not in elsewhere.values[read] or shown in before
    world.advance_to(41)
    assert facts(world, 1)[group].devices[scope].values[read] == before


COUNTERS = [
    ("gpu-002/gpu/2", "gpu_ecc_corr_volatile_dram", "gpu"),
    ("gpu-002/gpu/2", "gpu_ecc_uncorr_volatile_dram", "gpu"),
    ("gpu-002/gpu/2", "gpu_remapped_rows_uncorr", "gpu"),
    ("gpu-002/gpu/2", "gpu_pcie_replay", "gpu"),
]


@pytest.mark.parametrize(("where", "metric", "group"), COUNTERS)
def test_a_rate_that_a_scenario_sets_counts_while_it_holds(where: str, metric: str, group: str) -> None:
    world = twin(f"at: 10s, until: 40s, set: {{where: {where}, metric: {metric}, value: 2}}")
    totals = []
    for t_s in (5, 20, 60):
        world.advance_to(t_s)
        totals.append(list(facts(world, 1)[group].gpu[metric]))
    changes = [[later - first for later, first in zip(total, totals[0], strict=True)] for total in totals[1:]]
    assert [change[2] for change in changes] == [20, 60]
    assert all(value == 0 for change in changes for index, value in enumerate(change) if index != 2)


def test_counters_of_devices_and_nodes_grow_as_a_scenario_says() -> None:
    world = twin(
        "at: 10s, set: {where: gpu-002/nvlink/3/5, metric: nvlink_replay_errors, value: 3}",
        "at: 10s, set: {where: gpu-002/gpu/2, metric: pcie_aer_correctable, value: 1}",
        "at: 10s, set: {where: gpu-002, metric: edac_ce, value: 0.5}",
        "at: 10s, set: {where: gpu-002, metric: net_tcp_retrans, value: 40}",
        "at: 10s, set: {where: gpu-002/disk/nvme1n1, metric: nvme_media_errors, value: 0.1}",
    )
    world.advance_to(10)
    first = facts(world, 1)
    world.advance_to(30)
    then = facts(world, 1)
    assert _device(then["gpu"], Scope.NVLINK, "3/5", "nvlink_replay_errors") == 60
    assert _device(then["gpu"], Scope.NVLINK, "3/4", "nvlink_replay_errors") == 0
    grown = {
        "aer": (then["pcie"], first["pcie"], Scope.PCIE, GPU, "pcie_aer_correctable"),
        "media": (then["smart"], first["smart"], Scope.DISK, "nvme1n1", "nvme_media_errors"),
    }
    changes = {
        name: float(str(_device(now, scope, at, metric))) - float(str(_device(past, scope, at, metric)))
        for name, (now, past, scope, at, metric) in grown.items()
    }
    assert changes == {"aer": 20, "media": 2}
    memory = float(str(then["host"].node["edac_ce"])) - float(str(first["host"].node["edac_ce"]))
    again = float(str(then["net"].node["net_tcp_retrans"])) - float(str(first["net"].node["net_tcp_retrans"]))
    assert memory == 10
    assert again == pytest.approx(802, abs=1)


@pytest.mark.parametrize(("metric", "value"), [("disk_await", 8), ("disk_io_util", 99)])
def test_a_slow_disk_shows_in_the_times_of_its_requests(metric: str, value: float) -> None:
    world = twin(f"at: 10s, until: 50s, set: {{where: gpu-002/disk/nvme1n1, metric: {metric}, value: {value}}}")
    world.advance_to(10)
    first = facts(world, 1)["disks"].devices[Scope.DISK].values
    world.advance_to(40)
    then = facts(world, 1)["disks"].devices[Scope.DISK].values
    world.advance_to(80)
    last = facts(world, 1)["disks"].devices[Scope.DISK].values

    def grown(now: object, past: object, disk: int, name: str) -> float:
        return float(str(now[name][disk])) - float(str(past[name][disk]))  # type: ignore[index]

    for disk, sick in ((1, True), (2, False)):
        requests = sum(grown(then, first, disk, f"disk_{way}s") for way in ("read", "write"))
        waited = sum(grown(then, first, disk, f"disk_{way}_time") for way in ("read", "write"))
        busy = grown(then, first, disk, "disk_io_time") / 300
        if metric == "disk_await":
            assert waited / requests == pytest.approx(value if sick else 0.101, rel=0.02)
        else:
            assert busy == pytest.approx(value if sick else 12, rel=0.05)
    # The scenario ends at 50 s: the last thirty seconds are healthy, and no counter ever falls.
    assert all(later >= past for name in then for later, past in zip(last[name][:3], then[name][:3], strict=True)
               if name.startswith("disk_"))  # fmt: skip


def test_words_and_node_states_that_a_scenario_sets() -> None:
    world = twin(
        "at: 10s, set: {where: gpu-002, metric: cpu_governor, value: powersave}",
        'at: 10s, set: {where: gpu-002, metric: driver_version, value: "535.183.06"}',
        "at: 10s, set: {where: gpu-002, metric: clock_offset, value: 4.2}",
        "at: 10s, set: {where: gpu-002, metric: fabricmanager_active, value: 0}",
        "at: 10s, set: {where: gpu-002, metric: swap_used, value: 512}",
        "at: 10s, set: {where: gpu-002, metric: edac_ue, value: 2}",
        "at: 10s, set: {where: gpu-003, metric: clock_synchronised, value: 0}",
        "at: 10s, set: {where: gpu-002, metric: dstate_processes, value: 2}",
        "at: 10s, set: {where: gpu-002/disk/nvme1n1, metric: fs_used, value: 99.5}",
    )
    world.advance_to(11)
    found, usual = facts(world, 1), facts(world, 0)
    assert found["tuning"].words["cpu_governor"] == "powersave"
    assert usual["tuning"].words["cpu_governor"] == "performance"
    assert found["gpu"].words["driver_version"] == found["identity"].words["driver_version"] == "535.183.06"
    assert found["clock"].node["clock_offset"] == pytest.approx(4.2)
    assert (found["tuning"].node["fabricmanager_active"], usual["tuning"].node["fabricmanager_active"]) == (0, 1)
    assert (found["host"].node["edac_ue"], usual["host"].node["edac_ue"]) == (2, 0)
    assert usual["clock"].node["clock_synchronised"] == 1
    assert facts(world, 2)["clock"].node["clock_synchronised"] == 0
    assert (found["host"].node["swap_used"], usual["host"].node["swap_used"]) == (512, 0)
    assert (found["host"].node["dstate_processes"], usual["host"].node["dstate_processes"]) == (2, 0)
    assert _device(found["mounts"], Scope.FS, "/local", "fs_used") == pytest.approx(99.5, abs=0.1)
    assert float(str(_device(found["mounts"], Scope.FS, "/", "fs_used"))) < 20


def test_a_node_that_started_again_counts_from_its_start() -> None:
    world = twin("at: 10s, fault: node_down, where: gpu-002, params: {back_after: 60s}")
    world.advance_to(9)
    before = facts(world, 1)
    world.advance_to(100)
    after = facts(world, 1)
    reads = [float(str(_device(one["disks"], Scope.DISK, "nvme1n1", "disk_reads"))) for one in (before, after)]
    assert reads[1] < 100 < reads[0]
    assert after["identity"].node["boot_time"] == pytest.approx(world.wall_at_0 + 70, abs=2)
    assert after["gpu"].processes == ()
