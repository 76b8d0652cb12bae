"""Who is who in a job: processes, devices and addresses to ranks and hosts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.logs import Event, Log, Origin

RANK_LINES = ("nccl.init.start", "nccl.init.complete", "nccl.comm.layout", "tests.rank", "launch.rank", "nccl.comm_end")
ADDRESS_LINES = ("nccl.boot.using", "nccl.ib.using", "nccl.socket.using")
USUAL_RANKS_OF_HOST = (1, 2, 4, 8, 16)
MOST_NODE_LABELS = 16
"""More labels of `srun -l` than this are tasks for each GPU, unless lines say otherwise."""
MOST_TASKS = 100_000
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_SOCKET = re.compile(r"addr=\[([^\]]+)\]:\d+, remote=\[([^\]]+)\]:\d+")
_LISTED_IP = re.compile(r":(\d{1,3}(?:\.\d{1,3}){3})<")


def text_of(fields: Mapping[str, str | int | float], *names: str) -> str:
    """Return the first of these fields as text, or an empty one."""
    for name in names:
        value = fields.get(name)
        if value is not None and value != "":
            return str(value)
    return ""


def number_of(fields: Mapping[str, str | int | float], *names: str) -> int | None:
    """Return the first of these fields that is a whole number."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, int):
            return value
        if isinstance(value, str) and value.lstrip("-").isdigit():
            return int(value)
    return None


def is_address(host: str) -> bool:
    """Tell whether this is an IPv4 address and not a name."""
    return _IP.fullmatch(host) is not None


def short(host: str) -> str:
    """Return a host's name without its domain; an address as it is."""
    return host if is_address(host) or ":" in host else host.split(".", 1)[0]


