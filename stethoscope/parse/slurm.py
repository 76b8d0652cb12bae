"""Slurm's text: records of `scontrol show` (one line or many), `squeue`, and `topology.conf`; 20.11 to 26.05.

Text is read with `TZ=UTC0` set for the command, so times are UTC. A field that is not known is left alone; a record
that cannot be read costs itself. Where a key stands twice, the first counts: what users write (reasons, comments) comes
after what Slurm writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError
from stethoscope.model import ids
from stethoscope.model.scheduler import Job
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

NONE = frozenset({"", "(null)", "N/A", "n/a", "None", "none", "Unknown", "NONE", "UNLIMITED"})
"""What Slurm prints for nothing."""
SQUEUE_FORMAT = "%i|%T|%P|%u|%S|%B|%N|%j"
"""Fields that `read_squeue` expects; what users choose stands last."""
TEXT_LIMIT = 300
MAX_RECORDS = 200_000

_RECORD = re.compile(r"^(NodeName|JobId|PartitionName)=", re.MULTILINE)
_PAIR = re.compile(r"(?:^|[ \t])([A-Z][A-Za-z0-9_/:.()-]{0,40})=", re.MULTILINE)
_SIGNED = re.compile(r" ?\[([^\[\]@\s]{0,64})@([0-9T:\- ]{10,25}|Unknown)\]")
_WHOLE_LINE = frozenset({"Reason", "Comment", "AdminComment", "SystemComment", "Extra", "JobName", "Command"})
_FLAGS = {
    "*": "not_responding", "~": "powered_down", "#": "powering_up", "%": "powering_down", "$": "maintenance",
    "@": "reboot_requested", "^": "reboot_issued", "!": "power_down", "-": "planned",
}  # fmt: skip
_WORDS: dict[str, tuple[str, ...]] = {
    "drained": ("idle", "drain"), "draining": ("allocated", "drain"), "drng": ("allocated", "drain"),
    "alloc": ("allocated",), "mix": ("mixed",), "comp": ("completing",), "maint": ("maintenance",),
    "resv": ("reserved",), "unk": ("unknown",), "inval": ("invalid_reg",), "failg": ("failing",),
    "plnd": ("planned",), "boot": ("reboot_issued",), "pow_dn": ("powering_down",), "pow_up": ("powering_up",),
    "noresp": ("not_responding",), "no_respond": ("not_responding",), "npc": ("perfctrs",), "futr": ("future",),
    "maint_planned": ("maintenance", "planned"), "perfctrs": ("perfctrs",), "invalid": ("invalid_reg",),
    "power_down": ("powering_down",), "power_up": ("powering_up",), "poweringdown": ("powering_down",),
    "powered_off": ("powered_down",), "powering_off": ("powering_down",), "reboot": ("reboot_issued",),
}  # fmt: skip
_GRES = re.compile(r"(?:gres[/:])?gpu(?::([A-Za-z0-9_.+-]{1,60}))?[:=](\d{1,4})(?![\w.])")
_PATTERN = re.compile(r"%(\d{0,2})([%A-Za-z])")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node as Slurm's configuration and state have it."""

    name: str
    address: str = ""
    hostname: str = ""
    states: tuple[str, ...] = ()
    """In lower case, the base state first."""
    reason: str = ""
    owner: str = ""
    since: float | None = None
    """Wall seconds at which the reason was set."""
    gpus: int = 0
    gpu_model: str = ""
    """As GRES calls it; several joined with commas."""
    partitions: tuple[str, ...] = ()
    features: str = ""
    comment: str = ""
    reservation: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """One partition and its nodes."""

    name: str
    nodes: tuple[str, ...]
    state: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """What a text gave: records, and how many could not be read."""

    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[Job, ...] = ()
    partitions: tuple[SlurmPartition, ...] = ()
    lost: int = 0


def read_scontrol(text: str) -> Read:
    """Return the nodes, jobs and partitions that `scontrol show ...` printed, with or without `-o`."""
    nodes: list[SlurmNode] = []
    jobs: list[Job] = []
    partitions: list[SlurmPartition] = []
    lost = 0
    for kind, fields in _records(text):
        try:
            if kind == "NodeName":
                nodes.append(_node(fields))
            elif kind == "JobId":
                jobs.append(_job(fields))
            else:
                partitions.append(_partition(fields))
        except (ValueError, UsageError):
            lost += 1
    return Read(tuple(nodes), tuple(jobs), tuple(partitions), lost)


