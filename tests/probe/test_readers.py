"""The readers of /sys, /proc and the kernel log, value by value, on trees."""

from __future__ import annotations

import errno
import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests import needs
from tests.probe.running import wait_for
from tests.probe.trees import STAT

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from tests.probe.trees import Tree

WALL = 1_773_454_447.0


def test_host_values(host: ModuleType, tree: Tree) -> None:
    assert host.Host().read(100.0) == {
        "procs_blocked": 2,
        "cpu_count": 2,
        "cpu_util": "waiting",
        "cpu_iowait": "waiting",
        "cpu_softirq": "waiting",
        "cpu_softirq_max": "waiting",
        "cpu_steal": "waiting",
        "mem_available": 925696,
        "mem_total": 1032019,
        "mem_dirty_writeback": 12,
        "load1": 12.34,
        "psi_cpu_some": 10.5,
        "psi_io_some": 4.25,
        "psi_io_full": 1.5,
        "psi_memory_full": 0.75,
        "gpu_count_pci": 8,
    }


def shares(values: dict[str, Any]) -> list[Any]:
    """Return the five percentages."""
    return [values[name] for name in ("cpu_util", "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "cpu_steal")]


def test_shares_are_over_the_time_between_two_readings(host: ModuleType, tree: Tree) -> None:
    host = host.Host()
    host.read(100.0)
    # 1000 ticks: 200 user, 100 system, 500 idle, 100 iowait, 60 softirq (all on cpu1), 40 steal.
    tree.put(
        "proc/stat",
        "cpu  1200 0 600 8500 400 0 210 90 0 0\n"
        "cpu0 600 0 300 4300 200 0 75 25 0 0\n"
        "cpu1 600 0 300 4200 200 0 135 65 0 0\n"
        "procs_blocked 0\n",
    )
    assert shares(host.read(100.1)) == ["waiting"] * 5
    values = host.read(102.0)
    assert shares(values) == [40.0, 10.0, 6.0, 12.0, 4.0]
    assert values["procs_blocked"] == 0
    # No tick passed and one counter went back, as iowait may: the last known shares stay, none is negative.
    assert shares(host.read(104.0)) == [40.0, 10.0, 6.0, 12.0, 4.0]
    tree.put("proc/stat", "cpu  1300 0 600 8500 350 0 210 90 0 0\ncpu0 1 0 1 1 1 0 1 1 0 0\nprocs_blocked 0\n")
    values = host.read(106.0)
    assert shares(values) == [100.0, 0.0, 0.0, 0.0, 0.0]
    assert values["cpu_count"] == 1


def test_host_files_that_are_missing_or_broken(host: ModuleType, part: Callable[[str], ModuleType], tree: Tree) -> None:
    for name in ("proc/pressure/cpu", "proc/pressure/io", "proc/pressure/memory", "proc/loadavg"):
        (tree.root / name).unlink()
    tree.put("proc/stat", "cpu x\n")
    tree.put("proc/meminfo", "MemTotal: 1024 kB\n")
    values = host.Host().read(1.0)
    assert {values[name] for name in values if name.startswith("psi_")} == {"unsupported"}
    assert values["load1"] == "unsupported"
    assert shares(values) == ["error"] * 5
    assert (values["mem_total"], values["mem_available"], values["mem_dirty_writeback"]) == (
        1,
        "unsupported",
        "unsupported",
    )
    # A kernel with pressure accounting switched off has the files and refuses to read them.
    assert part("files").reason_of(OSError(errno.EOPNOTSUPP, "")) == "unsupported"


def test_a_gpu_that_leaves_the_bus_is_counted_out(host: ModuleType, tree: Tree) -> None:
    host = host.Host()
    assert host.read(1.0)["gpu_count_pci"] == 8
    os.rename(tree.root / "sys/bus/pci/devices/0000:1c:00.0", tree.root / "gone")
    assert host.read(2.0)["gpu_count_pci"] == 7


def test_port_values(fabric: ModuleType, tree: Tree) -> None:
    identities, values = fabric.Ports().read()
    assert identities[0] == {
        "device": "mlx5_0",
        "port": 1,
        "layer": "InfiniBand",
        "pci": "0000:4f:00.0",
        "netdev": "ib0p1",
    }
    assert {metric: column[0] for metric, column in values.items()} == {
        "ib_port_state": 4,
        "ib_port_phys_state": 5,
        "ib_port_rate": 400,
        "ib_port_xmit_data": 230442669431839,
        "ib_port_rcv_data": 230539874932483,
        "ib_vl15_dropped": 0,
        "ib_excessive_buffer_overrun_errors": 1,
        "ib_link_downed": 2,
        "ib_link_error_recovery": 3,
        "ib_local_link_integrity_errors": 4,
        "ib_port_rcv_errors": 5,
        "ib_port_rcv_remote_physical_errors": 6,
        "ib_port_rcv_switch_relay_errors": 7,
        "ib_port_xmit_discards": 8,
        "ib_port_xmit_wait": 9,
        "ib_symbol_error": 10,
        "ib_hw_out_of_buffer": 100,
        "ib_hw_out_of_sequence": 101,
        "ib_hw_packet_seq_err": 102,
        "ib_hw_local_ack_timeout_err": 103,
        "ib_hw_rnr_nak_retry_err": 104,
        "ib_hw_req_cqe_error": 105,
        "ib_hw_roce_slow_restart": 106,
        "ib_hw_implied_nak_seq_err": 107,
        "roce_np_cnp_sent": 108,
        "roce_rp_cnp_handled": 109,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4: ACTIVE\n", 4),
        ("1: DOWN", 1),
        ("2.5 Gb/sec (1X SDR)\n", 2.5),
        ("100 Gb/sec (4X EDR)\n", 100),
        ("18446744073709551615\n", 18446744073709551615),
        ("N/A (no PMA)\n", "unsupported"),
        ("\n", "error"),
        ("junk", "error"),
    ],
)
def test_what_a_port_file_says(fabric: ModuleType, tree: Tree, text: str, value: object) -> None:
    tree.put("sys/x", text)
    assert fabric.Ports.value("/sys/x") == value


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (errno.ENOENT, "unsupported"),
        (errno.EACCES, "permission"),
        (errno.EPERM, "permission"),
        (errno.EINVAL, "error"),
        (errno.ENODEV, "error"),
        (errno.EIO, "error"),
    ],
)
def test_why_a_port_file_cannot_be_read(
    fabric: ModuleType, monkeypatch: pytest.MonkeyPatch, code: int, word: str
) -> None:
    def refuse(path: str) -> bytes:
        raise OSError(code, path)

    monkeypatch.setattr(fabric.files, "read_file", refuse)
    assert fabric.Ports.value("/sys/x") == word


