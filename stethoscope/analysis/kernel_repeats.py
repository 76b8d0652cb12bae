"""Faults of programs that stay with one GPU over several programs: then the GPU is the suspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.kernel_incidents import Incident, Sign

FAULTS = frozenset({13, 31})
_TIMES = 3
_TIMES_AT_ONE_PLACE = 2


class Suspect(NamedTuple):
    """A GPU on which programs keep failing."""

    times: int
    programs: int
    """Different pids, where they are printed."""
    place: str
    """GPC and TPC when they are the same each time, else empty."""


def repeats_on_one_gpu(incidents: Sequence[tuple[Incident, Sign]]) -> dict[int, Suspect]:
    """Return id(incident) -> suspect for the incidents of a GPU that fails again and again while no other GPU of the
    log does: three times, or twice at the same GPC and TPC, by different processes."""
    by_gpu: dict[tuple[str, str | None], list[tuple[Incident, Sign]]] = {}
    for incident, cause in incidents:
        if cause.xid in FAULTS and len(incident.members) == 1:
            by_gpu.setdefault((incident.host, cause.event.pci), []).append((incident, cause))
        elif cause.xid in FAULTS:
            return {}
    if len(by_gpu) != 1:
        return {}
    own = next(iter(by_gpu.values()))
    pids = {cause.event.fields.get("pid") for _, cause in own} - {None}
    addresses = {cause.event.fields.get("address") for _, cause in own if cause.xid == 31} - {None}
    places = {(cause.event.fields.get("gpc"), cause.event.fields.get("tpc")) for _, cause in own}
    at_one_place = len(places) == 1 and (None, None) not in places and all(cause.xid == 13 for _, cause in own)
    needed = _TIMES_AT_ONE_PLACE if at_one_place else _TIMES
    same_process = len(pids) == 1 and all(cause.event.fields.get("pid") for _, cause in own)
    # One address in every process is a driver's or a program's doing, not the silicon's.
    same_address = len(addresses) == 1 and len(own) > 1 and all(cause.xid == 31 for _, cause in own)
    if len(own) < needed or same_process or same_address:
        return {}
    gpc, tpc = next(iter(places))
    suspect = Suspect(len(own), len(pids), f"GPC {gpc}, TPC {tpc}" if at_one_place else "")
    return {id(incident): suspect for incident, _ in own}
