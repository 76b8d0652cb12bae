"""The logs that are open in a console: kernel lines of the fleet, pasted text, files here, files and jobs on nodes.

Each has a scanner of its own, fed and judged in a thread. What nobody looks at is not read on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.decode import Scanner
from stethoscope.clock import iso
from stethoscope.collect import nodelog
from stethoscope.collect.command import CommandError
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.model.finding import Severity
from stethoscope.model.logs import LogVerdict, Origin
from stethoscope.session.decode import Decoded, decode, judged
from stethoscope.session.nodefile import NodeFile
from stethoscope.specs.codes import load_codes
from stethoscope.specs.signature import load_signatures
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from stethoscope.clock import Clock
    from stethoscope.model.event import LogEvent
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.scheduler import Job
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.signature import Signatures

POLL_S = 2.0
RETRY_S = 5.0
MOST_OPEN = 8
KERNEL_LINES = 100_000
"""After so many kernel lines of the fleet, those that are no longer kept are forgotten."""


@dataclass(slots=True, eq=False)
class OpenLog:
    """One log, and what it says so far."""

    title: str
    state: str = "opening"
    """What is being done with it, in words."""
    trouble: str = ""
    """Why it cannot be read, or not on."""
    decoded: Decoded | None = None
    """What it says so far; of a fleet the alternatives are the other incidents."""
    of_fleet: bool = False
    node: str = ""
    """The node that it lies on."""
    job: str = ""
    """The job whose output it is."""
    version: int = 0
    """Grows with everything that changes here."""
    watched_mono: float = 0.0
    """When somebody last looked at it."""
    kernels: frozenset[str] = frozenset()
    """Nodes whose kernel lines are judged with it: a job's log rarely says that a GPU is gone."""
    kernel_lines: list[LogEvent] = field(default_factory=list)
    """Those that wait to be taken in."""
    kernel_known: set[int] = field(default_factory=set)
    kernel_events: tuple[LogEvent, ...] | None = None
    task: asyncio.Task[None] | None = None

    def say(self, state: str, trouble: str = "") -> None:
        """Say how it stands."""
        if (state, trouble) != (self.state, self.trouble):
            self.state, self.trouble = state, trouble
            self.version += 1


