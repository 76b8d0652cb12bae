"""What the diagnosis says in words: verdicts with their evidence, what to measure, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.said import number
from stethoscope.analysis.triage_case import ENDED, NONE, SLOWER, STOPPED
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.ids import node_of
from stethoscope.model.logs import Culprit
from stethoscope.model.verdict import HEALTHY, UNKNOWN, Verdict, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.analysis.triage_case import Case
    from stethoscope.analysis.triage_claims import Claim
    from stethoscope.analysis.triage_places import Places
    from stethoscope.analysis.triage_weigh import Hypothesis
    from stethoscope.model.verdict import Scene
    from stethoscope.specs.playbook import Playbooks

FLEET, _LEAST_FLEET = "fleet", 4
"""What all nodes of a fleet of so many have is one culprit."""
_MOST_FACTS, _MOST_CULPRITS, _MOST_WANTED, _MOST_NODES = 8, 8, 6, 16
WATCHED_S, _HASTY = 60.0, 0.7
"""Before so long most rules have not had the time that they need: that nothing is wrong is no surer then."""
_SURE = 0.9
"""Surer than this nothing need be measured."""
_RIVAL = 0.85


def verdict_of(
    chosen: Sequence[Hypothesis],
    severity: Severity,
    books: Playbooks,
    places: Places,
    rivals: Sequence[Hypothesis],
    *,
    ceiling: float = 1.0,
) -> Verdict:
    """Return what hypotheses of one root cause come to, which `rivals` would explain as well."""
    first = chosen[0]
    culprits = (
        _whole_job(chosen)
        or _whole_fleet(chosen, places)
        or [place for one in chosen for place in one.places][:_MOST_CULPRITS]
    )
    confidence = (
        first.score if first.case is None or first.case.trouble == NONE else first.weight * (0.4 + 0.6 * first.fit)
    )
    for rival in rivals:
        if rival.score >= 0.5 * first.score:
            confidence *= _RIVAL
    confidence = calibrated(confidence, books.confidence)
    facts = (fact for one in chosen for claim in _strong_first(one) for fact in claim.facts)
    supports = list(dict.fromkeys(fact for fact in facts if not _is_as_expected(fact)))
    if first.case is not None and "trouble" in first.case.evidence and first.fit >= 0.5:
        supports.insert(min(1, len(supports)), first.case.evidence["trouble"])
    supports += [_follows(other) for one in chosen for other in one.explains]
    contradicts = [
        Fact(f"it could also be {rival.cause}", rival.strongest.says, "", rival.unit, "", rival.strongest.source)
        for rival in rivals[:2]
    ]
    contradicts += [Fact(says, None, "", first.unit, "", "measured") for says in first.against[:2]]
    spec = first.spec
    affected = list(dict.fromkeys(one.case.place for one in chosen if one.case is not None and one.fit >= 0.5))
    return Verdict(
        first.cause,
        round(min(ceiling, max(0.05, confidence)), 3),
        severity,
        _summary(chosen, culprits, books),
        tuple(_culprit(place, first, places) for place in culprits),
        tuple(dict.fromkeys(supports))[:_MOST_FACTS],
        tuple(contradicts),
        tuple((other.root_cause, other.because) for other in spec.unlike) if spec is not None else (),
        tuple(settled.command or settled.probe for settled in spec.settled_by[:3]) if spec is not None else (),
        next((claim.signature for one in chosen for claim in _strong_first(one) if claim.signature), None),
        tuple(affected),
        first.since,
    )


def calibrated(evidence: float, table: Sequence[tuple[float, float]]) -> float:
    """Return how often verdicts that rest on so much evidence were right, between the rows of a table that rises."""
    if not table:
        return evidence
    before = table[0]
    for row in table:
        if evidence <= row[0]:
            span = row[0] - before[0]
            share = (evidence - before[0]) / span if span > 0 else 1.0
            return before[1] + share * (row[1] - before[1])
        before = row
    return before[1]


def _is_as_expected(fact: Fact) -> bool:
    """Tell whether a fact that a rule looked at as well says that all is well there, or as it is with its peers."""
    if isinstance(fact.value, str) or fact.value is None:
        return False
    return (fact.expected == "none" and fact.value == 0) or f"{fact.expected} ".startswith(
        f"peers {number(fact.value)} "
    )


def _whole_job(chosen: Sequence[Hypothesis]) -> list[str]:
    """Return the job, where all of its nodes have what is a setting of the whole job; else nothing."""
    first = chosen[0]
    if first.spec is None or first.spec.scope != "global" or first.spec.part not in ("node", "job"):
        return []
    if first.case is None or first.case.job is None:
        return []
    nodes = {node_of(place) for one in chosen for place in one.places}
    return [first.case.place] if len(nodes) > 1 and first.case.nodes <= nodes else []


def _whole_fleet(chosen: Sequence[Hypothesis], places: Places) -> list[str]:
    """Return the fleet, where all of its nodes have what is a setting of nodes; else nothing."""
    found = {place for one in chosen for place in one.places}
    names = places.names()
    return [FLEET] if len(names) >= _LEAST_FLEET and names == found else []


def _strong_first(one: Hypothesis) -> list[Claim]:
    return sorted(one.claims, key=lambda claim: (-claim.weight, claim.source, claim.rule))


def _follows(other: Hypothesis) -> Fact:
    at = next((fact.at for claim in other.claims for fact in claim.facts if fact.at), "")
    return Fact(f"explains what looks like {other.cause}", other.strongest.says or None, "", other.unit, at, "inferred")


def _summary(chosen: Sequence[Hypothesis], culprits: Sequence[str], books: Playbooks) -> str:
    first = chosen[0]
    where = ", ".join(culprits[:3]) + (f" and {len(culprits) - 3} more" if len(culprits) > 3 else "")
    known = books.classes.get(first.cause)
    says = next((claim.says for claim in _strong_first(first) if claim.says and claim.source != "log"), "")
    says = says or first.strongest.says or (known.meaning if known is not None else first.cause)
    return f"{where}: {says}{_felt(first)}"


def _felt(one: Hypothesis) -> str:
    case = one.case
    if case is None or one.fit < 0.5 or case.trouble == NONE:
        return "; no job feels it" if case is not None and case.trouble == NONE and case.is_known else ""
    if case.trouble == SLOWER:
        return f"; {case.place} is {case.lost:.0f} % slower"
    return f"; {case.place} {'ended' if case.trouble == ENDED else 'stands'}"


def _culprit(place: str, one: Hypothesis, places: Places) -> Culprit:
    rank = next((claim.rank for claim in one.claims if claim.rank is not None), None)
    first, _, rest = place.partition("/")
    if first == "job":
        number = rest.partition("/rank/")[2]
        return Culprit(int(number) if number.isdigit() else rank, None, None, place)
    if places.node(first) is None:
        return Culprit(place=place)
    return Culprit(rank, first, rest or None, place)


# ---- nothing, and not enough


def healthy(scene: Scene, cases: Iterable[Case], places: Places) -> Verdict:
    """Return that nothing is wrong, and what was looked at."""
    jobs = [case for case in cases if case.job is not None]
    about = scene.focus if scene.focus and not scene.focus.startswith("job/") else ""
    names = frozenset(places.members(about)) if about else frozenset(name for case in jobs for name in case.nodes)
    # A job is asked about with its nodes; without either, all that there is.
    own = names if scene.focus else places.names()
    nodes = [node for node in scene.snapshot.nodes if node.name in own]
    live = [node for node in nodes if node.link.state.is_live]
    stand = [entry.finding for entry in scene.entries if entry.is_active]
    here = [
        each for each in stand if not scene.focus or scene.focus in each.where or own & set(map(node_of, each.where))
    ]
    where = scene.focus or "fleet"
    supports = [
        Fact("nodes that answer", len(live), str(len(nodes)), where, "", "links"),
        Fact("findings that stand", 0, "none", where, "", "rules")
        if not here
        else Fact("findings that stand, of what is old, idle, planned or normal", len(here), "", where, "", "rules"),
    ]
    if len(stand) > len(here):
        supports.append(Fact("findings elsewhere in the fleet", len(stand) - len(here), "", "fleet", "", "rules"))
    supports += [
        Fact("throughput against its own past, %", -case.lost or 0.0, "0", case.place, "", "job log")
        for case in jobs[:4]
    ]
    read = [heard for heard in scene.logs if heard.log.lines]
    confidence = 0.95 if jobs and len(read) and live else 0.85 if live else 0.4
    watched_s = max((node.frames * node.tick_s for node in live), default=0.0)
    if live and watched_s < WATCHED_S:
        confidence = min(confidence, _HASTY)
        supports.append(
            Fact("seconds that it was watched", round(watched_s), f"at least {WATCHED_S:.0f}", where, "", "")
        )
    return Verdict(HEALTHY, confidence, Severity.NONE, "Nothing is wrong", (), tuple(supports))


def unknown(case: Case, books: Playbooks, focus: str = "", elsewhere: Sequence[Verdict] = ()) -> Verdict:
    """Return that a job is in trouble and nothing that can be read says why, at what is asked about."""
    says = {
        SLOWER: f"{case.place} is {case.lost:.0f} % slower",
        STOPPED: f"{case.place} stands",
        ENDED: f"{case.place} ended",
        NONE: f"the loss of {case.place} jumps at full speed",
    }[case.trouble]
    where = f"at {focus}" if focus and not focus.startswith("job/") else "that can be read"
    why = f", and nothing {where} says why"
    for other in elsewhere:
        why += f"; elsewhere {other.root_cause} is found: {', '.join(other.places[:2])}"
    supports = [case.evidence[name] for name in sorted(case.evidence)]
    severity = books.classes[UNKNOWN].severity
    if case.trouble == SLOWER and case.lost < 10.0:
        severity = Severity.P2
    return Verdict(
        UNKNOWN, 0.45, severity, f"{says}{why}", (), tuple(supports[:_MOST_FACTS]),
        affected=(case.place,), since=case.since,
    )  # fmt: skip


# ---- what to measure, what to do


def wanted_of(
    chosen: Sequence[Hypothesis],
    books: Playbooks,
    places: Places,
    scene: Scene,
    confidence: float,
    case: Case | None = None,
) -> tuple[Wanted, ...]:
    """Return the measurements that would settle it and have not been made, the first thing first."""
    made = {(one.place, one.probe) for one in scene.measured}
    wanted: dict[tuple[str, str], Wanted] = {}
    for one in chosen if confidence < 1.0 else ():
        for want in _settling(one, places):
            wanted.setdefault((want.place, want.probe), want)
    if case is not None:
        for want in _for_nothing(case, books):
            wanted.setdefault((want.place, want.probe), want)
    return tuple(want for key, want in wanted.items() if key not in made)[:_MOST_WANTED]


def _settling(one: Hypothesis, places: Places) -> Iterator[Wanted]:
    for settled in one.spec.settled_by if one.spec is not None else ():
        for place in one.places[:2]:
            for at in _aims(settled.at, place, one, places):
                command = settled.command.replace("{device}", at.rpartition("/")[2])
                command = command.replace("{job}", one.case.place.partition("/")[2] if one.case is not None else "")
                yield Wanted(at, settled.probe, settled.settles, command, one.cause)


def _aims(at: str, place: str, one: Hypothesis, places: Places) -> list[str]:
    if at == "part":
        return [place]
    if at == "node":
        if "/rank/" in place:
            gpu = places.by_rank(place.split("/")[1], int(place.rpartition("/")[2]))
            return [node_of(gpu)] if gpu else []
        if place.startswith("job/") and one.case is not None:
            return sorted(one.case.nodes)[:_MOST_NODES]
        return [node_of(place)] if places.node(node_of(place)) is not None else [place]
    if one.case is None:
        return [place]
    if at == "job":
        return [one.case.place]
    nodes = sorted(one.case.nodes)
    return nodes[:1] if at == "any_node" else nodes[:_MOST_NODES]


_HANG = ("collective_mismatch_desync", "ckpt_io", "firewall_or_port_blocked")
_SLOW = ("switch_congestion", "config_env_error", "data_loading")


def _for_nothing(case: Case, books: Playbooks) -> Iterator[Wanted]:
    """Yield what to ask where nothing speaks for anything."""
    nodes = sorted(case.nodes)
    for cause in _HANG if case.trouble in (STOPPED, ENDED) else _SLOW:
        spec = books.causes.get(cause)
        for settled in spec.settled_by if spec is not None else ():
            aims = {"any_node": nodes[:1], "node": nodes[:_MOST_NODES], "job_nodes": nodes[:_MOST_NODES]}
            for at in aims.get(settled.at, [case.place]):
                yield Wanted(at, settled.probe, settled.settles, settled.command, cause)


def actions_of(one: Hypothesis, books: Playbooks) -> tuple[str, ...]:
    """Return what is safe to do now, and what comes later."""
    if one.spec is None:
        known = books.classes.get(one.cause)
        return (known.meaning,) if known is not None else ()
    return tuple(text for text in (one.spec.now, one.spec.then) if text)
