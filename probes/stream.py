"""The probe: it runs on a node, reads what the kernel and the NVIDIA driver say, and prints `stethoscope.probe/1`.

Python 3.6 or newer and its standard library; nothing is written to the node's disk. Two processes run this one source:
the probe itself (sysfs, procfs, kernel log, the wire) and its NVML child (argv marker `stethoscope-nvml`), which alone
talks to the driver, so that a driver that hangs takes nothing else along. The child reads questions from its standard
input and ends when that closes; it is never killed. STETHOSCOPE_ROOT puts another tree in place of /sys, /proc and
/dev.
"""

import _thread
import collections
import errno
import json
import math
import os
import re
import select
import signal
import sys
import time
import warnings
import zlib

SCHEMA = "stethoscope.probe/1"
PROBE_MARK = "stethoscope-probe"
CHILD_MARK = "stethoscope-nvml"
ROOT = os.environ.get("STETHOSCOPE_ROOT", "")

PATIENCE_S = 1.5
"""So long a frame waits for the driver; a later answer goes out in a line of its own."""
HUNG_S = 5.0
"""A driver that has not answered for so long is hung."""
FULL_S = 60.0
LOOK_AGAIN_S = 30.0
"""Pause before a stuck child is looked for again, or the driver asked again after it refused."""
PCIE_S = 10.0
"""Every GPU's PCIe traffic is sampled once in this time; one sample keeps the driver busy for 20 ms a direction."""
LINES_A_TICK = 200
HISTORY_S = 900.0
LONGEST_TEXT = 2000
LONGEST_CONTROL = 65536

# The child's Python gets the payload that this process got, over a pipe, and runs it in the same way.
BOOTSTRAP = """
import os, sys, zlib
source = open(0, "rb", 0, closefd=False)
left = int(source.readline())
blob = b""
while len(blob) < left:
    part = source.read(left - len(blob))
    if not part:
        os._exit(0)
    blob += part
probe, _, nvml = zlib.decompress(blob).partition(b"\\0")
exec(compile(probe, "stethoscope", "exec"), {"__name__": "__main__", "BLOB": blob, "PYNVML": nvml})
"""

GPU_METRICS = (
    "gpu_sm_clock",
    "gpu_util",
    "gpu_power_draw",
    "gpu_temp",
    "gpu_temp_margin",
    "gpu_mem_temp",
    "gpu_clocks_event_reasons",
    "gpu_fb_used",
    "gpu_fb_total",
    "gpu_mem_copy_util",
    "gpu_power_limit",
    "gpu_pcie_rx",
    "gpu_pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "gpu_handle_error",
)

PORT_FILES = (
    ("ib_port_state", "state"),
    ("ib_port_phys_state", "phys_state"),
    ("ib_port_rate", "rate"),
    ("ib_port_xmit_data", "counters/port_xmit_data"),
    ("ib_port_rcv_data", "counters/port_rcv_data"),
    ("ib_symbol_error", "counters/symbol_error"),
    ("ib_link_error_recovery", "counters/link_error_recovery"),
    ("ib_link_downed", "counters/link_downed"),
    ("ib_port_rcv_errors", "counters/port_rcv_errors"),
    ("ib_port_rcv_remote_physical_errors", "counters/port_rcv_remote_physical_errors"),
    ("ib_local_link_integrity_errors", "counters/local_link_integrity_errors"),
    ("ib_excessive_buffer_overrun_errors", "counters/excessive_buffer_overrun_errors"),
    ("ib_port_xmit_discards", "counters/port_xmit_discards"),
    ("ib_port_xmit_wait", "counters/port_xmit_wait"),
    ("ib_vl15_dropped", "counters/VL15_dropped"),
    ("ib_port_rcv_switch_relay_errors", "counters/port_rcv_switch_relay_errors"),
    ("ib_hw_out_of_buffer", "hw_counters/out_of_buffer"),
    ("ib_hw_out_of_sequence", "hw_counters/out_of_sequence"),
    ("ib_hw_packet_seq_err", "hw_counters/packet_seq_err"),
    ("ib_hw_local_ack_timeout_err", "hw_counters/local_ack_timeout_err"),
    ("ib_hw_rnr_nak_retry_err", "hw_counters/rnr_nak_retry_err"),
    ("ib_hw_req_cqe_error", "hw_counters/req_cqe_error"),
    ("ib_hw_roce_slow_restart", "hw_counters/roce_slow_restart"),
    ("ib_hw_implied_nak_seq_err", "hw_counters/implied_nak_seq_err"),
)

# Lines of the kernel log that can matter to a training job; everything else stays on the node.
MATTERS = re.compile(
    rb"NVRM|nvidia|\bSXid\b|\bAER\b|pcieport|PCIe Bus Error|mlx[45]|infiniband|\bib_|\bib\d|nvme|I/O error|EXT4-fs|"
    rb"XFS|\bata\d|\boom|Out of memory|Killed process|\bmce:|\bMCE\b|EDAC|Hardware Error|blocked for more than|"
    rb"soft lockup|hard LOCKUP|\bBUG\b|segfault|Call Trace|rcu.*stall|NETDEV WATCHDOG|"
    rb"(?:nfs|lustre|lnet).*(?:not responding|timed out)|"
    rb"thermal|throttl",
    re.IGNORECASE,
)
# These have their own allowance, so that a flood of lesser lines cannot wash them away.
URGENT = re.compile(rb"Xid|Killed process|Out of memory|blocked for more than|lockup", re.IGNORECASE)


