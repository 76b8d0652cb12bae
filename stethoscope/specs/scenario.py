"""Scenarios of the simulated fleet (`stethoscope.scenario/1`): the fleet, the jobs on it, and what happens when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from stethoscope.specs.load import Spec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stethoscope.specs.place import FleetShape, Place

SCHEMA = "stethoscope.scenario/1"

Value = float | str | bool | tuple[float, ...] | None
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a fault kind: its default (None: not used unless given), its unit, and the words it may be."""

    default: Value
    unit: str = ""
    """`s` takes durations such as `2m`; `bool`, `text` and `list` (of numbers) say themselves; anything else is a
    number."""
    words: tuple[str, ...] = ()
    meaning: str = ""
    signed: bool = False
    """A number that may be below 0."""


@dataclass(frozen=True, slots=True)
class FaultForm:
    """What a scenario may say about one fault kind: the forms of its place and its parameters."""

    targets: frozenset[str]
    params: Mapping[str, Param]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that a scenario may use."""

    faults: Mapping[str, FaultForm]
    metrics: Collection[str]
    gpus: Collection[str]


class Shares(Spec, frozen=True):
    """How a healthy step of a job is spent; the four add up to 1."""

    compute: _Share
    comm: _Share
    data: _Share
    other: _Share


class Expect(Spec, frozen=True):
    """What a correct diagnosis says; the twin never reads it."""

    scope: Literal["global", "local", "none", "unknown"]
    layer: str
    root_cause: str
    culprits: tuple[str, ...]
    severity: Literal["P0", "P1", "P2", "info", "none"]
    not_blamed: tuple[str, ...] = ()
    detect_within: float | str | None = None
    accept: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """A synchronous training job: one rank a GPU, in the order of `nodes` (positions in the fleet)."""

    id: str
    nodes: tuple[int, ...]
    step_time_s: float
    shares: Shares
    samples_per_step: float
    framework: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause: of `kind`, at `where`, from `at_s` until `until_s` (None: to the end), all parameters filled in."""

    at_s: float
    until_s: float | None
    kind: str
    where: Place
    params: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class SetValue:
    """What is reported for `metric` at `where`, whatever the model says; None is Missing."""

    at_s: float
    until_s: float | None
    where: Place
    metric: str
    value: float | str | None
    ramp_s: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the kernel of a node or of the log of a rank; `sink` is kernel or job."""

    at_s: float
    sink: str
    where: Place
    line: str


@dataclass(frozen=True, slots=True)
class ProbeOutput:
    """What an on-demand probe prints at `where`."""

    at_s: float
    until_s: float | None
    where: Place
    probe: str
    text: str


Event = Fault | SetValue | LogLine | ProbeOutput


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that fits together."""

    id: str
    title: str
    source: str
    seed: int
    duration_s: float
    fleet: FleetShape
    jobs: tuple[Job, ...]
    events: tuple[Event, ...]
    """Those of `background` first, then by their place in the file."""
    expect: Expect | None
