"""Incidents: what happened in a night, what was done and what fixed it; and what looks like what is happening now."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stethoscope.model.finding import Severity

SCHEMA = "stethoscope.incident/1"


class Status(StrEnum):
    """How far it is."""

    OPEN = "open"
    MITIGATED = "mitigated"
    RESOLVED = "resolved"
    REFERENCE = "reference"
    """Not a night of this fleet: a well-known kind of incident, never counted."""


@dataclass(frozen=True, slots=True)
class Times:
    """When what happened, wall seconds; None where nobody knows."""

    began: float | None = None
    """The fault itself, as far as findings or logs tell."""
    detected: float | None = None
    """The first finding, or when somebody was called."""
    located: float | None = None
    """The verdict: place and cause were known."""
    mitigated: float | None = None
    """The work went on."""
    resolved: float | None = None
    """What was broken is whole again."""
    recorded: float | None = None
    """When this was written down."""


@dataclass(frozen=True, slots=True)
class Link:
    """How it hangs together with another one, or with something outside."""

    how: str
    """`same_as`, `caused_by`, `follows`, `related`, `ticket`, `commit`, `url`."""
    to: str
    """Id of an incident, or text."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident as its file holds it; what the file says beside these fields is kept in `extra`."""

    id: str
    """`INC-2026-03-14-k7qmx`: the day (UTC) it began, and five random letters that two engineers do not share."""
    title: str
    status: Status = Status.OPEN
    severity: Severity = Severity.P1
    root_cause: str = ""
    """Id of root_causes.yaml; empty while nobody knows."""
    component: str = ""
    """What was broken in the words of COMPONENTS: gpu, nvlink, pcie, nic, optic, switch, disk ..."""
    fleet: str = ""
    times: Times = field(default_factory=Times)
    nodes: str = ""
    """Folded node set: `gpu-[003,007-009]`."""
    places: tuple[str, ...] = ()
    """The culprits: `gpu-014/gpu/3`, `gpu-007/ib/mlx5_3`, `leaf/leaf-01`, `storage/lustre`."""
    around: tuple[str, ...] = ()
    """Where the places hang: `leaf/leaf-01`, `rack/r3`, `pod/a`."""
    job: str = ""
    symptoms: tuple[str, ...] = ()
    """What was seen: ids of signatures (`xid.79`, `nccl.timeout`) and of rules (`ib_symbol_errors`)."""
    confidence: float | None = None
    """Of the verdict that it was recorded from, 0 to 1."""
    resolution: str = ""
    """What fixed it, in the engineer's own words and language."""
    tags: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    author: str = ""
    redacted: int = 0
    """How many secrets were taken out of its text when it was recorded."""
    body: str = ""
    """Markdown below the front matter: `## Evidence`, `## Path`, `## What was done`, `## Prevention`, or free text."""
    extra: tuple[tuple[str, Any], ...] = ()
    """Keys of the front matter that this version does not know, in their order."""

    @property
    def is_reference(self) -> bool:
        """Tell whether it is a well-known kind, and no night of this fleet."""
        return self.status is Status.REFERENCE

    @property
    def at(self) -> float | None:
        """Return when it was, wall seconds, by the first of its times that is known."""
        times = self.times
        known = (times.began, times.detected, times.located, times.mitigated, times.resolved, times.recorded)
        return next((at for at in known if at is not None), None)


COMPONENTS = (
    "gpu", "gpu_memory", "nvlink", "pcie", "nic", "optic", "cable", "switch", "fabric", "cpu", "memory", "disk",
    "storage", "network", "power", "cooling", "node", "driver", "firmware", "software", "data", "scheduler",
)  # fmt: skip
"""Words for what was broken; another word in a file is kept, and said by `kb list --troubles`."""


NO_NODES = frozenset((
    "job", "leaf", "spine", "switch", "rail", "fabric", "rack", "pod", "row", "storage", "fleet",
))  # fmt: skip
"""First parts of places that are on no node."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A file of the directory that could not be read, or says something odd; it costs only itself."""

    path: str
    """Below the directory."""
    line: int
    """From 1; 0 where no line is meant."""
    message: str


@dataclass(frozen=True, slots=True)
class Clues:
    """What is known of something that happens now, to be compared with the past."""

    symptoms: tuple[str, ...] = ()
    """Ids of signatures and rules, as in `Incident.symptoms`."""
    root_causes: tuple[str, ...] = ()
    """The likeliest first."""
    places: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    job: str = ""
    fleet: str = ""
    component: str = ""
    """A word of COMPONENTS, where it is known."""
    text: str = ""
    """Words: summary, messages; compared last and least."""
    but: str = ""
    """Id of the incident that is asked about, which is not like itself."""


@dataclass(frozen=True, slots=True)
class Match:
    """An incident of the past that looks like what happens now."""

    incident: Incident
    score: float
    """0 to 1; what is below `analysis.incident_similar.LEAST` is not shown."""
    reasons: tuple[str, ...]
    """Why, the strongest first: `same Xid on the same GPU`, `same leaf`."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contracts."""
        one = self.incident
        return {
            "id": one.id,
            "title": one.title,
            "status": one.status.value,
            "root_cause": one.root_cause or None,
            "score": round(self.score, 3),
            "reasons": list(self.reasons),
            "fixed_by": one.resolution or None,
        }


@dataclass(frozen=True, slots=True)
class Lemon:
    """A part that keeps coming back."""

    place: str
    """The node or the part: `gpu-014`, `gpu-014/gpu/3`."""
    count: int
    days: float
    """Days from the first of these to the last."""
    incidents: tuple[str, ...]
    """Their ids, the latest first."""
    advice: str
    """What to do: `RMA: Xid 48 twice on this GPU`."""


@dataclass(frozen=True, slots=True)
class LemonLimits:
    """From when on a part or a node keeps coming back."""

    signs: tuple[str, ...] = (
        "xid.48", "xid.64", "xid.74", "xid.79", "xid.94", "xid.95", "xid.140", "gpu_lost", "gpu_ecc_uncorrected",
        "gpu_row_remap_failed", "nvlink_failed",
    )  # fmt: skip
    """One of these again on one GPU means that the GPU goes back to its maker."""
    sign_times: int = 2
    sign_days: float = 90.0
    part_times: int = 3
    """So often the same hardware cause on one part, a port or a disk too."""
    part_days: float = 90.0
    node_times: int = 3
    """So often anything of its hardware on one node."""
    node_days: float = 30.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer to a search."""

    incident: Incident
    score: float
    """Higher is better; of no meaning outside of one search."""
    snippet: str = ""
    """Text around the words; what fits stands between HIT and END."""


HIT, END = "\x02", "\x03"
"""Marks around what fits in a snippet; both are taken out of every text that is indexed."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found."""

    hits: tuple[Hit, ...]
    total: int
    seconds: float
    suggestion: str = ""
    """The query with its typing mistakes mended, where that finds more."""
    notes: tuple[str, ...] = ()
    """What of the query was not understood, in words: `no field "sev": did you mean severity?`"""
