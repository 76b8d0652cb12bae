"""Whether a scenario can be played, and whether what it expects can be said at all: every error with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.clock import duration
from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.sim.columns import DISK_RATES
from stethoscope.sim.layout import Layout
from stethoscope.sim.overrides import Override
from stethoscope.sim.scenarios import bundled, vocabulary
from stethoscope.specs.duration import duration_s
from stethoscope.specs.load import SeveralDataError, load
from stethoscope.specs.place import place
from stethoscope.specs.probes import load_manifest
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.scenario import Fault, ProbeOutput, SetValue
from stethoscope.specs.scenario_read import read_scenario
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.specs.load import Loaded
    from stethoscope.specs.root_cause import RootCause
    from stethoscope.specs.scenario import Expect, Scenario

LEAD_IN_S = 180.0
"""A job is healthy for so long before a fault begins: only who knows how it was can tell that it is slower."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with one file, and what is in it when nothing is."""

    file: str
    errors: tuple[DataError, ...] = ()
    remarks: tuple[str, ...] = ()
    """What a reader should know although it can be played."""
    id: str = ""
    summary: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "file": self.file,
            "id": self.id or None,
            "ok": not self.errors,
            "errors": [{"where": error.where, "message": error.message} for error in self.errors],
            "remarks": list(self.remarks),
            "summary": self.summary or None,
        }


def check_scenario(name: str) -> Checked:
    """Check the scenario in a file, or a bundled one by its name; UsageError for a name that none has."""
    path = name if "/" in name or name.endswith((".yaml", ".yml")) else str(bundled().get(name, ""))
    if not path:
        raise UsageError(f'no scenario "{name}"{did_you_mean(name, bundled())}')
    try:
        loaded = load(path)
        scenario = read_scenario(loaded, vocabulary())
    except DataError as error:
        return Checked(name, error.errors if isinstance(error, SeveralDataError) else (error,))
    errors = [] if scenario.expect is None else list(_expected(loaded, scenario, scenario.expect, load_root_causes()))
    if errors:
        return Checked(name, tuple(errors), id=scenario.id)
    return Checked(name, (), tuple(_remarks(path, scenario)), scenario.id, _summary(scenario))


def _expected(
    loaded: Loaded, scenario: Scenario, expect: Expect, causes: Mapping[str, RootCause]
) -> Iterator[DataError]:
    """Yield what is wrong with what a scenario expects."""
    known = causes.get(expect.root_cause)
    if known is None and expect.root_cause != "unknown":
        near = did_you_mean(expect.root_cause, causes)
        yield loaded.error(f'no root cause "{expect.root_cause}"{near}', "expect", "root_cause")
    layers = {cause.layer for cause in causes.values()} | {"none"}
    if expect.layer not in layers:
        listed = f"{did_you_mean(expect.layer, layers)}; it is one of {', '.join(sorted(layers))}".replace("?;", "?")
        yield loaded.error(f'no layer "{expect.layer}"{listed}', "expect", "layer")
    elif known is not None and expect.root_cause not in ("healthy", "unknown") and expect.layer != known.layer:
        yield loaded.error(f"{expect.root_cause} is of the layer {known.layer}", "expect", "layer")
    if expect.root_cause == "healthy" and (expect.culprits or expect.severity != "none" or expect.scope != "none"):
        yield loaded.error("in a healthy fleet scope and severity are none, and nobody is a culprit", "expect")
    for field in ("culprits", "not_blamed"):
        for number, text in enumerate(getattr(expect, field)):
            nodes = {name: position for position, name in enumerate(scenario.fleet.node_names())}
            try:
                place(text, scenario.fleet, nodes, {job.id: job for job in scenario.jobs})
            except ValueError as error:
                yield loaded.error(str(error), "expect", field, number)
    if expect.detect_within is not None:
        try:
            duration_s(expect.detect_within)
        except ValueError as error:
            yield loaded.error(str(error), "expect", "detect_within")
    answers = {"scope", "layer", "root_cause", "culprits", "severity"}
    for name in expect.accept:
        if name not in answers:
            where = loaded.where_key("expect", "accept", name)
            yield DataError(f'"{name}" is no answer{did_you_mean(name, answers)}', where=where)
    for number, word in enumerate(expect.accept.get("root_cause", ())):
        if word not in causes:
            near = did_you_mean(word, causes)
            yield loaded.error(f'no root cause "{word}"{near}', "expect", "accept", "root_cause", number)


def _remarks(path: str, scenario: Scenario) -> Iterator[str]:
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    if stem != scenario.id:
        yield f'it calls itself "{scenario.id}", not as its file'
    late = [event for event in scenario.events if event.at_s >= scenario.duration_s]
    if late:
        yield f"{len(late)} of its events begin behind its end of {duration(scenario.duration_s)}"
    early = [event for event in scenario.events if isinstance(event, Fault) and 0 < event.at_s < LEAD_IN_S]
    if early and scenario.jobs:
        yield f"{early[0].kind} begins at {early[0].at_s:g}s: before {LEAD_IN_S:g}s nobody knows a healthy job"
    yield from _in_vain(scenario)
    if scenario.expect is None:
        yield "nothing is expected: a drill plays it and scores nothing"
    elif scenario.expect.root_cause not in ("healthy", "unknown") and not scenario.expect.culprits:
        yield "a root cause is expected and no culprit"


def _in_vain(scenario: Scenario) -> Iterator[str]:
    """Yield what happens and nobody can see."""
    layout = Layout(scenario)
    probes = {probe.id for probe in load_manifest().ondemand}
    for event in scenario.events:
        if isinstance(event, SetValue):
            override = Override(event, layout)
            what = f"set {event.metric} at {clean(event.where.text, 80)}"
            if not override.mask.any():
                yield f"{what}: nothing there has it"
            elif isinstance(event.value, str) and (override.scope is not None or event.metric in DISK_RATES):
                yield f'{what}: it is a number, "{clean(event.value, 40)}" changes nothing'
        elif isinstance(event, ProbeOutput) and event.probe not in probes:
            near = did_you_mean(event.probe, probes)
            if near:
                yield f'probe_output at {clean(event.where.text, 80)}: no probe "{clean(event.probe, 40)}"{near}'


def _summary(scenario: Scenario) -> str:
    def count(number: int, what: str) -> str:
        return f"{number} {what}{'' if number == 1 else 's'}"

    faults = sum(isinstance(event, Fault) for event in scenario.events)
    parts = [
        count(scenario.fleet.nodes, "node"), count(len(scenario.jobs), "job"), count(faults, "fault"),
        f"{scenario.duration_s / 60:g} min" if scenario.duration_s >= 30 else f"{scenario.duration_s:g} s",
    ]  # fmt: skip
    expect = scenario.expect
    wanted = "" if expect is None else f"; expects {' '.join([expect.scope, expect.root_cause, *expect.culprits])}"
    return f"{', '.join(parts)}{wanted}"
