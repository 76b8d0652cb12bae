"""The files of signatures: YAML -> Signature, with all checked that needs no sample; errors name the position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.specs.load import Loaded, SeveralDataError, Spec, convert, load
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.signature import ANY, OF_FAMILY, Blame, Names, Signature, Variant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from stethoscope.specs.root_cause import RootCause

Role = Literal["cause", "symptom", "either", "context", "benign"]
Level = Literal["P0", "P1", "P2", "info", "none"]
SHORTEST_ANCHOR = 4

_ID = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*")
_CODE = re.compile(r"s?xid\.\d{1,6}")
_PLACE = re.compile(r"\{(\w*)\}")


class NamesSpec(Spec, frozen=True):
    """`culprit:`: which groups name whom."""

    blame: Blame
    rank: str = ""
    host: str = ""
    device: str = ""
    pci: str = ""
    peer: str = ""
    peer_rank: str = ""


class VariantSpec(Spec, frozen=True):
    """One entry of `variants:`."""

    when: dict[str, str | int | list[str | int]]
    role: Role | None = None
    root_cause: str | msgspec.UnsetType | None = msgspec.UNSET
    """Null takes that of the signature away."""
    severity: Level | None = None
    meaning: str | None = None
    likely_causes: list[str] | None = None
    next_checks: list[str] | None = None
    fold_into: list[str] | None = None
    blame: Blame | None = None


class SampleSpec(Spec, frozen=True):
    """A line with the fields that it must give; those that are not named may be anything."""

    text: str
    fields: dict[str, str | int]


class SamplesSpec(Spec, frozen=True):
    """`samples:`: lines without prefixes that the patterns must match, and such that they must not."""

    match: list[str | SampleSpec]
    no_match: list[str] = msgspec.field(default_factory=list)


class SignatureSpec(Spec, frozen=True):
    """One signature of a file."""

    id: str
    anchors: list[str]
    patterns: list[str]
    role: Role
    severity: Level
    meaning: str
    samples: SamplesSpec
    root_cause: str | None = None
    likely_causes: list[str] = msgspec.field(default_factory=list)
    next_checks: list[str] = msgspec.field(default_factory=list)
    versions: str = ""
    notes: str = ""
    env: list[str] = msgspec.field(default_factory=list)
    fold_into: list[str] = msgspec.field(default_factory=list)
    fold_by: list[str] = msgspec.field(default_factory=list)
    yields_to: list[str] = msgspec.field(default_factory=list)
    beside: list[str] = msgspec.field(default_factory=list)
    """Ids that say something else about the same line, so that both count: for `lint` only."""
    culprit: NamesSpec | None = None
    variants: list[VariantSpec] = msgspec.field(default_factory=list)


class SignatureFile(Spec, frozen=True):
    """The whole file."""

    schema: Literal["stethoscope.signatures/1"]
    signatures: list[SignatureSpec]


@dataclass(frozen=True, slots=True)
class Written:
    """A signature with its samples and where it stands."""

    signature: Signature
    spec: SignatureSpec
    file: Loaded
    position: int

    def error(self, message: str, *path: str | int) -> DataError:
        """Return an error about a part of it."""
        return self.file.error(message, "signatures", self.position, *path)


def read_all(sources: Sequence[Path], *directories: Path) -> list[Signature]:
    """Return the signatures of `sources`, the nearest file first, without their samples."""
    return [written.signature for written in read_written(sources, *directories)]


def read_written(sources: Sequence[Path], *directories: Path) -> list[Written]:
    """Return the signatures of `sources`, the nearest definition of each id; raises all that is wrong in one error."""
    causes = load_root_causes(*directories)
    found: dict[str, Written] = {}
    errors: list[DataError] = []
    for path in sources:
        loaded = load(path)
        try:
            file = convert(loaded, SignatureFile)
        except DataError as error:
            errors += error.errors if isinstance(error, SeveralDataError) else [error]
            continue
        for position, spec in enumerate(file.signatures):
            written = Written(_signature(spec, str(path)), spec, loaded, position)
            errors += _check(written, causes)
            earlier = found.setdefault(spec.id, written)
            if earlier is not written and earlier.signature.source.rpartition("/")[0] == str(path).rpartition("/")[0]:
                errors.append(written.error(f'the signature "{spec.id}" is defined twice', "id"))
    for written in found.values():
        errors += _check_ids(written, found)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return list(found.values())


def _signature(spec: SignatureSpec, source: str) -> Signature:
    names = spec.culprit
    first = spec.samples.match[0] if spec.samples.match else ""
    return Signature(
        id=spec.id,
        anchors=tuple(anchor.encode() for anchor in spec.anchors),
        patterns=tuple(spec.patterns),
        role=spec.role,
        severity=Severity(spec.severity),
        meaning=spec.meaning,
        root_cause=spec.root_cause,
        likely_causes=tuple(spec.likely_causes),
        next_checks=tuple(spec.next_checks),
        versions=spec.versions,
        notes=spec.notes,
        env=tuple(spec.env),
        fold_into=tuple(spec.fold_into),
        fold_by=tuple(spec.fold_by),
        yields_to=tuple(spec.yields_to),
        culprit=Names(**msgspec.structs.asdict(names)) if names is not None else Names(),
        variants=tuple(_variant(variant, spec) for variant in spec.variants),
        example=first if isinstance(first, str) else first.text,
        source=source,
    )


def _variant(spec: VariantSpec, of: SignatureSpec) -> Variant:
    when = {name: tuple(map(str, v)) if isinstance(v, list) else (str(v),) for name, v in spec.when.items()}
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in msgspec.structs.asdict(spec).items()
        if value is not None and name not in ("when", "blame", "root_cause")
    }
    if spec.root_cause is not msgspec.UNSET:
        changes["root_cause"] = spec.root_cause
    if spec.severity is not None:
        changes["severity"] = Severity(spec.severity)
    if spec.blame is not None:
        names = msgspec.structs.asdict(of.culprit) if of.culprit is not None else {}
        changes["culprit"] = Names(**{**names, "blame": spec.blame})
    return Variant(when, changes)


def _check(written: Written, causes: Mapping[str, RootCause]) -> Iterator[DataError]:
    spec = written.spec
    if not _ID.fullmatch(spec.id):
        yield written.error("an id is words of lower-case letters, digits and _, with dots between them", "id")
    if not spec.anchors:
        yield written.error("it needs an anchor", "anchors")
    for at, anchor in enumerate(spec.anchors):
        if len(anchor.strip().encode()) < SHORTEST_ANCHOR:
            yield written.error(f"an anchor has at least {SHORTEST_ANCHOR} characters", "anchors", at)
    groups: set[str] = set()
    if not spec.patterns:
        yield written.error("it needs a pattern", "patterns")
    for at, pattern in enumerate(spec.patterns):
        try:
            groups |= re.compile(pattern, re.ASCII).groupindex.keys()
        except (re.error, OverflowError, RecursionError) as error:
            yield written.error(f"not a regular expression: {error}", "patterns", at)
    yield from _check_groups(written, groups)
    for cause, path in _causes(spec):
        if cause not in causes:
            yield written.error(f'unknown root cause "{cause}"{did_you_mean(cause, causes)}', *path)


def _causes(spec: SignatureSpec) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    if spec.root_cause is not None:
        yield spec.root_cause, ("root_cause",)
    for at, variant in enumerate(spec.variants):
        if isinstance(variant.root_cause, str):
            yield variant.root_cause, ("variants", at, "root_cause")


def _check_groups(written: Written, groups: set[str]) -> Iterator[DataError]:
    spec = written.spec
    used: list[tuple[str, tuple[str | int, ...]]] = [(n, ("fold_by", at)) for at, n in enumerate(spec.fold_by)]
    used += [(n, ("variants", at, "when", n)) for at, variant in enumerate(spec.variants) for n in variant.when]
    if spec.culprit is not None:
        for key, value in msgspec.structs.asdict(spec.culprit).items():
            if key == "device":
                used += [(name, ("culprit", key)) for name in _PLACE.findall(value)]
            elif key != "blame" and value:
                used.append((value, ("culprit", key)))
    for name, path in used:
        if name not in groups:
            yield written.error(f'no pattern has a group "{name}"{did_you_mean(name, groups)}', *path)


def _check_ids(written: Written, known: Iterable[str]) -> Iterator[DataError]:
    for key, ids in (
        ("fold_into", written.spec.fold_into),
        ("yields_to", written.spec.yields_to),
        ("beside", written.spec.beside),
    ):
        for at, name in enumerate(ids):
            if key == "yields_to" and (
                name == ANY or name.removesuffix(OF_FAMILY) in {i.partition(".")[0] for i in known}
            ):
                continue
            if name not in known and not _CODE.fullmatch(name):
                yield written.error(f'unknown signature "{name}"{did_you_mean(name, known)}', key, at)