# ---------------------------------------------------------------- files


def read_file(path):
    """Return the bytes of a file under the root; OSError when it cannot be read."""
    descriptor = os.open(ROOT + path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, 65536)
        if len(content) < 4096:
            return content
        parts = [content]
        while content:
            content = os.read(descriptor, 65536)
            parts.append(content)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def reason_of(error):
    """Return the wire's word for why a file could not be read."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP):
        return "unsupported"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission"
    return "error"


def read_text(path):
    """Return the stripped text of a small file, or an empty string when it cannot be read."""
    try:
        return read_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def list_names(path):
    """Return the sorted names in a directory under the root, none when it cannot be read."""
    try:
        return sorted(os.listdir(ROOT + path))
    except OSError:
        return []


# ---------------------------------------------------------------- host


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
            lines = read_file("/proc/stat").split(b"\n")
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
            word = reason_of(error)
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
            for line in read_file("/proc/meminfo").split(b"\n"):
                key, _, rest = line.partition(b":")
                if key in (b"MemAvailable", b"MemTotal", b"Dirty", b"Writeback"):
                    found[key] = int(rest.split()[0])
        except OSError as error:
            values.update(dict.fromkeys(names, reason_of(error)))
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
            values["load1"] = float(read_file("/proc/loadavg").split()[0])
        except OSError as error:
            values["load1"] = reason_of(error)
        except (ValueError, IndexError):
            values["load1"] = "error"

    def read_pressure(self, name, kind):
        """Return avg10 of one line of /proc/pressure; kernels without PSI, or with it switched off, have none."""
        try:
            for line in read_file("/proc/pressure/" + name).split(b"\n"):
                if line.startswith(kind):
                    return float(line.split()[1].partition(b"=")[2])
        except OSError as error:
            return reason_of(error)
        except (ValueError, IndexError):
            return "error"
        return "unsupported"

    def count_gpus(self):
        """Return how many NVIDIA 3D or VGA controllers the PCI bus shows."""
        base = "/sys/bus/pci/devices"
        try:
            names = os.listdir(ROOT + base)
        except OSError as error:
            return reason_of(error)
        known = self.pci_is_gpu
        for name in names:
            if name not in known:
                known[name] = read_text("%s/%s/vendor" % (base, name)) == "0x10de" and read_text(
                    "%s/%s/class" % (base, name)
                ).startswith(("0x0302", "0x0300"))
        return sum(1 for name in names if known[name])


# ---------------------------------------------------------------- InfiniBand and RoCE


class Ports:
    """The ports under /sys/class/infiniband."""

    def __init__(self):
        self.known = {}

    def read(self):
        """Return (identities, {metric: values in the order of the identities})."""
        base = "/sys/class/infiniband"
        found = []
        for device in list_names(base):
            numbers = [int(name) for name in list_names("%s/%s/ports" % (base, device)) if name.isdigit()]
            found.extend((device, number) for number in sorted(numbers))
        # Adapters sort as people count them: mlx5_2 before mlx5_10.
        found.sort(
            key=lambda port: ([int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", port[0])], port)
        )
        self.known = {port: self.known.get(port) or self.identify(*port) for port in found}
        values = {}
        if found:
            paths = ["%s/%s/ports/%d/" % (base, device, number) for device, number in found]
            values = {metric: [self.value(path + name) for path in paths] for metric, name in PORT_FILES}
        return [self.known[port] for port in found], values

    @staticmethod
    def identify(device, number):
        """Return what is fixed about a port."""
        base = "/sys/class/infiniband/" + device
        identity = {"device": device, "port": number}
        identity["layer"] = read_text("%s/ports/%d/link_layer" % (base, number))
        identity["pci"] = os.path.basename(os.path.realpath(ROOT + base + "/device"))
        if ":" not in identity["pci"]:
            identity["pci"] = ""
        names = list_names(base + "/device/net")
        fitting = [name for name in names if read_text("%s/device/net/%s/dev_port" % (base, name)) == str(number - 1)]
        identity["netdev"] = (fitting or names or [""])[0]
        return identity

    @staticmethod
    def value(path):
        """Return the number that a port's file begins with, or the word for why there is none."""
        try:
            text = read_file(path)
        except OSError as error:
            return reason_of(error)
        if text.startswith(b"N/A"):
            return "unsupported"
        try:
            number = float(text.split()[0].rstrip(b":")) if b"." in text else int(text.split()[0].rstrip(b":"))
        except (ValueError, IndexError):
            return "error"
        return int(number) if number == int(number) else number


# ---------------------------------------------------------------- kernel log


