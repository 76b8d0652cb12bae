"""Reads and checks `xid.yaml` and `sxid.yaml`: entries take over the fields of their kind, the nearest file wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from stethoscope.errors import DataError, did_you_mean
from stethoscope.specs.load import Loaded, SeveralDataError, Spec, convert, load
from stethoscope.specs.root_cause import load_root_causes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.specs.codes import Kind

_Code = Annotated[int, msgspec.Meta(ge=0, le=999_999)]
_Severity = Literal["P0", "P1", "P2", "info"]
_Job = Literal["stops", "may_stop", "goes_on"]
_Node = Literal["drain", "watch", "goes_on"]
_Mask = Annotated[str, msgspec.Meta(pattern=r"^[-01]{31,32}$")]
_Word = Literal["Fatal", "Non-fatal", "either", "none"]
_NEEDED = ("title", "action", "job", "node", "severity", "category")


class GroupSpec(Spec, frozen=True, omit_defaults=True):
    """What codes of one kind share; the same fields as an entry."""

    title: str | None = None
    meaning: str | None = None
    causes: list[str] = msgspec.field(default_factory=list)
    action: str | None = None
    rma: str | None = None
    job: _Job | None = None
    node: _Node | None = None
    severity: _Severity | None = None
    category: str | None = None
    role: Literal["cause", "symptom", "either", "context", "benign"] | None = None
    root_cause: str | None = None
    follows: list[_Code] = msgspec.field(default_factory=list)
    with_: list[_Code] = msgspec.field(default_factory=list, name="with")
    with_xid: list[_Code] = msgspec.field(default_factory=list)
    vendor: list[str] = msgspec.field(default_factory=list)
    families: list[str] = msgspec.field(default_factory=list)
    recovery_since: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    lines: list[str] = msgspec.field(default_factory=list)
    text: list[str] = msgspec.field(default_factory=list)
    printed: dict[Literal["nvswitch2", "nvswitch3"], _Word] = msgspec.field(default_factory=dict)
    whole_switch: bool = False
    unit: str | None = None


class CodeSpec(GroupSpec, frozen=True, omit_defaults=True, kw_only=True):
    """One code."""

    code: _Code
    kind: str | None = None
    name: str | None = None


class RecoverySpec(Spec, frozen=True):
    """One label of Xid 154."""

    label: str
    severity: _Severity
    job: _Job
    node: _Node
    action: str
    number: int | None = None


class BodySpec(Spec, frozen=True):
    """A text of the body that decides over the defaults of its code."""

    code: _Code
    text: str
    severity: _Severity
    job: _Job
    node: _Node
    says: str


class Nvlink5Spec(Spec, frozen=True, omit_defaults=True):
    """One row of the decode table of Xid 144 to 150."""

    xid: _Code
    unit: str
    v1: _Mask
    v2: _Mask
    action: str
    then: str
    fatality: Literal["fatal", "link_fatal", "nonfatal"]
    unit_v2: str | None = None
    status: list[int] = msgspec.field(default_factory=list)
    promoted: str | None = None
    promoted_v1: _Mask | None = None
    promoted_v2: _Mask | None = None
    side: str | None = None
    local: list[str] = msgspec.field(default_factory=list)
    remote: list[str] = msgspec.field(default_factory=list)


class XidFile(Spec, frozen=True):
    """The whole of xid.yaml; a file of one's own needs only what it changes."""

    schema: Literal["stethoscope.xid/1"]
    codes: list[CodeSpec]
    kinds: dict[str, GroupSpec] = msgspec.field(default_factory=dict)
    recovery: list[RecoverySpec] = msgspec.field(default_factory=list)
    bodies: list[BodySpec] = msgspec.field(default_factory=list)
    containment: dict[str, str] = msgspec.field(default_factory=dict)
    registers: dict[Literal["r1", "r3", "r4", "r5"], dict[str, list[int]]] = msgspec.field(default_factory=dict)
    register_words: dict[str, str] = msgspec.field(default_factory=dict)
    link_down_reasons: dict[int, str] = msgspec.field(default_factory=dict)
    nvlink5: list[Nvlink5Spec] = msgspec.field(default_factory=list)
    effects: dict[str, str] = msgspec.field(default_factory=dict)
    vendor_words: dict[str, str] = msgspec.field(default_factory=dict)


class SxidFile(Spec, frozen=True):
    """The whole of sxid.yaml; a file of one's own needs only what it changes."""

    schema: Literal["stethoscope.sxid/1"]
    codes: list[CodeSpec]
    kinds: dict[str, GroupSpec] = msgspec.field(default_factory=dict)
    units: dict[str, str] = msgspec.field(default_factory=dict)
    unreported: dict[int, str] = msgspec.field(default_factory=dict)
    ranges: dict[int, str] = msgspec.field(default_factory=dict)


def read_codes(kind: Kind, files: Sequence[Path]) -> dict[str, Any]:
    """Return the codes and sub-tables of `files`, the nearest first, as plain values; DataError with the position."""
    known = set(load_root_causes())
    tables = [_read(kind, load(path), known) for path in files]
    merged: dict[str, Any] = {}
    for table in reversed(tables):
        for name, part in table.items():
            if isinstance(part, dict):
                merged[name] = {**merged.get(name, {}), **part}
            elif part or name not in merged:
                merged[name] = part
    merged["codes"] = dict(sorted(merged["codes"].items(), key=lambda pair: int(pair[0])))
    return merged


def _read(kind: Kind, loaded: Loaded, causes: set[str]) -> dict[str, Any]:
    file: XidFile | SxidFile = convert(loaded, XidFile) if kind == "xid" else convert(loaded, SxidFile)
    codes: dict[str, dict[str, Any]] = {}
    errors: list[DataError] = []
    for position, spec in enumerate(file.codes):
        path = ("codes", position)
        if str(spec.code) in codes:
            errors.append(loaded.error(f"the code {spec.code} is defined twice", *path, "code"))
        if spec.kind is not None and spec.kind not in file.kinds:
            hint = did_you_mean(spec.kind, file.kinds)
            errors.append(loaded.error(f'no kind "{spec.kind}"{hint}', *path, "kind"))
            continue
        fields = {**(_plain(file.kinds[spec.kind]) if spec.kind else {}), **_plain(spec)}
        if lacking := [name for name in _NEEDED if name not in fields]:
            errors.append(loaded.error(f"the code {spec.code} lacks {', '.join(lacking)}", *path))
        cause = fields.get("root_cause")
        if cause is not None and cause not in causes:
            errors.append(loaded.error(f'no root cause "{cause}"{did_you_mean(cause, causes)}', *path, "root_cause"))
        codes[str(spec.code)] = fields
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    table: dict[str, Any] = msgspec.to_builtins(file, str_keys=True)
    return {**{name: table[name] for name in table if name not in ("schema", "kinds")}, "codes": codes}


def _plain(spec: GroupSpec) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    return {name: value for name, value in fields.items() if name not in ("code", "kind")}
