"""Trees of /sys and /proc as nodes have them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COUNTERS = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
]
HW_COUNTERS = [
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "roce_slow_restart",
    "implied_nak_seq_err",
    "np_cnp_sent",
    "rp_cnp_handled",
]

STAT = """cpu  1000 0 500 8000 300 0 150 50 0 0
cpu0 500 0 250 4000 150 0 75 25 0 0
cpu1 500 0 250 4000 150 0 75 25 0 0
intr 12345 0 9 0
ctxt 99999
procs_running 3
procs_blocked 2
"""

MEMINFO = """MemTotal:       1056787456 kB
MemFree:        804921344 kB
MemAvailable:   947912704 kB
Dirty:             10240 kB
Writeback:          2048 kB
"""


@dataclass
class Tree:
    """Files under a root that stands in front of /sys and /proc."""

    root: Path

    def put(self, path: str, text: str) -> Path:
        """Write one file."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        # In one step: a probe may be reading.
        new = file.parent / f".{file.name}.new"
        new.write_text(text)
        new.replace(file)
        return file

    def port(self, device: str, number: int = 1, *, layer: str = "InfiniBand", pci: str = "0000:4f:00.0") -> None:
        """Add a healthy port of an adapter, and the adapter if need be."""
        base = f"sys/class/infiniband/{device}"
        ports = f"{base}/ports/{number}"
        self.put(f"{ports}/state", "4: ACTIVE\n")
        self.put(f"{ports}/phys_state", "5: LinkUp\n")
        self.put(f"{ports}/rate", "400 Gb/sec (4X NDR)\n")
        self.put(f"{ports}/link_layer", f"{layer}\n")
        self.put(f"{ports}/counters/port_xmit_data", "230442669431839\n")
        self.put(f"{ports}/counters/port_rcv_data", "230539874932483\n")
        for position, name in enumerate(COUNTERS):
            self.put(f"{ports}/counters/{name}", f"{position}\n")
        for position, name in enumerate(HW_COUNTERS):
            self.put(f"{ports}/hw_counters/{name}", f"{100 + position}\n")
        real = f"sys/devices/pci0000:4e/{pci}"
        self.put(f"{real}/net/ib{device[-1]}p{number}/dev_port", f"{number - 1}\n")
        link = self.root / base / "device"
        if not link.is_symlink():
            link.symlink_to(self.root / real)

    @classmethod
    def healthy(cls, root: Path) -> Tree:
        """Return a node with eight GPUs on the bus, an NVSwitch, two ports and no kernel log."""
        tree = cls(root)
        tree.put("proc/stat", STAT)
        tree.put("proc/meminfo", MEMINFO)
        tree.put("proc/loadavg", "12.34 11.00 9.50 3/4321 123456\n")
        tree.put("proc/sys/kernel/random/boot_id", "6b2d1f0e-0000-4000-8000-000000000001\n")
        for name, some, full in (("cpu", 10.5, 0.0), ("io", 4.25, 1.5), ("memory", 0.0, 0.75)):
            tree.put(
                f"proc/pressure/{name}",
                f"some avg10={some:.2f} avg60=0.00 avg300=0.00 total=5\n"
                f"full avg10={full:.2f} avg60=0.00 avg300=0.00 total=0\n",
            )
        for slot in range(8):
            tree.put(f"sys/bus/pci/devices/0000:{0x1A + slot:02x}:00.0/vendor", "0x10de\n")
            tree.put(f"sys/bus/pci/devices/0000:{0x1A + slot:02x}:00.0/class", "0x030200\n")
        tree.put("sys/bus/pci/devices/0000:90:00.0/vendor", "0x10de\n")
        tree.put("sys/bus/pci/devices/0000:90:00.0/class", "0x068000\n")
        tree.put("sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n")
        tree.put("sys/bus/pci/devices/0000:00:00.0/class", "0x030000\n")
        tree.port("mlx5_0", pci="0000:4f:00.0")
        tree.port("mlx5_10", layer="Ethernet", pci="0000:5f:00.0")
        tree.port("mlx5_2", pci="0000:6f:00.0")
        return tree

    def link(self, path: str, target: str) -> None:
        """Make a link to a path under the root."""
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / target.lstrip("/"))

    def pci_device(self, driver: str, address: str) -> None:
        """Add a device on the PCIe bus, behind a port of its own."""
        port = f"sys/devices/pci{address[:7]}/{address[:7]}:00.0"
        for real, name, place in ((port, "pcieport", f"{address[:7]}:00.0"), (f"{port}/{address}", driver, address)):
            for file, text in (
                ("current_link_speed", "32.0 GT/s PCIe\n"),
                ("current_link_width", "16\n"),
                ("max_link_speed", "32.0 GT/s PCIe\n"),
                ("max_link_width", "16\n"),
            ):
                self.put(f"{real}/{file}", text)
            for kind in ("correctable", "nonfatal", "fatal"):
                names = [f"{kind}{number}" for number in range(18)] + [f"TOTAL_ERR_{kind.upper()}"]
                self.put(f"{real}/aer_dev_{kind}", "".join(f"{name} 0\n" for name in names))
            self.link(f"sys/bus/pci/drivers/{name}/{place}", real)

    @classmethod
    def large(cls, root: Path) -> Tree:
        """Return a node as they are rented: eight GPUs, ten adapters, ten NVMe disks, 128 cores, 2,400 processes."""
        tree = cls.healthy(root)
        for number in range(8):
            tree.pci_device("nvidia", f"0001:{0x10 + number:02x}:00.0")
        for number in range(10):
            tree.pci_device("mlx5_core", f"0002:{0x10 + number:02x}:00.0")
            if number > 2:
                tree.port(f"mlx5_{20 + number}", layer="Ethernet", pci=f"0003:{0x10 + number:02x}:00.0")
                tree.put(f"sys/class/infiniband/mlx5_{20 + number}/fw_ver", "28.39.3004\n")
        for number in range(10):
            tree.pci_device("nvme", f"0004:{0x10 + number:02x}:00.0")
            for name, text in (("model", "SSD 7.68TB\n"), ("firmware_rev", "1.2.3\n"), ("state", "live\n")):
                tree.put(f"sys/block/nvme{number}n1/device/{name}", text)
            tree.put(f"sys/block/nvme{number}n1/device/hwmon{number}/temp1_input", "38850\n")
            tree.put(f"sys/block/nvme{number}n1/size", "15002931888\n")
            tree.put(f"sys/block/nvme{number}n1/queue/rotational", "0\n")
            tree.put(f"dev/nvme{number}", "")
        disks = [f" 259 {number} nvme{number}n1 {' '.join(['123456'] * 17)}\n" for number in range(10)]
        tree.put("proc/diskstats", "".join(disks))
        tree.put(
            "proc/stat",
            STAT.replace("cpu1 ", "".join(f"cpu{n} 5 0 5 5 5 0 5 5 0 0\n" for n in range(1, 127)) + "cpu127 "),
        )
        for number in range(12):
            for name, text in (
                ("operstate", "up\n"),
                ("mtu", "9000\n"),
                ("speed", "400000\n"),
                ("carrier_changes", "2\n"),
            ):
                tree.put(f"sys/class/net/eth{number}/{name}", text)
            tree.link(f"sys/class/net/eth{number}/device", "sys/devices/pci0000:4e/0000:4f:00.0")
        for cpu in range(128):
            tree.put(f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor", "performance\n")
            tree.put(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count", "0\n")
        for pid in range(2, 2402):
            parent = 2 if pid < 1602 else 1
            tree.put(f"proc/{pid}/stat", f"{pid} (name{pid}) S {parent} {pid} {pid} 0 -1 4194560 {'12345 ' * 40}\n")
        for name in ("vmstat", "net/snmp", "net/dev", "self/mountinfo", "self/limits", "modules", "version", "cmdline"):
            try:
                tree.put(f"proc/{name}", (Path("/proc") / name).read_text("utf-8", "replace"))
            except OSError:
                continue
        return tree
