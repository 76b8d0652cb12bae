"""What happened to one job, as facts that playbooks ask for; each is known, or it is not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.clock import iso
from stethoscope.model.finding import Fact
from stethoscope.model.ids import job_place, node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.analysis.triage_places import Places
    from stethoscope.model.job import Standing
    from stethoscope.model.scheduler import Job
    from stethoscope.model.verdict import Heard, Scene, Seen
    from stethoscope.specs.playbook import WhenSpec

Value = str | float | bool | tuple[str, ...]

NONE, SLOWER, STOPPED, ENDED = "none", "slower", "stopped", "ended"
_RANKS = (
    "late_host",
    "late_busy",
    "rank_idle",
    "rank_busy",
    "rank_gone",
    "rank_blind",
    "unreachable_alive",
    "ports_idle",
    "leaf_waits",
    "leaf_foreign",
    "held_back",
    "disk_slow",
)
_FLAGS = ("gone_together", "late_nobody", "all_starve", "stand_alike", "traffic_elsewhere", "loss_spikes")
_SURE = 0.9
_FEW_RANKS = 3
"""More ranks of one node that are gone may be the neighbours of one that fell silent."""
_FIRST_S = 120.0
"""A rank whose end stops its job is gone at most so long after that."""


@dataclass(slots=True)
class Case:
    """One job, or the fleet where it has none."""

    place: str
    """`job/4242`; empty for what belongs to no job."""
    job: Job | None = None
    nodes: frozenset[str] = frozenset()
    values: dict[str, Value] = field(default_factory=dict)
    evidence: dict[str, Fact] = field(default_factory=dict)
    """Fact -> how it was seen."""
    rules: frozenset[str] = frozenset()
    """Rules that found something on its nodes."""
    events: frozenset[str] = frozenset()
    """Signatures that stand in its logs."""
    since: float | None = None
    """When its trouble began."""
    began: dict[str, float] = field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """Return what the job does: none, slower, stopped or ended."""
        return str(self.values.get("trouble", NONE))

    @property
    def is_known(self) -> bool:
        """Tell whether anything says how the job goes."""
        return "phase" in self.values or self.trouble != NONE

    @property
    def is_odd(self) -> bool:
        """Tell whether its loss jumps, whatever its speed is."""
        return bool(self.values.get("loss_spikes")) or "job_loss_jumps" in self.rules

    @property
    def left_first(self) -> str:
        """Return the node of the rank or the few ranks that ended before all others while all could be read, empty
        where that is not known: whatever ended the job is there."""
        gone = self.values.get("rank_gone")
        if not isinstance(gone, tuple) or "rank_blind" in self.values or len(gone) > _FEW_RANKS:
            return ""
        nodes = {node_of(place) for place in gone}
        return nodes.pop() if len(nodes) == 1 else ""

    @property
    def lost(self) -> float:
        """Return the percent of throughput that it has lost."""
        lost = self.values.get("lost", 0.0)
        return float(lost) if isinstance(lost, (int, float)) else 0.0


def cases_of(scene: Scene, places: Places) -> list[Case]:
    """Return every job of the scene as a case, the one in the worst trouble first."""
    seen: dict[str, list[Seen]] = {}
    for one in scene.seen:
        seen.setdefault(one.place, []).append(one)
    heard = {one.job: one for one in scene.logs if one.job}
    cases = [_case(job, scene, places, seen, heard.get(job.id)) for job in places.jobs]
    order = {ENDED: 0, STOPPED: 1, SLOWER: 2, NONE: 3}
    return sorted(cases, key=lambda case: (order[case.trouble], -case.lost, case.place))


def _case(job: Job, scene: Scene, places: Places, seen: Mapping[str, list[Seen]], heard: Heard | None) -> Case:
    place = job_place(job.id)
    case = Case(place, job, places.nodes_of(job))
    leaves = places.leaves(job)
    here = [one for where, ones in seen.items() if node_of(where) in case.nodes or where in leaves for one in ones]
    for what in _RANKS:
        found = [one for one in here if one.what == what]
        if found:
            case.values[what] = tuple(sorted((one.place for one in found), key=places.order))
            case.evidence[what] = _fact(what, found)
            case.began[what] = min(one.at for one in found)
    own = {one.what: one for one in seen.get(place, ())}
    for what in _FLAGS:
        if what in own:
            case.values[what] = True
            case.evidence[what] = _fact(what, [own[what]])
            case.began[what] = own[what].at
    _of_log(case, scene, heard)
    _trouble(case, own, heard)
    case.rules = frozenset(
        entry.finding.rule
        for entry in scene.entries
        if any(where == place or where.partition("/")[0] in case.nodes for where in entry.finding.where)
    )
    return case


def _of_log(case: Case, scene: Scene, heard: Heard | None) -> None:
    if heard is not None:
        case.events = frozenset(event.signature for event in heard.log.events)
    standing = scene.snapshot.standings.get(case.job.id) if case.job is not None else None
    if standing is None:
        return
    values = standing.values
    case.values["phase"] = standing.phase
    if "job_loss_state" in values:
        case.values["loss_odd"] = values["job_loss_state"] > 0
    if "job_data_share" in values:
        case.values["data_share"] = round(100.0 * values["job_data_share"], 1)
    lost = _lost_to_data(standing)
    if lost is not None:
        case.values["data_of_loss"] = lost
    if standing.phase == "checkpoint" and standing.phase_since is not None:
        case.values["saving_since"] = standing.phase_since
    if "job_checkpoint_ratio" in values:
        case.values["checkpoint_slow"] = values["job_checkpoint_ratio"]
    case.values["never_stepped"] = standing.last is None and standing.log.lines > 0


def _lost_to_data(standing: Standing) -> float | None:
    """Return how many percent of what a step takes longer than before wait for data, None where nobody tells."""
    share, took = standing.values.get("job_data_share"), standing.values.get("job_step_time")
    before, usual = standing.usual.get("job_data_share"), standing.usual.get("job_step_time")
    if share is None or took is None or before is None or usual is None or took <= usual:
        return None
    return round(100.0 * (share * took - before * usual) / (took - usual), 1)


def _trouble(case: Case, own: Mapping[str, Seen], heard: Heard | None) -> None:
    slow, stopped, ended = own.get("job_slow"), own.get("job_stopped"), own.get("job_ended")
    trouble, since, fact = NONE, None, None
    if slow is not None:
        trouble, since, fact = SLOWER, slow.at, slow
        case.values["lost"] = float(slow.value) if isinstance(slow.value, (int, float)) else 0.0
    if stopped is not None and (stopped.until is None or ended is not None):
        trouble, since, fact = STOPPED, stopped.at, stopped
    if ended is not None and heard is not None and not _ended_well(heard):
        trouble, fact = ENDED, ended
        since = stopped.at if stopped is not None else min(case.began.get("rank_gone", ended.at), ended.at)
    stood_s = 0.0 if stopped is None or ended is None else max(0.0, ended.at - stopped.at)
    case.values["stood"] = stood_s
    if stopped is not None and case.began.get("rank_gone", 0.0) > stopped.at + _FIRST_S:
        # The watchdog ended what stood: who goes first then tells nothing.
        case.values.pop("rank_gone", None)
        case.evidence.pop("rank_gone", None)
    case.values["trouble"] = trouble
    case.since = since
    if fact is not None:
        case.evidence["trouble"] = _fact(fact.what, [fact])


def _ended_well(heard: Heard) -> bool:
    """Tell whether a job's log says that it came to its end."""
    return heard.verdict.root_cause == "healthy" and heard.verdict.confidence >= _SURE


