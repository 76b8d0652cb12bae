"""Floods: lines that differ from one read before in their digits alone are not read again, only what differs is.

The second line of a shape is taken to pieces as any other, and what was found where is kept. It holds for the next ones
because it comes from patterns that take any digit for any other; where one does not, the line is searched as usual and
only its prefixes are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.decode_events import is_harmless, lead_of, names_place
from stethoscope.analysis.decode_lines import is_typed
from stethoscope.parse.prefix import Peeled, shape
from stethoscope.parse.prefix_shape import parts
from stethoscope.specs.any_digit import takes_any_digit
from stethoscope.specs.signature import field_of

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from stethoscope.analysis.decode import Scanner
    from stethoscope.analysis.decode_events import Folded
    from stethoscope.analysis.decode_file import FileScan
    from stethoscope.parse.prefix_shape import Shape, Who
    from stethoscope.specs.signature import Signature

_ANY_DIGIT = bytes(48 if 48 <= byte < 58 else byte for byte in range(256))
_LONGEST = 1500
_MOST_SHAPES = 8192
_MOST_FOLDS = 20_000
_TRIED = 4096
_WORTH = 4
"""Where less than one line in so many has a shape that was there before, shapes are left alone for a while."""
_PAUSE = 100_000


@dataclass(slots=True)
class _Found:
    """A signature in a shape."""

    signature: Signature
    groups: list[tuple[str, slice]]
    """Its groups, and where in the line they are."""
    apart: Callable[[bytes], Any]
    """What keeps two lines of one writer apart, as a key."""
    is_harmless: bool
    folds: dict[Any, Folded] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """What is known of the lines of a shape."""

    shape: Shape
    anchors: list[int]
    found: list[_Found] | None
    """None: searched as usual."""


class Shapes:
    """The shapes of the lines of one file."""

    def __init__(self, scanner: Scanner, scan: FileScan) -> None:
        """Begin at its first line."""
        self._scanner = scanner
        self._scan = scan
        self._plans: dict[bytes, Plan | None] = {}
        self._met: set[bytes] = set()
        """Shapes that were there once: they have a plan from the second line on."""
        self._generation = scanner.generation
        self._tried = self._known = self._pause = 0

    def plan(self, raw: bytes, anchors: list[int]) -> Plan | None:
        """Return what is known of lines like this one, None when that is nothing."""
        if self._pause:
            self._pause -= 1
            return None
        if self._generation != self._scanner.generation:
            self._plans.clear()
            self._met.clear()
            self._generation = self._scanner.generation
        self._tried += 1
        mask = raw.translate(_ANY_DIGIT)
        if mask in self._plans:
            plan = self._plans[mask]
        elif mask in self._met:
            plan = self._plans[mask] = self._made(raw, anchors)
        else:
            self._meet(mask)
            return None
        self._known += 1
        return plan if plan is not None and plan.anchors == anchors else None

    def take(self, plan: Plan, raw: bytes, number: int) -> bool:
        """Do with a line what is done with any; False when that could not be, and `learn` may help the next one."""
        settled = self._scan.state.peel_known(raw, plan.shape)
        if settled is None:
            return False
        who, at = settled
        scanner, text_at = self._scanner, plan.shape.text_at
        if plan.found is None:
            scanner.match(self._scan, number, _peeled(raw, text_at, who, at), plan.anchors)
            return True
        for found in plan.found:
            key = (who, found.apart(raw))
            folded = found.folds.get(key)
            if folded is not None and scanner.store.grow(folded, at, None, number):
                if found.is_harmless:
                    scanner.count(self._scan, number, found.signature)
                continue
            fields = {name: field_of(name, raw[place].decode()) for name, place in found.groups}
            folded = scanner.keep(self._scan, number, _peeled(raw, text_at, who, at), found.signature, fields)
            if folded is not None:
                if len(found.folds) >= _MOST_FOLDS:
                    found.folds.clear()
                found.folds[key] = folded
        if plan.found:
            scanner.matched += 1
        return True

    def learn(self, plan: Plan, raw: bytes) -> None:
        """Remember who printed a line that was just peeled."""
        self._scan.state.learn(raw, plan.shape)

    def _meet(self, mask: bytes) -> None:
        if self._tried >= _TRIED:
            if self._known * _WORTH < self._tried:
                self._pause = _PAUSE
            self._tried = self._known = 0
        if len(mask) > _LONGEST:
            return
        if len(self._met) >= _MOST_SHAPES:
            self._plans.clear()
            self._met.clear()
        self._met.add(mask)

    def _made(self, raw: bytes, anchors: list[int]) -> Plan | None:
        text = raw.decode("latin-1")
        if not (text.isascii() and text.isprintable()):
            return None
        known = shape(text)
        if known is None:
            return None
        candidates, has_code = self._scanner.looked_for(anchors)
        message = text[known.text_at :]
        is_sure = all(takes_any_digit(pattern) for signature in candidates for pattern in signature.patterns)
        if has_code or not is_sure or is_typed(message):
            return Plan(known, anchors, None)
        matches = self._scanner.find(message, candidates)
        return Plan(known, anchors, [_found(*pair, text, known.text_at) for pair in matches])


def _peeled(raw: bytes, text_at: int, who: Who, at: float) -> Peeled:
    return Peeled(raw[text_at:].decode(), at, False, None, who.origin, who.key, who.is_named)


def _found(signature: Signature, match: re.Match[str], line: str, at: int) -> _Found:
    spans = {name: match.span(name) for name in match.re.groupindex}
    groups = [(name, slice(at + start, at + end)) for name, (start, end) in spans.items() if start >= 0]
    names = set(signature.fold_by)
    if names:
        names.update(names_place(signature.culprit), *(variant.when for variant in signature.variants))
    apart = [place for name, place in groups if not names or name in names]
    lead = lead_of(line[at:])
    if lead is not None:
        apart.append(slice(at + lead[0], at + lead[1]))
    # What has no digit is the same in all lines of the shape.
    apart = [place for place in apart if any(character.isdecimal() for character in line[place])]
    return _Found(signature, groups, parts(apart), is_harmless(signature))
