"""Candidates for the cause of a failure: how they are weighed, what explains what, and which one comes first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_scene import before, of_kernel
from stethoscope.model.logs import Culprit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.analysis.judge_scene import Clue, Scene
    from stethoscope.model.finding import Severity

MOST_CULPRITS = 4
"""Naming everybody names nobody."""
NODE_DECLARED_AFTER_S = 900.0
"""A scheduler declares a node dead minutes after it fell silent; NCCL notices within seconds."""
ZONE_STEP_S = 1800.0
"""Offsets of time zones are multiples of it."""
TOGETHER_S = 3.0
"""Lines of different ranks this close have no order that can be trusted."""

STRONG, FAINT = 0.6, 0.3
"""From here evidence proves a cause by itself; below here it is only a hint."""
DIRECT, INFERRED, SYMPTOM = 0, 1, 2
"""How a candidate was found: it said so itself; it follows from what others say; it is only where others stopped."""

_KILLS_PROCESS = {"peer_process_died", "data_loading", "collective_mismatch_desync", "timeout_too_short", "unknown"}
_EXPLAINS: dict[str, set[str]] = {
    "shm_too_small": {"data_loading", "host_oom", "storage_io", "resource_limits"},
    "host_oom": {"data_loading", "ckpt_io", "shm_too_small", "cuda_app_bug"},
    "pcie_fault": {"gpu_fallen_off_bus", "gpu_hw_fault", "nic_fault", "cuda_app_bug"},
    "gpu_fallen_off_bus": {"cuda_app_bug", "gpu_hw_fault", "config_env_error", "nvlink_fault"},
    "gpu_memory_fault": {"cuda_app_bug", "gpu_hw_fault"},
    "gpu_hw_fault": {"cuda_app_bug"},
    "nvlink_fault": {"cuda_app_bug", "p2p_acs_iommu"},
    "fabric_manager_fault": {"cuda_app_bug", "config_env_error", "nvlink_fault", "driver_bug", "nccl_bug"},
    "multi_job_contention": {"gpu_oom"},
    "version_mismatch": {"config_env_error", "cuda_app_bug", "nccl_bug"},
    "fs_full_or_readonly": {"storage_io", "ckpt_io"},
    "storage_io": {"ckpt_io", "data_loading", "cuda_app_bug"},
    "disk_wear": {"storage_io", "ckpt_io", "fs_full_or_readonly"},
    "shared_fs_stall": {"storage_io", "ckpt_io", "data_loading"},
    "nic_fault": {"ib_link_fault", "ib_link_down"},
    "ib_link_fault": {"ib_link_down"},
    "ib_link_down": {"ib_link_fault"},
    "gid_or_pkey_misconfig": {"roce_misconfig"},
    "dns_or_hostname": {"firewall_or_port_blocked", "config_env_error", "wrong_interface"},
    "wrong_interface": {"firewall_or_port_blocked", "dns_or_hostname", "config_env_error"},
    "gpu_oom": {"cuda_app_bug"},
    "cuda_app_bug": set(),
    "config_env_error": {"collective_mismatch_desync", "cuda_app_bug", "wrong_interface"},
    "data_loading": {"cuda_app_bug"},
}
_EXPLAINS_NOTHING = {"unknown", "healthy", "peer_process_died"}
_ENDS_EVERYTHING = {"scheduler_preemption", "node_down"}


@dataclass(slots=True)
class Note:
    """One piece of evidence in words, with the line that shows it."""

    fact: str
    clue: Clue | None = None
    value: str = ""
    expected: str = ""


@dataclass(slots=True)
class Candidate:
    """One possible cause."""

    root_cause: str
    weight: float
    """How well its own evidence proves it, 0..1."""
    clues: list[Clue]
    """First cause first."""
    kind: int = DIRECT
    culprits: list[Culprit] = field(default_factory=list)
    summary: str = ""
    is_sentence: bool = False
    """The summary says whom and when by itself."""
    severity: Severity | None = None
    """Only when the evidence knows better than the class."""
    onset: float | None = None
    """When it began, where that is not the time of its first clue."""
    supports: list[Note] = field(default_factory=list)
    contradicts: list[Note] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    signature: str | None = None
    explained_by: Candidate | None = None

    @property
    def first(self) -> Clue | None:
        """Return the line that shows it first."""
        return self.clues[0] if self.clues else None

    def began(self) -> float | None:
        """Return the time it began, None when no stamp of its own says it."""
        if self.onset is not None:
            return self.onset
        first = self.first
        return None if first is None or first.event.at_is_near else first.event.at


def culprits_of(scene: Scene, clues: Iterable[Clue], *, by_host: bool = False) -> list[Culprit]:
    """Return whom these lines are about, in their order: ranks, or hosts when asked for or when there are too many."""
    found: list[Culprit] = []
    clues = list(clues)
    for clue in clues:
        rank = clue.rank
        host = clue.host or (scene.who.host_of(rank) if rank is not None else None) or scene.who.only_host()
        if scene.is_of_operator(clue):
            rank, host = _said_of(scene, clue, rank, host)
        if by_host and host and len({c.rank for c in clues if c.host == clue.host}) > 1:
            rank = None
        culprit = make_culprit(scene, rank, host, clue.event.device)
        same = [c for c in found if (c.rank, c.host) == (culprit.rank, culprit.host)]
        if (rank is not None or host) and not same:
            found.append(culprit)
    if len(found) > MOST_CULPRITS and not by_host:
        hosts = culprits_of(scene, clues, by_host=True)
        return hosts if len(hosts) <= 2 else []
    return found if len(found) <= MOST_CULPRITS else []


def _said_of(scene: Scene, clue: Clue, rank: int | None, host: str | None) -> tuple[int | None, str | None]:
    """Return rank and host that the fields of an operator's signature name; those of the line where they name none."""
    meaning = scene.meaning(clue.event)
    if meaning is None or meaning.culprit.blame not in ("named", "peer"):
        return rank, host
    names = meaning.culprit
    number, name = (names.rank, names.host) if names.blame == "named" else (names.peer_rank, names.peer)
    said_rank, said_host = clue.number(number), clue.text(name)
    if said_rank is None and not said_host:
        return rank, host
    return said_rank, scene.who.named(said_host) if said_host else None


