"""Parts and nodes that keep coming back: pure, from the incidents of the past."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from stethoscope.analysis.incident_words import is_on_node, part_word, sign_word
from stethoscope.model.ids import node_of
from stethoscope.model.incident import Lemon, LemonLimits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from stethoscope.model.incident import Incident

HARDWARE = frozenset((
    "ib_link_fault", "ib_link_down", "ib_speed_low", "nic_fault", "nic_pcie_fault", "nvlink_fault", "gpu_memory_fault",
    "gpu_fallen_off_bus", "gpu_hw_fault", "gpu_thermal", "gpu_power", "pcie_fault", "cooling_fault", "psu_fault",
    "cpu_or_memory_fault", "disk_wear", "node_down", "driver_hung",
))  # fmt: skip
"""Root causes that a part or a node may have of its own and have again; settings, programs and neighbours are none."""
REPLACED = "replaced"
"""Tag of an incident after which its places are other hardware: what was up to then counts no more."""
_DAY_S = 86_400.0
_TOGETHER_S = 600.0
"""Incidents of one place and cause that began so near each other are one night."""
_SPELL_S = 2 * 3600.0
"""What comes again so soon, or before it was over, is the same once more: nobody mended anything in between."""
PLANNED = frozenset(("planned", "maintenance", "drill", "burn-in"))
"""Tags of what people did on purpose."""
_FEW_NODES = 3
"""What hits more nodes at once comes from none of them."""
_AT_ONCE_S = 3600.0
"""So near to each other the same cause on many nodes is one event, however many files tell of it."""
_TIMES = {2: "twice"}
_SWAPS = {
    "port": "swap the transceiver, then the cable, then the port",
    "disk": "replace the disk",
    "GPU": "run long diagnostics, then ask for a replacement",
    "NVLink": "run long diagnostics, then ask for a replacement",
}


def lemons(
    incidents: Iterable[Incident],
    now: float,
    limits: LemonLimits | None = None,
    places: Collection[str] | None = None,
) -> list[Lemon]:
    """Return what keeps coming back, the most incidents first; `now` in wall seconds.

    With `places` only these, what is on a node among them, and the nodes of devices among them.
    """
    limits = limits or LemonLimits()
    counted = _by_place(incidents, now)
    found: dict[str, Lemon] = {}
    for place, those in counted.items():
        if places is not None and not _is_meant(place, places):
            continue
        lemon = _part(place, those, now, limits) if "/" in place else _node(place, those, now, limits)
        if lemon is not None:
            found[place] = lemon
    return sorted(found.values(), key=lambda one: (-one.count, one.place))


def _by_place(incidents: Iterable[Incident], now: float) -> dict[str, list[tuple[float, Incident]]]:
    """Return what counts for each part and each node, the latest first, each night once."""
    known: list[tuple[float, Incident, tuple[str, ...]]] = []
    replaced: dict[tuple[str, str], float] = {}
    for one in incidents:
        at = one.at
        on_nodes = tuple(place for place in one.places if is_on_node(place))
        if one.is_reference or at is None or at > now or len(set(map(node_of, on_nodes))) > _FEW_NODES:
            continue
        if (one.root_cause in HARDWARE or not one.root_cause) and not PLANNED.intersection(one.tags):
            known.append((at, one, on_nodes))
        if REPLACED in one.tags:
            for place in on_nodes:
                replaced[one.fleet, place] = max(at, replaced.get((one.fleet, place), at))
    whole = {one.id.rpartition("-")[2]: one.id for _, one, _ in known} | {one.id: one.id for _, one, _ in known}
    found: dict[tuple[str, str], list[tuple[float, Incident]]] = defaultdict(list)
    told: set[str] = set()
    for at, one, on_nodes in _without_shared(sorted(known, key=lambda each: (-each[0], each[1].id))):
        # What came of another one is no failure of its own, and two files may tell of the same night.
        names = {one.id, *(whole.get(link.to, "") for link in one.links if link.how in ("same_as", "caused_by"))} - {""}
        if told.intersection(names):
            continue
        told |= names
        here = [
            place
            for place in on_nodes
            if at > max(replaced.get((one.fleet, each), at - 1.0) for each in (place, node_of(place)))
        ]
        for place in dict.fromkeys((*here, *map(node_of, here))):
            found[one.fleet, place].append((at, one))
    # The same name in two fleets is two parts.
    by_place: dict[str, list[tuple[float, Incident]]] = {}
    for (_, place), those in found.items():
        by_place[place] = max(by_place.get(place, []), _spells(those), key=len)
    return by_place


def _without_shared(
    known: list[tuple[float, Incident, tuple[str, ...]]],
) -> Iterator[tuple[float, Incident, tuple[str, ...]]]:
    """Leave out what hit many nodes at once in a file for each; `known` has the latest first."""
    by_cause: dict[tuple[str, str], list[tuple[float, Incident, tuple[str, ...]]]] = defaultdict(list)
    for each in known:
        by_cause[each[1].fleet, each[1].root_cause].append(each)
    shared: set[str] = set()
    for (_, cause), those in by_cause.items():
        first = 0
        for last, each in enumerate(those if cause else ()):
            while those[first][0] - each[0] > _AT_ONCE_S:
                first += 1
            together = those[first : last + 1]
            if len(together) > _FEW_NODES:
                nodes = {node_of(place) for one in together for place in one[2]}
                if len(nodes) > _FEW_NODES:
                    shared.update(one[1].id for one in together)
    return (each for each in known if each[1].id not in shared)


def is_one_night(one: Incident, at: float, other: Incident, when: float) -> bool:
    """Tell whether two incidents of one place, which began at these wall seconds, are one, written down twice."""
    causes = {one.root_cause, other.root_cause}
    return abs(at - when) < _TOGETHER_S and (len(causes) == 1 or "" in causes)


def _spells(those: list[tuple[float, Incident]]) -> list[tuple[float, Incident]]:
    """Return these without what began while an earlier one of them was not over; the latest stand first."""
    kept: list[tuple[float, Incident]] = []
    over = float("-inf")
    for at, one in reversed(those):
        if at > over:
            kept.append((at, one))
        times = one.times
        end = next((wall for wall in (times.mitigated, times.resolved) if wall is not None), at)
        over = max(over, at + _SPELL_S, min(end, at + _DAY_S))
    return kept[::-1]


def _part(place: str, those: Sequence[tuple[float, Incident]], now: float, limits: LemonLimits) -> Lemon | None:
    word = part_word(place)
    recent = [each for each in those if now - each[0] <= limits.sign_days * _DAY_S]
    by_sign = {sign: [each for each in recent if sign in each[1].symptoms] for sign in limits.signs}
    sign = max(limits.signs, key=lambda each: len(by_sign[each]), default="")
    if word == "GPU" and sign and len(by_sign[sign]) >= limits.sign_times:
        name = sign_word(sign).removeprefix("sign ")
        return _lemon(place, by_sign[sign], "RMA: {name} {times} on this GPU in {days}", name)
    recent = [each for each in those if now - each[0] <= limits.part_days * _DAY_S]
    causes: dict[str, list[tuple[float, Incident]]] = defaultdict(list)
    for each in recent:
        if each[1].root_cause in HARDWARE:
            causes[each[1].root_cause].append(each)
    cause = max(causes, key=lambda each: (len(causes[each]), each), default="")
    if not cause or len(causes[cause]) < limits.part_times:
        return None
    return _lemon(place, causes[cause], f"{_SWAPS.get(word, 'replace it')}: {{name}} {{times}} here in {{days}}", cause)


def _node(place: str, those: Sequence[tuple[float, Incident]], now: float, limits: LemonLimits) -> Lemon | None:
    recent = [each for each in those if now - each[0] <= limits.node_days * _DAY_S and each[1].root_cause in HARDWARE]
    if len(recent) < limits.node_times:
        return None
    advice = "keep jobs off it until a burn-in passes: {times} broken in {days}"
    return _lemon(place, recent, advice, "")


def _lemon(place: str, those: Sequence[tuple[float, Incident]], advice: str, name: str) -> Lemon:
    days = (those[0][0] - those[-1][0]) / _DAY_S
    times = _TIMES.get(len(those), f"{len(those)} times")
    span = f"{days:.0f} d" if days >= 1.0 else "one day"
    ids = tuple(one.id for _, one in those)
    return Lemon(place, len(those), days, ids, advice.format(name=name, times=times, days=span))


def _is_meant(place: str, places: Collection[str]) -> bool:
    node = node_of(place)
    if "/" in place:
        return place in places or node in places
    return any(node_of(each) == place for each in places)
