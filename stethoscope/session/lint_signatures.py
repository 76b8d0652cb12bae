"""Signatures tested by their own samples: what must match does, what must not does not, and no two claim one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.session.regex_child import LENGTH
from stethoscope.session.regex_time import LIMIT_S, too_slow
from stethoscope.specs.signature import ANY
from stethoscope.specs.signature_file import SampleSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stethoscope.errors import DataError
    from stethoscope.specs.signature import Signature
    from stethoscope.specs.signature_file import Written

LONG_WORD = 11
"""A single word in lower case that is shorter than this is too common to be an anchor of what can alarm: such anchors
are looked for to the end, those of mere evidence only until they have been found often."""

_WORD = re.compile(r"[a-z]+")


def check_signatures(written: Sequence[Written]) -> list[DataError]:
    """Return what is wrong with signatures as their samples show it, without a look at the time that they take."""
    errors = [error for each in written for error in _check(each)]
    return errors + [error for each in written for error in _check_others(each, written)]


def check_times(written: Sequence[Written]) -> list[DataError]:
    """Return the regexes that a line can make slow, each measured with lines made of a sample that it matches."""
    asked: list[tuple[str, str]] = []
    where: list[tuple[Written, int]] = []
    for each in written:
        texts = [_text(sample) for sample in each.spec.samples.match]
        for at, pattern in enumerate(each.signature.patterns):
            sample = next((text for text in texts if re.search(pattern, text, re.ASCII)), None)
            if sample is not None:
                asked.append((pattern, sample))
                where.append((each, at))
    return [_slow(*where[at], seconds) for at, seconds in too_slow(asked).items()]


def _slow(written: Written, at: int, seconds: float | None) -> DataError:
    takes = "takes seconds" if seconds is None else f"takes {seconds * 1e3:.0f} ms"
    hint = f"at most {LIMIT_S * 1e3:.0f} ms: bound its repetitions ({{0,80}} instead of *)"
    return written.error(f"this pattern {takes} for a line of {LENGTH:,} characters; {hint}", "patterns", at)


def _text(sample: str | SampleSpec) -> str:
    return sample if isinstance(sample, str) else sample.text


def samples_of(written: Written) -> int:
    """Return how many samples a signature has."""
    return len(written.spec.samples.match) + len(written.spec.samples.no_match)


def _check(written: Written) -> Iterator[DataError]:
    signature, samples = written.signature, written.spec.samples
    for at, anchor in enumerate(written.spec.anchors):
        if signature.alarms and len(anchor) < LONG_WORD and _WORD.fullmatch(anchor):
            yield written.error(f'the anchor "{anchor}" is a common word: take more of the line', "anchors", at)
    if not samples.match:
        yield written.error("it needs a sample that matches", "samples")
    seen: set[str] = set()
    for at, sample in enumerate(samples.match):
        text = _text(sample)
        here = ("samples", "match", at)
        match = signature.search(text)
        if match is None:
            yield written.error("no pattern matches this sample", *here)
            continue
        seen |= {pattern for pattern in signature.patterns if re.search(pattern, text, re.ASCII)}
        if not any(anchor in text.encode() for anchor in signature.anchors):
            yield written.error("no anchor is in this sample", *here)
        if isinstance(sample, SampleSpec):
            yield from _check_fields(written, sample, signature.fields(match), at)
    for at, pattern in enumerate(signature.patterns):
        if samples.match and pattern not in seen:
            yield written.error("no sample matches this pattern", "patterns", at)
    for at, text in enumerate(samples.no_match):
        if signature.search(text) is not None:
            yield written.error("this sample must not match", "samples", "no_match", at)


def _check_fields(written: Written, sample: SampleSpec, got: dict[str, str | int], at: int) -> Iterator[DataError]:
    for name, value in sample.fields.items():
        if got.get(name) != value:
            found = "nothing" if name not in got else f'"{got[name]}"'
            yield written.error(f'{name} is {found}, not "{value}"', "samples", "match", at, "fields", name)


def _check_others(written: Written, all_: Sequence[Written]) -> Iterator[DataError]:
    """Yield the samples that another signature matches as well, where neither says that it yields."""
    for at, sample in enumerate(written.spec.samples.match):
        text = _text(sample)
        raw = text.encode()
        for other in all_:
            if other is written or not _applies(other.signature, raw, text):
                continue
            mine, theirs = written.signature, other.signature
            if theirs.id in written.spec.beside or mine.id in other.spec.beside:
                continue
            if _is_said_twice(mine, theirs):
                yield written.error(
                    f'"{theirs.id}" matches this sample too: one of the two must name the other in yields_to',
                    *("samples", "match", at),
                )


def _is_said_twice(a: Signature, b: Signature) -> bool:
    if a.yields(b) or b.yields(a):
        return False
    # What yields to everything that can alarm may stand beside mere evidence.
    return not ((ANY in a.yields_to and not b.alarms) or (ANY in b.yields_to and not a.alarms))


def _applies(signature: Signature, raw: bytes, text: str) -> bool:
    return any(anchor in raw for anchor in signature.anchors) and signature.search(text) is not None
