"""Hypotheses: claims put together by root cause and place, weighed, and told apart into causes and what follows from
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import ENDED, NONE, SLOWER, STOPPED
from stethoscope.analysis.triage_claims import HINT
from stethoscope.model.ids import node_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.analysis.triage_case import Case
    from stethoscope.analysis.triage_claims import Claim
    from stethoscope.analysis.triage_places import Places
    from stethoscope.specs.playbook import CauseSpec, Playbooks

MOST = 0.97
LATE_S = 90.0
"""A cause is found at most so long after what follows from it."""
_FIRST_S = 75.0
"""So long after one began to watch, rules find what was there before."""
_BEFORE_S, _AFTER_S = 900.0, 120.0
"""A cause begins at most so long before and after the trouble that it explains."""
_LEAST_SHARE = 0.5
"""What explains another one weighs at least this share of it."""
_BONUS = 0.04
_FITS = 0.6
"""What explains others elsewhere in a job has to fit what the job does at least so well."""
_SOME = 0.42
"""... and weighs at least so much."""
_OWN = ("finding", "measured")
"""What looks at a place itself; a log may tell of it who only waits for it."""
_NOT_SO, _ELSEWHERE = 0.3, 0.55
_CLEAR, _OLD = 0.7, 0.8
"""What weighs so much and is new leaves so much of the fit of what is old."""


@dataclass(slots=True)
class Hypothesis:
    """One root cause at one unit: a node, a leaf, a rack, a storage, a job."""

    cause: str
    unit: str
    claims: list[Claim]
    spec: CauseSpec | None
    weight: float = 0.0
    fit: float = 1.0
    """How well it explains what the job does: 1 well, 0 not at all."""
    case: Case | None = None
    """The job that feels it."""
    is_idle: bool = False
    """It is on nodes on which no job of the fleet runs."""
    explained_by: Hypothesis | None = None
    explained_at: str = ""
    """How near: part, node, rack, job, all."""
    explains: list[Hypothesis] = field(default_factory=list)
    against: list[str] = field(default_factory=list)

    @property
    def since(self) -> float | None:
        """Return when it was first told of."""
        times = [claim.since for claim in self.claims if claim.since is not None]
        return min(times) if times else None

    @property
    def strongest(self) -> Claim:
        """Return the claim that weighs most."""
        return max(self.claims, key=lambda claim: (claim.weight, claim.source == "finding", claim.rule))

    @property
    def places(self) -> tuple[str, ...]:
        """Return its culprits: of the strong claims the finest places."""
        best = self.strongest.weight
        strong = [claim for claim in self.claims if claim.weight >= 0.6 * best]
        named = [place for claim in strong for place in claim.places if self._is_here(place)]
        fine = [place for place in dict.fromkeys(named) if not any(other.startswith(f"{place}/") for other in named)]
        # An array is as slow as the disk in it that is slow.
        disks = [place for place in fine if "/disk/" in place and "/disk/md" not in place]
        fine = [place for place in fine if not (disks and "/disk/md" in place)]
        links = {f"{node_of(place)}/gpu/{place.split('/')[2]}" for place in fine if "/nvlink/" in place}
        fine = [place for place in fine if place not in links]
        if self.spec is not None and 0 < self.spec.whole <= len(fine) and not self.unit.startswith("job/"):
            return (self.unit,)
        return tuple(sorted(fine)) or (self.unit,)

    def _is_here(self, place: str) -> bool:
        return place == self.unit or place.startswith(f"{self.unit}/")

    @property
    def score(self) -> float:
        """Return how much it is believed to be the reason."""
        return self.weight * self.fit


def hypotheses_of(claims: list[Claim], books: Playbooks, places: Places) -> list[Hypothesis]:
    """Return every root cause at every unit that something speaks for, weighed."""
    groups: dict[tuple[str, str], Hypothesis] = {}
    for claim in claims:
        if not claim.cause:
            continue
        for unit in dict.fromkeys(places.unit(place) for place in claim.places):
            key = (claim.cause, _job_unit(unit))
            if key not in groups:
                groups[key] = Hypothesis(claim.cause, _job_unit(unit), [], books.causes.get(claim.cause))
            groups[key].claims.append(claim)
    for one in groups.values():
        one.weight = _weight(one)
    _lower(groups, claims, places)
    return [groups[key] for key in sorted(groups)]


def _job_unit(unit: str) -> str:
    return "/".join(unit.split("/")[:2]) if unit.startswith("job/") else unit


def _weight(one: Hypothesis) -> float:
    best: dict[str, float] = {}
    for claim in one.claims:
        best[claim.source] = max(best.get(claim.source, 0.0), claim.weight)
    # Several rules that see the same differently are a little more than one.
    rules = {claim.rule for claim in one.claims if claim.source == "finding" and claim.weight >= 0.2}
    if len(rules) > 1:
        best["finding"] = min(MOST, best["finding"] + 0.1 * (1 - best["finding"]) * (len(rules) - 1))
    rest = 1.0
    for weight in best.values():
        rest *= 1.0 - weight
    return min(MOST, 1.0 - rest)


def _lower(groups: dict[tuple[str, str], Hypothesis], claims: list[Claim], places: Places) -> None:
    """Let measurements speak against what they rule out."""
    for claim in claims:
        for cause in claim.against:
            for place in claim.places:
                one = groups.get((cause, _job_unit(places.unit(place))))
                if one is not None:
                    one.weight *= 0.4
                    one.against.append(claim.says)


def merged(hypotheses: list[Hypothesis], cases: list[Case], places: Places) -> list[Hypothesis]:
    """Return the hypotheses, with those of single nodes taken into that of their whole job, where all of its ranks are
    hit alike: whoever asks one node only sees that one."""
    hypotheses = [*hypotheses, *_of_all_nodes(hypotheses, cases, places)]
    of_jobs = {
        (one.cause, one.unit): one
        for one in hypotheses
        if one.unit.startswith("job/") and (not one.claims or any(claim.scope == "global" for claim in one.claims))
    }
    job_of = {node: case.place for case in reversed(cases) for node in case.nodes}
    shared = {(one.cause, one.unit) for one in hypotheses if one.unit.startswith(("leaf/", "rack/"))}
    kept = []
    for one in hypotheses:
        if (one.cause, one.unit) not in shared and _is_of_shared(one, shared, places):
            continue
        whole = of_jobs.get((one.cause, job_of.get(one.unit, "")))
        if whole is None or whole is one:
            kept.append(one)
        else:
            whole.claims += one.claims
            whole.weight = _weight(whole)
    return [one for one in kept if one.claims]


def _of_all_nodes(hypotheses: list[Hypothesis], cases: list[Case], places: Places) -> Iterator[Hypothesis]:
    """Yield a hypothesis, of no claims yet, of each job whose nodes, as far as they answer, all have what is a setting
    of a whole job: another fault of one of them explains nothing of it."""
    known = {(one.cause, one.unit): one for one in hypotheses}
    for cause, spec in {one.cause: one.spec for one in hypotheses if one.spec is not None}.items():
        if spec.scope != "global" or spec.part not in ("node", "job"):
            continue
        for case in cases:
            without = [node for node in case.nodes if (cause, node) not in known]
            is_whole = 2 * len(without) < len(case.nodes) > 1 and not any(_answers(node, places) for node in without)
            if is_whole and (cause, case.place) not in known:
                yield Hypothesis(cause, case.place, [], spec)


def _answers(name: str, places: Places) -> bool:
    node = places.node(name)
    return node is None or node.link.state.is_live


def _is_of_shared(one: Hypothesis, shared: set[tuple[str, str]], places: Places) -> bool:
    """Tell whether all of its places lie behind a leaf or in a rack that has the same root cause."""
    return all(
        (one.cause, places.leaf(place)) in shared or (one.cause, f"rack/{places.rack(place)}") in shared
        for place in one.places
    )


def fit(hypotheses: list[Hypothesis], cases: list[Case], places: Places, watched_since: float | None = None) -> None:
    """Work out how well each explains what the jobs do that have to do with it.

    What was there when one began to watch, at `watched_since`, may be as old as any trouble.
    """
    troubled = [case for case in cases if case.trouble != NONE]
    knows_all = bool(cases) and all(case.nodes for case in cases)
    for one in hypotheses:
        touched = {f"job/{job.id}" for place in one.places for job in places.jobs_on(place)}
        own = [case for case in troubled if case.place in touched]
        one.case = own[0] if own else next((case for case in cases if case.place in touched), None)
        node = places.node(node_of(one.unit))
        one.is_idle = knows_all and not touched and node is not None and not node.processes
        if not troubled:
            one.fit = 1.0
        elif not own:
            one.fit = 0.35
        else:
            fits = [1.0 if _shows(one, case, places) else _fit(one, case, watched_since) for case in own]
            one.fit = max(fits)
            one.case = own[fits.index(one.fit)]


def _fit(one: Hypothesis, case: Case, watched_since: float | None) -> float:
    pictured = any(claim.source == "picture" and f"job/{claim.job}" == case.place for claim in one.claims)
    does = set(one.spec.job) if one.spec is not None else {"stops", "slows"}
    fit = 1.0
    if not pictured:
        if case.trouble in (STOPPED, ENDED) and "stops" not in does:
            fit = _NOT_SO
        if case.trouble == SLOWER and not does & {"slows", "starves"}:
            fit = _NOT_SO
        if is_unfelt(one):
            fit = min(fit, _NOT_SO)
        if case.trouble in (STOPPED, ENDED) and _is_elsewhere(one, case):
            fit = min(fit, _ELSEWHERE)
    if not pictured and case.since is not None and one.since is not None:
        seen_within = one.spec.seen_within if one.spec is not None else LATE_S
        was_there = watched_since is not None and case.since < watched_since and one.since < watched_since + _FIRST_S
        is_late = one.since > case.since + max(_AFTER_S, seen_within) and not was_there
        if is_late and not any(claim.source in ("log", "measured") for claim in one.claims):
            fit *= 0.6
        elif one.since < case.since - _BEFORE_S:
            fit *= 0.7
    return fit


def _is_elsewhere(one: Hypothesis, case: Case) -> bool:
    """Tell whether it is on one node, and the rank that ended first on another."""
    first = case.left_first
    return bool(first) and one.unit in case.nodes and one.unit != first


def _shows(one: Hypothesis, case: Case, places: Places) -> bool:
    """Tell whether ranks on its node or in its rack show that the job feels it; where most of them stand there nobody
    is the odd one out."""
    if one.spec is not None and one.spec.felt_with and one.unit.startswith("rack/") and case.values.get("late_nobody"):
        return 2 * sum(one.unit == f"rack/{places.rack(node)}" for node in case.nodes) > len(case.nodes)
    for fact in one.spec.felt_with if one.spec is not None else ():
        shown = case.values.get(fact)
        for place in shown if isinstance(shown, tuple) else ():
            if node_of(place) == one.unit or (
                one.unit.startswith("rack/") and one.unit == f"rack/{places.rack(place)}"
            ):
                return True
    return False


def outdate(hypotheses: list[Hypothesis]) -> None:
    """Let what came when a job stopped fit better than what had been there long before and did not stop it."""
    ends = [
        one
        for one in hypotheses
        if one.explained_by is None and one.case is not None and one.case.trouble in (STOPPED, ENDED)
    ]
    for one in ends:
        new = [each for each in ends if each.case is one.case and each.weight >= _CLEAR and each.fit >= one.fit]
        if _is_old(one) and not all(_is_old(each) for each in new):
            one.fit *= _OLD


def _is_old(one: Hypothesis) -> bool:
    """Tell whether all that is told of it is from long before its job stopped."""
    times = [claim.since for claim in one.claims if claim.since is not None]
    began = one.case.since if one.case is not None else None
    return bool(times) and began is not None and max(times) < began - _AFTER_S


def is_unfelt(one: Hypothesis) -> bool:
    """Tell whether all findings that speak for it are of a kind that no job feels."""
    found = [claim for claim in one.claims if claim.source == "finding"]
    return bool(found) and all(claim.unfelt for claim in found) and one.strongest.source == "finding"


def inherit(hypotheses: list[Hypothesis]) -> None:
    """Let what explains something at its own place fit as well as that."""
    for one in sorted(hypotheses, key=lambda each: (_depth(each), each.cause, each.unit), reverse=True):
        cause = one.explained_by
        if cause is not None and one.explained_at in ("part", "node", "rack"):
            cause.fit = max(cause.fit, one.fit)
            if cause.case is None or one.fit == cause.fit:
                cause.case = one.case or cause.case


def _depth(one: Hypothesis) -> int:
    depth, step = 0, one.explained_by
    while step is not None:
        depth, step = depth + 1, step.explained_by
    return depth


def explain(hypotheses: list[Hypothesis], places: Places) -> None:
    """Find out which of them follow from which."""
    links = [
        (cause, other)
        for cause in hypotheses
        for other in hypotheses
        if cause is not other and _follows(cause, other, places)
    ]
    both = {(id(cause), id(other)) for cause, other in links}
    for cause, other in sorted(links, key=lambda link: (-link[0].weight, link[0].cause, link[0].unit)):
        if (id(other), id(cause)) in both and _is_first(other, cause):
            continue
        if _leads_to(cause, other):
            continue
        if other.explained_by is None or other.explained_by.weight < cause.weight:
            if other.explained_by is not None:
                other.explained_by.explains.remove(other)
            other.explained_by, other.explained_at = cause, _follows(cause, other, places)
            cause.explains.append(other)
    for one in hypotheses:
        if one.explains and one.explained_by is None:
            one.weight = min(MOST, one.weight + _BONUS)


def _follows(cause: Hypothesis, other: Hypothesis, places: Places) -> str:
    """Return how near `other` follows from `cause`, empty where it does not."""
    if cause.spec is None or cause.weight < _LEAST_SHARE * other.weight or cause.weight < 0.3:
        return ""
    for follows in cause.spec.explains:
        if follows.at in ("job", "all") and (
            cause.fit < _FITS or cause.weight < _SOME or (cause.cause == other.cause and _is_of_its_own(other))
        ):
            continue
        if other.cause in follows.causes and _reaches(cause, other, follows.at, places) and _in_time(cause, other):
            return follows.at
    return ""


def _is_of_its_own(one: Hypothesis) -> bool:
    """Tell whether more than hints were seen at its very place: a fault, not what another of its kind does to it."""
    return any(claim.source in _OWN and claim.weight > HINT for claim in one.claims)


def _in_time(cause: Hypothesis, other: Hypothesis) -> bool:
    if cause.since is None or other.since is None:
        return True
    return cause.since <= other.since + (cause.spec.seen_within if cause.spec is not None else LATE_S)


def _reaches(cause: Hypothesis, other: Hypothesis, at: str, places: Places) -> bool:
    if at == "all":
        return True
    if at == "part":
        here, there = cause.places, other.places
        return any(a == b or a.startswith(f"{b}/") or b.startswith(f"{a}/") for a in here for b in there)
    if at == "node":
        if cause.unit == other.unit:
            return True
        nodes = {node_of(place) for place in cause.places}
        return bool(nodes & {node_of(place) for place in other.places})
    if at == "rack":
        racks = {places.rack(place) for place in cause.places} - {""}
        same = {node_of(place) for place in cause.places} & {node_of(place) for place in other.places}
        return bool(same) or (
            cause.unit.startswith("rack/") and bool(racks & {places.rack(place) for place in other.places})
        )
    mine = {job.id for place in cause.places for job in places.jobs_on(place)}
    return bool(mine & {job.id for place in other.places for job in places.jobs_on(place)})


def _is_first(one: Hypothesis, other: Hypothesis) -> bool:
    """Tell which of two that explain each other is the cause: what fits what the job does, the earlier, the heavier."""
    if abs(one.fit - other.fit) > _NOT_SO:
        return one.fit > other.fit
    if one.since is not None and other.since is not None and abs(one.since - other.since) > 5.0:
        return one.since < other.since
    return (one.weight, other.cause) > (other.weight, one.cause)


def _leads_to(cause: Hypothesis, other: Hypothesis) -> bool:
    """Tell whether `other` already explains `cause`, over any number of steps."""
    step: Hypothesis | None = cause
    while step is not None:
        if step is other:
            return True
        step = step.explained_by
    return False
