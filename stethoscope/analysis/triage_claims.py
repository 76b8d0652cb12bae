"""Claims: each piece of evidence that speaks for a root cause at a place. A fact counts once, whoever tells it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import holds
from stethoscope.clock import from_iso, iso
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.ids import job_place, node_of
from stethoscope.model.verdict import HEALTHY, UNKNOWN

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from stethoscope.analysis.triage_case import Case
    from stethoscope.analysis.triage_places import Places
    from stethoscope.model.logs import Culprit, LogVerdict
    from stethoscope.model.night import Entry
    from stethoscope.model.verdict import Heard, Measured, Scene
    from stethoscope.specs.playbook import CauseSpec, Playbooks, SignSpec

_BY_SEVERITY = {Severity.P0: 0.95, Severity.P1: 0.8, Severity.P2: 0.6}
"""Weight of a finding of which the playbooks say nothing."""
_OF_LOG, _OF_ALTERNATIVE, _WITHOUT_PLACE = 0.95, 0.5, 0.7
_VAGUE = {"straggler_or_slow_rank", UNKNOWN, HEALTHY}
"""What a log says when it only sees that something is slow."""
_MOST_FACTS = 3
_SAME_MOMENT_S = 120.0
_STOOD_S = 15.0
_FIRM = 0.85
"""What many have at once is as sure as the surest of them, from so much on wholly."""
HINT = 0.4
"""What weighs less is a hint: many at once are chance in a large fleet."""
_MOST_MATCHES = 64
_MOST_RANKS = 3
"""More ranks than so many, on several nodes, that a tool names at once are the job's code and not theirs."""
_RECENT_S = 43_200.0
"""What a tool tells of an older time has nothing to do with now."""


@dataclass(slots=True)
class Claim:
    """One piece of evidence."""

    cause: str
    places: tuple[str, ...]
    weight: float
    source: str
    """What tells it: `finding`, `log`, `picture`, `measured`; of each the strongest counts."""
    since: float | None = None
    until: float | None = None
    facts: tuple[Fact, ...] = ()
    severity: Severity | None = None
    """Where the evidence itself says how urgent it is."""
    scope: str = ""
    rule: str = ""
    says: str = ""
    """In words, without the place."""
    signature: str | None = None
    job: str = ""
    unfelt: bool = False
    """No job feels what it tells of."""
    rank: int | None = None
    against: tuple[str, ...] = field(default=())
    """Root causes that it speaks against at its place."""


def claims_of(scene: Scene, books: Playbooks, places: Places, cases: list[Case]) -> list[Claim]:
    """Return all evidence of a scene, the earliest first."""
    claims = [claim for entry in scene.entries for claim in _of_finding(entry, books, places)]
    claims += [claim for heard in scene.logs for claim in _of_log(heard, books, places, cases)]
    claims += [claim for case in cases for claim in _of_pictures(case, books, places)]
    claims += [claim for measured in scene.measured for claim in _of_measured(measured, books, places, cases)]
    claims += list(gathered(claims, books, places))
    return sorted(claims, key=_key)


def _key(claim: Claim) -> tuple[float, str, tuple[str, ...], str, str]:
    return (claim.since if claim.since is not None else 0.0, claim.cause, claim.places, claim.source, claim.rule)


# ---- findings


