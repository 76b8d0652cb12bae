"""Reads the text of a filter into its tree; every mistake is told with its column and the nearest right word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.filter_tree import (
    Inside,
    Joined,
    Leaf,
    Measured,
    Named,
    Not,
    Said,
    Tree,
    is_node_set,
    leaves,
    node_set,
    scope_word,
)
from stethoscope.analysis.filter_values import NEW, TOTAL, VALUE_WORDS, bare, fits_field, names, read_name, test_of
from stethoscope.analysis.filter_words import COMPARING, LONGEST, OPEN, SIGN, FilterError, Token, tokens
from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model.fields import FIELDS, QUANTIFIERS, SCOPE_WORDS
from stethoscope.model.metric import Metric, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

DEEPEST = 40
"""Parentheses and signs inside each other."""
_SPELLED = {"and": "&", "or": "|", "not": "!"}


def parse(text: str, catalogue: Mapping[str, Metric]) -> Tree | None:
    """Return the tree of `text`, None for a text without words; FilterError when it cannot be read."""
    if len(text) > LONGEST:
        raise FilterError(f"a filter has at most {LONGEST} characters", LONGEST, len(text))
    return _Parser(text, catalogue).whole()


class _Parser:
    def __init__(self, text: str, catalogue: Mapping[str, Metric]) -> None:
        self._catalogue = catalogue
        self._names = names(catalogue)
        self._end = len(text.rstrip())
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self._inside: str = ""
        """The word before the brackets or parentheses of a device that are open: gpu, all ..."""
        for token in self._tokens:
            if token.kind == OPEN:
                raise FilterError("the closing quote is missing", token.start, token.end)

    def whole(self) -> Tree | None:
        if not self._tokens:
            return None
        tree = self._either()
        token = self._peek()
        if token is not None:
            raise self._stray(token)
        return tree

    # ---- tokens

    def _peek(self, ahead: int = 0) -> Token | None:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _is(self, *signs: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token is not None and token.kind == SIGN and token.text in signs

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _missing(self, what: str) -> FilterError:
        token = self._peek()
        if token is None:
            return FilterError(f"{what} is missing", self._end, self._end)
        return FilterError(f'{what} is missing before "{token.text}"', token.start, token.end)

    def _stray(self, token: Token) -> FilterError:
        if token.kind == SIGN:
            words = "nothing was opened that it closes" if token.text in ")]" else "it has nothing to join"
            return FilterError(f'"{token.text}": {words}', token.start, token.end)
        sign = _SPELLED.get(token.text.lower())
        words = f"write {sign}" if sign else "& (and) or | (or) is missing before it"
        return FilterError(f'"{token.text}": {words}', token.start, token.end)

    # ---- from the loosest to the tightest

    def _either(self) -> Tree:
        return self._joined("|")

    def _joined(self, sign: str) -> Tree:
        parts: list[Tree] = []
        while True:
            part = self._one() if sign == "&" else self._joined("&")
            parts.extend(part.parts if isinstance(part, Joined) and part.sign == sign else (part,))
            if not self._is(sign):
                return parts[0] if len(parts) == 1 else Joined(sign, tuple(parts))
            self._take()

    def _one(self) -> Tree:
        token = self._peek()
        if token is None or (token.kind == SIGN and token.text not in ("!", "(")):
            raise self._missing("a condition")
        self._depth += 1
        if self._depth > DEEPEST:
            raise FilterError(f"more than {DEEPEST} parentheses inside each other", token.start, token.end)
        self._take()
        try:
            if token.kind != SIGN:
                return self._word(token)
            return Not(self._one()) if token.text == "!" else self._closed(")", token)
        finally:
            self._depth -= 1

    def _closed(self, sign: str, opened: Token) -> Tree:
        tree = self._either()
        if not self._is(sign):
            token = self._peek()
            if token is None:
                raise FilterError(f'"{sign}" is missing', self._end, self._end)
            raise self._stray(token) if token.kind != SIGN else self._missing(f'"{sign}" for column {opened.start + 1}')
        self._take()
        return tree

    def _word(self, word: Token) -> Tree:
        lowered = word.text.lower()
        if self._is("[") or (self._is("(") and lowered in QUANTIFIERS):
            return self._devices(word)
        if self._is("("):
            near = did_you_mean(lowered, QUANTIFIERS)
            raise FilterError(f'"{word.text}(...)" has no meaning{near}', word.start, word.end)
        if self._is(*COMPARING):
            return self._condition(word)
        if not word.text:
            raise FilterError("there is nothing between the quotes", word.start, word.end)
        self._check_set(word)
        return Named(word.text)

    def _check_set(self, word: Token) -> None:
        if is_node_set(word.text):
            try:
                node_set(word.text)
            except UsageError as error:
                raise FilterError(str(error), word.start, word.end) from None

    # ---- all(...), gpu[...]

    def _devices(self, word: Token) -> Tree:
        how = word.text.lower()
        opened = self._take()
        if self._inside:
            raise FilterError(f"{how}{opened.text} cannot stand inside {self._inside}", word.start, opened.end)
        if opened.text == "[" and how not in SCOPE_WORDS:
            rest = "".join(token.text for token in self._tokens[self._at :])
            if opened.start == word.end and not rest.strip("0123456789,-"):
                raise FilterError('"]" is missing', self._end, self._end)
            near = did_you_mean(how, SCOPE_WORDS) or f"; known: {' '.join(SCOPE_WORDS)}"
            raise FilterError(f'"{word.text}" is no kind of device{near}', word.start, word.end)
        self._inside = f"{how}{opened.text}"
        first = self._at
        tree = self._closed("]" if opened.text == "[" else ")", opened)
        self._inside = ""
        if opened.text == "[":
            scope = SCOPE_WORDS[how]
            self._check_scope(tree, scope, self._tokens[first], how)
            return Inside("of", scope, tree)
        scopes = {scope for leaf in leaves(tree) if (scope := _scope_of(leaf)) is not Scope.NODE}
        if len(scopes) != 1:
            said = " and ".join(sorted(scope_word(scope) for scope in scopes)) or "nothing in it"
            words = "asks about devices of one kind, and " + (f"here are {said}" if scopes else "here is none")
            raise FilterError(f"{how}() {words}", word.start, self._tokens[self._at - 1].end)
        scope = scopes.pop()
        self._check_scope(tree, scope, self._tokens[first], how)
        return Inside(how, scope, tree)

    def _check_scope(self, tree: Tree, scope: Scope, first: Token, how: str) -> None:
        for leaf in leaves(tree):
            if isinstance(leaf, Named) or (isinstance(leaf, Said) and fits_field(leaf.name, scope)):
                continue
            own = _scope_of(leaf)
            if own not in (Scope.NODE, scope):
                words = f"{leaf.name} belongs to {scope_word(own)}, not to {how}"
                raise FilterError(words, first.start, self._tokens[self._at - 1].end)

    # ---- temp>85

    def _condition(self, word: Token) -> Tree:
        name = word.text.lower()
        sign = self._take()
        subject = read_name(name, self._names)
        if subject is None:
            base, _, which = name.rpartition(".")
            if which in (TOTAL, NEW) and base in self._names:
                raise FilterError(f".{which} is for counters, and {base} is none", word.start, word.end)
            near = did_you_mean(name, [*FIELDS, *self._names])
            raise FilterError(f'unknown name "{word.text}"{near}', word.start, word.end)
        value = self._peek()
        if value is None or not value.is_word:
            raise self._missing(f"a value after {sign.text}")
        self._take()
        if not value.text:
            raise FilterError("there is nothing between the quotes", value.start, value.end)
        if isinstance(subject, str):
            return self._said(subject, word, sign, value)
        metric, which = subject
        text = value.text
        unit = self._peek()
        if unit is not None and unit.is_word and not self._is(*COMPARING, "[", "(", ahead=1):
            # A unit may stand apart: 85 C.
            joined = test_of(metric, which, sign.text, text + unit.text)
            if not isinstance(joined, str) and text[-1:].isdigit():
                self._take()
                text += unit.text
        test = test_of(metric, which, sign.text, text)
        if isinstance(test, str):
            place = sign if sign.text in ("~", "!~") and not metric.words else value
            raise FilterError(test, place.start, place.end)
        return Measured(name, sign.text, text, metric, which, test)

    def _said(self, name: str, word: Token, sign: Token, value: Token) -> Said:
        is_ordering = sign.text in (">", "<", ">=", "<=")
        if is_ordering and name != "severity":
            raise FilterError(f"{name} is a word: compare it with = != ~ or !~", sign.start, sign.end)
        if name == "device" and not self._inside:
            raise FilterError("device stands inside gpu[...], ib[...] and the like", word.start, word.end)
        known = VALUE_WORDS.get(name)
        if known and sign.text not in ("~", "!~") and (is_ordering or not set("*?") & set(value.text)):
            word_said = bare(value.text)
            if word_said not in map(bare, known):
                near = did_you_mean(word_said, known) or f"; known: {' '.join(known[:8])}"
                raise FilterError(f'{name} is never "{value.text}"{near}', value.start, value.end)
        if name == "host" and sign.text in ("=", "!="):
            self._check_set(value)
        return Said(name, sign.text, value.text)


def _scope_of(leaf: Leaf) -> Scope:
    if isinstance(leaf, Measured):
        return leaf.metric.scope
    return Scope.GPU if isinstance(leaf, Said) and leaf.name == "model" else Scope.NODE
