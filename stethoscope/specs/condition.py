"""The condition language of rules: what an operator writes, read into a tree that `analysis.conditions` evaluates.

A leaf compares a metric (`operator`, `threshold`, over a `window` with an `aggregate`), compares it with its `peers`,
asks why it is `missing`, or asks about the `link` of the node or an `xid` of the kernel log. `all`, `any` and `not`
combine; a plain list means all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.frame import LinkState
from stethoscope.model.metric import REASON_WORDS, Kind, Metric, Reason, Scope
from stethoscope.specs.duration import duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stethoscope.specs.load import Loaded

OPERATORS = (">", ">=", "<", "<=", "==", "!=", "has")
"""`has` is for bit masks: true when any bit of the threshold is set."""
AGGREGATES = ("every", "last", "delta", "rate", "min", "max", "avg")
EXPECTED, OVERDUE = "expected", "overdue"
"""Thresholds that differ from node to node: the GPUs that the fleet file names, and five ticks and five seconds."""
LATER = ("slope", "stddev")
PEER_GROUPS = ("model", "name", "node", "fleet")
TIER_S = {"fast": 5.0, "medium": 30.0, "slow": 60.0, "console": 5.0}
"""Nominal sampling interval of each tier, in seconds."""
MAX_WINDOW_S = 3600.0
"""Longest window that keeps samples: what a window costs in memory grows with it."""

_PER = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")
_KEYS = ("metric", "operator", "threshold", "window", "aggregate", "for", "missing", "peers", "link", "xid")
_COMBINERS = ("all", "any", "not")


@dataclass(frozen=True, slots=True)
class Compare:
    """A metric against a number, or against another metric of the same scope."""

    metric: str
    operator: str
    threshold: float | str
    """A number in the metric's unit (a counter's: of its rate, or the count for `delta`), the id of another metric,
    EXPECTED or OVERDUE."""
    aggregate: str = "last"
    """last, delta, rate, min, max or avg; `every` is a Held around a `last`."""
    window_s: float = 0.0
    """0 for the `delta` of a counter is the change since its first reading."""


@dataclass(frozen=True, slots=True)
class Against:
    """A metric against the median of comparable rows."""

    metric: str
    of: str
    """model, name (same port or GPU position on all nodes), node, or fleet."""
    below: float | None
    above: float | None
    by: str
    """ratio: value / median; difference: value - median."""


@dataclass(frozen=True, slots=True)
class Absent:
    """A metric has no value, for one of these reasons."""

    metric: str
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class LinkIs:
    """The link of the node is in one of these states."""

    states: tuple[LinkState, ...]


@dataclass(frozen=True, slots=True)
class XidSeen:
    """The kernel log has an Xid about this GPU."""

    codes: tuple[int, ...]
    """Empty for any."""
    window_s: float


@dataclass(frozen=True, slots=True)
class Combined:
    """`all`, `any` or `not` (of one part)."""

    how: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A condition that was true at every sample of the last `window_s` seconds."""

    part: Condition
    window_s: float


Condition = Compare | Against | Absent | LinkIs | XidSeen | Combined | Held
Leaf = Compare | Against | Absent | LinkIs | XidSeen


def leaves(condition: Condition, *, positive: bool = True) -> Iterator[tuple[Leaf, bool]]:
    """Yield the leaves in the order of the text, each with whether it stands outside of a `not`."""
    if isinstance(condition, Held):
        yield from leaves(condition.part, positive=positive)
    elif isinstance(condition, Combined):
        for part in condition.parts:
            yield from leaves(part, positive=positive != (condition.how == "not"))
    else:
        yield condition, positive


def scope_of(condition: Condition, catalogue: Mapping[str, Metric]) -> set[Scope]:
    """Return the scopes that the leaves speak of, the node apart."""
    found: set[Scope] = set()
    for leaf, _ in leaves(condition):
        scope = Scope.NODE if isinstance(leaf, LinkIs) else Scope.GPU
        if isinstance(leaf, Compare | Against | Absent):
            scope = catalogue[leaf.metric].scope
        if scope is not Scope.NODE:
            found.add(scope)
    return found