def _of_finding(entry: Entry, books: Playbooks, places: Places) -> Iterator[Claim]:
    finding = entry.finding
    severity = entry.worst if entry.worst.rank < finding.severity.rank else finding.severity
    if severity not in _BY_SEVERITY or finding.rule in books.symptoms:
        return
    if entry.ended == "folded" and (entry.cleared_at or 0.0) - entry.spans[0][0] < _STOOD_S:
        # What came together with the finding that tells of it is no evidence of its own.
        return
    default = [(finding.root_cause, _BY_SEVERITY[severity], 1)] if finding.root_cause else []
    nodes = len({node_of(place) for place in finding.where})
    since = entry.spans[0][0]
    until = entry.spans[-1][1]
    for cause, weight, least in books.shows.get(finding.rule, default):
        if cause in (HEALTHY, UNKNOWN) or nodes < least:
            continue
        spec = books.causes.get(cause)
        part = spec.part if spec is not None else ""
        if finding.cause.startswith("leaf/") and part == "leaf":
            meant: tuple[str, ...] = (finding.cause,)
        elif finding.cause.startswith("rack/") and severity is not Severity.P2 and _of_racks(spec):
            # All of a rack have it, and it does harm there: more than the hint that each of them is.
            meant, weight = (finding.cause,), max(weight, _of_racks(spec))
        else:
            meant = tuple(dict.fromkeys(one for place in finding.where for one in places.part(place, part)))
        # What a finding quotes of a state that is as ever is no reason.
        facts = tuple(fact for fact in finding.evidence if not places.is_usual(fact))[:_MOST_FACTS] or (
            Fact(finding.summary, None, "", finding.where[0] if finding.where else "", iso(since), finding.rule),
        )
        yield Claim(
            cause,
            meant,
            weight,
            "finding",
            since,
            until,
            facts,
            rule=finding.rule,
            says=finding.summary,
            unfelt=spec is not None and finding.rule in spec.unfelt,
        )


def _of_racks(spec: CauseSpec | None) -> float:
    """Return what it weighs that many of one rack have a root cause, 0 where that means nothing of its own."""
    if spec is None:
        return 0.0
    own = [one.weight for one in spec.gathers if one.at == "rack" and one.root_cause == spec.root_cause]
    return max(own, default=0.0)


# ---- logs


def _of_log(heard: Heard, books: Playbooks, places: Places, cases: list[Case]) -> Iterator[Claim]:
    own = next((case for case in cases if heard.job and case.place == job_place(heard.job)), None)
    for number, verdict in enumerate((heard.verdict, *heard.alternatives)):
        cause = _meant(verdict, books)
        if cause in (HEALTHY, UNKNOWN):
            continue
        named = [_as_seen(culprit, heard.job, own, places) for culprit in verdict.culprits]
        meant = tuple(dict.fromkeys(p for c in named for p in of_culprit(c, cause, heard.job, books, places)))
        if not meant and cause in _VAGUE:
            continue
        weight = verdict.confidence * (_OF_LOG if number == 0 or not heard.job else _OF_ALTERNATIVE)
        spec = books.causes.get(cause)
        if not meant:
            if not heard.job:
                continue
            meant, weight = (job_place(heard.job),), weight * _WITHOUT_PLACE
        elif spec is not None and (spec.part == "job" or (spec.part == "rank" and _is_of_all(own))) and heard.job:
            meant = (job_place(heard.job),)
        yield Claim(
            cause,
            meant,
            weight,
            "log",
            _since(verdict),
            None,
            verdict.supports[:_MOST_FACTS],
            says=verdict.summary,
            signature=verdict.signature,
            job=heard.job,
            rank=next((c.rank for c in verdict.culprits if c.rank is not None), None),
        )


def _meant(verdict: LogVerdict, books: Playbooks) -> str:
    signature, said = verdict.signature or "", verdict.root_cause
    return books.heard.get((signature, said)) or books.heard.get((signature, "")) or said


def _as_seen(culprit: Culprit, job: str, case: Case | None, places: Places) -> Culprit:
    """Return a culprit of which a log tells only a number as the rank that was seen to end first, where the number is
    its place on its node: a launcher counts the ranks of its own node."""
    gone = case.values.get("rank_gone") if case is not None else None
    if culprit.rank is None or culprit.host or culprit.place or not isinstance(gone, tuple):
        return culprit
    if places.by_rank(job, culprit.rank) in gone:
        return culprit
    seen = next((place for place in gone if place.endswith(f"/gpu/{culprit.rank}")), "")
    return replace(culprit, rank=None, host=node_of(seen), place=seen) if seen else culprit


def _is_of_all(case: Case | None) -> bool:
    """Tell whether all ranks of a job ended as one: whose line comes first says nothing then."""
    return case is not None and bool(case.values.get("gone_together")) and case.values.get("stood", 0.0) == 0.0


def _since(verdict: LogVerdict) -> float | None:
    times = [at for at in (from_iso(fact.at) for fact in verdict.supports if fact.at) if at is not None]
    return min(times, default=None)


