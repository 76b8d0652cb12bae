"""What nodes and devices say of themselves in words: the texts that a condition such as `job=4242` is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.filter_sight import Sight, certain
from stethoscope.analysis.filter_tree import Named, Pattern, Said, is_node_set, node_set
from stethoscope.analysis.filter_values import MISSING, NONE, VALUE_WORDS, bare, fits_field
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Verdicts
from stethoscope.model.finding import Severity
from stethoscope.model.ids import node_of, port_name
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.scheduler import Job

Words = str | tuple[str, ...] | None
"""What one node or device says: a word, several, an empty tuple for none, None (or an empty word) for what is not
known."""
_OF_JOBS = ("job", "user", "partition")
_SETS = (*_OF_JOBS, "finding", "severity")
"""Fields of which there can be none."""
_VERSIONS = {"driver": "driver_version", "cuda": "cuda_version", "product": "product"}
_RANKS = {severity.value.lower(): severity.rank for severity in Severity}


def named(leaf: Named, sight: Sight) -> Verdicts:
    """Return which nodes have the name that a plain word stands for."""
    return _hosts(leaf.value, "~", sight)


def said(leaf: Said, frame: Scope, sight: Sight, judge_idle: Callable[[Sight], Verdicts]) -> Verdicts:
    """Return the verdict of each node, or of each row of `frame` if the field says something of devices there."""
    negative, operator = leaf.operator.startswith("!"), leaf.operator.removeprefix("!")
    value = bare(leaf.value) if leaf.name in VALUE_WORDS else leaf.value.lower()
    if leaf.name == "host":
        verdicts = certain(np.zeros(sight.nodes, dtype=bool)) if value == MISSING else _hosts(value, operator, sight)
    elif leaf.name == "state":
        fits = Pattern(value, operator == "~").matcher()
        verdicts = certain(np.zeros(sight.nodes, dtype=bool))
        for word in VALUE_WORDS["state"]:
            if fits(word):
                verdicts = np.maximum(verdicts, sight.state(word, judge_idle))
    else:
        own = fits_field(leaf.name, frame)
        words = _device_words(leaf.name, frame, sight) if own else node_words(leaf.name, sight.snapshot)
        verdicts = _verdicts(words, _test(leaf.name, operator, value))
        if own:
            rows, _ = sight.rows(frame)
            of_rows = np.full(sight.size(frame), UNKNOWN, dtype=np.int8)
            of_rows[rows] = verdicts
            verdicts = of_rows
    return TRUE - verdicts if negative else verdicts


def _hosts(value: str, operator: str, sight: Sight) -> Verdicts:
    if is_node_set(value):
        wanted = node_set(value)
        fits: Callable[[str], bool] = lambda name: name.lower() in wanted  # noqa: E731
    else:
        fits = Pattern(value, operator == "~").matcher()
    return certain(np.fromiter((fits(node.name) for node in sight.snapshot.nodes), np.bool_, sight.nodes))


def _test(name: str, operator: str, value: str) -> Callable[[Words], int]:
    """Return the verdict of what one node or device says."""
    if operator == "=" and value == MISSING:
        return lambda words: TRUE if words is None or words == "" else FALSE
    if operator == "=" and value == NONE and name in _SETS:
        return lambda words: UNKNOWN if words is None else FALSE if words else TRUE
    if name == "severity" and operator not in ("=", "~"):
        limit, lowest = _RANKS[value], len(_RANKS)
        above, below = range(limit + operator.endswith("=")), range(limit + (operator == "<"), lowest)
        ranks = above if operator[0] == ">" else below
        fits: Callable[[str], bool] = lambda word: _RANKS[word.lower()] in ranks  # noqa: E731
    else:
        fits = Pattern(value, operator == "~").matcher()

    def verdict(words: Words) -> int:
        if words is None or words == "":
            return UNKNOWN
        return TRUE if any(fits(word) for word in ((words,) if isinstance(words, str) else words)) else FALSE

    return verdict


def _verdicts(words: Sequence[Words], test: Callable[[Words], int]) -> Verdicts:
    known = {some: test(some) for some in set(words)}
    return np.fromiter((known[some] for some in words), np.int8, len(words))


# ---- of nodes


def node_words(name: str, snapshot: FleetSnapshot) -> list[Words]:
    """Return what each node says of the field `name`."""
    nodes = snapshot.nodes
    if name in _OF_JOBS:
        return _of_jobs(name, snapshot)
    if name in ("finding", "severity"):
        found: dict[str, set[str]] = {}
        for finding in snapshot.findings:
            if finding.state == "active":
                for node_name in {node_of(place) for place in finding.where}:
                    found.setdefault(node_name, set()).update(_finding_words(name, finding))
        return [tuple(sorted(found[node.name])) if node.name in found else () for node in nodes]
    if name in _VERSIONS:
        key = _VERSIONS[name]
        return [node.words.get(key) for node in nodes]
    if name == "model":
        return [tuple({gpu.name for gpu in node.gpus if gpu.name}) or None for node in nodes]
    if name == "leaf":
        return [tuple(node.leaves.values()) or None for node in nodes]
    return [getattr(node, name) for node in nodes]


def _finding_words(name: str, finding: Finding) -> Iterable[str]:
    if name == "severity":
        return (finding.severity.value,)
    return [word for word in (finding.rule, finding.root_cause, finding.summary) if word]


def _of_jobs(name: str, snapshot: FleetSnapshot) -> list[Words]:
    jobs = {job.id: job for job in snapshot.jobs}
    on: dict[str, list[str]] = {}
    for job in snapshot.jobs:
        for node_name in job.nodes:
            on.setdefault(node_name, []).append(job.id)
    words: list[Words] = []
    for node in snapshot.nodes:
        ids = {*on.get(node.name, ()), *(node.scheduler.jobs if node.scheduler is not None else ())}
        some = {word for id_ in ids for word in _job_words(name, id_, jobs.get(id_))}
        if name != "partition":
            some.update(_of_processes(name, node))
        known = node.scheduler is not None or (name != "partition" and node.processes is not None)
        words.append(tuple(sorted(some)) if some or known else None)
    return words


def _job_words(name: str, id_: str, job: Job | None) -> Iterable[str]:
    if name == "job":
        return (id_, job.name) if job is not None and job.name else (id_,)
    word = "" if job is None else job.user if name == "user" else job.partition
    return (word,) if word else ()


def _of_processes(name: str, node: Node) -> Iterable[str]:
    if not node.processes:
        return ()
    some = {process.slurm_job if name == "job" else process.user for process in node.processes}
    some.discard("")
    return some


# ---- of devices


def _device_words(name: str, scope: Scope, sight: Sight) -> list[Words]:
    """Return what each device of `scope` says of the field `name`, in the order of `Sight.rows`."""
    if name in ("finding", "severity"):
        return _findings_of_devices(name, scope, sight)
    words: list[Words] = []
    for node in sight.having(scope):
        if name == "device":
            words.extend(_names(node, scope))
        elif scope is Scope.GPU:
            words.extend([gpu.name for gpu in node.gpus])
        elif scope is Scope.PORT:
            words.extend([node.leaf(position) for position in range(len(node.ports))])
        else:
            about, empty = node.about, dict[str, str]()
            words.extend([about.get((scope, one), empty).get("model") for one in node.devices[scope]])
    return words


def _names(node: Node, scope: Scope) -> Iterable[Words]:
    if scope is Scope.GPU:
        return [str(gpu.index) for gpu in node.gpus]
    if scope is Scope.PORT:
        return [port_name(port.device, port.port) for port in node.ports]
    return node.devices[scope]


def _findings_of_devices(name: str, scope: Scope, sight: Sight) -> list[Words]:
    """Return what is said in findings that name the device itself."""
    snapshot = sight.snapshot
    at: dict[str, dict[str, set[str]]] = {}
    for finding in snapshot.findings:
        if finding.state == "active":
            for place in finding.where:
                at.setdefault(node_of(place), {}).setdefault(place, set()).update(_finding_words(name, finding))
    words: list[Words] = []
    for node in sight.having(scope):
        count, here = len(snapshot.rows(node, scope)), at.get(node.name)
        if here is None:
            words.extend([()] * count)
        else:
            words.extend(tuple(sorted(here.get(snapshot.place(node, scope, i), ()))) for i in range(count))
    return words
