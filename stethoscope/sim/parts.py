"""The parts that a simulated node prints: the files and commands that the console asks for, group by group, kept and
repeated as the probe does it."""

from __future__ import annotations

import fnmatch
import itertools
import os.path
import re
from collections import Counter
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.model import wire
from stethoscope.sim.files import disks, gpu, host, mounts, net, pci, smart
from stethoscope.sim.printed import management

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stethoscope.sim.files.view import View

RESEND_S = 300.0
"""A group is sent whole at least this often, ..."""
EARLIER_S = 128
"""... the second time up to so much earlier: nodes that begin together do not send everything again together."""
FILES: dict[str, Callable[[View], dict[str, str]]] = {
    "pcie": pci.files,
    "disks": disks.files,
    "mounts": mounts.files,
    "net": net.files,
    "host": host.files,
    "tuning": host.settings,
    "identity": host.versions,
}
"""Group -> what its files say, whole."""
_TASKS = "tasks"
_DEVICES = tuple(f"/dev/{name}" for name in smart.CONTROLLERS)


class Run(msgspec.Struct, frozen=True):
    """One command of a group, as the control line has it."""

    id: str
    argv: tuple[str, ...]
    each: str = ""


class Order(msgspec.Struct, frozen=True):
    """One group of the control line."""

    name: str
    s: float
    read: tuple[tuple[str, str], ...] = ()
    run: tuple[Run, ...] = ()


class Group:
    """One group on one channel: when it is due, and what was sent last. Times are seconds of one clock."""

    def __init__(self, order: Order, first_s: float, earlier_s: float = 0.0) -> None:
        """Be due at once, and again `first_s` later; from then on at the order's interval. The second time it is sent
        whole comes so much earlier."""
        self.order = order
        self.due_s = 0.0
        self._first_s = first_s
        self._earlier_s = earlier_s
        self._was_read = False
        self._sent_s: float | None = None
        self._last: dict[str, Any] | None = None

    def forget(self) -> None:
        """Be due now and send everything."""
        self.due_s, self._sent_s = 0.0, None

    def again(self, now_s: float) -> dict[str, Any] | None:
        """Return a part line that says that nothing has changed, whatever has; None before the first reading."""
        if self._last is None:
            return None
        self.due_s = now_s + self.order.s
        return {"name": self.order.name, "s": self.order.s, "same": True}

    def part(self, view: View, now_s: float) -> dict[str, Any] | None:
        """Return the fields of the part line that is due, None when the node cannot read the group."""
        self.due_s = now_s + (self.order.s if self._was_read else self._first_s)
        self._was_read = True
        fields = content(view, self.order)
        if fields is None:
            return None
        same = fields == self._last and self._sent_s is not None and now_s < self._sent_s + RESEND_S - 1
        self._last = fields
        head = {"name": self.order.name, "s": self.order.s}
        if same:
            return {**head, "same": True}
        self._sent_s = now_s if self._sent_s is not None else now_s - self._earlier_s
        return {**head, **fields}


def content(view: View, order: Order) -> dict[str, Any] | None:
    """Return what a group says now."""
    if order.name == "gpu":
        return gpu.fields(view)
    source = FILES.get(order.name)
    files, failed = kept(order.read, {} if source is None else source(view))
    ran = {}
    for run in order.run:
        if run.each:
            globs = wire.expand(run.each)
            for path in (path for path in _DEVICES if any(fnmatch.fnmatchcase(path, glob) for glob in globs)):
                ran[f"{run.id} {os.path.basename(path)}"] = command(view, [*run.argv, path])
        else:
            ran[run.id] = command(view, list(run.argv))
    return {"files": files, "failed": failed, "ran": ran}


# ------------------------------------------------------------ files


