"""Whom many ports behind one leaf wait for: the port that does not wait itself and receives most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.said import quantity
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from stethoscope.analysis.joined import Joined
    from stethoscope.analysis.moment import Moment
    from stethoscope.analysis.sharing import Sharing
    from stethoscope.specs.rule import Rule

RECEIVES = "ib_port_rcv_data"
MUCH = 1.5
"""So many times what the ports of the leaf receive in the middle is much."""
_WAITING = "switch_congestion"


def fan_in(entry: Joined, rule: Rule, moment: Moment, sharing: Sharing) -> str:
    """Return what to say of the port that those of a congested leaf send to: `gpu-007/ib/mlx5_3 receives most, 380
    Gb/s`; empty when the data do not show one."""
    if entry.cause.kind.name != "leaf" or rule.root_cause != _WAITING or rule.scope is not Scope.PORT:
        return ""
    groups = sharing.groups(Scope.PORT, "leaf")
    if entry.cause.name not in groups.causes:
        return ""
    members = groups.numbers == groups.causes.index(entry.cause.name)
    received = np.where(members, moment.values(RECEIVES), np.nan)
    if not np.any(received > 0):
        return ""
    most = int(np.nanargmax(received))
    if most in entry.parts.get(entry.first, []) or received[most] < MUCH * float(np.nanmedian(received)):
        return ""
    node = moment.snapshot.nodes[moment.layout.owner[Scope.PORT][most]]
    place = moment.snapshot.place(node, Scope.PORT, int(moment.layout.position[Scope.PORT][most]))
    return f"{place} receives most, {quantity(moment.catalogue[RECEIVES], float(received[most]))}"
