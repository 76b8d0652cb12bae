"""Files that are read rarely, and what is kept of each."""

import array
import fcntl
import glob
import os
import re
import socket
import time

import commands
import files

MOST_READ = 1048576
MOST_KEPT = 262144
MOST_TASKS = 500
TASKS_SHARE = 0.0001
"""Looking for processes takes no larger share of the time than this, unless it were done less often than TASKS_S."""
TASKS_S = 120.0

users = {}
counted = {}
"""What an interface counts, by its name and how many counters it has: (place, name) of those that are wanted."""
heads = {}
"""What the beginnings of patterns found; forgotten with each group that is read."""
LAST_SIGN = re.compile("(.*[*?[][^/]*)(.*)")
known = {}
"""What hardly changes, by path, with what it was made from; forgotten now and then."""
kernel_threads = set()
"""Their process ids; forgotten now and then, because a number can come again."""
rounds = [0]


def expand(pattern):
    """Return the patterns that one with braces stands for, as a shell writes them out, none inside others."""
    if "{" not in pattern:
        return [pattern]
    before, _, rest = pattern.partition("{")
    words, _, after = rest.partition("}")
    return [other for word in words.split(",") for other in expand(before + word + after)]


def find(pattern):
    """Return the paths that a pattern finds under the root, sorted; what stands behind its last sign that is one of a
    pattern is not looked for, which reading it does anyway."""
    head, tail = LAST_SIGN.match(pattern).groups() if glob.has_magic(pattern) else ("", pattern)
    if not head:
        return [pattern]
    if head not in heads:
        skip = len(files.ROOT)
        heads[head] = sorted(path[skip:] for path in glob.glob(glob.escape(files.ROOT) + head))
    return [path + tail for path in heads[head]]


def read(pattern, keep, group, say):
    """Add to a group's `files` and `failed` what is kept of the files that a pattern finds; `say` is told what is being
    read."""
    filter_, _, wanted = keep.partition(" ")
    question, expression = FILTERS[filter_], re.compile(wanted)
    contents = {}
    for path in find(pattern):
        say(path)
        try:
            text = question(path, expression)
        except OSError as error:
            # What has no pattern is there or not: that is a word too.
            if path == pattern or error.errno not in files.MISSING:
                group["failed"][path] = files.reason_of(error)
            continue
        if filter_ == "count":
            contents[text] = contents.get(text, 0) + 1
        else:
            group["files"]["tasks" if filter_ == "tasks" else path] = text[:MOST_KEPT]
    if contents:
        group["files"][pattern] = "".join("%d %s\n" % (contents[text], text) for text in sorted(contents))[:MOST_KEPT]


def once(path, _):
    """Return a file's text as it was when it was last read: it hardly ever changes."""
    if path not in known:
        known[path] = whole(path, None)
    return known[path]


def whole(path, _):
    """Return a file's text."""
    # Those of /sys have one piece.
    return files.as_text(files.read_file(path, 0 if path.startswith("/sys/") else MOST_READ))


def only(path, expression):
    """Return the lines that match."""
    return "".join(line + "\n" for line in whole(path, None).split("\n") if line and expression.search(line))


def nonzero(path, _):
    """Return the lines whose last word is not 0."""
    content = files.read_file(path)
    if known.get(path, ("",))[0] != content:
        lines = [line + "\n" for line in files.as_text(content).split("\n") if line.split()[-1:] not in ([], ["0"])]
        known[path] = content, "".join(lines)
    return known[path][1]


def stripped(path, _):
    """Return a file's text as one line."""
    return " ".join(whole(path, None)[:1000].split())


def link(path, _):
    """Return where a link leads, under the root."""
    place = files.ROOT + path
    try:
        says = os.readlink(place)
    except OSError as error:
        if error.errno != 22:  # EINVAL
            raise
        says = "no link"
    # The kernel's own lead to where a device is in one step; working that out takes a while.
    if known.get(path, ("",))[0] != says or not path.startswith("/sys/"):
        real, root = os.path.realpath(place), os.path.realpath(files.ROOT or "/")
        known[path] = says, real[len(root) :] if files.ROOT and real.startswith(root + "/") else real
    return known[path][1]


def ethtool(path, expression):
    """Return the statistics of a network interface whose names match."""
    name = os.path.basename(path)
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:

        def ask(head, room):
            buffer = array.array("I", head + [0] * room)
            pointer = array.array("L", [buffer.buffer_info()[0]]).tobytes()
            fcntl.ioctl(asked, 0x8946, name.encode()[:15].ljust(16, b"\0") + pointer.ljust(24, b"\0"))
            return buffer

        info = ask([0x37, 0, 2, 0], 2)
        count = info[4] if info[2] else 0
        # The kernel fills in as many as it has by then: there is room for more.
        room = 2 * count + 256
        if (name, count) not in counted:
            names = ask([0x1B, 1, count], 8 * room).tobytes()[12:]
            names = [names[32 * place :][:32].partition(b"\0")[0].decode("ascii", "replace") for place in range(count)]
            counted[name, count] = [(place, word) for place, word in enumerate(names) if expression.search(word)]
        values = array.array("Q", ask([0x1D, count], 2 * room).tobytes()[8:])
    finally:
        asked.close()
    return "".join("%s %d\n" % (word, values[place]) for place, word in counted[name, count])


def user_of(uid):
    """Return the name of a user, or the number. A directory service may take for ever, which must not hold this process
    up: a command asks it."""
    if uid not in users:
        said = commands.run(["getent", "passwd", str(uid)], 3).get("out", "")
        users[uid] = said.partition(":")[0] or str(uid)
    return users[uid]


def tasks(path, _):
    """Return the processes in state D or Z, without those of the kernel itself. Where there are so many that looking at
    all takes long, what was found stays true for up to two minutes."""
    began = time.monotonic()
    if path in known and began < known[path][0]:
        return known[path][1]
    rounds[0] += 1
    if rounds[0] % 10 == 0:
        kernel_threads.clear()
    found = []
    start = files.ROOT + path + "/"
    for pid in os.listdir(start):
        if pid in kernel_threads or not pid.isdigit():
            continue
        try:
            descriptor = os.open(start + pid + "/stat", os.O_RDONLY)
            try:
                content = os.read(descriptor, 512)
            finally:
                os.close(descriptor)
            # What stands in brackets may have brackets itself.
            end = content.rindex(b")")
            if content[end + 4 : end + 6] == b"2 " or pid == "2":
                kernel_threads.add(pid)
            elif content[end + 2 : end + 3] in (b"D", b"Z") and len(found) < MOST_TASKS:
                name = " ".join(files.as_text(content[:end].partition(b"(")[2]).split())
                user = user_of(os.stat(start + pid).st_uid)
                words = files.as_text(content[end + 2 :]).split(None, 2)
                found.append("\t".join((pid, *words[:2], user, name, files.read_text(path + "/%s/wchan" % pid))) + "\n")
        except (OSError, ValueError):
            continue
    now = time.monotonic()
    known[path] = now + min(TASKS_S, (now - began) / TASKS_SHARE), "".join(found)
    return known[path][1]


FILTERS = {
    "": whole,
    "once": once,
    "only": only,
    "nonzero": nonzero,
    "count": stripped,
    "link": link,
    "ethtool": ethtool,
    "tasks": tasks,
}
