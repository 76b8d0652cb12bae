"""The words around what a search found, in the text that says most: what fixed it, then the notes, then the title.

A search shows some fifty of them while a person types: here the words are found in the text as it stands, which takes
a hundredth of the time that cutting all of it into words would.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.model.incident import END, HIT
from stethoscope.store.incident_db import tokens_of
from stethoscope.store.incident_tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.model.incident import Incident
    from stethoscope.specs.incident_query import Words

BEFORE, WIDTH = 40, 160
"""Characters before the first word that fits, and of the whole."""
_WORD = r"[^\W_]"
# Where words stand without spaces nothing separates one from the next.
_ALONE = r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"


class Snippets:
    """Finds what a query asks for in texts."""

    def __init__(self, words: Iterable[Words]) -> None:
        """Look for these words."""
        patterns = [pattern for one in words if (pattern := _pattern(one))]
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def of(self, incident: Incident) -> str:
        """Return text around the words, each between HIT and END; empty where none of them stands in it as typed."""
        if self._pattern is None:
            return ""
        for text in (incident.resolution, incident.body, incident.title):
            if (found := self._pattern.search(text)) is not None:
                return self._around(text, found.start())
        for text in columns_of(incident):
            if (found := self._pattern.search(text)) is not None:
                return self._around(text, found.start())
        return ""

    def _around(self, text: str, first: int) -> str:
        assert self._pattern is not None
        start = max(first - BEFORE, 0)
        # A snippet begins and ends with a whole word, where one ends near enough.
        if start and (space := text.find(" ", start, first)) >= 0:
            start = space + 1
        end = min(start + WIDTH, len(text))
        if end < len(text) and (space := text.rfind(" ", first, end)) > first:
            end = space
        # What fits and goes on behind the end is shown whole.
        marked, at = [], start
        for found in self._pattern.finditer(text, start, min(end + WIDTH, len(text))):
            if found.start() >= end:
                break
            marked += [text[at : found.start()], HIT, found.group(), END]
            at = found.end()
        marked.append(text[at:end])
        said = " ".join("".join(marked).split())
        return f"{'…' if start else ''}{said}{'…' if end < len(text) else ''}"


def _pattern(words: Words) -> str:
    tokens = [token for _, _, token in tokens_of(words.text.encode("utf-8", "replace"))]
    if not tokens:
        return ""
    # Between two words of one place anything but a word may stand.
    inner = r"[\W_]{0,8}".join(map(re.escape, tokens))
    before = "" if re.match(_ALONE, tokens[0]) else f"(?<!{_WORD})"
    behind = "" if words.begins or re.match(_ALONE, tokens[-1][-1]) else f"(?!{_WORD})"
    rest = rf"{_WORD}{{0,40}}" if words.begins and not re.match(_ALONE, tokens[-1][-1]) else ""
    return f"{before}{inner}{rest}{behind}"