class KernelLog:
    """The kernel's log, from the best source that this user may read; read once a tick, never waited for."""

    def __init__(self):
        self.kind = None
        self.descriptor = -1
        self.pid = 0
        self.rest = b""
        self.tried = []
        self.notes = {}
        self.since = time.time() - HISTORY_S
        self.boot = time.time() - time.monotonic()
        self.dropped = 0
        self.lost = False
        self.dmesg_at = 0.0
        self.dmesg_seen = (-1.0, frozenset())

    def open(self):
        """Choose the source."""
        denied = False
        self.tried.append("/dev/kmsg")
        try:
            self.descriptor = os.open(ROOT + "/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.kind = "kmsg"
            return
        except OSError as error:
            denied = reason_of(error) == "permission"
        if self.may_read_journal() and self.start(
            ["journalctl", "-k", "-f", "-o", "short-unix", "-n", "200", "--no-pager"]
        ):
            self.kind = "journal"
            return
        self.tried.append("journalctl")
        if not ROOT and self.start(["dmesg", "-r"]):
            self.kind = "dmesg"
            return
        self.give_up(denied)

    def give_up(self, denied):
        """Note that there is no log to be had, and why."""
        self.kind = None
        self.tried.append("dmesg")
        self.notes = {
            "kernel_log": "permission" if denied else "unsupported",
            "kernel_log_tried": ", ".join(self.tried),
        }

    @staticmethod
    def may_read_journal():
        """Tell whether the system's journal can be opened; journalctl itself would follow the user's own instead."""
        for base in ("/run/log/journal", "/var/log/journal"):
            for machine in list_names(base):
                if os.access("%s%s/%s/system.journal" % (ROOT, base, machine), os.R_OK):
                    return True
        return False

    def start(self, arguments):
        """Start a program that prints the log; False when it is not there."""
        for folder in ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"):
            if os.access(folder + arguments[0], os.X_OK):
                self.pid, into, self.descriptor = spawn([folder + arguments[0], *arguments[1:]])
                os.close(into)
                os.set_blocking(self.descriptor, False)
                return True
        return False

    def stop(self):
        """End the program that prints the log, if one does."""
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGTERM)
            except OSError:
                pass

    def read(self, now):
        """Return the events that came since the call before, as (wall time, level, text), oldest first."""
        if self.kind is None:
            return []
        left = {True: LINES_A_TICK, False: LINES_A_TICK}
        events = []
        for wall, level, text in self.lines(now):
            if wall < self.since or not MATTERS.search(text):
                continue
            urgent = URGENT.search(text) is not None
            if not left[urgent]:
                self.dropped += 1
                continue
            left[urgent] -= 1
            events.append((wall, level, text[:LONGEST_TEXT].decode("utf-8", "replace")))
        return events

    def take_losses(self):
        """Return words for what was left out since the call before, or an empty string."""
        words = []
        if self.dropped:
            words.append("%d kernel log lines left out: more than %d a tick" % (self.dropped, LINES_A_TICK))
        if self.lost:
            words.append("kernel log lines were overwritten before they could be read")
        self.dropped, self.lost = 0, False
        return "; ".join(words)

    def lines(self, now):
        """Yield (wall time, level, text) of each new line."""
        if self.kind == "kmsg":
            return self.kmsg_lines()
        if self.kind == "journal":
            return self.journal_lines()
        return self.dmesg_lines(now)

    def chunks(self, most):
        """Yield what can be read without waiting, `most` reads at most; b"" at the end of the stream."""
        for _ in range(most):
            try:
                part = os.read(self.descriptor, 65536)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # The ring overtook this reader; the next read goes on with the oldest record that is left.
                    self.lost = True
                    continue
                if error.errno != errno.EAGAIN:
                    yield b""
                return
            yield part
            if not part:
                return

    def kmsg_lines(self):
        """Yield from /dev/kmsg: `level,seq,usec,flags;text`, then lines with a blank in front that say more."""
        for record in self.chunks(20000):
            lines = (self.rest + record).split(b"\n")
            self.rest = lines.pop()[-LONGEST_CONTROL:]
            for line in lines:
                head, mark, text = line.partition(b";")
                if not mark or line.startswith(b" "):
                    continue
                try:
                    fields = head.split(b",")
                    level, stamp = int(fields[0]) & 7, int(fields[2]) / 1e6
                except (ValueError, IndexError):
                    continue
                yield self.boot + stamp, level, text

    def journal_lines(self):
        """Yield from journalctl: `1773454031.104233 host kernel: text`."""
        for part in self.chunks(16):
            if not part:
                self.leave_source()
                return
            lines = (self.rest + part).split(b"\n")
            self.rest = lines.pop()[-LONGEST_CONTROL:]
            for line in lines:
                fields = line.split(b" ", 3)
                try:
                    wall = float(fields[0])
                    text = fields[3]
                except (ValueError, IndexError):
                    continue
                if fields[2].startswith(b"kernel"):
                    yield wall, None, text

    def leave_source(self):
        """The journal's reader ended: go on with dmesg."""
        os.close(self.descriptor)
        reap(self.pid)
        self.pid, self.rest = 0, b""
        self.tried.append("journalctl")
        if ROOT or not self.start(["dmesg", "-r"]):
            self.give_up(True)
            return
        self.kind = "dmesg"

    def dmesg_lines(self, now):
        """Yield from `dmesg -r`, run again every ten seconds: `<4>[12345.678901] text`."""
        if self.descriptor < 0:
            if now >= self.dmesg_at:
                self.start(["dmesg", "-r"])
            return
        done = False
        for part in self.chunks(64):
            done = not part
            self.rest += part
        if not done:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        status = reap(self.pid)
        self.pid, text, self.rest = 0, self.rest, b""
        self.dmesg_at = now + 10.0
        if status and not text:
            self.give_up(True)
            return
        for stamp, level, line in self.new_dmesg_lines(text):
            yield self.boot + stamp, level, line

    def new_dmesg_lines(self, text):
        """Return the lines of a whole dmesg that the one before did not have."""
        last, at_last = self.dmesg_seen
        newest, at_newest, fresh = last, set(at_last), []
        for line in text.split(b"\n"):
            match = re.match(rb"<(\d+)>\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])? ?(.*)", line)
            if not match:
                continue
            stamp = float(match.group(2))
            if stamp < last or (stamp == last and match.group(3) in at_last):
                continue
            fresh.append((stamp, int(match.group(1)) & 7, match.group(3)))
            if stamp > newest:
                newest, at_newest = stamp, set()
            if stamp == newest:
                at_newest.add(match.group(3))
        self.dmesg_seen = (newest, frozenset(at_newest))
        return fresh