def kept(reads: tuple[tuple[str, str], ...], tree: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is kept of the files of a tree, and why there is nothing of those that are named and not there."""
    plan, absent = _plan(reads, tuple(tree))
    files = {}
    for pattern, keep, paths in plan:
        if keep == "count":
            counts = Counter(" ".join(tree[path].split()) for path in paths)
            files[pattern] = "".join(f"{count} {text}\n" for text, count in sorted(counts.items()))
        else:
            filter_, _, wanted = keep.partition(" ")
            for path in paths:
                text = tree[path]
                files[path] = _lines(text, filter_, wanted) if filter_ in ("only", "nonzero", "ethtool") else text
    return files, dict(absent)


@lru_cache(maxsize=256)
def _plan(
    reads: tuple[tuple[str, str], ...], paths: tuple[str, ...]
) -> tuple[list[tuple[str, str, list[str]]], list[tuple[str, str]]]:
    """Return (pattern, what to keep, paths) of every read that finds something, and the files that are not there."""
    plan, absent = [], []
    for pattern, keep in ((pattern, keep) for braced, keep in reads for pattern in wire.expand(braced)):
        if keep == _TASKS:
            found = [path for path in paths if path == _TASKS]
        elif _is_pattern(pattern):
            wanted = re.compile("/".join(fnmatch.translate(word)[4:-3] for word in pattern.split("/")))
            found = sorted(path for path in paths if wanted.fullmatch(path) and path.count("/") == pattern.count("/"))
        else:
            found = [path for path in paths if path == pattern]
            if not found:
                absent.append((pattern, "absent"))
        if found:
            plan.append((pattern, keep, found))
    return plan, absent


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


@lru_cache(maxsize=8192)
def _lines(text: str, filter_: str, wanted: str) -> str:
    if filter_ == "nonzero":
        return "".join(f"{line}\n" for line in text.split("\n") if line.split()[-1:] not in ([], ["0"]))
    search = _expression(wanted).search
    if filter_ == "ethtool":
        return "".join(f"{line}\n" for line in text.split("\n") if line and search(line.split(" ")[0]))
    return "".join(f"{line}\n" for line in text.split("\n") if line and search(line))


@cache
def _expression(text: str) -> re.Pattern[str]:
    return re.compile(text)


# ------------------------------------------------------------ commands


def command(view: View, words: Iterable[str]) -> wire.Ran:
    """Return what a command of a group gives on this node; the login may do what root may."""
    words = list(words)
    # `sh -c '... exec "$@"' sh COMMAND ...` and `sudo -n COMMAND ...` run the command behind them.
    if words[:2] == ["sh", "-c"]:
        words = words[4:]
    if words[:2] == ["sudo", "-n"]:
        words = words[2:]
    match words:
        case ["df", *arguments] if "-t" in arguments and mounts.is_silent(view, arguments):
            return wire.Ran(status="timeout")
        case ["df", *arguments]:
            return wire.Ran(out=mounts.df(view, arguments))
        case ["chronyc", *_]:
            return wire.Ran(out=host.chrony(view))
        case ["timedatectl", *_]:
            return wire.Ran(out=host.timedate(view))
        case ["systemctl", "show", *arguments]:
            return wire.Ran(out=_services(view, arguments))
        case ["ipmitool", *arguments]:
            status, text, errors = management.ipmitool(view, arguments)
            return wire.Ran(exit=status, out=text, err=errors)
        case ["smartctl", *arguments]:
            disk = smart.number_of(arguments[-1]) if arguments else None
            if disk is not None:
                status, text = smart.smartctl(view, disk, arguments)
                return wire.Ran(exit=status, out=text)
    return wire.Ran(status="absent")


def _services(view: View, arguments: list[str]) -> str:
    """Return what `systemctl show -p PROPERTY ... SERVICE ...` prints: a block for each, with what was asked for."""
    wanted = [after for word, after in itertools.pairwise(arguments) if word == "-p"]
    services = [after for before, after in itertools.pairwise(["", *arguments]) if before != "-p" and after != "-p"]
    installed = {"nvidia-persistenced": True, "nvidia-fabricmanager": pci.has_switches(view)}
    blocks = []
    for service in services:
        there = installed.get(service, False)
        active = there and (service != "nvidia-fabricmanager" or view.state("fabricmanager_active", 1) > 0)
        properties = {
            "Id": f"{service}.service",
            "LoadState": "loaded" if there else "not-found",
            "ActiveState": "active" if active else "inactive",
        }
        blocks.append("".join(f"{name}={word}\n" for name, word in properties.items() if name in wanted))
    return "\n".join(blocks)
