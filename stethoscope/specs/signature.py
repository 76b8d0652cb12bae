"""Log signatures: `signatures/*.yaml` of each playbook directory, the nearest definition of an id wins.

A signature is found in two steps: a literal anchor in the raw bytes, then a bounded regex on the line without its
prefixes. `docs/signatures.md` explains every key; `specs.signature_file` reads the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from stethoscope.model.finding import Severity
from stethoscope.specs.compiled import cached, playbook_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from stethoscope.model.logs import Role

PATTERN = "signatures/*.yaml"
"""Where signatures stand in a playbook directory."""

ANY = "*"
"""In `yields_to`: every signature that can alarm and says no such thing of itself."""
OF_FAMILY = ".*"
"""At the end of an entry of `yields_to` beside ANY: evidence of that family too."""

Blame = Literal["reporter", "named", "peer", "nobody"]
"""Whom a line accuses: who prints it, whom its fields name, the other end that they name, or nobody."""

_READERS = ("stethoscope.specs.signature", "stethoscope.specs.signature_file")
_HEX = frozenset({"busid", "src_dev", "dst_dev", "hash", "guid", "addr", "comm", "syndrome", "version"})
"""Groups that may look like whole numbers and are none."""
_PADDED = frozenset({"rank", "local_rank", "peer_rank", "dev", "gpu"})
"""Groups that are whole numbers with zeros before them too: `rank 02`."""


@dataclass(frozen=True, slots=True)
class Names:
    """Which groups of a signature say who it is about; empty where none does."""

    blame: Blame = "nobody"
    rank: str = ""
    host: str = ""
    device: str = ""
    """In the words of places, groups in braces: `ib/{hca}`."""
    pci: str = ""
    peer: str = ""
    """Host or address of the other end."""
    peer_rank: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """What is different about a signature when its fields have certain values."""

    when: Mapping[str, tuple[str, ...]]
    """Group -> any of these values, as text."""
    changes: Mapping[str, Any]
    """Field of Signature -> value instead."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One kind of line, and what it means."""

    id: str
    anchors: tuple[bytes, ...]
    """At least one of them is in each line that a pattern matches."""
    patterns: tuple[str, ...]
    role: Role
    severity: Severity
    meaning: str
    root_cause: str | None = None
    likely_causes: tuple[str, ...] = ()
    next_checks: tuple[str, ...] = ()
    versions: str = ""
    notes: str = ""
    env: tuple[str, ...] = ()
    """Environment variables that have to do with it."""
    fold_into: tuple[str, ...] = ()
    """Ids of the event that this line is a part of, any of them near it."""
    fold_by: tuple[str, ...] = ()
    """Groups that keep two of its lines apart."""
    yields_to: tuple[str, ...] = ()
    """Ids that count instead when they match the same line, whole families, or ANY."""
    culprit: Names = field(default_factory=Names)
    variants: tuple[Variant, ...] = ()
    example: str = ""
    source: str = ""
    """File that defines it."""

    @property
    def family(self) -> str:
        """Return the first word of its id."""
        return self.id.partition(".")[0]

    @property
    def alarms(self) -> bool:
        """Whether it can be a cause or a symptom; the rest is evidence."""
        return self.role not in ("context", "benign")

    def yields(self, other: Signature) -> bool:
        """Return whether `other` counts instead where both match one line."""
        if other.id in self.yields_to:
            return True
        general = other.alarms or other.family + OF_FAMILY in self.yields_to
        return ANY in self.yields_to and general and ANY not in other.yields_to

    def search(self, text: str) -> re.Match[str] | None:
        """Return the match of the first pattern that is in `text`, a line without its prefixes."""
        for pattern in self.patterns:
            match = _compile(pattern).search(text)
            if match is not None:
                return match
        return None

    def fields(self, match: re.Match[str]) -> dict[str, str | int]:
        """Return the named groups of `match` that took part, whole numbers as such."""
        return {name: field_of(name, value) for name, value in match.groupdict().items() if value is not None}

    def variant(self, fields: Mapping[str, object]) -> Signature:
        """Return the signature as it is for these fields: the first variant that fits, else itself."""
        for variant in self.variants:
            if all(str(fields.get(name)) in values for name, values in variant.when.items()):
                return replace(self, **variant.changes)
        return self


