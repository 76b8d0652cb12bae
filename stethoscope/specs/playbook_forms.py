"""The forms of the triage playbooks: what stands in the files, field by field."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from stethoscope.specs.load import Spec

Part = Literal["gpu", "port", "nvlink", "disk", "cpu", "node", "rack", "leaf", "storage", "rank", "job"]
Does = Literal["stops", "slows", "starves", "diverges", "none"]
Level = Literal["P0", "P1", "P2", "none"]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]

FACTS: dict[str, str] = {
    "trouble": "what the job does: none, slower, stopped, ended",
    "lost": "percent of throughput that the job has lost against its own past",
    "phase": "what the job's log says that it does beside its steps: checkpoint, evaluation, initial",
    "loss_odd": "the loss is NaN or diverges",
    "loss_spikes": "the loss jumps for single steps again and again",
    "late_host": "ranks that the others wait for and that are less busy: no kernel of theirs runs",
    "late_busy": "ranks that the others wait for and that are busy",
    "disk_slow": "disks that answer far later than the same ones of the other nodes",
    "held_back": "GPUs whose clock is far below that of the others",
    "late_nobody": "the job is slower and no rank is late",
    "all_starve": "all ranks are less busy than before and draw less power",
    "rank_idle": "ranks that do nothing while the others stand in a collective",
    "rank_busy": "ranks that work while the others wait on the host",
    "rank_gone": "ranks whose memory was given back first",
    "gone_together": "most ranks ended at the same moment: none was the first",
    "rank_blind": "ranks of which nothing can be read",
    "stand_alike": "the job stands and no rank is the odd one out",
    "stood": "seconds that the job stood before it ended",
    "traffic_elsewhere": "the job steps and its fabric ports carry nothing",
    "ports_idle": "ports that carry nothing while their sisters work",
    "leaf_waits": "leaves behind which the job's ports wait longer than behind others",
    "leaf_foreign": "leaves through which somebody else sends much",
    "unreachable_alive": "nodes that cannot be reached and whose job goes on",
    "never_stepped": "the job runs and no step ever came",
    "saving_since": "a save began before the trouble and no line says that it ended",
    "data_share": "percent of the step that waits for data, as the job's log says",
    "data_of_loss": "percent of what a step takes longer than before that wait for data, as the job's log says",
    "checkpoint_slow": "the last checkpoint took so many times as long as those before",
    "answered": "a measurement gave an answer",
    "layer": "layer of what is found so far",
    "cause": "root cause of what is found so far",
    "scope": "whom what is found so far hits: global, all ranks alike; local, some",
}
"""What conditions may ask, and what it means."""


class WhenSpec(Spec, frozen=True, rename={"none": "not", "equals": "is"}):
    """A condition: one of fact, finding, event, all, any, not."""

    fact: str = ""
    equals: str | float | bool | None = None
    one_of: list[str] = msgspec.field(default_factory=list)
    over: float | None = None
    under: float | None = None
    finding: list[str] = msgspec.field(default_factory=list)
    """Ids of rules; true when one of them was found on the job's nodes."""
    event: list[str] = msgspec.field(default_factory=list)
    """Beginnings of ids of log signatures; true when one stands in the job's logs."""
    all: list[WhenSpec] = msgspec.field(default_factory=list)
    any: list[WhenSpec] = msgspec.field(default_factory=list)
    none: WhenSpec | None = None


class ShownSpec(Spec, frozen=True):
    """Findings that show a root cause."""

    rules: list[str]
    weight: Weight
    nodes: int = 1
    """On how many nodes one of them has to be."""


class FollowsSpec(Spec, frozen=True):
    """What follows from a root cause, and how far away."""

    causes: list[str]
    at: Literal["part", "node", "rack", "job", "all"]


class GathersSpec(Spec, frozen=True):
    """When so many of one node, rack or leaf have it within two minutes, it is another one."""

    root_cause: str
    at: Literal["node", "rack", "leaf"]
    least: int
    weight: Weight
    nodes: int = 1
    """On so many nodes at least."""


class UnlikeSpec(Spec, frozen=True):
    """A look-alike."""

    root_cause: str
    because: str


class SettledSpec(Spec, frozen=True):
    """A measurement that settles it."""

    probe: str
    at: Literal["part", "node", "any_node", "job", "job_nodes"]
    settles: str
    command: str = ""


