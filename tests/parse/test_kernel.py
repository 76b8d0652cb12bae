"""Xid lines of all driver branches, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.kernel import find_xid
from stethoscope.parse.pci import normal_pci, slot_of


@pytest.mark.parametrize(
    ("line", "code", "pci"),
    [
        ("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.", 79, "0000:4f:00"),
        ("NVRM: Xid (PCI:0000:4f:00): 79, pid=0, GPU has fallen off the bus.", 79, "0000:4f:00"),
        ("NVRM: Xid (PCI:0000:4F:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen", 79, "0000:4f:00"),
        ("NVRM: Xid (PCI:0000:b3:00.0): 79, pid=1234, GPU has fallen off the bus.", 79, "0000:b3:00"),
        ("NVRM: Xid (0000:01:00): 8, Channel 00000000", 8, "0000:01:00"),
        ("NVRM: Xid (PCI:4f:00): 31, Ch 00000013", 31, "0000:4f:00"),
        ("NVRM: Xid (PCI:0000:3f:00): 46", 46, "0000:3f:00"),
        ("NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 04 (0x0)", 149, "0009:01:00"),
        ("NVRM: Xid (PCI:0000:10:1c): 63, Row Remapper: New row", 63, "0000:10:1c"),
        ("NVRM: Xid (PCI:0000:81:00 GPU-I:05): 94, pid=4211, name=python3, Contained", 94, "0000:81:00"),
        ("NVRM: Xid (PCI:0000:81:00 GPU-I:05 GPU-CI:00): 13, pid=4211", 13, "0000:81:00"),
        ("NVRM: Xid (PCI:0000:21:00): 999, text of a future driver", 999, "0000:21:00"),
        ("[12345.678901] NVRM: Xid (PCI:0000:81:00): 43, pid=4211, name=nvc:[driver], Ch 8", 43, "0000:81:00"),
        ("kernel: [ T1946] NVRM: Xid (PCI:00000000:81:00): 45, pid=1", 45, "0000:81:00"),
    ],
)
def test_an_xid(line: str, code: int, pci: str) -> None:
    assert find_xid(line) == (code, pci)


@pytest.mark.parametrize(
    "line",
    [
        "r8169 0000:03:00.0 eth0: RTL8125B, 02:00:00:00:00:01, XID 641, IRQ 51",
        "NVRM: Xid error: xyz, invalid data",
        "scsi 2:0:0:0: xid 0x79",
        "NVRM: GPU Board Serial Number: 0000000000079",
        "app[811]: last Xid was 79, retrying",
        "nvidia-nvswitch1: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 27 LTSSM Fault Up",
        "NVRM: Xid (PCI:0000:4f:ff): 79, no such device number",
        "NVRM: Xid (PCI:0000:4f:00): 123456, no such code",
        "",
    ],
)
def test_not_an_xid(line: str) -> None:
    assert find_xid(line) is None


@pytest.mark.parametrize(
    ("text", "pci"),
    [
        ("0000:4f:00.0", "0000:4f:00.0"),
        ("00000000:4F:00.0", "0000:4f:00.0"),
        ("000000:81:00.0", "0000:81:00.0"),
        ("4f:00.0", "0000:4f:00.0"),
        ("0000:4f:00", "0000:4f:00.0"),
        ("0000:81:0:0", "0000:81:00.0"),
        ("00010000:81:00.0", "10000:81:00.0"),
        ("000d:00:1f.7", "000d:00:1f.7"),
        ("0000:4f:00.0 ", "0000:4f:00.0"),
        ("129", ""), ("gpu", ""), ("", ""), ("0000:4f:20.0", ""), ("0000:4f:00.8", ""),
    ],
)  # fmt: skip
def test_addresses_have_one_form(text: str, pci: str) -> None:
    assert normal_pci(text) == pci


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))
def test_a_normal_address_stays_as_it_is(domain: int, bus: int, device: int, function: int) -> None:
    pci = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert normal_pci(pci) == normal_pci(f"0000{pci.upper()}") == pci
    assert slot_of(pci) == pci[:-2]


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    find_xid(f"NVRM: Xid ({text}")
    normal_pci(text)
