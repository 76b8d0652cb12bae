"""What one looks at on a simulated node: its files, its tools, its counters of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim import tools
from stethoscope.sim.files.view import View
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import identity

if TYPE_CHECKING:
    from stethoscope.sim.twin import Twin


def view(world: Twin, node: int) -> View:
    """Return a node (by position) as those see it who write its files."""
    known = identity(world, node)
    return View(world, node, Readings(world), known.booted_s, known.clock_offset_s, {})


def printed(world: Twin, node: int, probe: str, *arguments: str) -> str:
    """Return what an on-demand probe prints on a node (by position)."""
    answer = tools.output(world, node, probe, arguments)
    assert answer is not None
    return answer[1]


def total(world: Twin, metric: str, node: int, port: int) -> int:
    """Return the total of a counter of a port."""
    return int(world.total(metric, world.t_s)[node, port])


def rate(world: Twin, metric: str, node: int, port: int, seconds: float = 60.0) -> float:
    """Return by how much a counter of a port grows in a second, over the seconds that pass with it."""
    before = total(world, metric, node, port)
    world.advance_to(world.t_s + seconds)
    return (total(world, metric, node, port) - before) / seconds


def waiting(world: Twin, node: int, port: int) -> float:
    """Return the share of a minute in which a port waits for credit."""
    return rate(world, "ib_port_xmit_wait", node, port) / 156_250_000


def step_s(world: Twin) -> float | None:
    """Return the step time of the job, None while no step ends."""
    return world.job_states()[0].step_time_s
