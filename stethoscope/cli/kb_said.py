"""Options that say what an incident is, for `kb add`; words that have to be known are checked here."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.kb_shared import given, moment
from stethoscope.cli.kb_source import OF_NOW_S
from stethoscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from stethoscope.model.incident import Incident, Times

SEVERITIES = ("P0", "P1", "P2", "info", "none")
_TIMES = ("began", "detected", "located", "mitigated", "resolved")
_TEXTS = {
    "title": "What happened, in one line.",
    "component": "What was broken: gpu, nvlink, pcie, nic, optic, cable, switch, disk, storage ...",
    "fleet": "Name of the fleet.",
    "nodes": "Nodes that were touched: 'gpu-[003,007-009]'.",
    "job": "Id of the job.",
    "fixed": "What fixed it, in your words and language.",
    "author": "Who writes this down. [you]",
}
_LISTS = {
    "place": "A culprit: gpu-014/gpu/3, gpu-007/ib/mlx5_3, leaf/leaf-01.",
    "around": "Where it hangs: leaf/leaf-01, rack/r3.",
    "symptom": "What was seen: xid.79, nccl.timeout, the id of a rule.",
    "tag": "A word to find it by.",
    "link": "HOW:TO, such as ticket:OPS-12 or same_as:INC-2026-03-14-k7qmx.",
}


@dataclass(frozen=True, slots=True)
class Said:
    """What the flags say of an incident."""

    values: dict[str, Any]

    @property
    def tells_when(self) -> bool:
        """Tell whether anything says when it was, or that it is over."""
        return any(self.values.get(name) is not None for name in (*_TIMES, "fixed"))

    def into(self, incident: Incident, now: float) -> Incident:
        """Return the incident with what the flags say in place of what is filled in; UsageError for what cannot be."""
        from stethoscope.model.finding import Severity
        from stethoscope.model.incident import Status

        values = {name: value for name, value in self.values.items() if value not in (None, ())}
        times = {name: moment(f"--{name}", values.get(name), now) for name in _TIMES if name in values}
        changes: dict[str, Any] = {name: values[name] for name in ("title", "fleet", "job", "author") if name in values}
        changes["times"] = replace(incident.times, **times)
        if "cause" in values:
            changes["root_cause"] = root_cause(values["cause"])
        if "component" in values:
            changes["component"] = component(values["component"])
        if "nodes" in values:
            from stethoscope.model.ids import expand, fold

            changes["nodes"] = fold(expand(values["nodes"]))
        if "severity" in values:
            changes["severity"] = Severity(values["severity"])
        if "fixed" in values:
            changes["resolution"] = values["fixed"]
            # What is fixed is over, unless somebody says otherwise; when, nobody knows of what was long ago.
            changes["status"] = Status.RESOLVED
            known = {name: when for name in _TIMES if (when := getattr(changes["times"], name)) is not None}
            # A log of last night that is read now was located now at the earliest: that says nothing.
            seen = [known[name] for name in ("began", "detected", "mitigated") if name in known] or [
                *known.values(),
                now,
            ]
            if changes["times"].resolved is None and now - max(seen) < OF_NOW_S:
                changes["times"] = replace(changes["times"], resolved=now)
        if "status" in values:
            changes["status"] = Status(values["status"])
            if values["status"] == "open":
                changes["times"] = replace(changes["times"], resolved=times.get("resolved"))
        in_order(changes["times"], times)
        if "body" in values:
            changes["body"] = given("--body", values["body"])
        for name, of in (("place", "places"), ("around", "around"), ("symptom", "symptoms"), ("tag", "tags")):
            if name in values:
                for value in values[name] if name != "tag" else ():
                    if not value.strip() or len(value.split()) > 1:
                        raise UsageError(f'--{name}: "{value}" is no name: it has blanks, or nothing, in it')
                changes[of] = tuple(dict.fromkeys((*getattr(incident, of), *values[name])))
        if "link" in values:
            changes["links"] = (*incident.links, *(_link(text) for text in values["link"]))
        return replace(incident, **changes)


def said_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say what an incident is; it gets them as one argument, `said`."""
    names = [*_TEXTS, *_LISTS, *_TIMES, "cause", "severity", "status", "body"]

    @functools.wraps(function)
    def with_said(*args: Any, **options: Any) -> Any:
        return function(*args, said=Said({name: options.pop(name) for name in names}), **options)

    options = [
        *(click.option(f"--{name}", metavar="TEXT", help=text) for name, text in _TEXTS.items()),
        click.option("--cause", metavar="ID", help="Root cause, as `playbook list --json` names them."),
        click.option("--severity", type=click.Choice(SEVERITIES), help="How urgent it was. [P1]"),
        click.option("--status", type=click.Choice(("open", "mitigated", "resolved")), help="How far it is."),
        *(click.option(f"--{name}", metavar="TEXT", multiple=True, help=text) for name, text in _LISTS.items()),
        *(click.option(f"--{name}", metavar="TIME", help=f"When it {_WHEN[name]}.") for name in _TIMES),
        click.option("--body", metavar="FILE", help="Markdown for its text; - is stdin."),
    ]
    decorated: Callable[..., Any] = with_said
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def in_order(times: Times, said: Collection[str]) -> None:
    """Raise UsageError where a time that the flags say stands before it all began."""
    from stethoscope.clock import iso

    first = [(name, when) for name in ("began", "detected") if (when := getattr(times, name)) is not None]
    for name in ("located", "mitigated", "resolved"):
        when = getattr(times, name)
        for start, began in first[:1]:
            if when is not None and when < began and {name, start} & set(said):
                raise UsageError(f"{name} {iso(when)} is before it {_STARTS[start]}, {iso(began)}")


_STARTS = {"began": "began", "detected": "was seen"}
_WHEN = {
    "began": "began: 02:14, 2026-03-14T02:14:07Z, 2h ago as 2h",
    "detected": "was seen first",
    "located": "was known where and why",
    "mitigated": "let work go on",
    "resolved": "was over",
}


def root_cause(word: str) -> str:
    """Return the id of a root cause; UsageError for one that is not known."""
    from stethoscope.specs.root_cause import load_root_causes

    known = load_root_causes()
    if word not in known:
        raise UsageError(f'--cause: no root cause "{word}"{did_you_mean(word, known)}')
    return word


def component(word: str) -> str:
    """Return a word for what was broken; UsageError for another one."""
    from stethoscope.model.incident import COMPONENTS

    if word not in COMPONENTS:
        raise UsageError(f'--component: "{word}" is none of {", ".join(COMPONENTS)}{did_you_mean(word, COMPONENTS)}')
    return word


def _link(text: str) -> Any:
    from stethoscope.model.incident import Link

    how, colon, to = text.partition(":")
    if not colon or not how.strip() or not to.strip():
        raise UsageError(f'--link: "{text}" is not HOW:TO, such as ticket:OPS-12')
    return Link(how.strip(), to.strip())