def of_culprit(culprit: Culprit, cause: str, job: str, books: Playbooks, places: Places) -> tuple[str, ...]:
    """Return the places that logs mean with who did it, in the form of the root cause's part; none is not known."""
    spec = books.causes.get(cause)
    part = spec.part if spec is not None else "node"
    place = culprit.place or culprit.host or ""
    if place and places.node(node_of(place)) is None:
        place = ""
    gpu = places.by_rank(job, culprit.rank) if culprit.rank is not None and job else ""
    # A number that no rank of that node has is its place on the node, or of another log: the node is what is known.
    is_there = not place or not gpu or node_of(gpu) == node_of(place)
    if culprit.rank is not None and job and is_there and (part in ("rank", "gpu") or not place):
        if part == "rank":
            return (f"job/{job}/rank/{culprit.rank}",)
        if gpu:
            place = gpu if part == "gpu" and place.count("/") < 2 else place or node_of(gpu)
    if part == "rank" and "/gpu/" not in place:
        # Which of its ranks it was, others tell.
        return ()
    return places.part(place, part, job) if place else ()


# ---- what ranks do together


def _of_pictures(case: Case, books: Playbooks, places: Places) -> Iterator[Claim]:
    for picture in books.pictures:
        if holds(picture.when, case) is not True:
            continue
        spec = books.causes.get(picture.root_cause)
        part = picture.part or (spec.part if spec is not None else "node")
        value = case.values.get(picture.at)
        found = value if isinstance(value, tuple) else (case.place,)
        job = case.job.id if case.job is not None else ""
        meant = tuple(dict.fromkeys(one for place in _whole(found, places) for one in places.part(place, part, job)))
        fact = case.evidence.get(picture.at) or case.evidence.get("trouble")
        facts = tuple(one for one in (fact, case.evidence.get("trouble")) if one is not None)
        yield Claim(
            picture.root_cause,
            meant,
            picture.weight,
            "picture",
            case.began.get(picture.at, case.since),
            None,
            tuple(dict.fromkeys(facts)),
            Severity(picture.severity) if picture.severity else None,
            picture.scope,
            picture.id,
            picture.says,
            job=job,
        )


def _ranks_whole(found: tuple[str, ...], places: Places) -> tuple[str, ...]:
    """Return ranks, or the node of those that are all ranks of one."""
    by_gpu = {places.by_rank(place.split("/")[1], int(place.rpartition("/")[2])): place for place in found}
    return tuple(by_gpu.get(place, place) for place in _whole(tuple(by_gpu), places)) if "" not in by_gpu else found


def _job_of_many(found: tuple[str, ...]) -> tuple[str, ...]:
    """Return ranks, or the job of so many that it is no single one."""
    jobs = {"/".join(place.split("/")[:2]) for place in found if "/rank/" in place}
    return tuple(jobs) if len(jobs) == 1 and len(found) > _MOST_RANKS else found


