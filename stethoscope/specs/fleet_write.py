"""Writes a fleet file from what was found out about nodes: settings that many share once, the rest where it differs."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.model.ids import expand, fold
from stethoscope.specs.fleet import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_HOST_LINES = 20_000


@dataclass(slots=True)
class Draft:
    """One node to be written; what is None or empty is left out."""

    name: str
    address: str | None = None
    gpus: int | None = None
    rack: str = ""
    pod: str = ""
    ports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Device -> rail and leaf."""


@dataclass(slots=True)
class Plan:
    """A fleet file to be."""

    name: str
    drafts: list[Draft]
    groups: dict[str, list[str]] = field(default_factory=dict)
    """Groups by name without settings of their own: partitions, groups of other tools."""
    slurm: Mapping[str, str | int] = field(default_factory=dict)
    """Settings of the Slurm login, empty without one."""
    origin: str = ""
    """What it was made from, for its first comment."""


def fleet_text(plan: Plan) -> str:
    """Return the text of the file; it loads again and describes the same nodes."""
    lines = [
        f"# Fleet of {len(plan.drafts):,} nodes{f', {_comment(plan.origin)}' if plan.origin else ''}.",
        "# Change what is not so. What no line gives (user, port, jump host, key) comes from ~/.ssh/config.",
        "# A node takes each setting from `hosts`, else from the last group that names it, else from `defaults`.",
        f"schema: {SCHEMA}",
        f"name: {_quoted(plan.name)}",
    ]
    usual_gpus = _most_common(draft.gpus for draft in plan.drafts)
    lines += [
        f"defaults: {{gpus: {usual_gpus}}}" if usual_gpus is not None else "# defaults: {gpus: 8}",
        "# What else can be said there, in a group, or of a host:",
        "#   user, port, jump, address, identity_file, known_hosts",
        "#   interval: 5s             time between two frames; without it 2s up to 256 nodes, else 5s",
        "#   gpus: 8, ib_ports: 8, ib_gbps: 400     what a node must have",
        '#   sudo: "-n"               allow `sudo -n` for what needs root; without it nothing asks for it',
        '#   job_logs: ["/shared/logs/slurm-%j.out"]',
        '#   ports: {"mlx5_[0-7]": {rail: "{n}", leaf: "leaf-01-{n}"}}',
    ]
    if plan.slurm:
        said = ", ".join(f"{key}: {_quoted(value)}" for key, value in plan.slurm.items())
        lines += [
            "# Where `scontrol` and `squeue` run; node states and jobs are read there every 30 s.",
            f"slurm: {{{said}}}",
        ]
    lines += ["groups:", *_group_lines(plan, usual_gpus), *_host_lines(plan)]
    return "\n".join(lines) + "\n"


def _group_lines(plan: Plan, usual_gpus: int | None) -> list[str]:
    alike: dict[tuple[str, str, int | None, tuple[tuple[str, tuple[str, str]], ...]], list[str]] = {}
    for draft in plan.drafts:
        gpus = draft.gpus if draft.gpus != usual_gpus else None
        alike.setdefault((draft.rack, draft.pod, gpus, tuple(sorted(draft.ports.items()))), []).append(draft.name)
    lines: list[str] = []
    # Names of partitions and of other tools' groups stay what they are: people ask for them.
    taken = set(plan.groups)
    for (rack, pod, gpus, ports), names in alike.items():
        title = _free(rack or pod or "nodes", taken)
        lines += [f"  {_quoted(title)}:", f"    nodes: {_set(names)}"]
        if rack:
            lines.append(f"    rack: {_quoted(rack)}")
        if pod:
            lines.append(f"    pod: {_quoted(pod)}")
        if gpus is not None:
            lines.append(f"    gpus: {gpus}")
        if ports:
            lines += ["    ports:", *(f"      {line}" for line in _port_lines(dict(ports)))]
    for name, members in plan.groups.items():
        known = {draft.name for draft in plan.drafts}
        inside = [member for member in members if member in known]
        if inside:
            lines.append(f"  {_quoted(name)}: {{nodes: {_set(inside)}}}")
    return lines


def _port_lines(ports: dict[str, tuple[str, str]]) -> list[str]:
    """Return the lines of a port table, one for all devices whose rail and leaf follow from their number."""
    patterns: dict[tuple[str, str, str], list[str]] = {}
    for name, (rail, leaf) in ports.items():
        device, _, port = name.partition(":")
        number = re.search(r"(\d+)$", device)
        if number is not None:
            n = number[1]
            rail = "{n}" if rail == n else rail
            leaf = re.sub(rf"(?<!\d){n}(?=\D*$)", "{n}", leaf, count=1)
        patterns.setdefault((port, rail, leaf), []).append(device)
    lines = []
    for (port, rail, leaf), devices in patterns.items():
        suffix = f":{port}" if port else ""
        if len(devices) == 1:
            rail, leaf = ports[devices[0] + suffix]
        key = fold(devices)
        # A set that does not read back as it is would be worse than a long table.
        keys = [key] if sorted(expand(key)) == sorted(devices) else devices
        said = ", ".join(f"{what}: {_quoted(text)}" for what, text in (("rail", rail), ("leaf", leaf)) if text)
        lines += [f"{_quoted(name + suffix)}: {{{said}}}" for name in keys]
    return lines


def _host_lines(plan: Plan) -> list[str]:
    addressed = [draft for draft in plan.drafts if draft.address]
    if not addressed:
        return []
    return [
        "hosts:",
        *(
            f"  {_quoted(draft.name)}: {{address: {_quoted(draft.address or '')}}}"
            for draft in addressed[:_MAX_HOST_LINES]
        ),
    ]


def _set(names: list[str]) -> str:
    folded = fold(names)
    return _quoted(folded) if expand(folded) and set(expand(folded)) == set(names) else json.dumps(names)


def _free(title: str, taken: set[str]) -> str:
    name, number = title, 2
    while name in taken:
        name, number = f"{title}-{number}", number + 1
    taken.add(name)
    return name


def _most_common(values: Iterable[int | None]) -> int | None:
    counts = Counter(value for value in values if value is not None)
    return counts.most_common(1)[0][0] if counts else None


def _comment(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)


def _quoted(value: str | int) -> str:
    """Return a scalar that YAML reads as this very text or number: bare where that is safe, else in quotes."""
    if isinstance(value, int):
        return str(value)
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


_WORDS = frozenset({"on", "off", "yes", "no", "true", "false", "null", "y", "n", "nan", "inf"})
