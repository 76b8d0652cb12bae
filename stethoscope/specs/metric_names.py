"""What metrics are called elsewhere: the names of DCGM, nvidia-smi and node_exporter, and those that people use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stethoscope.errors import did_you_mean
from stethoscope.model.metric import Metric, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class OtherName:
    """Another name of one metric, of several that it counts together, or of what nothing here measures."""

    name: str
    metrics: tuple[str, ...] = ()
    """Ours; empty for what nothing here measures."""
    factor: float = 1.0
    """A number in the unit of that name times this is one in ours; of a counter, of its rate."""
    count_factor: float = 1.0
    """The same for what a counter counts."""
    scope: Scope = Scope.NODE
    """Of what nothing here measures."""
    unit: str = ""
    """Its unit."""


@dataclass(slots=True)
class Catalogue(dict[str, Metric]):
    """Every metric by its id, and what else they are called."""

    others: dict[str, OtherName] = field(default_factory=dict)

    def __init__(self, metrics: Mapping[str, Metric], others: Iterable[OtherName] = ()) -> None:
        """Take metrics by their ids, and other names; a name that is the id of a metric means that one."""
        dict.__init__(self, metrics)
        self.others = {other.name: other for other in others if other.name not in metrics}


def known_names(catalogue: Mapping[str, Metric]) -> dict[str, OtherName]:
    """Return the other names of a catalogue, the short ones of filters among them."""
    short = {metric.alias: OtherName(metric.alias, (metric.id,)) for metric in catalogue.values() if metric.alias}
    return {**short, **(catalogue.others if isinstance(catalogue, Catalogue) else {})}


def find(name: Any, catalogue: Mapping[str, Metric]) -> OtherName | None:
    """Return what `name` means, whatever its case and its hyphens; None when no metric is called so."""
    if not isinstance(name, str):
        return None
    if name in catalogue:
        return OtherName(name, (name,))
    others = known_names(catalogue)
    for form in (name, name.strip(), name.strip().lower(), name.strip().lower().replace("-", "_")):
        if form in catalogue:
            return OtherName(form, (form,))
        if form in others:
            return others[form]
    low = name.strip().lower()
    return next((other for known, other in others.items() if known.lower() == low), None)


def nearest(name: Any, catalogue: Mapping[str, Metric]) -> str:
    """Return `; did you mean "gpu_temp"?` for a name that means no metric, empty when none is near."""
    text = str(name)
    if near := did_you_mean(text, catalogue):
        return near
    others = {known.lower(): known for known in known_names(catalogue)}
    near = did_you_mean(text.lower(), others)
    return next((near.replace(f'"{low}"', f'"{known}"') for low, known in others.items() if f'"{low}"' in near), near)
