"""Counters of the host, and its processes that are stuck or dead."""

from __future__ import annotations

from stethoscope.model.facts import Task
from tests.parse.groups.parts import facts


def test_the_counters() -> None:
    said = facts(
        "host",
        {
            "/proc/vmstat": "pgmajfault 12\noom_kill 3\npswpin 0\n",
            "/proc/meminfo": "SwapTotal:       8388604 kB\nSwapFree:        8386556 kB\n",
            "/proc/sys/kernel/hung_task_detect_count": "6\n",
            "/proc/sys/fs/file-nr": "21344\t0\t9223372036854775807\n",
            "/sys/devices/system/edac/mc/mc0/ce_count": "2\n",
            "/sys/devices/system/edac/mc/mc1/ce_count": "5\n",
            "/sys/devices/system/edac/mc/mc0/ue_count": "0\n",
            "tasks": "",
        },
    )
    assert said.node == {
        "oom_kills": 3,
        "hung_tasks": 6,
        "edac_ce": 7,
        "edac_ue": 0,
        "swap_used": 2.0,
        "file_nr": 21344,
        "dstate_processes": 0,
        "zombie_processes": 0,
    }
    assert said.tasks == ()


def test_what_an_older_kernel_lacks_is_unsupported() -> None:
    said = facts("host", {"/proc/vmstat": "pgmajfault 12\n"}, failed={"/proc/sys/fs/file-nr": "permission"})
    assert said.node["oom_kills"] == said.node["hung_tasks"] == said.node["edac_ce"] == "unsupported"
    assert said.node["file_nr"] == "permission"
    assert said.node["swap_used"] == said.node["dstate_processes"] == "unsupported"
    assert said.tasks is None


def test_a_memory_controller_that_cannot_be_read_makes_the_sum_unknown() -> None:
    files = {"/sys/devices/system/edac/mc/mc0/ce_count": "2\n"}
    failed = {"/sys/devices/system/edac/mc/mc1/ce_count": "error"}
    assert facts("host", files, failed=failed).node["edac_ce"] == "error"
    files["/sys/devices/system/edac/mc/mc1/ce_count"] = "many\n"
    assert facts("host", files).node["edac_ce"] == "error"


def test_stuck_and_dead_processes() -> None:
    tasks = (
        "4711\tD\t1\talice\tpython3 train (2)\tnvidia_unlocked_ioctl\n"
        "4712\tD\t1\t1001\tls\trpc_wait_bit_killable\n"
        "4713\tD\t1\t0\tdd\tnvme_submit_sync_cmd\n"
        "4714\tZ\t4000\tbob\tpython3\t0\n"
        "4715\tS\t1\troot\tsleep\t0\n"
        "x\tD\n\nshort\n"
    )
    said = facts("host", {"tasks": tasks})
    assert said.node["dstate_processes"] == 3
    assert said.node["zombie_processes"] == 1
    assert said.tasks == (
        Task(4711, "D", "python3 train (2)", "alice", "nvidia_unlocked_ioctl", on_gpu=True),
        Task(4712, "D", "ls", "1001", "rpc_wait_bit_killable"),
        Task(4713, "D", "dd", "0", "nvme_submit_sync_cmd"),
        Task(4714, "Z", "python3", "bob"),
    )
