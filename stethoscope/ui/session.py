"""What the console needs of a session; `stethoscope.session.session.Session` is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot


class SessionLike(Protocol):
    """Something that keeps a fleet's state up to date and gives it out as snapshots."""

    @property
    def clock(self) -> Clock:
        """Return the clock that ages are counted with."""

    async def run(self) -> None:
        """Collect until cancelled."""

    def snapshot(self) -> FleetSnapshot:
        """Return the state of this moment; the same object as long as nothing changed."""


OpenSession = Callable[[], Awaitable[SessionLike]]
"""Opens the session; may import, read files and raise StethoscopeError."""
