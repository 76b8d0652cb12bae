"""One script that runs on one node because somebody asked: its command line, what goes to its input, what it said.

It runs over a channel of its own on the connection that the stream probe keeps, or as a child process on this machine.
The command line is constant text and words that were checked; a script is never put together from what a node said.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stethoscope import paths
from stethoscope.collect.command import STDERR_LIMIT, Answer, CommandError, collecting, end_process
from stethoscope.collect.link import clean_error
from stethoscope.collect.shell import compact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncssh import SSHClientConnection

OUTPUT_LIMIT = 1024 * 1024
"""More than this is cut: `nvidia-smi -q` of eight GPUs has 120 KB."""
START_S = 15.0
"""Longest wait for a channel on a connection that stands."""
AFTER_S = 6.0
"""The node ends a script at its limit and kills it two seconds later; what has not ended so long after that never will:
it waits for the kernel."""
HELD_S = 2.0
"""So long after its end its output may stay open: what it left running has it, and need not be waited for."""
LOOK_S = 0.05
"""On this machine its end is looked for this often."""
WORD = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._:/-]{0,99}")
"""What an argument may be: no character that any shell reads in its own way, no dash that begins an option."""

_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")
# For any POSIX sh, inside single quotes that every login shell reads alike. $1 is the id, $2 the limit.
_RUNNER = (
    'timeout -k 2 5 true 2>/dev/null && exec timeout -k 2 "$2" sh -s -- timeout "$@"; '
    'exec sh -s -- - "$@"'
)  # fmt: skip


def command(probe: str, limit_s: float, arguments: Sequence[str], *, sudo: bool) -> str:
    """Return the command line that runs a script from standard input, from any login shell (sh, bash, tcsh, fish).

    ValueError for an argument that is not a WORD, or another word that could mean something to a shell.
    """
    if not _ID.fullmatch(probe):
        raise ValueError(f"{probe!r} is no id of a probe")
    if not 1 <= limit_s <= 600:
        raise ValueError("a probe has 1 to 600 s")
    for argument in arguments:
        if not WORD.fullmatch(argument):
            raise ValueError(f"{argument!r} cannot be an argument")
    words = (probe, f"{limit_s:.0f}", "sudo" if sudo else "-", *arguments)
    return f"exec sh -c '{_RUNNER}' stethoscope-probe {' '.join(words)}"


@functools.cache
def script(probe: str, directory: str = "ondemand") -> str:
    """Return what goes to the standard input: the script with what all begin with, without comments.

    It is one compound command, so that sh has read all of it before a tool could read from the same input. That input
    is to stay open: its end ends the script.
    """
    sources = (f"ondemand/{name}.sh" if name == "common" else f"{directory}/{name}.sh" for name in ("common", probe))
    texts = [compact((paths.bundled("probes") / source).read_text("ascii")) for source in sources]
    return "\n".join(["{", *texts, 'exit "$failed"', "} 4<&0 </dev/null", ""])


def commands_of(probe: str) -> str:
    """Return the script of a probe as people should read it before it runs: without comments, as it stands."""
    text = (paths.bundled("probes") / "ondemand" / f"{probe}.sh").read_text("ascii")
    return "\n".join(line for line in text.split("\n") if line and not line.lstrip().startswith("#"))


def about(probe: str) -> str:
    """Return the words at the head of a script: what it runs, and why that is harmless."""
    text = (paths.bundled("probes") / "ondemand" / f"{probe}.sh").read_text("ascii")
    head = [line for line in text.split("\n") if line.startswith("#")]
    return " ".join(line.lstrip("# ") for line in head)


async def run_over(connection: SSHClientConnection, line: str, text: str, limit_s: float) -> Answer:
    """Run a command line with `text` as its input over a new channel of `connection`, for at most `limit_s` and what
    its end may take.

    CommandError when it could not be started, or the connection broke. What did not end in time is `late`. What has not
    ended when this does sees the end of its input.
    """
    import asyncssh

    channel: Any = None
    try:
        async with asyncio.timeout(START_S):
            channel, session = await connection.create_session(
                lambda: collecting(asyncssh, OUTPUT_LIMIT),
                line,
                encoding=None,
                request_pty=False,
                x11_forwarding=False,
            )
    except TimeoutError:
        raise CommandError(f"the server opened no channel in {START_S:g} s") from None
    except (asyncssh.Error, OSError) as error:
        raise CommandError(f"the server opened no second channel: {clean_error(error)}") from None
    said: Any = session
    late = held = False
    try:
        with suppress(OSError, asyncssh.Error):
            channel.write(text.encode())
        async with asyncio.timeout(limit_s + AFTER_S):
            await said.exited.wait()
        held = bool((await asyncio.wait({said.ended}, timeout=HELD_S))[1])
    except TimeoutError:
        late = True
    finally:
        channel.abort()
    if not late and said.status is None and not said.flooded and connection.is_closed():
        raise CommandError("the connection was lost")
    stderr = bytes(said.stderr).decode("utf-8", "replace")
    return Answer(said.status, bytes(said.stdout), stderr, late=late, cut=said.flooded, held=held)


async def run_here(line: str, text: str, limit_s: float) -> Answer:
    """Do the same on this machine."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            line,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(f"sh cannot be started: {os.strerror(error.errno or 0)}") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    late = held = False
    reading = {
        asyncio.create_task(_take(process.stdout, out, OUTPUT_LIMIT)),
        asyncio.create_task(_take(process.stderr, err, STDERR_LIMIT, to_end=True)),
    }
    try:
        with suppress(OSError):
            process.stdin.write(text.encode())
        async with asyncio.timeout(limit_s + AFTER_S):
            # The end of a process is told only once its output is closed, unless one looks.
            while process.returncode is None and len(out) <= OUTPUT_LIMIT:
                await asyncio.sleep(LOOK_S)
        if len(out) <= OUTPUT_LIMIT:
            held = bool((await asyncio.wait(reading, timeout=HELD_S))[1])
    except TimeoutError:
        late = True
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        process.stdin.close()
        if process.returncode is None:
            await end_process(process)
    cut = len(out) > OUTPUT_LIMIT
    status = process.returncode if process.returncode is not None and process.returncode >= 0 else None
    stdout, stderr = bytes(out[:OUTPUT_LIMIT]), bytes(err[:STDERR_LIMIT]).decode("utf-8", "replace")
    return Answer(None if late or cut else status, stdout, stderr, late=late, cut=cut, held=held)


async def _take(stream: asyncio.StreamReader, into: bytearray, limit: int, *, to_end: bool = False) -> None:
    """Read a stream into `into`, and one byte more than `limit` at the most; what is over is thrown away (`to_end`) or
    not read."""
    while block := await stream.read(65_536):
        if len(into) <= limit:
            into += block[: limit + 1 - len(into)]
        if len(into) > limit and not to_end:
            return
