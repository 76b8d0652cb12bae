"""How a drill went: each answer against what the scenario expects, in points of 0, a half and 1. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.specs.scenario import Expect

HALF = 0.5
SURE = 0.5
"""A guess that claims less than this is half right where nobody can know."""
MOST_BESIDE = 2
"""So many wrong places beside the right ones leave half the point."""


@dataclass(frozen=True, slots=True)
class Got:
    """What the unattended diagnosis said of a scenario, and how the findings did."""

    scope: str
    layer: str
    root_cause: str
    severity: str
    culprits: tuple[str, ...]
    confidence: float
    detect_s: float | None
    """From the start of the fault to the first finding that names its place; None when there was none."""
    false_alarms: int
    summary: str = ""
    false: tuple[str, ...] = ()
    """The false alarms in words."""
    asked: tuple[str, ...] = ()
    """What was measured on demand."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        return {
            "scope": self.scope,
            "layer": self.layer,
            "root_cause": self.root_cause,
            "severity": self.severity,
            "culprits": list(self.culprits),
            "confidence": round(self.confidence, 3),
            "detect_s": self.detect_s,
            "false_alarms": self.false_alarms,
            "summary": self.summary,
            "false": list(self.false),
            "asked": list(self.asked),
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario of a drill."""

    id: str
    file: str
    expect: Expect | None = None
    got: Got | None = None
    error: str = ""
    """Why it could not be played."""
    limit_s: float | None = None
    """Longest time to detect that counts as in time."""
    seconds: float = 0.0
    """What playing it took."""
    points: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what it is called in the table: its id, with its file where that is called otherwise."""
        base = self.file.rpartition("/")[2]
        return self.id if base.rpartition(".")[0] == self.id or base == self.id else f"{self.id} ({base})"

    @property
    def is_right(self) -> bool:
        """Tell whether every answer is right and in time, and nothing was blamed that should not be."""
        return not self.error and self.false_alarms == 0 and all(point == 1.0 for point in self.points.values())

    @property
    def false_alarms(self) -> int:
        """Return how many there were."""
        return self.got.false_alarms if self.got is not None else 0

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form of the contract."""
        row: dict[str, Any] = {
            "id": self.id,
            "file": self.file,
            "expect": None if self.expect is None else expect_json(self.expect),
            "got": None if self.got is None else self.got.as_json(),
            "correct": {name: point == 1.0 for name, point in self.points.items()} if self.points else None,
            "points": dict(self.points),
            "seconds": round(self.seconds, 2),
        }
        return {**row, "error": self.error} if self.error else row


def expect_json(expect: Expect) -> dict[str, Any]:
    """Return the `expect` block of a scenario."""
    return {
        "scope": expect.scope,
        "layer": expect.layer,
        "root_cause": expect.root_cause,
        "culprits": list(expect.culprits),
        "severity": expect.severity,
        "not_blamed": list(expect.not_blamed),
        "detect_within": expect.detect_within,
        "accept": {name: list(words) for name, words in expect.accept.items()},
    }


def points(expect: Expect, got: Got, limit_s: float | None) -> dict[str, float]:
    """Return what each answer is worth: scope, layer, root cause, and unless the fleet is healthy culprits, severity
    and the time to detect, where the scenario limits it."""
    found = {name: _point(expect, name, getattr(got, name)) for name in ("scope", "layer", "root_cause")}
    if expect.root_cause == "unknown" and got.root_cause != "unknown":
        found["root_cause"] = HALF if got.confidence < SURE and not got.culprits else 0.0
    if expect.root_cause == "healthy":
        return found
    found["culprits"] = _culprits(expect, got.culprits)
    found["severity"] = _point(expect, "severity", got.severity)
    if limit_s is not None:
        found["in_time"] = 1.0 if got.detect_s is not None and got.detect_s <= limit_s else 0.0
    return found


def _point(expect: Expect, name: str, got: str) -> float:
    if got == getattr(expect, name):
        return 1.0
    return HALF if got in expect.accept.get(name, ()) else 0.0


def _culprits(expect: Expect, got: Sequence[str]) -> float:
    want, have = set(expect.culprits), set(got)
    if any(is_within(place, bad) for place in have for bad in expect.not_blamed):
        return 0.0
    if want == have:
        return 1.0
    if want and want <= have and len(have) <= len(want) + MOST_BESIDE:
        return HALF
    is_near = want and have and all(any(is_related(place, one) for one in want) for place in have)
    accepted = set(expect.accept.get("culprits", ()))
    return HALF if is_near or (have and have <= accepted) else 0.0


def is_within(place: str, of: str) -> bool:
    """Tell whether a place is `of` or a part of it."""
    return place == of or place.startswith(f"{of}/")


def is_related(one: str, other: str) -> bool:
    """Tell whether two places are the same, or one is a part of the other."""
    return is_within(one, other) or is_within(other, one)


NAMES = ("scope", "layer", "root_cause", "culprits", "severity", "in_time")


def score(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the score of a drill: the mean of the points of each answer, the median time to detect, false alarms."""
    judged = [row for row in rows if row.points]
    said: dict[str, Any] = {"n": len(judged)}
    for name in NAMES:
        given = [row.points[name] for row in judged if name in row.points]
        said[name] = round(sum(given) / len(given), 4) if given else None
    took = [row.got.detect_s for row in judged if row.got is not None and row.got.detect_s is not None]
    said["detect_s_median"] = median(took) if took else None
    said["false_alarms"] = sum(row.false_alarms for row in judged)
    said["right"] = sum(row.is_right for row in judged)
    said["broken"] = sum(bool(row.error) for row in rows)
    return said