class ConditionReader:
    """Reads conditions of one file; every error says where."""

    def __init__(self, loaded: Loaded, catalogue: Mapping[str, Metric]) -> None:
        """Errors point into `loaded`; metric ids are those of `catalogue`."""
        self._loaded = loaded
        self._catalogue = catalogue

    def trigger(self, data: Any, path: tuple[str | int, ...]) -> Condition:
        """Return the condition that `data`, at `path` of the file, describes; DataError when it does not."""
        if isinstance(data, list):
            if not data:
                raise self._loaded.error("an empty list would always be true", *path)
            return Combined("all", tuple(self.trigger(item, (*path, i)) for i, item in enumerate(data)))
        if not isinstance(data, dict):
            raise self._loaded.error(
                "a condition is a mapping such as {metric: ..., operator: ..., threshold: ...}", *path
            )
        how = next((key for key in _COMBINERS if key in data), None)
        if how is not None:
            return self._combined(how, data, path)
        return self._leaf(data, path)

    def _combined(self, how: str, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        self._only(data, (how, "for"), path)
        parts = data[how]
        condition: Condition
        if how == "not":
            condition = Combined("not", (self.trigger(parts, (*path, how)),))
        else:
            if not isinstance(parts, list) or not parts:
                raise self._loaded.error(f'"{how}" takes a list of conditions', *path, how)
            condition = Combined(how, tuple(self.trigger(item, (*path, how, i)) for i, item in enumerate(parts)))
        return self._held(condition, data, path)

    def _held(self, condition: Condition, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        held_s = self.duration(data["for"], (*path, "for")) if "for" in data else 0.0
        return Held(condition, held_s) if held_s else condition

    def _leaf(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        if "baseline" in data:
            raise DataError("baseline: is not supported yet", where=self._loaded.where_key(*path, "baseline"))
        self._only(data, _KEYS, path)
        read: dict[str, Callable[[dict[Any, Any], tuple[str | int, ...]], Condition]] = {
            "link": self._link, "xid": self._xid, "missing": self._absent, "peers": self._against,
        }  # fmt: skip
        for key, reader in read.items():
            if key in data:
                return self._held(reader(data, path), data, path)
        return self._held(self._compare(data, path), data, path)

    def _compare(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        metric = self._metric(data, path)
        operator = self._word(data.get("operator"), OPERATORS, "operator", (*path, "operator"))
        if operator == "has" and not metric.bitmask:
            raise self._loaded.error(f'"has" is for bit masks, and {metric.id} is a number', *path, "operator")
        aggregate = data.get("aggregate")
        if aggregate in LATER:
            raise self._loaded.error(f"the aggregate {aggregate} is not supported yet", *path, "aggregate")
        aggregate = self._word(aggregate or "every", AGGREGATES, "aggregate", (*path, "aggregate"))
        window_s = self._window(data, metric, aggregate, path)
        per_second = aggregate == "rate" or (metric.kind is Kind.COUNTER and aggregate != "delta")
        if "threshold" not in data:
            raise self._loaded.error('the key "threshold" is missing', *path)
        threshold = self._threshold(data["threshold"], metric, per_second, (*path, "threshold"))
        if aggregate in ("every", "last"):
            compare = Compare(metric.id, operator, threshold)
            return Held(compare, window_s) if aggregate == "every" and window_s else compare
        if isinstance(threshold, str):
            raise self._loaded.error(f"{aggregate} is compared with a number", *path, "threshold")
        return Compare(metric.id, operator, threshold, aggregate, window_s)

    def _window(self, data: dict[Any, Any], metric: Metric, aggregate: str, path: tuple[str | int, ...]) -> float:
        if "window" not in data:
            since_first = aggregate == "delta" and metric.kind is Kind.COUNTER
            if aggregate not in ("every", "last") and not since_first:
                raise self._loaded.error(f'{aggregate} needs a "window"', *path)
            return 0.0
        window_s = self.duration(data["window"], (*path, "window"))
        least_s = 3 * TIER_S[metric.tier]
        if aggregate != "last" and window_s < least_s:
            raise self._loaded.error(
                f"a window of {window_s:g} s holds fewer than three samples of {metric.id}: "
                f"at least {least_s:g} s, or aggregate: last",
                *path, "window",
            )  # fmt: skip
        if window_s > MAX_WINDOW_S:
            raise self._loaded.error(f"a window is at most {MAX_WINDOW_S / 60:g} minutes", *path, "window")
        return window_s

    def _threshold(self, value: Any, metric: Metric, per_second: bool, path: tuple[str | int, ...]) -> float | str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, dict):
            self._only(value, ("metric",), path)
            other = self._metric(value, path)
            if other.scope is not metric.scope:
                raise self._loaded.error(f"{other.id} is a metric of a {other.scope}, not of a {metric.scope}", *path)
            return other.id
        if isinstance(value, str):
            per = _PER.fullmatch(value.strip())
            if per and per_second:
                return float(per[1]) / duration_s(f"1{per[2]}")
            if value in ("warn", "critical"):
                level: float | None = getattr(metric, value)
                if level is None:
                    raise self._loaded.error(f"{metric.id} has no {value} level", *path)
                return level
            if (metric.id, value) in (("gpu_count", EXPECTED), ("node_data_age", OVERDUE)):
                return value
        what = 'a number, a rate such as "120/h", warn, critical, or {metric: ...}'
        raise self._loaded.error(f"threshold is {what}", *path)

    def _against(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        metric = self._metric(data, path)
        peers = data["peers"]
        here = (*path, "peers")
        self._only(data, ("metric", "peers", "window", "for"), path)
        if not isinstance(peers, dict):
            raise self._loaded.error("peers is a mapping such as {of: model, below: 0.8, by: ratio}", *here)
        self._only(peers, ("of", "below", "above", "by"), here)
        of = self._word(peers.get("of", "model"), PEER_GROUPS, "of", (*here, "of"))
        by = self._word(peers.get("by", "ratio"), ("ratio", "difference"), "by", (*here, "by"))
        if ("below" in peers) == ("above" in peers):
            raise self._loaded.error("peers needs one of below and above", *here)
        bounds: dict[str, float | None] = {"below": None, "above": None}
        for key in bounds:
            if key in peers:
                if not isinstance(peers[key], int | float) or isinstance(peers[key], bool):
                    raise self._loaded.error(f"{key} is a number", *here, key)
                bounds[key] = float(peers[key])
        window_s = self._window(data, metric, "every", path)
        against = Against(metric.id, of, bounds["below"], bounds["above"], by)
        return Held(against, window_s) if window_s else against

    def _absent(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        self._only(data, ("metric", "missing", "window", "for"), path)
        metric = self._metric(data, path)
        known = {word: reason for reason, word in REASON_WORDS.items() if reason is not Reason.PRESENT}
        words = self._list(data["missing"])
        reasons = tuple(known[self._word(word, known, "reason", (*path, "missing"))] for word in words)
        window_s = self._window(data, metric, "every", path)
        absent = Absent(metric.id, reasons)
        return Held(absent, window_s) if window_s else absent

    def _link(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        self._only(data, ("link", "for"), path)
        known = [state.value for state in LinkState]
        return LinkIs(
            tuple(LinkState(self._word(w, known, "link state", (*path, "link"))) for w in self._list(data["link"]))
        )

    def _xid(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Condition:
        self._only(data, ("xid", "window", "for"), path)
        codes: list[Any] = [] if data["xid"] == "any" else self._list(data["xid"])
        if any(not isinstance(code, int) or isinstance(code, bool) for code in codes):
            raise self._loaded.error("xid is a number, a list of numbers, or any", *path, "xid")
        window_s = self.duration(data["window"], (*path, "window")) if "window" in data else MAX_WINDOW_S
        return XidSeen(tuple(codes), window_s)

    def duration(self, value: Any, path: tuple[str | int, ...]) -> float:
        """Return the seconds of `30s`, `5m`, `1h`, or of a plain number of seconds."""
        try:
            return duration_s(value)
        except ValueError as error:
            raise self._loaded.error(str(error), *path) from None

    def _metric(self, data: dict[Any, Any], path: tuple[str | int, ...]) -> Metric:
        name = data.get("metric")
        if name is None:
            raise self._loaded.error('the key "metric" is missing', *path)
        return self._catalogue[self._word(name, self._catalogue, "metric", (*path, "metric"))]

    def _word(self, word: Any, known: Any, what: str, path: tuple[str | int, ...]) -> str:
        if isinstance(word, str) and word in known:
            return word
        if word is None:
            raise self._loaded.error(f'the key "{what}" is missing', *path)
        near = did_you_mean(str(word), known) or f"; known: {', '.join(known)}" * (len(known) <= 12)
        raise self._loaded.error(f'unknown {what} "{word}"{near}', *path)

    def _only(self, data: dict[Any, Any], known: tuple[str, ...], path: tuple[str | int, ...]) -> None:
        for key in data:
            if key not in known:
                where = self._loaded.where_key(*path, key)
                raise DataError(f'unknown key "{key}"{did_you_mean(str(key), known)}', where=where)

    @staticmethod
    def _list(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]
