"""What smartctl says of disks of every kind, and why it says nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.model.report import REASONS, Item, ToolError
from stethoscope.parse.tools.smartctl import read

HEAD = {"json_format_version": [1, 0], "smartctl": {"version": [7, 4], "exit_status": 0}}


def text(**sections: Any) -> str:
    return json.dumps({**HEAD, **sections})


def attribute(number: int, name: str, value: int, string: str, when_failed: str = "") -> dict[str, Any]:
    return {"id": number, "name": name, "when_failed": when_failed, "raw": {"value": value, "string": string}}


def test_an_nvme_disk_that_wears_out() -> None:
    report = read(
        text(
            device={"name": "/dev/nvme9", "info_name": "/dev/nvme9", "type": "nvme", "protocol": "NVMe"},
            model_name="Micron_7450",
            firmware_version="E2MU200",
            smart_status={"passed": False, "nvme": {"value": 1}},
            nvme_total_capacity=3840755982336,
            nvme_smart_health_information_log={
                "critical_warning": 1,
                "temperature": 39,
                "available_spare": 5,
                "available_spare_threshold": 11,
                "percentage_used": 104,
                "media_errors": 3,
                "unsafe_shutdowns": 21,
                "power_on_hours": 3258,
                "temperature_sensors": [40, 38],
                "new_field": 1,
            },
            new_section={},
        )
    )
    found = {item.name: (item.value, item.unit, item.level) for item in report.items}
    assert found["model"] == ("Micron_7450", "", "")
    assert found["smart_passed"] == (0, "", "critical")
    assert found["nvme_critical_warning"] == (1, "bits", "critical")
    assert found["nvme_available_spare"] == (5, "%", "critical")
    assert found["nvme_percentage_used"] == (104, "%", "")
    assert found["smart_power_on_hours"] == (3258, "h", "")
    assert found["temperature"] == (39, "C", "")
    assert found["temperature_sensor_2"] == (38, "C", "")
    assert found["capacity"] == (3840755982336, "bytes", "")
    assert {item.where for item in report.items} == {"nvme9"}
    assert report.unknown == ("new_section", "nvme_smart_health_information_log/new_field")
    assert report.remarks == ()


def test_an_ata_disk_counts_as_its_vendor_means_it() -> None:
    report = read(
        text(
            device={"info_name": "/dev/bus/6 [megaraid_disk_00]", "type": "sat+megaraid,0"},
            smart_status={"passed": False},
            power_on_time={"hours": 65592},
            temperature={"current": 25},
            ata_smart_attributes={
                "table": [
                    attribute(5, "Reallocated_Sector_Ct", 1975, "1975", "now"),
                    attribute(9, "Power_On_Hours", 65592, "65592h+00m+00.000s"),
                    attribute(188, "Command_Timeout", 2 + (3 << 16), "196610"),
                    attribute(197, "Current_Pending_Sector", 8, "8"),
                    attribute(198, "Offline_Uncorrectable", 281474976710655, "0 (Average 22)"),
                    attribute(10, "Spin_Retry_Count", 9, "9", "past"),
                ]
            },
            ata_smart_error_log={"summary": {"count": 56}},
            ata_smart_self_test_log={
                "standard": {"table": [{"status": {"string": "Completed: read failure", "passed": False}}]}
            },
        )
    )
    found = {item.name: (item.value, item.level) for item in report.items}
    assert found["smart_reallocated_sectors"] == (1975, "critical")
    assert found["smart_pending_sectors"] == (8, "")
    assert found["smart_uncorrectable"] == (0, "")
    assert found["command_timeouts"] == (5, "")
    assert found["spin_retry_count"] == (9, "warning")
    assert found["smart_power_on_hours"] == (65592, "")
    assert report.remarks == ("56 errors in the disk's error log", "self-test: Completed: read failure")
    assert report.get("bus/6 [megaraid_disk_00]", "temperature") == 25


def test_a_scsi_disk() -> None:
    report = read(
        text(
            device={"name": "/dev/sdg", "type": "scsi"},
            scsi_model_name="SEAGATE ST4000NM0043",
            smart_status={"passed": True},
            temperature={"current": 70, "drive_trip": 68},
            scsi_grown_defect_list=56,
            scsi_error_counter_log={
                "read": {"total_uncorrected_errors": 2, "gigabytes_processed": "176987.332"},
                "write": {"total_uncorrected_errors": 1},
            },
        )
    )
    assert report.get("sdg", "smart_reallocated_sectors") == 56
    assert report.get("sdg", "smart_uncorrectable") == 3
    assert Item("sdg", "temperature", 70, "C", "critical") in report.items


@pytest.mark.parametrize(
    ("output", "exit_status", "err", "reason"),
    [
        (text(smartctl={"messages": [{"string": "/dev/x: Unable to detect device type"}]}), 1, "", "no_device"),
        (text(smartctl={"messages": [{"string": "Smartctl open device: /dev/sda failed: Permission denied"}]}), 2, "",
         "permission"),
        (text(smartctl={"messages": [{"string": "Read NVMe SMART/Health Information failed: NVMe Status 0x06"}]},
              device={"name": "/dev/nvme7"}), 4, "", "no_answer"),
        (text(device={"name": "/dev/vda"}), 4, "", "no_device"),
        (text(), 0, "", "empty"),
        ("", 127, "", "not_installed"),
        ("", 1, "sudo: a password is required", "permission"),
        ("", 0, "", "empty"),
        (text(smart_status={"passed": True})[:60], 0, "", "truncated"),
        ('{"a": 1}', 0, "", "not_this_tool"),
        (text(devices=[{"name": "/dev/sda"}]), 0, "", "not_this_tool"),
        ("hello", 0, "", "not_this_tool"),
        ("[" * 100_000, 0, "", "not_this_tool"),
    ],
)  # fmt: skip
def test_why_there_are_no_values(output: str, exit_status: int, err: str, reason: str) -> None:
    with pytest.raises(ToolError) as caught:
        read(output, exit=exit_status, err=err)
    assert caught.value.reason == reason


def test_words_of_a_disk_are_cleaned() -> None:
    report = read(text(model_name="Disk\x1b[31m", smart_status={"passed": True}, device={"name": "/dev/\x1b[2Jsda"}))
    assert report.items[0] == Item("sda", "model", "Disk")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
SECTIONS = (
    "device", "smart_status", "power_on_time", "temperature", "nvme_smart_health_information_log", "user_capacity",
    "ata_smart_attributes", "ata_smart_error_log", "ata_smart_self_test_log", "scsi_error_counter_log", "smartctl",
)  # fmt: skip
KEYS = (
    "passed", "hours", "current", "critical_warning", "available_spare", "table", "id", "raw", "string", "value",
    "when_failed", "read", "total_uncorrected_errors", "extended", "count", "messages", "name", "temperature_sensors",
)  # fmt: skip
SHAPED = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(SECTIONS), SHAPED))
def test_no_document_raises_anything_else(sections: dict[str, Any]) -> None:
    with suppress(ToolError):
        report = read(json.dumps({"smart_status": {}, **sections}))
        assert report.items
        assert all(not isinstance(item.value, bool) for item in report.items)


@pytest.mark.parametrize("number", [{}, [], "188", None, True])
def test_an_attribute_whose_number_is_none_has_no_name(number: Any) -> None:
    table = [{"id": number, "raw": {"value": 70_000}}, {"id": 197, "raw": {"value": 3}}]
    report = read(json.dumps({"smart_status": {"passed": True}, "ata_smart_attributes": {"table": table}}))
    assert [item.value for item in report.items if "sectors" in item.name] == [3]


@given(st.text())
def test_no_text_raises_anything_else(output: str) -> None:
    with pytest.raises(ToolError) as caught:
        read(output)
    assert caught.value.reason in REASONS
