"""Raw frames and the state of links: what collectors hand to the session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Frame(NamedTuple):
    """One line of a probe, or one block of lines of the probe in sh, as it came, with the console's clocks at its
    arrival; recorded and parsed later, never changed."""

    node: str
    received_wall: float
    received_mono: float
    raw: bytes


class LinkState(StrEnum):
    """How the link to a node stands; the value is the word on the screen."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    STARTING = "starting"
    LIVE = "live"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    HOST_KEY_CHANGED = "host key changed"
    HOST_KEY_UNKNOWN = "host key unknown"
    AUTH_REFUSED = "auth refused"
    NO_PYTHON = "no Python"
    CLOSED = "closed"
    FLOODING = "flooding, cut"
    PROTOCOL = "not a probe"
    ERROR = "error"
    STOPPED = "stopped"

    @property
    def is_live(self) -> bool:
        """Tell whether frames arrive."""
        return self is LinkState.LIVE

    @property
    def is_pending(self) -> bool:
        """Tell whether it is too early to call the node lost."""
        return self in (LinkState.WAITING, LinkState.CONNECTING, LinkState.STARTING)


@dataclass(frozen=True, slots=True)
class Link:
    """The link to one node, as it stands since `since` (wall seconds)."""

    state: LinkState
    since: float
    detail: str = ""
    """Cleaned words for the row: what was tried, what came back, what to do."""
    next_try: float | None = None
    """Wall time of the next attempt, if there will be one."""
    attempts: int = 0
    verified: bool = True
    """False when the host key was not checked."""
    via: str = ""
    """Jump host through which the node is reached, empty for a node that is reached directly."""