# ---------------------------------------------------------------- processes


def spawn(arguments, detached=False):
    """Start a program with pipes; return (pid, its standard input, its standard output). Its errors go nowhere: a
    child that outlives the probe must not hold the channel open. A detached one gets no signal that is meant for the
    probe's group."""
    child_in, into = os.pipe()
    out, child_out = os.pipe()
    nowhere = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            if detached:
                os.setsid()
            os.dup2(child_in, 0)
            os.dup2(child_out, 1)
            os.dup2(nowhere, 2)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execv(arguments[0], arguments)
        finally:
            os._exit(127)
    for descriptor in (child_in, child_out, nowhere):
        os.close(descriptor)
    return pid, into, out


def reap(pid):
    """Return the exit status of a child that has closed its output, 0 when it takes more than a moment to end."""
    for _ in range(20):
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except OSError:
            return 0
        if done:
            return status
        time.sleep(0.005)
    return 0


def command_of(pid):
    """Return the arguments of a process, none when it is gone."""
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def stuck_child():
    """Return the pid of an NVML child of this user that has lost its probe, or 0."""
    mark, probe, own = CHILD_MARK.encode(), PROBE_MARK.encode(), os.getuid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or mark not in command_of(name):
            continue
        try:
            if os.stat("/proc/" + name).st_uid != own:
                continue
            with open("/proc/%s/stat" % name, "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X") and probe not in command_of(parent.decode()):
            return int(name)
    return 0


# ---------------------------------------------------------------- NVML, inside the child


