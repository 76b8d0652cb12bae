"""The host: CPU, memory, pressure, load, and how many GPUs its PCI bus shows."""

import os

import files


def rows(path):
    """Return the words of each line of a file."""
    return [line.split() for line in files.read_file(path).split(b"\n") if line]


class Host:
    """CPU, memory, pressure and load of the node; percentages are over the time since the reading before."""

    def __init__(self):
        self.cores = {}
        self.read_at = 0.0
        self.shares = ["waiting"] * 5
        self.pci_is_gpu = {}

    def read(self, now):
        """Return every host value at monotonic time `now`."""
        values = {}
        for metrics, question in (
            ("cpu_util cpu_iowait cpu_softirq cpu_steal cpu_softirq_max procs_blocked cpu_count", self.read_stat),
            ("mem_available mem_total mem_dirty_writeback", self.read_memory),
            ("load1", self.read_load),
            ("psi_cpu_some", self.read_pressure),
            ("psi_io_some", self.read_pressure),
            ("psi_io_full", self.read_pressure),
            ("psi_memory_full", self.read_pressure),
            ("gpu_count_pci", self.count_gpus),
        ):
            metrics = metrics.split()
            try:
                answers = question(now, metrics[0])
            except OSError as error:
                answers = [files.reason_of(error)] * len(metrics)
            except (ValueError, LookupError):
                answers = ["error"] * len(metrics)
            values.update(zip(metrics, answers))
        return values

    def read_stat(self, now, _):
        """Return what /proc/stat knows. Two readings closer than 0.2 s keep the shares that were there."""
        cores, blocked = {}, "unsupported"
        for parts in rows("/proc/stat"):
            if parts[0].startswith(b"cpu"):
                # user nice system idle iowait irq softirq steal; guest time is already inside user and nice.
                cores[parts[0]] = [int(part) for part in parts[1:9]]
            elif parts[0] == b"procs_blocked":
                blocked = int(parts[1])
        if b"cpu" not in cores:
            raise ValueError
        if now - self.read_at >= 0.2:
            self.work_out_shares(cores, self.cores)
            self.cores, self.read_at = cores, now
        return [*self.shares, blocked, len(cores) - 1]

    def work_out_shares(self, cores, past):
        """Set the percentages from the clock ticks since the reading before."""
        gone = [max(0, new - old) for new, old in zip(cores[b"cpu"], past.get(b"cpu", ()))]
        whole = sum(gone)
        if not whole or len(gone) < 8:
            return
        worst = 0.0
        for name, new in cores.items():
            old = past.get(name)
            if old and name != b"cpu":
                core = sum(new) - sum(old)
                if core > 0:
                    worst = max(worst, 100.0 * (new[6] - old[6]) / core)
        shares = [100.0 * part / whole for part in (whole - gone[3] - gone[4], gone[4], gone[6], gone[7])]
        self.shares = [round(share, 1) for share in (*shares, min(100.0, worst))]

    def read_memory(self, *_):
        """Return what /proc/meminfo knows, in MiB."""
        found = {row[0]: row[1] for row in rows("/proc/meminfo")}
        return [
            round(sum(int(found[key]) for key in keys) / 1024.0) if found.keys() >= set(keys) else "unsupported"
            for keys in ((b"MemAvailable:",), (b"MemTotal:",), (b"Dirty:", b"Writeback:"))
        ]

    def read_load(self, *_):
        """Return the one-minute load."""
        return [float(rows("/proc/loadavg")[0][0])]

    def read_pressure(self, _, metric):
        """Return avg10 of one line of /proc/pressure; kernels without PSI, or with it switched off, have none."""
        _, name, kind = metric.split("_")
        for row in rows("/proc/pressure/" + name):
            if row[0] == kind.encode():
                return [float(row[1][6:])]
        return ["unsupported"]

    def count_gpus(self, *_):
        """Return how many NVIDIA 3D or VGA controllers the PCI bus shows."""
        base = "/sys/bus/pci/devices"
        known = self.pci_is_gpu
        names = os.listdir(files.ROOT + base)
        for name in names:
            if name not in known:
                vendor, kind = (files.read_text("%s/%s/%s" % (base, name, word)) for word in ("vendor", "class"))
                known[name] = vendor == "0x10de" and kind.startswith(("0x0302", "0x0300"))
        return [sum(known[name] for name in names)]
