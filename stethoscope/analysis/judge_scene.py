"""What a log shows before anybody is blamed: clues in order, progress, network and settings of each host."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from stethoscope.analysis.judge_ranks import Who, learn, number_of, text_of
from stethoscope.paths import bundled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.model.finding import Severity
    from stethoscope.model.logs import Event, Log, Role

KERNEL_FAMILIES = {
    "aer", "beegfs", "blk", "bond", "boot", "cephfs", "container", "cpu", "dcgm", "edac", "ext4", "fm", "fs", "ghes",
    "gpfs", "ib", "imex", "iommu", "k8s", "lnet", "log", "lustre", "mce", "md", "memory_failure", "mlx5", "nfs", "nic",
    "nvme", "nvrm", "os", "pcie", "persistenced", "roce", "sel", "slurm", "sxid", "systemd", "time", "vfs", "weka",
    "xfs", "xid",
}  # fmt: skip
"""First words of the signatures of the kernel, drivers, daemons and the BMC; others are of jobs or an operator's."""
PROGRESS = ("training.progress", "training.step", "training.framework_step", "tests.row")
SPAWN_LINES = 3
TRACEBACK_LINES = 120
NAMES_ITS_RANK = {"torch.store.barrier", "training.nan", "torch.gloo.timeout", "nccl.coll.mismatched"}
"""Lines whose field `rank` is the global rank of who printed them."""
SAY_WHO = ("work.", "checkpoint.", "loader.")
"""Lines of programs that say their rank in words."""
FINISHED = ("training.finished", "tests.concluded")
_BUNDLED = str(bundled("playbooks"))
_DEVICE = re.compile(r"\[\d+\](?P<name>[^:\s]+):\d+/(?P<kind>IB|RoCE)")
_RANK_SAID = re.compile(r"(?i).{0,60}?\brank[ :=]?(\d{1,6})\b")
_OF_TRAINING = re.compile(r"(?i)\bloss|^\s*iteration")
"""A bar without either may be of an evaluation or of a file that was read."""
_RANK_INSIDE = re.compile(r".{0,80}?\[[Rr]ank[ :_=]?(\d{1,6})\]")
_LISTED = re.compile(r"\[\d+\](?P<name>[\w.@-]+):(?P<ip>[0-9a-fA-F.:]+?)<")


