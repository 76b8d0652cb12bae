"""What is started on a node: the probe, or in tests something that stands for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

USUAL_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
"""What is offered where no key is named."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command line for any login shell, and the bytes that go to its standard input first."""

    command: Callable[[str, float], str]
    """Takes the nonce of the sentinel and the seconds between two frames."""
    payload: Callable[[], bytes]
    watch: Callable[[bool], bytes] = lambda sudo: b""
    """Returns the control line that follows the first full frame; whether `sudo -n` may be used is what it takes."""
    watch_shell: Callable[[bool], bytes] = lambda sudo: b""
    """Returns the same for the probe in sh."""

    def load(self) -> bytes:
        """Return the payload, with the control lines made as well, so that asking for them takes no time."""
        payload = self.payload()
        for sudo in (False, True):
            self.watch(sudo)
            self.watch_shell(sudo)
        return payload


def probe_program(nodes: int = 1) -> Program:
    """Return the probe, as it runs on a node of a fleet of so many."""
    from stethoscope.collect import payload, shell, watchlist

    pace = watchlist.pace_of(nodes)
    # Every link keeps its line for as long as it may be asked for: the same one, of 6 KB.
    return Program(
        payload.command,
        payload.payload,
        cache(lambda sudo: payload.watch_line(sudo, pace)),
        cache(lambda sudo: shell.watch_line(sudo, pace)),
    )
