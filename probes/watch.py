"""What is read rarely: files and commands in groups, in a thread of its own, because a read may never return."""

import _thread
import collections
import json
import os
import select
import time

import commands
import keep

RESEND_S = 300.0
"""A group is sent whole at least so often."""
HUNG_S = 5.0
"""A read that takes longer is hung."""
LONGEST = 900000
"""Bytes of a line; the console takes a longer one for a flood."""
MOST_WAITING = 30
"""Parts that are not printed yet, because nobody reads them; no more are made then."""


class Group:
    """One group: what to read and run, when it is due, and what was sent last."""

    def __init__(self, message, pace, position, count):
        self.name, every_s, reads, *self.runs = message
        self.reads = [
            (path, kept) for kept, words in reads.items() for word in words.split() for path in keep.expand(word)
        ]
        self.every_s = every_s * (pace if every_s != 60 else 1)
        if not 1 <= self.every_s <= 86400:
            raise ValueError
        # After the first round they are spread over their intervals.
        self.first_s = self.every_s * (position + 1) / count
        self.due = 0.0
        self.last = None
        self.sent_at = None

    def part(self, fields, now, wall):
        """Return the part line of a reading: (monotonic and wall time, what is in it)."""
        part = {"name": self.name, "s": self.every_s}
        same = self.last is not None and fields == self.last[0]
        self.last = fields, now, wall
        if same and self.sent_at is not None and now < self.sent_at + RESEND_S - 1:
            part["same"] = True
        else:
            # Nodes that begin together do not send everything again together.
            self.sent_at = now - (self.sent_at is None) * os.urandom(1)[0] / 2
            part.update((key, value) for key, value in fields.items() if value)
            shorten(part)
        return now, wall, part


def shorten(part):
    """Leave out the largest texts of a part until it fits into a line."""
    texts = dict(part.get("files", ()))
    while len(json.dumps(part)) > LONGEST:
        if not texts:
            part["ran"] = {name: {"status": ran.get("status", "ok")} for name, ran in part.get("ran", {}).items()}
            return
        path = max(texts, key=lambda path: len(texts[path]))
        del texts[path]
        part["files"] = texts
        part["failed"] = dict(part.get("failed", {}), **{path: "error"})


