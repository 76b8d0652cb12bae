"""What leaves the console: text into the clipboard or a file, and the terminal for a shell of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from stethoscope.errors import UsageError
from stethoscope.paths import state_dir, write_private

if TYPE_CHECKING:
    from stethoscope.ui.app import StethoscopeApp

_LARGE = 70_000
"""Many terminals take no more than this through OSC 52, counted as it travels."""


def copy(console: StethoscopeApp, text: str, what: str) -> None:
    """Give `text` to the clipboard of the terminal, and say so; `what` is its name for people."""
    if not text:
        console.tell("there is nothing to copy here")
        return
    console.copy_to_clipboard(text)
    size = len(text.encode())
    lines = text.count("\n") + (not text.endswith("\n"))
    said = f"copied {what}: {lines} lines, {size:,} bytes" if lines > 1 else f"copied {what}: {size:,} bytes"
    doubt = "; it may be more than the terminal takes, w saves it" if size * 4 / 3 > _LARGE else ""
    console.tell(f"{said}, if the terminal lets programs copy (OSC 52){doubt}")


def save(console: StethoscopeApp, text: str, node: str, wall: float, suffix: str = ".txt") -> None:
    """Write `text` into a file of the user alone, named by node and time, and say where it is."""
    at = datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    name = (
        "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in node)[:100].lstrip(".") or "node"
    )
    path = state_dir() / "saved" / f"{name}-{at}{suffix}"
    try:
        write_private(path, text.encode())
    except OSError as error:
        console.tell(f"not saved: {path}: {error.strerror or error}", seconds=10)
        return
    console.tell(f"saved {path}", seconds=10)


async def open_shell(console: StethoscopeApp, node: str) -> None:
    """Leave the terminal to a shell on `node`, while data goes on being collected, and come back."""
    from stethoscope.session.login import shell_on

    async def run(arguments: list[str]) -> int:
        return await with_terminal(console, f"shell on {node}: exit or ctrl-d goes back", arguments)

    try:
        status = await shell_on(console.session, node, run)
    except (UsageError, OSError, SuspendNotSupported) as error:
        console.tell(f"no shell: {error}", seconds=8)
    else:
        failed = ": ssh could not connect" if status == 255 else ""
        console.tell(f"back from {node}{failed}")


async def with_terminal(console: StethoscopeApp, words: str, arguments: list[str]) -> int:
    """Say `words`, run a program in the foreground with the terminal as it was before the console, and return its exit
    status; OSError where it cannot be run."""
    console.away = True
    # The terminal's interrupt is for the program; a handler of our own, unlike SIG_IGN, is not inherited by it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    status, failed = 0, None
    try:
        with console.suspend():
            # Textual takes the terminal back only where nothing is raised in here.
            try:
                os.write(1, f"\r\n{words}\r\n".encode())
                process = await asyncio.create_subprocess_exec(*arguments)
                status = await process.wait()
            except BaseException as error:  # noqa: BLE001  it goes on below
                failed = error
        if failed is not None:
            raise failed
        return status
    finally:
        signal.signal(signal.SIGINT, before)
        console.away = False
        console.refresh(layout=True)
        console.pull()