def make_culprit(scene: Scene, rank: int | None, host: str | None, device: str | None = None) -> Culprit:
    """Return a culprit with what is known about the rank filled in."""
    who = scene.who
    if rank is not None and host is None:
        host = who.host_of(rank)
    if rank is not None and device is None:
        number = who.device_of(rank)
        device = f"gpu/{number}" if number is not None else None
    return Culprit(rank, host, device, f"{host}/{device}" if host and device else None)


def refined(culprits: list[Culprit], others: list[Culprit]) -> list[Culprit]:
    """Return culprits with what others of the same host or rank know about them filled in."""
    if not culprits:
        return others
    better = []
    for culprit in culprits:
        same = [
            other
            for other in others
            if (culprit.rank is None and other.rank is not None and culprit.host in {other.host, None})
            or (culprit.rank is not None and other.rank == culprit.rank and culprit.host is None)
        ]
        better.append(same[0] if len(same) == 1 and len(culprits) == 1 else culprit)
    return better


def first_ones(clues: list[Clue]) -> list[Clue]:
    """Return the lines that came first, with those too close to it to tell apart."""
    if not clues:
        return []
    head = clues[0]
    at = head.event.at
    if at is None or head.event.at_is_near:
        return clues
    return [c for c in clues if c.event.at is not None and c.event.at - at <= TOGETHER_S]


def settle(candidates: list[Candidate]) -> list[Candidate]:
    """Return the candidates with the cause first: those that another one explains come after it."""
    for one in candidates:
        reasons = [other for other in candidates if other is not one and explains(other, one)]
        if reasons:
            one.explained_by = min(reasons, key=_order)
    return sorted(candidates, key=_order)


def explains(cause: Candidate, effect: Candidate) -> bool:
    """Tell whether one candidate can be the reason of another one and is not later than it."""
    if cause.kind > effect.kind or cause.weight < FAINT or cause.root_cause in _EXPLAINS_NOTHING:
        return False
    if cause.kind == effect.kind and explains_class(effect.root_cause, cause.root_cause) and not earlier(cause, effect):
        return False
    if not (effect.kind > cause.kind or explains_class(cause.root_cause, effect.root_cause)):
        return False
    return not later(cause, effect)


def explains_class(cause: str, effect: str) -> bool:
    """Tell whether a cause of one class can be seen as one of another class."""
    if cause == effect:
        return False
    return cause in _ENDS_EVERYTHING or effect in _EXPLAINS.get(cause, ()) or effect in _KILLS_PROCESS


def later(one: Candidate, other: Candidate) -> bool:
    """Tell whether one candidate surely began after the other."""
    slack = NODE_DECLARED_AFTER_S if one.root_cause == "node_down" else TOGETHER_S
    if other.root_cause in {"ib_link_fault", "ib_link_down"} and one.kind == DIRECT:
        slack = max(slack, 60.0)
    began, began_other = one.began(), other.began()
    if began is not None and began_other is not None:
        delta = began - began_other
        if _of_two_clocks(one, other) and abs(delta) > ZONE_STEP_S / 2:
            delta -= round(delta / ZONE_STEP_S) * ZONE_STEP_S
        return delta > slack
    if one.first is None or other.first is None or one.first.event.file != other.first.event.file:
        return False
    if of_kernel(one.first.event) or of_kernel(other.first.event):  # pasted beside the log, in an order of its own
        return False
    return not before(one.first, other.first) and one.kind == other.kind


def _of_two_clocks(one: Candidate, other: Candidate) -> bool:
    """Tell whether exactly one of them is of the kernel, whose log may be in another time zone than the job's."""
    return (
        one.first is not None
        and other.first is not None
        and of_kernel(one.first.event) != of_kernel(other.first.event)
        and one.first.event.file != other.first.event.file
    )


def earlier(one: Candidate, other: Candidate) -> bool:
    """Tell whether one candidate surely began before the other."""
    began, began_other = one.began(), other.began()
    if began is not None and began_other is not None:
        return began < began_other - TOGETHER_S
    if one.first is None or other.first is None:
        return False
    return before(one.first, other.first, strictly=True)


def _order(candidate: Candidate) -> tuple[int, int, int, float]:
    """Order: unexplained first, then by how it was found, then the earliest of those that prove themselves."""
    index = candidate.first.index if candidate.first is not None else 1_000_000_000
    if candidate.root_cause == "unknown":  # says only who waits: who is known to have left says more
        return (int(candidate.explained_by is not None), SYMPTOM, 1_000_000_000, -candidate.weight)
    if candidate.weight >= STRONG:
        return (int(candidate.explained_by is not None), candidate.kind, index, -candidate.weight)
    weak = candidate.weight < FAINT
    return (
        int(candidate.explained_by is not None),
        SYMPTOM + 1 if weak else candidate.kind,
        1_000_000_000,
        -candidate.weight,
    )