_WORDS = {
    "late_host": "busy, less than the ranks that wait for it",
    "late_busy": "power against its own before, while the others wait",
    "rank_idle": "does nothing while the others stand in a collective",
    "rank_busy": "works while the others wait on the host",
    "rank_gone": "gave its memory back before the others",
    "gone_together": "most ranks ended at the same moment",
    "rank_blind": "cannot be read",
    "unreachable_alive": "cannot be reached while its job goes on",
    "ports_idle": "sends nothing while its sisters work",
    "leaf_waits": "its ports wait to send, times as long as those of other leaves",
    "leaf_foreign": "somebody else sends through it, times as much as the job",
    "loss_spikes": "jumps of the loss that came back",
    "disk_slow": "ms for a request",
    "held_back": "MHz, while the others run faster",
    "late_nobody": "no rank is late: all draw as much power as the others, in % of before",
    "all_starve": "all ranks are less busy than before",
    "stand_alike": "the job stands, no rank is the odd one out",
    "traffic_elsewhere": "traffic of the fabric ports, in % of before, while the job steps",
    "job_slow": "throughput lost, %",
    "job_stopped": "the job stands",
    "job_ended": "the job ended",
}


def _fact(what: str, found: Iterable[Seen]) -> Fact:
    ordered = sorted(found, key=lambda one: (one.at, one.place))
    first = ordered[0]
    more = f" and {len(ordered) - 1} more" if len(ordered) > 1 else ""
    value = first.value
    return Fact(_WORDS.get(what, what), value, first.expected, first.place + more, iso(first.at), "seen")


def holds(when: WhenSpec, case: Case) -> bool | None:
    """Return whether a condition holds for a case; None when what it asks for is not known."""
    if when.all:
        return _all([holds(each, case) for each in when.all])
    if when.any:
        answers = [holds(each, case) for each in when.any]
        return True if True in answers else None if None in answers else False
    if when.none is not None:
        answer = holds(when.none, case)
        return None if answer is None else not answer
    if when.finding:
        return not case.rules.isdisjoint(when.finding)
    if when.event:
        return any(event.startswith(begin) for event in case.events for begin in when.event)
    value = case.values.get(when.fact)
    if value is None:
        # What was looked for and not seen is not there; numbers that nobody said are unknown.
        return False if when.over is None and when.under is None and when.equals is None and not when.one_of else None
    if when.over is not None or when.under is not None:
        number = len(value) if isinstance(value, tuple) else value
        if not isinstance(number, (int, float)):
            return None
        return (when.over is None or number > when.over) and (when.under is None or number < when.under)
    if when.one_of:
        return str(value) in when.one_of
    if when.equals is not None:
        return value == when.equals
    return bool(value)


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True
