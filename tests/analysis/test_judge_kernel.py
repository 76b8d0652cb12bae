"""Kernel logs of many kinds: the first cause, the device, how bad it is, and silence where nothing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.judge import judge
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from stethoscope.model.logs import LogVerdict

SIGNATURES = load_signatures()
NOW = 1_780_000_000.0


def judged(*lines: str) -> tuple[LogVerdict, list[LogVerdict]]:
    scanner = Scanner(SIGNATURES, now=NOW)
    scan = scanner.file("kern.log", modified_at=NOW)
    scan.feed("".join(f"{line}\n" for line in lines).encode())
    scan.end()
    return judge(scanner.finish(), SIGNATURES)


def verdict(*lines: str) -> tuple[str | None, str, str, list[tuple[str | None, str | None]]]:
    found, _ = judged(*lines)
    return found.signature, found.severity.value, found.root_cause, [(c.host, c.device) for c in found.culprits]


def at(second: int, text: str, host: str = "n1") -> str:
    return f"2026-03-14T02:{second // 60:02d}:{second % 60:02d}+00:00 {host} kernel: {text}"


def xid(slot: str, body: str) -> str:
    return f"NVRM: Xid (PCI:0000:{slot}:00): {body}"


GSP = "Timeout after 6s of waiting for RPC response from GPU1 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2 0x8)."
SM = "Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0): Out Of Range Address"
FAULT = (
    "intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_5 faulted @ 0x7f3c_9000{:04x}. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_READ"
)
RESET = "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
DBE = "48, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 9"
ROW = "63, Row Remapper: New row (0x0000000041f1d200) marked for remapping, reset gpu to activate."
LOST = "79, GPU has fallen off the bus."
LINUX = "Linux version 6.8.0-45-generic (buildd@lcy02)"


def test_a_lost_gpu_explains_what_follows_on_others() -> None:
    lines = [
        at(0, xid("ab", LOST)),
        at(0, xid("ab", "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
        at(2, xid("19", "45, pid=7, name=python3, channel 0x00000009")),
        at(150, "INFO: task nvidia-smi:91220 blocked for more than 122 seconds."),
    ]
    found, others = judged(*lines)
    assert (found.signature, found.severity.value) == ("xid.79", "P0")
    assert [culprit.place for culprit in found.culprits] == ["n1/gpu/0000:ab:00"]
    assert "nvidia-smi cannot be killed any more" in found.summary
    assert others == []


def test_a_lost_gpu_without_an_xid_is_the_same() -> None:
    lines = [
        "[   18.100000] NVRM: The NVIDIA GPU 0000:21:00.0",
        "               NVRM: (PCI ID: 10de:2330) installed in this system has",
        "               NVRM: fallen off the bus and is not responding to commands.",
    ]
    assert verdict(*lines) == ("nvrm.off_bus.probe", "P0", "gpu_fallen_off_bus", [(None, "gpu/0000:21:00")])


@pytest.mark.parametrize(
    ("lines", "signature", "severity", "cause", "slot"),
    [
        ([xid("4e", DBE), xid("4e", "95, pid=1, name=p, Uncontained: LTC TAG (0x9,0x0). RST: Yes, D-RST: No")],
         "xid.48", "P0", "gpu_memory_fault", "4e"),
        ([xid("d9", "171, Double Bit ECC Error in FBPA 4 subpartition 1"),
          xid("d9", "94, pid=1, name=p, Contained: FB DED (0x3, 0x1). RST: No, D-RST: Yes"), xid("d9", ROW)],
         "xid.94", "P0", "gpu_memory_fault", "d9"),
        ([xid("5d", ROW)], "xid.63", "P2", "gpu_memory_fault", "5d"),
        ([xid("5d", "64, Row Remapper: (0x1) - Attempting to remap a row that is already pending remapping. "
                    "Remapping will occur when the GPU is reset")], "xid.64", "P2", "gpu_memory_fault", "5d"),
        ([xid("97", f"119, pid=3, name=nvidia-smi, {GSP}"), xid("97", RESET), xid("97", "45, pid=3, name=p, Ch 1")],
         "xid.119", "P0", "gpu_hw_fault", "97"),
        ([xid("21", "120, GSP task exception: load access page fault (cause:0xd) @ pc:0x13a51c0"),
          xid("21", f"119, pid=3, name=nvidia-smi, {GSP}")], "xid.120", "P0", "gpu_hw_fault", "21"),
        ([xid("21", "62, 00002840 00002b10 00001120 0000117f 0000279a 0002a911 00000012 00000000"),
          xid("21", "45, pid=4, name=p, Ch 00000008")], "xid.62", "P0", "gpu_hw_fault", "21"),
        ([xid("bd", f"31, pid=4, name=p, Ch 00000008, {FAULT.format(1)}"), xid("bd", "43, pid=4, name=p, Ch 00000008")],
         "xid.31", "P2", "cuda_app_bug", "bd"),
        ([xid("65", "43, pid=4, name=p, Ch 00000008")], "xid.43", "P2", "cuda_app_bug", "65"),
        ([xid("65", "45, pid=4, name=p, Ch 00000008")], "xid.45", "info", "unknown", "65"),
        ([xid("21", "999, text of a future driver")], "xid.999", "P2", "unknown", "21"),
    ],
)  # fmt: skip
def test_the_first_cause_of_one_gpu(lines: list[str], signature: str, severity: str, cause: str, slot: str) -> None:
    stamped = [at(second, line) for second, line in enumerate(lines)]
    assert verdict(*stamped) == (signature, severity, cause, [("n1", f"gpu/0000:{slot}:00")])


def test_a_fatal_link_event_comes_before_the_one_that_victims_name() -> None:
    lines = [
        at(0, "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 04 (0x0214a5c6 0x00000000)"),
        at(0, "NVRM: Xid (PCI:0009:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 05 (0x0408a8e2 0x00000008)"),
        at(1, "NVRM: Xid (PCI:0018:01:00): 45, pid=9, name=p, channel 0x0000000a caused by previous Xid 145"),
    ]
    assert verdict(*lines) == ("xid.149", "P0", "nvlink_fault", [("n1", "gpu/0008:01:00")])


def test_a_cause_that_only_victims_name_is_named_and_missed() -> None:
    line = "NVRM: Xid (PCI:0018:01:00): 45, pid=9, name=p, channel 0x0000000a caused by previous Xid 149"
    found, _ = judged(at(1, line))
    assert (found.signature, found.severity.value) == ("xid.149", "P0")
    assert found.missing == ("the Xid 149 line itself: the kernel log of the same boot, a little earlier",)


def test_a_switch_and_its_gpu_are_one_story() -> None:
    lines = [
        at(0, "nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 27 LTSSM Fault Up"),
        at(0, "nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): 20034, Severity 1 Engine instance 27 Sub-engine instance 00"),
        at(0, xid("5d", "74, NVLink: fatal error detected on link 6(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")),
        at(3, xid("cb", "45, pid=9912, name=python3, Ch 00000009")),
    ]
    assert verdict(*lines) == ("sxid.20034", "P0", "nvlink_fault", [("n1", "nvswitch/0000:a9:00")])


def test_links_that_go_down_while_the_driver_is_loaded_are_no_emergency() -> None:
    load = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    line = "nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 27 LTSSM Fault Up"
    assert verdict(at(0, load), at(20, line))[:2] == ("sxid.20034", "P2")
    assert verdict(at(0, load), at(90, line))[:2] == ("sxid.20034", "P0")


def test_one_program_that_fails_on_all_gpus_is_one_story() -> None:
    found, others = judged(
        *[at(n, xid(slot, f"13, pid={n}, name=p, {SM}")) for n, slot in enumerate(("0f", "2a", "87"))]
    )
    assert (found.signature, found.severity.value, others) == ("xid.13", "P2", [])
    assert found.summary.endswith("3 GPUs are hit at once: the program, not a GPU.")


def test_a_gpu_on_which_all_programs_fail_is_suspect() -> None:
    lines = [at(600 * n, xid("db", f"31, pid={n + 1}, name=p, Ch 00000008, {FAULT.format(n)}")) for n in range(4)]
    found, _ = judged(*lines)
    assert (found.root_cause, found.severity.value) == ("gpu_hw_fault", "P1")
    assert "4 times and on no other GPU" in found.summary


def test_memory_that_ran_out_explains_the_channels() -> None:
    lines = [
        at(0, "Out of memory: Killed process 40112 (python3) total-vm:8kB, anon-rss:4kB, file-rss:0kB, shmem-rss:0kB"),
        at(2, xid("65", "45, pid=40112, name=python3, Ch 00000008")),
    ]
    assert verdict(*lines)[:3] == ("os.oom_global", "P1", "host_oom")


@pytest.mark.parametrize(
    ("task", "stack", "cause"),
    [
        ("nvidia-smi", [], "driver_hung"),
        ("python3", [" uvm_va_space_mm_shutdown+0x1a/0x90 [nvidia_uvm]"], "driver_hung"),
        ("python3", [" nfs_wait_bit_killable+0x11/0x60 [nfs]"], "shared_fs_stall"),
        ("python3", [], "storage_io"),
    ],
)
def test_who_hangs_where_says_what_hangs(task: str, stack: list[str], cause: str) -> None:
    line = f"INFO: task {task}:7302 blocked for more than 120 seconds."
    found, _ = judged(*[at(0, text) for text in (line, *stack)])
    assert (found.root_cause, found.severity.value) == (cause, "P1")
    assert found.summary == f"{task} waits in the kernel and cannot be killed on n1; only a reboot helps."


def test_a_port_that_comes_back_is_sick_and_one_that_stays_down_is_gone() -> None:
    down, up = (f"mlx5_core 0000:22:00.0 mlx5_3: Port: 1 Link {state}" for state in ("DOWN", "ACTIVE"))
    assert verdict(at(0, down))[2:] == ("ib_link_down", [("n1", "ib/mlx5_3")])
    assert verdict(at(0, down), at(4, up))[2:] == ("ib_link_fault", [("n1", "ib/mlx5_3")])
    waits = "mlx5_core 0000:22:00.0 mlx5_3: Port: 1 Link INIT"
    assert verdict(at(0, down), at(2, waits), at(4, up))[2:] == ("ib_link_fault", [("n1", "ib/mlx5_3")])


def test_a_shutdown_takes_links_down_and_is_no_fault() -> None:
    down, up = (f"mlx5_core 0000:22:00.0 ens1: Link {state}" for state in ("down", "up"))
    assert verdict(at(0, down), at(300, LINUX), at(310, up))[1:3] == ("info", "healthy")
    assert verdict(at(0, down), at(1500, LINUX))[1:3] == ("P1", "ib_link_down")


def test_pcie_errors_name_the_gpu_when_its_driver_speaks() -> None:
    lines = [
        at(0, "pcieport 0000:20:01.1: AER: Uncorrected (Fatal) error received: 0000:21:00.0"),
        at(
            0,
            "nvidia 0000:21:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (A ID)",
        ),
    ]
    assert verdict(*lines) == ("aer.uncorrected.summary", "P0", "pcie_fault", [("n1", "gpu/0000:21:00")])


def test_the_gpu_below_a_broken_port_is_named() -> None:
    lines = [
        at(0, "nvidia 0000:21:00.0: AER: can't recover (no error_detected callback)"),
        at(0, "pcieport 0000:20:01.1: AER: Uncorrected (Fatal) error received: 0000:20:01.1"),
        at(1, "pcieport 0000:20:01.1: AER: device recovery failed"),
    ]
    found, others = judged(*lines)
    assert [culprit.device for culprit in found.culprits] == ["gpu/0000:21:00", "pci/0000:20:01"]
    assert "below it is GPU 0000:21:00" in found.summary
    assert others == []


def test_only_a_gpu_that_leaves_the_bus_is_a_lost_gpu() -> None:
    gone = "0000:21:00.0: Unable to change power state from D3cold to D0, device inaccessible"
    assert verdict(at(0, f"nvidia {gone}"))[1:] == ("P0", "gpu_fallen_off_bus", [("n1", "gpu/0000:21:00")])
    assert verdict(at(0, f"nvme {gone}"))[2] == "pcie_fault"
    down = "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10"
    assert verdict(at(0, down), at(0, f"nvme {gone}"))[::2] == ("nvme.down", "storage_io")


@pytest.mark.parametrize(
    ("lines", "signature", "severity", "device"),
    [
        (
            [
                "blk_update_request: critical medium error, dev sdq, sector 812 op 0x0:(READ) flags 0x0 phys_seg 1",
                "EXT4-fs (sdq1): Remounting filesystem read-only",
            ],
            "blk.io_error", "P0", "disk/sdq",
        ),
        (
            [
                "nvme nvme3: I/O 902 QID 31 timeout, reset controller",
                "I/O error, dev nvme3n1, sector 812 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
                "XFS (dm-3): log I/O error -5",
            ],
            "nvme.timeout", "P0", "disk/nvme3",
        ),
        (
            [
                "I/O error, dev sda, sector 812 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
                "EXT4-fs (sdq1): Remounting filesystem read-only",
            ],
            "ext4.ro", "P0", "disk/sdq1",
        ),
    ],
    ids=["file system", "volume", "another disk"],
)  # fmt: skip
def test_a_file_system_fails_because_of_its_disk(lines: list[str], signature: str, severity: str, device: str) -> None:
    found = verdict(*[at(second, line) for second, line in enumerate(lines)])
    assert (found[0], found[1], found[3][0][1]) == (signature, severity, device)


def test_what_the_firmware_reports_is_what_its_record_says() -> None:
    record = [
        "Hardware error from APEI Generic Hardware Error Source: 5",
        "event severity: {}",
        "  section_type: PCIe error",
    ]
    for level, severity in (("fatal", "P0"), ("recoverable", "P1"), ("corrected", "P2")):
        lines = [at(0, f"{{3}}[Hardware Error]: {line.format(level)}") for line in record]
        assert verdict(*lines)[1:3] == (severity, "pcie_fault")


def test_a_clock_that_is_set_back_does_not_turn_cause_and_effect() -> None:
    lines = [
        at(900, xid("21", f"119, pid=7, name=python3, {GSP}")),
        at(901, "x").replace("kernel: x", "chronyd[911]: System clock was stepped by -600.000000 seconds"),
        at(303, xid("21", RESET)),
    ]
    assert verdict(*lines)[0] == "xid.119"
    assert verdict(lines[0], lines[2])[0] == "xid.154"


def test_repaired_memory_errors_count_once_they_are_many() -> None:
    line = "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0xfc0)"
    assert verdict(at(0, line))[1:3] == ("info", "healthy")
    logged = "mce: [Hardware Error]: Machine check events logged"
    assert verdict(at(0, logged))[1:3] == ("P1", "cpu_or_memory_fault")
    assert verdict(at(0, logged), at(1, line))[1:3] == ("info", "healthy")
    said = "[Hardware Error]: Corrected error, no action required."
    assert verdict(at(0, logged), at(1, said))[1:3] == ("info", "healthy")
    assert verdict(at(0, logged), at(1, line), at(1, line.replace("CE", "UE")))[1:3] == ("P0", "cpu_or_memory_fault")
    assert verdict(*[at(n, line) for n in range(40)])[:3] == ("edac.ce", "P2", "cpu_or_memory_fault")


def test_state_begins_anew_with_each_boot_and_each_host_is_its_own() -> None:
    lines = [
        "Dec 31 23:59:01 n3 kernel: [901274.112233] " + xid("21", LOST),
        f"Jan  1 00:09:12 n3 kernel: [    0.000000] {LINUX}",
        "Jan  1 02:00:00 n3 kernel: [ 6660.120012] " + xid("3d", "43, pid=1, name=p, Ch 00000018"),
        "Jan  1 02:00:00 n4 kernel: [ 6660.120012] " + xid("3d", f"13, pid=1, name=p, {SM}"),
    ]
    found, others = judged(*lines)
    assert (found.signature, found.culprits[0].place) == ("xid.79", "n3/gpu/0000:21:00")
    assert [(other.signature, other.culprits[0].host) for other in others] == [("xid.43", "n3"), ("xid.13", "n4")]


@pytest.mark.parametrize(
    "lines",
    [
        ["r8169 0000:03:00.0 eth0: RTL8125B, 02:00:00:00:00:01, XID 641, IRQ 51"],
        ["NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@U22)"],
        ["mlx5_core 0000:0c:00.0: Port module event: module 0, Cable plugged", "mlx5_core 0000:0c:00.0 ens1: Link up"],
        ["EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro"],
        ["mce: Using 32 MCE banks", "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm"],
        ["pcieport 0000:00:01.1: AER: enabled with IRQ 40"],
        [xid("21", "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")],
        ["app[811]: last Xid was 79, retrying"],
    ],
)
def test_what_healthy_machines_print_is_nothing(lines: list[str]) -> None:
    found, others = judged(*[at(second, line) for second, line in enumerate(lines)])
    assert (found.root_cause, found.severity.value, others) == ("healthy", "info", [])


def test_a_machine_that_fails_for_days_is_read_in_linear_time() -> None:
    bodies = (f"13, pid=1, name=p, {SM}", LOST, "45, pid=1, name=p, Ch 00000008", ROW)
    lines = [
        f"2026-03-{1 + n // 1440:02d}T{n // 60 % 24:02d}:{n % 60:02d}:00+00:00 n1 kernel: "
        + xid(f"{n % 8:02x}", bodies[n * 7 // 5 % 4])
        for n in range(3000)
    ]
    found, _ = judged(*lines)
    assert found.signature == "xid.79"


def test_lines_of_the_driver_without_an_address_belong_to_the_gpu_beside_them() -> None:
    lines = [
        at(0, "NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)"),
        at(0, "NVRM: GPU 0000:5d:00.0: RmInitAdapter failed! (0x62:0x65:1860)"),
    ]
    found, others = judged(*lines)
    assert (found.signature, found.culprits[0].device, others) == ("nvrm.gfw_boot", "gpu/0000:5d:00", [])
    lines.insert(0, at(0, "NVRM: GPU0 nvAssertOkFailedNoLog: Assertion failed: x [NV_ERR_TIMEOUT] @ kernel_gsp.c:1"))
    assert judged(*lines)[0].culprits == found.culprits


def test_what_the_device_plugin_says_of_a_gpu_is_heard() -> None:
    line = "XidCriticalError: Xid=69 on Device=GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee, the device will go unhealthy."
    assert verdict(line)[:3] == ("k8s.device_plugin", "P1", "gpu_hw_fault")
