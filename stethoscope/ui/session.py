"""What the console needs of a session; `stethoscope.session.session.Session` is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from stethoscope.analysis.history import History
    from stethoscope.clock import Clock
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.mark import Mark
    from stethoscope.session.night import NightKeeper
    from stethoscope.session.replay import ReplayState


class SessionLike(Protocol):
    """Something that keeps a fleet's state up to date and gives it out as snapshots."""

    @property
    def clock(self) -> Clock:
        """Return the clock that ages are counted with."""

    @property
    def history(self) -> History:
        """Return what values were in the last minutes."""

    @property
    def mark(self) -> Mark | None:
        """Return the mark since which counters are told, None when none is set."""

    def set_mark(self) -> Mark:
        """Set the mark now."""

    @property
    def night(self) -> NightKeeper:
        """Return what was found tonight, and what people say about it."""

    def clear_mark(self) -> None:
        """Forget the mark."""

    async def run(self) -> None:
        """Collect until cancelled."""

    def snapshot(self) -> FleetSnapshot:
        """Return the state of this moment; the same object as long as nothing changed."""

    def take_notices(self) -> list[str]:
        """Return what people should be told about the session itself, once."""

    def retry(self, node: str) -> None:
        """Try the link to `node` now, if it waits for its next attempt."""


@runtime_checkable
class ReplayLike(SessionLike, Protocol):
    """A session that plays a recording; `stethoscope.session.replay.ReplaySession` is one."""

    @property
    def state(self) -> ReplayState:
        """Return how the replay stands."""

    def toggle_pause(self) -> None:
        """Stand still, or go on."""

    def change_speed(self, steps: int) -> None:
        """Play faster or slower."""

    def seek_by(self, seconds: float) -> None:
        """Go so far forward, or back."""

    def seek_words(self, text: str) -> None:
        """Go to the time that `text` means; UsageError when it means none."""

    def next_change(self) -> None:
        """Go on to where a finding comes or clears, or a link changes."""


OpenSession = Callable[[], Awaitable[SessionLike]]
"""Opens the session; may import, read files and raise StethoscopeError."""
