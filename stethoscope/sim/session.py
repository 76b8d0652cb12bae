"""One exec on one simulated node: the probe's start, its stream and its control line, or a very small shell."""

from __future__ import annotations

import asyncio
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import asyncssh
import msgspec

from stethoscope.model import wire
from stethoscope.sim import logs, tools
from stethoscope.sim.parts import Order
from stethoscope.sim.speaker import Speaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.sim.lines import Said
    from stethoscope.sim.readings import Readings
    from stethoscope.sim.server import Node
    from stethoscope.sim.twin import Twin

_START = re.compile(re.escape(wire.SCHEMA) + r" ([A-Za-z0-9]{1,64})")
_ONDEMAND = re.compile(r" stethoscope-probe ([a-z0-9_]{1,64}) [0-9]+ (?:sudo|-)((?: [A-Za-z0-9._:/-]+)*)$")
"""End of a command line that runs an on-demand probe: its id, time limit, whether with sudo, and its arguments."""
_PARTS_A_SLOT = 2
_SCRIPT_END = b"\n} 4<&0 </dev/null\n"
_LONGEST_CONTROL = 65_536
_LONGEST_PAYLOAD = 16 * 1024 * 1024
_HISTORY_S = 900.0
"""How far back a probe reads the kernel log when it starts."""
_GOLDEN = 0.618034


class _Control(msgspec.Struct):
    do: str
    s: float = 0.0
    groups: Any = ()
    bytes: int = 0
    """So many bytes follow: the parts of the probe that a real node needs for the groups, and these."""
    pace: float = 1.0


_control = msgspec.json.Decoder(_Control)


@lru_cache(maxsize=8)
def _sent(packed: bytes, payload: bytes, pace: float) -> tuple[Order, ...]:
    try:
        return _orders(wire.watch_groups(packed, payload), pace)
    except ValueError:
        return ()


def _orders(groups: Any, pace: float) -> tuple[Order, ...]:
    try:
        return msgspec.convert(wire.loose(groups, pace), tuple[Order, ...])
    except (ValueError, msgspec.ValidationError):
        return ()


@lru_cache(maxsize=8)
def _one(payload: bytes) -> bytes:
    """Return the first payload that was equal: thousands of sessions keep one, not each its own."""
    return payload


