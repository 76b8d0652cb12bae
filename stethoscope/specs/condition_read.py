"""Reads conditions as operators write them; every error says where, and the nearest right word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, did_you_mean
from stethoscope.specs.condition import MAX_WINDOW_S, TIER_S, Combined, Condition, Held
from stethoscope.specs.condition_baseline import read_baseline
from stethoscope.specs.condition_change import read_change
from stethoscope.specs.condition_compare import read_compare
from stethoscope.specs.condition_counter import read_counter
from stethoscope.specs.condition_forms import canonical
from stethoscope.specs.condition_kernel import read_kernel_log
from stethoscope.specs.condition_names import Unmeasured, in_our_words, joins, stand_in
from stethoscope.specs.condition_peers import read_against
from stethoscope.specs.condition_share import SHARES, as_share
from stethoscope.specs.condition_share import stand_in as share_stand_in
from stethoscope.specs.condition_states import XID_NAME, as_xid, read_absent, read_link, read_xid
from stethoscope.specs.condition_words import read_about, read_word
from stethoscope.specs.duration import spoken_s
from stethoscope.specs.load import several
from stethoscope.specs.metric_names import find, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model.metric import Metric
    from stethoscope.specs.load import Loaded

Path = tuple[str | int, ...]
"""Where in a file something stands: keys and positions."""

READERS: dict[str, Callable[[ConditionReader, dict[Any, Any], Path], Condition]] = {
    "link": read_link, "xid": read_xid, "missing": read_absent, "peers": read_against,
    "baseline": read_baseline, "change": read_change, "counter": read_counter,
    "metric": read_compare, "kernel_log": read_kernel_log, "word": read_word, "about": read_about,
}  # fmt: skip
"""The key that tells a leaf -> what reads it (the reader, the mapping, its path). The first that a condition has
wins."""
_COMBINERS = ("all", "any", "not")


class ConditionReader:
    """Reads conditions of one file, and has what the readers of leaves share."""

    def __init__(self, loaded: Loaded, catalogue: Mapping[str, Metric]) -> None:
        """Errors point into `loaded`; metric ids are those of `catalogue`."""
        self.loaded = loaded
        self.catalogue = catalogue

    def trigger(self, data: Any, path: Path) -> Condition:
        """Return the condition that `data`, at `path` of the file, describes; DataError when it does not."""
        if isinstance(data, list):
            if not data:
                raise self.error("an empty list would always be true", path)
            return Combined("all", self._parts(data, path))
        data = canonical(self, data, path)
        if not isinstance(data, dict):
            raise self.error("a condition is a mapping such as {metric: ..., operator: ..., threshold: ...}", path)
        how = next((key for key in _COMBINERS if key in data), None)
        if how is not None:
            return self._combined(how, data, path)
        return self._leaf(data, path)

    def _parts(self, data: list[Any], path: Path) -> tuple[Condition, ...]:
        """Return all conditions of a list; an error says what is wrong with any of them."""
        parts, errors = [], []
        for position, item in enumerate(data):
            try:
                parts.append(self.trigger(item, (*path, position)))
            except DataError as error:
                errors.append(error)
        if errors:
            raise several(errors)
        return tuple(parts)

    def _combined(self, how: str, data: dict[Any, Any], path: Path) -> Condition:
        self.only(data, (how, "for"), path)
        parts = data[how]
        condition: Condition
        if how == "not":
            condition = Combined("not", (self.trigger(parts, (*path, how)),))
        else:
            if not isinstance(parts, list) or not parts:
                raise self.error(f'"{how}" takes a list of conditions', (*path, how))
            condition = Combined(how, self._parts(parts, (*path, how)))
        return self._held(condition, data, path)

    def _held(self, condition: Condition, data: dict[Any, Any], path: Path) -> Condition:
        held_s = self.duration(data["for"], (*path, "for")) if "for" in data else 0.0
        return Held(condition, held_s) if held_s else condition

    def _leaf(self, data: dict[Any, Any], path: Path) -> Condition:
        if str(data.get("metric")).strip().lower() == XID_NAME:
            return self.trigger(as_xid(self, data, path), path)
        key = next((key for key in READERS if key in data), "metric")
        other = find(data.get("metric"), self.catalogue)
        if other is None or other.name in self.catalogue:
            return self._held(READERS[key](self, data, path), data, path)
        if other.name in SHARES:
            catalogue = {**self.catalogue, other.name: share_stand_in(other.name)}
            reader = ConditionReader(self.loaded, catalogue)
            read = as_share(READERS[key](reader, {**data, "metric": other.name}, path), self, path)
            return self._held(read, data, path)
        if not other.metrics:
            # What is written is checked all the same.
            catalogue = {**self.catalogue, other.name: stand_in(other)}
            READERS[key](ConditionReader(self.loaded, catalogue), {**data, "metric": other.name}, path)
            return Unmeasured(other.name, other.scope)
        ours = in_our_words(data, other, self.catalogue)
        parts = tuple(READERS[key](self, each, path) for each in ours)
        return self._held(parts[0] if len(parts) == 1 else Combined(joins(data), parts), ours[0], path)

    def error(self, message: str, path: Path) -> DataError:
        """Return an error about the value at `path`."""
        return self.loaded.error(message, *path)

    def error_key(self, message: str, path: Path) -> DataError:
        """Return an error about the key that ends `path`."""
        return DataError(message, where=self.loaded.where_key(*path))

    def written(self, path: Path, key: str | int) -> str | int:
        """Return a key as it stands in the file."""
        return self.loaded.written.get((*path, key), key)

    def window(self, data: dict[Any, Any], metric: Metric, path: Path, *, least_samples: int = 3) -> float:
        """Return the seconds of the key `window`, 0 without one; an error for one that holds too few samples, or that
        is too long to be kept."""
        if "window" not in data:
            return 0.0
        window_s = self.duration(data["window"], (*path, "window"))
        least_s = least_samples * TIER_S[metric.tier]
        if window_s < least_s:
            raise self.error(
                f"a window of {window_s:g} s holds fewer than three samples of {metric.id}: "
                f"at least {least_s:g} s, or aggregate: last",
                (*path, "window"),
            )
        if window_s > MAX_WINDOW_S:
            raise self.error(f"a window is at most {MAX_WINDOW_S / 60:g} minutes", (*path, "window"))
        return window_s

    def duration(self, value: Any, path: Path) -> float:
        """Return the seconds of `30s`, `5m`, `1h`, or of a plain number of seconds."""
        try:
            return spoken_s(value)
        except ValueError as error:
            raise self.error(str(error), path) from None

    def metric(self, data: dict[Any, Any], path: Path) -> Metric:
        """Return what the key `metric` names."""
        if data.get("metric") is None:
            raise self.error('the key "metric" is missing', path)
        other = find(data["metric"], self.catalogue)
        if other is None:
            message = f'unknown metric "{data["metric"]}"{nearest(data["metric"], self.catalogue)}'
            raise self.error(message, (*path, "metric"))
        if len(other.metrics) != 1:
            what = f"stands for {' and '.join(other.metrics)}" if other.metrics else "is measured by nothing here"
            raise self.error(f'"{other.name}" {what}', (*path, "metric"))
        return self.catalogue[other.metrics[0]]

    def word(self, word: Any, known: Any, what: str, path: Path) -> str:
        """Return `word`, which must be one of `known`; `what` names it in the error."""
        if isinstance(word, str) and word in known:
            return word
        if word is None:
            raise self.error(f'the key "{what}" is missing', path)
        near = did_you_mean(str(word), known) or f"; known: {', '.join(known)}" * (len(known) <= 12)
        raise self.error(f'unknown {what} "{word}"{near}', path)

    def number(self, value: Any, what: str, path: Path) -> float:
        """Return a number; `what` names it in the error."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(f"{what} is a number", path)
        return float(value)

    def only(self, data: dict[Any, Any], known: tuple[str, ...], path: Path) -> None:
        """Raise for a key that is none of `known`."""
        for key in data:
            if key not in known:
                said = self.written(path, key)
                raise self.error_key(f'unknown key "{said}"{did_you_mean(str(key), known)}', (*path, key))

    @staticmethod
    def listed(value: Any) -> list[Any]:
        """Return a list, of one where `value` is none."""
        return value if isinstance(value, list) else [value]
