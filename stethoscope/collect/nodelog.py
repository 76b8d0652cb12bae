"""Logs that lie on nodes: a part of a file, or the kernel log since a time, over the link that the stream probe keeps.

The command line is constant text, numbers and octal digits; a path that somebody typed never meets a shell's eyes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stethoscope.collect import ondemand
from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.commands import LOG, Commands
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 1_000_000
"""Bytes that one reading brings: less than what an answer may have."""
LIMIT_S = 20.0
LONGEST_PATH = 1_000
_HEAD = re.compile(rb"stethoscope-log: (\S+) (\d+)(?: (\d+))?\n")
_DIRECTORY = "logs"
_WORD_DIGITS = 99
"""A word of a command line has at most 100 characters; a byte of a path is three of them."""
_UPTIME = re.compile(rb"^(?:<\d+>)?\[ *(\d{1,10}\.\d{1,9})\] ", re.MULTILINE)


class Reaching(Protocol):
    """A source that can run a script on a node."""

    commands: Commands

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        """Run a command line with `text` as its input; CommandError when that cannot be."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read: its number (a rotated log has another one) and the offset of the next byte."""

    number: str
    offset: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file."""

    data: bytes
    at: int
    """Offset of its first byte; 0 again when the file was rotated or cut short."""
    size: int
    """Bytes of the file when it was read."""
    position: Position
    """Where the next piece begins."""
    is_new_file: bool
    """What was read before is of another file, or of what was cut off."""


async def tail(
    source: Reaching,
    node: str,
    path: str,
    position: Position | None = None,
    *,
    most: int = MOST,
    quiet: bool = False,
) -> Piece:
    """Return what `path` on `node` has behind `position`, without one its last `most` bytes; CommandError says why
    not. `quiet`: it is one of many looks that follow each other, which the journal need not tell one by one."""
    start = ("end", "0") if position is None else (str(position.offset), position.number)
    words = (*start, str(min(most, MOST)), *_octal(path))
    said = await _run(source, node, "log_tail", words, f"tail {path}", sudo=False, quiet=quiet)
    match = _HEAD.match(said)
    if match is None or match[3] is None:
        raise CommandError("the node answered something that is no log")
    data, at = said[match.end() :], int(match[3])
    number = match[1].decode("ascii", "replace")
    return Piece(
        data=data,
        at=at,
        size=int(match[2]),
        position=Position(number, at + len(data)),
        is_new_file=position is not None and (number != position.number or at != position.offset),
    )


async def kernel_log(source: Reaching, node: str, since: float, *, sudo: bool = False) -> bytes:
    """Return the kernel log of `node` since wall second `since` of its clock, each line with its time in seconds since
    1970; CommandError says why not."""
    said = await _run(
        source, node, "log_kernel", (f"{since:.0f}", str(MOST)), f"kernel log since {since:.0f}", sudo=sudo
    )
    match = _HEAD.match(said)
    if match is None:
        raise CommandError("the node answered something that is no log")
    lines = said[match.end() :]
    if match[1] == b"journal":
        return lines
    booted = int(match[2])
    return b"".join(line for line in _with_times(lines, booted).splitlines(keepends=True) if _time_of(line) >= since)


def _with_times(lines: bytes, booted: int) -> bytes:
    """Put the wall time before each line of dmesg, as the journal does."""
    return _UPTIME.sub(lambda match: b"%.6f localhost kernel: " % (booted + float(match[1])), lines)


def _time_of(line: bytes) -> float:
    """Return the time at the head of a line; one without any belongs to the line before it and is kept."""
    head = line.partition(b" ")[0]
    return float(head) if re.fullmatch(rb"\d{9,11}\.\d{1,9}", head) else float("inf")


async def _run(
    source: Reaching, node: str, name: str, words: Sequence[str], about: str, *, sudo: bool, quiet: bool = False
) -> bytes:
    line = ondemand.command(name, LIMIT_S, words, sudo=sudo)
    text = ondemand.script(name, _DIRECTORY)
    answer = await source.commands.run(
        node, LOG, clean(about, 400), lambda: source.run_script(node, line, text, LIMIT_S), quiet=quiet
    )
    if answer.late:
        raise CommandError(f"no answer in {LIMIT_S:g} s: the file system that it lies on may hang")
    if answer.status != 0:
        raise CommandError(_complaint(answer))
    return answer.stdout


def _complaint(answer: Answer) -> str:
    own = [line.removeprefix("stethoscope-log: ") for line in answer.stderr.splitlines() if "stethoscope-log: " in line]
    said = own[-1:] or [line for line in answer.stderr.splitlines() if not line.startswith("stethoscope-probe:")][-1:]
    return said[0] if said else f"reading it failed with status {answer.status}"


def _octal(path: str) -> list[str]:
    """Return the bytes of a path as three octal digits each, in words of a command line; CommandError for what is no
    path of a file."""
    raw = path.encode("utf-8", "surrogateescape")
    if not path.startswith("/"):
        raise CommandError("write the whole path, from /")
    if b"\0" in raw or b"\n" in raw or len(raw) > LONGEST_PATH:
        raise CommandError(f"a path has no line feed and at most {LONGEST_PATH} bytes")
    digits = "".join(f"{byte:03o}" for byte in raw)
    return [digits[at : at + _WORD_DIGITS] for at in range(0, len(digits), _WORD_DIGITS)]
