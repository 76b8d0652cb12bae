"""Slurm's JSON (`scontrol show node --json` and its like): data parsers 0.0.38 to 0.0.44 of 22.05 to 26.05.

The shapes differ: a state is a word with flags apart, or a list; a number is bare, or an object that says whether it is
set. Each record is read by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.errors import UsageError
from stethoscope.model.scheduler import Job
from stethoscope.parse import slurm
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    Made = TypeVar("Made")


def read_json(text: str | bytes) -> slurm.Read:
    """Return the nodes, jobs and partitions of a document; ValueError with Slurm's own words when it has none."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {clean(str(error), 100)}") from None
    if not isinstance(document, dict):
        raise ValueError("not a document of Slurm")
    if not any(isinstance(document.get(key), list) for key in ("nodes", "jobs", "partitions")):
        raise ValueError(_complaint(document) or "names no nodes, jobs or partitions")
    nodes, lost_nodes = _each(document.get("nodes"), _node)
    jobs, lost_jobs = _each(document.get("jobs"), _job)
    partitions, lost = _each(document.get("partitions"), _partition)
    return slurm.Read(nodes, jobs, partitions, lost_nodes + lost_jobs + lost)


def _complaint(document: dict[str, Any]) -> str:
    errors = document.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    if isinstance(first, dict):
        return clean(str(first.get("description") or first.get("error") or ""), slurm.TEXT_LIMIT)
    return clean(str(first), slurm.TEXT_LIMIT) if first else ""


def _each(records: Any, make: Callable[[dict[str, Any]], Made]) -> tuple[tuple[Made, ...], int]:
    made: list[Made] = []
    lost = 0
    for record in records[: slurm.MAX_RECORDS] if isinstance(records, list) else ():
        try:
            made.append(make(record))
        except (ValueError, KeyError, TypeError, AttributeError, UsageError):
            lost += 1
    return tuple(made), lost


def _node(record: dict[str, Any]) -> slurm.SlurmNode:
    gpus, model = slurm.gpu_count(_text(record.get("gres"), 2000))
    if not gpus:
        gpus, model = slurm.gpu_count(_text(record.get("tres"), 2000))
    return slurm.SlurmNode(
        name=slurm.node_name(record["name"]),
        address=_text(record.get("address"), 253),
        hostname=_text(record.get("hostname"), 253),
        states=_states(record.get("state"), record.get("state_flags")),
        reason=_text(record.get("reason")),
        owner=_text(record.get("reason_set_by_user"), 64) if record.get("reason") else "",
        since=_number(record.get("reason_changed_at")) or None,
        gpus=gpus,
        gpu_model=model,
        partitions=tuple(_text(name, 64) for name in _texts(record.get("partitions"))),
        features=",".join(_texts(record.get("active_features") or record.get("features"))),
        comment=_text(record.get("comment")),
        reservation=_text(record.get("reservation"), 100),
        version=_text(record.get("version") or record.get("slurmd_version"), 20),
    )


def _job(record: dict[str, Any]) -> Job:
    number = slurm.job_id(str(_number(record["job_id"])))
    array, task = _number(record.get("array_job_id")), _number(record.get("array_task_id"))
    nodes = slurm.node_list(str(record.get("nodes") or ""))
    batch, user = _text(record.get("batch_host"), 253), _text(record.get("user_name"), 64)
    name, comment = _text(record.get("name")), record.get("comment")
    path = _text(record.get("stdout_expanded") or record.get("standard_output"), 1024)
    return Job(
        id=f"{array}_{task}" if array and task is not None else number,
        name=name,
        state=",".join(_states(record.get("job_state"), None)),
        user=user,
        partition=_text(record.get("partition"), 64),
        nodes=nodes,
        batch_host=batch,
        started=_number(record.get("start_time")) or None,
        stdout=slurm.output_path(
            path, job=number, array=str(array or ""), task="" if task is None else str(task), user=user, name=name,
            node=batch or (nodes[0] if nodes else ""),
        ),
        features=_text(record.get("features")),
        comment=_text(comment.get("job") if isinstance(comment, dict) else comment),
    )  # fmt: skip


def _partition(record: dict[str, Any]) -> slurm.SlurmPartition:
    nodes = record.get("nodes")
    configured = nodes.get("configured") if isinstance(nodes, dict) else nodes
    state = record["partition"].get("state") if isinstance(record.get("partition"), dict) else record.get("state")
    name = _text(record["name"], 64)
    if not name:
        raise ValueError("a partition without a name")
    return slurm.SlurmPartition(name, slurm.node_list(str(configured or "")), "+".join(_states(state, None)))


def _states(state: Any, flags: Any) -> tuple[str, ...]:
    words = [*_texts(state), *_texts(flags)]
    return slurm.states("+".join(words))


def _number(value: Any) -> int | None:
    """Return a bare number, or that of an object that says `set`; None when it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part for part in clean(value, slurm.TEXT_LIMIT).split(",") if part]
    values: Iterable[Any] = value if isinstance(value, list) else ()
    return [clean(item, 100) for item in values if isinstance(item, str)]


def _text(value: Any, limit: int = slurm.TEXT_LIMIT) -> str:
    text = clean(value.strip(), limit) if isinstance(value, str) else ""
    return "" if text in slurm.NONE else text
