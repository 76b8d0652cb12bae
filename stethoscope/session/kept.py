"""The lists of tonight that are kept on this machine: read, and said something about, without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.errors import UsageError, did_you_mean
from stethoscope.session.night import NightKeeper
from stethoscope.store.night import NightFile, kept_fleets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stethoscope.model.night import Entry


def kept_lists(wall: float, directory: Path | None = None) -> dict[str, NightKeeper]:
    """Return the lists that are kept, by the names of their fleets, without what ended too long ago."""
    return {fleet: kept_list(fleet, wall, directory) for fleet in kept_fleets(directory)}


def kept_list(fleet: str, wall: float, directory: Path | None = None) -> NightKeeper:
    """Return the list of one fleet, empty when none is kept."""
    keeper = NightKeeper(NightFile(fleet, directory))
    keeper.retire(wall)
    return keeper


def find(id_: str, lists: Mapping[str, NightKeeper], fleet: str | None) -> tuple[str, NightKeeper, Entry]:
    """Return the finding that is meant by its id, or by a part of it that only one has, and the list it is in.

    UsageError when there is none, or more than one.
    """
    if fleet is not None and fleet not in lists:
        raise UsageError(f'no list of a fleet "{fleet}" is kept here{did_you_mean(fleet, lists)}')
    chosen = {name: keeper for name, keeper in lists.items() if fleet is None or name == fleet}
    exact = [(name, keeper, keeper.entries[id_]) for name, keeper in chosen.items() if id_ in keeper.entries]
    found = exact or [
        (name, keeper, entry) for name, keeper in chosen.items() for entry in keeper.entries.values() if id_ in entry.id
    ]
    if not found:
        ids = [entry_id for keeper in chosen.values() for entry_id in keeper.entries]
        raise UsageError(f'no finding of tonight is called "{id_}"{did_you_mean(id_, ids)}')
    if len(found) > 1:
        some = ", ".join(f"{entry.id} ({name})" for name, _, entry in found[:4])
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise UsageError(f'"{id_}" may be {some}{more}: say more of it, or which fleet with --of')
    return found[0]
