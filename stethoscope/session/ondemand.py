"""On-demand probes: what would run and what forbids it, many nodes at once, and what was said, kept with its time."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stethoscope.clock import hms, iso
from stethoscope.collect import ondemand
from stethoscope.collect.command import CommandError
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model.report import Item, Report, ToolError
from stethoscope.session.aims import Aim, Refusal, aims_of, devices_of, refusal
from stethoscope.specs.probes import OnDemand, load_manifest
from stethoscope.text import clean, clean_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Source
    from stethoscope.model.fleet import FleetSnapshot

AT_ONCE = 64
"""Nodes that are asked at the same time; one script at a time on each."""
STUCK_S = 3600.0
"""For so long no second tool of the kind is started beside one that did not end, unless it is forced."""
_MARK = "stethoscope-probe: "
_NOT_INSTALLED, _NOT_ALLOWED, _TIMED_OUT, _KILLED = 127, 126, 124, 137

Key = tuple[str, str, tuple[str, ...]]
"""Node, probe and arguments: of each, the last result is kept."""


class Status(StrEnum):
    """How a run went."""

    OK = "ok"
    FAILED = "failed"
    NOT_INSTALLED = "not installed"
    NEEDS_ROOT = "needs root"
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    STUCK = "stuck"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Section:
    """What one command of a script said."""

    command: str
    text: str
    err: str = ""
    exit: int | None = None
    """None for one that did not end."""
    report: Report | None = None
    """What could be read of it; None without a parser, or when it could not read this."""
    unread: str = ""
    """Why there is no report, for people."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave."""

    probe: str
    aim: Aim
    at: float
    """Wall time of its end."""
    seconds: float
    status: Status
    words: str
    """One line for people: what came out, or why nothing did."""
    sections: tuple[Section, ...] = ()
    forced: bool = False

    @property
    def key(self) -> Key:
        """Return what it is kept under."""
        return (self.aim.node, self.probe, self.aim.arguments)

    @property
    def items(self) -> tuple[Item, ...]:
        """Return all values that were read, each once, what the tool itself calls wrong first."""
        found = dict.fromkeys(item for section in self.sections if section.report for item in section.report.items)
        return tuple(sorted(found, key=lambda item: _ORDER.get(item.level, 2)))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what the tool says is wrong."""
        return tuple(remark for section in self.sections if section.report for remark in section.report.remarks)


_ORDER = {"critical": 0, "warning": 1}


@dataclass(frozen=True, slots=True)
class Step:
    """One run that could be done."""

    aim: Aim
    sudo: bool
    """`sudo -n` may be used there."""
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be done, exactly, before it is."""

    probe: OnDemand
    steps: tuple[Step, ...]
    commands: str
    """The script, without comments."""
    about: str
    """What it runs and why that is harmless."""
    sha256: str
    """Of what is sent."""

    def line(self, step: Step) -> str:
        """Return the command line of a step."""
        return ondemand.command(self.probe.id, self.probe.limit_s, step.aim.arguments, sudo=step.sudo)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that are asked, each once."""
        return tuple(dict.fromkeys(step.aim.node for step in self.steps))


@dataclass(slots=True)
class Batch:
    """A preview that is being run."""

    preview: Preview
    started: float
    """Monotonic seconds."""
    results: list[Result] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        """Tell whether all results are there."""
        return len(self.results) == len(self.preview.steps)

    def progress(self, now: float) -> str:
        """Return where it stands: `asking 16 nodes for mlxlink, 12 back, 3 s`."""
        nodes = self.preview.nodes
        open_ = {step.aim.node for step in self.preview.steps} - self._back()
        count = f"{len(nodes)} nodes" if len(nodes) > 1 else nodes[0] if nodes else "nobody"
        return f"asking {count} for {self.preview.probe.id}, {len(nodes) - len(open_)} back, {now - self.started:.0f} s"

    def _back(self) -> set[str]:
        left: dict[str, int] = {}
        for step in self.preview.steps:
            left[step.aim.node] = left.get(step.aim.node, 0) + 1
        for result in self.results:
            left[result.aim.node] -= 1
        return {node for node, count in left.items() if count == 0}


class OnDemandRuns:
    """Runs on-demand probes on the nodes of one source and keeps what they said."""

    def __init__(
        self,
        source: Source,
        clock: Clock,
        snapshot: Callable[[], FleetSnapshot],
        on_result: Callable[[Result], None] = lambda _result: None,
    ) -> None:
        """Run on the nodes of `source`; `snapshot` gives their state, `on_result` gets every result."""
        self._source: Any = source
        self._clock = clock
        self._snapshot = snapshot
        self._on_result = on_result
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self.results: dict[Key, Result] = {}
        self.batches: list[Batch] = []
        """Those that are running."""

    @cached_property
    def probes(self) -> dict[str, OnDemand]:
        """Return the probes of the manifest by id; DataError when it is broken."""
        return {probe.id: probe for probe in load_manifest().ondemand}

    @property
    def why_not(self) -> str:
        """Return why nothing can be run here at all, else nothing."""
        if not hasattr(self._source, "run_script"):
            return "a recording runs nothing"
        return "--read-only allows no command but the stream probe" if self._source.read_only else ""

    def probe(self, name: str) -> OnDemand:
        """Return a probe; UsageError when there is none of that id."""
        if name not in self.probes:
            raise UsageError(f'no probe is called "{name}"{did_you_mean(name, self.probes)}')
        return self.probes[name]

    def preview(self, name: str, places: Iterable[str]) -> Preview:
        """Return what running a probe on nodes and devices would do; UsageError for what does not exist."""
        probe, snapshot = self.probe(name), self._snapshot()
        may_sudo = {spec.name: getattr(spec, "sudo", False) for spec in self._source.nodes}
        steps = [
            Step(
                aim,
                probe.root != "no" and may_sudo.get(aim.node, False),
                self._refusal(snapshot, probe, aim),
            )
            for aim in aims_of(snapshot, probe, places)
        ]
        return preview_of(probe, steps)

    def aims(self, name: str, node: str) -> list[Aim]:
        """Return every device of a node that a probe can be aimed at; UsageError where it needs one and none is
        known."""
        return devices_of(self._snapshot(), self.probe(name), node)

    def results_of(self, node: str) -> list[Result]:
        """Return the last results of a node, the newest first."""
        mine = [result for result in self.results.values() if result.aim.node == node]
        return sorted(mine, key=lambda result: -result.at)

    def start(self, preview: Preview, *, force: bool = False) -> Batch:
        """Run all of a preview; results come into the batch as they come, in the background. `force` runs what may be
        forced although it is refused."""
        batch = Batch(preview, self._clock.monotonic())
        self.batches.append(batch)
        batch.task = asyncio.create_task(self._run(batch, force=force))
        return batch

    def _refusal(self, snapshot: FleetSnapshot, probe: OnDemand, aim: Aim) -> Refusal | None:
        if self.why_not:
            return Refusal(self.why_not)
        refused = refusal(snapshot, probe, aim)
        if refused is None:
            for (node, name, _), result in self.results.items():
                stuck = result.status is Status.STUCK and snapshot.wall - result.at < STUCK_S
                if stuck and node == aim.node and self.probes[name].tool == probe.tool:
                    words = f"the last {probe.tool} is stuck there since {hms(result.at - result.seconds)} UTC"
                    return Refusal(words, can_force=True)
        return refused

    async def close(self) -> None:
        """Give up what is running."""
        tasks = [batch.task for batch in self.batches if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, batch: Batch, *, force: bool) -> None:
        try:
            await asyncio.gather(*(self._step(batch, step, force=force) for step in batch.preview.steps))
        finally:
            self.batches.remove(batch)

    async def _step(self, batch: Batch, step: Step, *, force: bool) -> None:
        async with self._turns.setdefault(step.aim.node, asyncio.Lock()), self._slots:
            result = await self._asked(batch.preview, step, force=force)
        batch.results.append(result)
        self.results[result.key] = result
        self._on_result(result)

    async def _asked(self, preview: Preview, step: Step, *, force: bool) -> Result:
        probe, aim, started = preview.probe, step.aim, self._clock.monotonic()

        def result(status: Status, words: str, sections: Sequence[Section] = (), *, forced: bool = False) -> Result:
            now = self._clock.monotonic()
            return Result(
                probe.id, aim, self._clock.wall(), now - started, status, words, tuple(sections), forced=forced
            )

        # A job may have begun since the preview was shown.
        refused = self._refusal(self._snapshot(), probe, aim)
        if refused is not None and not (force and refused.can_force):
            return result(Status.REFUSED, refused.words)
        line, text = preview.line(step), ondemand.script(probe.id)
        forced = f" forced although {refused.words};" if refused is not None else ""
        journal = self._source.commands.journal
        if journal is not None:
            journal.keep(text, preview.sha256)
        words = f"{probe.id} {' '.join(aim.arguments)}".strip() + f":{forced} {line} < {preview.sha256}.sh"
        try:
            answer = await self._source.commands.run(
                aim.node,
                ON_DEMAND,
                words,
                lambda: self._source.run_script(aim.node, line, text, probe.limit_s),
            )
        except CommandError as error:
            return result(Status.NOT_RUN, str(error), forced=refused is not None)
        except Exception as error:  # noqa: BLE001  a defect met on one node must not cost the others
            words = f"{type(error).__name__}: {clean(str(error), 200)}"
            return result(Status.NOT_RUN, words, forced=refused is not None)
        status, told, sections = await asyncio.to_thread(read_answer, answer, probe, aim.node)
        return result(status, told, sections, forced=refused is not None)


def preview_of(probe: OnDemand, steps: Sequence[Step]) -> Preview:
    """Return the preview of a probe with its script."""
    digest = hashlib.sha256(ondemand.script(probe.id).encode()).hexdigest()
    return Preview(probe, tuple(steps), ondemand.commands_of(probe.id), ondemand.about(probe.id), digest)


def read_answer(answer: Answer, probe: OnDemand, node: str) -> tuple[Status, str, tuple[Section, ...]]:
    """Return what the answer of a script means: how it went, that in words, and what each of its commands said."""
    err = clean_lines(answer.stderr, 8192)
    notes = [line[len(_MARK) :] for line in err.split("\n") if line.startswith(_MARK) and not _is_frame(line)]
    sections = tuple(_read(section, probe) for section in _split(clean_lines(answer.stdout), err, answer, probe))
    tool = probe.tool or probe.id
    if answer.late:
        return Status.STUCK, f"{tool} did not end, not even when killed: it is stuck in the kernel", sections
    if answer.cut:
        return Status.FAILED, f"{tool} printed more than {ondemand.OUTPUT_LIMIT // 2**20} MiB and was ended", sections
    for note in notes:
        what, _, name = note.partition(": ")
        if what == "not installed" and answer.status == _NOT_INSTALLED:
            return Status.NOT_INSTALLED, f"{clean(name, 60)} is not installed on {node}", ()
        if what == "needs root" and answer.status == _NOT_ALLOWED:
            words = f"{clean(name, 60)} needs root on {node}: log in as root, or allow sudo -n there (fleet file: sudo)"
            return Status.NEEDS_ROOT, words, ()
    if answer.status in (_TIMED_OUT, _KILLED):
        return Status.TIMED_OUT, f"{tool} did not end within {probe.limit_s:g} s and was ended", sections
    if answer.status is None:
        return Status.FAILED, f"{tool} was ended by a signal", sections
    if answer.status != 0 and any(section.report is not None for section in sections):
        # What one command could not do is no failure of the others: a copper cable has no module to be read.
        unread = [section for section in sections if section.report is None]
        return Status.OK, "; ".join(f"{one.command}: {one.unread or _last(one.err)}" for one in unread), sections
    if answer.status != 0:
        said = _last(err) or next((section.unread for section in sections if section.unread), "")
        return Status.FAILED, f"{tool} ended with status {answer.status}" + (f": {said}" if said else ""), sections
    return Status.OK, "", sections


def _is_frame(line: str) -> bool:
    return line.startswith((f"{_MARK}$ ", f"{_MARK}exit "))


def _last(err: str) -> str:
    lines = [line.strip() for line in err.split("\n") if line.strip() and not line.startswith(_MARK)]
    return clean(lines[-1], 160) if lines else ""


def _split(out: str, err: str, answer: Answer, probe: OnDemand) -> list[Section]:
    """Return what each command said; all of it is one command's where nothing says otherwise."""
    errors: list[list[str]] = []
    for line in err.split("\n"):
        if line.startswith(f"{_MARK}$ "):
            errors.append([])
        elif errors and not line.startswith(_MARK):
            errors[-1].append(line)
    sections: list[Section] = []
    command, lines, inside = "", list[str](), False
    outside: list[str] = []
    for line in out.split("\n"):
        if line.startswith(f"{_MARK}$ ") and not inside:
            command, lines, inside = line[len(_MARK) + 2 :].rstrip(), [], True
        elif line.startswith(f"{_MARK}exit ") and inside:
            word = line[len(_MARK) + 5 :]
            said = "\n".join(errors[len(sections)]) if len(sections) < len(errors) else ""
            text = "\n".join(lines)
            sections.append(Section(command, text, said, int(word) if word.isdecimal() and len(word) < 4 else None))
            inside = False
        else:
            (lines if inside else outside).append(line)
    if inside:
        said = "\n".join(errors[len(sections)]) if len(sections) < len(errors) else ""
        sections.append(Section(command, "\n".join(lines), said))
    text = "\n".join(outside)
    if text.strip() or not sections:
        plain = "\n".join(line for line in err.split("\n") if not line.startswith(_MARK)) if not sections else ""
        sections.insert(0, Section(probe.tool or probe.id, text, plain, None if sections else answer.status))
    return sections


