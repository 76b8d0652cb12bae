"""One simulated node at one moment, as those see it who write its files."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stethoscope.model.metric import Reason
from stethoscope.sim.files import net
from stethoscope.sim.told import Spot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.sim.build import Build
    from stethoscope.sim.readings import Readings
    from stethoscope.sim.twin import Twin

GPU_OWNER = ("alice", 1001)
"""User name and number of who runs the jobs."""
Drawn = dict[tuple[str, int], list[list[float]]]
"""What was drawn for all nodes, once."""


class View:
    """The node at position `node`, at the moment of `readings`; `booted_s` is when it started (scenario seconds)."""

    def __init__(
        self, twin: Twin, node: int, readings: Readings, booted_s: float, clock_offset_s: float, drawn: Drawn
    ) -> None:
        """Keep what files are written from."""
        self._drawn = drawn
        self._totals: dict[str, list[int]] = {}
        self.twin = twin
        self.node = node
        self.readings = readings
        self.booted_s = booted_s
        self.clock_offset_s = clock_offset_s + float(twin.effects.clock_s[node])
        self.name = twin.layout.nodes[node]
        self.build: Build = twin.builds.of(node)
        self.gpus = twin.layout.gpu_shape[1]
        self.ports = twin.layout.port_shape[1]

    @property
    def uptime_s(self) -> float:
        """Return the seconds since the node started."""
        return self.readings.t_s - self.booted_s

    @property
    def wall_s(self) -> float:
        """Return the node's own wall time (seconds since 1970)."""
        return self.twin.wall_at_0 + self.readings.t_s + self.clock_offset_s

    @cached_property
    def missing(self) -> list[int]:
        """Return the reason code of each GPU, 0 where it answers."""
        codes: list[int] = self.twin.effects.gpu_missing[self.node].tolist()
        return codes

    @property
    def has_fabric(self) -> bool:
        """Tell whether the GPUs register with a fabric manager."""
        board = self.twin.layout.board
        return board.links > 0 and self.gpus == 8 and board.pcie_gen >= 5

    @property
    def on_ethernet(self) -> bool:
        """Tell whether the fabric is Ethernet, not InfiniBand."""
        return self.twin.layout.on_ethernet

    def netdev(self, port: int) -> str:
        """Return the name of an adapter's interface."""
        return net.name_of(port, on_ethernet=self.on_ethernet)

    def lacks_port(self, port: int) -> bool:
        """Tell whether an adapter is gone from its bus."""
        return bool(self.twin.effects.port_missing[self.node, port])

    def is_lost(self, gpu: int) -> bool:
        """Tell whether a GPU no longer answers on its bus."""
        return self.missing[gpu] == Reason.LOST

    def total(self, metric: str) -> list[int]:
        """Return the totals of a counter on this node's GPUs, ports or disks."""
        known = self._totals.get(metric)
        if known is None:
            row: int | list[int] = self.twin.total(metric, self.readings.t_s)[self.node].tolist()
            known = self._totals[metric] = row if isinstance(row, list) else [row]
        return known

    @cached_property
    def loading_s(self) -> float:
        """Return for how many seconds the data loaders have worked at their healthy pace since the start."""
        return self.total("loading_time")[0] / 1000

    def draw(self, what: str, count: int) -> Sequence[float]:
        """Return `count` numbers (0..1) that are this node's own and never change."""
        drawn = self._drawn.get((what, count))
        if drawn is None:
            drawn = self.twin.noise.uniform(what, (len(self.twin.layout.nodes), count)).tolist()
            self._drawn[what, count] = drawn
        return drawn[self.node]

    def state(
        self, metric: str, modelled: float, *, gpu: int = -1, link: int = -1, port: int = -1, disk: int = -1
    ) -> float:
        """Return a gauge or state with what the scenario says of it; what it makes Missing keeps its value."""
        said = self.twin.told.state(metric, Spot(self.node, gpu, link, port, disk), modelled)
        return modelled if said is None else said

    def count(
        self, metric: str, modelled: float, *, gpu: int = -1, link: int = -1, port: int = -1, disk: int = -1
    ) -> int:
        """Return a counter with what the scenario says of it."""
        return self.twin.told.count(metric, Spot(self.node, gpu, link, port, disk), modelled)
