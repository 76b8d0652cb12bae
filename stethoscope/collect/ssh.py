"""The nodes of a fleet over SSH, as a source of frames."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from stethoscope.collect.commands import Commands
from stethoscope.collect.fanout import SLOTS, Fanout, raise_file_limit
from stethoscope.collect.program import Program, probe_program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from asyncssh import SSHKey

    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Scheduler, Sink
    from stethoscope.specs.fleet import Fleet, FleetNode


class SshSource:
    """Streams the probes of a fleet; one connection and one command per node."""

    def __init__(
        self,
        fleet: Fleet,
        clock: Clock,
        *,
        accept_new: bool = False,
        ssh_config: str | None = None,
        program: Program | None = None,
        slots: int = SLOTS,
        on_settled: Callable[[], None] | None = None,
        scheduler: Scheduler | None = None,
        commands: Commands | None = None,
        unlocked: Mapping[Path, SSHKey] | None = None,
    ) -> None:
        """Prepare for `fleet`; nothing is read or connected before `run`.

        `accept_new` records unknown host keys; `ssh_config` replaces the usual SSH configuration files; `on_settled`
        is called when every node has been live or failed for the first time; `scheduler` is what runs jobs there;
        `commands` is what the probes are started through; `unlocked` are keys whose passphrase is known.
        """
        self.fleet = fleet.name
        self.simulated = fleet.simulated
        self.nodes: tuple[FleetNode, ...] = fleet.nodes
        self.jobs = fleet.jobs
        """Jobs that the fleet file names."""
        self.follow_jobs = fleet.follow_jobs
        self.scheduler = scheduler
        self.commands = commands or Commands()
        self.read_only = self.commands.read_only
        self._unlocked = unlocked
        self._accept_new = accept_new
        self.ssh_config = ssh_config
        self._program = program
        self._clock = clock
        self._slots = slots
        self._on_settled = on_settled
        self._fanout = Fanout(fleet.nodes, clock, slots=slots, on_settled=on_settled)

    def narrow(self, names: Collection[str]) -> None:
        """Connect to these nodes alone; before `run`."""
        self.nodes = tuple(node for node in self.nodes if node.name in names)
        self._fanout = Fanout(self.nodes, self._clock, slots=self._slots, on_settled=self._on_settled)

    async def run(self, sink: Sink) -> None:
        """Connect, stream into `sink`, reconnect, until cancelled; then end the probes."""
        raise_file_limit(len(self.nodes))
        # Importing asyncssh takes a fifth of a second, which the first picture on the screen should not wait for.
        dial = importlib.import_module("stethoscope.collect.dial")
        program = self._program or probe_program(len(self.nodes))
        dialer = dial.SshDialer(
            program,
            accept_new=self._accept_new,
            ssh_config=self.ssh_config,
            commands=self.commands,
            unlocked=self._unlocked,
        )
        await self._fanout.run(sink, dialer)

    def ask_full(self, node: str | None = None) -> None:
        """Ask one node, or all, for a frame with every value."""
        self._fanout.ask_full(node)

    async def run_script(self, node: str, line: str, text: str, limit_s: float) -> Answer:
        """Run a script beside the probe of `node`; CommandError when there is no link to it or it cannot be run."""
        return await self._fanout.run_script(node, line, text, limit_s)

    def retry(self, node: str | None = None) -> None:
        """Try one node, or all that wait for their next attempt, at once."""
        self._fanout.retry(node)

    def take_notices(self) -> list[str]:
        """Return what people should know about what was run, once."""
        return self.commands.take_notices()

    def note(self, node: str) -> str:
        """Return what the login to `node` printed before the probe spoke."""
        return self._fanout.note(node)