class LogBook:
    """The open logs of one console."""

    def __init__(self, source: object, scheduler: object, clock: Clock) -> None:
        """Read on the nodes of `source` (of a recording nothing can be read), and ask `scheduler` for jobs."""
        self._source: Any = source
        self._scheduler: Any = scheduler
        self._clock = clock
        self._fleet_state = "listening" if hasattr(source, "run_script") else "as recorded"
        self.fleet = OpenLog("kernel logs of the fleet", self._fleet_state, of_fleet=True)
        self.opened: list[OpenLog] = []
        """All others, the last one opened first."""
        self._fleet_scanner: Scanner | None = None
        self._fleet_known: frozenset[int] = frozenset()
        self._fleet_events: tuple[LogEvent, ...] | None = None
        self._fleet_lines = 0
        self._fleet_task: asyncio.Task[None] | None = None

    @cached_property
    def signatures(self) -> Signatures:
        """Return what is looked for."""
        return load_signatures()

    @cached_property
    def codes(self) -> Codes:
        """Return what Xids and SXids mean."""
        return load_codes()

    def learn(self) -> None:
        """Load what is known of logs, where that has not been done; in a thread, because it may take a second."""
        _ = self.signatures, self.codes

    @property
    def has_scheduler(self) -> bool:
        """Tell whether there is a Slurm that can be asked for any job."""
        return hasattr(self._scheduler, "job")

    @property
    def why_not_on_nodes(self) -> str:
        """Return why no log on a node can be read here, else nothing."""
        if not hasattr(self._source, "run_script"):
            return "a recording runs nothing"
        return "--read-only allows no command but the stream probe" if self._source.read_only else ""

    def watch(self, log: OpenLog) -> None:
        """Say that somebody looks at a log now."""
        log.watched_mono = self._clock.monotonic()

    # ---- the fleet

    def feed_fleet(self, snapshot: FleetSnapshot) -> None:
        """Take the kernel lines that are new in a snapshot; they are judged in the background."""
        if snapshot.events is self._fleet_events or (self._fleet_task is not None and not self._fleet_task.done()):
            return
        held = frozenset(map(id, snapshot.events))
        # A replay that was taken to another time tells everything anew.
        is_anew = bool(self._fleet_known) and not self._fleet_known & held
        if is_anew or self._fleet_lines > KERNEL_LINES:
            self._fleet_scanner, self._fleet_known, self._fleet_lines = None, frozenset(), 0
        self._fleet_events = snapshot.events
        new = [event for event in snapshot.events if id(event) not in self._fleet_known]
        self._fleet_known = held
        self._fleet_lines += len(new)
        self._fleet_task = asyncio.create_task(self._read_fleet(new))

    async def _read_fleet(self, events: Sequence[LogEvent]) -> None:
        try:
            self.fleet.decoded = await asyncio.to_thread(self._fed_fleet, events)
            self.fleet.say(self._fleet_state)
        except Exception as error:  # noqa: BLE001  a defect met in one line must not end the console
            self.fleet.say("stopped", f"{type(error).__name__}: {clean(str(error), 200)}")
        self.fleet.version += 1

    def _fed_fleet(self, events: Sequence[LogEvent]) -> Decoded:
        from stethoscope.analysis.judge_kernel import judge_kernel

        self.learn()
        if self._fleet_scanner is None:
            self._fleet_scanner = Scanner(self.signatures, now=self._clock.wall())
        feed_kernel(self._fleet_scanner, events)
        log = self._fleet_scanner.finish()
        found = judge_kernel(log, self.signatures, self.codes)
        quiet = LogVerdict("healthy", 0.9, Severity.INFO, "The kernel logs tell of nothing wrong")
        return Decoded(log, found[0] if found else quiet, found[1:], self.signatures)

    def feed_kernels(self, log: OpenLog, snapshot: FleetSnapshot) -> None:
        """Take the kernel lines of the nodes of a job, which are judged with what it prints."""
        if not log.kernels or snapshot.events is log.kernel_events:
            return
        log.kernel_events = snapshot.events
        kept = set(map(id, snapshot.events))
        new = [one for one in snapshot.events if one.node in log.kernels and id(one) not in log.kernel_known]
        log.kernel_lines += new
        log.kernel_known = {known for known in log.kernel_known if known in kept} | set(map(id, new))

    # ---- others

    def paste(self, text: str) -> OpenLog:
        """Open a text that somebody pasted."""
        lines = text.count("\n") + (not text.endswith("\n"))
        log = self._open(OpenLog(f"pasted text, {lines:,} line{'s' if lines != 1 else ''}", "reading"))
        raw = text.encode("utf-8", "replace")

        def read() -> Decoded:
            scanner = Scanner(self.signatures, now=self._clock.wall())
            scan = scanner.file("pasted", size=len(raw))
            scan.feed(raw)
            scan.end()
            return self._judged(scanner)

        self._start(log, self._read_once(log, read))
        return log

    def open_files(self, names: Sequence[str]) -> OpenLog:
        """Open files of this machine by name, directory or pattern."""
        log = self._open(OpenLog(clean(" ".join(names), 200), "reading"))

        def progress(taken: int, total: int) -> None:
            log.say(f"reading, {taken / total:.0%}" if total else f"reading, {taken / 1e6:,.0f} MB")

        def read() -> Decoded:
            return decode(names, clock=self._clock, progress=progress)

        self._start(log, self._read_once(log, read))
        return log

    def open_path(self, node: str, path: str, job: str = "") -> OpenLog:
        """Open a file that lies on a node, and follow it; `job` is whose output it is, where that is known."""
        log = self._open(OpenLog(f"{node}:{clean(path, 200)}", "asking the node", node=node, job=job))
        self._start(log, self._follow(log, [node], path))
        return log

    def open_kernel(self, node: str, since: float) -> OpenLog:
        """Open the kernel log of a node from wall second `since` on; it is read once."""
        log = self._open(OpenLog(f"{node}: kernel log since {iso(since)}", "asking the node", node=node))

        async def read() -> None:
            try:
                data = await nodelog.kernel_log(self._source, node, since, sudo=self._may_sudo(node))
            except Exception as error:  # noqa: BLE001  a node that cannot be asked costs this log alone
                log.say("not read", _words(error))
                return
            await self._read_once(log, lambda: self._fed(node, data))

        self._start(log, read())
        return log

    def open_job(self, job: str, snapshot: FleetSnapshot) -> OpenLog:
        """Open what a job of Slurm prints, on the first of its nodes that has the file, and follow it."""
        log = self._open(OpenLog(f"job {clean(job, 40)}", "asking Slurm"))

        async def read() -> None:
            try:
                found = await self._job(job, snapshot)
                nodes = _nodes_of(found, snapshot)
                if not nodes:
                    raise UsageError(f"job {job} has no node of this fleet")
                path = _path_of(found)
            except Exception as error:  # noqa: BLE001  as above
                log.say("not read", _words(error))
                return
            log.kernels, log.job = frozenset(nodes), found.id
            log.title = f"job {found.id} {clean(found.name, 40)}: {clean(path, 200)}"
            await self._follow(log, nodes, path)

        self._start(log, read())
        return log

    def close_log(self, log: OpenLog) -> None:
        """Read no more of a log, and forget it."""
        if log.task is not None:
            log.task.cancel()
        if log in self.opened:
            self.opened.remove(log)

    async def close(self) -> None:
        """Read nothing any more."""
        tasks = [log.task for log in self.opened if log.task is not None]
        tasks += [self._fleet_task] if self._fleet_task is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- how

    def _open(self, log: OpenLog) -> OpenLog:
        self.watch(log)
        self.opened.insert(0, log)
        while len(self.opened) > MOST_OPEN:
            self.close_log(self.opened[-1])
        return log

    def _start(self, log: OpenLog, reading: Coroutine[Any, Any, None]) -> None:
        log.task = asyncio.create_task(reading)

    async def _read_once(self, log: OpenLog, read: Callable[[], Decoded]) -> None:
        try:
            await asyncio.to_thread(self.learn)
            log.decoded = await asyncio.to_thread(read)
        except Exception as error:  # noqa: BLE001  what cannot be read costs this log alone
            log.say("not read", _words(error))
        else:
            log.say("read")
        log.version += 1

    def _judged(self, scanner: Scanner) -> Decoded:
        return judged(scanner, self.signatures, None, now=self._clock.wall(), seconds=0.0)

    def _fed(self, node: str, data: bytes) -> Decoded:
        scanner = Scanner(self.signatures, now=self._clock.wall())
        scan = scanner.file(f"{node}: kernel log", size=len(data), origin=Origin(host=node))
        scan.feed(data)
        scan.end()
        return self._judged(scanner)

    async def _follow(self, log: OpenLog, nodes: Sequence[str], path: str) -> None:
        """Read a file on the first of `nodes` that has it, and what is added to it as long as somebody looks."""
        await asyncio.to_thread(self.learn)
        scanner = Scanner(self.signatures, now=self._clock.wall())
        file = NodeFile(self._source, scanner, nodes, path)
        while True:
            if self._clock.monotonic() - log.watched_mono > 2 * POLL_S:
                await asyncio.sleep(POLL_S / 4)
                continue
            try:
                await file.read_on(log.say)
            except Exception as error:  # noqa: BLE001  the node may come back
                log.say("waiting" if log.decoded is not None else "not read", _words(error))
                await asyncio.sleep(RETRY_S)
                continue
            if log.kernel_lines:
                lines, log.kernel_lines = log.kernel_lines, []
                await asyncio.to_thread(feed_kernel, scanner, lines)
                file.is_new = True
            log.node = file.node
            if file.is_new:
                file.is_new = False
                log.decoded = await asyncio.to_thread(self._judged, scanner)
                log.version += 1
            log.say(f"following, {file.words}")
            await asyncio.sleep(POLL_S)

    def _may_sudo(self, node: str) -> bool:
        return any(spec.name == node and getattr(spec, "sudo", False) for spec in self._source.nodes)

    async def _job(self, job: str, snapshot: FleetSnapshot) -> Job:
        ask: Callable[[str], Awaitable[Job]] | None = getattr(self._scheduler, "job", None)
        if ask is not None:
            return await ask(job)
        known = next((one for one in snapshot.jobs if one.id == job), None)
        if known is None:
            raise UsageError("no Slurm is asked here: name a node and the path of the log instead")
        return known


