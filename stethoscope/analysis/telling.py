"""What the finding of a common cause says: `12 of 12 ports of leaf-01-3: link is down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.blind import RULE, THIS_MACHINE
from stethoscope.analysis.causal import root_cause
from stethoscope.clock import iso
from stethoscope.model.finding import Fact, Finding, Severity
from stethoscope.model.ids import fold, node_of
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.analysis.correlation import Dark
    from stethoscope.analysis.evidence import Writer
    from stethoscope.analysis.joined import Joined
    from stethoscope.model.fleet import FleetSnapshot, Floats
    from stethoscope.specs.rule import Rule

QUOTED = 3
"""Places of one finding whose facts are quoted."""
_MOST_WITH = 2
"""Headlines of consequences that a summary names."""
_UNITS = {
    Scope.NODE: "nodes", Scope.GPU: "GPUs", Scope.PORT: "ports", Scope.NVLINK: "NVLinks", Scope.PCIE: "PCIe devices",
    Scope.NET: "interfaces", Scope.DISK: "disks", Scope.FS: "mounts",
}  # fmt: skip
_NAMED = ("leaf/", "rack/", "pod/")
"""Places whose own name says what they are."""


def short(cause: str) -> str:
    """Return a cause as a sentence has it: `leaf-01-3`, `job 4242`, `driver 550.90.07`."""
    kind, slash, name = cause.partition("/")
    if cause.startswith(_NAMED):
        return name if kind in name else f"{kind} {name}"
    return f"{kind} {name}" if slash and kind in ("job", "storage") else cause


def of_cause(
    id_: str,
    joined: Joined,
    rules: Sequence[Rule],
    writers: Mapping[int, Writer],
    since: Sequence[Floats],
    wall: float,
    *,
    suspect: str = "",
    before: Finding | None = None,
) -> Finding:
    """Return the finding of one cause with everything that is found because of it. `suspect` says what else there is to
    say of it; `before` is a finding about the very same places."""
    cause, first = joined.cause, rules[joined.first]
    order = [joined.first, *(number for number in sorted(joined.parts) if number != joined.first)]
    order = [number for number in order if joined.parts.get(number)]
    headlines = dict.fromkeys(_headline(writers[number], joined.parts[number][0], since[number]) for number in order)
    what, *others = headlines
    unit = "nodes" if cause.kind.of_nodes else _UNITS[first.scope]
    share = f"{cause.affected} of {cause.members}"
    summary = f"{share} {unit} {cause.kind.says.format(short(cause.name))}: {what}"
    if others:
        more = f" and {len(others) - _MOST_WITH} more" if len(others) > _MOST_WITH else ""
        summary += f" · with it: {', '.join(others[:_MOST_WITH])}{more}"
    if suspect:
        summary += f" · {suspect}"
    elsewhere = f"elsewhere {cause.outside_affected} of {cause.outside}" if cause.outside else ""
    facts = [Fact("affected together", f"{share} {unit}", elsewhere, cause.name, iso(wall), "console")]
    for number in order:
        rows = joined.parts[number][: QUOTED if number == joined.first else 1]
        facts += [fact for row in rows for fact in writers[number].facts(row)]
    finding = Finding(
        id=id_,
        rule=first.id,
        severity=min((rules[number].severity for number in order), key=lambda severity: severity.rank),
        where=_places(joined.parts, order, writers) if before is None else before.where,
        nodes=_nodes(joined.parts, order, writers) if before is None else before.nodes,
        since=iso(_since(joined.parts, order, writers, since)) if before is None else before.since,
        summary=summary,
        confidence=first.confidence,
        root_cause=root_cause(cause.kind.name, first),
        evidence=tuple(facts),
        cause=cause.name,
        explained=sum(
            len({writers[number].node(row) for row in joined.parts[number]})
            if rules[number].per_node
            else len(joined.parts[number])
            for number in order
        ),
    )
    row = joined.parts[joined.first][0] if joined.parts.get(joined.first) else None
    if row is None:
        return finding
    return writers[joined.first].acted(finding, row, float(since[joined.first][row]))


def of_dark(dark: Dark, writers: Mapping[int, Writer], since: Sequence[Floats], snapshot: FleetSnapshot) -> Finding:
    """Return the finding of a broken path: what is behind it cannot be seen, and nobody knows how it is."""
    path, order = dark.path, sorted(dark.parts)
    left = len({row for rows in dark.parts.values() for row in rows})
    count = f"{left} of {path.members} nodes" if left < path.members else f"{left} nodes"
    if path.is_login:
        said = "every node refuses the login: look at the key or agent of this machine"
    elif path.name == THIS_MACHINE:
        said = "no node is heard: look at this machine and its network first"
    else:
        said = f"nothing behind {path.name} is heard"
    if left < path.members:
        said = f"coming back by {path.name}" if path.name != THIS_MACHINE else "coming back"
    facts = [Fact("nodes heard", path.members - left, str(path.members), path.name, iso(snapshot.wall), "link")]
    for number in order:
        facts += [fact for row in dark.parts[number][:QUOTED] for fact in writers[number].facts(row)]
    return Finding(
        id=f"{RULE}@{path.name}",
        rule=RULE,
        severity=Severity.P1,
        where=_places(dark.parts, order, writers),
        nodes=_nodes(dark.parts, order, writers),
        since=iso(min(path.since, _since(dark.parts, order, writers, since))),
        summary=f"telemetry lost: {said} · {count}",
        confidence=0.9,
        root_cause="telemetry_lost",
        evidence=tuple(facts),
        cause=path.name,
        explained=left,
    )


def _headline(writer: Writer, row: int, since: Floats) -> str:
    return writer.headline if writer.is_same_everywhere else writer.text(writer.headline, row, float(since[row]))


def _places(parts: Mapping[int, Sequence[int]], order: Sequence[int], writers: Mapping[int, Writer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(writers[number].place(row) for number in order for row in parts[number]))


def _nodes(parts: Mapping[int, Sequence[int]], order: Sequence[int], writers: Mapping[int, Writer]) -> str:
    return fold(dict.fromkeys(node_of(place) for place in _places(parts, order, writers)))


def _since(
    parts: Mapping[int, Sequence[int]], order: Sequence[int], writers: Mapping[int, Writer], since: Sequence[Floats]
) -> float:
    def began(number: int, row: int) -> float:
        own = float(since[number][row])
        return writers[number].began(row, own) if writers[number].knows_better else own

    return min(began(number, row) for number in order for row in parts[number])
