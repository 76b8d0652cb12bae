"""The host: CPU, memory, pressure, load, and how many GPUs its PCI bus shows."""

import os

import files


class Host:
    """CPU, memory, pressure and load of the node; percentages are over the time since the reading before."""

    def __init__(self):
        self.times = None
        self.read_at = 0.0
        self.shares = dict.fromkeys(
            ("cpu_util", "cpu_iowait", "cpu_softirq", "cpu_softirq_max", "cpu_steal"), "waiting"
        )
        self.pci_is_gpu = {}

    def read(self, now):
        """Return every host value at monotonic time `now`."""
        values = {}
        self.read_stat(now, values)
        self.read_memory(values)
        self.read_load(values)
        for metric, name, kind in (
            ("psi_cpu_some", "cpu", b"some"),
            ("psi_io_some", "io", b"some"),
            ("psi_io_full", "io", b"full"),
            ("psi_memory_full", "memory", b"full"),
        ):
            values[metric] = self.read_pressure(name, kind)
        values["gpu_count_pci"] = self.count_gpus()
        return values

    def read_stat(self, now, values):
        """Fill in what /proc/stat knows. Two readings closer than 0.2 s keep the shares that were there."""
        try:
            lines = files.read_file("/proc/stat").split(b"\n")
            times = {}
            for line in lines:
                if line.startswith(b"cpu"):
                    parts = line.split()
                    # user nice system idle iowait irq softirq steal; guest time is already inside user and nice.
                    times[parts[0]] = [int(part) for part in parts[1:9]]
                elif line.startswith(b"procs_blocked"):
                    values["procs_blocked"] = int(line.split()[1])
            total = times[b"cpu"]
        except OSError as error:
            word = files.reason_of(error)
            values.update(dict.fromkeys(self.shares, word))
            values.update(dict.fromkeys(("procs_blocked", "cpu_count"), word))
            return
        except (ValueError, KeyError, IndexError):
            values.update(dict.fromkeys(self.shares, "error"))
            values.update(dict.fromkeys(("procs_blocked", "cpu_count"), "error"))
            return
        values.setdefault("procs_blocked", "unsupported")
        values["cpu_count"] = len(times) - 1
        if self.times is None or now - self.read_at >= 0.2:
            if self.times is not None:
                self.work_out_shares(total, times)
            self.times, self.read_at = times, now
        values.update(self.shares)

    def work_out_shares(self, total, times):
        """Set the percentages from the clock ticks since the reading before."""
        gone = [max(0, new - old) for new, old in zip(total, self.times[b"cpu"])]
        whole = float(sum(gone))
        if not whole or len(gone) < 8:
            return
        self.shares["cpu_util"] = round(100.0 * (whole - gone[3] - gone[4]) / whole, 1)
        self.shares["cpu_iowait"] = round(100.0 * gone[4] / whole, 1)
        self.shares["cpu_softirq"] = round(100.0 * gone[6] / whole, 1)
        self.shares["cpu_steal"] = round(100.0 * gone[7] / whole, 1)
        worst = 0.0
        for name, new in times.items():
            old = self.times.get(name)
            if name == b"cpu" or old is None:
                continue
            core = sum(new) - sum(old)
            if core > 0:
                worst = max(worst, 100.0 * (new[6] - old[6]) / core)
        self.shares["cpu_softirq_max"] = round(min(100.0, worst), 1)

    def read_memory(self, values):
        """Fill in what /proc/meminfo knows, in MiB."""
        names = ("mem_available", "mem_total", "mem_dirty_writeback")
        try:
            found = {}
            for line in files.read_file("/proc/meminfo").split(b"\n"):
                key, _, rest = line.partition(b":")
                if key in (b"MemAvailable", b"MemTotal", b"Dirty", b"Writeback"):
                    found[key] = int(rest.split()[0])
        except OSError as error:
            values.update(dict.fromkeys(names, files.reason_of(error)))
            return
        except (ValueError, IndexError):
            values.update(dict.fromkeys(names, "error"))
            return
        for metric, keys in zip(names, ((b"MemAvailable",), (b"MemTotal",), (b"Dirty", b"Writeback"))):
            present = [found[key] for key in keys if key in found]
            values[metric] = round(sum(present) / 1024.0) if len(present) == len(keys) else "unsupported"

    def read_load(self, values):
        """Fill in the one-minute load."""
        try:
            values["load1"] = float(files.read_file("/proc/loadavg").split()[0])
        except OSError as error:
            values["load1"] = files.reason_of(error)
        except (ValueError, IndexError):
            values["load1"] = "error"

    def read_pressure(self, name, kind):
        """Return avg10 of one line of /proc/pressure; kernels without PSI, or with it switched off, have none."""
        try:
            for line in files.read_file("/proc/pressure/" + name).split(b"\n"):
                if line.startswith(kind):
                    return float(line.split()[1].partition(b"=")[2])
        except OSError as error:
            return files.reason_of(error)
        except (ValueError, IndexError):
            return "error"
        return "unsupported"

    def count_gpus(self):
        """Return how many NVIDIA 3D or VGA controllers the PCI bus shows."""
        base = "/sys/bus/pci/devices"
        try:
            names = os.listdir(files.ROOT + base)
        except OSError as error:
            return files.reason_of(error)
        known = self.pci_is_gpu
        for name in names:
            if name not in known:
                known[name] = files.read_text("%s/%s/vendor" % (base, name)) == "0x10de" and files.read_text(
                    "%s/%s/class" % (base, name)
                ).startswith(("0x0302", "0x0300"))
        return sum(1 for name in names if known[name])
