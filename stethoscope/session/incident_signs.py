"""Signs of what happens: the rules of findings and the signatures of what logs said, as incidents keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.parse.pci import slot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.logs import Event
    from stethoscope.model.night import Entry
    from stethoscope.model.verdict import Verdict

_MOST_SIGNS, _MOST_PLACES = 16, 12
_BEFORE_S = 3600.0
"""What a kernel printed longer before the trouble began has nothing to do with it."""


def verdict_signs(verdict: Verdict, near: Sequence[Entry], snapshot: FleetSnapshot | None) -> tuple[str, ...]:
    """Return the signatures of what the logs of the culprits said, as a log that is decoded has them, and the rules of
    the findings."""
    first = (verdict.signature,) if verdict.signature else ()
    said = (fact.fact for fact in verdict.supports if fact.source == "log" and " " not in fact.fact)
    began = min((at for at in (verdict.since, *(entry.since for entry in near)) if at is not None), default=None)
    rules = (entry.finding.rule for entry in near if entry.finding.rule)
    every = dict.fromkeys((*first, *said, *_xids(verdict.places, began, snapshot), *rules))
    return tuple(every)[:_MOST_SIGNS]


def entry_signs(entry: Entry, snapshot: FleetSnapshot | None) -> tuple[str, ...]:
    """Return the rule of a finding, and the Xids of its places."""
    rule = (entry.finding.rule,) if entry.finding.rule else ()
    xids = _xids(entry.finding.where[:_MOST_PLACES], entry.since, snapshot)
    return tuple(dict.fromkeys((*rule, *xids)))[:_MOST_SIGNS]


def _xids(places: Iterable[str], began: float | None, snapshot: FleetSnapshot | None) -> Iterator[str]:
    """Yield signatures of the Xids that kernels printed about `places`, of a GPU its own alone, since shortly before
    wall second `began`."""
    slots: dict[str, set[str | None]] = {}
    if snapshot is None or began is None:
        return
    for place in places:
        name, _, device = place.partition("/")
        if name in snapshot.by_name and device.partition("/")[0] in ("", "gpu", "nvlink", "pcie"):
            own = {slot_of(gpu.pci) for gpu in snapshot.node(name).gpus if device == f"gpu/{gpu.index}"}
            slots.setdefault(name, set()).update(own)
    for event in snapshot.events if slots else ():
        if event.xid is None or event.node not in slots or event.at < began - _BEFORE_S:
            continue
        if not slots[event.node] or event.pci is None or event.pci in slots[event.node]:
            yield f"xid.{event.xid}"


def log_signs(signature: str | None, events: Iterable[Event]) -> tuple[str, ...]:
    """Return the signatures of what went wrong in a log, the one of its verdict first."""
    first = (signature,) if signature else ()
    order = {"cause": 0, "either": 1, "symptom": 2}
    seen = sorted((event for event in events if event.role in order), key=lambda one: order[one.role])
    return tuple(dict.fromkeys((*first, *(event.signature for event in seen))))[:_MOST_SIGNS]
