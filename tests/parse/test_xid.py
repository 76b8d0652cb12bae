"""Xid and SXid lines of all driver branches, their bodies, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.xid import body_fields, find_sxid_line, find_xid_line

OFF = "GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "code", "pci", "pid", "name", "body"),
    [
        (f"NVRM: Xid (PCI:0000:81:00): 79, {OFF}", 79, "0000:81:00", None, "", OFF),
        (f"NVRM: Xid (PCI:0000:81:00): 79, pid=0, {OFF}", 79, "0000:81:00", None, "", OFF),
        (f"NVRM: Xid (PCI:0000:81:00): 79, pid='<unknown>', name=<unknown>, {OFF}", 79, "0000:81:00", None, "", OFF),
        (f"NVRM: Xid (PCI:0000:81:00.0): 79, pid=12, {OFF}", 79, "0000:81:00", 12, "", OFF),
        ("NVRM: Xid (0000:01:00): 8, Channel 00000000", 8, "0000:01:00", None, "", "Channel 00000000"),
        ("NVRM: Xid (PCI:0000:3f:00): 46", 46, "0000:3f:00", None, "", ""),
        ("NVRM: Xid (PCI:0018:01:00): 43, pid=7, name=a b:c [d], Ch 1", 43, "0018:01:00", 7, "a b:c [d]", "Ch 1"),
        ("NVRM: Xid (PCI:0000:00:08): 45, name=VLLM::Worker, x", 45, "0000:00:08", None, "VLLM::Worker", "x"),
        ("[12.000001] [ T1946] NVRM: Xid (PCI:0000:21:00): 999, later", 999, "0000:21:00", None, "", "later"),
        ("kern  :warn  : [12.000001] NVRM: Xid (PCI:0000:21:00): 46", 46, "0000:21:00", None, "", ""),
        ("4,1227,437812449932,-;NVRM: Xid (PCI:0000:21:00): 46", 46, "0000:21:00", None, "", ""),
        ("> NVRM: Xid (PCI:0000:21:00): 46", 46, "0000:21:00", None, "", ""),
    ],
)
def test_every_branch_prints_the_same_event(
    line: str, code: int, pci: str, pid: int | None, name: str, body: str
) -> None:
    found = find_xid_line(line)
    assert found is not None
    assert (found.code, found.pci, found.pid, found.name, found.body) == (code, pci, pid, name, body)


@pytest.mark.parametrize(
    "line",
    [
        "r8169 0000:03:00.0 eth0: RTL8125B, 02:00:00:00:00:01, XID 641, IRQ 51",
        "scsi 2:0:0:0: xid 0x79",
        "app[811]: last Xid was 79, retrying",
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: GPU Board Serial Number: 0000000000079",
        "root@gpu7:~# dmesg | grep 'NVRM: Xid (PCI:0000:21:00): 79'",
        'echo "NVRM: Xid (PCI:0000:21:00): 79, GPU has fallen off the bus."',
        "The line NVRM: Xid (PCI:0000:21:00): 79, GPU has fallen off the bus. means that it is gone.",
        "  502  journalctl -k | grep NVRM: Xid (PCI:0000:21:00): 79",
        "yes, `[12345.678901] NVRM: Xid (PCI:0000:21:00): 79, GPU has fallen off the bus.` was there",
        'type=EXECVE a0="grep" a1="NVRM: Xid (PCI:0000:21:00): 79"',
        "NVRM: Xid (PCI:zz): 79, x",
        "NVRM: Xid (PCI:0000:21:00): 12345, x",
    ],
)
def test_what_only_looks_like_an_xid_is_none(line: str) -> None:
    assert find_xid_line(line) is None


@pytest.mark.parametrize(
    "before",
    [
        "tty console: [12345.678901] ",
        "[agent] [WARN] GPU-0f0f: XID: ",
        "[agent] ",
        '{"level": "warn", "msg": "',
        '"2026-03-14 02:07:11","n7","kernel","',
    ],
)
def test_what_relays_the_kernel_is_believed(before: str) -> None:
    found = find_xid_line(f"{before}NVRM: Xid (PCI:0000:21:00): 79, GPU has fallen off the bus.")
    assert found is not None
    assert found.code == 79


def test_a_quoted_line_is_read_when_asked_for() -> None:
    found = find_xid_line('it says "NVRM: Xid (PCI:0000:21:00): 79, GPU"', quoted=True)
    assert found is not None
    assert found.code == 79


def test_mig_and_cause_are_named() -> None:
    line = (
        "NVRM: Xid (PCI:0000:81:00 GPU-I:05 GPU-CI:00): 45, pid=9, name=x, channel 0x0000000a caused by previous Xid 31"
    )
    found = find_xid_line(line)
    assert found is not None
    assert (found.instance, found.caused_by) == ("GPU-I:05 GPU-CI:00", 31)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "NVRM: Xid (PCI:0000:21:00): 13, pid=9, name=x, Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0): "
            "Out Of Range Address",
            {"gpc": 3, "tpc": 1, "sm": 0, "reason": "Out Of Range Address"},
        ),
        (
            "NVRM: Xid (PCI:0000:21:00): 31, pid=9, name=x, channel 0x00000002, intr 00000000. MMU Fault: ENGINE "
            "GRAPHICS GPC0 GPCCLIENT_T1_3 faulted @ 0x7f1c_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_READ",
            {
                "engine": "GRAPHICS", "gpc": 0, "client": "GPCCLIENT_T1_3", "address": "0x7f1c_00000000",
                "fault": "FAULT_PDE", "access": "ACCESS_TYPE_READ",
            },
        ),
        (
            "NVRM: Xid (PCI:0000:21:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            {"was": "None", "label": "GPU Reset Required"},
        ),
        (
            "NVRM: Xid (PCI:0000:21:00): 119, Timeout after 45s of waiting for RPC response from GPU1 GSP! Expected "
            "function 76 (GSP_RM_CONTROL) sequence 2 (0x2080 0xb0).",
            {"seconds": 45, "instance": 1, "function": 76, "function_name": "GSP_RM_CONTROL"},
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 04 (0x0214a5c6 0x00000000)",
            {
                "unit": "NETIR_LINK_EVT", "fatality": "Fatal", "xc": 0, "injected": 0, "link": 4,
                "words": "0x0214a5c6 0x00000000",
            },
        ),
    ],
)  # fmt: skip
def test_bodies_are_taken_apart(line: str, expected: dict[str, str | int]) -> None:
    found = find_xid_line(line)
    assert found is not None
    assert body_fields(found) == expected


@pytest.mark.parametrize(
    ("line", "code", "word", "link", "follow_up"),
    [
        ("20034, Fatal, Link 27 LTSSM Fault Up", 20034, "Fatal", 27, False),
        ("20034, Severity 1 Engine instance 27 Sub-engine instance 00", 20034, "Fatal", 27, True),
        ("11004, Severity 0 Engine instance 12 Sub-engine instance 00", 11004, "Non-fatal", 12, True),
        ("20034, Data {0x50610002, 0x20000000}", 20034, "", None, True),
        ("26006, SOE HALTED", 26006, "", None, False),
        ("10001, Non-fatal, PRI WRITE SYS error, instance=0, chiplet=0", 10001, "Non-fatal", None, False),
    ],
)
def test_switch_lines(line: str, code: int, word: str, link: int | None, *, follow_up: bool) -> None:
    found = find_sxid_line(f"[1.000000] nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): {line}")
    assert found is not None
    assert (found.code, found.pci, found.switch) == (code, "0000:a9:00", 3)
    assert (found.word, found.link, found.follow_up) == (word, link, follow_up)


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    line = find_xid_line(f"NVRM: Xid (PCI:0000:81:00): {text}")
    if line is not None:
        body_fields(line)
    find_sxid_line(f"SXid (PCI:0000:81:00.0): {text}", quoted=True)
