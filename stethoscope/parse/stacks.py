"""Stacks of Python processes as `py-spy dump` prints them: one process or many in a file, with or without a header."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stethoscope.parse.flight_recorder import rank_of_name
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST: Final = 64 * 1024 * 1024
MOST_FRAMES: Final = 400
_LINE: Final = 1000
_PROCESS = re.compile(r"Process (\d{1,9}): ?(.*)")
_THREAD = re.compile(
    r"Thread (?:0x[0-9A-Fa-f]{1,16}|\d{1,9})(?:/0x[0-9A-Fa-f]{1,16})? ?\((?P<state>[a-z+ ]{1,24})\)"
    r"(?:: \"(?P<name>.*)\")?$"
)
_FRAME = re.compile(r"(?P<function>.{1,300}?) \((?P<file>[^()]{1,300}?)(?::(?P<line>\d{1,7}))?\)$")
_RANK = re.compile(r"\brank[ =:_#-]{0,3}(\d{1,7})\b", re.IGNORECASE)
_LABEL = re.compile(
    r"(?P<label>[A-Za-z0-9][\w.-]{0,80}): ?(?P<rest>(?:Process \d|Python v\d|Thread (?:0x|\d)| {2,}\S|$).*)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One function on a stack."""

    function: str
    file: str
    line: int | None = None

    @property
    def text(self) -> str:
        """Return it as py-spy prints it."""
        return f"{self.function} ({self.file}{f':{self.line}' if self.line is not None else ''})"


@dataclass(slots=True)
class Thread:
    """One thread with its stack, the innermost function first."""

    name: str
    state: str
    """active, idle, active+gil."""
    frames: list[Frame] = field(default_factory=list)


@dataclass(slots=True)
class Process:
    """The stacks of one process."""

    file: str
    pid: int | None = None
    command: str = ""
    rank: int | None = None
    host: str | None = None
    threads: list[Thread] = field(default_factory=list)

    @property
    def main(self) -> Thread | None:
        """Return the thread that runs the program."""
        named = [thread for thread in self.threads if thread.name == "MainThread"]
        return named[0] if named else self.threads[0] if self.threads else None


def read_stacks(data: bytes, name: str) -> list[Process]:
    """Return the processes of one file; none when it holds no stacks. The rank is that of the text or of the name."""
    lines = [line.rstrip("\r") for line in data[:LARGEST].decode("utf-8", "replace").split("\n")]
    found: list[Process] = []
    for label, own in _by_label(lines):
        processes = list(_processes(own, name))
        for process in processes:
            if label.isdecimal() and process.rank is None:
                process.rank = int(label)
            elif label and not label.isdecimal():
                process.host = label
        found += processes
    if len([p for p in found if p.rank is None]) == len(found) and found:
        # Children of one process follow it in its file: the first one is the rank's own.
        found[0].rank = rank_of_name(name)
    return found


def _by_label(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of each label that pdsh or `srun -l` put in front, which mix the lines of many."""
    labelled: dict[str, list[str]] = {}
    plain = 0
    for line in lines:
        match = _LABEL.match(line)
        if match and not line.startswith(("Process ", "Thread ")):
            labelled.setdefault(match["label"], []).append(match["rest"])
        elif line.strip():
            plain += 1
    if labelled and plain <= len(labelled):
        yield from labelled.items()
    else:
        yield "", lines


def _processes(lines: Iterable[str], name: str) -> Iterator[Process]:
    current: Process | None = None
    thread: Thread | None = None
    indent = 0
    rank: int | None = None
    for raw in lines:
        line = clean(raw, _LINE)
        text = line.strip()
        if not text:
            thread = None
        elif match := _PROCESS.match(text):
            if current is not None and current.threads:
                yield current
            current, thread, rank = Process(name, int(match[1]), match[2], rank), None, None
        elif match := _THREAD.match(text):
            if current is None:
                current = Process(name, rank=rank)
            elif rank is not None and current.threads:
                yield current
                current = Process(name, rank=rank)
            thread, indent, rank = Thread(match["name"] or "", match["state"]), 0, None
            current.threads.append(thread)
        elif thread is not None and raw[:1] in (" ", "\t"):
            # Arguments and locals stand deeper than the frames.
            depth = len(raw) - len(raw.lstrip())
            indent = indent or depth
            frame = _FRAME.match(text)
            if frame and depth == indent and len(thread.frames) < MOST_FRAMES:
                number = frame["line"]
                thread.frames.append(Frame(frame["function"], frame["file"], int(number) if number else None))
        elif match := _RANK.search(text):
            rank = int(match[1])
    if current is not None and current.threads:
        yield current
