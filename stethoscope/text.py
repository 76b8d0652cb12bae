"""`clean` is the one gate that every byte from a remote machine passes before anything else sees it.

What comes out is one line of printable text: no escape sequence, no control character, no bidirectional override,
nothing of zero width that could hide or reorder
what a person reads, no lone surrogate that would break an encoder, and never longer than asked for.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 4096
"""Longest text, in characters, that is kept when the caller does not say otherwise."""
TEXT_LIMIT = 1024 * 1024
"""The same for a text of several lines."""

_MAX_MARKS = 3

# Whole escape sequences go, with their parameters: strings (OSC, DCS, SOS, PM, APC) up to their terminator or 4 KiB,
# CSI, then two- and three-byte ones. 8-bit C1 forms alike.
_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]?"
    r"|\x1b[ -/]{0,16}[0-~]?"
)
_SPACES = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
_PRINTABLE = bytes(range(0x20, 0x7F))
_PRINTABLE_LINES = _PRINTABLE + b"\n\t"
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean(value: str | bytes, limit: int = LIMIT) -> str:
    """Return `value` as one line of harmless printable text of at most `limit` characters.

    Bytes are read as UTF-8, with U+FFFD for what is not. Longer text ends in an ellipsis. Cleaning twice gives the
    same as cleaning once.
    """
    if isinstance(value, bytes):
        # Four bytes to a character at the most; more would be thrown away again below.
        value = value[: limit * 64].decode("utf-8", "replace")
    if value.isascii() and value.isprintable():
        return value if len(value) <= limit else _cut(value, limit)
    value = value[: limit * 64]
    value = _SPACES.sub(" ", _ESCAPES.sub("", value))
    if not value.isprintable() or not value.isascii():
        value = _printable(value)
    return value if len(value) <= limit else _cut(value, limit)


def is_plain(text: str) -> bool:
    """Tell whether a text is printable ASCII alone, which is clean; of long texts a tenth of the time that
    `isprintable` takes, which looks each character up."""
    return text.isascii() and not text.encode().translate(None, _PRINTABLE)


def is_plain_lines(text: str) -> bool:
    """Tell whether a text is printable ASCII, line feeds and tabs alone."""
    return text.isascii() and not text.encode().translate(None, _PRINTABLE_LINES)


def clean_lines(value: str | bytes, limit: int = 1024 * 1024) -> str:
    """Return a text of several lines, each cleaned as `clean` does, with its tabs; at most `limit` characters."""
    if isinstance(value, bytes):
        value = value[: limit * 4].decode("utf-8", "replace")
    value = value[:limit]
    if is_plain_lines(value):
        return value
    lines = (line.removesuffix("\r") for line in value.split("\n"))
    return "\n".join("\t".join(clean(part, max(len(part), 1)) for part in line.split("\t")) for line in lines)


def clean_json(value: Any, one: Callable[[str], str] | None = None) -> Any:
    """Return what a file or a line of JSON or YAML holds, each text and key in it cleaned, whole: by `one`, or as one
    line or several, as it is."""
    if isinstance(value, str):
        return (one or _whole)(value)
    if isinstance(value, list):
        return [clean_json(item, one) for item in value]
    if isinstance(value, dict):
        return {clean(str(key), max(len(str(key)), 1)): clean_json(item, one) for key, item in value.items()}
    return value


def _whole(value: str) -> str:
    limit = max(len(value), 1)
    return clean_lines(value, limit) if "\n" in value else clean(value, limit)


def clean_text(value: str | bytes, limit: int = TEXT_LIMIT) -> str:
    """Return a text of several lines with each cell of each line cleaned: line feeds and tabs stay, what they separate
    is harmless. Longer text than `limit` characters is cut."""
    if isinstance(value, bytes):
        value = value[: limit * 4].decode("utf-8", "replace")
    value = value[:limit]
    if is_plain_lines(value):
        return value
    return "\n".join(
        "\t".join(clean(cell, limit) for cell in line.split("\t")) for line in value.replace("\r\n", "\n").split("\n")
    )


# What a page of text may hold beside printable characters: line ends, tabs, the wide and the unbreakable spaces of
# people's languages, joiners inside of words and emoji.
_PAGE = {ord(character): None for character in "\n\t\xa0\u2002\u2003\u2009\u202f\u3000\u200c\u200d\ufe0f"}
_MARKS_PILED = re.compile(r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4}")


def clean_page(value: str) -> str:
    """Return a text that people write, of several lines: to the letter where nothing in it could do harm on a
    terminal, else as `clean_lines` does, whole lines and all of them."""
    plain = value.replace("\r\n", "\n").translate(_PAGE)
    if plain.isprintable() and not _MARKS_PILED.search(value):
        return value
    return clean_lines(value, max(len(value), 1))


def _cut(value: str, limit: int) -> str:
    return value[: limit - 1] + "…" if limit > 0 else ""


def _printable(value: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in value:
        category = unicodedata.category(character)
        if category in ("Mn", "Me"):
            # A pile of combining marks paints over the neighbouring rows; a lone one, also one behind a space,
            # has nothing to stand on.
            marks += 1
            if marks > _MAX_MARKS or not kept or kept[-1] == " ":
                continue
        elif category in _DROPPED:
            if category == "Cs":
                kept.append("\ufffd")
            continue
        else:
            marks = 0
            if category == "Zs":
                character = " "
        kept.append(character)
    return "".join(kept)
