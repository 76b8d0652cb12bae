"""Settings as numbers for rules and as words for comparing nodes."""

from __future__ import annotations

import pytest

from stethoscope.model import wire
from tests.parse.groups.parts import facts

LIMITS = "Max locked memory         {limit}             {limit}             bytes\nMax open files  1024 4096 files\n"
SERVICES = """Id=nvidia-fabricmanager.service
LoadState={load}
ActiveState={state}

Id=nvidia-persistenced.service
LoadState=loaded
ActiveState=active
"""


def test_the_words() -> None:
    said = facts(
        "tuning",
        {
            "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor": "94 performance\n2 powersave\n",
            "/proc/sys/kernel/numa_balancing": "0\n",
            "/proc/self/limits": LIMITS.format(limit="unlimited"),
            "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "/sys/class/infiniband/*/device/net/*/mtu": "8 4200\n",
            "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0000000000000000\n",
        },
    )
    assert said.words == {
        "cpu_governor": "performance (94), powersave (2)",
        "numa_balancing": "0",
        "memlock": "unlimited",
        "transparent_hugepage": "madvise",
        "clocksource": "tsc",
        "mtu": "4200",
    }
    assert said.node == {
        "numa_balancing": 0,
        "memlock_limit": 2**54,
        "peermem_loaded": 1,
        "fabricmanager_active": "unsupported",
        "persistenced_active": "unsupported",
    }


@pytest.mark.parametrize(
    ("limit", "number", "word"),
    [
        ("65536", 64, "64 KiB"),
        ("18446744073708503040", 2**54, "unlimited"),
        ("unlimited", 2**54, "unlimited"),
        ("much", "error", None),
    ],
)
def test_the_limit_of_locked_memory(limit: str, number: int | str, word: str | None) -> None:
    said = facts("tuning", {"/proc/self/limits": LIMITS.format(limit=limit)})
    assert said.node["memlock_limit"] == number
    assert said.words.get("memlock") == word


def test_modules_without_peermem() -> None:
    assert facts("tuning", {"/proc/modules": "mlx5_core 1 0 - Live\n"}).node["peermem_loaded"] == 0
    assert facts("tuning", {"/proc/modules": ""}).node["peermem_loaded"] == 0


def test_numa_balancing_of_newer_kernels_has_more_modes() -> None:
    said = facts("tuning", {"/proc/sys/kernel/numa_balancing": "2\n"})
    assert said.node["numa_balancing"] == 1
    assert said.words["numa_balancing"] == "2"


@pytest.mark.parametrize(
    ("load", "state", "expected"),
    [
        ("loaded", "active", 1),
        ("loaded", "inactive", 0),
        ("loaded", "failed", 0),
        ("masked", "inactive", 0),
        ("not-found", "inactive", "unsupported"),
    ],
)
def test_a_service_that_is_not_installed_is_neither_active_nor_not(load: str, state: str, expected: int | str) -> None:
    said = facts("tuning", ran={"services": wire.Ran(out=SERVICES.format(load=load, state=state))})
    assert said.node["fabricmanager_active"] == expected
    assert said.node["persistenced_active"] == 1


def test_without_systemd_nothing_is_known_of_services() -> None:
    for ran in (wire.Ran(status="absent"), wire.Ran(exit=1, err="Failed to connect to bus: Host is down\n")):
        assert facts("tuning", ran={"services": ran}).node["persistenced_active"] == "unsupported"
    assert facts("tuning", ran={"services": wire.Ran(status="timeout")}).node["persistenced_active"] == "hung"


@pytest.mark.parametrize(
    ("out", "exit_status", "expected"),
    [("active\n", 0, 1), ("failed\n", 3, 0), ("inactive\n", 4, "unsupported"), ("", 1, "unsupported")],
)
def test_one_answer_for_each_service(out: str, exit_status: int, expected: int | str) -> None:
    said = facts("tuning", ran={"persistenced": wire.Ran(out=out, exit=exit_status)})
    assert said.node["persistenced_active"] == expected
