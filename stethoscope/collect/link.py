"""The link to one node: what its state is, when it has been silent for too long, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from stethoscope.clock import hms
from stethoscope.collect import shell
from stethoscope.collect.stream import Phase, ProbeStream
from stethoscope.model.frame import Frame, Link, LinkState
from stethoscope.model.wire import Bye, Hello
from stethoscope.parse.stream import ParseError, parse
from stethoscope.text import clean

if TYPE_CHECKING:
    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Sink
    from stethoscope.model.nodespec import NodeSpec

SENTINEL_S = 15.0
"""Longest wait from the start of the command to its first own line: login scripts and a cold Python included."""
FIRST_FULL_S = 30.0
"""Longest wait from there to the first full frame; initialising the driver can take seconds."""
FLOOD_WORDS = "the probe sent more than 2 MiB/s or 3,000 lines/s, or a line of more than 1 MiB"
USING_SHELL = "no Python, using sh"
REBOOTED = "back after reboot"
REBOOTED_S = 600.0
"""A link that is live again after the node was started anew says so for so long."""
STDERR_LIMIT = 8192
DETAIL_LIMIT = 400

_PATIENT = frozenset(
    {
        LinkState.AUTH_REFUSED,
        LinkState.HOST_KEY_CHANGED,
        LinkState.HOST_KEY_UNKNOWN,
        LinkState.NO_PYTHON,
        LinkState.FLOODING,
        LinkState.PROTOCOL,
    }
)


_SILENT = LinkState.SILENT


class LinkFailure(Exception):  # noqa: N818 -- not an error of the program: a row of the fleet
    """A node could not be reached or a link ended; `detail` is cleaned text."""

    def __init__(self, state: LinkState, detail: str, *, slow: bool = False) -> None:
        """Keep the state and the words of the row; `slow`: what was started may only have been late."""
        super().__init__(detail)
        self.state = state
        self.slow = slow
        self.detail = clean(detail, DETAIL_LIMIT)

    @property
    def patient(self) -> bool:
        """Tell whether trying again soon is of no use, or does harm."""
        return self.state in _PATIENT and not self.slow


@dataclass(frozen=True, slots=True)
class Ending:
    """How the remote command ended."""

    exit_status: int | None = None
    signal: str = ""
    error: str = ""
    """What the connection says, when it was the connection that ended."""


class Running(Protocol):
    """A probe that runs on a node."""

    verified: bool
    """False when the host key was not checked."""
    remark: str
    """What the row should say about the link while it is live."""

    def write(self, data: bytes) -> None:
        """Send bytes to the probe's standard input."""

    async def ended(self) -> Ending:
        """Wait until the probe has ended."""

    async def run_script(self, line: str, text: str, limit_s: float) -> Answer:
        """Run a command line with `text` as its input beside the probe; CommandError when that cannot be."""

    async def stop(self) -> None:
        """End the probe by closing its input, and wait for that; the caller bounds the wait."""

    def abort(self) -> None:
        """Drop the connection at once."""