class Driver:
    """NVML through pynvml. One GPU that fails costs only its own values."""

    CODES = {3: "unsupported", 4: "permission", 13: "unsupported", 15: "lost", 25: "unsupported"}
    FOLDERS = (
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/local/nvidia/lib64",
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
        "/run/nvidia/driver/usr/lib64",
        "/home/kubernetes/bin/nvidia/lib64",
        "/run/opengl-driver/lib",
        "/usr/lib/wsl/lib",
    )
    """Where the library is when the dynamic loader does not know: containers, driver operators, NixOS."""
    REFUSALS = {
        6: "no devices",
        9: "no driver loaded",
        12: "no NVML library",
        18: "driver/library version mismatch",
        4: "permission",
    }

    def __init__(self, nvml):
        self.nvml = nvml
        self.identities = []
        self.known = []
        self.handles = []
        self.pcie = []
        self.next_pcie = 0

    def open(self):
        """Initialise the driver's library; return an empty string, or short words for why it refuses."""
        # Here, so that only the child has it in memory.
        import ctypes

        for folder in ("", *self.FOLDERS):
            try:
                if folder:
                    # Once loaded from anywhere, the loader finds it by its bare name.
                    ctypes.CDLL(ROOT + folder + "/libnvidia-ml.so.1")
                self.nvml.nvmlInit()
                return ""
            except OSError:
                continue
            except self.nvml.NVMLError as error:
                if error.value != 12:
                    return self.REFUSALS.get(error.value, "NVML error %d" % error.value)
        return self.REFUSALS[12]

    def attempt(self, question, *arguments):
        """Return the driver's answer, or the word for why there is none."""
        try:
            return question(*arguments)
        except self.nvml.NVMLError as error:
            return self.CODES.get(error.value, "error")
        except (UnicodeDecodeError, ValueError):
            return "error"

    def read(self):
        """Return one round of answers about all GPUs."""
        started = time.monotonic()
        try:
            count = self.nvml.nvmlDeviceGetCount()
        except self.nvml.NVMLError as error:
            return {"note": self.REFUSALS.get(error.value, "NVML error %d" % error.value)}
        while len(self.identities) < count:
            self.identities.append({"index": len(self.identities)})
            self.known.append(False)
            self.handles.append(None)
            self.pcie.append(("waiting", "waiting"))
        columns = {metric: [] for metric in GPU_METRICS}
        working = 0
        for index in range(len(self.identities)):
            values = self.read_gpu(index)
            working += values["gpu_handle_error"] == 0
            for metric in GPU_METRICS:
                columns[metric].append(values[metric])
        return {
            "gpus": self.identities,
            "gpu": columns,
            "node": {"gpu_count": working, "nvml_latency": round((time.monotonic() - started) * 1000, 1)},
            "note": "" if self.identities else "no devices",
        }

    def read_gpu(self, index):
        """Return all values of one GPU."""
        self.handles[index] = None
        try:
            handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            return self.broken(index, error.value)
        if not self.known[index]:
            self.identify(index, handle)
        values = self.ask(handle)
        if "lost" in values.values():
            return self.broken(index, 15)
        self.handles[index] = handle
        values["gpu_pcie_rx"], values["gpu_pcie_tx"] = self.pcie[index]
        values["gpu_handle_error"] = 0
        return values

    def broken(self, index, code):
        """Return the values of a GPU that does not work; it keeps its place and its last known identity."""
        self.known[index] = False
        self.pcie[index] = ("waiting", "waiting")
        values = dict.fromkeys(GPU_METRICS, "lost" if code == 15 else "permission" if code == 4 else "error")
        values["gpu_handle_error"] = code
        return values

    def identify(self, index, handle):
        """Learn what is fixed about a GPU."""
        name = self.attempt(self.nvml.nvmlDeviceGetName, handle)
        uuid = self.attempt(self.nvml.nvmlDeviceGetUUID, handle)
        if name in self.CODES.values() or uuid in self.CODES.values():
            return
        identity = {"index": index, "name": name, "uuid": uuid}
        place = self.attempt(self.nvml.nvmlDeviceGetPciInfo, handle)
        if not isinstance(place, str):
            # The driver writes 00000000:4F:00.0, sysfs 0000:4f:00.0.
            address = place.busId
            if isinstance(address, bytes):
                address = address.decode("ascii", "replace")
            address = address.lower()
            identity["pci"] = address[4:] if address.startswith("0000") and len(address) == 16 else address
        self.identities[index] = identity
        self.known[index] = True

    def ask(self, handle):
        """Return what the driver says about one working GPU, PCIe traffic apart."""
        nvml, attempt = self.nvml, self.attempt
        values = {
            "gpu_sm_clock": attempt(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "gpu_power_draw": watts(attempt(nvml.nvmlDeviceGetPowerUsage, handle)),
            "gpu_power_limit": watts(attempt(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
            "gpu_temp_margin": attempt(nvml.nvmlDeviceGetMarginTemperature, handle),
        }
        busy = attempt(nvml.nvmlDeviceGetUtilizationRates, handle)
        plain = isinstance(busy, str)
        values["gpu_util"] = busy if plain else busy.gpu
        values["gpu_mem_copy_util"] = busy if plain else busy.memory
        # What a newer driver has under a new name, an older one has under the old.
        values["gpu_temp"] = attempt(nvml.nvmlDeviceGetTemperatureV, handle, nvml.NVML_TEMPERATURE_GPU)
        if values["gpu_temp"] == "unsupported":
            values["gpu_temp"] = attempt(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        reasons = attempt(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
        if reasons == "unsupported":
            reasons = attempt(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        values["gpu_clocks_event_reasons"] = reasons
        memory = attempt(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
        if memory == "unsupported":
            memory = attempt(nvml.nvmlDeviceGetMemoryInfo, handle)
        plain = isinstance(memory, str)
        values["gpu_fb_used"] = memory if plain else round(memory.used / 1048576.0)
        values["gpu_fb_total"] = memory if plain else round(memory.total / 1048576.0)
        self.ask_fields(handle, values)
        return values

    def ask_fields(self, handle, values):
        """Fill in what only field ids give. The ids used here are the same in every driver; scope 2**32 - 1 means all
        links, whose traffic is counted in KiB."""
        nvml = self.nvml
        every_link = 0xFFFFFFFF
        fields = [
            ("gpu_mem_temp", nvml.NVML_FI_DEV_MEMORY_TEMP),
            ("nvlink_tx", (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, every_link)),
            ("nvlink_rx", (nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, every_link)),
        ]
        values.update(zip([name for name, _ in fields], self.fields(handle, [field for _, field in fields])))
        for metric, field in (
            ("nvlink_tx", nvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES),
            ("nvlink_rx", nvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES),
        ):
            if values[metric] == "unsupported":
                # The fifth generation of NVLink counts bytes, link by link.
                links = self.fields(handle, [(field, link) for link in range(18)])
                counted = [count for count in links if not isinstance(count, str)]
                if counted:
                    values[metric] = int(sum(counted)) // 1024

    def fields(self, handle, fields):
        """Return the values of field ids, each with its own reason when it is missing."""
        answers = self.attempt(self.nvml.nvmlDeviceGetFieldValues, handle, fields)
        if isinstance(answers, str):
            return [answers] * len(fields)
        return [self.field_value(answer) for answer in answers]

    def field_value(self, answer):
        """Return the number in a field's answer, or the word for why there is none."""
        if answer.nvmlReturn:
            return self.CODES.get(answer.nvmlReturn, "error")
        kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        if answer.valueType >= len(kinds):
            return "error"
        return getattr(answer.value, kinds[answer.valueType])

    def sample_pcie(self, most):
        """Sample the PCIe traffic of the next `most` GPUs in turn, between two rounds: the driver sleeps meanwhile. The
        next question, or the end of questions, breaks it off."""
        nvml = self.nvml
        for position in range(min(most, len(self.handles))):
            if position and select.select([0], [], [], 0)[0]:
                return
            index = self.next_pcie % len(self.handles)
            self.next_pcie = index + 1
            handle = self.handles[index]
            if handle is not None:
                self.pcie[index] = (
                    self.attempt(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
                    self.attempt(nvml.nvmlDeviceGetPcieThroughput, handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
                )


def watts(value):
    """Return milliwatts as watts to a tenth, and a reason as it is."""
    return value if isinstance(value, str) else round(value / 1000.0, 1)


def load_nvml(source):
    """Return the pynvml module made from its source; it looks itself up in sys.modules while it is built."""
    module = type(sys)("pynvml")
    sys.modules["pynvml"] = module
    exec(compile(source, "pynvml", "exec"), module.__dict__)  # noqa: S102 - our own payload, from the console
    return module


def child_main(source):
    """Answer rounds of questions until the pipe closes. A question is a line that holds the seconds between ticks."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    driver = Driver(load_nvml(source))
    refusal = driver.open()
    pending, sampled = b"", False
    while True:
        while b"\n" not in pending:
            part = os.read(0, 4096)
            if not part:
                return
            pending += part
        line, _, pending = pending.partition(b"\n")
        answer = {"note": refusal} if refusal else driver.read()
        write_all(1, json.dumps(answer, separators=(",", ":")).encode("ascii") + b"\n")
        if "gpus" not in answer:
            # The library keeps what it found at its first call: only a new process can find something else.
            return
        # The first time all of them, so that nobody waits ten seconds for a first value.
        share = min(1.0, float(line) / PCIE_S) if sampled else 1.0
        driver.sample_pcie(math.ceil(len(driver.identities) * share))
        sampled = True


# ---------------------------------------------------------------- NVML, seen from the probe


class Gpus:
    """The NVML child and its last answer."""

    def __init__(self):
        self.pid = 0
        self.into = self.out = -1
        self.rest = b""
        self.asked_at = None
        self.start_at = None
        self.grace_ends = None
        self.note = "starting"
        self.stuck = 0
        self.identities = []
        self.values = {}
        self.node = dict.fromkeys(("gpu_count", "nvml_latency"), "waiting")
        if not PYNVML:
            self.note = "console has no pynvml"
            self.node = dict.fromkeys(self.node, "unsupported")

    def notes(self):
        """Return what the frame has to say about the driver."""
        notes = {"nvml": self.note} if self.note else {}
        if self.stuck:
            notes["nvml_pid"] = str(self.stuck)
        return notes

    def values_now(self):
        """Return the columns for a line of this moment: while an answer is out, what counts NVLink traffic was not
        read, which is not the same as standing still."""
        if self.asked_at is None or self.note or not self.values:
            return self.values
        values = dict(self.values)
        for metric in ("nvlink_rx", "nvlink_tx"):
            values[metric] = [cell if isinstance(cell, str) else "waiting" for cell in values[metric]]
        return values

    def refuse(self, words, pci_count):
        """Take note of a driver that cannot be asked."""
        self.note = words
        if words == "no devices":
            self.node = {"gpu_count": 0, "nvml_latency": "absent"}
        else:
            self.node = dict.fromkeys(("gpu_count", "nvml_latency"), "absent" if pci_count == 0 else "error")
        self.values = {metric: ["error"] * len(self.identities) for metric in GPU_METRICS} if self.identities else {}

    def ask(self, now, tick_s):
        """Start a round, unless the one before is still out; start the child first when it is due."""
        if not PYNVML:
            return
        if not self.pid:
            if self.start_at is None:
                self.start_at = now
                self.grace_ends = now + 2.0
            if now < self.start_at or not self.start(now):
                return
        if self.asked_at is None:
            try:
                os.write(self.into, b"%.3f\n" % tick_s)
                self.asked_at = now
            except OSError:
                # It has ended; reading its pipe says so.
                self.asked_at = now

    def start(self, now):
        """Start the child unless one from an earlier probe is stuck; False when none was started."""
        self.stuck = stuck_child()
        if self.stuck:
            # One that only lost its probe a moment ago is still on its way out.
            if now < self.grace_ends:
                self.start_at = now + 0.3
                self.stuck = 0
            else:
                self.hang(now)
                self.start_at = now + LOOK_AGAIN_S
            return False
        if self.note == "hung":
            self.note = "starting"
        executable = sys.executable or "/proc/self/exe"
        self.pid, self.into, self.out = spawn([executable, "-I", "-S", "-c", BOOTSTRAP, CHILD_MARK], detached=True)
        os.set_blocking(self.out, False)
        self.rest = b""
        try:
            write_all(self.into, b"%d\n%s" % (len(BLOB), BLOB))
        except OSError:
            pass
        return True

    def hang(self, now):
        """Say of every value that the driver does not answer."""
        self.note = "hung"
        self.values = {metric: ["hung"] * len(self.identities) for metric in GPU_METRICS} if self.identities else {}
        self.node = dict.fromkeys(("gpu_count", "nvml_latency"), "hung")

    def check(self, now):
        """Declare the driver hung when its answer is overdue; True when that is new."""
        if self.pid and self.asked_at is not None and now - self.asked_at > HUNG_S and not self.stuck:
            self.stuck = self.pid
            self.hang(now)
            return True
        return False

    def take(self, now, pci_count):
        """Read what the child has said; True when an answer is complete."""
        answered = False
        while self.out >= 0:
            try:
                part = os.read(self.out, 65536)
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    break
                part = b""
            if not part:
                return self.ended(now, pci_count) or answered
            self.rest += part
            line, mark, rest = self.rest.rpartition(b"\n")
            if mark:
                self.rest = rest
                self.accept(json.loads(line.rpartition(b"\n")[2].decode("ascii")), pci_count)
                answered = True
        return answered

    def accept(self, answer, pci_count):
        """Take over a round of answers."""
        self.asked_at = None
        self.stuck = 0
        if "gpus" not in answer:
            self.refuse(answer["note"], pci_count)
            return
        self.note = answer["note"]
        self.identities = answer["gpus"]
        self.values = answer["gpu"] if answer["gpus"] else {}
        self.node = answer["node"]

    def ended(self, now, pci_count):
        """The child is gone: start another one later. True when that is news, because it had not said why."""
        os.close(self.into)
        os.close(self.out)
        status = reap(self.pid)
        unexpected = self.asked_at is not None
        if unexpected:
            died = "child died, signal %d" % (status & 127) if status & 127 else "child ended"
            self.refuse(died, pci_count)
        self.pid, self.into, self.out, self.asked_at, self.stuck = 0, -1, -1, None, 0
        # No library means no driver package: that does not change while a console watches.
        self.start_at = now + (LOOK_AGAIN_S * 10 if self.note == "no NVML library" else LOOK_AGAIN_S)
        self.grace_ends = self.start_at
        return unexpected


# ---------------------------------------------------------------- the wire


def write_all(descriptor, data):
    """Write everything; a reader that does not read makes this wait, so nothing piles up."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def number_or_none(value):
    """Return a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def changed(old, new):
    """Return what a delta says about one scope of single values."""
    return {key: value for key, value in new.items() if key not in old or old[key] != value}


def changed_lists(old, new):
    """Return what a delta says about one scope of lists: null where a value stands."""
    delta = {}
    for key, values in new.items():
        before = old.get(key, [])
        if len(before) != len(values):
            delta[key] = values
        elif before != values:
            delta[key] = [None if value == past else value for value, past in zip(values, before)]
    return delta


class Probe:
    """Reads, compares with what was sent before, and prints."""

    def __init__(self, nonce, tick_s):
        self.nonce = nonce
        self.tick_s = tick_s
        self.seq = 0
        self.sent = None
        self.full_at = 0.0
        self.full_asked = False
        self.commands = collections.deque(maxlen=1000)
        self.host = Host()
        self.ports = Ports()
        self.log = KernelLog()
        self.gpus = Gpus()
        self.host_values = {}
        self.port_state = ([], {})
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)

    # ------------------------------------------------ ends

    def end(self):
        """End at once, whatever else goes on; the NVML child sees its pipe close."""
        self.log.stop()
        os._exit(0)

    def watch(self, signals):
        """Wait for control lines, for their end, and for signals; runs in a thread because reading /sys may block."""
        pending = b""
        skipping = False
        while True:
            try:
                ready = select.select([0, signals], [], [])[0]
                if signals in ready:
                    self.end()
                part = os.read(0, 65536)
            except OSError:
                part = b""
            if not part:
                self.end()
            pending += part
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                if not skipping:
                    self.command(line)
                skipping = False
            if len(pending) > LONGEST_CONTROL:
                pending, skipping = b"", True

    def command(self, line):
        """Queue one control line; a broken one costs only itself."""
        try:
            message = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            self.commands.append(message)
            try:
                os.write(self.wake_write, b"x")
            except OSError:
                pass

    # ------------------------------------------------ lines

    def put(self, kind, now, wall, fields):
        """Print one line; the console being gone is the end."""
        line = {"t": kind, "seq": self.seq, "mono": round(now, 3), "wall": round(wall, 3)}
        line.update(fields)
        data = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        if not self.seq:
            data = ("%s %s\n" % (SCHEMA, self.nonce)).encode("ascii", "replace") + data
        self.seq += 1
        try:
            write_all(1, data)
        except OSError:
            self.end()

    def say_hello(self):
        """Print the sentinel and the first line."""
        system = os.uname()
        self.put(
            "hello",
            time.monotonic(),
            time.time(),
            {
                "schema": SCHEMA,
                "host": system.nodename,
                "kernel": system.release,
                "python": "%d.%d.%d" % sys.version_info[:3],
                "pid": os.getpid(),
                "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
                "tick_s": self.tick_s,
            },
        )

    def send_frame(self, now, wall, full):
        """Print a full frame, or what changed since the frame before."""
        notes = self.gpus.notes()
        notes.update(self.log.notes)
        node = dict(self.host_values)
        node.update(self.gpus.node)
        state = {
            "gpus": self.gpus.identities,
            "ports": self.port_state[0],
            "node": node,
            "gpu": self.gpus.values_now(),
            "port": self.port_state[1],
            "notes": notes,
        }
        past = self.sent
        if full or past is None or any(past[key] != state[key] for key in ("gpus", "ports")) or now >= self.full_at:
            self.full_at = now + FULL_S
            self.put("full", now, wall, {key: value for key, value in state.items() if value})
        else:
            delta = {"node": changed(past["node"], node)}
            for scope in ("gpu", "port"):
                delta[scope] = changed_lists(past[scope], state[scope])
            delta = {key: value for key, value in delta.items() if value}
            if notes != past["notes"]:
                delta["notes"] = notes
            self.put("delta", now, wall, delta)
        # Copies: the lists of the next reading are new ones, the identities may be changed in place.
        state["gpus"] = list(state["gpus"])
        self.sent = state

    def send_events(self):
        """Print the new lines of the kernel log."""
        now, wall = time.monotonic(), time.time()
        for at, level, text in self.log.read(now):
            fields = {"source": "kernel", "text": text, "at": round(at, 6)}
            if level is not None:
                fields["level"] = level
            self.put("event", now, wall, fields)
        losses = self.log.take_losses()
        if losses:
            self.put("event", now, wall, {"source": "probe", "text": losses, "at": round(wall, 6)})

    # ------------------------------------------------ the loop

    def obey(self):
        """Carry out the queued control lines; True when the tick changed."""
        new_tick = False
        while self.commands:
            message = self.commands.popleft()
            verb = message.get("do")
            if verb == "tick":
                seconds = number_or_none(message.get("s"))
                if seconds is not None and 0 < seconds <= 3600:
                    self.tick_s = max(0.2, seconds)
                    new_tick = True
            elif verb == "full":
                self.full_asked = True
            elif verb == "run":
                number, name = message.get("id"), message.get("probe")
                if type(number) is int and abs(number) < 2**53 and isinstance(name, str):
                    plain = name[:200].encode("ascii", "replace").decode("ascii")
                    result = {"id": int(number), "probe": plain, "status": "unknown_probe"}
                    self.put("result", time.monotonic(), time.time(), result)
            elif verb == "stop":
                self.put("bye", time.monotonic(), time.time(), {"why": "stop"})
                self.end()
        return new_tick

    def wait(self, until):
        """Sleep until a monotonic time, a control line, or an answer of the NVML child; True when the child told
        something new."""
        timeout = max(0.0, until - time.monotonic())
        watched = [self.wake_read] + ([self.gpus.out] if self.gpus.out >= 0 else [])
        ready = select.select(watched, [], [], timeout)[0]
        if self.wake_read in ready:
            try:
                os.read(self.wake_read, 4096)
            except OSError:
                pass
        if self.gpus.out in ready:
            return self.gpus.take(time.monotonic(), self.host_values.get("gpu_count_pci"))
        return False

    def tick(self):
        """Ask the driver, wait for it as long as it is not slow, and send everything."""
        patient = not self.gpus.note and self.gpus.asked_at is None
        self.gpus.ask(time.monotonic(), self.tick_s)
        deadline = time.monotonic() + min(PATIENCE_S, 0.8 * self.tick_s)
        while patient and self.gpus.asked_at is not None and time.monotonic() < deadline:
            self.wait(deadline)
        self.gpus.check(time.monotonic())
        full, self.full_asked = self.full_asked, False
        self.report(full)

    def report(self, full):
        """Read the host and send it with what the driver said last. Every line has fresh counters, read at the line's
        own time: one that is not in a delta did not move."""
        now, wall = time.monotonic(), time.time()
        self.host_values = self.host.read(now)
        self.port_state = self.ports.read()
        self.send_frame(now, wall, full)

    def run(self):
        """Print frames for ever."""
        self.say_hello()
        now = time.monotonic()
        self.report(True)
        self.log.open()
        self.gpus.ask(time.monotonic(), self.tick_s)
        self.send_events()
        due = now + self.tick_s
        while True:
            if self.obey():
                due = time.monotonic()
            if self.full_asked or time.monotonic() >= due:
                asked = self.full_asked
                self.tick()
                self.send_events()
                if not asked:
                    # From the last due time, so that ticks do not drift; those that were missed are missed.
                    due += self.tick_s * max(1, math.ceil((time.monotonic() - due) / self.tick_s))
                continue
            until = due
            if self.gpus.asked_at is not None and not self.gpus.stuck:
                until = min(due, self.gpus.asked_at + HUNG_S + 0.01)
            elif not self.gpus.pid and self.gpus.start_at is not None:
                until = min(due, max(self.gpus.start_at, time.monotonic() + 0.05))
            answered = self.wait(until)
            now = time.monotonic()
            if not self.gpus.pid and self.gpus.start_at is not None and now >= self.gpus.start_at:
                noted = self.gpus.note
                self.gpus.ask(now, self.tick_s)
                answered = answered or noted != self.gpus.note
            if self.gpus.check(now) or answered:
                self.report(False)


def main():
    """Start as the probe or, by the marker in argv, as its NVML child."""
    # A fork with a thread about is what is wanted here: exec follows at once.
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == [CHILD_MARK]:
        try:
            child_main(PYNVML)
        except OSError:
            # The probe is gone.
            pass
        except Exception as error:
            words = {"note": "error in the NVML child: %s" % type(error).__name__}
            write_all(1, json.dumps(words).encode("ascii") + b"\n")
        os._exit(0)
    nonce, tick_s = ([*sys.argv[2:4], "", ""])[:2]
    try:
        os.nice(10)
    except OSError:
        pass
    probe = Probe(nonce, max(0.2, float(tick_s or 2)))
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _thread.start_new_thread(probe.watch, (wake_read,))
    try:
        probe.run()
    except Exception as error:
        # A defect of this program; the console gets to know it in words.
        probe.put("bye", time.monotonic(), time.time(), {"why": ("%s: %s" % (type(error).__name__, error))[:300]})
        probe.end()


if __name__ == "__main__":
    if "BLOB" not in globals():
        # Run as a file: the same payload, without pynvml.
        with open(__file__, "rb") as own_source:
            BLOB, PYNVML = zlib.compress(own_source.read() + b"\0"), b""
    main()
