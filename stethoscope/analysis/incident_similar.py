"""Which incidents of the past look like what happens now, how much, and why: pure, and the same answer every time.

How much one looks like now is made of what happened and of where:

- what: signs that both have (half of it; a sign that few incidents have weighs more than one that many have, and what
  every night has is little of a likeness), the same root cause (0.3), the same kind of part (0.1), words (0.1). Of what
  is not known now nothing is asked; where something else was the cause then, little is left.
- where: the same part, the same node, the same leaf or rack. Names are compared within one fleet alone. A device whose
  hardware failed before counts by itself; else a place counts only as far as the same thing happened there.
"""

from __future__ import annotations

import re
from math import log
from typing import TYPE_CHECKING

from stethoscope.analysis.incident_lemons import HARDWARE
from stethoscope.analysis.incident_words import is_code, is_of_fleet, is_on_node, reasons_of
from stethoscope.errors import UsageError
from stethoscope.model.ids import expand, node_of
from stethoscope.model.incident import Match
from stethoscope.model.logs import HEALTHY, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stethoscope.model.incident import Clues, Incident

LEAST = 0.35
"""What looks less alike is not shown; of a well-known kind, before it is taken for less."""
_SIGNS, _CAUSE, _PART, _TEXT = 0.5, 0.3, 0.1, 0.1
_ASKED_LEAST = 0.5
"""Clues that know less than this of what happened never make anything wholly alike."""
_TELLING = 0.6
"""Signs that say less together than this share of what a sign says that one incident alone has, such as a slow job,
count so much less: every night has them."""
_SECOND_CAUSE = 0.4
"""So much of a root cause that is likely now, and not the likeliest."""
_OTHER_CAUSE = 0.6
"""So much is left of the same signs where they came from something that is not likely now."""
_WHAT, _WHERE = 0.65, 0.35
_KIND = 0.7
"""A well-known kind says less than a night of this fleet that is as alike."""
_SAME_NODE, _SAME_AROUND = 0.6, 0.3
_FULL_WHAT = 0.5
"""From here on what happened lets the node or the leaf count in full."""
_KNOWN_KIND = 0.3
"""So much of the signs has to be the same for a well-known kind: it names those of every way to see it."""
_FEW_NODES = 8
"""An incident of more nodes says nothing about one of them."""
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")


