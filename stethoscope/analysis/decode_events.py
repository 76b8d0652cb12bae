"""Makes events of matches, folds floods of equal ones, and puts all into the order of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from stethoscope.model.logs import Event
from stethoscope.parse.pci import normal_pci, slot_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stethoscope.model.finding import Severity
    from stethoscope.model.logs import LogFile, Origin, Role
    from stethoscope.parse.prefix import Peeled
    from stethoscope.specs.signature import Names, Signature

FOLD_S = 60.0
"""Equal lines that are this close to the last one are one event."""
_FOLD_LINES = 2000
_MOST_EVENTS = 40_000
_MOST_HARMLESS = 40_000
"""What a healthy start prints on thousands of ranks leaves room for what went wrong later."""
_HARMLESS = ("context", "benign")
_MOST_OF_ONE = 20
_LONGEST_TEXT = 2000
_LEAD_PCI = re.compile(r"[\w-]{1,32} (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])[ :]")
_LEAD_ANY = re.compile(_LEAD_PCI.pattern.replace("[0-7]", r"\d"))
_PLACE = re.compile(r"\{(\w+)\}")


def place_of(text: str, names: Names, fields: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return the PCI slot and the device that a line is about, as its fields or its first words say."""
    pci = None
    if names.pci and fields.get(names.pci):
        pci = slot_of(normal_pci(str(fields[names.pci]).removeprefix("PCI:"))) or None
    if pci is None:
        match = _LEAD_PCI.match(text)
        if match:
            pci = slot_of(normal_pci(match["pci"])) or None
    device = None
    if names.device and all(fields.get(name) not in (None, "") for name in _named(names.device)):
        device = _PLACE.sub(lambda match: str(fields[match[1]]), names.device)
    return pci, device


def is_harmless(signature: Signature) -> bool:
    """Tell whether a signature never means harm, whatever its fields are."""
    return signature.role in _HARMLESS and not signature.variants


def names_place(names: Names) -> tuple[str, ...]:
    """Return the groups that `place_of` looks at."""
    return (*((names.pci,) if names.pci else ()), *_named(names.device))


def lead_of(text: str) -> tuple[int, int] | None:
    """Return where the first words of a line may name a PCI slot, whatever the digits in them are."""
    match = _LEAD_ANY.match(text)
    return match.span("pci") if match is not None else None


@cache
def _named(device: str) -> tuple[str, ...]:
    return tuple(_PLACE.findall(device))


@dataclass(slots=True)
class Folded:
    """The last line of an event, which the next one must be near to."""

    event: Event
    at: float | None
    uptime_s: float | None
    line: int


