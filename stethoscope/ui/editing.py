"""An incident in the user's own editor, with the terminal to itself, and back."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from stethoscope.errors import DataError
from stethoscope.ui.outside import with_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stethoscope.model.incident import Incident
    from stethoscope.store.incidents import Version
    from stethoscope.ui.app import StethoscopeApp

_NO_ID = "INC-not-recorded-yet"
_FAULT = "# mend this: "
"""Begins a line that is put below the first `---` and taken out again."""


def editor() -> list[str]:
    """Return the command that edits a file: $VISUAL, else $EDITOR, else vi."""
    for name in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(name, ""))
        except ValueError:
            words = []
        if words:
            return words
    return ["vi"]


async def edited(console: StethoscopeApp, one: Incident) -> Incident | None:
    """Let a person edit all of `one`, which lies in no file yet, and return what was written; None where nothing was
    changed."""
    from stethoscope.specs.incident import incident_text, read_incident

    named = one if one.id else replace(one, id=_NO_ID)
    found: list[Incident] = []

    def take(text: str) -> None:
        found.append(read_incident(text, "line"))

    if not await _edit(console, named.id, incident_text(named), take):
        return None
    return replace(found[-1], id=one.id)


async def edit_file(console: StethoscopeApp, identity: str) -> bool:
    """Let a person edit the file of an incident, comments and all; return whether it was changed. What somebody else
    wrote meanwhile is never written over."""
    library = console.library

    def read() -> tuple[str, Version]:
        library.refresh()
        version = library.version(identity)
        return library.path(identity).read_text(encoding="utf-8-sig", errors="replace"), version

    try:
        text, version = await asyncio.to_thread(read)
    except (DataError, OSError) as error:
        console.tell(f"it cannot be edited: {error}", seconds=10)
        return False
    return await _edit(console, identity, text, lambda after: library.save_text(after, version))


async def mend(console: StethoscopeApp, path: Path) -> None:
    """Let a person edit a file as it lies there: one that cannot be read."""
    try:
        await _run(console, path)
    except (OSError, SuspendNotSupported) as error:
        console.tell(_no_editor(error), seconds=8)


async def _edit(console: StethoscopeApp, name: str, text: str, take: Callable[[str], object]) -> bool:
    """Let a person edit `text` and give it to `take`, again and again as long as that refuses it; what is given up with
    a fault stays in a file. Return whether something was taken."""
    from stethoscope.paths import state_dir, write_private
    from stethoscope.store.incidents import ConflictError

    path = state_dir() / "drafts" / f"{name}.{secrets.token_hex(3)}.md"
    fault, last, failed = "", text, ""
    try:
        while True:
            await asyncio.to_thread(write_private, path, _with_fault(last, fault).encode("utf-8", "replace"))
            status, after = await _opened(console, path)
            if status != 0:
                failed = f"{editor()[0]} ended with {status}: nothing was taken over"
                # One that was killed may have written before.
                fault = failed if after != last else fault
            if status != 0 or after == last:
                break
            last = after
            try:
                await asyncio.to_thread(take, after)
            except ConflictError as error:
                fault = str(error)
                break
            except DataError as error:
                fault = str(error)
            else:
                path.unlink(missing_ok=True)
                return True
    except (OSError, SuspendNotSupported) as error:
        failed = _no_editor(error)
    if fault:
        console.tell(f"{failed or f'not taken over: {fault}'}; your text is in {path}", seconds=20)
    else:
        path.unlink(missing_ok=True)
        console.tell(failed or "nothing was changed", seconds=8 if failed else 4)
    return False


async def _opened(console: StethoscopeApp, path: Path) -> tuple[int, str]:
    """Run the editor on a file and return what it ended with, and what is in the file then."""
    status = await _run(console, path)
    text = await asyncio.to_thread(path.read_text, encoding="utf-8", errors="replace")
    return status, "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_FAULT))


async def _run(console: StethoscopeApp, path: Path) -> int:
    command = [*editor(), str(path)]
    return await with_terminal(console, f"{command[0]}: leaving it goes back", command)


def _no_editor(error: OSError | SuspendNotSupported) -> str:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f'no editor: "{editor()[0]}": {why}; $VISUAL or $EDITOR names another one'


def _with_fault(text: str, fault: str) -> str:
    """Return `text` with what is wrong with it below its first line; the line that the fault names is one further down
    for it."""
    if not fault:
        return text
    first, end, rest = text.partition("\n")
    return f"{first}{end}{_FAULT}{fault} (this line not counted)\n{rest}"
