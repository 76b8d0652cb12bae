"""Health of disks, for the rows that another group has found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


odd = (
    st.integers(-1, 2)
    | st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63) - 1, 1e300, 0.5])
    | st.none()
    | st.booleans()
    | st.sampled_from(["", "7", "12 (Average 3)", "-", "now"])
)


def some(*names: str, **others: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    usual = st.fixed_dictionaries({}, optional={**dict.fromkeys(names, odd), **others})
    return st.one_of(usual, usual, usual, odd, st.lists(odd, max_size=1))


attributes = some(
    "when_failed",
    "name",
    id=st.sampled_from([5, 187, 188, 197, 198]) | odd,
    raw=some(
        value=st.integers(0, 2**48) | odd, string=st.sampled_from(["0", "3 (Average 22)", "- 4", "", "9" * 21]) | odd
    ),
)
disks = some(
    "scsi_grown_defect_list",
    "devices",
    smartctl=some("exit_status", messages=st.lists(some("string"), max_size=1)),
    smart_status=some(passed=st.booleans() | odd),
    power_on_time=some("hours"),
    nvme_smart_health_information_log=some(
        "critical_warning", "media_errors", "percentage_used", "available_spare", "unsafe_shutdowns", "power_on_hours"
    ),
    ata_smart_attributes=some(table=st.lists(attributes, max_size=4) | odd),
    scsi_error_counter_log=some(read=some("total_uncorrected_errors")),
)


@given(disks, st.sampled_from(["", "\n", "  ", "}", " {}"]))
def test_what_is_read_in_one_go_is_what_the_reader_of_all_forms_says(disk: object, behind: str) -> None:
    text = json.dumps(disk) + behind
    quick = facts("smart", ran={"smart sda": wire.Ran(out=text)})
    # A prompt in front is nothing that smartctl prints: only the other reader passes it over.
    whole = facts("smart", ran={"smart sda": wire.Ran(out="# " + text)})
    assert row(only(quick, Scope.DISK), "sda") == row(only(whole, Scope.DISK), "sda")
    assert quick.notes == whole.notes


@pytest.mark.parametrize("behind", ["", ", 1]", "[" * 100_000])
def test_what_is_no_document_is_an_error(behind: str) -> None:
    said = facts("smart", ran={"smart sda": wire.Ran(out=NVME[:-1] + behind)})
    assert set(row(only(said, Scope.DISK), "sda").values()) == {"error"}


def test_a_disk_with_attributes() -> None:
    table = [
        {"id": 5, "name": "Reallocated_Sector_Ct", "when_failed": "", "raw": {"value": 8, "string": "8"}},
        {"id": 198, "name": "Offline_Uncorrectable", "when_failed": "", "raw": {"value": 2**40, "string": "3 (0 1)"}},
    ]
    text = json.dumps({"smart_status": {"passed": False}, "ata_smart_attributes": {"table": table}})
    disk = row(only(facts("smart", ran={"smart sda": wire.Ran(out=text)}), Scope.DISK), "sda")
    assert {metric: value for metric, value in disk.items() if value != "unsupported"} == {
        "smart_passed": 0,
        "smart_reallocated_sectors": 8,
        "smart_uncorrectable": 3,
    }
