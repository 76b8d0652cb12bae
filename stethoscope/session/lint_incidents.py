"""Checks the well-known kinds of incidents that stand in `incidents/*.md` of a playbooks tree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.errors import DataError, StethoscopeError, did_you_mean
from stethoscope.paths import bundled
from stethoscope.specs.incident import fronts_incident, read_with_remarks
from stethoscope.specs.load import MAX_BYTES
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_book
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from stethoscope.model.incident import Incident

DIRECTORY = "incidents"
_CODE = re.compile(r"s?xid\.\d{1,6}")


def lint_incidents(errors: list[DataError], roots: Sequence[Path], broken: Collection[str]) -> int:
    """Add what is wrong with the files of `roots` and the bundled ones, but for `broken`; return how many there are."""
    directories = {root.resolve(): root for root in (bundled("playbooks"), *roots)}.values()
    paths = [path for root in directories for path in sorted((root / DIRECTORY).glob("*.md"))]
    known = _known(roots)
    causes = () if known is None else load_root_causes(*roots)
    seen: dict[str, Path] = {}
    count = 0
    for path in paths:
        if str(path) in broken:
            continue
        try:
            text = path.read_bytes()[:MAX_BYTES].decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            errors.append(DataError(getattr(error, "strerror", None) or "not UTF-8 text", where=str(path)))
            continue
        if not fronts_incident(text) and not path.name.startswith(("REF-", "INC-")):
            # A README beside them.
            continue
        count += 1
        try:
            one, remarks = read_with_remarks(text, str(path))
        except DataError as error:
            errors.append(error)
            continue
        errors += [DataError(remark.message, where=f"{path}:{max(1, remark.line)}") for remark in remarks]
        if seen.setdefault(one.id, path).parent == path.parent and seen[one.id] != path:
            errors.append(DataError(f'the id "{one.id}" is that of {seen[one.id].name} too', where=str(path)))
        errors += _wrong(one, path, text, known, causes)
    return count


def _known(roots: Sequence[Path]) -> set[str] | None:
    """Return the ids of all signatures and rules; None where they cannot be read, which is said elsewhere."""
    try:
        book = load_book(load_catalogue(*roots), load_root_causes(*roots), *roots)
        rules = {rule.id for rule in (*book.rules, *(rule for rule, _ in book.others))}
        return {*load_signatures(*roots).by_id, *rules}
    except StethoscopeError:
        return None


def _wrong(
    one: Incident, path: Path, text: str, known: Collection[str] | None, causes: Collection[str]
) -> Iterator[DataError]:
    if not one.is_reference:
        yield DataError("a kind that comes with playbooks is `status: reference`", where=_at(path, text, "status:"))
    if path.stem != one.id:
        yield DataError(f'the file is called as its id: "{one.id}.md"', where=_at(path, text, "id:"))
    if not one.symptoms or not one.resolution:
        yield DataError("without symptoms and resolution it helps nobody", where=str(path))
    if known is None:
        return
    if one.root_cause not in causes:
        near = did_you_mean(one.root_cause, causes)
        yield DataError(f'unknown root cause "{one.root_cause}"{near}', where=_at(path, text, "root_cause:"))
    for sign in one.symptoms:
        if sign not in known and not _CODE.fullmatch(sign):
            near = did_you_mean(sign, known)
            yield DataError(f'no signature or rule is called "{sign}"{near}', where=_at(path, text, sign))


def _at(path: Path, text: str, word: str) -> str:
    """Return `file:line` of the first line that has `word` by itself."""
    line = next(
        (number for number, line in enumerate(text.splitlines(), 1) if word in re.split(r"[\s,\[\]]+", line)), 0
    )
    return f"{path}:{line}" if line else str(path)
