"""A person's own shell on a node of a session: whether there can be one, how it is opened, and that it was."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from stethoscope.collect.command import Answer, CommandError
from stethoscope.collect.login import ssh_arguments
from stethoscope.errors import UsageError
from stethoscope.specs.fleet import FleetNode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stethoscope.collect.commands import Commands

KIND = "shell"
"""The word in the journal."""


async def shell_on(session: object, node: str, run: Callable[[list[str]], Awaitable[int]]) -> int:
    """Let `run` open a shell on `node` by its arguments, write it into the journal, and return its exit status.

    UsageError says in words for people why there can be none: a recording, a simulated node, `--read-only`.
    """
    source = getattr(session, "source", None)
    found = next((spec for spec in getattr(source, "nodes", ()) if spec.name == node), None)
    if source is None:
        raise UsageError("a recording has no shell")
    if getattr(source, "simulated", False):
        raise UsageError(f"{node} is simulated: there is no shell behind it")
    commands: Commands | None = getattr(source, "commands", None)
    if not isinstance(found, FleetNode) or commands is None or not hasattr(source, "ssh_config"):
        raise UsageError(f"{node} is not reached by ssh: use a shell of this machine")
    arguments = ssh_arguments(found, source.ssh_config)
    status = 0

    async def opened() -> Answer:
        nonlocal status
        status = await run(arguments)
        # What a person's last command ended with says nothing of the shell: 255 is ssh's own.
        return Answer(255 if status == 255 else 0, b"", "")

    try:
        await commands.run(node, KIND, shlex.join(arguments), opened)
    except CommandError as error:
        raise UsageError(str(error)) from None
    return status
