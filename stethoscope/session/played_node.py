"""One node of a scenario in virtual time: the probe that speaks there, and the link to it as it would be over SSH."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stethoscope.collect.backoff import Backoff
from stethoscope.collect.link import Ending, LinkFailure, NodeLink
from stethoscope.model import wire
from stethoscope.model.frame import LinkState
from stethoscope.sim.speaker import Speaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.command import Answer
    from stethoscope.collect.source import Sink
    from stethoscope.sim.files.view import Drawn
    from stethoscope.sim.lines import Said
    from stethoscope.sim.parts import Order
    from stethoscope.sim.readings import Readings
    from stethoscope.sim.twin import Twin
    from stethoscope.specs.place import FleetShape

NO_ANSWER_S = 8.0
"""A node that is gone is given up after so long: what listens for it takes the connection, and nothing follows."""
HISTORY_S = 900.0
"""How far back a probe reads the kernel log when it starts."""
_BROKEN = ("panic", "refused", "no python")
"""States of a node that end the connections it has."""
_ANSWERS = {
    "refused": (LinkState.REFUSED, "connection refused: nothing listens for ssh there"),
    "no python": (
        LinkState.NO_PYTHON,
        "no Python 3.6 or newer found on the node, and not the tools that the probe in sh needs",
    ),
}
"""What comes of dialling where there is an answer, and no probe."""
_MOST_LINES = 200
_MOST_PARTS = 16
_NONCE = "played"


class PlayedSpec:
    """What the fleet file of a scenario's fleet would say of one node."""

    def __init__(self, fleet: FleetShape, name: str, node: int, tick_s: float) -> None:
        """Take it from the shape of the fleet; `node` is its position."""
        self.name = name
        self.tick_s = tick_s
        self.expected_gpus = fleet.gpus_per_node
        self.rack, self.pod = fleet.rack(node), fleet.pod(node)
        self.leaves = tuple((f"mlx5_{port}", fleet.leaf(node, port)) for port in range(fleet.ib_ports_per_node))


class _Channel:
    """What a link holds while the probe of a played node runs."""

    verified = True
    remark = ""

    def __init__(self) -> None:
        self.is_cut = False

    def write(self, data: bytes) -> None:
        """What is asked of the probe is told to its speaker."""

    async def ended(self) -> Ending:
        """Return at once: the end is looked for at every tick."""
        return Ending()

    async def run_script(self, line: str, text: str, limit_s: float) -> Answer:
        """Nothing runs through the link: the twin answers."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Nothing is to be waited for."""

    def abort(self) -> None:
        """Note that the link drops the connection."""
        self.is_cut = True


class PlayedNode:
    """One node; `tick` lets it say what it has to say."""

    def __init__(
        self, twin: Twin, spec: PlayedSpec, index: int, clock: Clock, sink: Sink, orders: Sequence[Order], drawn: Drawn
    ) -> None:
        """Be ready to connect to the node at position `index`."""
        self.name = spec.name
        self.kernel_log: deque[Said] = deque(maxlen=_MOST_LINES)
        self._twin = twin
        self._index = index
        self._clock = clock
        self._orders = orders
        self._drawn = drawn
        self._link = NodeLink(spec, clock, sink)
        self._backoff = Backoff(lambda: 0.5)
        self._tick_s = spec.tick_s
        self._channel: _Channel | None = None
        self._speaker: Speaker | None = None
        self._boot: float | None = None
        self._dialled: float | None = None
        self._next_try = 0.0
        self._wants_full = False
        self._new: list[Said] = []

    def tell(self, said: Said) -> None:
        """Take a line of the node's kernel log."""
        if self._state == "up":
            self.kernel_log.append(said)
            self._new.append(said)

    def ask_full(self) -> None:
        """Send everything with the next tick."""
        self._wants_full = True

    def tick(self, readings: Readings) -> None:
        """Connect where that is due, send what is due, and look whether the link still stands."""
        now = self._clock.monotonic()
        if self._channel is not None and (self._state in _BROKEN or self._boot != self._twin.boots.get(self._index)):
            self._ended(Ending(error="connection lost"))
        if self._channel is None:
            self._dial(now, readings)
        elif self._state == "up":
            self._send(readings)
        self._new.clear()
        self._link.check(now)
        if self._channel is not None and self._channel.is_cut:
            self._ended(Ending())

    @property
    def _state(self) -> str:
        return self._twin.link(self._index)

    def _dial(self, now: float, readings: Readings) -> None:
        if self._dialled is None:
            if now < self._next_try:
                return
            self._dialled = now
            self._link.connecting(_NONCE)
        if self._state in ("up", "silent"):
            self._dialled = None
            self._start(readings)
        elif self._state in _ANSWERS:
            self._dialled = None
            self._failed(LinkFailure(*_ANSWERS[self._state]))
        elif now - self._dialled >= NO_ANSWER_S:
            self._dialled = None
            words = f"{self.name}: connected, but no SSH answer in {NO_ANSWER_S:g} s"
            self._failed(LinkFailure(LinkState.UNREACHABLE, words))

    def _start(self, readings: Readings) -> None:
        twin = self._twin
        speaker = self._speaker = Speaker(twin, self._index, self._tick_s, self._drawn)
        self._boot = twin.boots.get(self._index)
        self._channel = _Channel()
        self._link.started(self._channel)
        lines = [wire.sentinel(_NONCE).encode() + b"\n", speaker.hello(), speaker.frame(readings, full=True)]
        lines += [speaker.event(said) for said in self.kernel_log if said.at_s >= twin.t_s - HISTORY_S]
        speaker.watch(self._orders)
        lines += speaker.parts(readings, self._clock.monotonic(), _MOST_PARTS)
        self._link.receive(b"".join(lines))

    def _send(self, readings: Readings) -> None:
        speaker = self._speaker
        assert speaker is not None
        if self._wants_full:
            self._wants_full = False
            speaker.repeat_parts()
            lines = [speaker.frame(readings, full=True)]
        else:
            lines = [speaker.frame(readings)]
        lines += [speaker.event(said) for said in self._new]
        lines += speaker.parts(readings, self._clock.monotonic(), _MOST_PARTS)
        self._link.receive(b"".join(lines))

    def _ended(self, ending: Ending) -> None:
        self._channel = self._speaker = None
        self._failed(self._link.ended(ending))

    def _failed(self, failure: LinkFailure) -> None:
        pause_s = self._backoff.failed(patient=failure.patient, live_s=self._link.live_s)
        self._next_try = self._clock.monotonic() + pause_s
        self._link.failed(failure, self._clock.wall() + pause_s)
