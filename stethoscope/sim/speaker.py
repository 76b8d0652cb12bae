"""The lines that the probe on one simulated node prints on one channel: the wire, with the node's own clocks."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from stethoscope.model import wire
from stethoscope.sim import board
from stethoscope.sim.files import net
from stethoscope.sim.files.view import View
from stethoscope.sim.parts import EARLIER_S, Group

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.sim.files.view import Drawn
    from stethoscope.sim.lines import Said
    from stethoscope.sim.parts import Order
    from stethoscope.sim.readings import Readings
    from stethoscope.sim.twin import Twin

PYTHON = "3.10.12"
FULL_S = 60.0
"""Time between two frames with every value."""


class Speaker:
    """The probe of one channel: knows its sequence number and what it sent last."""

    def __init__(self, twin: Twin, node: int, tick_s: float, drawn: Drawn | None = None) -> None:
        """Speak for the node at that position; `drawn` is shared by the nodes of a fleet."""
        self._drawn: Drawn = {} if drawn is None else drawn
        self._groups: list[Group] = []
        self._twin = twin
        self._node = node
        self.tick_s = tick_s
        self._seq = 0
        self._full_at = 0.0
        self._sent: tuple[dict[str, Any], dict[str, list[Any]], dict[str, list[Any]], dict[str, str]] = ({}, {}, {}, {})
        self._identity = identity(twin, node)
        self._ports = self._there()

    def hello(self) -> bytes:
        """Return the first line."""
        return self._line(
            wire.Hello(
                **self._stamp(self._twin.t_s),
                host=self._twin.layout.nodes[self._node],
                kernel=self._twin.builds.of(self._node).kernel,
                python=PYTHON,
                pid=4_000 + self._node,
                boot_id=self._identity.boot_id,
                tick_s=self.tick_s,
            )
        )

    def frame(self, readings: Readings, *, full: bool = False) -> bytes:
        """Return what changed since the frame before, or every value at the start, once a minute, and when asked to."""
        now = self._values(readings)
        past, self._sent = self._sent, now
        node, gpu, port, notes = now
        stamp = self._stamp(readings.t_s)
        ports_before, self._ports = self._ports, self._there()
        if full or not past[0] or self._ports != ports_before or readings.t_s - self._full_at >= FULL_S:
            self._full_at = readings.t_s
            identity = self._identity
            ports = [identity.ports[number] for number in self._ports]
            return self._line(
                wire.Full(**stamp, gpus=identity.gpus, ports=ports, node=node, gpu=gpu, port=port, notes=notes)
            )
        return self._line(
            wire.Delta(
                **stamp,
                node={metric: value for metric, value in node.items() if past[0][metric] != value},
                gpu=_changed(past[1], gpu),
                port=_changed(past[2], port),
                notes=notes if notes != past[3] else None,
            )
        )

    def event(self, said: Said) -> bytes:
        """Return a line of the node's kernel log."""
        at = self._twin.wall_at_0 + said.at_s + self._clock_s()
        return self._line(wire.Event(**self._stamp(self._twin.t_s), source=said.sink, text=said.text, at=round(at, 6)))

    def watch(self, orders: Sequence[Order]) -> None:
        """Read these groups from now on."""
        # After the first round they are spread over their intervals.
        self._groups = [
            Group(order, order.s * (place + 1) / len(orders), crc32(f"{self._node} {order.name}".encode()) % EARLIER_S)
            for place, order in enumerate(orders)
            if order.s >= 1
        ]

    def repeat_parts(self) -> None:
        """Send every group whole again, as it becomes due: now."""
        for group in self._groups:
            group.forget()

    def parts(self, readings: Readings, now_s: float, most: int) -> list[bytes]:
        """Return the part lines that are due at `now_s` of the console's clock, which no `speed` bends, at most so
        many."""
        due = [group for group in self._groups if group.due_s <= now_s][:most]
        if not due:
            return []
        identity = self._identity
        view = View(self._twin, self._node, readings, identity.booted_s, identity.clock_offset_s, self._drawn)
        lines = []
        for group in due:
            fields = group.again(now_s) if self._node in self._twin.effects.frozen else group.part(view, now_s)
            if fields is not None:
                lines.append(self._line(wire.Part(**self._stamp(readings.t_s), **fields)))
        return lines

    def bye(self, why: str) -> bytes:
        """Return the last line."""
        return self._line(wire.Bye(**self._stamp(self._twin.t_s), why=why))

    def _values(
        self, readings: Readings
    ) -> tuple[dict[str, Any], dict[str, list[Any]], dict[str, list[Any]], dict[str, str]]:
        row = self._node
        node = {metric: column[row] for metric, column in readings.node.items()}
        gpu = {metric: column[row] for metric, column in readings.gpu.items()}
        port = {metric: column[row] for metric, column in readings.port.items()}
        if len(self._ports) < self._twin.layout.port_shape[1]:
            port = {metric: [values[number] for number in self._ports] for metric, values in port.items()}
        if row in self._twin.effects.frozen and self._sent[0]:
            return self._sent
        refusal = self._twin.effects.driver_refuses.get(row, "hung" if node["nvml_latency"] == "hung" else "")
        return node, gpu, port, {"nvml": refusal} if refusal else {}

    def _there(self) -> list[int]:
        """Return the numbers of the adapters that the node lists; one that is gone from its bus is not among them."""
        missing = self._twin.effects.port_missing[self._node].tolist()
        return [number for number, reason in enumerate(missing) if not reason]

    def _clock_s(self) -> float:
        """Return how far the node's clock is ahead."""
        return self._identity.clock_offset_s + float(self._twin.effects.clock_s[self._node])

    def _stamp(self, t_s: float) -> dict[str, Any]:
        identity = self._identity
        stamp = {
            "seq": self._seq,
            "mono": round(t_s - identity.booted_s, 3),
            "wall": round(self._twin.wall_at_0 + t_s + self._clock_s(), 3),
        }
        self._seq += 1
        return stamp

    def _line(self, message: wire.Message) -> bytes:
        return wire.encode(message) + b"\n"


