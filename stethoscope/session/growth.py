"""What slow counters counted, as far as this machine remembers it, without asking any node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.errors import DataError
from stethoscope.model.ids import device_place, port_name
from stethoscope.model.metric import Metric, Scope
from stethoscope.model.past import DAY_S
from stethoscope.paths import of_fleet, state_dir
from stethoscope.store.slow import SlowFile, fleet_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.model.past import Change, Standing

WINDOWS_S = (DAY_S, 7 * DAY_S, 30 * DAY_S)


class Grown(NamedTuple):
    """What one counter of one device counted."""

    fleet: str
    place: str
    metric: Metric
    total: float | None
    """Where it stood at the last look, None when that is not known."""
    amounts: tuple[float, ...]
    """Within each of the windows that were asked for."""
    last: float
    """Wall seconds of the last change."""


class Remembered(NamedTuple):
    """All that is remembered, and what could not be read."""

    rows: tuple[Grown, ...]
    fleets: tuple[str, ...]
    devices: int
    """Devices whose counters are known, moved or not."""
    errors: tuple[DataError, ...]


def remembered(
    catalogue: Mapping[str, Metric], now: float, *, fleet: str | None = None, longest_s: float = WINDOWS_S[-1]
) -> Remembered:
    """Return what changed within the last `longest_s` seconds before `now`, the latest change first, of one fleet or of
    all that were watched from here; a file that cannot be read costs itself."""
    paths = [of_fleet("history", fleet, "db")] if fleet else sorted((state_dir() / "history").glob("*.db"))
    rows: list[Grown] = []
    fleets, devices, errors = [], 0, []
    for path in paths:
        try:
            name = fleet_of(path)
            standings, changes, _ = SlowFile(path, name).read(now)
        except DataError as error:
            errors.append(error)
            continue
        fleets.append(name)
        devices += sum(len(standing.devices) for standing in standings)
        rows += _rows(name, catalogue, standings, (change for change in changes if change.slot > now - longest_s), now)
    return Remembered(
        tuple(sorted(rows, key=lambda row: (-row.last, row.place))), tuple(fleets), devices, tuple(errors)
    )


def _rows(
    fleet: str, catalogue: Mapping[str, Metric], standings: list[Standing], changes: Iterable[Change], now: float
) -> list[Grown]:
    totals = {
        (metric, standing.node, device): float(last)
        for standing in standings
        for metric, numbers in standing.last.items()
        for device, last in zip(standing.devices, numbers, strict=True)
    }
    found: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        if change.metric in catalogue:
            found.setdefault((change.metric, change.node, change.device), []).append(change)
    rows = []
    for (id_, node, device), moved in found.items():
        metric = catalogue[id_]
        amounts = tuple(sum(change.amount for change in moved if change.slot > now - window) for window in WINDOWS_S)
        total = totals.get((id_, node, device))
        known = None if total is None or total != total else total
        last = max(change.slot for change in moved)
        rows.append(Grown(fleet, _place(metric.scope, node, device), metric, known, amounts, last))
    return rows


def _place(scope: Scope, node: str, device: str) -> str:
    """Return the id of the place; a GPU is known by its UUID, for it may have moved to another slot since."""
    if scope is Scope.NODE:
        return node
    if scope is Scope.GPU:
        return f"{node}/gpu/{device}"
    if scope is Scope.PORT:
        name, _, port = device.rpartition(":")
        return f"{node}/ib/{port_name(name, int(port) if port.isdigit() else 1)}"
    return device_place(node, scope, device)


def growth_json(found: Remembered, now: str) -> dict[str, Any]:
    """Return the JSON document `stethoscope.growth/1`."""
    return {
        "schema": "stethoscope.growth/1",
        "at": now,
        "fleets": list(found.fleets),
        "devices": found.devices,
        "changes": [
            {
                "fleet": row.fleet,
                "where": row.place,
                "metric": row.metric.id,
                "unit": row.metric.unit,
                "total": row.total,
                "in_1d": row.amounts[0],
                "in_7d": row.amounts[1],
                "in_30d": row.amounts[2],
            }
            for row in found.rows
        ],
        "errors": [str(error) for error in found.errors],
    }
