"""In which order the nodes of a large fleet are called."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stethoscope.clock import FixedClock
from stethoscope.collect.fanout import FIRST, SLOTS, Fanout
from stethoscope.specs.fleet import FleetNode

if TYPE_CHECKING:
    from stethoscope.collect.link import NodeLink, Running
    from stethoscope.model.frame import Frame, Link


class Silent:
    """Calls nodes that never answer, and takes what is said of them."""

    def __init__(self) -> None:
        self.called: list[str] = []

    async def dial(self, link: NodeLink, nonce: str) -> Running:
        self.called.append(link.node.name)
        await asyncio.Event().wait()
        raise AssertionError

    def forget_failures(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def on_frame(self, frame: Frame) -> None:
        pass

    def on_link(self, node: str, link: Link) -> None:
        pass


@pytest.mark.parametrize(("nodes", "first"), [(3, 3), (SLOTS, SLOTS), (SLOTS + 44, FIRST)])
async def test_a_large_fleet_is_called_a_few_at_first(nodes: int, first: int) -> None:
    names = [f"n{number}" for number in range(nodes)]
    silent = Silent()
    fanout = Fanout([FleetNode(name) for name in names], FixedClock())
    running = asyncio.create_task(fanout.run(silent, silent))
    while not silent.called:
        await asyncio.sleep(0)
    assert silent.called == names[:first]
    while len(silent.called) < min(nodes, SLOTS):
        await asyncio.sleep(0.01)
    assert silent.called == names[:SLOTS]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