@dataclass(frozen=True, slots=True)
class Signatures:
    """All signatures in reach."""

    by_id: Mapping[str, Signature]
    anchors: Mapping[bytes, tuple[Signature, ...]]
    """Anchor -> the signatures to try where it was found."""

    def find(self, text: str, candidates: Iterable[Signature] | None = None) -> list[tuple[Signature, re.Match[str]]]:
        """Return the signatures that match a line without its prefixes; those that yield to another are left out.

        `candidates` are those whose anchors were found in the line; without them all anchors are looked for.
        """
        if candidates is None:
            raw = text.encode()
            candidates = {s.id: s for anchor, group in self.anchors.items() if anchor in raw for s in group}.values()
        found = [(signature, match) for signature in candidates if (match := signature.search(text))]
        if len(found) < 2:
            return found
        return [pair for pair in found if not any(pair[0].yields(other) for other, _ in found)]


def load_signatures(*directories: Path) -> Signatures:
    """Return every signature of `directories`, the user's configuration and the bundled ones, the nearest definition of
    an id; raises DataError with the position."""
    sources = playbook_files(PATTERN, *directories)
    causes = playbook_files("root_causes.yaml", *directories)

    def build() -> Any:
        from stethoscope.specs.signature_file import read_all

        # The files as positions: the same content somewhere else has the same compiled form.
        positions = {str(path): at for at, path in enumerate(sources)}
        return [_pack(signature, positions[signature.source]) for signature in read_all(sources, *directories)]

    files = [str(path) for path in sources]
    by_id = {each[0]: _unpack(each, files) for each in cached("signatures", [*sources, *causes], _READERS, build)}
    anchors: dict[bytes, list[Signature]] = {}
    for signature in by_id.values():
        for anchor in signature.anchors:
            anchors.setdefault(anchor, []).append(signature)
    return Signatures(by_id, {anchor: tuple(found) for anchor, found in anchors.items()})


def field_of(name: str, value: str) -> str | int:
    """Return what the group `name` took as a field: a whole number as such."""
    # Most values are words: that is seen at once.
    if value.isdecimal() or value[:1] == "-":
        return int(value) if _is_number(name, value) else value
    return value.strip()


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _is_number(name: str, value: str) -> bool:
    digits = value.removeprefix("-")
    if not digits.isdecimal() or len(digits) > 18 or name in _HEX:
        return False
    return value == "0" or digits[0] != "0" or name in _PADDED


def _pack(signature: Signature, source: int) -> list[Any]:
    return [
        signature.id, [anchor.decode() for anchor in signature.anchors], signature.patterns, signature.role,
        signature.severity.value, signature.meaning, signature.root_cause, signature.likely_causes,
        signature.next_checks, signature.versions, signature.notes, signature.env, signature.fold_into,
        signature.fold_by, signature.yields_to,
        _names(signature.culprit),
        [[variant.when, _changes(variant)] for variant in signature.variants], signature.example, source,
    ]  # fmt: skip


def _unpack(packed: list[Any], files: list[str]) -> Signature:
    (
        id_, anchors, patterns, role, severity, meaning, root_cause, causes, checks, versions, notes, env, fold_into,
        fold_by, yields_to, names, variants, example, source,
    ) = packed  # fmt: skip
    return Signature(
        id_, tuple(anchor.encode() for anchor in anchors), tuple(patterns), role, Severity(severity), meaning,
        root_cause, tuple(causes), tuple(checks), versions, notes, tuple(env), tuple(fold_into), tuple(fold_by),
        tuple(yields_to), Names(*names), tuple(_variant(*variant) for variant in variants), example,
        files[source],
    )  # fmt: skip


def _changes(variant: Variant) -> dict[str, Any]:
    names = variant.changes.get("culprit")
    return {**variant.changes, "culprit": _names(names)} if names is not None else dict(variant.changes)


def _names(names: Names) -> list[str]:
    return [names.blame, names.rank, names.host, names.device, names.pci, names.peer, names.peer_rank]


def _variant(when: dict[str, list[str]], changes: dict[str, Any]) -> Variant:
    names = changes.pop("culprit", None)
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    if "severity" in changes:
        changes["severity"] = Severity(changes["severity"])
    if names is not None:
        changes["culprit"] = Names(*names)
    return Variant({name: tuple(values) for name, values in when.items()}, changes)
