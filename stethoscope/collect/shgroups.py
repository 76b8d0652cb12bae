"""What is read rarely, as functions of sh for probes/watch.sh: made of the `watch` list of probes/manifest.yaml alone.

Paths have no slash at their beginning there, because the probe stands in the root of what it reads.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from stethoscope.model.wire import expand, paced
from stethoscope.parse.smi import RARE_FIELDS
from stethoscope.specs.probes import load_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.specs.probes import Run, Watch

GPU_S = 60.0
"""nvidia-smi takes seconds on a node with many GPUs: it is asked less often than NVML."""
PATIENCE_S = 5
"""A group that takes longer than its commands may and this is hung."""
STRIKE_S = 2
"""What ending a command takes."""
GPU_LIMIT_S = 60
"""nvidia-smi three times, each 20 s at most."""

_GROUP = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_RUN = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_PATH = re.compile(r"/[A-Za-z0-9_./*?\[\]!:+@%=,-]+", re.ASCII)
"""A path or pattern that a shell reads as such, and as nothing else."""
_CLASSES = {r"\d": "[0-9]", r"\s": "[[:space:]]", r"\S": "[^[:space:]]", r"\w": "[[:alnum:]_]"}
_ESCAPED = re.compile(r"\\(.)")


def functions(groups: Iterable[Watch] | None = None, *, sudo: bool, pace: float = 1.0) -> str:
    """Return the functions that read the groups, of the manifest unless others are given, and start the loop.

    ValueError for a name, path or expression that a shell or grep would read in another way.
    """
    chosen = list(load_manifest().watch if groups is None else groups)
    for group in chosen:
        if not _GROUP.fullmatch(group.id):
            raise ValueError(f"{group.id!r} is no name of a function")
    lines = [f"groups={shlex.quote(' '.join(group.id for group in chosen))}"]
    lines.append(f"gpu_wanted={shlex.quote(' '.join(RARE_FIELDS))}")
    lines += ["prepare() {", "use_sudo" if sudo else ":"]
    for position, group in enumerate(chosen):
        every_s = _every_s(group, pace)
        first_s = every_s * (position + 1) / len(chosen)
        lines.append(
            f"every_{group.id}={every_s:.0f} limit_{group.id}={_limit_s(group):.0f} first_{group.id}={first_s:.0f}"
        )
    lines.append("}")
    for group in chosen:
        lines += [f"read_{group.id}() {{", *(_body(group) or [":"]), "}"]
    return "\n".join(lines)


def extended(expression: str) -> str:
    """Return a regular expression of Python as `grep -E` writes it everywhere; ValueError for what it cannot say."""
    if re.search(r"\(\?|[*+?}][?+]|\[[^\]]*\\|\\[^dsSw.()\[\]{}^$*+?|/-]", expression):
        raise ValueError(f"{expression!r} is more than grep can say")
    return _ESCAPED.sub(lambda match: _CLASSES.get(match[0], match[0]), expression)


def _every_s(group: Watch, pace: float) -> float:
    every_s = paced(group.every_s, pace)
    return max(every_s, GPU_S) if group.id == "gpu" else every_s


def _limit_s(group: Watch) -> float:
    commands = sum((run.limit_s + STRIKE_S) * (8 if run.each else 1) for run in group.run)
    return PATIENCE_S + commands + (GPU_LIMIT_S if group.id == "gpu" else 0)


def _body(group: Watch) -> list[str]:
    """Return the lines of the function: what is alike is read at once, in the order of the manifest."""
    if group.id == "gpu":
        return ["gpus"]
    whole: list[str] = []
    nonzero: list[str] = []
    links: list[str] = []
    others: list[str] = []
    last: list[str] = []
    for read in group.read:
        kind, _, expression = read.keep.partition(" ")
        paths = [_relative(path) for path in expand(read.path)]
        if kind in ("", "once"):
            whole += paths
        elif kind == "nonzero":
            nonzero += paths
        elif kind == "link":
            links += paths
        elif kind == "only":
            others.append(" ".join(["some", shlex.quote(extended(expression)), *paths]))
        elif kind == "count":
            others += [f"count {shlex.quote('/' + path)} {path}" for path in paths]
        elif kind == "ethtool":
            # It prints a colon behind the name.
            names = f"^ *{extended(expression).removeprefix('^').removesuffix('$')}: "
            last.append(" ".join(["interfaces", shlex.quote(names), *paths]))
        elif kind == "tasks":
            last.append("tasks")
    for name, found in (("link", links), ("plain", whole), ("nonzero", nonzero)):
        if found:
            others.append(" ".join([name, *found]))
    return [*others, *(line for run in group.run for line in _run(run)), *last]


def _run(run: Run) -> list[str]:
    if not _RUN.fullmatch(run.id):
        raise ValueError(f"{run.id!r} is no name of a command")
    sudo = ["$sudo"] if run.root else []
    command = ["exec", *sudo, *(shlex.quote(word) for word in run.argv)]
    head = f"{run.limit_s:.0f} {shlex.quote(run.argv[0])} {' '.join(command)}"
    if not run.each:
        return [f"run {run.id} {head}"]
    places = " ".join(_relative(path) for path in expand(run.each))
    return [f"for each in {places}; do", f'[ ! -e "$each" ] || run "{run.id} ${{each##*/}}" {head} "/$each"', "done"]


def _relative(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no path that a shell reads alike")
    return path[1:]
