"""What metrics are called elsewhere: the names of DCGM, nvidia-smi and node_exporter, and those that people use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stethoscope.errors import did_you_mean
from stethoscope.model.metric import Metric, Scope
from stethoscope.paths import bundled, config_dir, is_there
from stethoscope.specs.condition_share import SHARES
from stethoscope.specs.load import Loaded, Spec, convert, load, several

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stethoscope.errors import DataError

FILE = "metric_names.yaml"


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

    @property
    def is_raw(self) -> bool:
        """Tell whether the name is of a tool that gives counters as totals: DCGM, nvidia-smi, node_exporter."""
        return self.name.startswith(("DCGM_", "node_")) or "." in self.name


class Catalogue(dict[str, Metric]):
    """Every metric by its id; what else they are called is read when it is asked for the first time."""

    def __init__(self, metrics: Mapping[str, Metric], names: Callable[[], Mapping[str, OtherName]]) -> None:
        """Take metrics by their ids, and what reads the other names; DataError when those are asked for and broken."""
        super().__init__(metrics)
        self._names = names
        self._others: dict[str, OtherName] | None = None

    @property
    def others(self) -> Mapping[str, OtherName]:
        """Return the other names; one that is the id of a metric means that one."""
        if self._others is None:
            self._others = {name: other for name, other in self._names().items() if name not in self}
        return self._others


class NameSpec(Spec, frozen=True):
    """Names of a metric, or of several that they count together."""

    names: list[str]
    metric: str = ""
    metrics: list[str] = msgspec.field(default_factory=list)
    factor: float = 1.0
    count: float = 1.0


class UnmeasuredSpec(Spec, frozen=True):
    """Names of what nothing here measures."""

    names: list[str]
    scope: Scope
    unit: str = ""


class NamesFile(Spec, frozen=True):
    """The whole of `metric_names.yaml`."""

    schema: Literal["stethoscope.metric_names/1"]
    names: list[NameSpec] = msgspec.field(default_factory=list)
    unmeasured: list[UnmeasuredSpec] = msgspec.field(default_factory=list)


def load_names(metrics: Mapping[str, Metric], *directories: Path) -> dict[str, OtherName]:
    """Return the other names of metrics, those of the nearest directory first; DataError for a broken file."""
    found: dict[str, OtherName] = {}
    for place in (*directories, config_dir() / "playbooks", bundled("playbooks")):
        if is_there(place / FILE):
            found = {**read_names(load(place / FILE), metrics), **found}
    return found


def read_names(loaded: Loaded, metrics: Mapping[str, Metric]) -> dict[str, OtherName]:
    """Return the names of one file; DataError or SeveralDataError with positions."""
    file = convert(loaded, NamesFile)
    found: dict[str, OtherName] = {}
    errors: list[DataError] = []
    for position, spec in enumerate(file.names):
        here = ("names", position)
        ours = (*([spec.metric] if spec.metric else []), *spec.metrics)
        if not ours:
            errors.append(loaded.error("it needs a metric", *here))
        for metric in ours:
            if metric not in metrics:
                message = f'unknown metric "{metric}"{did_you_mean(metric, metrics)}'
                errors.append(loaded.error(message, *here, "metric" if spec.metric == metric else "metrics"))
        for name in spec.names:
            _put(found, OtherName(name, ours, spec.factor, spec.count), loaded, (*here, "names"), errors)
    for position, nothing in enumerate(file.unmeasured):
        for name in nothing.names:
            other = OtherName(name, scope=nothing.scope, unit=nothing.unit)
            if other != found.get(name):
                _put(found, other, loaded, ("unmeasured", position, "names"), errors)
    if errors:
        raise several(errors)
    return found


def _put(
    found: dict[str, OtherName], other: OtherName, loaded: Loaded, path: tuple[str | int, ...], errors: list[DataError]
) -> None:
    if other.name in found:
        errors.append(loaded.error(f'the name "{other.name}" stands here twice', *path))
    found[other.name] = other


def known_names(catalogue: Mapping[str, Metric]) -> dict[str, OtherName]:
    """Return the other names of a catalogue, the short ones of filters among them."""
    shares = {name: OtherName(name, scope=Scope.GPU, unit="%") for name in SHARES}
    short = {metric.alias: OtherName(metric.alias, (metric.id,)) for metric in catalogue.values() if metric.alias}
    return {**shares, **short, **(catalogue.others if isinstance(catalogue, Catalogue) else {})}


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
