"""What the top line says of a replay."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from stethoscope.clock import hms
from stethoscope.ui.present.spans import Row, Span, Tone

if TYPE_CHECKING:

    class ReplayStanding(Protocol):
        """How a replay stands; `session.replay.ReplayState` is one."""

        @property
        def speed(self) -> float:
            """Return recorded seconds a second."""

        @property
        def paused(self) -> bool:
            """Tell whether it stands still."""

        @property
        def seeking(self) -> bool:
            """Tell whether another place is being sought."""

        @property
        def ended(self) -> bool:
            """Tell whether it stands at its end."""

        @property
        def share(self) -> float:
            """Return how much is behind, 0 to 1."""


def replay_word(state: ReplayStanding) -> str:
    """Return how it moves: `8x`, `1/4x`, `paused`, `seeking`, `end`."""
    if state.seeking:
        return "seeking"
    if state.ended:
        return "end"
    if state.paused:
        return "paused"
    return f"{state.speed:g}x" if state.speed >= 1 else f"1/{1 / state.speed:g}x"


def replay_marks(state: ReplayStanding, wall: float) -> tuple[Row, Row]:
    """Return the right end of the top line, and a short form of it: the mark, how it moves, position and time."""
    mark, word = Span(" REPLAY ", Tone.KEY, selected=True), replay_word(state)
    day = datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d")
    long = (mark, Span(f" {word}  {state.share:.0%}  ", Tone.STRONG), Span(f"{day} {hms(wall)} UTC ", Tone.QUIET))
    return long, (mark, Span(f" {word} ", Tone.STRONG), Span(f"{hms(wall)} ", Tone.QUIET))
