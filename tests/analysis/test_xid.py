"""What texts, words and registers of a line say over the default of its code."""

from __future__ import annotations

import pytest

from stethoscope.analysis.xid import code_event, read_line
from stethoscope.specs.codes import load_codes

CODES = load_codes()


def xid(body: str) -> str:
    return f"NVRM: Xid (PCI:0000:4f:00): {body}"


@pytest.mark.parametrize(
    ("line", "severity", "job", "node"),
    [
        ("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "P0", "stops", "drain"),
        ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "P1", None, None),
        ("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "info", None, None),
        ("94, pid=1, name=x, Contained: SM (0x1). RST: No, D-RST: No", "P1", "stops", "watch"),
        ("94, pid=1, name=x, Contained: FBHUB (0x1). RST: No, D-RST: Yes", "P1", "stops", "drain"),
        ("95, pid=1, name=x, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "P0", "stops", "drain"),
        ("64, Row Remapper Error: (0x1) - All reserved rows for bank are remapped", "P0", None, "drain"),
        (
            "64, Row Remapper: (0x1) - Attempting to remap a row that is already pending remapping. Remapping will "
            "occur when the GPU is reset",
            "P2",
            None,
            None,
        ),
        ("149, NETIR_BER_EVENT Nonfatal XC0 i0 Link -1 (0x00000013 0x00000001)", "P2", "may_stop", "watch"),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i1 Link 04 (0x0214a5c6 0x00000000)", "info", None, None),
    ],
)
def test_the_text_decides(line: str, severity: str, job: str | None, node: str | None) -> None:
    reading = read_line(xid(line), CODES)
    assert reading is not None
    assert reading.severity.value == severity
    assert job is None or reading.job == job
    assert node is None or reading.node == node


def test_the_word_of_a_switch_decides() -> None:
    fatal = read_line("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 11004, Fatal, Link 12 x", CODES)
    stalls = read_line("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 36 x", CODES)
    mild = read_line("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Non-fatal, Link 36 x", CODES)
    assert fatal is not None
    assert stalls is not None
    assert mild is not None
    assert [reading.severity.value for reading in (fatal, stalls, mild)] == ["P0", "P1", "P2"]


def test_a_nvlink5_line_says_unit_link_and_reason() -> None:
    reading = read_line(xid("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 04 (0x0214a5c6 0x00000000 0x0)"), CODES)
    assert reading is not None
    assert reading.says[0] == "unit NETIR_LINK_EVT, fatal, link 4"
    assert reading.says[1] == "link-down reason: Peer side down to disable state (33)"


def test_the_registers_of_74_say_the_worst_first() -> None:
    reading = read_line(xid("74, NVLink: fatal error detected on link 6(0x2, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"), CODES)
    assert reading is not None
    assert reading.says[0].startswith("r3 bit 16: ")
    assert reading.says[1].startswith("r1 bit 1: ")


def test_fields_of_events_are_numbers_and_short_addresses() -> None:
    event = code_event(xid("45, pid=17, name=VLLM::Worker, channel 0x0000000a caused by previous Xid 149"), CODES)
    assert event is not None
    assert event.fields == {
        "xid": 45, "pci": "0000:4f:00", "pid": 17, "name": "VLLM::Worker", "caused_by": 149, "channel": "0000000a",
    }  # fmt: skip


def test_codes_of_later_drivers_are_shown_and_not_judged() -> None:
    event = code_event(xid("999, something new"), CODES)
    assert event is not None
    assert (event.signature, event.severity.value, event.role) == ("xid.999", "P2", "either")
