"""Tries every node of a fleet once, and says what works there, what does not, and what to do about it.

The stream probe is started and ended again after its first values. Nothing else is run, but `sudo -n true` where the
fleet file's policy allows `sudo`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.collect.command import CommandError, SshRunner
from stethoscope.collect.commands import TEST, AllowedRunner
from stethoscope.collect.link import USING_SHELL
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.ids import fold
from stethoscope.model.wire import Delta, Full, Hello
from stethoscope.parse.stream import ParseError, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stethoscope.collect.ssh import SshSource
    from stethoscope.specs.fleet import FleetNode

NOT_REACHED = frozenset({LinkState.UNREACHABLE, LinkState.REFUSED, LinkState.WAITING, LinkState.CONNECTING})
NOT_LOGGED_IN = frozenset({LinkState.HOST_KEY_CHANGED, LinkState.HOST_KEY_UNKNOWN, LinkState.AUTH_REFUSED})
DRIVER_S = 10.0
"""Longest wait for the driver once the probe runs."""
CLOCK_S = 2.0
"""A clock that is off by more than this makes the order of events doubtful."""
SUDO_S = 15.0
SUDO_AT_ONCE = 32
_NO_IB = "no ports"


@dataclass(slots=True)
class NodeTest:
    """What works on one node; None is what could not be looked at."""

    node: str
    link: str = LinkState.WAITING.value
    detail: str = ""
    """Words of the link, cleaned."""
    reached: bool = False
    authenticated: bool | None = None
    interpreter: str | None = None
    """`3.6.8`, or `sh`."""
    driver: str | None = None
    """`ok`, or why not."""
    kernel_log: str | None = None
    infiniband: str | None = None
    sudo: str | None = None
    clock_offset_s: float | None = None

    @property
    def is_fine(self) -> bool:
        """Tell whether nothing is missing."""
        seen = (self.driver, self.kernel_log, self.infiniband, self.sudo)
        clock = self.clock_offset_s is not None and abs(self.clock_offset_s) <= CLOCK_S
        return bool(self.interpreter) and clock and all(what in (None, "ok", "none", _NO_IB) for what in seen)


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that does not work, where, and what to do."""

    what: str
    nodes: str
    """Folded."""
    do: str


