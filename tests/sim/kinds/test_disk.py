"""Local disks and their file systems show what the catalogue says: where, in which direction, how much."""

from __future__ import annotations

import json

import pytest

from stethoscope.model.metric import Scope
from stethoscope.sim.readings import Readings
from tests.sim.looks import printed, step_s
from tests.sim.watching import facts
from tests.sim.worlds import gpu, mean, twin

WHERE, NODE = "gpu-002/disk/nvme1n1", 1


def _disks(world: object, node: int) -> dict[str, tuple[float, ...]]:
    found = facts(world, node)["disks"].devices[Scope.DISK]  # type: ignore[arg-type]
    return {metric: tuple(map(float, map(str, values[:3]))) for metric, values in found.values.items()
            if metric.startswith("disk_")}  # fmt: skip


def test_a_disk_behind_its_write_cliff_takes_milliseconds_and_starves_its_node() -> None:
    world = twin(f"at: 10s, fault: local_nvme_slow, where: {WHERE}")
    world.advance_to(120)
    first = _disks(world, NODE)
    world.advance_to(180)
    grown = {metric: [now - past for now, past in zip(values, first[metric], strict=True)]
             for metric, values in _disks(world, NODE).items()}  # fmt: skip
    for disk, (read_ms, write_ms) in ((1, (3.0, 8.0)), (2, (0.10, 0.12))):
        assert grown["disk_read_time"][disk] / grown["disk_reads"][disk] == pytest.approx(read_ms, rel=0.05)
        assert grown["disk_write_time"][disk] / grown["disk_writes"][disk] == pytest.approx(write_ms, rel=0.05)
    assert grown["disk_io_time"][1] / 600 == pytest.approx(100, abs=1)
    assert grown["disk_io_time"][2] / 600 < 13
    readings = Readings(world)
    assert 8 <= float(str(readings.node["cpu_iowait"][NODE])) <= 20
    assert float(str(readings.node["cpu_iowait"][0])) < 1
    # Half a second in each step of one second: the ranks of the node have no kernel, the others wait in theirs.
    assert step_s(world) == pytest.approx(1.5)
    assert mean(readings, "gpu_util", NODE) < 70
    assert mean(readings, "gpu_util", 0) >= 97
    health = facts(world, NODE)["smart"].devices[Scope.DISK]
    assert health.values["nvme_critical_warning"] == [0, 0, 0]
    assert max(float(str(value)) for value in health.values["nvme_percentage_used"]) < 30


def test_a_worn_disk_says_so_and_at_last_kills_the_rank_that_reads() -> None:
    world = twin(f"at: 10s, fault: nvme_wearout, where: {WHERE}, params: {{eio_after: 100s}}")
    said = world.advance_to(60)
    health = facts(world, NODE)["smart"].devices[Scope.DISK]
    at = health.names.index("nvme1n1")
    shown = {metric: values[at] for metric, values in health.values.items()}
    assert (shown["nvme_percentage_used"], shown["nvme_available_spare"], shown["nvme_critical_warning"]) == (104, 4, 5)
    assert (shown["nvme_media_errors"], shown["smart_passed"]) == (31, 0)
    assert [
        value for name, value in zip(health.names, health.values["smart_passed"], strict=True) if name != "nvme1n1"
    ] == [1, 1]
    assert set(facts(world, 0)["smart"].devices[Scope.DISK].values["smart_passed"]) == {1}
    document = json.loads(
        printed(world, NODE, "smartctl", "nvme1n1").split("\n", 1)[1].rsplit("stethoscope-probe", 1)[0]
    )
    assert document["nvme_smart_health_information_log"]["num_err_log_entries"] >= 217
    assert [(line.sink, line.at_s) for line in said] == [("syslog", 10.0)]
    assert "/dev/nvme1, Critical Warning (0x05): Spare Reliability" in said[0].text
    assert step_s(world) == 1.0
    said = world.advance_to(112)
    assert [line.text.partition(",")[0] for line in said if line.sink == "kernel"] == ["critical medium error"]
    errors = [line for line in said if "OSError: [Errno 5]" in line.text]
    assert len(errors) == 1
    dead = [rank for rank, alive in enumerate(world.job_states()[0].rank_alive) if not alive]
    assert dead == [errors[0].rank]
    assert gpu(Readings(world), "gpu_fb_used", NODE, dead[0] - 8) == 0
    world.advance_to(160)
    assert world.job_states()[0].state != "RUNNING"


@pytest.mark.parametrize(
    ("where", "mount"), [(WHERE, "/local"), ("gpu-002/disk/nvme2n1", "/local"), ("gpu-002/disk/nvme0n1", "/")]
)
def test_a_full_disk_ends_the_job_that_writes_there(where: str, mount: str) -> None:
    world = twin(f"at: 10s, fault: disk_full, where: {where}")
    said = world.advance_to(20)
    found = facts(world, NODE)["mounts"].devices[Scope.FS]
    used = dict(zip(found.names, found.values["fs_used"], strict=True))
    assert (used[mount], used["/" if mount == "/local" else "/local"] < 75) == (100, True)
    elsewhere = facts(world, 0)["mounts"].devices[Scope.FS]
    assert max(float(str(value)) for value in elsewhere.values["fs_used"]) < 75
    assert ["Errno 28" in line.text for line in said] == [True]
    world.advance_to(60)
    assert world.job_states()[0].state != "RUNNING"


def test_a_disk_that_is_nearly_full_stops_nobody() -> None:
    world = twin(f"at: 10s, fault: disk_full, where: {WHERE}, params: {{used_pct: 91, crash: false}}")
    assert world.advance_to(60) == []
    found = facts(world, NODE)["mounts"].devices[Scope.FS]
    assert dict(zip(found.names, found.values["fs_used"], strict=True))["/local"] == pytest.approx(91, abs=0.1)
    assert step_s(world) == 1.0


def test_a_file_system_that_takes_no_more_writes_says_so_first_in_the_kernel_log() -> None:
    world = twin(f"at: 10s, fault: fs_readonly, where: {WHERE}")
    said = world.advance_to(20)
    found = facts(world, NODE)["mounts"].devices[Scope.FS]
    assert dict(zip(found.names, found.values["fs_readonly"], strict=True))["/local"] == 1
    assert sum(map(float, map(str, found.values["fs_readonly"]))) == 1
    assert [(line.sink, line.text.partition(":")[0]) for line in said] == [
        ("kernel", "EXT4-fs (nvme1n1)"), ("job", f"[rank{said[1].rank}]"),
    ]  # fmt: skip
    assert "Errno 30" in said[1].text
    quiet = twin(f"at: 10s, fault: fs_readonly, where: {WHERE}, params: {{crash: false}}")
    assert len(quiet.advance_to(60)) == 1
    assert step_s(quiet) == 1.0