class Watch:
    """The groups and the thread that reads them. The main loop gives it `news` and prints what is in `done`."""

    def __init__(self, gpus, wake):
        self.gpus = gpus
        self.wake = wake
        self.groups = []
        self.gpu = None
        self.sudo = False
        self.news = collections.deque()
        self.done = collections.deque()
        self.doing = None
        self.trouble = ""
        self.forget_at = 0.0
        self.ears, self.mouth = os.pipe()
        self.runs = False

    # ------------------------------------------------ for the main loop

    def tell(self, kind, content=None):
        """Give the thread something: groups, a wish for all of them, or what the driver says."""
        if kind == "watch" and not self.runs:
            self.runs = True
            _thread.start_new_thread(self.work, ())
        if kind == "gpu" and self.gpu and self.is_hung(time.monotonic()):
            # The thread is stuck in something else: the driver's word comes without the names of processes.
            self.done.append(self.gpu.part(content, content.pop("mono"), content.pop("wall")))
        elif self.runs and len(self.news) < 1000:
            self.news.append((kind, content))
            os.write(self.mouth, b"x")

    def is_hung(self, now):
        """Tell whether the thread is stuck."""
        doing = self.doing
        return doing and now > doing[1] + doing[2]

    def notes(self, now):
        """Return what the frame has to say: what the thread is stuck in, and for how long."""
        doing = self.doing
        if self.is_hung(now) and doing:
            # In steps, so that not every frame has news.
            return {"watch": "hung: %s for %d s" % (doing[0], (now - doing[1]) // 10 * 10 or HUNG_S)}
        return {"watch": self.trouble} if self.trouble else {}

    @staticmethod
    def end():
        """End the commands that run."""
        commands.end()

    # ------------------------------------------------ the thread

    def work(self):
        """Read for ever what is due."""
        while True:
            try:
                now = time.monotonic()
                due = min((group.due for group in self.groups), default=now + 3600)
                if not self.news and due > now:
                    select.select([self.ears], [], [], due - now)
                while self.news:
                    if select.select([self.ears], [], [], 0)[0]:
                        os.read(self.ears, 4096)
                    self.obey(*self.news.popleft())
                ready = [group for group in self.groups if group.due <= time.monotonic()]
                if ready:
                    self.attend(min(ready, key=lambda group: group.due))
                    self.trouble = ""
            except Exception as error:
                self.trouble = ("%s: %s" % (type(error).__name__, error))[:200]
                time.sleep(1)

    def obey(self, kind, content):
        """Take over what the main loop gave."""
        if kind == "watch":
            groups, self.gpu, self.sudo = [], None, content.get("sudo")
            orders = content["groups"]
            for position, order in enumerate(orders):
                try:
                    group = Group(order, content.get("pace", 1), position, len(orders))
                except (TypeError, ValueError, AttributeError):
                    continue
                if group.name == "gpu":
                    self.gpu = group
                    self.gpus.watch(group.every_s)
                else:
                    groups.append(group)
            self.groups = groups
        elif kind == "full":
            now = time.monotonic()
            keep.known.clear()
            for group in self.groups:
                group.sent_at = None
                if group.last and now < group.last[1] + group.every_s / 10:
                    # What was read a moment ago is not read again.
                    self.hand(group.part(*group.last))
                else:
                    group.due = 0.0
            if self.gpu:
                self.gpu.sent_at = None
                if self.gpu.last:
                    self.hand(self.gpu.part(*self.gpu.last))
        elif self.gpu:
            self.hand(self.gpu.part(*self.add_processes(content)))

    def attend(self, group):
        """Read a group that is due."""
        now = time.monotonic()
        if now > self.forget_at:
            self.forget_at = now + RESEND_S
            keep.known.clear()
        group.due = now + (group.first_s if group.last is None else group.every_s)
        if len(self.done) < MOST_WAITING:
            self.hand(group.part(self.read(group), now, time.time()))

    def hand(self, part):
        """Give a part to the main loop."""
        self.done.append(part)
        self.wake()

    def say(self, what, limit_s=0.0):
        """Note what is being done."""
        self.doing = what, time.monotonic(), limit_s + HUNG_S

    def read(self, group):
        """Return what a group's files and commands say; a broken entry costs only itself."""
        fields = {"files": {}, "failed": {}, "ran": {}}
        keep.heads.clear()
        for entry in group.reads:
            try:
                keep.read(*entry, fields, self.say)
            except Exception:
                fields["failed"][entry[0]] = "error"
        for entry in group.runs:
            try:
                name, words, limit_s, root, each = entry
                arguments = words.split(" ")
                if root and self.sudo and os.geteuid() and commands.find(arguments[0]) and commands.find("sudo"):
                    arguments = ["sudo", "-n", *arguments]
                for path in [path for place in keep.expand(each) for path in keep.find(place)]:
                    title = (name + " " + os.path.basename(path)).strip()
                    self.say(title, limit_s)
                    fields["ran"][title] = commands.run(arguments + [path] * bool(path), limit_s)
            except Exception:
                continue
        self.doing = None
        return fields

    def add_processes(self, part):
        """Return what the driver said, with what the node knows of the processes on its GPUs."""
        known = {"files": {}, "failed": {}}
        fields = {key: part.get(key) for key in ("gpu", "links", "apps", "words")}
        for pid in sorted({int(app[1]) for app in fields["apps"] or ()}):
            place = "/proc/%d" % pid
            for name in ("comm", "stat", "cgroup"):
                keep.read("%s/%s" % (place, name), "", known, self.say)
            try:
                known["files"][place + "/user"] = keep.user_of(os.stat(keep.files.ROOT + place).st_uid)
            except OSError:
                pass
        self.doing = None
        fields.update(known)
        return fields, part["mono"], part["wall"]