def feed_kernel(scanner: Scanner, events: Sequence[LogEvent]) -> None:
    """Give kernel lines to a scanner as lines of the journal, with the time of the console's clock: that of the node is
    not to be trusted."""
    for event in events:
        at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="microseconds")
        scanner.feed_line(f"{at} {event.node} kernel: {event.text}", Origin(host=event.node), name=event.node)


def _nodes_of(job: Job, snapshot: FleetSnapshot) -> list[str]:
    """Return the nodes of the fleet that a job has, the one that runs its script first."""
    by_short = {node.name.partition(".")[0]: node.name for node in snapshot.nodes}
    wanted = [job.batch_host, *job.nodes]
    found = [name if name in snapshot.by_name else by_short.get(name.partition(".")[0], "") for name in wanted]
    return list(dict.fromkeys(name for name in found if name))


def _path_of(job: Job) -> str:
    if not job.stdout:
        raise UsageError(f"Slurm does not say where job {job.id} prints to")
    if "%" in job.stdout:
        raise UsageError(
            f"each task of job {job.id} has a file of its own ({clean(job.stdout, 200)}): name one of them"
        )
    return job.stdout


def _words(error: Exception) -> str:
    known = isinstance(error, StethoscopeError | CommandError)
    return clean(str(error) if known else f"{type(error).__name__}: {error}", 300)
