"""Two people changed one text: what only one of them touched is taken from both, the rest is marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OURS, BETWEEN, THEIRS = "<<<<<<< yours\n", "=======\n", ">>>>>>> theirs\n"


def merged(base: str, ours: str, theirs: str) -> tuple[str, int]:
    """Return what two texts make that both came from `base`, and how often both say something else in one place: there
    stand both, between lines of marks."""
    parts: list[str] = []
    conflicts = 0
    for mine, other, was in _pieces(_lines(base), _lines(ours), _lines(theirs)):
        if mine == other or other == was:
            parts += mine
        elif mine == was:
            parts += other
        else:
            parts += [OURS, *mine, BETWEEN, *other, THEIRS]
            conflicts += 1
    return "".join(parts), conflicts


def marked_at(text: str) -> int | None:
    """Return the first line with marks of a merge that nobody has finished, ours or those of git; None without."""
    marks = ("<<<<<<< ", ">>>>>>> ")
    return next((number for number, line in enumerate(text.splitlines(), 1) if line.startswith(marks)), None)


def _lines(text: str) -> list[str]:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _pieces(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """Yield pieces of the three texts that belong together: what nobody touched, and what stands between that."""
    in_ours, in_theirs = _same(base, ours), _same(base, theirs)
    at = mine = other = 0
    for number, line in enumerate(base):
        if number not in in_ours or number not in in_theirs:
            continue
        yield ours[mine : in_ours[number]], theirs[other : in_theirs[number]], base[at:number]
        yield [line], [line], [line]
        at, mine, other = number + 1, in_ours[number] + 1, in_theirs[number] + 1
    yield ours[mine:], theirs[other:], base[at:]


def _same(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Return the lines of `base` that `other` has, by their numbers, with the number there."""
    blocks = SequenceMatcher(None, base, other, autojunk=False).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}
