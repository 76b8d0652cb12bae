"""The words and signs of a filter, each with its place in the text, and the error that points at one of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from stethoscope.errors import UsageError
from stethoscope.text import clean

LONGEST = 500
"""Characters of a filter."""
WORD, TEXT, OPEN, SIGN = "word", "text", "open", "sign"
"""Kinds of tokens: a bare word, a text in quotes, one whose closing quote is missing, and everything else."""
COMPARING = ("!=", "!~", ">=", "<=", "=", "~", ">", "<")

_SPECIAL = r"\s=!~<>&|()\[\]\"'"
_WORD = rf"(?:[^{_SPECIAL}]|\[[0-9][0-9,/-]*\])+"
_BARE = re.compile(_WORD)
_TOKEN = re.compile(
    rf"(?P<word>{_WORD})"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<open>[\"'].*)"
    r"|(?P<sign>!=|!~|>=|<=|==|&&|\|\||[=~<>!&|()\[\]])",
    re.DOTALL,
)
_ONE_SIGN = {"==": "=", "&&": "&", "||": "|"}


class FilterError(UsageError):
    """A filter cannot be read; `start` and `end` are the characters that it is about, counted from 0."""

    def __init__(self, message: str, start: int, end: int) -> None:
        """Keep the place apart from the message: a screen marks it, a sentence counts columns from 1."""
        self.message = clean(message, 300)
        self.start, self.end = start, max(end, start)
        super().__init__(f"column {start + 1}: {self.message}")


class Token(NamedTuple):
    """A word or sign, without its quotes, and where it stands."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Tell whether it can be a name or a value."""
        return self.kind in (WORD, TEXT)


def tokens(text: str) -> list[Token]:
    """Return the tokens of `text`, whatever it holds; a text whose closing quote is missing is of the kind OPEN."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at += 1
            continue
        kind, said = match.lastgroup or SIGN, match[0]
        if kind == TEXT:
            said = re.sub(r"\\(.)", r"\1", said[1:-1], flags=re.DOTALL)
        elif kind == OPEN:
            said = re.sub(r"\\(.)", r"\1", said[1:], flags=re.DOTALL)
        found.append(Token(kind, _ONE_SIGN.get(said, said) if kind == SIGN else said, at, match.end()))
        at = match.end()
    return found


def quoted(text: str) -> str:
    """Return `text` as it stands in a filter: in quotes when it could not be read otherwise."""
    if _BARE.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
