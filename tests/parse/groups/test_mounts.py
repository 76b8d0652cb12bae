"""One row for each file system, and a hanging one does not hide the others."""

from __future__ import annotations

import time

import pytest

from stethoscope.model import wire
from stethoscope.model.metric import Scope
from tests.parse.groups.parts import facts, only, row

INFO = r"""21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
22 21 0:16 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 21 259:3 / /data rw,relatime - xfs /dev/nvme1n1 rw,attr2
31 21 259:3 /pods /var/lib/kubelet/pods/1/volumes/x rw,relatime - xfs /dev/nvme1n1 rw,attr2
32 30 259:3 /a /data/again rw,relatime - xfs /dev/nvme1n1 rw,attr2
33 21 7:1 / /snap/core/1 ro,nodev - squashfs /dev/loop1 ro
40 21 0:42 / /home rw,relatime shared:144 master:2 - nfs4 10.0.0.1:/home rw,vers=4.2,hard
41 21 0:43 / /mnt/two\040words ro,relatime - nfs 10.0.0.1:/two\040words rw,vers=3
42 21 0:44 / /scratch rw - lustre 10.0.0.9@o2ib:/scratch rw,flock
43 21 0:45 / /boot rw,relatime - vfat /dev/nvme0n1p1 ro,fmask=0022
44 21 0:46 / /etc/hosts rw - fuse.lxcfs lxcfs rw
"""
HEAD = "Filesystem     Type 1024-blocks    Used Available Capacity Mounted on\n"
LOCAL = (
    HEAD
    + "/dev/nvme0n1p2 ext4   1000000  400000    400000      50% /\n"
    + "/dev/nvme1n1   xfs  104857600 5242880  99614720       5% /data\n"
    + "/dev/nvme0n1p1 vfat    500000  500000    -10000     100% /boot\n"
)
INODES = (
    "Filesystem     Type  Inodes IUsed   IFree IUse% Mounted on\n"
    "/dev/nvme0n1p2 ext4    1000   250     750   25% /\n"
    "/dev/nvme1n1   xfs     4000  4000       0  100% /data\n"
    "/dev/nvme0n1p1 vfat       0     0       0     - /boot\n"
)
REMOTE = (
    HEAD
    + "10.0.0.1:/home nfs4   4194304 1048576   3145728      25% /home\n"
    + "10.0.0.1:/two words nfs   200 100       100      50% /mnt/two words\n"
    + "10.0.0.9@o2ib:/scratch lustre 1048576 1048576 0 100% /scratch\n"
)
OK = {"df_local": wire.Ran(out=LOCAL), "df_inodes": wire.Ran(out=INODES), "df_remote": wire.Ran(out=REMOTE)}
FILES = {"/proc/self/mountinfo": INFO}


def test_the_rows_are_the_file_systems_that_hold_data() -> None:
    devices = only(facts("mounts", FILES, ran=OK), Scope.FS)
    assert devices.names == ("/", "/boot", "/data", "/home", "/mnt/two words", "/scratch")
    assert devices.about["/mnt/two words"] == {"type": "nfs", "device": "10.0.0.1:/two words"}


def test_space_and_inodes() -> None:
    said = facts("mounts", FILES, ran=OK)
    devices = only(said, Scope.FS)
    assert row(devices, "/")["fs_used"] == 50.0
    assert row(devices, "/")["fs_inodes_used"] == 25.0
    assert row(devices, "/data")["fs_size"] == 100.0
    assert row(devices, "/data")["fs_available"] == 95.0
    assert row(devices, "/data")["fs_inodes_used"] == 100.0
    assert row(devices, "/home")["fs_used"] == 25.0
    assert row(devices, "/home")["fs_inodes_used"] == "unsupported"
    assert row(devices, "/mnt/two words")["fs_used"] == 50.0
    assert row(devices, "/scratch")["fs_used"] == 100.0
    assert said.node == {"mounts_hung": 0}
    assert said.notes == {}


def test_more_than_full_is_full_and_no_inodes_are_not_none() -> None:
    devices = only(facts("mounts", FILES, ran=OK), Scope.FS)
    assert row(devices, "/boot")["fs_used"] == 100.0
    assert row(devices, "/boot")["fs_available"] == 0.0
    assert row(devices, "/boot")["fs_inodes_used"] == "unsupported"


def test_read_only_is_by_the_mount_or_by_the_file_system() -> None:
    devices = only(facts("mounts", FILES, ran=OK), Scope.FS)
    readonly = dict(zip(devices.names, devices.values["fs_readonly"], strict=True))
    assert readonly == {"/": 0, "/boot": 1, "/data": 0, "/home": 0, "/mnt/two words": 1, "/scratch": 0}


@pytest.mark.parametrize("status", ["timeout", "hung"])
def test_a_hanging_server_leaves_the_local_ones(status: str) -> None:
    said = facts("mounts", FILES, ran={**OK, "df_remote": wire.Ran(status=status)})
    devices = only(said, Scope.FS)
    assert row(devices, "/")["fs_used"] == 50.0
    assert row(devices, "/home")["fs_used"] == "hung"
    assert row(devices, "/home")["fs_readonly"] == 0
    assert said.node == {"mounts_hung": 1}
    assert said.notes == {"mounts": "df does not come back: a file system does not answer"}


