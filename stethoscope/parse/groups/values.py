"""What the readers of all groups share: texts of files to numbers, and reasons where there is no number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.metric import REASON_WORDS, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

UNSUPPORTED = REASON_WORDS[Reason.UNSUPPORTED]
PERMISSION = REASON_WORDS[Reason.PERMISSION]
HUNG = REASON_WORDS[Reason.HUNG]
ERROR = REASON_WORDS[Reason.ERROR]
ABSENT = REASON_WORDS[Reason.ABSENT]

NONSENSE = "?"
"""What a text counts as that is longer than any that the kernel writes there: it is neither kept nor searched."""

_LOW, _HIGH = -(2**63), 2**64
_DIGITS, _SAFE_DIGITS, _NUMBER_LIMIT = 20, 19, 32


def whole(text: str) -> int | None:
    """Return a decimal number of at most 64 bits with a sign or without, None for every other text."""
    if len(text) <= _SAFE_DIGITS and text.isdigit() and text.isascii():
        return int(text)
    text = text.strip()
    digits = text[1:] if text[:1] == "-" else text
    if len(digits) > _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return bounded(int(text))


def real(text: str) -> float | None:
    """Return a decimal number with a point or without, such as `-0.000006747`, None for every other text."""
    text = text.strip()
    digits = text.lstrip("+-").replace(".", "", 1)
    if len(text) > _NUMBER_LIMIT or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def bounded(number: int) -> int | None:
    """Return a number that fits 64 bits, None for one that does not: a sum of numbers that make no sense."""
    return number if _LOW <= number < _HIGH else None


def cell(part: wire.Part, path: str) -> Cell:
    """Return the number in a file, or the word of why there is none: unsupported where it does not exist."""
    text = part.files.get(path)
    if text is None:
        return part.failed.get(path, UNSUPPORTED)
    number = whole(text)
    return ERROR if number is None else number


def line(part: wire.Part, path: str) -> str:
    """Return the text of a file that has one line, empty where it cannot be read."""
    return part.files.get(path, "").strip()


def numbers(words: list[str]) -> list[int] | None:
    """Return the numbers of the columns of a line, None when one of them is none."""
    if are_numbers(words) and "" not in words:
        return [int(word) for word in words]
    found = [whole(word) for word in words]
    return None if None in found else found  # type: ignore[return-value]


def are_numbers(words: list[str]) -> bool:
    """Tell whether all words that are not empty are plain numbers of less than 64 bits."""
    joined = "".join(words)
    return joined.isascii() and joined.isdigit() and max(map(len, words)) <= _SAFE_DIGITS


def answer(part: wire.Part, name: str) -> tuple[wire.Ran | None, str]:
    """Return what a command gave, and the word for its values: empty when it ended by itself."""
    ran = part.ran.get(name)
    if ran is None:
        return None, UNSUPPORTED
    if ran.status == "ok":
        return ran, ""
    return ran, {"absent": UNSUPPORTED, "timeout": HUNG, "hung": HUNG}.get(ran.status, ERROR)


def counted(text: str) -> dict[str, int]:
    """Return how many files have each content, from lines such as `96 performance`."""
    contents: dict[str, int] = {}
    for entry in text.split("\n"):
        count, _, content = entry.strip().partition(" ")
        number = whole(count)
        if number is not None and content:
            contents[content] = contents.get(content, 0) + number
    return contents


def said(contents: dict[str, int]) -> str:
    """Return contents as one word that compares: `performance`, or `performance (94), powersave (2)` in their order."""
    if len(contents) <= 1:
        return next(iter(contents), "")
    return ", ".join(f"{content} ({contents[content]})" for content in sorted(contents))


def below(part: wire.Part, prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Yield the text of every file between `prefix` and `suffix`, with what stands between them."""
    for path, text in part.files.items():
        if path.startswith(prefix) and path.endswith(suffix):
            yield path[len(prefix) : len(path) - len(suffix)], text
