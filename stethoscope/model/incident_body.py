"""The free text of an incident as what stands below each of its headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Section:
    """What stands below one heading, as far as the next of its level or a higher one."""

    title: str
    """Empty for what stands before the first heading."""
    text: str
    """Without blank lines at its ends."""
    line: int
    """Of the heading in the body, from 1."""


def sections(body: str, level: int = 2) -> tuple[Section, ...]:
    """Return the sections of a Markdown text by its headings of at most `level`, or by the highest that it has; `#` in
    a block of code is no heading, and a section without heading and text is left out."""
    levels = [len(head[1]) for line, is_code, _ in lines_of(body) if not is_code and (head := _HEADING.fullmatch(line))]
    level = max(level, min(levels, default=level))
    found: list[tuple[str, list[str], int]] = [("", [], 1)]
    for number, (line, is_code, _) in enumerate(lines_of(body), 1):
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is not None and len(heading[1]) <= level:
            found.append((heading[2].strip(), [], number))
        else:
            found[-1][1].append(line)
    made = (Section(title, _trimmed(lines), number) for title, lines, number in found)
    return tuple(section for section in made if section.title or section.text)


def lines_of(text: str) -> Iterator[tuple[str, bool, str]]:
    """Yield each line of a Markdown text, whether it is of a block of code, and the fence that is to end one behind
    it: empty where none is open."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        is_code = bool(fence) or mark is not None
        if not fence:
            fence = mark[1] if mark is not None else ""
        elif mark is not None and mark[1].startswith(fence) and not line.strip(" \t`~"):
            fence = ""
        yield line, is_code, fence


def section(body: str, *titles: str) -> str:
    """Return the text below the first heading that is called like one of `titles` (whatever its case), or nothing."""
    wanted = {title.casefold() for title in titles}
    return next((one.text for one in sections(body) if one.title.casefold() in wanted), "")


def _trimmed(lines: list[str]) -> str:
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines).rstrip()
