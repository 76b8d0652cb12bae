"""What conditions over logs and findings rest on, as facts that can be shown beside a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.finding import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.analysis.triage_case import Case
    from stethoscope.model.logs import Event
    from stethoscope.model.verdict import Scene
    from stethoscope.specs.playbook import WhenSpec

_MOST = 2


def shown(leaf: WhenSpec, case: Case, scene: Scene) -> list[Fact]:
    """Return the facts that make a condition hold: the first lines of logs, the findings that are there."""
    if leaf.event:
        return [_logged(event) for event in _events(leaf, case, scene)][:_MOST]
    if leaf.finding:
        found = [entry.finding for entry in scene.entries if entry.is_active and entry.finding.rule in leaf.finding]
        here = [finding for finding in found if not case.nodes or not case.nodes.isdisjoint(_nodes(finding.where))]
        return [
            finding.evidence[0] if finding.evidence else Fact(finding.summary, None, "", "", finding.since, "rule")
            for finding in here
        ][:_MOST]
    return [case.evidence[leaf.fact]] if leaf.fact in case.evidence else []


def _nodes(where: tuple[str, ...]) -> set[str]:
    return {place.partition("/")[0] for place in where}


def _events(leaf: WhenSpec, case: Case, scene: Scene) -> Iterator[Event]:
    """Yield the events of the job's log, else of all kernels, that a condition asks for, the first one first."""
    job = case.job.id if case.job is not None else ""
    own = [heard.log.events for heard in scene.logs if heard.job == job]
    every = [heard.log.events for heard in scene.logs if heard.job in ("", job)]
    for events in (*own, *every):
        fitting = [event for event in events if any(event.signature.startswith(begin) for begin in leaf.event)]
        if fitting:
            yield from fitting
            return


def _logged(event: Event) -> Fact:
    host = event.origin.host or ""
    where = f"{host}/{event.device}" if host and event.device else host
    return Fact(event.signature, event.text, "", where, iso(event.at) if event.at is not None else "", "log")
