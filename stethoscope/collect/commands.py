"""The one way to every command on a node or a login host: refuses what is not allowed, and keeps the journal."""

from __future__ import annotations

import asyncio
import shlex
import time
from typing import TYPE_CHECKING, TypeVar

from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.link import LinkFailure, clean_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stethoscope.collect.command import Runner
    from stethoscope.collect.journal import Journal

STREAM = "stream"
"""The probe that streams: what `--read-only` allows."""
SLURM = "slurm"
TEST = "test"
ON_DEMAND = "ondemand"
LOG = "log"
"""A log that somebody opened on a node."""
READ_ONLY = "--read-only allows no command but the stream probe"

_Result = TypeVar("_Result")


class Commands:
    """What may be run, and where it is written down."""

    def __init__(self, journal: Journal | None = None, *, read_only: bool = False) -> None:
        """Allow everything, or with `read_only` the stream probe alone; write to `journal`, if there is one."""
        self.journal = journal
        self.read_only = read_only

    async def run(
        self, node: str, kind: str, text: str, action: Callable[[], Awaitable[_Result]], *, quiet: bool = False
    ) -> _Result:
        """Let `action` run the command `text` of a `kind` on `node`, and write down how it went; `quiet`, which goes on
        with what is written down already, only where that is not well.

        Raises CommandError for what is not allowed, and whatever `action` raises.
        """
        if self.read_only and kind != STREAM:
            self._note(node, kind, text, f"refused: {READ_ONLY}", 0.0)
            raise CommandError(READ_ONLY)
        started, result = time.monotonic(), "ok"
        try:
            done = await action()
            if isinstance(done, Answer):
                result = _result(done)
        except asyncio.CancelledError:
            result = "failed: given up"
            raise
        except LinkFailure as failure:
            result = f"failed: {failure.state.value}: {failure.detail}"
            raise
        except Exception as error:
            result = f"failed: {clean_error(error)}"
            raise
        else:
            return done
        finally:
            if not (quiet and result == "ok"):
                self._note(node, kind, text, result, time.monotonic() - started)

    def take_notices(self) -> list[str]:
        """Return what people should know about the journal, once."""
        return [] if self.journal is None else self.journal.take_notices()

    def _note(self, node: str, kind: str, text: str, result: str, seconds: float) -> None:
        if self.journal is not None:
            self.journal.write(node, kind, text, result, seconds)


def _result(answer: Answer) -> str:
    if answer.late:
        return "failed: no end in its time"
    if answer.cut:
        return "failed: endless output"
    if answer.status is None:
        return "failed: ended by a signal"
    return "ok" if answer.status == 0 else f"failed: status {answer.status}"


class AllowedRunner:
    """A runner whose commands are all of one kind and go this way."""

    def __init__(self, runner: Runner, commands: Commands, kind: str) -> None:
        """Run what is allowed with `runner`."""
        self.where = runner.where
        self._runner = runner
        self._commands = commands
        self._kind = kind

    async def run(self, arguments: Sequence[str], limit_s: float) -> Answer:
        """Run `arguments` for at most `limit_s`; CommandError when that cannot be, or is not allowed."""
        text = shlex.join(arguments)
        return await self._commands.run(self.where, self._kind, text, lambda: self._runner.run(arguments, limit_s))

    async def close(self) -> None:
        """Let go of the machine."""
        await self._runner.close()