class SeveritySpec(Spec, frozen=True):
    """How urgent it is by what a job does from it."""

    stopped: Level
    slower: Level
    little: Level
    none: Level


class CauseSpec(Spec, frozen=True):
    """What is known of one root cause."""

    root_cause: str
    part: Part
    scope: Literal["global", "local", "felt"]
    job: list[Does]
    severity: SeveritySpec
    seen_within: float = 90.0
    """Seconds that may pass between its beginning and the moment at which it is seen."""
    whole: int = 0
    """When so many parts of a node have it, the node is the culprit; 0 for never."""
    shown_by: list[ShownSpec] = msgspec.field(default_factory=list)
    felt_with: list[str] = msgspec.field(default_factory=list)
    """Facts whose places on its node or in its rack show that the job feels it."""
    felt_by: list[str] = msgspec.field(default_factory=list)
    """Rules that every job on it feels, also when its pace on average does not show it."""
    stops_by: list[str] = msgspec.field(default_factory=list)
    """Rules after which no rank that uses it goes on, whatever is seen of its job so far."""
    unfelt: list[str] = msgspec.field(default_factory=list)
    """Rules that no job feels: alone they never explain that one is slow."""
    gathers: list[GathersSpec] = msgspec.field(default_factory=list)
    """What it is when many have it at once."""
    explains: list[FollowsSpec] = msgspec.field(default_factory=list)
    unlike: list[UnlikeSpec] = msgspec.field(default_factory=list)
    settled_by: list[SettledSpec] = msgspec.field(default_factory=list)
    now: str = ""
    then: str = ""


class PictureSpec(Spec, frozen=True):
    """What ranks do together, and what that means."""

    id: str
    root_cause: str
    when: WhenSpec
    at: str
    """The fact whose places are the culprits, or `job`."""
    weight: Weight
    says: str
    part: Part | Literal[""] = ""
    """The culprit's form, where it is not that of the cause."""
    scope: Literal["global", "local", ""] = ""
    severity: Level | Literal[""] = ""
    """Where the picture decides it."""
    holds: list[dict[str, str | float | bool | list[str]]] = msgspec.field(default_factory=list)
    """Facts with which it must hold, and ..."""
    fails: list[dict[str, str | float | bool | list[str]]] = msgspec.field(default_factory=list)
    """... with which it must not."""


class SignSpec(Spec, frozen=True):
    """What a line in the output of a tool means; `finds` and `leaves` are samples that it must and must not find."""

    id: str
    probe: list[str]
    find: str
    says: str
    shows: list[str] = msgspec.field(default_factory=list)
    """Root causes, the likeliest first."""
    weight: Weight = 0.8
    part: str = ""
    """The culprit, with groups of the expression: `ib/{device}` on the node, `rank/{rank}` of the job; empty for the
    place that was measured."""
    rules_out: list[str] = msgspec.field(default_factory=list)
    finds: list[str] = msgspec.field(default_factory=list)
    leaves: list[str] = msgspec.field(default_factory=list)


class HeardSpec(Spec, frozen=True):
    """What a verdict over logs with this signature means to who sees the whole job."""

    signature: str
    root_cause: str
    was: str = ""
    """Only where the verdict says this root cause; empty for whatever it says."""


class RightSpec(Spec, frozen=True):
    """How often verdicts that rest on so much evidence were right, measured on drills."""

    evidence: Weight
    right: Weight


class AnswerSpec(Spec, frozen=True):
    """One answer of a step, and where it leads."""

    answer: str
    when: WhenSpec | None = None
    """None for the answer that holds when no other does."""
    then: str = ""
    causes: list[str] = msgspec.field(default_factory=list)


class StepSpec(Spec, frozen=True):
    """One question."""

    id: str
    question: str
    answers: list[AnswerSpec]
    measure: list[str] = msgspec.field(default_factory=list)
    """Probes that help when facts are not enough."""
    else_then: str = ""
    """Where it goes on when it cannot be told."""


class FlowCaseSpec(Spec, frozen=True):
    """Facts, and the answers that they must lead to."""

    name: str
    facts: dict[str, str | float | bool | list[str]]
    answers: list[str]


class FlowSpec(Spec, frozen=True):
    """One flow."""

    id: str
    title: str
    starts: list[WhenSpec]
    steps: list[StepSpec]
    order: int = 50
    """Flows are tried in this order."""
    cases: list[FlowCaseSpec] = msgspec.field(default_factory=list)