@dataclass(slots=True)
class Who:
    """What the logs say about ranks, hosts and their addresses."""

    rank_of_process: dict[tuple[str, int, int | None], tuple[int, int]] = field(default_factory=dict)
    """(host, pid, CUDA device or None) to (ranks of the communicator, rank): the largest communicator speaks."""
    host_of_rank: dict[int, str] = field(default_factory=dict)
    device_of_rank: dict[int, int] = field(default_factory=dict)
    hosts_of_address: dict[str, list[str]] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    """In the order of their first line."""
    seen: set[int] = field(default_factory=set)
    """Ranks that said anything."""
    world: int | None = None
    nodes: int | None = None
    local_world: int | None = None
    tasks_are_ranks: bool = False

    def rank(self, origin: Origin) -> int | None:
        """Return the rank of who printed a line."""
        if origin.rank is not None:
            return origin.rank
        host = short(origin.host or "")
        if origin.pid is not None:
            for device in (origin.cuda_device, None):
                known = self.rank_of_process.get((host, origin.pid, device))
                if known is not None:
                    return known[1]
        if origin.task is not None and self.tasks_are_ranks:
            return origin.task
        if origin.local_rank is not None and self.nodes == 1:
            return origin.local_rank
        return None

    def host(self, origin: Origin) -> str | None:
        """Return the host of who printed a line."""
        named = origin.host or origin.pod
        if named:
            return self.named(named)
        rank = self.rank(origin)
        return self.host_of(rank) if rank is not None else self.only_host()

    def named(self, host: str) -> str:
        """Return the one name of a host for any of its names and addresses."""
        if is_address(host):
            owners = self.hosts_of_address.get(host, [])
            return owners[0] if len(owners) == 1 else host
        return short(host)

    def host_of(self, rank: int) -> str | None:
        """Return the host of a rank: as said, as for the ranks beside it, or the only one there is."""
        if rank in self.host_of_rank:
            return self.host_of_rank[rank]
        if self.local_world:
            node = rank // self.local_world
            beside = {host for other, host in self.host_of_rank.items() if other // self.local_world == node}
            if len(beside) == 1:
                return beside.pop()
        return self.only_host()

    def only_host(self) -> str | None:
        """Return the host if the logs know exactly one."""
        return self.hosts[0] if len(self.hosts) == 1 else None

    def device_of(self, rank: int) -> int | None:
        """Return the number of a rank's GPU on its host."""
        if rank in self.device_of_rank:
            return self.device_of_rank[rank]
        return rank % self.local_world if self.local_world else None

    def expected(self) -> set[int]:
        """Return all ranks that the job has, as far as known."""
        highest = max(self.seen, default=-1) + 1
        return set(range(max(self.world or 0, highest)))

    def _fits(self, size: int) -> bool:
        """Tell whether hosts of `size` ranks each, in order, agree with all that is known."""
        hosts: dict[int, str] = {}
        return all(hosts.setdefault(rank // size, host) == host for rank, host in self.host_of_rank.items()) and len(
            set(hosts.values())
        ) == len(hosts)

    def _learn_host(self, host: str) -> str:
        host = short(host)
        if host and host not in self.hosts and host not in {"localhost", "127.0.0.1"}:
            self.hosts.append(host)
        return host

    def _learn_rank(self, event: Event, host: str) -> None:
        fields, origin = event.fields, event.origin
        rank = number_of(fields, "rank")
        if rank is None:
            return
        size = number_of(fields, "nranks", "world") or 0
        pid = number_of(fields, "pid") if event.signature == "tests.rank" else origin.pid
        device = number_of(fields, "dev", "device")
        device = origin.cuda_device if device is None else device
        if pid is not None:
            for key in (
                (host, pid, origin.cuda_device if origin.cuda_device is not None else device),
                (host, pid, None),
            ):
                known = self.rank_of_process.get(key)
                if known is None or size > known[0]:
                    self.rank_of_process[key] = (size, rank)
        if size and self.world and size < self.world:
            return
        if size and (self.world is None or size > self.world):
            self.world = size
            self.host_of_rank.clear()
            self.device_of_rank.clear()
        if host:
            self.host_of_rank.setdefault(rank, host)
        if device is not None:
            self.device_of_rank.setdefault(rank, device)
        self.seen.add(rank)
        self.nodes = number_of(fields, "nnodes") or self.nodes
        self.local_world = number_of(fields, "local_ranks", "local_size") or self.local_world

    def _learn_addresses(self, event: Event, host: str) -> None:
        found = [text_of(event.fields, "ip"), *_LISTED_IP.findall(text_of(event.fields, "list"))]
        for address in found:
            if address and host and not is_address(host):
                owners = self.hosts_of_address.setdefault(address, [])
                if host not in owners:
                    owners.append(host)

    def _settle(self) -> None:
        per_host = Counter(self.host_of_rank.values())
        if self.local_world is None and len(per_host) > 1:
            fitting = [size for size in USUAL_RANKS_OF_HOST if self._fits(size)]
            self.local_world = fitting[-1] if fitting else None
        if self.nodes is None and self.world and self.local_world:
            self.nodes = -(-self.world // self.local_world)
        if self.nodes is None and len(self.hosts) == 1 and self.world and per_host.total() >= self.world:
            self.nodes = 1


def learn(log: Log) -> Who:
    """Return who is who, from initialisation lines, launchers' tables and prefixes."""
    who = Who()
    tables: dict[int, dict[str, str]] = {}
    tasks: dict[int, set[str]] = {}
    for event in log.events:
        origin = event.origin
        host = who._learn_host(origin.host or origin.pod or text_of(event.fields, "node_host"))
        if event.signature == "tests.rank":
            host = who._learn_host(text_of(event.fields, "host"))
        if origin.rank is not None:
            who.seen.add(origin.rank)
            if host:
                who.host_of_rank.setdefault(origin.rank, host)
        if origin.task is not None and host:
            tasks.setdefault(origin.task, set()).add(host)
        if event.signature in RANK_LINES:
            who._learn_rank(event, host)
        elif event.signature in ADDRESS_LINES:
            who._learn_addresses(event, host)
        elif event.signature == "elastic.field":
            _learn_table(who, tables.setdefault(event.file, {}), event)
        elif event.signature == "tests.failure" or event.signature == "slurm.task_exit":
            who._learn_host(text_of(event.fields, "host"))
        sockets = _SOCKET.search(event.text) if "remote=[" in event.text else None
        if sockets and origin.rank is not None:
            here, there = short(sockets[1]), short(sockets[2])
            for rank, name in ((origin.rank, here), (0, there)):
                if not is_address(name) and name != "localhost" and ":" not in name:
                    who.host_of_rank.setdefault(rank, who._learn_host(name))
    _learn_others(who, log)
    _learn_tasks(who, log, tasks)
    who._settle()
    return who


def _learn_table(who: Who, table: dict[str, str], event: Event) -> None:
    """Read a failure table of the elastic launcher, one field a line: time, host, rank, exit code."""
    name, value = text_of(event.fields, "field"), text_of(event.fields, "value").strip()
    if name == "time":
        table.clear()
    table[name] = value
    if name == "host":
        who._learn_host(value)
    rank = re.match(r"(\d+)(?: \(local_rank: (\d+)\))?", table.get("rank", ""))
    if not rank or "host" not in table:
        return
    host = short(table["host"])
    who.host_of_rank.setdefault(int(rank[1]), host)
    who.seen.add(int(rank[1]))
    if rank[2]:
        who.device_of_rank.setdefault(int(rank[1]), int(rank[2]))
    pid = re.search(r"\(pid: (\d+)\)", table.get("exitcode", ""))
    if pid:
        who.rank_of_process.setdefault((host, int(pid[1]), None), (0, int(rank[1])))


def _learn_others(who: Who, log: Log) -> None:
    for seen in log.seen:
        if seen.origin.host or seen.origin.pod:
            host = who._learn_host(seen.origin.host or seen.origin.pod or "")
            if seen.origin.rank is not None:
                who.host_of_rank.setdefault(seen.origin.rank, host)
        if seen.origin.rank is not None:
            who.seen.add(seen.origin.rank)


def _learn_tasks(who: Who, log: Log, tasks: Mapping[int, Iterable[str]]) -> None:
    """Tell whether a task of `srun -l` is a rank: lines that carry both agree, a host has several tasks, or there are
    as many tasks as ranks."""
    agree = [
        event.origin.task == number_of(event.fields, "rank")
        for event in log.events
        if event.signature in RANK_LINES
        and event.origin.task is not None
        and number_of(event.fields, "rank") is not None
    ]
    hosts_of: dict[int, set[str]] = {task: set(hosts) for task, hosts in tasks.items()}
    for event in log.events:
        if event.signature == "slurm.task_exit" and (host := short(text_of(event.fields, "host"))):
            for task in tasks_in(text_of(event.fields, "task") + text_of(event.fields, "more")):
                hosts_of.setdefault(task, set()).add(host)
    per_host = Counter(host for hosts in hosts_of.values() for host in hosts)
    labels = {o.task for o in [*(e.origin for e in log.events), *(s.origin for s in log.seen)] if o.task is not None}
    if agree:
        who.tasks_are_ranks = all(agree)
    else:
        labelled = who.world is not None and labels and max(labels) + 1 == who.world > len(per_host)
        who.tasks_are_ranks = max(per_host.values(), default=0) > 1 or bool(labelled) or len(labels) > MOST_NODE_LABELS
    if who.tasks_are_ranks:
        for task, found in hosts_of.items():
            if len(found) == 1:
                who.host_of_rank.setdefault(task, next(iter(found)))
        who.seen.update(hosts_of, labels)


def tasks_in(text: str) -> list[int]:
    """Return the task numbers of Slurm's list: `11`, `0-7`, `[0-3,8]`."""
    tasks: list[int] = []
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", text):
        tasks += range(int(low), min(int(high or low), int(low) + MOST_TASKS) + 1)
    return tasks
