"""Health of disks, for the rows that another group has found."""

from __future__ import annotations

import json

import pytest

from stethoscope.model import wire
from stethoscope.model.metric import Scope
from tests.parse.groups.parts import facts, only, row

NVME = json.dumps(
    {
        "smartctl": {"version": [7, 4], "exit_status": 0},
        "device": {"name": "/dev/nvme0", "type": "nvme"},
        "smart_status": {"passed": True},
        "nvme_smart_health_information_log": {
            "critical_warning": 4,
            "media_errors": 7,
            "percentage_used": 3,
            "available_spare": 99,
            "unsafe_shutdowns": 10,
            "power_on_hours": 12798,
        },
    }
)
DENIED = json.dumps(
    {
        "smartctl": {
            "messages": [{"string": "Smartctl open device: /dev/sda failed: Permission denied", "severity": "error"}],
            "exit_status": 2,
        }
    }
)


def test_the_controller_is_its_first_namespace() -> None:
    said = facts("smart", ran={"smart nvme0": wire.Ran(out=NVME), "smart sda": wire.Ran(status="timeout")})
    devices = only(said, Scope.DISK)
    assert devices.names == ("nvme0n1", "sda")
    assert not devices.whole
    assert row(devices, "nvme0n1") == {
        "smart_passed": 1,
        "nvme_critical_warning": 4,
        "nvme_media_errors": 7,
        "nvme_percentage_used": 3,
        "nvme_available_spare": 99,
        "nvme_unsafe_shutdowns": 10,
        "smart_reallocated_sectors": "unsupported",
        "smart_pending_sectors": "unsupported",
        "smart_uncorrectable": "unsupported",
        "smart_power_on_hours": 12798,
    }
    assert set(row(devices, "sda").values()) == {"hung"}
    assert said.notes == {}


@pytest.mark.parametrize(
    ("ran", "word", "note"),
    [
        (wire.Ran(status="absent"), "unsupported", "smartctl is not installed"),
        (wire.Ran(exit=127, err="sh: 1: exec: smartctl: not found\n"), "unsupported", "smartctl is not installed"),
        (wire.Ran(exit=2, out=DENIED), "permission", "smartctl needs root"),
        (wire.Ran(exit=1, err="sudo: a password is required\n"), "permission", "smartctl needs root"),
        (
            wire.Ran(
                exit=1, err="Sorry, user ops is not allowed to execute '/usr/sbin/smartctl -a /dev/sda' as root.\n"
            ),
            "permission",
            "smartctl needs root",
        ),
        (wire.Ran(exit=1, err="sudo: sorry, you must have a tty to run sudo\n"), "permission", "smartctl needs root"),
        (wire.Ran(status="hung"), "hung", None),
        (wire.Ran(exit=1), "error", None),
        (wire.Ran(out="{"), "error", None),
    ],
)
def test_why_there_is_nothing(ran: wire.Ran, word: str, note: str | None) -> None:
    said = facts("smart", ran={"smart sdb": ran})
    assert set(row(only(said, Scope.DISK), "sdb").values()) == {word}
    assert said.notes.get("smart") == note


def test_what_is_no_disk_is_passed_over() -> None:
    assert only(facts("smart", ran={"smart ": wire.Ran(), "other sda": wire.Ran()}), Scope.DISK).names == ()
