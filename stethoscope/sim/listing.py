"""The fault kinds as people choose them: what is wrong, where it may be, and what can be set."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.scenarios import bundled, open_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.sim.kinds.kind import Kind
    from stethoscope.specs.scenario import Param, Value

SCHEMA = "stethoscope.sim_list/1"
PLACES = {
    "node": "NODE", "gpu": "NODE/gpu/N", "ib": "NODE/ib/HCA", "nvlink": "NODE/nvlink/GPU/LINK",
    "disk": "NODE/disk/NAME", "cpu": "NODE/cpu", "rack": "rack/NAME", "pod": "pod/NAME", "leaf": "leaf/NAME",
    "job": "job/ID", "rank": "job/ID/rank/N", "storage": "storage/NAME", "fleet": "fleet",
}  # fmt: skip
"""Form of a place -> how it is written."""
_LEAST = 24
"""So many cells a meaning gets at least."""


def kinds_json() -> dict[str, Any]:
    """Return scenarios and kinds as a document."""
    return {
        "schema": SCHEMA,
        "scenarios": [{"name": name, "title": open_scenario(name).title} for name in bundled()],
        "kinds": [
            {
                "kind": name,
                "title": kind.title,
                "root_cause": kind.root_cause,
                "scope": kind.scope,
                "severity": kind.severity,
                "where": [PLACES[form] for form in sorted(kind.targets)],
                "params": [
                    {
                        "name": param_name, "default": _default(param), "unit": param.unit, "words": list(param.words),
                        "meaning": param.meaning,
                    }
                    for param_name, param in kind.params.items()
                ],
            }
            for name, kind in KINDS.items()
        ],
    }  # fmt: skip


def kind_lines(cells: int) -> Iterator[str]:
    """Yield the lines that describe every kind, harmless ones last, none longer than `cells` where words can be
    broken."""
    order = sorted(KINDS.items(), key=lambda item: item[1].root_cause == "healthy")
    for name, kind in order:
        nature = "harmless" if kind.root_cause == "healthy" else f"{kind.root_cause}, {kind.scope}, {kind.severity}"
        yield from wrap(f"{name}: {kind.title} ({nature})", cells, subsequent_indent="    ", break_on_hyphens=False)
        yield f"    where   {' or '.join(PLACES[form] for form in sorted(kind.targets))}"
        yield from _param_lines(kind, cells)


def _param_lines(kind: type[Kind], cells: int) -> Iterator[str]:
    told = [
        (f"{name}={_written(param)} {param.unit if param.unit not in ('text', 'bool', 's', 'list') else ''}", param)
        for name, param in kind.params.items()
    ]
    width = max((len(said.rstrip()) for said, _ in told), default=0)
    for number, (said, param) in enumerate(told):
        words = f"one of {', '.join(param.words)}" if param.words else ""
        meaning = "; ".join(part for part in (param.meaning, words) if part)
        head = f"    {'params' if number == 0 else '':7} {said.rstrip():{width}}  "
        lines = wrap(meaning, max(_LEAST, cells - len(head)), break_on_hyphens=False) or [""]
        yield f"{head}{lines[0]}".rstrip()
        yield from (f"{'':{len(head)}}{line}" for line in lines[1:])


def _default(param: Param) -> Value:
    value = param.default
    return list(value) if isinstance(value, tuple) else value  # type: ignore[return-value]


def _written(param: Param) -> str:
    value = _default(param)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}{'s' if param.unit == 's' else ''}"
    return str(value)