def test_what_df_complains_of_is_an_error_of_that_mount() -> None:
    remote = wire.Ran(
        exit=1,
        out=HEAD + "10.0.0.1:/home nfs4   4194304 1048576   3145728      25% /home\n",
        err="df: /scratch: Stale file handle\ndf: '/mnt/two words': Permission denied\n",
    )
    said = facts("mounts", FILES, ran={**OK, "df_remote": remote})
    devices = only(said, Scope.FS)
    assert row(devices, "/scratch")["fs_used"] == "error"
    assert row(devices, "/mnt/two words")["fs_used"] == "permission"
    assert row(devices, "/home")["fs_used"] == 25.0
    assert said.notes == {"mounts": "/scratch: Stale file handle; /mnt/two words: Permission denied"}


def test_a_line_of_spaces_takes_no_longer_than_another_one() -> None:
    lines = ("a" + " " * 8_000 + "b c d e f g h i\n") * 100
    began = time.process_time()
    said = facts("mounts", FILES, ran={**OK, "df_local": wire.Ran(out=lines + LOCAL)})
    assert time.process_time() - began < 2
    assert row(only(said, Scope.FS), "/data")["fs_used"] == 5.0


def test_without_df_there_is_no_space() -> None:
    said = facts("mounts", FILES)
    assert set(only(said, Scope.FS).values["fs_used"]) == {"unsupported"}
    assert said.node == {}
    refused = wire.Ran(exit=1, err="df: unrecognized option: T\n")
    assert row(only(facts("mounts", FILES, ran={"df_local": refused}), Scope.FS), "/")["fs_used"] == "error"
    assert row(only(facts("mounts", FILES, ran={"df_local": wire.Ran(status="absent")}), Scope.FS), "/") == {
        "fs_used": "unsupported",
        "fs_inodes_used": "unsupported",
        "fs_size": "unsupported",
        "fs_available": "unsupported",
        "fs_readonly": 0,
        "nfs_retrans": "unsupported",
        "lustre_state": "unsupported",
    }


STATS = """device sysfs mounted on /sys with fstype sysfs
device 10.0.0.1:/home mounted on /home with fstype nfs4 statvers=1.1
\tage:\t13968
\txprt:\ttcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
\t        READ: 1298 1301 0 207680 1210292152 6 79386 79407
\t       WRITE: 10 11 0 0 0 0 0 0
\t     GETATTR: 2927395007 2927394995 0 526931094212 362996810236 6 1667369447 1953587717
device 10.0.0.1:/two\\040words mounted on /mnt/two\\040words with fstype nfs statvers=1.1
\t        READ: 1298 x
"""


def test_nfs_counts_what_was_sent_again() -> None:
    devices = only(facts("mounts", {**FILES, "/proc/self/mountstats": STATS}, ran=OK), Scope.FS)
    assert row(devices, "/home")["nfs_retrans"] == 4
    assert row(devices, "/mnt/two words")["nfs_retrans"] == "error"
    assert row(devices, "/scratch")["nfs_retrans"] == "unsupported"


def test_lustre_has_the_state_of_its_worst_connection() -> None:
    states = {
        f"/proc/fs/lustre/osc/scratch-OST000{number}-osc-ffff9f0c/state": f"current_state: {state}\n"
        for number, state in enumerate(("FULL", "IDLE", "DISCONN", "FULL"))
    }
    states["/proc/fs/lustre/mdc/other-MDT0000-mdc-ffff9f0c/state"] = "current_state: EVICTED\n"
    devices = only(facts("mounts", {**FILES, **states}, ran=OK), Scope.FS)
    assert row(devices, "/scratch")["lustre_state"] == 3
    assert row(devices, "/data")["lustre_state"] == "unsupported"


def test_a_mount_over_another_one_is_the_one_that_counts() -> None:
    info = "40 21 0:42 / /home rw - nfs4 old:/home rw\n41 40 0:43 / /home ro - nfs4 new:/home rw\n"
    devices = only(facts("mounts", {"/proc/self/mountinfo": info}), Scope.FS)
    assert devices.about["/home"]["device"] == "new:/home"
    assert row(devices, "/home")["fs_readonly"] == 1


def test_options_of_one_node_alone_do_not_part_it_from_its_kind() -> None:
    line = "50 29 0:61 / /shared rw,relatime - nfs4 server:/shared {},vers=4.1,clientaddr=10.0.0.{} \n"
    texts = [line.format("rw", 1), line.format("rw", 2), line.format("ro", 3), line.format("rw,ro", 4)]
    found = [only(facts("mounts", {"/proc/self/mountinfo": text}), Scope.FS) for text in texts]
    assert found[0].about is found[1].about
    assert found[0].about == {"/shared": {"type": "nfs4", "device": "server:/shared"}}
    assert [[*one.values["fs_readonly"]] for one in found] == [[0], [0], [1], [1]]
