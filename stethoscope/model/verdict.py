"""What the diagnosis reads, and what it says: a scene; one verdict with its evidence, and at most two alternatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stethoscope.model import logs
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, Log, LogVerdict
from stethoscope.model.report import Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.night import Entry
    from stethoscope.model.scheduler import Job

SCHEMA = "stethoscope.triage/1"
HEALTHY, UNKNOWN = logs.HEALTHY, logs.UNKNOWN
"""The two root causes that name none."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one on-demand probe said at one place."""

    place: str
    probe: str
    at: float
    """Wall seconds of its end."""
    text: str
    """As it was printed, cleaned."""
    items: tuple[Item, ...] = ()
    """Values that the parser of the tool read."""
    status: str = "ok"
    """How it went, as `session.probe_result.Status` says it."""

    @property
    def answered(self) -> bool:
        """Tell whether it gave anything."""
        return self.status == "ok" or bool(self.items)


@dataclass(frozen=True, slots=True)
class Heard:
    """What the logs say: events of kernel and job logs together, and the verdict over them."""

    log: Log
    verdict: LogVerdict
    alternatives: tuple[LogVerdict, ...] = ()
    job: str = ""
    """Id of the job whose log it is; empty for the kernel logs of the fleet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was noticed about one place while somebody looked: values that came, and went again."""

    what: str
    """One of the names of analysis/triage_watch: `stopped`, `gone_first`, `traffic_flat` ..."""
    place: str
    at: float
    """Wall seconds at which it began."""
    until: float | None = None
    """When it was over; None while it lasts."""
    value: int | float | str | None = None
    expected: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the diagnosis may read, at one moment."""

    now_s: float
    """Wall seconds."""
    snapshot: FleetSnapshot
    entries: tuple[Entry, ...] = ()
    """The night's list, active and cleared."""
    logs: tuple[Heard, ...] = ()
    """What was found in logs: in each job's with the kernel lines of its nodes, then in all kernel logs."""
    jobs: tuple[Job, ...] = ()
    """Every job that was known while somebody looked; those that have ended as they were known last."""
    measured: tuple[Measured, ...] = ()
    focus: str = ""
    """What is asked about: `job/4242`, `gpu-007`, `gpu-007/ib/mlx5_3`; empty for the fleet."""
    seen: tuple[Seen, ...] = ()
    watched_since: float | None = None
    """Wall seconds at which one began to watch the nodes, None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A measurement that would settle something."""

    place: str
    probe: str
    """Id of an on-demand probe; of one that this console cannot run, the name of the tool."""
    settles: str
    """What its answer decides, in plain words."""
    command: str = ""
    """What a person would type."""
    for_cause: str = ""
    """The root cause that it confirms or rules out."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """V of the contract: what happened, to whom, how bad it is, and why that is believed."""

    root_cause: str
    confidence: float
    severity: Severity
    summary: str
    """One plain sentence."""
    culprits: tuple[Culprit, ...] = ()
    supports: tuple[Fact, ...] = ()
    contradicts: tuple[Fact, ...] = ()
    rules_out: tuple[tuple[str, str], ...] = ()
    """Look-alike causes, and what speaks against each."""
    next_checks: tuple[str, ...] = ()
    signature: str | None = None
    """Of its first event in a log."""
    affected: tuple[str, ...] = ()
    """Jobs and nodes that suffer from it."""
    since: float | None = None
    """Wall seconds at which it began, as far as is known."""

    @property
    def places(self) -> tuple[str, ...]:
        """Return the places of the culprits."""
        return tuple(culprit.place for culprit in self.culprits if culprit.place)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        return {
            "root_cause": self.root_cause,
            "signature": self.signature,
            "confidence": round(self.confidence, 3),
            "severity": self.severity.value,
            "culprits": [
                {"place": one.place, "rank": one.rank, "host": one.host, "device": one.device} for one in self.culprits
            ],
            "summary": self.summary,
            "supports": [fact.as_json() for fact in self.supports],
            "contradicts": [fact.as_json() for fact in self.contradicts],
            "rules_out": [{"root_cause": cause, "because": why} for cause, why in self.rules_out],
            "next_checks": list(self.next_checks),
            "affected": list(self.affected),
        }


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a flow, and how it was answered."""

    step: str
    question: str
    answer: str
    by: str = "auto"
    evidence: tuple[Fact, ...] = ()
    confidence: float = 1.0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        return {
            "step": self.step,
            "question": self.question,
            "answer": self.answer,
            "by": self.by,
            "confidence": round(self.confidence, 3),
            "evidence": [fact.as_json() for fact in self.evidence],
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the diagnosis says about a scene."""

    scope: str
    """`global`, `local`, `none` or `unknown`, at the level of the ranks of a job."""
    layer: str
    verdict: Verdict
    alternatives: tuple[Verdict, ...] = ()
    path: tuple[PathStep, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    """Measurements that would settle it, the one that settles most first."""
    actions: tuple[str, ...] = ()
    """What is safe to do now, the first thing first."""
    also: tuple[Verdict, ...] = ()
    """What else is wrong, and not the reason: planned work."""
    similar: tuple[Mapping[str, Any], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        return {
            "schema": SCHEMA,
            "scope": self.scope,
            "layer": self.layer,
            "verdict": self.verdict.as_json(),
            "alternatives": [one.as_json() for one in self.alternatives],
            "also": [one.as_json() for one in self.also],
            "path": [step.as_json() for step in self.path],
            "wanted": [
                {
                    "place": one.place,
                    "probe": one.probe,
                    "settles": one.settles,
                    "command": one.command,
                    "root_cause": one.for_cause or None,
                }
                for one in self.wanted
            ],
            "similar": [dict(one) for one in self.similar],
            "actions": list(self.actions),
        }
