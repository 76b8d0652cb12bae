"""Processes that the probe starts: with pipes, and without leaving zombies."""

import os
import signal
import time

leaving = set()
"""Children that have closed their output and had not ended when they were last looked at."""


def spawn(arguments, detached=False):
    """Start a program with pipes; return (pid, its standard input, its standard output). Its errors go nowhere: a
    child that outlives the probe must not hold the channel open. A detached one gets no signal that is meant for the
    probe's group. OSError, with nothing left open, when the node has no room for one more process."""
    opened = []
    try:
        opened += os.pipe()
        opened += os.pipe()
        opened.append(os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC))
        pid = os.fork()
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    child_in, into, out, child_out, nowhere = opened
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
    """Return the exit status of a child that has closed its output; 0, and it is `leaving`, when it takes more than a
    moment to end."""
    leaving.add(pid)
    for _ in range(20):
        status = sweep().get(pid)
        if status is not None:
            return status
        time.sleep(0.005)
    return 0


def sweep():
    """Take leave of the children that have ended meanwhile, so that none stays a zombie; return their exit statuses."""
    ended = {}
    for pid in list(leaving):
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except OSError:
            done, status = pid, 0
        if done:
            leaving.discard(pid)
            ended[pid] = status
    return ended


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
            return file.read().decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""


def lost_child(name, parent_name):
    """Return the pid of this user's process called `name` whose parent is not called `parent_name`, or 0."""
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
            return int(pid)
    return 0
