"""Two who edit one incident: what each of them made of it, and both together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.model.incident import Times
from stethoscope.text import clean_page
from stethoscope.ui.present.incident_text import STAGES, stamp

if TYPE_CHECKING:
    from stethoscope.model.incident import Incident


class Differs(NamedTuple):
    """A field that two people left different."""

    name: str
    before: str
    mine: str
    theirs: str


_MERGED = (
    "title", "status", "severity", "root_cause", "component", "fleet", "times", "nodes", "places", "around", "job",
    "symptoms", "confidence", "resolution", "tags", "links", "author", "body", "extra",
)  # fmt: skip


def merged(mine: Incident, theirs: Incident, base: Incident | None, *, prefer_mine: bool) -> Incident:
    """Return what two people made of `base`: what one of them changed as that one left it, what both changed as
    `prefer_mine` says; without a `base` everything that differs counts as changed by both."""
    taken: dict[str, Any] = {}
    for name in _MERGED:
        own, other = getattr(mine, name), getattr(theirs, name)
        if own == other or (base is not None and own == getattr(base, name)):
            continue
        if prefer_mine or (base is not None and other == getattr(base, name)):
            taken[name] = own
    return replace(theirs, **taken)


def differing(mine: Incident, theirs: Incident, base: Incident | None) -> list[Differs]:
    """Return the fields in which two incidents differ, those that both changed first."""
    found = []
    for name in _MERGED:
        own, other = getattr(mine, name), getattr(theirs, name)
        if own != other:
            was = getattr(base, name) if base is not None else None
            one = Differs(name, _said(was), _said(own), _said(other))
            found.append((base is not None and was in (own, other), one))
    return [one for _, one in sorted(found, key=lambda each: each[0])]


def _said(value: object) -> str:
    if isinstance(value, Times):
        known = [(name, getattr(value, name)) for name in STAGES]
        return ", ".join(f"{name} {stamp(at)}" for name, at in known if at is not None)
    if isinstance(value, tuple):
        return ", ".join(f"{one.how} {one.to}" if hasattr(one, "how") else str(one) for one in value)
    return "" if value is None else clean_page(str(value))
