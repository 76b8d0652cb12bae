"""The metric catalogue: `metrics.yaml` of each playbook directory, the nearest definition of an id first."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import msgspec

from stethoscope.model.fields import RESERVED
from stethoscope.model.metric import Kind, Metric, Scope
from stethoscope.paths import bundled, config_dir
from stethoscope.specs.load import Loaded, SeveralDataError, Spec, convert, load
from stethoscope.specs.metric_names import Catalogue, load_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.errors import DataError

FILE = "metrics.yaml"
_ALIAS = re.compile(r"[a-z][a-z0-9_]*")


class MetricSpec(Spec, frozen=True):
    """One entry of `metrics.yaml`; the fields are those of model.metric.Metric."""

    id: str
    title: str
    scope: Scope
    unit: str
    kind: Kind
    meaning: str
    tier: Literal["fast", "medium", "slow", "console"] = "fast"
    group: str = ""
    alias: str = ""
    bits: int | None = None
    pins: tuple[int, ...] = ()
    lasting: bool = False
    rate_unit: str = ""
    rate_scale: float = 1.0
    low: float | None = None
    high: float | None = None
    worse: Literal["none", "low", "high"] = "none"
    warn: float | None = None
    critical: float | None = None
    critical_total: int | None = None
    words: dict[int, str] = msgspec.field(default_factory=dict)
    bitmask: bool = False
    kept: bool = False
    fleet: bool = True


class MetricFile(Spec, frozen=True):
    """The whole of `metrics.yaml`."""

    schema: Literal["stethoscope.metrics/1"]
    metrics: list[MetricSpec]


def load_catalogue(*directories: Path) -> Catalogue:
    """Return every metric by its id, in the order of the bundled file and then of what the others add.

    An id is taken from the first of `directories` that defines it, then from the user's configuration, then from the
    bundled playbooks. Raises DataError, with the position, for a file that is broken or contradicts itself.
    """
    catalogue: dict[str, Metric] = {}
    for path in reversed([*(directory / FILE for directory in directories), config_dir() / "playbooks" / FILE]):
        if path.exists():
            catalogue.update(read_metrics(path))
    metrics = _with_one_alias_each({**read_metrics(bundled("playbooks") / FILE), **catalogue}, catalogue)
    return Catalogue(metrics, lambda: load_names(metrics, *directories))


def _with_one_alias_each(catalogue: dict[str, Metric], near: dict[str, Metric]) -> dict[str, Metric]:
    """Return the catalogue in which a short name that a nearer file gives to another metric, or uses as an id, means
    that one."""
    taken = {metric.alias for metric in near.values()} | near.keys()
    return {
        id_: replace(metric, alias="") if metric.alias in taken and id_ not in near else metric
        for id_, metric in catalogue.items()
    }


def read_metrics(path: Path) -> dict[str, Metric]:
    """Return the metrics of one file by their id; raises DataError for a file that is broken or contradicts itself."""
    loaded = load(path)
    specs = convert(loaded, MetricFile).metrics
    errors = list(_errors(loaded, specs))
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return {spec.id: _metric(spec) for spec in specs}


def _metric(spec: MetricSpec) -> Metric:
    return Metric(
        id=spec.id,
        title=spec.title,
        scope=spec.scope,
        unit=spec.unit,
        kind=spec.kind,
        tier=spec.tier,
        group=spec.group,
        meaning=spec.meaning,
        alias=spec.alias,
        bits=spec.bits,
        pins=spec.pins,
        lasting=spec.lasting,
        rate_unit=spec.rate_unit,
        rate_scale=spec.rate_scale,
        low=spec.low,
        high=spec.high,
        worse=spec.worse,
        warn=spec.warn,
        critical=spec.critical,
        critical_total=spec.critical_total,
        words=tuple(spec.words.items()),
        bitmask=spec.bitmask,
        kept=spec.kept,
        fleet=spec.fleet,
    )


def _errors(loaded: Loaded, specs: list[MetricSpec]) -> Iterator[DataError]:
    seen: set[str] = set()
    ids, aliases = {spec.id for spec in specs}, dict[str, str]()
    for position, spec in enumerate(specs):
        if spec.id in seen:
            yield loaded.error(f'the metric "{spec.id}" is defined twice', "metrics", position, "id")
        seen.add(spec.id)
        wrong = _wrong_name(spec, ids, aliases)
        if wrong:
            yield loaded.error(f"{spec.id}: {wrong}", "metrics", position, "alias" if spec.alias else "id")
        aliases.setdefault(spec.alias, spec.id)
        for key, message in _contradictions(spec):
            yield loaded.error(f"{spec.id}: {message}", "metrics", position, key)


def _wrong_name(spec: MetricSpec, ids: set[str], aliases: dict[str, str]) -> str:
    """Return what is wrong with the names of a metric, empty for nothing."""
    if spec.id in RESERVED:
        return f'"{spec.id}" is a word of filters'
    if not spec.alias:
        return ""
    if not _ALIAS.fullmatch(spec.alias):
        return "an alias is made of small letters, digits and _, and begins with a letter"
    if spec.alias in RESERVED:
        return f'the alias "{spec.alias}" is a word of filters'
    if spec.alias in ids:
        return f'the alias "{spec.alias}" is the id of a metric'
    return f'the alias "{spec.alias}" is that of {aliases[spec.alias]}' if spec.alias in aliases else ""


def _contradictions(spec: MetricSpec) -> Iterator[tuple[str, str]]:
    """Yield (key, what is wrong with it)."""
    if spec.kind is Kind.COUNTER:
        if not spec.rate_unit:
            yield "id", "a counter needs rate_unit, the unit of what is shown"
        if spec.rate_scale <= 0:
            yield "rate_scale", "rate_scale is above 0"
    else:
        for key in ("bits", "pins", "lasting", "rate_unit", "critical_total"):
            if getattr(spec, key):
                yield key, f"{key} belongs to counters"
    if bool(spec.group) != (spec.tier in ("medium", "slow")):
        yield "tier", "a metric of tier medium or slow has a group, the part that brings it; the others have none"
    if spec.critical_total is not None and (spec.critical_total < 1 or spec.worse != "high"):
        yield "critical_total", "critical_total is above 0, and needs worse: high"
    if spec.bits is not None and not 1 <= spec.bits <= 64:
        yield "bits", "bits is 1 to 64"
    if any(not 0 < pin < 2**64 for pin in spec.pins):
        yield "pins", "a pin is a total above 0 that fits into 64 bits"
    if spec.low is not None and spec.high is not None and spec.low >= spec.high:
        yield "low", "low is below high"
    if spec.bitmask and not spec.words:
        yield "bitmask", "a bitmask needs words for its bits"
    if spec.bitmask and any(value <= 0 or value & (value - 1) for value in spec.words):
        yield "words", "the words of a bitmask name single bits: 0x1, 0x2, 0x4 ..."
    marks = [(key, value) for key, value in (("warn", spec.warn), ("critical", spec.critical)) if value is not None]
    if marks and spec.worse == "none":
        yield marks[0][0], f"{marks[0][0]} needs worse: high or worse: low"
    for (_, warn), (key, critical) in pairwise(marks):
        if (critical < warn) if spec.worse == "high" else (critical > warn):
            yield key, f"critical is beyond warn in the direction of worse: {spec.worse}"
