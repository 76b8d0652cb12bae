"""The kernel's log: /dev/kmsg, else journalctl, else dmesg; of its lines, those that can matter to a training job."""

import os
import re
import signal
import time

import files
import processes

LINES_A_TICK = 200
HISTORY_S = 900.0
LONGEST_TEXT = 2000
LONGEST_REST = 65536

# Lines of the kernel log that can matter to a training job; everything else stays on the node. Both patterns are
# compiled when they are first used, so that the first frame does not wait for it.
MATTERS = (
    rb"NVRM|nvidia|\bSXid\b|\bAER\b|pcieport|PCIe Bus Error|mlx[45]|infiniband|\bib_|\bib\d|nvme|I/O error|EXT4-fs|"
    rb"XFS|\bata\d|\boom|Out of memory|Killed process|\bmce:|\bMCE\b|EDAC|Hardware Error|blocked for more than|"
    rb"soft lockup|hard LOCKUP|\bBUG\b|segfault|Call Trace|rcu.*stall|NETDEV WATCHDOG|"
    rb"(?:nfs|lustre|lnet).*(?:not responding|timed out)|"
    rb"thermal|throttl"
)
# These have their own allowance, so that a flood of lesser lines cannot wash them away.
URGENT = rb"Xid|Killed process|Out of memory|blocked for more than|lockup"


class KernelLog:
    """The kernel's log, from the best source that this user may read; read once a tick, never waited for."""

    def __init__(self):
        self.kind = None
        self.descriptor = -1
        self.pid = 0
        self.rest = b""
        self.tried = []
        self.notes = {}
        self.boot = 0.0
        self.dropped = 0
        self.lost = False
        self.dmesg_at = 0.0
        self.dmesg_seen = ()

    def open(self):
        """Choose the source."""
        denied = False
        self.tried.append("/dev/kmsg")
        try:
            self.descriptor = os.open(files.ROOT + "/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            self.kind = "kmsg"
            return
        except OSError as error:
            denied = files.reason_of(error) == "permission"
        if self.may_read_journal() and self.start(
            ["journalctl", "-k", "-f", "-o", "short-unix", "-n", "200", "--no-pager"]
        ):
            self.kind = "journal"
            return
        self.tried.append("journalctl")
        if not files.ROOT and self.start(["dmesg", "-r"]):
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
            for machine in files.list_names(base):
                if os.access("%s%s/%s/system.journal" % (files.ROOT, base, machine), os.R_OK):
                    return True
        return False

    def start(self, arguments):
        """Start a program that prints the log; False when it is not to be had."""
        for folder in ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"):
            if os.access(folder + arguments[0], os.X_OK):
                try:
                    self.pid, into, self.descriptor = processes.spawn([folder + arguments[0], *arguments[1:]])
                except OSError:
                    # No room for one more process just now; dmesg, run again and again, has its chance next time.
                    return arguments[0] == "dmesg"
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
        # Worked out each time: the wall clock of a node may be set while the probe runs.
        until = time.time()
        self.boot = until - time.monotonic()
        for wall, level, text in self.lines(now):
            if wall < until - HISTORY_S or not re.search(MATTERS, text, re.IGNORECASE):
                continue
            urgent = re.search(URGENT, text, re.IGNORECASE) is not None
            if not left[urgent]:
                self.dropped += 1
                continue
            left[urgent] -= 1
            events.append((wall, level, files.as_text(text[:LONGEST_TEXT])))
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
            except BrokenPipeError:
                # The ring overtook this reader; the next read goes on with the oldest record that is left.
                self.lost = True
                continue
            except BlockingIOError:
                return
            except OSError:
                part = b""
            yield part
            if not part:
                return

    def kmsg_lines(self):
        """Yield from /dev/kmsg: `level,seq,usec,flags;text`, then lines with a blank in front that say more."""
        for record in self.chunks(20000):
            lines = (self.rest + record).split(b"\n")
            self.rest = lines.pop()[-LONGEST_REST:]
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
            self.rest = lines.pop()[-LONGEST_REST:]
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
        processes.reap(self.pid)
        self.pid, self.descriptor, self.rest = 0, -1, b""
        self.tried.append("journalctl")
        if files.ROOT or not self.start(["dmesg", "-r"]):
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
        status = processes.reap(self.pid)
        self.pid, text, self.rest = 0, self.rest, b""
        self.dmesg_at = now + 10.0
        if status and not text:
            self.give_up(True)
            return
        for stamp, level, line in self.new_dmesg_lines(text):
            yield self.boot + stamp, level, line

    def new_dmesg_lines(self, text):
        """Return the lines of a whole dmesg that the one before did not have."""
        lines, fresh = text.split(b"\n"), []
        for line in lines:
            match = re.match(rb"<(\d+)>\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])? ?(.*)", line)
            if match and line not in self.dmesg_seen:
                fresh.append((float(match.group(2)), int(match.group(1)) & 7, match.group(3)))
        self.dmesg_seen = frozenset(lines)
        return fresh
