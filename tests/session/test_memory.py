"""The collector is tuned while a session runs and left alone afterwards."""

from __future__ import annotations

import asyncio
import gc

import pytest

from stethoscope.session.memory import MemoryTuning


async def test_what_a_connect_wave_made_is_frozen_once_it_is_over() -> None:
    tuning = MemoryTuning()
    before = gc.get_freeze_count()
    tuning.start(asyncio.get_running_loop(), 4)
    try:
        tuning.tend(200, 200)
        tuning.tend(50, 200)
        assert gc.get_freeze_count() == before
        tuning.tend(4, 200)
        assert gc.get_freeze_count() > before
        frozen = gc.get_freeze_count()
        tuning.tend(20, 200)
        tuning.tend(0, 200)
        assert gc.get_freeze_count() <= frozen
    finally:
        tuning.stop()
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize(("nodes", "is_calm"), [(1000, False), (2000, True)])
async def test_garbage_of_a_large_fleet_is_looked_for_less_often_once_it_is_connected(
    nodes: int, is_calm: bool
) -> None:
    tuning, before = MemoryTuning(), gc.get_threshold()
    tuning.start(asyncio.get_running_loop(), 1)
    try:
        tuning.tend(nodes, nodes)
        connecting = gc.get_threshold()
        tuning.tend(0, nodes)
        assert (gc.get_threshold()[0] > connecting[0]) is is_calm
    finally:
        tuning.stop()
    assert gc.get_threshold() == before


async def test_threads_for_blocking_calls_are_as_many_as_asked() -> None:
    tuning = MemoryTuning()
    loop = asyncio.get_running_loop()
    tuning.start(loop, 12)
    try:
        barrier = asyncio.Event()
        running = [0]

        def block(number: int) -> int:
            running[0] += 1
            if running[0] == 12:
                loop.call_soon_threadsafe(barrier.set)
            asyncio.run_coroutine_threadsafe(barrier.wait(), loop).result(5)
            return number

        assert sum(await asyncio.gather(*(asyncio.to_thread(block, number) for number in range(12)))) == 66
    finally:
        tuning.stop()
