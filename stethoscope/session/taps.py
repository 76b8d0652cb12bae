"""What gets everything that a session gets: recorders, and what is remembered for weeks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stethoscope.model.frame import Frame, Link


class Tap(Protocol):
    """What gets everything that a source gives, before it is parsed: a recorder. Its calls return at once."""

    def on_frame(self, frame: Frame) -> None:
        """Take one raw line of a node."""

    def on_link(self, node: str, link: Link) -> None:
        """Take the state of the link to a node."""

    def on_note(self, kind: str, value: object) -> None:
        """Take what does not come from a node, such as a reading of the scheduler; `value` can be JSON."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End, with everything that was taken kept."""

    def take_notices(self) -> list[str]:
        """Return what people should know, once."""
