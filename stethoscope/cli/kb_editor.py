"""A text in the user's editor, again and again until it is right; nothing that was typed is ever lost."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from stethoscope.cli.say import say
from stethoscope.errors import DataError, UsageError
from stethoscope.paths import state_dir, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")

_TAKE_A_LINE = frozenset({"vi", "vim", "nvim", "view", "nano", "pico", "emacs", "joe", "micro", "mcedit", "kak"})
"""Editors that begin at a line when told `+12`."""
_TYPED = re.compile(r"""(title:|resolution:)[ \t]+([^\s"'|>\[{&*!].*(?::(?:\s|$)|\s#).*|[@`%#{\[&*!,-][^"]*)""")
"""A value that is not quoted and is not what it looks like."""
_AROUND = 2
"""Lines that are shown above a fault."""


def is_at_hand() -> bool:
    """Tell whether somebody sits here who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def kept_path(name: str) -> Path:
    """Return where the text of an edit is while it goes on, readable by the user alone."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:120]
    return state_dir() / "drafts" / f"{word}.md"


def edit_until(wanted: Path, text: str, check: Callable[[str, Path], T], *, line: int = 0) -> T | None:
    """Let the user edit `text` and return what `check` makes of it; None when all of it was deleted.

    `check` gets the text and where it is. What it raises as DataError is shown at its line, and the user edits again or
    stops: then what was typed stays in `wanted`, and Abort is raised. What is kept there already is an edit that was
    cut short: it goes on.
    """
    with _alone(wanted) as path:
        if path.exists() and _read(path) != text:
            say(f"an edit of before was cut short and is kept in {path}", err=True)
            if not click.confirm("Go on with it?", default=True, err=True):
                path.replace(path.with_name(f"{path.name}~"))
                _write(path, text)
        else:
            _write(path, text)
        while True:
            status = _open(path, line)
            said = _read(path)
            if status:
                # `:cq` of vi: whoever leaves it so wants nothing to happen.
                if said == text:
                    path.unlink(missing_ok=True)
                else:
                    say(f"what you wrote is kept in {path}", err=True)
                raise click.Abort
            if not said.strip():
                path.unlink(missing_ok=True)
                return None
            try:
                made = check(said, path)
            except DataError as error:
                line = show_fault(error, _read(path))
                if not click.confirm("Edit again?", default=True, err=True):
                    say(f"what you wrote is kept in {path}", err=True)
                    raise click.Abort from None
                continue
            path.unlink(missing_ok=True)
            return made


def kept_edits(begin: str = "") -> list[Path]:
    """Return the texts of edits that were cut short, the latest first, of those whose names begin so."""
    import fcntl

    found: list[tuple[float, Path]] = []
    for path in (state_dir() / "drafts").glob("*.md"):
        if not path.name.startswith((f"edit-{begin}", f"add-{begin}")):
            continue
        try:
            with path.with_suffix(".lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            pass
        except OSError:
            # It goes on in another terminal.
            continue
        try:
            found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    return [path for _, path in sorted(found, reverse=True)]


@contextmanager
def _alone(path: Path) -> Iterator[Path]:
    """Yield `path`, or one beside it where another terminal has an edit of the same going on."""
    import fcntl

    for number in range(1, 100):
        one = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(one.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataError(f"{error.strerror}: what you type has to be kept there", where=str(path.parent)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        try:
            yield one
        finally:
            one.with_suffix(".lock").unlink(missing_ok=True)
            os.close(lock)
        return
    raise DataError("too many edits of this go on", where=str(path))


def quoted(text: str, base: str = "") -> str:
    """Return the text of an incident with what was typed behind `title:` and `resolution:` in quotes, where YAML would
    take it for something else: `swapped: port #3`. Lines of `base` stay as they are."""
    front, end, body = text.partition("\n---\n")
    if not end:
        return text
    known = set(base.splitlines())
    lines = front.split("\n")
    for number, line in enumerate(lines):
        found = _TYPED.fullmatch(line)
        goes_on = number + 1 < len(lines) and lines[number + 1].startswith((" ", "\t"))
        if found is not None and line not in known and not goes_on:
            lines[number] = f"{found[1]} {json.dumps(found[2].strip(), ensure_ascii=False)}"
    return "\n".join(lines) + end + body


def show_fault(error: DataError, text: str) -> int:
    """Print an error below the lines that it is about, and return the line, 0 where none is meant."""
    found = re.search(r":(\d+)(?::(\d+))?$", error.where)
    lines = text.splitlines()
    number = int(found[1]) if found is not None else 0
    if not 0 < number <= len(lines):
        say(f"stethoscope: {error}", err=True)
        return 0
    for index in range(max(1, number - _AROUND), number + 1):
        say(f"{index:>5}  {lines[index - 1]}", err=True)
    column = int(found[2]) if found is not None and found[2] else 1
    say(f"{'':>{7 + min(column - 1, 200)}}^ {error.message}", err=True)
    return number


def _write(path: Path, text: str) -> None:
    try:
        write_private(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise DataError(error.strerror or str(error), where=str(path)) from error


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise DataError(error.strerror or str(error), where=str(path)) from error


def _open(path: Path, line: int) -> int:
    """Let the editor have the file, and return how it ended."""
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = shlex.split(said)
    except ValueError as error:
        raise UsageError(f"EDITOR={said}: {error}") from None
    if not words:
        raise UsageError("EDITOR is empty: set it to an editor")
    begin = [f"+{line}"] if line and os.path.basename(words[0]) in _TAKE_A_LINE else []
    try:
        status = subprocess.run([*words, *begin, str(path)], check=False).returncode
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be started: {error.strerror}; set EDITOR") from None
    if status:
        say(f"{words[0]} ended with {status}", err=True)
    return status
