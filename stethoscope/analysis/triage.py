"""The unattended diagnosis: a scene in, one verdict with its evidence out; the same scene gives the same answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import ENDED, NONE, SLOWER, STOPPED, cases_of
from stethoscope.analysis.triage_claims import claims_of
from stethoscope.analysis.triage_compare import compared
from stethoscope.analysis.triage_flow import walked
from stethoscope.analysis.triage_places import Places
from stethoscope.analysis.triage_weigh import explain, fit, hypotheses_of, inherit, is_unfelt, merged, outdate
from stethoscope.analysis.triage_words import actions_of, healthy, unknown, verdict_of, wanted_of
from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of
from stethoscope.model.verdict import HEALTHY, UNKNOWN, Diagnosis

if TYPE_CHECKING:
    from stethoscope.analysis.triage_case import Case
    from stethoscope.analysis.triage_weigh import Hypothesis
    from stethoscope.model.verdict import Scene, Verdict
    from stethoscope.specs.playbook import Playbooks

BELIEVED, QUIET = 0.38, 0.4
"""A hypothesis weighs at least so much to be the reason for a trouble, or to be told where there is none."""
TOGETHER = 0.75
"""Of one root cause at several places, those are culprits too that are believed nearly as much."""
_FELT_LOSS = 10.0
_TOLD, _STRONG = 0.49, 0.82
"""A hypothesis that does not fit a small trouble is told beside it when it is strong; less than half, so that its
urgency is that of what no job feels."""
_LEAST_LOSS = 5.0
_MOST_CULPRITS = 8


def diagnose(scene: Scene, books: Playbooks) -> Diagnosis:
    """Return what is wrong in a scene, and how that is known."""
    places = Places(scene)
    cases = _focused(cases_of(scene, places), scene.focus, places)
    claims = [*claims_of(scene, books, places, cases), *compared(scene.measured, cases)]
    hypotheses = merged(hypotheses_of(claims, books, places), cases, places)
    if scene.focus:
        hypotheses = [one for one in hypotheses if _is_about(one, scene.focus, cases, places)]
    fit(hypotheses, cases, places, scene.watched_since)
    explain(hypotheses, places)
    inherit(hypotheses)
    outdate(hypotheses)
    troubled = [case for case in cases if case.trouble != NONE]
    free = [one for one in hypotheses if one.explained_by is None]
    order = sorted(free, key=lambda one: _rank(one, books, is_troubled=bool(troubled)))
    least = BELIEVED if troubled else QUIET
    believed = [one for one in order if one.score >= least]
    if not believed and all(case.trouble == SLOWER and case.lost < _FELT_LOSS for case in troubled):
        # What no job feels is told all the same, where none is much slower.
        for one in order:
            one.fit = max(one.fit, _TOLD) if one.weight >= _STRONG else one.fit
        order = sorted(free, key=lambda one: _rank(one, books, is_troubled=False))
        believed = [one for one in order if one.score >= QUIET]
    if not believed:
        return _nothing(scene, books, cases, troubled, order, places)
    first = believed[0]
    together = [
        one
        for one in believed[1:]
        if one.cause == first.cause and one.score >= TOGETHER * first.score and one.case is first.case
    ]
    verdict = verdict_of([first, *together], severity_of(first, books), books, places, _rivals(first, order))
    others = [one for one in order if one.cause != first.cause and one.score >= 0.15 and _competes(first, one)][:2]
    also = [
        one for one in believed[1:] if one not in together and (one.cause == first.cause or not _competes(first, one))
    ]
    alternatives = tuple(
        verdict_of([one], severity_of(one, books), books, places, [], ceiling=verdict.confidence * 0.6)
        for one in others
    )
    scope = scope_of(first)
    layer = books.classes[first.cause].layer if first.cause in books.classes else "none"
    path = walked(first.case, verdict, layer, scope, books)
    return Diagnosis(
        scope,
        layer,
        verdict,
        alternatives,
        path,
        wanted_of([first, *others, *_odd(first, order)], books, places, scene, verdict.confidence),
        actions_of(first, books),
        tuple(verdict_of([one], severity_of(one, books), books, places, []) for one in also[:4]),
    )


def _focused(cases: list[Case], focus: str, places: Places) -> list[Case]:
    if not focus:
        return cases
    if focus.startswith("job/"):
        return [case for case in cases if case.place == "/".join(focus.split("/")[:2])]
    return [case for case in cases if not case.nodes.isdisjoint(places.members(focus))]


def _is_about(one: Hypothesis, focus: str, cases: list[Case], places: Places) -> bool:
    if any(place == focus or place.startswith(f"{focus}/") or focus.startswith(f"{place}/") for place in one.places):
        return True
    if focus.startswith(("rack/", "pod/", "leaf/")):
        # About all that belongs to it.
        members = set(places.members(focus))
        return any(node_of(place) in members and _hangs_on(place, focus, places) for place in one.places)
    if not focus.startswith("job/"):
        return False
    own = {case.place for case in cases}
    return any(f"job/{job.id}" in own for place in one.places for job in places.jobs_on(place))


def _hangs_on(place: str, focus: str, places: Places) -> bool:
    """Tell whether a part is one of a rack or a pod, or of a leaf a port."""
    return not focus.startswith("leaf/") or places.leaf(place) == focus


def _rank(one: Hypothesis, books: Playbooks, *, is_troubled: bool) -> tuple[float, float, float, str, str]:
    """Return what hypotheses are sorted by: where a job suffers, what explains it best; else the most urgent."""
    urgency = float(severity_of(one, books).rank)
    since = one.since if one.since is not None else 0.0
    if is_troubled:
        return (-round(one.score, 2), urgency, since, one.cause, one.unit)
    return (urgency if one.score >= QUIET else 9.0, -round(one.score, 2), since, one.cause, one.unit)


def severity_of(one: Hypothesis, books: Playbooks) -> Severity:
    """Return how urgent it is, by its class and by what the job does."""
    told = [claim.severity for claim in one.claims if claim.severity is not None]
    if told:
        return min(told, key=lambda severity: severity.rank)
    if one.is_idle:
        # Work that does not run has not stopped: a part of an idle node waits for the day.
        return Severity.P2
    if one.spec is None:
        known = books.classes.get(one.cause)
        return known.severity if known is not None else Severity.P1
    levels = one.spec.severity
    case = one.case
    trouble = case.trouble if case is not None and one.fit >= 0.5 else NONE
    if trouble in (STOPPED, ENDED) or any(claim.rule in one.spec.stops_by for claim in one.claims):
        return Severity(levels.stopped)
    if trouble == SLOWER and case is not None and case.lost >= _FELT_LOSS:
        return Severity(levels.slower)
    if _is_felt(one) or (case is not None and not case.is_known and not is_unfelt(one)):
        # Nobody says how the job on it goes.
        return Severity(levels.slower)
    if trouble == SLOWER:
        return Severity(levels.little)
    return Severity(levels.none)


def scope_of(one: Hypothesis) -> str:
    """Return whether all ranks are hit alike or some are late, dead or missing."""
    told = next((claim.scope for claim in one.claims if claim.scope), "")
    if told:
        return told
    if one.spec is None:
        return "unknown"
    if one.spec.scope != "felt":
        return one.spec.scope
    felt = one.case is not None and one.case.trouble != NONE and one.fit >= 0.5
    if one.case is not None and not one.case.is_known:
        return "unknown"
    return "global" if felt or _is_felt(one) else "local"


def _is_felt(one: Hypothesis) -> bool:
    """Tell whether a job must feel it, whatever its pace on average is."""
    if one.spec is None or one.case is None:
        return False
    return any(claim.rule in one.spec.felt_by for claim in one.claims)


def _rivals(first: Hypothesis, order: list[Hypothesis]) -> list[Hypothesis]:
    return [one for one in order if one.cause != first.cause and _competes(first, one) and one.score >= 0.3]


def _competes(first: Hypothesis, other: Hypothesis) -> bool:
    """Tell whether both would explain the same trouble."""
    if first.case is None or other.case is None or first.case.trouble == NONE:
        return False
    return first.case is other.case and other.fit >= 0.7


def _odd(first: Hypothesis, order: list[Hypothesis]) -> list[Hypothesis]:
    """Return what may make the loss of a job odd, to be settled whatever else is found: nothing else shows it."""
    return [
        one
        for one in order
        if one is not first
        and one.case is not None
        and one.case.is_odd
        and one.spec is not None
        and "diverges" in one.spec.job
    ][:1]


def _nothing(
    scene: Scene, books: Playbooks, cases: list[Case], troubled: list[Case], order: list[Hypothesis], places: Places
) -> Diagnosis:
    """Return healthy where no job is in trouble, else unknown, with what would settle it."""
    elsewhere = _elsewhere(scene, books)
    hurt = [case for case in troubled if case.trouble != SLOWER or case.lost >= _LEAST_LOSS]
    hurt += [case for case in cases if case not in hurt and case.is_odd]
    faint = [one for one in order if one.score >= 0.12][:2]
    if not hurt:
        verdict = healthy(scene, cases, places)
        path = walked(cases[0] if cases else None, verdict, "none", "none", books)
        wanted = wanted_of(faint, books, places, scene, 0.0)
        return Diagnosis("none", "none", verdict, path=path, wanted=wanted, also=elsewhere)
    verdict = unknown(hurt[0], books, scene.focus, elsewhere)
    alternatives: tuple[Verdict, ...] = tuple(
        verdict_of([one], severity_of(one, books), books, places, [], ceiling=0.35) for one in faint
    )
    scope = "local" if any(hurt[0].values.get(what) for what in ("late_host", "late_busy", "rank_idle")) else "unknown"
    if hurt[0].values.get("late_nobody") or hurt[0].values.get("stand_alike"):
        scope = "global"
    return Diagnosis(
        scope, "none", verdict, alternatives, walked(hurt[0], verdict, "none", scope, books),
        wanted_of(faint, books, places, scene, 0.0, hurt[0]), ("Keep what there is before anybody restarts the job",),
        elsewhere,
    )  # fmt: skip


def _elsewhere(scene: Scene, books: Playbooks) -> tuple[Verdict, ...]:
    """Return what is wrong beside what is asked about: it may be the reason for what is felt here."""
    if not scene.focus:
        return ()
    wider = diagnose(replace(scene, focus=""), books)
    return (wider.verdict,) if wider.verdict.root_cause not in (HEALTHY, UNKNOWN) else ()


__all__ = ["HEALTHY", "UNKNOWN", "diagnose", "scope_of", "severity_of"]
