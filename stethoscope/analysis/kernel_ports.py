"""Network ports in the kernel's lines: what went down and stayed so, what came back, what only shut down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_incidents import host_of, seconds_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.kernel_incidents import Incident, Sign

PORTS = ("mlx5.netdev_link", "mlx5.ib_port")
_UP = frozenset({"up", "ACTIVE"})
_SHUTDOWN_S = 600.0
"""From the last link that a shutdown takes down to the first line of the next boot; servers with many GPUs are slow."""


def came_back(incident: Incident, cause: Sign) -> bool:
    """Tell whether the port of `cause` had its link again after it."""
    return cause.event.signature in PORTS and any(
        sign.event.fields.get("state") in _UP and sign.event.device == cause.event.device
        for sign in incident.signs
        if sign.index > cause.index
    )


def times_down(incident: Incident) -> int:
    """Return how often ports of an incident lost their link."""
    return sum(
        sign.event.count
        for sign in incident.signs
        if sign.event.signature in PORTS and sign.event.fields.get("state") not in _UP
    )


def is_shutdown(incident: Incident, boots: Sequence[Sign], signs: Sequence[Sign]) -> bool:
    """Tell whether links went down only because the host was about to boot anew; `boots` are those of `signs` that say
    so."""
    if not all(sign.event.signature in PORTS for sign in incident.signs):
        return False
    last = incident.signs[-1]
    for sign in boots:
        if host_of(sign) != incident.host or sign.index < last.index:
            continue
        apart = seconds_between(last, sign)
        if sign.event.at is not None and last.event.at is not None and apart is not None:
            return 0.0 <= apart <= _SHUTDOWN_S
        # Seconds since boot start anew: nothing else of the old boot may stand between.
        return not any(last.index < other.index < sign.index and other not in incident.signs for other in signs)
    return False