class EventStore:
    """All events of a scan."""

    def __init__(self) -> None:
        """Hold none."""
        self.events: list[Event] = []
        self._folds: dict[tuple[object, ...], Folded] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._variants: dict[tuple[object, ...], Signature] = {}
        self._touched: dict[int, Event] = {}
        self._room = [_MOST_EVENTS, _MOST_HARMLESS]
        """For so many more there is room: of those that went wrong, and of those that mean no harm."""
        self._origins: dict[int, tuple[Origin, tuple[object, ...]]] = {}

    def add(
        self, file: int, line: int, piece: Peeled, signature: str, role: Role, severity: Severity,
        fields: Mapping[str, str | int | float], pci: str | None = None, device: str | None = None,
        fold_by: Sequence[str] = (),
    ) -> Folded | None:  # fmt: skip
        """Keep a line as an event of its own, or as one more of an earlier one.

        Returns what each further line of the same file, writer, signature, place and fields adds to (`grow`), None when
        that is not sure.
        """
        base = (file, signature, role, piece.key, self._who(piece.origin), pci, device)
        key = (*base, *(fields.get(name) for name in fold_by)) if fold_by else (*base, *fields.values())
        folded = self._folds.get(key)
        if folded is None and not fold_by:
            # Fields that differ keep lines apart until there are so many that nobody would read them.
            kinds = self._kinds[base] = self._kinds.get(base, 0) + 1
            if kinds > _MOST_OF_ONE:
                key = base
                folded = self._folds.get(key)
        is_own = key is not base
        if folded is not None and self.grow(folded, piece.at, piece.uptime_s, line):
            return folded if is_own else None
        if self._room[role in _HARMLESS] <= 0:
            key, is_own = (file, signature), False
            folded = self._folds.get(key)
            if folded is not None:
                self._grow(folded, piece.at, piece.uptime_s, line)
                return None
        event = Event(
            signature=signature, role=role, severity=severity, text=piece.text[:_LONGEST_TEXT], file=file, line=line,
            at=piece.at, at_is_near=piece.at_is_near, uptime_s=piece.uptime_s, origin=piece.origin, pci=pci,
            device=device, fields=fields,
        )  # fmt: skip
        self.events.append(event)
        self._room[role in _HARMLESS] -= 1
        self._touched[id(event)] = event
        if folded is None:
            folded = self._folds[key] = Folded(event, piece.at, piece.uptime_s, line)
        else:
            folded.event, folded.at, folded.uptime_s, folded.line = event, piece.at, piece.uptime_s, line
        return folded if is_own else None

    def variant(self, signature: Signature, fields: Mapping[str, object]) -> Signature:
        """Return the signature as it is for these fields."""
        if not signature.variants:
            return signature
        names = sorted({name for variant in signature.variants for name in variant.when})
        key = (signature.id, *(fields.get(name) for name in names))
        found = self._variants.get(key)
        if found is None:
            if len(self._variants) > _MOST_EVENTS:
                self._variants.clear()
            found = self._variants[key] = signature.variant(fields)
        return found

    def news(self) -> list[Event]:
        """Return the events that are new, or grew, since the last call, each once."""
        found = list(self._touched.values())
        self._touched.clear()
        return found

    def _who(self, origin: Origin) -> tuple[object, ...]:
        """Return what tells two origins apart; those of one file are few, and shared by its lines."""
        known = self._origins.get(id(origin))
        if known is not None and known[0] is origin:
            return known[1]
        who = (
            origin.host, origin.rank, origin.local_rank, origin.task, origin.cuda_device, origin.pid, origin.pod,
            origin.boot,
        )  # fmt: skip
        if len(self._origins) > _MOST_EVENTS:
            self._origins.clear()
        self._origins[id(origin)] = (origin, who)
        return who

    def grow(self, folded: Folded, at: float | None, uptime_s: float | None, line: int) -> bool:
        """Count one more line in an event; False when it is too far from the last one and there is room for another."""
        if folded.at is not None and at is not None:
            is_near = -FOLD_S <= at - folded.at <= FOLD_S
        elif folded.uptime_s is not None and uptime_s is not None:
            is_near = -FOLD_S <= uptime_s - folded.uptime_s <= FOLD_S
        else:
            is_near = line - folded.line <= _FOLD_LINES
        if not is_near and self._room[folded.event.role in _HARMLESS] > 0:
            return False
        self._grow(folded, at, uptime_s, line)
        return True

    def _grow(self, folded: Folded, at: float | None, uptime_s: float | None, line: int) -> None:
        event = folded.event
        event.count += 1
        if at is not None and (event.last_at is None or at > event.last_at):
            event.last_at = at
        folded.at, folded.uptime_s, folded.line = at, uptime_s, line
        self._touched[id(event)] = event


def in_order(events: Sequence[Event]) -> list[Event]:
    """Return the events in the order of time; one without a time stays behind the one above it in its file, and files
    without any time stay in the order in which they were given."""
    by_file: dict[int, list[Event]] = {}
    for event in events:
        by_file.setdefault(event.file, []).append(event)
    keyed: list[tuple[float, int, int, int, Event]] = []
    previous = float("-inf")
    for file in sorted(by_file):
        own = by_file[file]
        first = next((event.at for event in own if event.at is not None), None)
        last = first if first is not None else previous
        for position, event in enumerate(own):
            last = event.at if event.at is not None else last
            keyed.append((last, file, event.line, position, event))
            previous = max(previous, last)
    keyed.sort(key=lambda entry: entry[:4])
    return [entry[4] for entry in keyed]


def once_each(events: Sequence[Event], files: Sequence[LogFile]) -> list[Event]:
    """Return the events without those that another file tells too: a log that was saved twice, or is there packed as
    well, is no further evidence. The file whose name comes first keeps it. Lines without any time may be different
    ones and stay."""
    tellers: dict[tuple[object, ...], tuple[str, int]] = {}
    keys: list[tuple[object, ...] | None] = []
    for event in events:
        who, key = event.origin, None
        if event.at is not None or event.uptime_s is not None:
            key = (
                event.signature, event.at, event.uptime_s, event.last_at, event.count, event.text, event.pci,
                who.host, who.rank, who.local_rank, who.task, who.pid, who.pod, who.boot,
            )  # fmt: skip
            teller = (files[event.file].name, event.file)
            tellers[key] = min(tellers.get(key, teller), teller)
        keys.append(key)
    return [event for event, key in zip(events, keys, strict=True) if key is None or tellers[key][1] == event.file]
