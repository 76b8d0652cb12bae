"""The scheduler beside the probes: read again and again while a session runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stethoscope.model.scheduler import SchedulerReading

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.collect.source import Scheduler


async def follow(scheduler: Scheduler, take: Callable[[SchedulerReading], None]) -> None:
    """Read `scheduler` at once and then every `every_s`, giving each reading to `take`, until cancelled."""
    try:
        while True:
            try:
                reading = await scheduler.read()
            except Exception as error:  # noqa: BLE001  a defect there must not end the session: it is said in words
                reading = SchedulerReading({}, note=f"{type(error).__name__}: {error}"[:200])
            take(reading)
            await asyncio.sleep(scheduler.every_s)
    finally:
        await asyncio.shield(scheduler.close())
