"""What the batch scheduler says of nodes and jobs: who took a node out of service and why, and what runs where."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum


class Standing(StrEnum):
    """What a scheduler's states of a node come to; the value is the word on the screen."""

    SERVING = "in service"
    DRAINED = "drained"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    DOWN_BY_ADMIN = "down by an administrator"
    POWERED_DOWN = "powered down"
    DOWN = "down"
    """The scheduler itself lost the node or took it out because of a fault: evidence, never an excuse."""


OUT_OF_SERVICE = frozenset({Standing.DRAINED, Standing.MAINTENANCE, Standing.DOWN_BY_ADMIN, Standing.POWERED_DOWN})
"""Somebody took the node out on purpose and no job is on it: whatever is found there is known and waits."""

_IN_USE = frozenset({"allocated", "mixed", "completing"})
_LOST = frozenset({"down", "not_responding", "invalid_reg", "unknown"})
_POWERED_DOWN = frozenset({"powered_down", "powering_down", "power_down", "powered_off", "powering_off"})
# Reasons that slurmctld writes by itself when it meets a fault (src/slurmctld, all of 20.11 to 26.05), and those of the
# health check that Slurm runs on its nodes, which begin with the name of that program.
_BY_ITSELF = re.compile(
    r"not responding|node unexpectedly rebooted|low (?:realmemory|socket|cpu|tmpdisk)|gres/\S+ count|kill task failed"
    r"|(?:prolog|epilog) error|batch job complete failure|duplicate jobid|resumetimeout reached|bootfail"
    r"|invalid registration|no registration|node .* has low|(?:lbnl )?nhc\b",
    re.IGNORECASE,
)
_OWN_USER = "slurm"
"""Whom slurmctld runs as nearly everywhere: nobody works under that name."""
_LATEST = 1e11
_MAINTENANCE_NAME = re.compile(r"maint", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """One node as the scheduler shows it."""

    words: tuple[str, ...]
    """States in lower case, the base state first: `mixed`, `drain`, `not_responding`."""
    reason: str = ""
    owner: str = ""
    """Who set the reason."""
    since: float | None = None
    """Wall seconds at which the reason was set, None when that is not known."""
    jobs: tuple[str, ...] = ()
    """Ids of the jobs that have the node."""
    reservation: str = ""
    partitions: tuple[str, ...] = ()
    standing: Standing = field(init=False, compare=False)
    """What the states come to."""

    def __post_init__(self) -> None:
        """Work the standing out once: screens ask for it at every picture."""
        object.__setattr__(self, "since", _sound_time(self.since))
        object.__setattr__(self, "standing", self._standing())

    def _standing(self) -> Standing:
        words = set(self.words)
        lost = bool(words & _LOST)
        # The scheduler drains nodes by itself when it meets a fault: that is evidence. Who drains one by hand has to
        # give a reason.
        by_itself = bool(_BY_ITSELF.match(self.reason)) or self.owner == _OWN_USER or (not self.reason and lost)
        if "drain" in words and not by_itself:
            return Standing.DRAINING if self.jobs or words & _IN_USE else Standing.DRAINED
        if "maintenance" in words or ("reserved" in words and _MAINTENANCE_NAME.search(self.reservation)):
            return Standing.MAINTENANCE
        if words & _POWERED_DOWN:
            return Standing.POWERED_DOWN
        if lost or "drain" in words:
            admin = "down" in words and not by_itself
            return Standing.DOWN_BY_ADMIN if admin else Standing.DOWN
        return Standing.SERVING

    @property
    def is_out_of_service(self) -> bool:
        """Tell whether somebody took the node out on purpose and no job is on it."""
        return self.standing in OUT_OF_SERVICE

    @property
    def phrase(self) -> str:
        """Return standing, reason and its owner: `drained: maint BMC firmware (root)`; empty for a node in service."""
        standing = self.standing
        if standing is Standing.SERVING:
            return ""
        words = self.words_text if standing is Standing.DOWN else standing.value
        reason = self.reason or self.reservation
        owner = f" ({self.owner})" if self.owner and reason else ""
        return f"{words}: {reason}{owner}" if reason else words

    @property
    def words_text(self) -> str:
        """Return the states as people read them: `down, not responding`."""
        return ", ".join(word.replace("_", " ") for word in self.words)


class JobSource(StrEnum):
    """Who says that there is such a job; the value is the word on the screen."""

    SLURM = "Slurm"
    FLEET_FILE = "fleet file"
    GUESSED = "guessed from GPU processes"


@dataclass(frozen=True, slots=True)
class Job:
    """One job that the scheduler runs, or that the fleet file or the processes tell of."""

    id: str
    name: str = ""
    state: str = ""
    """In lower case: running, completing, suspended ..."""
    user: str = ""
    partition: str = ""
    nodes: tuple[str, ...] = ()
    """In the scheduler's order, by the scheduler's names; ranks count along them."""
    batch_host: str = ""
    started: float | None = None
    """Wall seconds."""
    stdout: str = ""
    """Path of its output with what is known filled in; `%t` and the like stay where each task has its own."""
    features: str = ""
    comment: str = ""
    source: JobSource = JobSource.SLURM
    samples_per_step: float | None = None
    """As the fleet file says it."""

    def __post_init__(self) -> None:
        """Take a time that is none as not known."""
        object.__setattr__(self, "started", _sound_time(self.started))


@dataclass(frozen=True, slots=True)
class SchedulerReading:
    """One look at the scheduler; `note` says in words what could not be read, and then what was known stays."""

    nodes: dict[str, SchedulerState]
    jobs: tuple[Job, ...] = ()
    note: str = ""


def _sound_time(wall: float | None) -> float | None:
    """Return `wall` if it can be a time of a clock, else None: what other programs say is not to be believed."""
    return wall if wall is not None and 0 <= wall < _LATEST else None
