"""Counters of disks in the units of the catalogue, for every age of kernel."""

from __future__ import annotations

import pytest

from stethoscope.model.metric import Scope
from tests.parse.groups.parts import facts, only, row

COLUMNS = "100 5 2048 40 200 6 4096 90 3 120 130"


@pytest.mark.parametrize("more", ["", " 1 2 3 4", " 1 2 3 4 5 6"])
def test_reads_writes_and_times(more: str) -> None:
    devices = only(facts("disks", {"/proc/diskstats": f" 259       0 nvme0n1 {COLUMNS}{more}\n"}), Scope.DISK)
    assert row(devices, "nvme0n1") == {
        "disk_reads": 100,
        "disk_writes": 200,
        "disk_read_bytes": 2048 * 512,
        "disk_write_bytes": 4096 * 512,
        "disk_read_time": 40,
        "disk_write_time": 90,
        "disk_io_time": 120,
        "nvme_temperature": "unsupported",
    }


def test_partitions_loops_and_what_is_built_of_disks_are_none() -> None:
    names = (
        "sda sda1 sdaa nvme0n1 nvme0n1p2 nvme0c1n1 loop0 ram0 zram0 dm-0 md127 md127p1 vda vda1 mmcblk0 mmcblk0p1 sr0"
    )
    text = "".join(f"   8  {minor} {name} {COLUMNS}\n" for minor, name in enumerate(names.split()))
    devices = only(facts("disks", {"/proc/diskstats": text}), Scope.DISK)
    assert devices.names == ("sda", "sdaa", "nvme0n1", "md127", "vda", "mmcblk0")


def test_what_a_disk_is() -> None:
    folder = "/sys/block/nvme0n1"
    files = {
        "/proc/diskstats": f" 259 0 nvme0n1 {COLUMNS}\n",
        f"{folder}/device/model": "SAMSUNG MZQL23T8HCLS-00A07              \n",
        f"{folder}/device/firmware_rev": "GDC5602Q\n",
        f"{folder}/device/state": "live\n",
        f"{folder}/size": "7501476528\n",
        f"{folder}/queue/rotational": "0\n",
        f"{folder}/device/hwmon3/temp1_input": "35850\n",
    }
    devices = only(facts("disks", files), Scope.DISK)
    assert devices.about["nvme0n1"] == {
        "model": "SAMSUNG MZQL23T8HCLS-00A07",
        "firmware": "GDC5602Q",
        "size": "3.84 TB",
        "rotational": "no",
        "state": "live",
    }
    assert row(devices, "nvme0n1")["nvme_temperature"] == 35.85


def test_the_temperature_of_an_older_kernel_and_one_that_cannot_be_read() -> None:
    files = {
        "/proc/diskstats": f" 259 0 nvme0n1 {COLUMNS}\n 259 1 nvme1n1 {COLUMNS}\n 259 2 nvme2n1 {COLUMNS}\n",
        "/sys/block/nvme0n1/device/device/hwmon/hwmon2/temp1_input": "-1000\n",
        "/sys/block/nvme1n1/device/hwmon4/temp1_input": "hot\n",
    }
    failed = {"/sys/block/nvme2n1/device/hwmon5/temp1_input": "error"}
    devices = only(facts("disks", files, failed=failed), Scope.DISK)
    assert list(devices.values["nvme_temperature"]) == [-1.0, "error", "error"]


def test_a_raid_says_its_state_and_what_is_missing() -> None:
    files = {
        "/proc/diskstats": f" 9 5 md5 {COLUMNS}\n",
        "/sys/block/md5/md/level": "raid5\n",
        "/sys/block/md5/md/array_state": "clean\n",
        "/sys/block/md5/md/degraded": "1\n",
    }
    assert only(facts("disks", files), Scope.DISK).about["md5"] == {
        "state": "running",
        "raid": "raid5",
        "degraded": "1 missing",
    }


def test_a_raid_that_does_not_run_says_so() -> None:
    files = {"/proc/diskstats": f" 9 5 md5 {COLUMNS}\n", "/sys/block/md5/md/array_state": "readonly\n"}
    assert only(facts("disks", files), Scope.DISK).about["md5"] == {"state": "readonly"}


def test_a_drive_without_a_medium_is_none_but_a_dead_disk_is() -> None:
    files = {
        "/proc/diskstats": f" 8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n 259 0 nvme0n1 {COLUMNS}\n",
        "/sys/block/sda/size": "0\n",
        "/sys/block/nvme0n1/size": "0\n",
    }
    assert only(facts("disks", files), Scope.DISK).names == ("nvme0n1",)


def test_a_line_of_nonsense_is_an_error_and_costs_only_itself() -> None:
    text = f" 8 0 sda 1 x 3 4 5 6 7 8 9 10 11\n 8 1 sdb {COLUMNS}\nsdc\n"
    devices = only(facts("disks", {"/proc/diskstats": text}), Scope.DISK)
    assert row(devices, "sda")["disk_reads"] == "error"
    assert row(devices, "sdb")["disk_reads"] == 100


def test_without_diskstats_nothing_is_said_of_disks() -> None:
    assert facts("disks", failed={"/proc/diskstats": "permission"}).devices == {}