class Past:
    """Incidents made ready to be compared with; 10,000 of them are asked in some milliseconds."""

    def __init__(self, incidents: Iterable[Incident]) -> None:
        """Keep `incidents`, references too."""
        self.incidents = tuple(incidents)
        self._signs: dict[str, list[int]] = {}
        self._causes: dict[str, list[int]] = {}
        self._places: dict[str, list[int]] = {}
        self._nodes: dict[str, list[int]] = {}
        self._around: dict[str, list[int]] = {}
        self._parts: dict[str, list[int]] = {}
        self._ids: dict[str, int] = {}
        for position, one in enumerate(self.incidents):
            self._ids[one.id] = position
            for table, keys in (
                (self._signs, one.symptoms),
                (self._causes, _causes((one.root_cause,))),
                (self._places, one.places),
                (self._nodes, nodes_of(one)),
                (self._around, _near(one.around)),
                (self._parts, parts_of(one.places, one.component)),
            ):
                for key in set(keys):
                    table.setdefault(key, []).append(position)
        self._weights = [sum(map(self.weight, set(one.symptoms))) for one in self.incidents]

    def weight(self, sign: str) -> float:
        """Return how much a sign says: the fewer incidents have it, the more."""
        return log(1.5 + len(self.incidents) / (1 + len(self._signs.get(sign, ()))))

    def similar(self, clues: Clues, text_scores: Mapping[str, float] | None = None, limit: int = 3) -> list[Match]:
        """Return what looks most like `clues`, the best first; `text_scores` are positive and of any scale."""
        what = self._what(clues, text_scores or {})
        where = self._where(clues)
        causes = _causes(clues.root_causes)
        is_hardware = bool(HARDWARE.intersection(clues.root_causes[:1]))
        scores: list[tuple[float, int]] = []
        for position in what.keys() | where.keys():
            alike, near = what.get(position, 0.0), where.get(position, 0.0)
            if _WHAT * alike + _WHERE * near < LEAST:
                continue
            one = self.incidents[position]
            if causes and one.root_cause and one.root_cause not in causes:
                alike *= _OTHER_CAUSE
            if near and not is_of_fleet(clues, one):
                near = 0.0
            elif near < 1.0 or not is_hardware or one.root_cause not in HARDWARE:
                near *= min(1.0, alike / _FULL_WHAT)
            score = _WHAT * alike + _WHERE * near
            if score >= LEAST and one.id != clues.but:
                scores.append((score * (_KIND if one.is_reference else 1.0), position))
        scores.sort(key=lambda each: self._order(*each))
        found = []
        for score, position in scores[:limit]:
            one = self.incidents[position]
            # Signs stand in the order of what they tell: a stable sort keeps it among those that say as much.
            same = [sign for sign in dict.fromkeys(one.symptoms) if sign in clues.symptoms]
            same.sort(key=lambda sign: (not is_code(sign), -round(self.weight(sign), 2)))
            found.append(Match(one, min(1.0, score), reasons_of(clues, one, same, nodes_of(one))))
        return found

    def _order(self, score: float, position: int) -> tuple[float, bool, bool, float, str]:
        """Of what is as alike: nights of this fleet first, then what says what fixed it, then the newest."""
        one = self.incidents[position]
        return -round(score, 2), one.is_reference, not one.resolution, -(one.at or 0.0), one.id

    def _what(self, clues: Clues, text_scores: Mapping[str, float]) -> dict[int, float]:
        """Return how alike is what happened, 0 to 1."""
        found: dict[int, float] = {}
        signs, causes = set(clues.symptoms), _causes(clues.root_causes)
        parts = parts_of(clues.places, clues.component)
        asked = _SIGNS * bool(signs) + _CAUSE * bool(causes) + _PART * bool(parts) + _TEXT * bool(text_scores)
        share = 1.0 / max(asked, _ASKED_LEAST)
        common: dict[int, float] = {}
        for sign in signs:
            weight = self.weight(sign)
            for position in self._signs.get(sign, ()):
                common[position] = common.get(position, 0.0) + weight
        ours = sum(map(self.weight, signs))
        telling = _TELLING * log(1.5 + len(self.incidents) / 2)
        for position, weight in common.items():
            theirs = self._weights[position]
            least = _KNOWN_KIND if self.incidents[position].is_reference else 1.0
            alike = 2.0 * weight / (max(weight, least * ours) + max(weight, least * theirs))
            found[position] = _SIGNS * share * alike * min(1.0, weight / telling)
        for number, cause in enumerate(causes):
            gain = _CAUSE * share * (_SECOND_CAUSE if number else 1.0)
            for position in self._causes.get(cause, ()):
                # A kind names the signs of many ways to see it: with none of ours it is another one of this cause.
                if position in common or not signs or not self.incidents[position].is_reference:
                    found[position] = found.get(position, 0.0) + gain
        for part in parts:
            gain = _PART * share / len(parts)
            for position in self._parts.get(part, ()):
                if position in found:
                    found[position] += gain
        most = max(text_scores.values(), default=0.0)
        for name, score in text_scores.items():
            at = self._ids.get(name)
            if at is not None and most > 0.0 and score > 0.0:
                found[at] = found.get(at, 0.0) + _TEXT * share * score / most
        return found

    def _where(self, clues: Clues) -> dict[int, float]:
        """Return how near it is, 1 for the same device."""
        found: dict[int, float] = {}
        nodes = {node_of(place) for place in clues.places if is_on_node(place)}
        for table, keys, near in (
            (self._around, {*_near(clues.around), *clues.places}, _SAME_AROUND),
            (self._nodes, nodes, _SAME_NODE),
            (self._places, set(clues.places), 1.0),
        ):
            for key in keys:
                # A node as a whole is not a device: what broke there is not the same for being there.
                gain = _SAME_NODE if near == 1.0 and "/" not in key else near
                for position in table.get(key, ()):
                    found[position] = max(gain, found.get(position, 0.0))
        return found


def similar(
    clues: Clues, incidents: Sequence[Incident], text_scores: Mapping[str, float] | None = None, limit: int = 3
) -> list[Match]:
    """Return the incidents that look most like `clues`, the best first; who asks often keeps a Past."""
    return Past(incidents).similar(clues, text_scores, limit)


def nodes_of(one: Incident) -> frozenset[str]:
    """Return the nodes of the culprits; where none is named, those of an incident that has few."""
    named = frozenset(node_of(place) for place in one.places if is_on_node(place))
    if named or one.places or not one.nodes:
        return named
    if "[" not in one.nodes and "," not in one.nodes:
        return frozenset((one.nodes,))
    if sum(int(high) - int(low) for low, high in _RANGE.findall(one.nodes)) >= _FEW_NODES:
        return frozenset()
    try:
        nodes = expand(one.nodes)
    except UsageError:
        return frozenset()
    return frozenset(nodes) if len(nodes) <= _FEW_NODES else frozenset()


def parts_of(places: Iterable[str], component: str = "") -> frozenset[str]:
    """Return the kinds of the parts: `gpu`, `ib`, `leaf`; with the component as `=optic`."""
    kinds = set()
    for place in places:
        steps = place.split("/")
        kinds.add(("node" if len(steps) == 1 else steps[1]) if is_on_node(place) else steps[0])
    return frozenset(kinds | ({f"={component}"} if component else set()))


def _causes(causes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cause for cause in causes if cause and cause not in (HEALTHY, UNKNOWN)))


def _near(around: Iterable[str]) -> Iterable[str]:
    # Half a fleet is in one pod.
    return (place for place in around if not place.startswith("pod/"))
