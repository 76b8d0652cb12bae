"""The unattended diagnosis: a scene in, one verdict with its evidence out; the same scene gives the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of
from stethoscope.model.logs import Culprit
from stethoscope.model.verdict import HEALTHY, UNKNOWN, Diagnosis, Verdict

if TYPE_CHECKING:
    from stethoscope.model.night import Entry
    from stethoscope.model.verdict import Scene
    from stethoscope.specs.playbook import Playbooks

_LOUD = 2
"""Findings of P2 and worse are loud."""


def diagnose(scene: Scene, playbooks: Playbooks) -> Diagnosis:
    """Return what is wrong in a scene, and how that is known."""
    loud = [entry for entry in scene.entries if entry.finding.severity.rank <= _LOUD and entry.finding.root_cause]
    if not loud:
        return Diagnosis("none", "none", Verdict(HEALTHY, 0.8, Severity.NONE, "Nothing is wrong"))
    worst = min(loud, key=lambda entry: (entry.finding.severity.rank, entry.spans[0][0], entry.id))
    cause = worst.finding.root_cause or UNKNOWN
    known = playbooks.causes.get(cause)
    return Diagnosis("unknown", known.layer if known else "none", _verdict(worst, cause))


def _verdict(entry: Entry, cause: str) -> Verdict:
    finding = entry.finding
    culprits = tuple(Culprit(host=node_of(place), place=place) for place in finding.where[:4])
    return Verdict(cause, 0.5, finding.severity, finding.summary, culprits, finding.evidence)
