"""Commands whose output is read rarely: without a shell, bounded in time and output, and ended with the probe."""

import _thread
import os
import select
import signal
import time

import files
import processes

MOST = 262144
"""Bytes that are kept of what a command writes to its output, and to its errors."""
PLACES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":" + PLACES)
lock = _thread.allocate_lock()
"""Held around the start of a command, so that the end of the probe misses none."""
here = {}
"""Process id by arguments, of the commands that run, and of those that could not be ended."""
refused = {}
"""What sudo said, by arguments, of commands that it does not let this user run. It is not asked again: each refusal
goes into the node's log, and with some settings to its administrators by mail."""


def find(name):
    """Return the path of a program, an empty string when it is not installed."""
    if "/" in name:
        return name if os.access(name, os.X_OK) else ""
    for folder in environment["PATH"].split(":"):
        path = os.path.join(folder, name)
        if folder and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return ""


def strike(pid, number):
    """Send a signal to a command and all that it started."""
    for send, target in ((os.killpg, pid), (os.kill, pid)):
        try:
            send(target, number)
        except OSError:
            pass


def gather(pid, pipes, until):
    """Read what a command writes; return its status, None while it runs although it is time or it floods, and the two
    texts."""
    texts = dict.fromkeys(pipes, b"")
    left = list(pipes)
    status = None
    while left and time.monotonic() < until and max(map(len, texts.values())) < MOST:
        ready = select.select(left, [], [], 0 if status is not None else 0.2)[0]
        for pipe in ready:
            content = os.read(pipe, 65536)
            texts[pipe] += content
            if not content:
                left.remove(pipe)
        # What it left in the background may keep its output open for ever.
        if not ready:
            if status is not None:
                break
            status = processes.collect(pid, 0)
    if status is None:
        status = processes.collect(pid, until if not left else 0)
    elif left:
        strike(pid, signal.SIGKILL)
    return status, [texts[pipe] for pipe in pipes]


def run(arguments, limit_s):
    """Run a command and return what the wire says of it. One that could not be ended is not started again while it is
    there."""
    arguments = tuple(arguments)
    if arguments in refused:
        return refused[arguments]
    if arguments in here:
        if processes.collect(here[arguments], 0) is None:
            return {"status": "hung"}
        del here[arguments]
    program = find(arguments[0])
    if not program:
        return {"status": "absent"}
    try:
        with lock:
            # In a process group of its own, so that all that it starts ends with it.
            pid, *pipes = processes.spawn(arguments, True, program, environment)
            here[arguments] = pid
    except OSError as error:
        return {"exit": 126, "err": os.strerror(error.errno)}
    status, texts = gather(pid, pipes, time.monotonic() + limit_s)
    result = {key: files.as_text(text[:MOST]) for key, text in zip(("out", "err"), texts) if text}
    if status is None:
        result["status"] = "timeout"
        for number in (signal.SIGTERM, signal.SIGKILL):
            strike(pid, number)
            status = processes.collect(pid, time.monotonic() + 0.7)
            if status is not None:
                break
        else:
            result["status"] = "hung"
    elif status:
        # As a shell says it: 128 and the signal.
        result["exit"] = status >> 8 or 128 + (status & 127)
    for pipe in pipes:
        os.close(pipe)
    if status is not None:
        del here[arguments]
    # What the command itself says of its failure comes after all that sudo warns of.
    last = result.get("err", "").rstrip("\n").rpartition("\n")[2]
    if status and arguments[0] == "sudo" and last.startswith(("sudo: ", "Sorry, user ")):
        refused[arguments] = result
    return result


def end():
    """End the commands that run; none starts any more."""
    lock.acquire(True, 0.5)
    for number, patience_s in ((signal.SIGTERM, 0.3), (signal.SIGKILL, 0.0)):
        for pid in list(here.values()):
            strike(pid, number)
        until = time.monotonic() + patience_s
        for pid in list(here.values()):
            processes.collect(pid, until)
