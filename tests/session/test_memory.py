"""The collector is tuned while a session runs and left alone afterwards."""

from __future__ import annotations

import asyncio
import gc

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
