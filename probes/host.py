"""The host: CPU, memory, pressure, load, and how many GPUs its PCI bus shows."""

import os

import files


class Host:
    """CPU, memory, pressure and load of the node; percentages are over the time since the reading before."""

    def __init__(self):
        self.cores = None
        self.read_at = 0.0
        self.shares = ["waiting"] * 5
        self.pci_is_gpu = {}

    def read(self, now):
        """Return every host value at monotonic time `now`."""
        values = {}
        for metrics, question, *arguments in (
            ("cpu_util cpu_iowait cpu_softirq cpu_steal cpu_softirq_max procs_blocked cpu_count", self.read_stat, now),
            ("mem_available mem_total mem_dirty_writeback", self.read_memory),
            ("load1", self.read_load),
            ("psi_cpu_some", self.read_pressure, "cpu", b"some"),
            ("psi_io_some", self.read_pressure, "io", b"some"),
            ("psi_io_full", self.read_pressure, "io", b"full"),
            ("psi_memory_full", self.read_pressure, "memory", b"full"),
            ("gpu_count_pci", self.count_gpus),
        ):
            metrics = metrics.split()
            try:
                answers = question(*arguments)
            except OSError as error:
                answers = [files.reason_of(error)] * len(metrics)
            except (ValueError, LookupError):
                answers = ["error"] * len(metrics)
            values.update(zip(metrics, answers))
        return values

    def read_stat(self, now):
        """Return what /proc/stat knows. Two readings closer than 0.2 s keep the shares that were there."""
        cores, blocked = {}, "unsupported"
        for line in files.read_file("/proc/stat").split(b"\n"):
            parts = line.split()
            if line.startswith(b"cpu"):
                # user nice system idle iowait irq softirq steal; guest time is already inside user and nice.
                cores[parts[0]] = [int(part) for part in parts[1:9]]
            elif line.startswith(b"procs_blocked"):
                blocked = int(parts[1])
        if b"cpu" not in cores:
            raise ValueError
        if self.cores is None or now - self.read_at >= 0.2:
            if self.cores is not None:
                self.work_out_shares(cores)
            self.cores, self.read_at = cores, now
        return [*self.shares, blocked, len(cores) - 1]

    def work_out_shares(self, cores):
        """Set the percentages from the clock ticks since the reading before."""
        gone = [max(0, new - old) for new, old in zip(cores[b"cpu"], self.cores[b"cpu"])]
        whole = sum(gone)
        if not whole or len(gone) < 8:
            return
        worst = 0.0
        for name, new in cores.items():
            old = self.cores.get(name)
            if old and name != b"cpu":
                core = sum(new) - sum(old)
                if core > 0:
                    worst = max(worst, 100.0 * (new[6] - old[6]) / core)
        shares = [100.0 * part / whole for part in (whole - gone[3] - gone[4], gone[4], gone[6], gone[7])]
        self.shares = [round(share, 1) for share in (*shares, min(100.0, worst))]

    @staticmethod
    def read_memory():
        """Return what /proc/meminfo knows, in MiB."""
        found = {}
        for line in files.read_file("/proc/meminfo").split(b"\n"):
            key, _, rest = line.partition(b":")
            if key in (b"MemAvailable", b"MemTotal", b"Dirty", b"Writeback"):
                found[key] = int(rest.split()[0])
        return [
            round(sum(found[key] for key in keys) / 1024.0) if found.keys() >= set(keys) else "unsupported"
            for keys in ((b"MemAvailable",), (b"MemTotal",), (b"Dirty", b"Writeback"))
        ]

    @staticmethod
    def read_load():
        """Return the one-minute load."""
        return [float(files.read_file("/proc/loadavg").split()[0])]

    @staticmethod
    def read_pressure(name, kind):
        """Return avg10 of one line of /proc/pressure; kernels without PSI, or with it switched off, have none."""
        for line in files.read_file("/proc/pressure/" + name).split(b"\n"):
            if line.startswith(kind):
                return [float(line.split()[1].partition(b"=")[2])]
        return ["unsupported"]

    def count_gpus(self):
        """Return how many NVIDIA 3D or VGA controllers the PCI bus shows."""
        base = "/sys/bus/pci/devices"
        known = self.pci_is_gpu
        names = os.listdir(files.ROOT + base)
        for name in names:
            if name not in known:
                vendor, kind = (files.read_text("%s/%s/%s" % (base, name, word)) for word in ("vendor", "class"))
                known[name] = vendor == "0x10de" and kind.startswith(("0x0302", "0x0300"))
        return [sum(known[name] for name in names)]
