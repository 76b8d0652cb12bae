"""Parts as the probe of a node with 8 GPUs, 144 NVLinks, 30 PCIe devices, 10 disks, 12 file systems and 12 network
interfaces would print them: half of them change from one reading to the next."""

from __future__ import annotations

import random

from stethoscope.collect.watchlist import pace_of
from stethoscope.model import wire
from stethoscope.model.metric import Kind, Metric, Scope

GPUS, LINKS, PCIE, DISKS, MOUNTS, NETS = 8, 18, 30, 10, 12, 12
CHANGING = ("gpu", "disks", "mounts", "net", "host")
STANDING = ("pcie", "clock", "tuning", "identity")
SLOW_S = {"clock": 60.0, "tuning": 300.0, "identity": 300.0}
WHOLE_S = 300.0
"""A group that does not change is sent whole so often."""
_PCI = "/sys/bus/pci/drivers"


def every_s(group: str, nodes: int) -> float:
    """Return how often `group` is read on a fleet of `nodes`."""
    return SLOW_S.get(group) or 30.0 * pace_of(nodes)


class PartProbe:
    """What one node says rarely."""

    def __init__(self, seed: int, catalogue: dict[str, Metric]) -> None:
        """Start with random totals."""
        self.random = random.Random(seed)
        self.metrics = [metric for metric in catalogue.values() if metric.group == "gpu"]
        self.total = self.random.randrange(10**9)

    def part(self, group: str, seq: int, mono: float, *, s: float, same: bool = False) -> bytes:
        """Return the line of one reading of `group`, which is read every `s` seconds."""
        line = wire.Part(seq=seq, mono=mono, wall=1_773_454_447.0 + mono, name=group, s=s)
        if same:
            line.same = True
            return wire.encode(line)
        self.total += self.random.randrange(10**6)
        getattr(self, f"_{group}")(line)
        return wire.encode(line)

    def _gpu(self, line: wire.Part) -> None:
        for metric in self.metrics:
            if metric.scope is Scope.GPU:
                moves = metric.id.startswith("gpu_throttle_time")
                cell = self.total if moves else 0 if metric.kind is Kind.COUNTER else 1
                line.gpu[metric.id] = [cell] * GPUS
            elif metric.scope is Scope.NVLINK:
                line.links[metric.id] = [[0 if metric.kind is Kind.COUNTER else 1] * LINKS for _ in range(GPUS)]
        line.words = {"driver_version": "550.90.07", "cuda_version": "12.4", "gpu_vbios_version": ["96.00.74"] * GPUS}
        line.apps = [[gpu, 4_000 + gpu, 70_000, "C"] for gpu in range(GPUS)]
        for pid in range(4_000, 4_000 + GPUS):
            line.files[f"/proc/{pid}/comm"] = "python3\n"
            line.files[f"/proc/{pid}/cgroup"] = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"

    def _pcie(self, line: wire.Part) -> None:
        for number in range(PCIE):
            driver = ("nvidia", "mlx5_core", "nvme")[number % 3]
            slot = f"0000:{number + 16:02x}:00.0"
            line.files[f"{_PCI}/{driver}/{slot}"] = f"/sys/devices/pci0000:00/0000:00:01.0/{slot}"
            for name, text in (("link_speed", "32.0 GT/s PCIe\n"), ("link_width", "16\n")):
                line.files[f"{_PCI}/{driver}/{slot}/current_{name}"] = text
                line.files[f"{_PCI}/{driver}/{slot}/max_{name}"] = text
            for kind in ("correctable", "nonfatal", "fatal"):
                line.files[f"{_PCI}/{driver}/{slot}/aer_dev_{kind}"] = ""

    def _disks(self, line: wire.Part) -> None:
        rows = [
            f" 259 {n} nvme{n}n1 {self.total} 0 {self.total * 8} {self.total // 3} {self.total} 0 {self.total} "
            f"{self.total // 2} 0 {self.total // 4} {self.total // 2} 0 0 0 0 0 0"
            for n in range(DISKS)
        ]
        line.files["/proc/diskstats"] = "\n".join(rows)
        for n in range(DISKS):
            line.files[f"/sys/block/nvme{n}n1/device/model"] = "SAMSUNG MZQL23T8HCLS-00A07\n"
            line.files[f"/sys/block/nvme{n}n1/size"] = "7501476528\n"
            line.files[f"/sys/block/nvme{n}n1/device/hwmon{n}/temp1_input"] = f"{self.random.randrange(38, 41)}850\n"

    def _mounts(self, line: wire.Part) -> None:
        used = self.random.randrange(10**8, 10**9)
        line.files["/proc/self/mountinfo"] = "\n".join(
            f"{n + 30} 1 8:{n} / /data{n} rw,relatime shared:{n} - xfs /dev/nvme{n}n1 rw" for n in range(MOUNTS)
        )
        head = "Filesystem     Type 1024-blocks      Used Available Capacity Mounted on\n"
        df = head + "\n".join(f"/dev/nvme{n}n1 xfs {10**9} {used} {10**9 - used} 40% /data{n}" for n in range(MOUNTS))
        head = "Filesystem     Type    Inodes   IUsed    IFree IUse% Mounted on\n"
        inodes = head + "\n".join(f"/dev/nvme{n}n1 xfs {10**7} {10**5} {10**7} 1% /data{n}" for n in range(MOUNTS))
        line.ran = {"df_local": wire.Ran(out=df), "df_inodes": wire.Ran(out=inodes), "df_remote": wire.Ran(exit=1)}

    def _net(self, line: wire.Part) -> None:
        rows = ["Inter-|   Receive                |  Transmit", " face |bytes packets errs drop fifo frame compressed"]
        for n in range(NETS):
            rows.append(f"  eth{n}: {self.total} 1 0 0 0 0 0 0 {self.total} 1 0 0 0 0 0 0")
            root = f"/sys/class/net/eth{n}"
            line.files[f"{root}/device"] = f"/sys/devices/pci0000:00/0000:{n + 16:02x}:00.0"
            for name, text in (("operstate", "up"), ("mtu", "9000"), ("speed", "400000"), ("carrier_changes", "2")):
                line.files[f"{root}/{name}"] = text + "\n"
            if n < 8:
                stats = "\n".join(f"rx_prio{p}_pause {self.total}\ntx_prio{p}_pause 0" for p in range(8))
                line.files[f"/sys/class/infiniband/mlx5_{n}/device/net/eth{n}"] = f"rx_discards_phy 0\n{stats}"
        line.files["/proc/net/dev"] = "\n".join(rows)
        names = "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab"
        names += " InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors"
        line.files["/proc/net/snmp"] = f"Tcp: {names}\nTcp: 1 200 120000 -1 1 1 1 1 1 {self.total} {self.total} 3 0 0 0"

    def _host(self, line: wire.Part) -> None:
        line.files = {
            "/proc/vmstat": f"oom_kill 0\npgmajfault {self.total}\n", "/proc/sys/fs/file-nr": "12345\t0\t9223372\n",
            "/proc/meminfo": "SwapTotal: 0 kB\nSwapFree: 0 kB\n", "tasks": "",
        }  # fmt: skip

    def _clock(self, line: wire.Part) -> None:
        line.ran = {"timedate": wire.Ran(out="Timezone=UTC\nNTPSynchronized=yes\n"), "chrony": wire.Ran("absent")}

    def _tuning(self, line: wire.Part) -> None:
        line.files = {"/proc/sys/kernel/numa_balancing": "0\n", "/proc/modules": "nvidia_peermem 16384 0 - Live 0x0\n"}

    def _identity(self, line: wire.Part) -> None:
        line.files = {"/proc/version": "Linux version 5.15.0-1049-nvidia (build)", "/proc/stat": "btime 1773000000\n"}