class Accused(Protocol):
    """Which fields of a line say whom it accuses."""

    @property
    def blame(self) -> str: ...
    @property
    def rank(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def peer_rank(self) -> str: ...


class Meaning(Protocol):
    """What a signature says about a line of its kind."""

    @property
    def culprit(self) -> Accused: ...

    @property
    def root_cause(self) -> str | None: ...
    @property
    def meaning(self) -> str: ...
    @property
    def next_checks(self) -> tuple[str, ...]: ...


class KnownSignature(Meaning, Protocol):
    """A signature whose meaning may depend on the line's fields."""

    @property
    def source(self) -> str:
        """The file that it stands in."""

    def variant(self, fields: Mapping[str, str | int | float]) -> Meaning: ...


class KnownSignatures(Protocol):
    """All signatures."""

    @property
    def by_id(self) -> Mapping[str, KnownSignature]: ...


def of_kernel(event: Event) -> bool:
    """Tell whether a line is of the kernel, a driver, a daemon or the BMC and not of a job."""
    return event.signature.partition(".")[0] in KERNEL_FAMILIES


@dataclass(slots=True)
class Clue:
    """One event and who it is about."""

    index: int
    event: Event
    root_cause: str | None
    rank: int | None
    host: str | None

    @property
    def signature(self) -> str:
        """Return the id of the signature that found the line."""
        return self.event.signature

    @property
    def role(self) -> Role:
        """Return what the line may be in a verdict."""
        return self.event.role

    @property
    def severity(self) -> Severity:
        """Return how bad the line is by itself."""
        return self.event.severity

    @property
    def fields(self) -> Mapping[str, str | int | float]:
        """Return the line's named groups."""
        return self.event.fields

    def text(self, *names: str) -> str:
        """Return the first of these fields as text."""
        return text_of(self.event.fields, *names)

    @property
    def without_clock(self) -> bool:
        """Tell whether the line has no stamp of its own."""
        return self.event.at is None or self.event.at_is_near

    def number(self, *names: str) -> int | None:
        """Return the first of these fields that is a whole number."""
        return number_of(self.event.fields, *names)


@dataclass(slots=True)
class Scene:
    """Everything the methods of the judge look at."""

    log: Log
    who: Who
    signatures: KnownSignatures
    clues: list[Clue] = field(default_factory=list)
    by_signature: dict[str, list[Clue]] = field(default_factory=dict)
    devices: dict[str, set[str]] = field(default_factory=dict)
    """Host to its usable fabric ports."""
    link_kinds: set[str] = field(default_factory=set)
    """IB, RoCE."""
    networks: dict[str, set[str]] = field(default_factory=dict)
    """Host to the networks NCCL chose there."""
    interfaces: dict[str, dict[str, str]] = field(default_factory=dict)
    """Host to its interfaces with their addresses."""
    versions: dict[str, set[str]] = field(default_factory=dict)
    settings: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Host to its NCCL variables with their values."""
    _ends: list[Clue] | None = None
    _last: list[Clue] | None = None
    _reached: tuple[list[int], list[int]] | None = None

    def find(self, *signatures: str) -> list[Clue]:
        """Return the clues of these signatures in order."""
        found = [clue for name in signatures for clue in self.by_signature.get(name, ())]
        return found if len(signatures) == 1 else sorted(found, key=lambda clue: clue.index)

    def family(self, *prefixes: str) -> list[Clue]:
        """Return the clues whose signature begins with one of these, in order."""
        return [clue for clue in self.clues if clue.signature.startswith(prefixes)]

    def meaning(self, event: Event) -> Meaning | None:
        """Return what the signature says about this line."""
        signature = self.signatures.by_id.get(event.signature)
        return signature.variant(event.fields) if signature is not None else None

    def ends(self) -> list[Clue]:
        """Return the lines that show that the job came to its end: it says so, or its last step was the last one."""
        if self._ends is None:
            last = [c for c in self.progress() if c.number("it") is not None and c.number("it") == c.number("total")]
            work = [c for c in last[-1:] if c is self.progress()[-1] and _OF_TRAINING.search(c.event.text)]
            work = [c for c in work if not c.text("epoch")]
            self._ends = sorted([*self.find(*FINISHED), *work], key=lambda clue: clue.index)
        return self._ends

    def is_of_operator(self, clue: Clue) -> bool:
        """Tell whether an operator's own signature found this line: the judge has no method for it but its word."""
        signature = self.signatures.by_id.get(clue.signature)
        return signature is not None and bool(signature.source) and not signature.source.startswith(_BUNDLED)

    def progress(self) -> list[Clue]:
        """Return the lines that show that work was done."""
        return self.find(*PROGRESS)

    def progressed_before(self, clue: Clue) -> bool:
        """Tell whether work was done before this line."""
        return any(before(step, clue) for step in self.progress())

    def went_on(self, clue: Clue) -> bool:
        """Tell whether the job did at least two more steps after this line."""
        last = self._last_steps()
        if sum(step.event.count for step in last if before(clue, step, strictly=True)) <= 1:
            return False
        return not self._printed_late(clue, last[-1])

    def _printed_late(self, clue: Clue, last: Clue) -> bool:
        """Tell whether steps without a clock stand after a line only because files were put together in that order."""
        if not (clue.without_clock or last.without_clock):
            return False
        if self._reached is None:
            steps = [c for c in self.progress() if c.number("it") is not None]
            marks = accumulate((c.number("it") or 0 for c in steps), max)
            self._reached = [c.index for c in steps], list(marks)
        places, marks_of = self._reached
        count = bisect_left(places, clue.index)
        if not count or marks_of[-1] > marks_of[count - 1] or "poch" in last.event.text:
            return False
        return not any(c.index > clue.index for c in self.find("nccl.init.start", "launch.rank"))

    def _last_steps(self) -> list[Clue]:
        if self._last is None:
            self._last = self.progress()[-2:]
        return self._last

    def finished_after(self, clue: Clue) -> bool:
        """Tell whether the job came to its normal end after this line."""
        return any(before(clue, end) for end in self.ends())

    def finished_before(self, clue: Clue) -> bool:
        """Tell whether the job came to its normal end before this line."""
        return any(before(end, clue) for end in self.ends())

    @property
    def several_hosts(self) -> bool:
        """Tell whether the job runs on more than one host."""
        return (self.who.nodes or 0) > 1 or len(self.who.hosts) > 1

    def place(self, clue: Clue) -> str:
        """Return file and line of a clue."""
        files = self.log.files
        name = files[clue.event.file].name if clue.event.file < len(files) else "log"
        return f"{name}:{clue.event.line}"


def before(one: Clue, other: Clue, *, strictly: bool = False) -> bool:
    """Tell whether one clue comes before another: by the clock where both have a stamp of their own, else by place."""
    at, later = one.event.last_at or one.event.at, other.event.at
    exact = not (one.event.at_is_near or other.event.at_is_near)
    if at is not None and later is not None and exact and abs(at - later) > 1.0:
        return at < later
    if one.event.at is None and one.event.file == other.event.file:
        return one.event.line < other.event.line
    return one.index < other.index if strictly else one.index <= other.index


def look(log: Log, signatures: KnownSignatures) -> Scene:
    """Return the scene of a log."""
    scene = Scene(log, learn(log), signatures)
    who = scene.who
    for index, event in enumerate(log.events):
        meaning = scene.meaning(event)
        clue = Clue(
            index, event, meaning.root_cause if meaning else None, who.rank(event.origin), who.host(event.origin)
        )
        if clue.host is None and clue.text("node_host"):
            clue.host = who.named(clue.text("node_host"))
        if clue.rank is None and event.signature in NAMES_ITS_RANK:
            clue.rank = clue.number("rank")
        if clue.rank is None and event.signature.startswith(SAY_WHO) and (named := _RANK_SAID.match(event.text)):
            clue.rank = int(named[1])
        if clue.rank is None and (named := _RANK_INSIDE.match(event.text)):  # behind a prefix that nobody knows
            clue.rank = int(named[1])
        scene.clues.append(clue)
        scene.by_signature.setdefault(event.signature, []).append(clue)
    _give_to_writers(scene)
    _see_network(scene)
    return scene


def _give_to_writers(scene: Scene) -> None:
    """Lines without a prefix below a traceback that has one are of the rank that printed the traceback."""
    heads: dict[int, Clue] = {}
    for clue in sorted(scene.clues, key=lambda c: (c.event.file, c.event.line)):
        head = heads.get(clue.event.file)
        if clue.signature in {"python.traceback", "run.spawn_failed"}:
            clue.rank = clue.number("rank") if clue.rank is None else clue.rank
            if clue.rank is None and head is not None and head.signature == "run.spawn_failed":
                clue.rank = head.rank if clue.event.line - head.event.line <= SPAWN_LINES else None
            heads[clue.event.file] = clue
            continue
        origin = clue.event.origin
        bare = origin.rank is None and origin.pid is None and origin.task is None and origin.local_rank is None
        if head is not None and bare and 0 < clue.event.line - head.event.line <= TRACEBACK_LINES:
            clue.rank = clue.rank if clue.rank is not None else head.rank
            clue.host = clue.host or head.host


def _see_network(scene: Scene) -> None:
    for clue in scene.find("nccl.ib.using"):
        for device in _DEVICE.finditer(clue.text("list") or clue.event.text):
            scene.link_kinds.add(device["kind"])
            if clue.host:
                scene.devices.setdefault(clue.host, set()).add(device["name"])
    for clue in scene.find("nccl.net.using"):
        scene.networks.setdefault(clue.host or "", set()).add(clue.text("net").strip())
    for clue, name, address in _interfaces(scene):
        scene.interfaces.setdefault(clue.host or "", {})[name] = address
    for clue in scene.find("nccl.version"):
        if clue.event.origin.host or clue.rank is not None:
            scene.versions.setdefault(clue.host or "", set()).add(clue.text("ver"))
        else:
            scene.versions.setdefault("", set()).add(clue.text("ver"))
    for clue in scene.find("nccl.env", "nccl.topo.file"):
        name = clue.text("var") or "NCCL_TOPO_FILE"
        values = scene.settings.setdefault(clue.host or "", {}).setdefault(name, set())
        values.add(clue.text("val", "path").rstrip("."))


def _interfaces(scene: Scene) -> Iterator[tuple[Clue, str, str]]:
    for clue in scene.find("nccl.boot.using"):
        yield clue, clue.text("ifname"), clue.text("ip")
    for clue in scene.find("nccl.ib.using"):
        if clue.text("oob_if"):
            yield clue, clue.text("oob_if"), clue.text("ip")
    for clue in scene.find("nccl.socket.using"):
        for listed in _LISTED.finditer(clue.text("list") or clue.event.text):
            yield clue, listed["name"], listed["ip"]
