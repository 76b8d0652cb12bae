"""`maintenance:` of a fleet file: when somebody works on which nodes, so that what is found there meanwhile is no
news."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from stethoscope.errors import DataError, UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.model.maintenance import Maintenance
from stethoscope.specs.load import Loaded, SeveralDataError, Spec
from stethoscope.specs.moment import moment_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

LONGEST_S = 90 * 86_400.0
"""A window of more than a quarter of a year is a typing mistake, or a node that is no node of this fleet any more."""
_RULE = re.compile(r"[a-z][a-z0-9_]{1,63}")


class MaintenanceSettings(Spec, frozen=True, kw_only=True):
    """One window; `nodes` is a node set, or `@name` for a group of the file."""

    nodes: str | list[str]
    # `from` is a word of Python.
    from_: str = msgspec.field(name="from")
    to: str
    reason: str = ""
    rules: list[str] = msgspec.field(default_factory=list)


def read_maintenance(
    loaded: Loaded,
    windows: Sequence[MaintenanceSettings],
    known: Collection[str],
    groups: Mapping[str, tuple[str, ...]],
) -> dict[str, tuple[Maintenance, ...]]:
    """Return the windows of each node; DataError or SeveralDataError with positions for what cannot be meant."""
    by_node: dict[str, tuple[Maintenance, ...]] = {}
    errors: list[DataError] = []
    for position, settings in enumerate(windows):
        try:
            window = _window(loaded, settings, position)
            for node in _nodes(loaded, settings, position, known, groups):
                by_node[node] = (*by_node.get(node, ()), window)
        except DataError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return by_node


def _window(loaded: Loaded, settings: MaintenanceSettings, position: int) -> Maintenance:
    path = ("maintenance", position)
    times = []
    for key, text in (("from", settings.from_), ("to", settings.to)):
        if not re.match(r"\d{4}-", text):
            raise loaded.error(f'"{text}" is no day and time: write 2026-03-14T22:00Z', *path, key)
        try:
            times.append(moment_of(text, 0.0))
        except ValueError as error:
            raise loaded.error(str(error), *path, key) from None
    start, end = times
    if end <= start:
        raise loaded.error("ends before it begins", *path, "to")
    if end - start > LONGEST_S:
        raise loaded.error(
            f"lasts {(end - start) / 86_400:.0f} days; the most is {LONGEST_S / 86_400:.0f}", *path, "to"
        )
    for number, rule in enumerate(settings.rules):
        if not _RULE.fullmatch(rule):
            raise loaded.error(f'"{rule}" is not the id of a rule', *path, "rules", number)
    return Maintenance(start, end, settings.reason, tuple(settings.rules))


def _nodes(
    loaded: Loaded,
    settings: MaintenanceSettings,
    position: int,
    known: Collection[str],
    groups: Mapping[str, tuple[str, ...]],
) -> list[str]:
    path = ("maintenance", position, "nodes")
    texts = [settings.nodes] if isinstance(settings.nodes, str) else settings.nodes
    names: dict[str, None] = {}
    for text in texts:
        if text.startswith("@"):
            if text[1:] not in groups:
                near = did_you_mean(text[1:], groups)
                raise loaded.error(f'no group of this file is called "{text[1:]}"{near}', *path)
            names.update(dict.fromkeys(groups[text[1:]]))
            continue
        try:
            names.update(dict.fromkeys(ids.expand(text)))
        except UsageError as error:
            raise loaded.error(str(error), *path) from None
    for name in names:
        if name not in known:
            raise loaded.error(f'no node of this file is called "{name}"{did_you_mean(name, known)}', *path)
    return list(names)