def read_squeue(text: str) -> Read:
    """Return the jobs that `squeue --noheader -o SQUEUE_FORMAT` printed."""
    jobs: list[Job] = []
    lost = 0
    for line in text.split("\n")[:MAX_RECORDS]:
        if not line.strip():
            continue
        parts = line.split("|", 7)
        try:
            job, state, partition, user, started, batch, nodes, name = parts
            jobs.append(
                Job(
                    id=job_id(job),
                    name=_text(name),
                    state=_text(state, 40).lower(),
                    user=_text(user, 64),
                    partition=_text(partition, 64),
                    nodes=node_list(nodes),
                    batch_host=_text(batch, 253),
                    started=utc(started),
                )
            )
        except (ValueError, UsageError):
            lost += 1
    return Read(jobs=tuple(jobs), lost=lost)


def _records(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    starts = [match.start() for match in _RECORD.finditer(text)][:MAX_RECORDS]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        fields: dict[str, str] = {}
        lines = text[start:end].rstrip().split("\n")
        for line in lines:
            _pairs(line.strip(), fields, alone=len(lines) > 1)
        yield next(iter(fields), ""), fields


def _pairs(line: str, fields: dict[str, str], *, alone: bool) -> None:
    """Add the `Key=value` of one line to `fields`; values have blanks. `alone`: the record has a line for each text."""
    matches = list(_PAIR.finditer(line))
    position = 0
    for number, match in enumerate(matches):
        if match.start() < position:
            continue
        key = match[1]
        end = matches[number + 1].start() if number + 1 < len(matches) else len(line)
        if key == "Reason" and fields.get("NodeName") is not None:
            signed = _SIGNED.search(line, match.end())
            if signed is not None:
                end = signed.end()
            elif alone:
                end = len(line)
        elif alone and key in _WHOLE_LINE:
            end = len(line)
        fields.setdefault(key, line[match.end() : end].strip())
        position = end


def _node(fields: dict[str, str]) -> SlurmNode:
    reason, owner, since = signed_reason(fields.get("Reason", ""))
    gpus, model = gpu_count(fields.get("Gres", "")) if fields.get("Gres", "") not in NONE else (0, "")
    if not gpus:
        gpus, model = gpu_count(fields.get("CfgTRES", ""))
    return SlurmNode(
        name=node_name(fields["NodeName"]),
        address=_text(fields.get("NodeAddr", ""), 253),
        hostname=_text(fields.get("NodeHostName", ""), 253),
        states=states(fields.get("State", "")),
        reason=reason,
        owner=owner,
        since=since,
        gpus=gpus,
        gpu_model=model,
        partitions=tuple(_text(name, 64) for name in _listed(fields.get("Partitions", ""))),
        features=_text(fields.get("ActiveFeatures") or fields.get("AvailableFeatures") or fields.get("Features", "")),
        comment=_text(fields.get("Comment", "")),
        reservation=_text(fields.get("ReservationName", ""), 100),
        version=_text(fields.get("Version", ""), 20),
    )


def _job(fields: dict[str, str]) -> Job:
    array, task = fields.get("ArrayJobId", ""), fields.get("ArrayTaskId", "")
    nodes = node_list(fields.get("NodeList", ""))
    user = _text(fields.get("UserId", ""), 80).partition("(")[0]
    number = job_id(fields["JobId"])
    batch = _text(fields.get("BatchHost", ""), 253)
    name = _text(fields.get("JobName") or fields.get("Name", ""))
    return Job(
        id=f"{array}_{task}" if array.isdigit() and task.isdigit() else number,
        name=name,
        state=_text(fields.get("JobState", ""), 40).lower(),
        user=user,
        partition=_text(fields.get("Partition", ""), 64),
        nodes=nodes,
        batch_host=batch,
        started=utc(fields.get("StartTime", "")),
        stdout=output_path(
            _text(fields.get("StdOut", ""), 1024), job=number, array=array, task=task, user=user, name=name,
            node=batch or (nodes[0] if nodes else ""),
        ),
        features=_text(fields.get("Features", "")),
        comment=_text(fields.get("Comment", "")),
    )  # fmt: skip


def _partition(fields: dict[str, str]) -> SlurmPartition:
    name = _text(fields["PartitionName"], 64)
    if not name:
        raise ValueError("a partition without a name")
    return SlurmPartition(name, node_list(fields.get("Nodes", "")), _text(fields.get("State", ""), 20).lower())


def states(text: str) -> tuple[str, ...]:
    """Return the states of `DOWN*+DRAIN` or `drained*` in lower case: down, not_responding, drain."""
    words: dict[str, None] = {}
    for part in clean(text, 200).lower().split("+"):
        flags = len(part) - len(part.rstrip("*~#%$@^!-"))
        bare = part[: len(part) - flags].strip()
        for word in _WORDS.get(bare, (bare,)):
            if word:
                words.setdefault(word)
        for flag in part[len(part) - flags :]:
            words.setdefault(_FLAGS[flag])
    return tuple(words)


def signed_reason(text: str) -> tuple[str, str, float | None]:
    """Return reason, owner and wall seconds of `maint BMC firmware [root@2026-03-14T01:02:03]`."""
    match = None
    for match in _SIGNED.finditer(text):  # noqa: B007 -- the last one is Slurm's own
        pass
    if match is None:
        return _text(text), "", None
    return _text(text[: match.start()]), _text(match[1], 64), utc(match[2])


def utc(text: str) -> float | None:
    """Return the wall seconds of a time such as `2026-03-14T01:02:03`, None for `Unknown` and the like."""
    try:
        return datetime.strptime(text.strip()[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def gpu_count(text: str) -> tuple[int, str]:
    """Return how many GPUs a GRES or TRES text such as `gpu:h100:8(S:0-1)` names, and their model.

    TRES name the sum and the parts (`gres/gpu=8,gres/gpu:h100=8`): where models are named, the bare sum is not added.
    """
    typed: dict[str, int] = {}
    bare = 0
    for match in _GRES.finditer(clean(text, 2000)):
        if match[1]:
            typed[match[1]] = typed.get(match[1], 0) + int(match[2])
        else:
            bare += int(match[2])
    if typed:
        return max(sum(typed.values()), bare if "gres/" in text else 0), ",".join(typed)
    return bare, ""


def node_list(text: str) -> tuple[str, ...]:
    """Return the nodes of a folded list such as `node[0201-0272,281]`; UsageError or ValueError when it is none."""
    text = clean(text.strip(), 200_000)
    if text in NONE:
        return ()
    return tuple(node_name(name) for name in ids.expand(text))


def node_name(text: str) -> str:
    """Return a node's name; ValueError when it is none."""
    name = clean(text.strip(), 253)
    if not re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?", name):
        raise ValueError(f'"{name}" is not a node')
    return name


def job_id(text: str) -> str:
    """Return the id of a job, of an array's task (`4242_7`) or of a part (`4242+1`); ValueError when it is none."""
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,10}(?:_[0-9]{1,7}|_\[[0-9,:%-]{1,200}\]|\+[0-9]{1,5})?", text):
        raise ValueError(f'"{clean(text, 40)}" is not a job')
    return text


def output_path(
    pattern: str, *, job: str, array: str = "", task: str = "", user: str = "", name: str = "", node: str = ""
) -> str:
    """Return the path of a job's output, the letters of its pattern filled in as far as they are known (man sbatch)."""
    known = {
        "%": "%", "j": job, "J": job, "A": array if array.isdigit() else job, "a": task if task.isdigit() else "",
        "u": user, "x": name.replace("/", "_"), "N": node, "n": "0", "s": "batch",
    }  # fmt: skip

    def filled(match: re.Match[str]) -> str:
        value = known.get(match[2], "")
        if not value:
            return match[0]
        return value.zfill(int(match[1])) if match[1] and value.isdigit() else value

    return "" if pattern in NONE else _PATTERN.sub(filled, pattern)


def _listed(text: str) -> list[str]:
    return [] if text in NONE else [part for part in text.split(",") if part]


def _text(text: str, limit: int = TEXT_LIMIT) -> str:
    text = clean(text.strip(), limit)
    return "" if text in NONE else text
