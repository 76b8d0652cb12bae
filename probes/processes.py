"""Processes that the probe starts: with pipes, and without leaving zombies."""

import os
import signal
import time

import files

leaving = set()
"""Children that have closed their output and had not ended when they were last looked at."""


def spawn(arguments, detached=False, program="", environment=None):
    """Start a program with pipes; return (pid, its standard input, its standard output). Its errors go nowhere: a
    child that outlives the probe must not hold the channel open. A detached one gets no signal that is meant for the
    probe's group. One with a `program` of its own gets no input; returned are (pid, its output, its errors). OSError,
    with nothing left open, when the node has no room for one more process."""
    opened = []
    try:
        opened += os.pipe()
        opened += os.pipe()
        opened.append(os.open("/dev/null", os.O_RDWR))
        pid = os.fork()
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    first_read, first_write, read, write, nowhere = opened
    # What the child has as its input, its output and its errors, and the first of the two ends that stay here.
    inner, own = (first_read, write, nowhere), first_write
    if program:
        inner, own = (nowhere, first_write, write), first_read
    if pid == 0:
        try:
            if detached:
                os.setsid()
            for place in range(3):
                os.dup2(inner[place], place)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execve(program or arguments[0], arguments, environment or os.environ)
        finally:
            os._exit(127)
    for descriptor in inner:
        os.close(descriptor)
    return pid, own, read


def collect(pid, until):
    """Return the status of a child that ends until a monotonic time, else None."""
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except OSError:
            return 0
        if done:
            return status
        if time.monotonic() >= until:
            return None
        time.sleep(0.005)


def reap(pid):
    """Return the exit status of a child that has closed its output; 0, and it is `leaving`, when it takes more than a
    moment to end."""
    status = collect(pid, time.monotonic() + 0.1)
    if status is None:
        leaving.add(pid)
    return status or 0


def sweep():
    """Take leave of the children that have ended meanwhile, so that none stays a zombie."""
    for pid in list(leaving):
        if collect(pid, 0) is not None:
            leaving.discard(pid)


def name_process(name):
    """Set what the kernel calls this process, of which it keeps 15 characters. Unlike the arguments, the name stays
    until the process is gone altogether, and reading it never waits for the memory of a process that is stuck."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(name)
    except OSError:
        pass


def name_of(pid):
    """Return what the kernel calls a process, an empty string when it is gone."""
    try:
        with open("/proc/%s/comm" % pid, "rb") as file:
            return files.as_text(file.read()).rstrip("\n")
    except OSError:
        return ""


def lost_children(name, parent_name):
    """Return the pids of this user's processes called `name` whose parents are not called `parent_name`."""
    found = set()
    own = os.getuid()
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or name_of(pid) != name:
            continue
        try:
            if os.stat("/proc/" + pid).st_uid != own:
                continue
            with open("/proc/%s/stat" % pid, "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X") and name_of(parent.decode()) != parent_name:
            found.add(int(pid))
    return found
