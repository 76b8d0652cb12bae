"""The probe: it runs on a node, reads what the kernel and the NVIDIA driver say, and prints `stethoscope.probe/1`.

Python 3.6 or newer and its standard library; nothing is written to the node's disk. This is the entry: it has the
beat, the lines, the control line and the end; the parts beside it read. They are flat modules here; on a node they are
one text in memory, with short names, in two pieces: that of what is read rarely follows the first frame. Two processes
run: the probe itself, and its NVML child (nvml_child.py), which alone talks to the driver, so that a driver that hangs
takes nothing else along. The child reads questions from its standard input and ends when that closes; it is never
killed. STETHOSCOPE_ROOT puts another tree in place of /sys, /proc and /dev.
"""

import _thread
import collections
import json
import math
import os
import select
import signal
import sys
import time

import files
import processes
from fabric import Ports
from host import Host
from kernel_log import KernelLog
from nvml import PROBE_NAME, Gpus

SCHEMA = "stethoscope.probe/1"
PATIENCE_S = 1.5
"""So long a frame waits for the driver; a later answer goes out in a line of its own."""
FULL_S = 60.0
LONGEST_CONTROL = 65536


def control_of(line):
    """Return what a control line says; a broken one says nothing, and costs only itself."""
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return {}
    if not isinstance(message, dict) or message.get("bytes", 0) not in range(LONGEST_CONTROL):
        return {}
    return message


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

    def __init__(self, nonce, tick_s, nvml_payload, inflate=None):
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
        self.gpus = Gpus(nvml_payload)
        self.inflate = inflate
        self.rare = None
        self.host_values = {}
        self.port_state = ([], {})
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)

    # ------------------------------------------------ ends

    def end(self):
        """End at once, whatever else goes on; the NVML child sees its pipe close."""
        self.log.stop()
        if self.rare:
            self.rare.end()
        # A read of /sys that never returns would keep this process, and with it the channel and the child's pipe.
        os.closerange(0, 64)
        os._exit(0)

    def listen(self, signals):
        """Wait for control lines, for their end, and for signals; runs in a thread because reading /sys may block."""
        pending = b""
        skipping = False
        message = {}
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
            while True:
                if not message:
                    line, end, rest = pending.partition(b"\n")
                    if not end:
                        if len(pending) > LONGEST_CONTROL:
                            pending, skipping = b"", True
                        break
                    pending = rest
                    message = {} if skipping else control_of(line)
                    skipping = False
                # What follows a line that says so many bytes is no line, whatever is in it.
                size = int(message.get("bytes", 0))
                if len(pending) < size:
                    break
                message["packed"], pending = pending[:size], pending[size:]
                self.commands.append(message)
                self.wake()
                message = {}

    def wake(self):
        """Let the main loop look at what other threads have for it."""
        try:
            os.write(self.wake_write, b"x")
        except OSError:
            pass

    # ------------------------------------------------ lines

    def put(self, kind, now, wall, fields):
        """Print one line; the console being gone is the end."""
        line = {"t": kind, "seq": self.seq, "mono": round(now, 3), "wall": round(wall, 3)}
        line.update(fields)
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if not self.seq:
            data = ("%s %s\n" % (SCHEMA, self.nonce)).encode() + data
        self.seq += 1
        try:
            # A reader that does not read makes this wait, so nothing piles up.
            while data:
                data = data[os.write(1, data) :]
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
                "boot_id": files.read_text("/proc/sys/kernel/random/boot_id"),
                "tick_s": self.tick_s,
            },
        )

    def send_frame(self, now, wall, full):
        """Print a full frame, or what changed since the frame before."""
        notes = self.gpus.notes()
        notes.update(self.log.notes)
        if self.rare:
            notes.update(self.rare.notes(now))
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

    def watch(self, message):
        """Begin to read what is read rarely, or read something else from now on. The parts of the probe that do it come
        with the first of these lines, so that nothing waits for them: the sources for this process and for its NVML
        child, and the groups, with NULs between."""
        if not self.rare:
            if message["packed"]:
                source, self.gpus.rare_source, groups = self.inflate(message["packed"]).split(b"\0")
                message.setdefault("groups", json.loads(groups.decode()))
                exec(compile(source, "later", "exec"), globals())  # noqa: S102 - our own, from the console
            from watch import Watch

            self.rare = Watch(self.gpus, self.wake)
        self.rare.tell("watch", message)

    def send_parts(self):
        """Print what was read rarely, with the time of its reading."""
        part = self.gpus.take_part()
        if part:
            self.rare.tell("gpu", part)
        while self.rare.done:
            self.put("part", *self.rare.done.popleft())

    # ------------------------------------------------ the loop

    def obey(self):
        """Carry out the queued control lines; True when the tick changed."""
        new_tick = False
        while self.commands:
            message = self.commands.popleft()
            verb = message.get("do")
            if verb == "tick":
                seconds = message.get("s")
                if type(seconds) in (int, float) and 0 < seconds <= 3600:
                    self.tick_s = max(0.2, seconds)
                    new_tick = True
            elif verb == "full":
                self.full_asked = True
                if self.rare:
                    self.rare.tell("full")
            elif verb == "watch":
                self.watch(message)
            elif verb == "stop":
                self.put("bye", time.monotonic(), time.time(), {"why": "stop"})
                self.end()
        return new_tick

    def wait(self, until):
        """Sleep until a monotonic time, a control line, or an answer of the NVML child; True when the child told
        something new."""
        gpus = self.gpus
        timeout = max(0.0, until - time.monotonic())
        watched = [self.wake_read] + ([gpus.out] if gpus.out >= 0 else [])
        ready, room, _ = select.select(watched, [gpus.into] if gpus.unsent else [], [], timeout)
        if self.wake_read in ready:
            try:
                os.read(self.wake_read, 4096)
            except OSError:
                pass
        if room:
            gpus.push()
        if gpus.out in ready:
            return gpus.take(time.monotonic(), self.host_values.get("gpu_count_pci"))
        return False

    def tick(self):
        """Ask the driver, wait for it as long as it is not slow, and send everything."""
        # What came while a slow reader held this process up is an answer, not a driver that hangs.
        self.wait(time.monotonic())
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
            if self.rare:
                self.send_parts()
            if self.full_asked or time.monotonic() >= due:
                asked = self.full_asked
                self.tick()
                self.send_events()
                if not asked:
                    # From the last due time, so that ticks do not drift; those that were missed are missed.
                    due += self.tick_s * max(1, math.ceil((time.monotonic() - due) / self.tick_s))
                continue
            until = due
            overdue_at = self.gpus.overdue_at()
            if overdue_at is not None:
                until = min(due, overdue_at + 0.01)
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


def main(nvml_payload, inflate=None):
    """Be the probe, to the end of the process. `nvml_payload` is what its NVML child gets, and `inflate` unpacks what
    comes later."""
    processes.name_process(PROBE_NAME)
    nonce, tick_s = ([*sys.argv[2:4], "", ""])[:2]
    try:
        os.nice(10)
    except OSError:
        pass
    probe = Probe(nonce, max(0.2, float(tick_s or 2)), nvml_payload, inflate)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _thread.start_new_thread(probe.listen, (wake_read,))
    try:
        probe.run()
    except Exception as error:
        # A defect of this program; the console gets to know it in words.
        place = error.__traceback__
        while place.tb_next:
            place = place.tb_next
        words = (type(error).__name__, error, place.tb_lineno, place.tb_frame.f_code.co_filename)
        probe.put("bye", time.monotonic(), time.time(), {"why": ("%s: %s, line %d of %s" % words)[:300]})
        probe.end()


if __name__ == "__main__":
    # Run as a file: nothing for the child comes along.
    main(b"")