def test_two_ports_of_one_adapter_have_their_own_network_device(fabric: ModuleType, tree: Tree) -> None:
    tree.port("mlx5_4", 1, pci="0000:7f:00.0")
    tree.port("mlx5_4", 2, pci="0000:7f:00.0")
    identities, _ = fabric.Ports().read()
    assert [(each["port"], each["netdev"]) for each in identities if each["device"] == "mlx5_4"] == [
        (1, "ib4p1"),
        (2, "ib4p2"),
    ]


# ---------------------------------------------------------------- kernel log


def kmsg(*lines: tuple[float, str], boot: float) -> str:
    """Return records of /dev/kmsg for lines at wall times."""
    return "".join(f"4,{seq},{int((at - boot) * 1e6)},-;{text}\n" for seq, (at, text) in enumerate(lines))


@pytest.fixture
def clock(kernel_log: ModuleType, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clocks of a node that booted 10,000 s ago."""
    clock = SimpleNamespace(time=lambda: WALL, monotonic=lambda: 10_000.0)
    monkeypatch.setattr(kernel_log, "time", clock)
    return clock


def test_lines_that_matter_with_the_kernels_own_time(
    kernel_log: ModuleType, clock: SimpleNamespace, tree: Tree
) -> None:
    log = kernel_log.KernelLog()
    now = clock.time()
    boot = now - 10_000
    tree.put(
        "dev/kmsg",
        kmsg(
            (now - 3000, "NVRM: Xid (PCI:0000:4f:00): 31, older than the history"),
            (now - 60, "NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."),
            (now - 50, "usb 1-1: new high-speed USB device"),
            (now - 40, "mlx5_core 0000:5f:00.0: Port module event"),
            boot=boot,
        )
        + " SUBSYSTEM=pci\n DEVICE=+pci:0000:5f:00.0\nbroken\n",
    )
    log.open()
    assert [(round(at - now, 3), level, text) for at, level, text in log.read(0.0)] == [
        (-60.0, 4, "NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."),
        (-40.0, 4, "mlx5_core 0000:5f:00.0: Port module event"),
    ]
    assert log.read(0.0) == []
    with (tree.root / "dev/kmsg").open("a") as file:
        file.write(kmsg((now + 5, "Out of memory: Killed process 4242 (python3)"), boot=boot))
    assert [text for _, _, text in log.read(0.0)] == ["Out of memory: Killed process 4242 (python3)"]
    assert log.notes == {}


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_clock_that_is_set_while_the_probe_runs(
    kernel_log: ModuleType, clock: SimpleNamespace, tree: Tree, step_s: float
) -> None:
    log = kernel_log.KernelLog()
    tree.put("dev/kmsg", kmsg((9_990.0, "NVRM: Xid (PCI:0000:4f:00): 31, before"), boot=0.0))
    log.open()
    assert [at for at, _, _ in log.read(0.0)] == [WALL - 10]
    clock.time = lambda: WALL + step_s
    with (tree.root / "dev/kmsg").open("a") as file:
        file.write(kmsg((9_999.0, "NVRM: Xid (PCI:0000:4f:00): 79, after"), boot=0.0))
    assert [at for at, _, _ in log.read(0.0)] == [WALL + step_s - 1]


def test_a_flood_is_cut_and_does_not_wash_away_what_is_urgent(
    kernel_log: ModuleType, clock: SimpleNamespace, tree: Tree
) -> None:
    log = kernel_log.KernelLog()
    now = clock.time()
    flood = [(now, f"pcieport 0000:00:01.0: AER: Corrected error received {number}") for number in range(1000)]
    tree.put("dev/kmsg", kmsg(*flood, (now, "NVRM: Xid (PCI:0000:4f:00): 79, gone"), boot=now - 10_000))
    log.open()
    texts = [text for _, _, text in log.read(0.0)]
    assert len(texts) == 201
    assert texts[-1] == "NVRM: Xid (PCI:0000:4f:00): 79, gone"
    assert log.take_losses() == "800 kernel log lines left out: more than 200 a tick"
    assert log.take_losses() == ""


@pytest.mark.parametrize(
    ("text", "matters"),
    [
        ("NVRM: Xid (PCI:0000:81:00): 48, pid=1, name=x, DBE", True),
        ("nvidia-nvswitch3: SXid (PCI:0000:a9:00.0): 12028, Non-fatal", True),
        ("pcieport 0000:60:01.0: AER: Corrected error received: 0000:61:00.0", True),
        ("mlx5_core 0000:9a:00.0 ib0: link down", True),
        ("nvme nvme0: I/O 12 QID 3 timeout, aborting", True),
        ("blk_update_request: I/O error, dev sda, sector 1", True),
        ("EXT4-fs error (device nvme0n1p2): ext4_find_entry", True),
        ("mce: [Hardware Error]: Machine check events logged", True),
        ("EDAC MC0: 1 CE memory read error", True),
        ("INFO: task python3:4242 blocked for more than 120 seconds.", True),
        ("watchdog: BUG: soft lockup - CPU#12 stuck for 22s!", True),
        ("nfs: server 10.0.0.5 not responding, still trying", True),
        ("CPU3: Core temperature above threshold, cpu clock throttled", True),
        ("r8169 0000:02:00.0 eth0: RTL8168h, XID 541, IRQ 35", False),
        ("usb 1-1: new high-speed USB device number 2", False),
        ('audit: type=1400 apparmor="STATUS"', False),
    ],
)
def test_what_matters(kernel_log: ModuleType, text: str, matters: bool) -> None:
    assert (re.search(kernel_log.MATTERS, text.encode(), re.IGNORECASE) is not None) == matters


def test_a_log_that_may_not_be_read_is_noted(
    kernel_log: ModuleType, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kernel_log.KernelLog()

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_log.os, "open", refuse)
        log.open()
    assert log.notes == {"kernel_log": "permission", "kernel_log_tried": "/dev/kmsg, journalctl, dmesg"}
    assert log.read(0.0) == []
    nowhere = kernel_log.KernelLog()
    nowhere.open()
    assert nowhere.notes["kernel_log"] == "unsupported"


def test_journal_lines(kernel_log: ModuleType, clock: SimpleNamespace) -> None:
    log = kernel_log.KernelLog()
    # No child of this process: nobody to wait for.
    log.kind, log.pid = "journal", os.getpid()
    log.descriptor, write = os.pipe()
    os.set_blocking(log.descriptor, False)
    stamp = round(clock.time() - 799.75, 6)
    text = (
        f"{stamp:.6f} gpu-007 kernel: NVRM: Xid (PCI:0000:4f:00): 119, pid=1, Time-out\n"
        f"-- Boot 0123 --\n{stamp:.6f} gpu-007 systemd[1]: nvidia-persistenced.service: started\n"
        f"{stamp + 1:.6f} gpu-007 kernel: mlx5_core 0000:5f:00.0: half"
    ).encode()
    os.write(write, text)
    assert log.read(0.0) == [(stamp, None, "NVRM: Xid (PCI:0000:4f:00): 119, pid=1, Time-out")]
    os.write(write, b" a line\n")
    assert log.read(0.0) == [(round(stamp + 1, 6), None, "mlx5_core 0000:5f:00.0: half a line")]
    os.close(write)
    log.read(0.0)
    assert log.notes["kernel_log"] == "permission"


def test_a_node_without_room_for_a_process_runs_dmesg_later(
    kernel_log: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "")

    needs.tool("dmesg")
    log = kernel_log.KernelLog()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        assert log.start(["dmesg", "-r"])
        log.kind = "dmesg"
        assert log.read(0.0) == []
    assert (log.descriptor, log.notes) == (-1, {})
    assert log.read(0.0) == []
    assert log.pid > 0
    # Its output ends within a moment; whether it may read the log is not the question here.
    assert wait_for(lambda: log.read(0.0) is not None and log.pid == 0, 5)
    assert kernel_log.processes.leaving == set()


def test_a_child_that_takes_long_to_end_does_not_stay_a_zombie(part: Callable[[str], ModuleType]) -> None:
    processes = part("processes")
    pid, into, out = processes.spawn(["/bin/sh", "-c", "exec >/dev/null; read wait; exit 3"])
    assert os.read(out, 1) == b""
    assert processes.reap(pid) == 0
    assert processes.leaving == {pid}
    os.close(into)
    os.close(out)
    assert wait_for(lambda: processes.sweep() or not processes.leaving, 5)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_only_new_lines_of_dmesg(kernel_log: ModuleType) -> None:
    log = kernel_log.KernelLog()
    first = b"<6>[    1.000000] a\n<4>[    2.000000] b\n<4>[    2.000000] c\n"
    assert log.new_dmesg_lines(first) == [(1.0, 6, b"a"), (2.0, 4, b"b"), (2.0, 4, b"c")]
    assert log.new_dmesg_lines(first) == []
    assert log.new_dmesg_lines(first + b"<3>[    2.000000] d\n<3>[ 3.5][ T12] e\nplain\n") == [
        (2.0, 3, b"d"),
        (3.5, 3, b"e"),
    ]


def test_the_tree_is_what_the_kernel_prints() -> None:
    assert STAT.splitlines()[0].split()[1:9] == ["1000", "0", "500", "8000", "300", "0", "150", "50"]
