"""The level of a node by what is on it: its disks, file systems, links and interfaces as much as its GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stethoscope.model.metric import Reason, Scope
from stethoscope.ui.present.assess import assess, what_is_wrong
from stethoscope.ui.present.spans import Level
from tests.builders import DEVICES, MONO, WALL, fleet


@pytest.mark.parametrize(
    ("place", "metric", "value", "level", "said"),
    [
        ("disk/nvme1n1", "smart_passed", 0, Level.CRITICAL, "disk/nvme1n1 SMART verdict failed"),
        ("disk/nvme0n1", "nvme_percentage_used", 93, Level.WARNING, "disk/nvme0n1 life used 93 %"),
        ("fs/scratch", "fs_used", 91, Level.WARNING, "fs/scratch space used 91 %"),
        ("fs/shared", "fs_used", 99, Level.CRITICAL, "fs/shared space used 99 %"),
        ("pcie/0000:1b:00.0", "pcie_aer_nonfatal", 0.5, Level.WARNING, "pcie/0000:1b:00.0 nonfatal PCIe errors 0.5/s"),
        ("nvlink/5/11", "nvlink_crc_errors", 3, Level.WARNING, "nvlink/5/11 CRC errors 3/s"),
        ("net/eth1", "net_rx_crc_errors_phy", 2, Level.WARNING, "net/eth1 CRC errors 2/s"),
        ("disk/nvme1n1", "smart_passed", Reason.LOST, Level.LOST, ""),
    ],
)
def test_what_is_wrong_with_a_device_is_wrong_with_its_node(
    place: str, metric: str, value: float | Reason, level: Level, said: str
) -> None:
    snapshot = fleet(4, devices=DEVICES, set={(f"gpu-003/{place}", metric): value})
    found = assess(snapshot, MONO)
    assert list(found.nodes) == [0, 0, level, 0]
    words, _ = what_is_wrong(found, snapshot.node("gpu-003"), WALL)
    assert words.startswith(said)


def test_a_file_system_that_was_unmounted_and_rows_of_nobody_raise_no_node() -> None:
    snapshot = fleet(
        4, devices=DEVICES, set={("gpu-002/fs/scratch", "fs_used"): Reason.LOST, ("gpu-003/fs/shared", "fs_used"): 99}
    )
    # gpu-003 has one file system less by now: the row of what was its last one belongs to nobody.
    kept = {**DEVICES, Scope.FS: DEVICES[Scope.FS][:2]}
    nodes = tuple(replace(node, devices=kept) if node.name == "gpu-003" else node for node in snapshot.nodes)
    assert list(assess(replace(snapshot, nodes=nodes), MONO).nodes) == [0, 0, 0, 0]


def test_nodes_without_devices_are_no_owners() -> None:
    snapshot = fleet(3, devices=DEVICES, set={("gpu-002/disk/nvme0n1", "smart_passed"): 0})
    nodes = tuple(
        replace(node, devices={}, device_first={}) if node.name == "gpu-001" else node for node in snapshot.nodes
    )
    assert list(assess(replace(snapshot, nodes=nodes), MONO).nodes) == [0, Level.CRITICAL, 0]
