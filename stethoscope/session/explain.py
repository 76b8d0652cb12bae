"""What a signature or a code means, in labelled parts: for `stethoscope explain` and for the console."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.finding import Severity
    from stethoscope.model.logs import Role
    from stethoscope.specs.codes import Code, Codes
    from stethoscope.specs.signature import Signature, Signatures, Variant

ROLES: dict[Role, str] = {
    "cause": "a cause: look here first",
    "symptom": "a symptom: something else came before it",
    "either": "a cause, unless something else came before it",
    "context": "evidence that raises nothing by itself",
    "benign": "looks bad and is not",
}
_JOB = {"stops": "stops: start it again", "may_stop": "may have stopped: look at it", "goes_on": "goes on"}
_NODE = {
    "drain": "take it out of service now",
    "watch": "stays; take it out when it comes back",
    "goes_on": "stays in service",
}


class Part(NamedTuple):
    """One labelled part of an explanation."""

    label: str
    texts: tuple[str, ...]


class Explanation(NamedTuple):
    """What one kind of line means."""

    id: str
    title: str
    severity: Severity
    role: Role
    parts: tuple[Part, ...]


class Listed(NamedTuple):
    """One kind of line in a list."""

    id: str
    meaning: str
    severity: Severity
    role: Role


def explanation(id_: str, signatures: Signatures, codes: Codes) -> Explanation | None:
    """Return what is known of a signature or a code (`nccl.ib.completion`, `xid.79`), None for what is not known."""
    code = codes.explain(id_)
    if code is not None:
        return Explanation(
            code.signature, f"{code.label}: {code.title}", code.severity, code.role, tuple(_of_code(code))
        )
    known = signatures.by_id.get(id_)
    if known is None:
        return None
    return Explanation(known.id, known.meaning, known.severity, known.role, tuple(_of_signature(known)))


def listed(words: str, signatures: Signatures, codes: Codes) -> list[Listed]:
    """Return the signatures and codes in which all of `words` stand (in id, meaning, class), in the order of ids;
    those whose id has them come first."""
    wanted = words.lower().split()
    found: list[tuple[bool, int, Listed, str]] = []
    every = [(one.id, one.meaning, one.severity, one.role, one.root_cause) for one in signatures.by_id.values()]
    coded = [*codes.all("xid"), *codes.all("sxid")]
    for number, (id_, meaning, severity, role, cause) in enumerate(
        [*sorted(every), *((one.signature, one.title, one.severity, one.role, one.root_cause) for one in coded)]
    ):
        text = f"{id_} {meaning} {cause or ''}".lower()
        if all(word in text for word in wanted):
            in_id = bool(wanted) and all(word in id_.lower() for word in wanted)
            found.append((not in_id, number, Listed(id_, meaning, severity, role), text))
    return [one for _, _, one, _ in sorted(found, key=lambda entry: entry[:2])]


def _of_signature(one: Signature) -> Iterator[Part]:
    yield Part("is", (ROLES[one.role],))
    if one.root_cause:
        yield Part("class", (one.root_cause,))
    yield from _several("causes", one.likely_causes)
    yield from _several("check", one.next_checks)
    for variant in one.variants:
        yield Part("when", tuple(_of_variant(variant)))
    if one.fold_into:
        yield Part("part of", (", ".join(one.fold_into),))
    if one.env:
        yield Part("settings", (", ".join(one.env),))
    if one.versions:
        yield Part("versions", (one.versions,))
    if one.notes:
        yield Part("note", (one.notes,))
    if one.example:
        yield Part("example", (one.example,))
    if one.source:
        yield Part("defined", (one.source,))


def _of_variant(variant: Variant) -> Iterator[str]:
    when = ", ".join(f"{name} {' or '.join(values)}" for name, values in variant.when.items())
    changes = variant.changes
    kind = [str(changes[name]) for name in ("severity", "role", "root_cause") if changes.get(name)]
    meaning = f" {changes['meaning']}" if "meaning" in changes else ""
    about = f" [{', '.join(kind)}]" if kind else ""
    yield f"{when}:{meaning}{about}"
    for label, name in (("causes", "likely_causes"), ("check", "next_checks")):
        if changes.get(name):
            yield f"{label}: {'; '.join(changes[name])}"


def _of_code(one: Code) -> Iterator[Part]:
    yield Part("is", (ROLES[one.role],))
    if one.root_cause:
        yield Part("class", (one.root_cause,))
    if one.meaning:
        yield Part("means", (one.meaning,))
    yield Part("now", (one.action,))
    yield Part("job", (_JOB[one.job],))
    yield Part("node", (_NODE[one.node],))
    yield from _several("causes", one.causes)
    if one.follows:
        yield Part("follows", (f"{_numbers(one.kind, one.follows)}: look for these before it",))
    beside = [text for text in (_numbers("xid", one.with_xids), _numbers("sxid", one.with_sxids)) if text]
    if beside:
        yield Part("beside", ("; ".join(beside),))
    if one.rma:
        yield Part("replace", (one.rma,))
    for note in one.notes:
        yield Part("note", (note,))
    yield Part("more", (f"stethoscope {one.kind} {one.code}",))


def _numbers(kind: str, numbers: tuple[int, ...]) -> str:
    word = {"xid": "Xid", "sxid": "SXid"}[kind]
    return f"{word} {', '.join(map(str, numbers))}" if numbers else ""


def _several(label: str, texts: tuple[str, ...]) -> Iterator[Part]:
    if texts:
        numbered = tuple(f"{number} {text}" for number, text in enumerate(texts, 1)) if len(texts) > 1 else texts
        yield Part(label, numbered)
