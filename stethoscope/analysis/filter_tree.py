"""What a filter says, read: a tree of conditions that prints as a filter which reads as the same tree."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.analysis.filter_words import quoted
from stethoscope.model.fields import SCOPE_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stethoscope.model.metric import Metric, Reason, Scope


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a text is compared with, in small letters: a glob when it holds * or ?, else the whole text or, with
    `part`, a part of it."""

    text: str
    part: bool

    def matcher(self) -> Callable[[str], bool]:
        """Return the test of a text; it takes time in proportion to the text and the pattern."""
        wanted = self.text.lower()
        if "*" in wanted or "?" in wanted:
            # A bracket is no more than itself. What fnmatch writes never goes back behind a star that has matched.
            glob = re.compile(fnmatch.translate(wanted.replace("[", "[[]"))).match
            return lambda text: glob(text.lower()) is not None
        if self.part:
            return lambda text: wanted in text.lower()
        return lambda text: wanted == text.lower()


@dataclass(frozen=True, slots=True)
class Number:
    """A metric against a number in the unit that is shown."""

    operator: str
    number: float


@dataclass(frozen=True, slots=True)
class Codes:
    """A state is one of these codes, or with `bits` has any of these bits; `negative` turns it around."""

    codes: tuple[int, ...]
    bits: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Absent:
    """A metric has no value, for one of these reasons; `negative` turns it around."""

    reasons: tuple[Reason, ...]
    negative: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """A condition about a metric: of its value, of the `total` of a counter, or of what came `new` since the first
    reading."""

    name: str
    operator: str
    value: str
    metric: Metric
    which: str
    test: Number | Codes | Absent

    def __str__(self) -> str:
        """Return the condition as text."""
        return f"{self.name}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Said:
    """A condition about a field of a node or device."""

    name: str
    operator: str
    value: str

    def __str__(self) -> str:
        """Return the condition as text."""
        return f"{self.name}{self.operator}{quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Named:
    """A plain word: a part of a node's name, a pattern for the whole of it, or a set of nodes."""

    value: str

    def __str__(self) -> str:
        """Return the word as text."""
        return quoted(self.value)


@dataclass(frozen=True, slots=True)
class Inside:
    """Conditions that one device of `scope` meets all by itself, or with `how` all: that every one of them does."""

    how: str
    """`all`, `any`, or `of` for the form with the word of the scope: gpu[...]."""
    scope: Scope
    part: Tree

    def __str__(self) -> str:
        """Return the conditions as text."""
        return f"{self.how}({self.part})" if self.how != "of" else f"{scope_word(self.scope)}[{self.part}]"


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts of which all (`&`) or any (`|`) must be met; none of them is joined by the same sign."""

    sign: str
    parts: tuple[Tree, ...]

    def __str__(self) -> str:
        """Return the parts as text, in parentheses where they would be read otherwise."""
        return f" {self.sign} ".join(f"({part})" if isinstance(part, Joined) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """A part that must not be met."""

    part: Tree

    def __str__(self) -> str:
        """Return the part as text."""
        return f"!({self.part})" if isinstance(self.part, Joined) else f"!{self.part}"


Leaf = Measured | Said | Named
Tree = Leaf | Inside | Joined | Not


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Yield the conditions in the order of the text."""
    if isinstance(tree, Joined):
        for part in tree.parts:
            yield from leaves(part)
    elif isinstance(tree, Inside | Not):
        yield from leaves(tree.part)
    else:
        yield tree


def scope_word(scope: Scope) -> str:
    """Return the word that stands for a scope before brackets."""
    return next(word for word, of in SCOPE_WORDS.items() if of is scope)


def is_node_set(text: str) -> bool:
    """Tell whether a name is meant as a set of nodes: gpu-[001-016], gpu-1,gpu-2."""
    return "," in text or re.search(r"\[[0-9]", text) is not None


@lru_cache(maxsize=64)
def node_set(text: str) -> frozenset[str]:
    """Return the names of a set of nodes in small letters; UsageError when it cannot be read."""
    from stethoscope.model.ids import expand

    return frozenset(name.lower() for name in expand(text))