def _read(section: Section, probe: OnDemand) -> Section:
    read = reader(probe.parser)
    if read is None:
        return section
    report, unread = None, ""
    try:
        report = read(section.text, exit=section.exit or 0, err=section.err)
    except ToolError as error:
        unread = clean(str(error), 300)
    except Exception as error:  # noqa: BLE001  what a defect of ours keeps from being read can still be shown
        unread = f"it could not be read: {type(error).__name__}: {clean(str(error), 200)}"
    return Section(section.command, section.text, section.err, section.exit, report, unread)


def reader(parser: str) -> Callable[..., Report] | None:
    """Return the function that reads what a tool prints, None when there is none; `parser` is a name of the manifest,
    where it was checked."""
    if not parser:
        return None
    name = f"stethoscope.parse.tools.{parser}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, "stethoscope.parse.tools"):
            raise
        return None
    found: Callable[..., Report] | None = getattr(module, "read", None)
    return found


def result_json(result: Result) -> dict[str, Any]:
    """Return a result as it stands in `stethoscope.probe_run/1` and in recordings."""
    return {
        "node": result.aim.node,
        "place": result.aim.place,
        "probe": result.probe,
        "arguments": list(result.aim.arguments),
        "at": iso(result.at),
        "seconds": round(result.seconds, 3),
        "status": result.status.value,
        "words": result.words,
        "forced": result.forced,
        "items": [_item_json(item) for item in result.items],
        "remarks": list(result.remarks),
        "commands": [
            {
                "command": section.command,
                "exit": section.exit,
                "text": section.text,
                "err": section.err,
                "unread": section.unread,
                "unknown": list(section.report.unknown) if section.report else [],
            }
            for section in result.sections
        ],
    }


def _item_json(item: Item) -> dict[str, Any]:
    from stethoscope.model.metric import REASON_WORDS, Missing

    missing = item.value if isinstance(item.value, Missing) else None
    return {
        "where": item.where,
        "name": item.name,
        "value": None if missing is not None else item.value,
        "missing": REASON_WORDS[missing.reason] if missing is not None else None,
        "unit": item.unit,
        "level": item.level,
    }