@dataclass(slots=True)
class FleetTest:
    """What was found, in the order of the fleet."""

    fleet: str
    nodes: list[NodeTest]
    advice: list[Advice] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Tell whether any node was reached."""
        return any(node.reached for node in self.nodes)


class _Look:
    """Takes what the probes say first."""

    def __init__(self, nodes: Sequence[FleetNode], on_progress: Callable[[int], None] | None) -> None:
        self.found = {node.name: NodeTest(node.name) for node in nodes}
        self._expected = {node.name: node for node in nodes}
        self._open = set(self.found)
        self._waits_for_driver: dict[str, float] = {}
        self._on_progress = on_progress
        self.done = asyncio.Event()

    def on_link(self, name: str, link: Link) -> None:
        if name not in self._open:
            return
        node = self.found[name]
        node.link, node.detail = link.state.value, link.detail
        if link.state in NOT_LOGGED_IN:
            # The words tell whether it was the jump host that refused.
            node.reached = not link.detail.startswith("jump host ")
            node.authenticated = False if node.reached else None
        elif link.state in (LinkState.STARTING, LinkState.LIVE):
            node.reached = node.authenticated = True
        elif link.next_try is not None and link.state not in NOT_REACHED and link.state is not LinkState.ERROR:
            node.reached = True
        if link.state is LinkState.LIVE and USING_SHELL in link.detail:
            node.interpreter = "sh"
        if link.next_try is not None:
            self._close(name)

    def on_frame(self, frame: Frame) -> None:
        name = frame.node
        if name not in self._open:
            return
        try:
            message = parse(frame.raw)
        except ParseError:
            return
        node = self.found[name]
        if isinstance(message, Hello):
            node.interpreter = message.python or node.interpreter
        elif isinstance(message, Full):
            notes = message.notes
            node.clock_offset_s = round(message.wall - frame.received_wall, 3)
            node.kernel_log = notes.get("kernel_log", "ok")
            node.infiniband = notes.get("ib") or _ports(message, self._expected[name])
            self._take_driver(name, notes, len(message.gpus))
        elif isinstance(message, Delta) and message.notes is not None:
            self._take_driver(name, message.notes, None)

    def give_up_on_drivers(self, now: float) -> None:
        """Close the nodes whose driver has had its time."""
        for name, since in list(self._waits_for_driver.items()):
            if now - since > DRIVER_S:
                self._close(name)

    def _take_driver(self, name: str, notes: dict[str, str], gpus: int | None) -> None:
        node, note = self.found[name], notes.get("nvml", "")
        expected = self._expected[name].expected_gpus
        if (note.startswith("no ") and expected == 0) or (note == "no devices" and expected is None):
            node.driver = "none"
        elif note:
            node.driver = note
        elif gpus is not None and expected and gpus < expected:
            node.driver = f"{gpus} of {expected} GPUs"
        else:
            node.driver = "ok"
        if note == "starting":
            self._waits_for_driver.setdefault(name, asyncio.get_running_loop().time())
        else:
            self._close(name)

    def _close(self, name: str) -> None:
        self._open.discard(name)
        self._waits_for_driver.pop(name, None)
        if self._on_progress is not None:
            self._on_progress(len(self.found) - len(self._open))
        if not self._open:
            self.done.set()


def _ports(message: Full, node: FleetNode) -> str:
    ports = [port for port in message.ports if port.layer == "InfiniBand"] or message.ports
    if not ports:
        return _NO_IB if not node.expected_ib_ports else f"0 of {node.expected_ib_ports} ports"
    counters = message.port.get("ib_port_xmit_data", [])
    if not any(isinstance(cell, int | float) for cell in counters):
        words = {cell for cell in counters if isinstance(cell, str)}
        return ", ".join(sorted(words)) or "no counters"
    return "ok"


async def try_fleet(
    source: SshSource,
    runner: Callable[[FleetNode], SshRunner],
    *,
    limit_s: float,
    on_progress: Callable[[int], None] | None = None,
) -> FleetTest:
    """Try every node of `source` for at most `limit_s`; `runner` makes what `sudo -n true` is run with."""
    look = _Look(source.nodes, on_progress)
    streaming = asyncio.create_task(source.run(look))
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    try:
        while not look.done.is_set() and not streaming.done() and loop.time() < until:
            look.give_up_on_drivers(loop.time())
            waiting = asyncio.create_task(look.done.wait())
            await asyncio.wait({streaming, waiting}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        if streaming.done():
            streaming.result()
    finally:
        streaming.cancel()
        await asyncio.gather(streaming, return_exceptions=True)
    if not source.read_only:
        slots = asyncio.Semaphore(SUDO_AT_ONCE)
        wanted = [node for node in source.nodes if node.sudo and look.found[node.name].authenticated]
        await asyncio.gather(*(_try_sudo(look.found[node.name], runner(node), source, slots) for node in wanted))
    nodes = list(look.found.values())
    return FleetTest(source.fleet, nodes, advise(nodes, {node.name: node for node in source.nodes}))


async def _try_sudo(node: NodeTest, runner: SshRunner, source: SshSource, slots: asyncio.Semaphore) -> None:
    async with slots:
        allowed = AllowedRunner(runner, source.commands, TEST)
        try:
            answer = await allowed.run(["sudo", "-n", "true"], SUDO_S)
        except CommandError as error:
            node.sudo = str(error)
        else:
            said = answer.stderr.strip()
            node.sudo = "ok" if answer.status == 0 else said or f"status {answer.status}"
        finally:
            await allowed.close()


def advise(nodes: Sequence[NodeTest], fleet: dict[str, FleetNode]) -> list[Advice]:
    """Return one line for each thing that does not work, what stops most first."""
    grouped: dict[tuple[int, str, str], list[str]] = {}
    for node in nodes:
        for order, what, do in _lacks(node, fleet[node.node].user or "the user"):
            grouped.setdefault((order, what, do), []).append(node.node)
    return [Advice(what, fold(names), do) for (_, what, do), names in sorted(grouped.items())]


def _lacks(node: NodeTest, user: str) -> list[tuple[int, str, str]]:
    if not node.reached:
        return [(0, f"not reached ({node.link})", _LINK_ADVICE.get(node.link) or node.detail)]
    if node.authenticated is False:
        return [(1, node.link, _LINK_ADVICE.get(node.link) or node.detail)]
    if node.clock_offset_s is None:
        return [(2, f"no values ({node.link})", node.detail or "try `ssh` there by hand")]
    lacks = []
    if node.interpreter == "sh":
        lacks.append((3, "no Python", "the probe in sh shows less: install Python 3.6 or newer"))
    if node.driver not in ("ok", "none", None):
        lacks.append((4, f"GPU driver: {node.driver}", _driver_advice(node.driver)))
    if node.kernel_log not in ("ok", None):
        do = f"add {user} to group systemd-journal (or adm)" if node.kernel_log == "permission" else "no source of it"
        lacks.append((5, "kernel log unreadable", do))
    if node.infiniband not in ("ok", _NO_IB, None):
        lacks.append((6, f"InfiniBand counters: {node.infiniband}", "look at /sys/class/infiniband/*/ports/*/counters"))
    if node.sudo not in ("ok", None):
        lacks.append((7, "sudo -n not possible", f"allow it in sudoers (NOPASSWD), or set sudo: false ({node.sudo})"))
    if abs(node.clock_offset_s) > CLOCK_S:
        lacks.append((8, "clock off by more than 2 s", "look at chronyc tracking"))
    return lacks


def _driver_advice(note: str) -> str:
    if note.startswith("hung"):
        return "the driver does not answer: drain the node and reset it"
    if note.endswith(" GPUs"):
        return "look at lspci and dmesg for what is missing"
    if note.startswith("permission"):
        return "look at the mode of /dev/nvidia*"
    if note.startswith("no "):
        return "is the driver installed? a node without GPUs needs gpus: 0 in the fleet file"
    return "look at nvidia-smi there"


_LINK_ADVICE = {
    "refused": "is sshd running there, and is it the right port?",
    "host key unknown": "check the key, then --accept-new, or ssh-keyscan into known_hosts",
    "host key changed": "was it reinstalled? then remove the old key: ssh-keygen -R NODE",
    "waiting": "there was no time for it: --timeout",
    "connecting": "there was no time for it: --timeout",
}