@dataclass(frozen=True, slots=True)
class Identity:
    """What is built into a node, and this boot of it."""

    gpus: list[wire.GpuIdentity]
    ports: list[wire.PortIdentity]
    boot_id: str
    booted_s: float
    """Scenario seconds at which the node started; long before 0 for a node that has not restarted."""
    clock_offset_s: float


def identity(twin: Twin, node: int) -> Identity:
    """Return the identity of the node at that position at the twin's moment."""
    layout, name = twin.layout, twin.layout.nodes[node]
    seed = twin.scenario.seed
    booted_s = twin.boots.get(node)
    draw = float(twin.noise.uniform("uptime", (len(layout.nodes),))[node])
    return Identity(
        gpus=[
            wire.GpuIdentity(
                index=index,
                name=layout.board.name,
                uuid=f"GPU-{_uuid(seed, name, 'gpu', index)}",
                pci=board.gpu_pci(index) + ".0",
            )
            for index in range(layout.gpu_shape[1])
        ],
        ports=[
            wire.PortIdentity(
                device=f"mlx5_{index}",
                layer="Ethernet" if layout.on_ethernet else "InfiniBand",
                pci=board.port_pci(index),
                netdev=net.name_of(index, on_ethernet=layout.on_ethernet),
            )
            for index in range(layout.port_shape[1])
        ],
        boot_id=_uuid(seed, name, "boot", booted_s),
        booted_s=-86_400 * (3 + 37 * draw) if booted_s is None else booted_s,
        clock_offset_s=0.0004 * (float(twin.noise.uniform("clock", (len(layout.nodes),))[node]) - 0.5),
    )


def _uuid(*parts: object) -> str:
    return str(uuid.UUID(bytes=hashlib.sha256(repr(parts).encode()).digest()[:16], version=4))


def _changed(past: Mapping[str, list[Any]], now: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the lists in which something changed, null where nothing did."""
    return {
        metric: [value if value != old else None for value, old in zip(values, past[metric], strict=True)]
        for metric, values in now.items()
        if values != past[metric]
    }
