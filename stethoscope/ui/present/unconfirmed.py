"""What the fleet screen shows in alarm and no rule has found yet: a verdict that nothing is urgent tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of
from stethoscope.model.verdict import UNKNOWN
from stethoscope.ui.present.assess import assess, what_is_wrong
from stethoscope.ui.present.spans import Level

if TYPE_CHECKING:
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Verdict

_ALARMS = (Level.WARNING, Level.CRITICAL, Level.HUNG)


def unconfirmed(verdict: Verdict, snapshot: FleetSnapshot, focus: str) -> str:
    """Return in words which values stand beyond their limits without a finding, on the node of `focus` or, where it
    names none, on all; empty for none, and beside a verdict that is urgent itself. Takes a tenth of a second for 2,000
    nodes: not on an event loop."""
    if verdict.severity in (Severity.P0, Severity.P1) and verdict.root_cause != UNKNOWN:
        return ""
    assessment = assess(snapshot, snapshot.mono)
    own = node_of(focus)
    nodes = [node for node in snapshot.nodes if own not in snapshot.by_name or node.name == own]
    said = []
    for node in nodes:
        if node.name in assessment.findings or int(assessment.nodes[node.index]) not in _ALARMS:
            continue
        text, level = what_is_wrong(assessment, node, snapshot.wall)
        if text and level in _ALARMS:
            said.append(f"{node.name} {text}")
    if not said:
        return ""
    more = f" and {len(said) - 1} more" if len(said) > 1 else ""
    return f"no rule is sure of it yet: {said[0]}{more}; ask again in a minute"
