"""What a fault kind is: a cause at one place, with its parameters, its effect by age, and the lines that it writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from stethoscope.specs.scenario import Fault, FaultForm, Param, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects
    from stethoscope.sim.layout import Layout


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a fault writes: `{placeholders}` and parameter names are filled in."""

    sink: str
    """kernel, syslog, job, slurm, sel (log of the management controller) or fm (log of the fabric manager)."""
    at: float | str
    """Seconds after the start of the fault, or the name of the parameter that says so."""
    who: str
    """self, node, neighbours (ranks or nodes beside it), others, all, rank0."""
    text: str
    when: Mapping[str, Value] = field(default_factory=dict)
    """Written only with these parameter values."""


@dataclass(frozen=True, slots=True)
class Count:
    """What a counter of ports counts at one moment; it stays counted when the fault ends."""

    at: float
    """Seconds after the start of the fault."""
    metric: str
    amount: float
    place: tuple[int, int]
    """Position of the node, number of the port."""


class Kind(ABC):
    """Base of the fault kinds; an instance is one fault of a scenario."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is wrong, in a few words for who chooses a fault."""
    root_cause: ClassVar[str]
    """Class of root_causes.yaml that a right diagnosis names; `scope` and `severity` likewise."""
    scope: ClassVar[Literal["global", "local", "none"]]
    severity: ClassVar[Literal["P0", "P1", "P2", "none"]]
    core: ClassVar[bool] = True
    targets: ClassVar[frozenset[str]]
    params: ClassVar[Mapping[str, Param]] = {}
    lines: ClassVar[tuple[Line, ...]] = ()
    on_ethernet: bool = False
    """It can happen only where the fabric is Ethernet; then all ports of the fleet are."""
    management_gbps: float | None = None
    """Rate of the management network, where the fault knows it."""

    def __init__(self, fault: Fault) -> None:
        """Take the fault with its parameters filled in."""
        self.fault = fault
        self.node = fault.where.node
        self.index = fault.where.index

    @abstractmethod
    def apply(self, effects: Effects, age_s: float) -> None:
        """Write what the fault does at `age_s` seconds after its start."""

    def changes(self) -> Iterable[float]:
        """Return the ages at which the effect jumps."""
        return ()

    def written(self) -> Iterable[Line]:
        """Return the lines that it writes."""
        return self.lines

    def counts(self, layout: Layout) -> Iterable[Count]:
        """Return what it lets the counters of ports count, each at one moment."""
        return ()

    def ramp(self) -> tuple[float, float]:
        """Return the ages between which the effect moves from second to second."""
        return (0.0, 0.0)

    def lead_s(self) -> float:
        """Return how long before its start the fault begins to show; its age is below 0 then."""
        return 0.0

    def local_rank(self) -> int | None:
        """Return on which GPU of the node the rank is that is hit first and writes what `self` writes, None for all."""
        return None

    def number(self, name: str) -> float:
        """Return a parameter that is a number."""
        value = self.fault.params[name]
        if isinstance(value, str | tuple) or value is None:
            raise TypeError(f"{self.name}: {name} is not a number")
        return float(value)

    def given(self, name: str) -> bool:
        """Tell whether an optional parameter was given."""
        return self.fault.params[name] is not None

    @classmethod
    def form(cls) -> FaultForm:
        """Return what a scenario may say about this kind."""
        return FaultForm(cls.targets, cls.params)


def progress(age_s: float, start_s: float, end_s: float) -> float:
    """Return how far (0..1) `age_s` is on its way from `start_s` to `end_s`."""
    if age_s >= end_s:
        return 1.0
    return 0.0 if age_s <= start_s else (age_s - start_s) / (end_s - start_s)