class NodeSession(asyncssh.SSHServerSession[bytes]):
    """Speaks the probe's protocol for a command line that starts the probe."""

    def __init__(self, twin: Twin, node: Node, readings: Callable[[], Readings]) -> None:
        """Serve one channel of a node; while it streams it is one of `node.sessions`."""
        self._twin = twin
        self._node = node
        self._readings = readings
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._command = ""
        self._nonce = ""
        self._ondemand: re.Match[str] | None = None
        self._buffer = bytearray()
        self._payload_size: int | None = None
        self._payload = b""
        self._order: _Control | None = None
        """A control line that still waits for the bytes behind it."""
        self._speaker: Speaker | None = None
        self._due = 0.0
        self._paused = False

    # ------------------------------------------------------------ what asyncssh calls

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Keep the channel to write to."""
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        """Accept any command."""
        self._command = command
        return True

    def session_started(self) -> None:
        """Wait for the probe's payload, or run another command at once."""
        start = _START.search(self._command)
        self._ondemand = _ONDEMAND.search(self._command)
        if start is not None:
            self._nonce = start[1]
        elif self._ondemand is None:
            self._run_shell()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Swallow the payload, then take control lines; answer an on-demand probe whose script is complete."""
        if self._ondemand is not None:
            self._buffer += data
            if self._buffer.endswith(_SCRIPT_END):
                self._buffer.clear()
                self._run_tool(self._ondemand[1], self._ondemand[2].split())
            return
        if not self._nonce:
            return
        self._buffer += data
        if self._speaker is None and self._swallowed():
            self._start()
        while self._speaker is not None:
            if self._order is not None:
                if len(self._buffer) < self._order.bytes:
                    return
                order, self._order = self._order, None
                packed = bytes(self._buffer[: order.bytes])
                del self._buffer[: order.bytes]
                self._carry_out(order, packed)
                continue
            end = self._buffer.find(b"\n")
            if end < 0:
                if len(self._buffer) > _LONGEST_CONTROL:
                    self._buffer.clear()
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._obey(line)

    def eof_received(self) -> bool:
        """End: the console is gone, or waits no longer."""
        self._end(0)
        return False

    def pause_writing(self) -> None:
        """Hold frames back while the console does not take them."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on."""
        self._paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the channel."""
        self._node.sessions.discard(self)
        self._channel = None

    # ------------------------------------------------------------ the stream

    def tick(self, now: float) -> None:
        """Send a frame if one is due at `now` (seconds of the loop's clock)."""
        speaker = self._speaker
        if speaker is None or self._paused:
            return
        # Like the worker of a real node, which reads one group after the other.
        for line in speaker.parts(self._readings(), now, _PARTS_A_SLOT):
            self._write(line)
        if now < self._due:
            return
        # A late frame does not make the next ones early.
        self._due = max(self._due + speaker.tick_s, now + speaker.tick_s / 2)
        self._write(speaker.frame(self._readings()))

    def tell(self, said: Said) -> None:
        """Send a line of the node's kernel log."""
        if self._speaker is not None and not self._paused:
            self._write(self._speaker.event(said))

    def _swallowed(self) -> bool:
        """Take the payload, the dictionary of what comes later, once it has come; tell whether it has."""
        if self._payload_size is None:
            end = self._buffer.find(b"\n")
            if end < 0:
                return False
            length = bytes(self._buffer[:end]).strip()
            del self._buffer[: end + 1]
            if not length.isdigit() or int(length) > _LONGEST_PAYLOAD:
                self._end(1)
                return False
            self._payload_size = int(length)
        if len(self._buffer) < self._payload_size:
            return False
        self._payload = _one(bytes(self._buffer[: self._payload_size]))
        del self._buffer[: self._payload_size]
        return True

    def _start(self) -> None:
        tick = re.search(rf"\b{self._nonce} ([0-9.]{{1,8}})(?:\s|$)", self._command)
        tick_s = float(tick[1]) if tick and tick[1].count(".") <= 1 and tick[1] != "." else 2.0
        if self._node.link == "no python":
            self._write(f"{self._nonce} no-python\n".encode())
            self._end(127)
            return
        speaker = self._speaker = Speaker(self._twin, self._node.index, tick_s)
        self._write(wire.sentinel(self._nonce).encode() + b"\n" + speaker.hello())
        self._write(speaker.frame(self._readings(), full=True))
        for said in self._node.kernel_log:
            if said.at_s >= self._twin.t_s - _HISTORY_S:
                self._write(speaker.event(said))
        # Nodes that were started in one wave spread their frames over the tick.
        self._due = asyncio.get_running_loop().time() + tick_s * (0.25 + 0.75 * (self._node.index * _GOLDEN % 1))
        self._node.sessions.add(self)

    def _obey(self, line: bytes) -> None:
        try:
            order = _control.decode(line)
        except msgspec.DecodeError:
            return
        if 0 < order.bytes <= _LONGEST_CONTROL:
            self._order = order
        else:
            self._carry_out(order, b"")

    def _carry_out(self, order: _Control, packed: bytes) -> None:
        speaker = self._speaker
        if speaker is None:
            return
        if order.do == "tick" and 0.2 <= order.s <= 3600:
            speaker.tick_s = order.s
            self._due = min(self._due, asyncio.get_running_loop().time() + order.s)
        elif order.do == "full":
            self._write(speaker.frame(self._readings(), full=True))
            speaker.repeat_parts()
        elif order.do == "watch":
            own = order.groups or not packed
            speaker.watch(_orders(order.groups, order.pace) if own else _sent(packed, self._payload, order.pace))
        elif order.do == "stop":
            self._write(speaker.bye("stop"))
            self._end(0)

    def _run_tool(self, probe_id: str, arguments: list[str]) -> None:
        """Answer an on-demand probe; what hangs keeps its channel."""
        if probe_id == "log_tail":
            answer: tuple[int, str, str] | None = logs.tail(self._node.files, arguments)
        elif probe_id == "log_kernel":
            answer = logs.kernel(self._node.kernel_log, arguments, self._twin.wall_at_0, self._twin.wall_at_0)
        else:
            answer = tools.output(self._twin, self._node.index, probe_id, arguments)
        if answer is None:
            return
        status, out, err = answer
        self._write(out.encode())
        if err and self._channel is not None and not self._channel.is_closing():
            self._channel.write_stderr(err.encode())
        self._end(status)

    def _run_shell(self) -> None:
        try:
            words: list[Any] = shlex.split(self._command)
        except ValueError:
            words = []
        if words[:1] == ["echo"]:
            self._write(" ".join(words[1:]).encode() + b"\n")
            self._end(0)
        elif words == ["true"]:
            self._end(0)
        else:
            if self._channel is not None:
                self._channel.write_stderr(b"sh: 1: not found\n")
            self._end(127)

    def _write(self, data: bytes) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write(data)

    def _end(self, code: int) -> None:
        self._node.sessions.discard(self)
        self._speaker = None
        self._nonce = ""
        if self._channel is not None and not self._channel.is_closing():
            self._channel.exit(code)
