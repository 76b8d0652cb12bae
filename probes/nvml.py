"""The NVML child as the probe sees it: started, asked, waited for, and what it said last."""

import json
import os
import sys
import time

import processes

CHILD_MARK = "stethoscope-nvml"
CHILD_NAME = CHILD_MARK[:15]
PROBE_NAME = "stethoscope"
"""What the kernel calls the child and the probe; the mark is what people see among the child's arguments."""
HUNG_S = 5.0
"""A driver that has not answered for so long is hung."""
STARTING_S = 30.0
"""The same while it has never answered: initialising a driver that nothing else keeps awake takes long."""
GRACE_S = 2.0
"""A child that has lost its probe is on its way out for so long; one that is still there then is stuck."""
LOOK_AGAIN_S = 30.0
"""Pause before a stuck child is looked for again, or the driver asked again after it refused."""

BOOTSTRAP = "import sys;told=sys.stdin.buffer;exec(told.read(int(told.readline())))"
"""The child's Python gets its part of the payload over a pipe, behind its length."""


class Gpus:
    """The NVML child and its last answer."""

    def __init__(self, payload):
        self.payload = payload
        self.pid = 0
        self.into = self.out = -1
        self.unsent = b""
        self.rest = b""
        self.asked_at = None
        self.start_at = None
        self.suspects = set()
        self.grace_ends = 0.0
        self.has_answered = False
        self.note = "starting"
        self.last_pid = 0
        self.stuck = 0
        self.identities = []
        self.values = {}
        self.node = dict.fromkeys(("gpu_count", "nvml_latency"), "waiting")
        self.rare = {"gpu": {}, "links": {}, "apps": [], "words": {}}
        self.rare_source = b""
        self.has_rare = False
        self.rare_s = 0.0
        self.rare_at = 0.0
        self.part = None
        if not payload:
            self.note = "no NVML child"
            self.fill("unsupported")

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

    def watch(self, every_s):
        """Read what is read rarely every so many seconds, first with the next question; never when that is 0."""
        self.rare_s, self.rare_at, self.part = every_s, 0.0, None
        # Where the driver does not answer, the reason is all there is.
        if every_s and self.note and "mono" in self.rare:
            self.part = self.rare

    def take_part(self):
        """Return what was read rarely since this was last asked, None when nothing was."""
        part, self.part = self.part, None
        return part

    def fill_part(self, word):
        """Let what is read rarely say `word`, and read it as soon as the driver answers again."""
        rare, self.rare_at = self.rare, 0.0
        self.rare = dict(
            rare,
            gpu={metric: [word] * len(cells) for metric, cells in rare["gpu"].items()},
            links={metric: [[word] * len(cells) for cells in gpus] for metric, gpus in rare["links"].items()},
            apps=[],
            mono=round(time.monotonic(), 3),
            wall=round(time.time(), 3),
        )
        self.part = self.rare if self.rare_s else None

    def fill(self, word):
        """Let every value that comes from the driver say `word`."""
        self.values = {metric: [word] * len(self.identities) for metric in self.values}
        self.node = dict.fromkeys(self.node, word)
        self.fill_part(word)

    def refuse(self, words, pci_count):
        """Take note of a driver that cannot be asked."""
        self.note = words
        self.fill("permission" if words == "permission" else "error")
        if words == "no devices":
            self.node = {"gpu_count": 0, "nvml_latency": "absent"}
        elif pci_count == 0:
            self.node = dict.fromkeys(self.node, "absent")

    def ask(self, now, tick_s):
        """Start a round, unless the one before is still out; start the child first when it is due."""
        if not self.payload:
            return
        if not self.pid:
            if self.start_at is None:
                self.start_at = now
            if now < self.start_at or not self.start(now):
                return
        if self.asked_at is None:
            # Half a tick early is nearer than a tick late.
            rare = bool(self.rare_s and self.rare_source) and now >= self.rare_at - tick_s / 2
            source = b""
            if rare:
                self.rare_at = now + self.rare_s
                if not self.has_rare:
                    self.has_rare, source = True, self.rare_source
            self.unsent += b"%.3f %d %d\n%s" % (tick_s, rare, len(source), source)
            self.asked_at = now
            self.push()

    def start(self, now):
        """Start the child unless one from before is stuck; False when none was started."""
        processes.sweep()
        # One that has closed its pipe and does not end hangs in the driver's own clean-up.
        found = processes.lost_children(CHILD_NAME, PROBE_NAME) | ({self.last_pid} & processes.leaving)
        if not self.suspects:
            self.suspects, self.grace_ends = found, now + GRACE_S
        # Probes come and go beside this one: what counts is a child that is there at every look.
        self.suspects &= found
        self.stuck = 0
        if self.suspects:
            if now < self.grace_ends:
                self.start_at = now + 0.3
            else:
                self.stuck = min(self.suspects)
                self.hang()
                self.start_at = now + LOOK_AGAIN_S
            return False
        arguments = [sys.executable or "/proc/self/exe", "-I", "-S", "-c", BOOTSTRAP, CHILD_MARK]
        try:
            self.pid, self.into, self.out = processes.spawn(arguments, detached=True)
        except OSError as error:
            self.refuse("cannot start a process: %s" % os.strerror(error.errno), None)
            self.start_at = now + LOOK_AGAIN_S
            return False
        if self.note == "hung":
            self.note = "starting"
            self.fill("waiting")
        os.set_blocking(self.into, False)
        os.set_blocking(self.out, False)
        self.rest = b""
        self.has_rare = False
        self.unsent = b"%d\n%s" % (len(self.payload), self.payload)
        return True

    def push(self):
        """Write what the child has yet to be sent, as much as fits into its pipe: a child that does not read, stuck
        while it starts, must not make the probe wait."""
        try:
            self.unsent = self.unsent[os.write(self.into, self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            # It has ended; reading its pipe says so.
            self.unsent = b""

    def overdue_at(self):
        """Return the monotonic time at which the answer that is out is overdue, None when none is or that is known."""
        if not self.pid or self.asked_at is None or self.stuck:
            return None
        return self.asked_at + (HUNG_S if self.has_answered else STARTING_S)

    def hang(self):
        """Say of every value that the driver does not answer."""
        self.note = "hung"
        self.fill("hung")

    def check(self, now):
        """Declare the driver hung when its answer is overdue; True when that is new."""
        overdue_at = self.overdue_at()
        if overdue_at is None or now <= overdue_at:
            return False
        self.stuck = self.pid
        self.hang()
        return True

    def take(self, now, pci_count):
        """Read what the child has said; True when an answer is complete."""
        answered = False
        while self.out >= 0:
            try:
                part = os.read(self.out, 65536)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                return self.ended(now, pci_count) or answered
            self.rest += part
            *lines, self.rest = self.rest.split(b"\n")
            for line in lines:
                answer = json.loads(line.decode())
                if "part" in answer:
                    self.rare = answer["part"]
                    self.part = self.rare if self.rare_s else None
                else:
                    self.accept(answer, pci_count)
                    answered = True
        return answered

    def accept(self, answer, pci_count):
        """Take over a round of answers."""
        self.asked_at = None
        self.stuck = 0
        if "gpus" not in answer:
            self.refuse(answer["note"], pci_count)
            return
        self.has_answered = True
        self.note = answer["note"]
        self.identities = answer["gpus"]
        self.values = answer["gpu"] if answer["gpus"] else {}
        self.node = answer["node"]

    def ended(self, now, pci_count):
        """The child is gone: start another one later. True when that is news, because it had not said why."""
        os.close(self.into)
        os.close(self.out)
        status = processes.reap(self.pid)
        # One that has nothing to answer may be killed as well; what it said last does not stay true without it.
        unexpected = self.asked_at is not None or not self.note
        if unexpected:
            died = "child died, signal %d" % (status & 127) if status & 127 else "child ended"
            self.refuse(died, pci_count)
        self.last_pid = self.pid
        self.pid, self.into, self.out, self.unsent, self.asked_at, self.stuck = 0, -1, -1, b"", None, 0
        # No library means no driver package: that does not change while a console watches.
        self.start_at = now + (LOOK_AGAIN_S * 10 if self.note == "no NVML library" else LOOK_AGAIN_S)
        return unexpected