class NodeLink:
    """State machine of one node; everything that happens to the link passes through here."""

    def __init__(self, node: NodeSpec, clock: Clock, sink: Sink) -> None:
        """Start in WAITING, and say so."""
        self.node = node
        self._clock = clock
        self._sink = sink
        self.running: Running | None = None
        self.attempts = 0
        self.link = Link(LinkState.WAITING, clock.wall())
        self._stream = ProbeStream("")
        self._stderr = bytearray()
        self._heard = False
        """A line of this run has come."""
        self._last_words = b""
        """The last line, if it may be a farewell."""
        self._shell_sent = False
        self.watch = self.watch_shell = b""
        """The control line that a probe gets once its first full frame is there, for what is read rarely; and what the
        probe in sh gets."""
        self._watch_sent = False
        self._phase_since = 0.0
        self._last_mono = 0.0
        self._last_wall = 0.0
        self._live_since: float | None = None
        self.via = ""
        """Jump hosts on the way, as soon as they are known."""
        self._cut: LinkFailure | None = None
        self._boot_id = ""
        self._rebooted: float | None = None
        self.tick_s = node.tick_s
        sink.on_link(node.name, self.link)

    def say(self, state: LinkState, detail: str = "", *, next_try: float | None = None, verified: bool = True) -> None:
        """Publish a new state of the link, if it is one."""
        same = self.link.state is state and self.link.detail == detail
        if same and self.link.next_try == next_try and self.link.verified == verified:
            return
        since = self.link.since if self.link.state is state else self._clock.wall()
        self.link = Link(state, since, detail, next_try, self.attempts, verified, self.via)
        self._sink.on_link(self.node.name, self.link)

    def connecting(self, nonce: str) -> None:
        """Begin an attempt with a new sentinel."""
        self.attempts += 1
        self._stream = ProbeStream(nonce)
        self._stderr.clear()
        self._heard = False
        """A line of this run has come."""
        self._last_words = b""
        """The last line, if it may be a farewell."""
        self._shell_sent = False
        self._watch_sent = False
        self._cut = None
        self._live_since = None
        self.say(LinkState.CONNECTING)

    def started(self, running: Running) -> None:
        """Take note that the command was started; lines may have come before this is called."""
        self.running = running
        self._phase_since = self._last_mono = self._clock.monotonic()
        self._last_wall = self._clock.wall()
        if self._cut is not None:
            running.abort()
        elif self._stream.phase is Phase.LIVE:
            self._say_live()
            self._send_watch(running)
        else:
            self.say(LinkState.STARTING, running.remark, verified=running.verified)
        self._send_shell()

    def receive(self, data: bytes) -> None:
        """Take bytes of the probe's standard output."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        stream, before = self._stream, self._stream.phase
        lines = stream.feed(data, now)
        if lines and not self._heard:
            self._note_boot(lines[0], now)
        if stream.phase is not before:
            self._note_phase(before, now)
        if stream.wants_shell:
            self._send_shell()
        if not lines:
            return
        self._last_mono, self._last_wall = now, wall
        self._heard = True
        # Only what is read again is kept: thousands of links would keep megabytes of lines.
        self._last_words = lines[-1] if b'"bye"' in lines[-1][:64] else b""
        name, on_frame = self.node.name, self._sink.on_frame
        for raw in lines:
            on_frame(Frame(name, wall, now, raw))
        if self.link.state is _SILENT and stream.phase is Phase.LIVE and self._cut is None:
            self._say_live()

    def receive_stderr(self, data: bytes) -> None:
        """Take bytes of the probe's standard error; the last of them explain the end of a link."""
        self._stderr += data
        del self._stderr[:-STDERR_LIMIT]
        now, before = self._clock.monotonic(), self._stream.phase
        self._stream.count(data, now)
        self._note_phase(before, now)

    def check(self, now: float) -> None:
        """Compare `now` (monotonic seconds) with what the link should have brought by then."""
        if self.running is None or self._cut is not None:
            return
        phase, silent_s = self._stream.phase, now - self._last_mono
        if phase is Phase.NOISE and now - self._phase_since > SENTINEL_S:
            detail = f"the probe did not start within {SENTINEL_S:g} s{self._said()}"
            self.cut(LinkFailure(LinkState.PROTOCOL, detail, slow=True))
        elif phase is Phase.READY and now - self._phase_since > FIRST_FULL_S:
            self.cut(LinkFailure(LinkState.SILENT, f"the probe started, but sent no values within {FIRST_FULL_S:g} s"))
        elif phase is Phase.LIVE and silent_s > 3 * self.tick_s + 1:
            detail = f"no line since {hms(self._last_wall)} UTC"
            if silent_s > max(30.0, 10 * self.tick_s):
                self.cut(LinkFailure(LinkState.SILENT, detail))
            else:
                self.say(LinkState.SILENT, detail, verified=self.running.verified)
        elif phase is Phase.LIVE and self._rebooted is not None and now - self._rebooted > REBOOTED_S:
            self._rebooted = None
            self._say_live()

    def cut(self, failure: LinkFailure) -> None:
        """Drop the link because of `failure`."""
        self._cut = failure
        if self.running is not None:
            self.running.abort()

    def ended(self, ending: Ending) -> LinkFailure:
        """Return why the link is no more."""
        self.running = None
        return self._cut or LinkFailure(LinkState.CLOSED, f"{self._how(ending)}{self._said()}")

    def failed(self, failure: LinkFailure, next_try: float) -> None:
        """Publish a failure and the wall time of the next attempt."""
        self.running = None
        self.say(failure.state, failure.detail, next_try=next_try, verified=self.link.verified)

    def stopped(self) -> None:
        """Publish that the link was ended on purpose."""
        self.running = None
        self.say(LinkState.STOPPED)

    @property
    def live_s(self) -> float:
        """Return how long this attempt has been live, in seconds."""
        return 0.0 if self._live_since is None else self._clock.monotonic() - self._live_since

    @property
    def noise(self) -> str:
        """Return what the login printed before the probe spoke, cleaned."""
        return clean(self._stream.noise)

    def _note_boot(self, first: bytes, now: float) -> None:
        """Learn from the first line of a run whether the node was started anew since the run before."""
        try:
            hello = parse(first)
        except ParseError:
            return
        if isinstance(hello, Hello) and hello.boot_id:
            if self._boot_id and self._boot_id != hello.boot_id:
                self._rebooted = now
            self._boot_id = hello.boot_id

    def _note_phase(self, before: Phase, now: float) -> None:
        """Act when the phase is no longer what it was `before`."""
        phase = self._stream.phase
        if phase is not before:
            self._phase_since = now
            self._phase_changed(phase, now)

    def _phase_changed(self, phase: Phase, now: float) -> None:
        if phase is Phase.LIVE:
            self._live_since = now
            if self.running is not None:
                self._say_live()
                self._send_watch(self.running)
        elif phase is Phase.NO_PYTHON:
            self.cut(
                LinkFailure(
                    LinkState.NO_PYTHON,
                    "no Python 3.6 or newer found on the node, and not the tools that the probe in sh needs",
                )
            )
        elif phase is Phase.FLOODING:
            self.cut(LinkFailure(LinkState.FLOODING, FLOOD_WORDS))
        elif phase is Phase.NOT_A_PROBE:
            self.cut(LinkFailure(LinkState.PROTOCOL, f"endless output instead of the probe{self._said()}"))

    def _say_live(self) -> None:
        assert self.running is not None
        rebooted = REBOOTED if self._rebooted is not None else ""
        remarks = [rebooted, self.running.remark, USING_SHELL if self._stream.is_shell else ""]
        self.say(LinkState.LIVE, "; ".join(filter(None, remarks)), verified=self.running.verified)

    def _send_shell(self) -> None:
        """Send the probe in sh, once, to a node that waits for it."""
        if self._stream.wants_shell and not self._shell_sent and self.running is not None and self._cut is None:
            self._shell_sent = True
            self._phase_since = self._clock.monotonic()
            self.running.write(shell.payload())

    def _send_watch(self, running: Running) -> None:
        """Ask a probe, once, for what is read rarely."""
        line = self.watch_shell if self._stream.is_shell else self.watch
        if line and not self._watch_sent:
            self._watch_sent = True
            running.write(line)

    def _how(self, ending: Ending) -> str:
        if ending.signal:
            return f"ended by signal {ending.signal}"
        if why := self._bye():
            return f"the probe ended: {why}"
        if ending.exit_status is not None:
            return f"the probe ended with exit status {ending.exit_status}"
        return ending.error or "the connection was closed"

    def _bye(self) -> str:
        """Return why the probe said that it ends, nothing if it did not say."""
        if not self._last_words:
            return ""
        try:
            message = parse(self._last_words)
        except ParseError:
            return ""
        return message.why if isinstance(message, Bye) else ""

    def _said(self) -> str:
        """Return the last words of the other side, to be appended to a sentence."""
        for text in (self._stderr, self._stream.noise if self._stream.phase is Phase.NOISE else b""):
            lines = [line for line in bytes(text).splitlines() if line.strip()]
            if lines:
                return f": {clean(lines[-1], 160)}"
        return ""


def clean_error(error: BaseException, limit: int = 200) -> str:
    """Return the text of an error, or its type when it has none, fit to be shown."""
    return clean(str(error), limit) or type(error).__name__
