"""Reads scenarios: places, metrics, GPU models and fault kinds are checked against a Vocabulary, so that a typing
mistake is an error with its position and not a scenario in which nothing happens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from stethoscope.errors import DataError, StethoscopeError, did_you_mean
from stethoscope.model.ids import expand
from stethoscope.specs.duration import duration_s
from stethoscope.specs.load import Loaded, Spec, convert, load, loads, several
from stethoscope.specs.place import FleetShape, Place, place
from stethoscope.specs.scenario import (
    SCHEMA,
    Event,
    Expect,
    Fault,
    Job,
    LogLine,
    Param,
    ProbeOutput,
    Scenario,
    SetValue,
    Shares,
    Value,
    Vocabulary,
)
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_Positive = Annotated[float, msgspec.Meta(gt=0)]
_Time = float | str
_LONGEST_S = 100 * 3600.0
"""So long a scenario lasts at most: a mistake in its unit would be played for ever."""
_LONGEST_ID = 120
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
"""A word of a fault in a line; spaces stand in quotes."""
_MOST_WORDS = 24
"""So many words are listed where one is not known and none is near."""


class _JobForm(Spec, frozen=True):
    id: str
    nodes: str
    step_time_s: _Positive
    shares: Shares
    samples_per_step: _Positive
    framework: str = "pytorch"


class _SetForm(Spec, frozen=True):
    where: str
    metric: str
    value: float | str | bool | None
    ramp: _Time = 0.0


class _LineForm(Spec, frozen=True):
    where: str
    line: str


class _ProbeForm(Spec, frozen=True):
    where: str
    probe: str
    text: str


class _EventForm(Spec, frozen=True):
    at: _Time
    until: _Time | None = None
    fault: str | None = None
    where: str | None = None
    params: dict[str, float | str | bool | tuple[float, ...] | None] = msgspec.field(default_factory=dict)
    set: _SetForm | None = None
    kernel_log: _LineForm | None = None
    job_log: _LineForm | None = None
    probe_output: _ProbeForm | None = None


class _Form(Spec, frozen=True):
    schema: Literal["stethoscope.scenario/1"]
    id: str
    title: str
    duration: _Time
    fleet: FleetShape
    source: str = "constructed"
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    jobs: tuple[_JobForm, ...] = ()
    events: tuple[_EventForm, ...] = ()
    background: tuple[_EventForm, ...] = ()
    expect: Expect | None = None


def load_scenario(path: Path, words: Vocabulary) -> Scenario:
    """Return the scenario in the file at `path`; raises DataError with file, line and column."""
    return read_scenario(load(path), words)


def read_scenario(loaded: Loaded, words: Vocabulary) -> Scenario:
    """Return the scenario in a loaded file; raises DataError with file, line and column."""
    form = convert(loaded, _Form)
    if form.fleet.gpu not in words.gpus:
        raise loaded.error(f'unknown GPU "{form.fleet.gpu}"{_known_words(form.fleet.gpu, words.gpus)}', "fleet", "gpu")
    nodes = {name: position for position, name in enumerate(form.fleet.node_names())}
    for node in form.fleet.drift:
        if node not in nodes:
            raise loaded.error(f'no node "{node}" in this fleet of {form.fleet.nodes}', "fleet", "drift", node)
    if clean(form.id, _LONGEST_ID) != form.id or not form.id:
        raise loaded.error(f"an id is one line of at most {_LONGEST_ID} characters that can be printed", "id")
    jobs = tuple(_job(loaded, job, number, nodes) for number, job in enumerate(form.jobs))
    for number, job in enumerate(jobs):
        if job.id in {one.id for one in jobs[:number]}:
            raise loaded.error(f'a job "{clean(job.id, 80)}" stands here twice', "jobs", number, "id")
    reader = _Events(loaded, form, nodes, jobs, words)
    duration = reader.seconds(form.duration, "duration")
    if not 0 < duration <= _LONGEST_S:
        raise loaded.error(f"a scenario lasts more than nothing, and at most {_LONGEST_S / 3600:g}h", "duration")
    return Scenario(
        id=form.id,
        title=form.title,
        source=form.source,
        seed=form.seed,
        duration_s=duration,
        fleet=form.fleet,
        jobs=jobs,
        events=reader.all(background=form.background, events=form.events),
        expect=form.expect,
    )


def read_fault(text: str, scenario: Scenario, words: Vocabulary, now_s: float, *, name: str = "fault") -> Fault:
    """Return the fault that a line of words means: its kind, its place, then `key=value`; raises DataError.

    `at` and `until` are times of the scenario, or with a `+` from `now_s` on, at which it begins where nothing is said;
    everything else are parameters of the kind: `ib_link_down gpu-007/ib/mlx5_3 at=+30s outcome=hang`. Spaces stand in
    quotes.
    """
    if _WORD.sub("", text).strip():
        raise DataError("a quote that is opened is not closed", where=name)
    head, *pairs = _WORD.findall(text) or [""]
    where = pairs.pop(0) if pairs and "=" not in pairs[0] else None
    times: dict[str, float] = {}
    params: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise DataError(f'"{clean(pair, 80)}" is not key=value', where=name)
        if key in ("at", "until"):
            try:
                times[key] = duration_s(value.removeprefix("+")) + (now_s if value[0] == "+" else 0.0)
            except ValueError as error:
                raise DataError(f"{key}: {error}", where=name) from None
        else:
            params[key] = loads(value, name).data
    at_s = times.get("at", now_s)
    if at_s < now_s:
        raise DataError(f"at={at_s:g}s is over: it is {now_s:.0f}s now; at=+30s is in half a minute", where=name)
    event: dict[str, Any] = {"at": at_s, "fault": head, "params": params, "where": where, **times}
    document = {
        "schema": SCHEMA, "id": scenario.id, "title": "", "duration": scenario.duration_s, "events": [event],
        "fleet": msgspec.to_builtins(scenario.fleet),
    }  # fmt: skip
    loaded = Loaded(name, "", document)
    nodes = {node: position for position, node in enumerate(scenario.fleet.node_names())}
    form = convert(loaded, _Form)
    (found,) = _Events(loaded, form, nodes, scenario.jobs, words).all(events=form.events)
    assert isinstance(found, Fault)
    return found


def _job(loaded: Loaded, form: _JobForm, number: int, nodes: Mapping[str, int]) -> Job:
    shares = form.shares
    if abs(shares.compute + shares.comm + shares.data + shares.other - 1) > 0.005:
        raise loaded.error("the shares do not add up to 1", "jobs", number, "shares")
    try:
        names = expand(form.nodes)
    except StethoscopeError as error:
        raise loaded.error(str(error), "jobs", number, "nodes") from error
    for name in names:
        if name not in nodes:
            raise loaded.error(f'no node "{name}" in this fleet of {len(nodes)}', "jobs", number, "nodes")
    return Job(
        id=form.id,
        nodes=tuple(nodes[name] for name in names),
        step_time_s=form.step_time_s,
        shares=shares,
        samples_per_step=form.samples_per_step,
        framework=form.framework,
    )


class _Events:
    """Reads the events of one file."""

    def __init__(
        self, loaded: Loaded, form: _Form, nodes: Mapping[str, int], jobs: tuple[Job, ...], words: Vocabulary
    ) -> None:
        self._loaded = loaded
        self._fleet = form.fleet
        self._nodes = nodes
        self._jobs = {job.id: job for job in jobs}
        self._words = words

    def seconds(self, value: float | str, *path: str | int) -> float:
        try:
            return duration_s(value)
        except ValueError as error:
            raise self._loaded.error(str(error), *path) from error

    def all(self, **sections: tuple[_EventForm, ...]) -> tuple[Event, ...]:
        """Return the events of all sections; what is wrong with any of them is said at once."""
        found: list[Event] = []
        errors: list[DataError] = []
        for section, forms in sections.items():
            for number, form in enumerate(forms):
                try:
                    found.append(self._event(form, section, number))
                except DataError as error:
                    errors.append(error)
        if errors:
            raise several(errors)
        return tuple(found)

    def _event(self, form: _EventForm, *path: str | int) -> Event:
        at_s = self.seconds(form.at, *path, "at")
        until_s = None if form.until is None else self.seconds(form.until, *path, "until")
        if until_s is not None and until_s <= at_s:
            raise self._loaded.error("until is not after at", *path, "until")
        forms = ("fault", "set", "kernel_log", "job_log", "probe_output")
        given = [name for name in forms if getattr(form, name) is not None]
        if len(given) != 1:
            raise self._loaded.error(f"an event is one of {', '.join(forms)}; this one has {len(given)} of them", *path)
        if given[0] != "fault":
            for name in ("where", "params"):
                if getattr(form, name):
                    raise DataError(f'"{name}" belongs to a fault', where=self._loaded.where_key(*path, name))
        if form.set is not None:
            return self._set(form.set, at_s, until_s, *path, "set")
        if form.probe_output is not None:
            place = self._place(form.probe_output.where, *path, "probe_output", "where")
            return ProbeOutput(at_s, until_s, place, form.probe_output.probe, form.probe_output.text)
        line = form.kernel_log or form.job_log
        if line is not None:
            place = self._place(line.where, *path, given[0], "where")
            needed = {"node"} if form.kernel_log else {"job", "rank"}
            if place.form not in needed:
                raise self._loaded.error(f'"{place.text}" has no such log', *path, given[0], "where")
            return LogLine(at_s, given[0].split("_")[0], place, line.line)
        return self._fault(form, at_s, until_s, *path)

    def _set(self, form: _SetForm, at_s: float, until_s: float | None, *path: str | int) -> SetValue:
        if form.metric not in self._words.metrics:
            near = did_you_mean(form.metric, self._words.metrics)
            raise self._loaded.error(f'unknown metric "{form.metric}"{near}', *path, "metric")
        value = float(form.value) if isinstance(form.value, bool) else form.value
        place = self._place(form.where, *path, "where")
        return SetValue(at_s, until_s, place, form.metric, value, self.seconds(form.ramp, *path, "ramp"))

    def _fault(self, form: _EventForm, at_s: float, until_s: float | None, *path: str | int) -> Fault:
        kind = form.fault or ""
        known = self._words.faults.get(kind)
        if known is None:
            known_words = _known_words(kind, self._words.faults)
            raise self._loaded.error(f'unknown fault kind "{kind}"{known_words}', *path, "fault")
        if form.where is None:
            raise self._loaded.error('a fault needs "where"', *path)
        place = self._place(form.where, *path, "where")
        if place.form not in known.targets:
            forms = ", ".join(sorted(known.targets))
            raise self._loaded.error(f'{kind} is not for "{place.text}"; it takes: {forms}', *path, "where")
        params: dict[str, Value] = {name: param.default for name, param in known.params.items()}
        for name, value in form.params.items():
            if name not in known.params:
                near = did_you_mean(name, known.params)
                where = self._loaded.where_key(*path, "params", name)
                raise DataError(f'{kind} has no parameter "{clean(name, 80)}"{near}', where=where)
            params[name] = self._param(known.params[name], value, *path, "params", name)
        return Fault(at_s, until_s, kind, place, {n: _seconds_of(known.params[n], v) for n, v in params.items()})

    def _param(self, param: Param, value: Value, *path: str | int) -> Value:
        name = path[-1]
        if value is None and param.default is None:
            return None
        if param.unit == "s" and isinstance(value, int | float | str) and not isinstance(value, bool):
            return self.seconds(value, *path)
        if param.unit == "list":
            if not isinstance(value, tuple):
                raise self._loaded.error(f"{name}: expected a list of numbers, such as [3, 17]", *path)
            return value
        if param.unit == "text" and not param.words and isinstance(value, int | float) and not isinstance(value, bool):
            # What YAML takes for a number: a version, a job's id.
            return f"{value:g}" if value == int(value) else str(value)
        if param.unit in ("bool", "text"):
            if not isinstance(value, bool if param.unit == "bool" else str):
                raise self._loaded.error(
                    f"{name}: expected {'true or false' if param.unit == 'bool' else 'text'}", *path
                )
            if param.words and value not in param.words:
                raise self._loaded.error(f'{name}: "{value}" is not one of {", ".join(param.words)}', *path)
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._loaded.error(f"{name}: expected a number", *path)
        if value < 0 and not param.signed:
            raise self._loaded.error(f"{name}: expected a number of 0 or more", *path)
        return float(value)

    def _place(self, text: str, *path: str | int) -> Place:
        try:
            return place(text, self._fleet, self._nodes, self._jobs)
        except ValueError as error:
            raise self._loaded.error(str(error), *path) from error


def _known_words(word: str, known: Collection[str]) -> str:
    near = did_you_mean(word, known)
    if near and len(known) > _MOST_WORDS:
        return near
    more = f" and {len(known) - _MOST_WORDS} more" if len(known) > _MOST_WORDS else ""
    return f"{near}; known: {', '.join(sorted(known)[:_MOST_WORDS])}{more}".replace("?;", "?")


def _seconds_of(param: Param, value: Value) -> Value:
    return duration_s(value) if param.unit == "s" and isinstance(value, str) else value
