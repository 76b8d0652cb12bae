"""What an on-demand probe said: its answer taken apart by commands, read by the parser of the tool, and how it went."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.clock import from_iso, iso
from stethoscope.model.metric import REASON_WORDS, Missing
from stethoscope.model.report import Item, Report, ToolError
from stethoscope.model.verdict import Measured
from stethoscope.text import clean, clean_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.collect.command import Answer
    from stethoscope.session.aims import Aim
    from stethoscope.specs.probes import OnDemand

_MARK = "stethoscope-probe: "
_NOT_INSTALLED, _NOT_ALLOWED, _TIMED_OUT, _KILLED = 127, 126, 124, 137
_REFUSED = "refused"
"""How a command ended that sudo did not run."""

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


@dataclass(frozen=True)
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

    @cached_property
    def size(self) -> int:
        """Return about how many characters are kept of it."""
        return sum(len(section.text) + len(section.err) for section in self.sections) + 100 * len(self.items)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Return all values that were read, each once, what the tool itself calls wrong first."""
        found = dict.fromkeys(item for section in self.sections if section.report for item in section.report.items)
        return tuple(sorted(found, key=lambda item: _ORDER.get(item.level, 2)))

    @property
    def answered(self) -> bool:
        """Tell whether it gave what it was run for."""
        return self.status is Status.OK or any(section.report is not None for section in self.sections)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what the tool says is wrong."""
        return tuple(remark for section in self.sections if section.report for remark in section.report.remarks)


_ORDER = {"critical": 0, "warning": 1}


def measured_of(result: Result, place: str = "") -> Measured:
    """Return a result as the diagnosis reads it: of `place`, or of where it ran."""
    where = place or result.aim.place or result.aim.node
    text = "\n".join(section.text for section in result.sections) or result.words
    return Measured(where, result.probe, result.at, text, result.items, result.status.value)


def read_answer(
    answer: Answer, probe: OnDemand, node: str, seconds: float = 0.0
) -> tuple[Status, str, tuple[Section, ...]]:
    """Return what the answer of a script means, which came after `seconds`: how it went, that in words, and what each
    of its commands said."""
    err = clean_lines(answer.stderr, 8192)
    notes = [line[len(_MARK) :] for line in err.split("\n") if line.startswith(_MARK) and not _is_frame(line)]
    sections = tuple(_read(section, probe) for section in _split(clean_lines(answer.stdout), err, answer, probe))
    tool = probe.tool or probe.id
    limit = f"{tool} did not end within {probe.limit_s:g} s"
    if answer.late and "no timeout" in notes:
        return Status.TIMED_OUT, f"{limit} and was told to end; {node} has no command timeout", sections
    if answer.late:
        return Status.STUCK, f"{limit}, not even when killed: it is stuck in the kernel", sections
    # What does not end when it is asked to takes its `timeout` with it when it is killed.
    is_over = answer.status in (_TIMED_OUT, _KILLED) or (answer.status is None and seconds >= probe.limit_s)
    if answer.held and is_over:
        return Status.STUCK, f"{limit} and could not be ended: it may still run on {node}", sections
    if answer.cut:
        return Status.FAILED, f"{tool} printed {len(answer.stdout) // 1024:,} KiB without an end", sections
    for note in notes:
        what, _, name = note.partition(": ")
        if what == "not installed" and answer.status == _NOT_INSTALLED:
            return Status.NOT_INSTALLED, f"{clean(name, 60)} is not installed on {node}", ()
        if what == "needs root" and answer.status == _NOT_ALLOWED:
            words = f"{clean(name, 60)} needs root on {node}: log in as root, or allow sudo without a password there"
            words += " (fleet file: sudo; sudoers: NOPASSWD)"
            return Status.NEEDS_ROOT, words, ()
    if is_over:
        return Status.TIMED_OUT, f"{limit} and was ended", sections
    if answer.status is None:
        return Status.FAILED, f"{tool} was ended by a signal", sections
    if answer.status != 0 and any(section.report is not None for section in sections):
        # What one command could not do is no failure of the others: a copper cable has no module to be read.
        unread = [section for section in sections if section.report is None]
        return Status.OK, "; ".join(f"{one.command}: {one.unread or _last(one.err)}" for one in unread), sections
    if answer.status != 0:
        said = _last(err) or next((section.unread for section in sections if section.unread), "")
        return Status.FAILED, f"{tool} ended with status {answer.status}" + (f": {said}" if said else ""), sections
    if not any(section.report is not None or not section.unread for section in sections):
        return Status.FAILED, sections[0].unread, sections
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
        if _begins(line, bool(errors)):
            errors.append([])
        elif errors and not line.startswith(_MARK):
            errors[-1].append(line)
    said = iter("\n".join(lines) for lines in errors)
    sections: list[Section] = []
    command: str | None = None
    lines: list[str] = []
    for line in out.split("\n"):
        if command is None and (begun := _begins(line, bool(sections))):
            command, lines = begun, []
        elif command is not None and line.startswith(f"{_MARK}exit "):
            word, stderr = line[len(_MARK) + 5 :], next(said, "")
            if word != _REFUSED:
                status = int(word) if word.isdecimal() and len(word) < 4 else None
                sections.append(Section(command, "\n".join(lines), stderr, status))
            command = None
        elif command is not None:
            lines.append(line)
    if command is not None:
        sections.append(Section(command, "\n".join(lines), next(said, "")))
    if not sections:
        plain = "\n".join(line for line in err.split("\n") if not line.startswith(_MARK))
        sections.append(Section(probe.tool or probe.id, out, plain, answer.status))
    return sections


def _begins(line: str, is_next: bool) -> str:
    """Return the command that begins with a line, else nothing; what a login shell printed may stand before the
    first."""
    before, mark, command = line.partition(f"{_MARK}$ ")
    return command.rstrip() if mark and not (before and is_next) else ""


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
    missing = item.value if isinstance(item.value, Missing) else None
    return {
        "where": item.where,
        "name": item.name,
        "value": None if missing is not None else item.value,
        "missing": REASON_WORDS[missing.reason] if missing is not None else None,
        "unit": item.unit,
        "level": item.level,
    }


def measured_note(value: object) -> Measured | None:
    """Return what a recorded result tells the diagnosis, None for what `result_json` did not write."""
    try:
        said = msgspec.convert(value, _Recorded)
    except msgspec.ValidationError:
        return None
    at = from_iso(said.at)
    if at is None or said.status in (Status.REFUSED, Status.NOT_RUN):
        return None
    text = "\n".join(command.text for command in said.commands) or said.words
    items = tuple(
        Item(
            one.where,
            one.name,
            Missing(_REASONS[one.missing]) if one.missing in _REASONS else one.value if one.value is not None else "",
            one.unit,
            one.level,
        )
        for one in said.items
    )
    return Measured(said.place or said.node, said.probe, at, text, items, said.status)


class _RecordedItem(msgspec.Struct):
    where: str
    name: str
    value: float | int | str | bool | None = None
    missing: str | None = None
    unit: str = ""
    level: str = ""


class _RecordedCommand(msgspec.Struct):
    text: str = ""


class _Recorded(msgspec.Struct):
    node: str
    probe: str
    at: str
    status: str
    place: str = ""
    words: str = ""
    items: list[_RecordedItem] = []
    commands: list[_RecordedCommand] = []


_REASONS = {word: reason for reason, word in REASON_WORDS.items()}