def _whole(found: tuple[str, ...], places: Places) -> tuple[str, ...]:
    """Return places with all GPUs of a node as the node."""
    kept: list[str] = []
    for place in found:
        node = places.node(node_of(place))
        if node is not None and "/gpu/" in place and len(node.gpus) > 1:
            own = [one for one in found if one.startswith(f"{node.name}/gpu/")]
            if len(own) >= max(2, (3 * len(node.gpus)) // 4):
                kept.append(node.name)
                continue
        kept.append(place)
    return tuple(dict.fromkeys(kept))


# ---- what tools print


def _of_measured(measured: Measured, books: Playbooks, places: Places, cases: list[Case]) -> Iterator[Claim]:
    for sign in books.signs:
        if measured.probe not in sign.probe:
            continue
        matches = list(islice(books.patterns[sign.id].finditer(measured.text), _MOST_MATCHES))
        matches = [one for one in matches if _is_recent(_told_at(one), measured.at)]
        if not matches:
            continue
        found = matches[0]
        where = tuple(dict.fromkeys(_place_of(sign, measured, one, places, cases) for one in matches))
        if sign.part.startswith("rank/"):
            where = _job_of_many(_ranks_whole(where, places))
        says = _filled(sign.says, found, where[0])
        # Tools set values in columns: their blanks say nothing.
        line = " ".join(found.group(0).split())[:160]
        fact = Fact(says, line, "", where[0], iso(measured.at), measured.probe)
        for number, cause in enumerate(sign.shows):
            spec = books.causes.get(cause)
            if spec is not None and not sign.part.startswith(("rank/", "job")):
                meant = tuple(dict.fromkeys(one for place in where for one in places.part(place, spec.part)))
            else:
                meant = where
            yield Claim(
                cause, meant or where, sign.weight * 0.6**number, "measured", _told_at(found), None, (fact,),
                rule=sign.id, says=says, against=tuple(sign.rules_out),
            )  # fmt: skip
        if not sign.shows:
            yield Claim("", where, 0.0, "measured", None, None, (fact,), rule=sign.id, says=says,
                        against=tuple(sign.rules_out))  # fmt: skip


def _is_recent(at: float | None, now: float) -> bool:
    return at is None or at > now - _RECENT_S


def _told_at(found: re.Match[str]) -> float | None:
    """Return the time that a line says itself, in groups `date` (month/day/year) and `time`."""
    groups = found.groupdict()
    if not groups.get("date") or not groups.get("time"):
        return None
    month, day, year = groups["date"].split("/")
    try:
        return from_iso(f"{year}-{month}-{day}T{groups['time']}Z")
    except ValueError:
        return None


def _place_of(sign: SignSpec, measured: Measured, found: re.Match[str], places: Places, cases: list[Case]) -> str:
    if not sign.part:
        return measured.place
    part = _filled(sign.part, found, measured.place)
    if part.startswith("rank/"):
        job = measured.place if measured.place.startswith("job/") else ""
        if not job:
            job = next((case.place for case in cases if node_of(measured.place) in case.nodes), "")
        return f"{'/'.join(job.split('/')[:2])}/{part}"
    if part == "job":
        job = measured.place if measured.place.startswith("job/") else ""
        return job or next((case.place for case in cases if node_of(measured.place) in case.nodes), measured.place)
    if part.startswith("@"):
        return part[1:]
    return f"{node_of(measured.place)}/{part}" if part != "node" else node_of(measured.place)


def _filled(text: str, found: re.Match[str], place: str) -> str:
    for name, value in found.groupdict().items():
        text = text.replace("{" + name + "}", value or "")
    return text.replace("{place}", place).replace("{node}", node_of(place))


# ---- what many have at once


def gathered(claims: Sequence[Claim], books: Playbooks, places: Places) -> Iterator[Claim]:
    """Yield what parts that have something at once have in common: a leaf, a rack, a node."""
    for cause in books.causes.values():
        for gathers in cause.gathers:
            own = [claim for claim in claims if claim.cause == cause.root_cause and claim.source in ("finding", "log")]
            groups: dict[str, dict[str, Claim]] = {}
            for claim in own:
                for place in claim.places:
                    shared = _shared(place, gathers.at, places)
                    if shared:
                        groups.setdefault(shared, {}).setdefault(place, claim)
            for shared in sorted(groups):
                parts = groups[shared]
                nodes = {node_of(place) for place in parts}
                times = sorted(claim.since for claim in parts.values() if claim.since is not None)
                near = [at for at in times if at <= times[0] + _SAME_MOMENT_S] if times else []
                if len(parts) < gathers.least or len(nodes) < gathers.nodes:
                    continue
                surest = max(claim.weight for claim in parts.values())
                if surest < HINT or (gathers.at == "leaf" and len(near) < gathers.least):
                    continue
                first = min(parts.values(), key=_key)
                weight = gathers.weight * min(1.0, surest / _FIRM)
                fact = Fact(
                    f"{len(parts)} parts on {len(nodes)} node{'s' if len(nodes) > 1 else ''} have it at once",
                    len(parts), "one", shared, iso(times[0]) if times else "", first.rule or first.source,
                )  # fmt: skip
                yield Claim(
                    gathers.root_cause, (shared,), weight, "finding", times[0] if times else None, None,
                    (fact, *first.facts[:2]), rule=first.rule, says=first.says, signature=first.signature,
                )  # fmt: skip


def _shared(place: str, at: str, places: Places) -> str:
    if at == "leaf":
        return place if place.startswith("leaf/") else places.leaf(place)
    if at == "rack":
        rack = places.rack(place)
        return f"rack/{rack}" if rack else ""
    return node_of(place) if places.node(node_of(place)) is not None else ""
