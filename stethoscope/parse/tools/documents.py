"""The JSON documents in a text: a prompt may stand before them, several may follow each other, the last may be cut."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_MISSES = 16
"""Braces that begin no document, such as those of a command line, before the search is given up."""


class Documents(NamedTuple):
    """What was found."""

    found: list[tuple[str, dict[str, Any]]]
    """Each object, with the text between the one before and it."""
    cut: bool
    """Whether the text ends within an object."""


def documents(text: str) -> Documents:
    """Return the JSON objects of a text in their order; an array of objects counts as its objects."""
    found: list[tuple[str, dict[str, Any]]] = []
    end = place = misses = 0
    cut = False
    while misses <= _MISSES:
        start = text.find("{", place)
        if start < 0:
            break
        try:
            document, place = _DECODER.raw_decode(text, start)
        except RecursionError:
            break
        except ValueError:
            # What a cut-off document holds whole is not a document of its own.
            cut = text.count("{", start) > text.count("}", start)
            if cut:
                break
            misses += 1
            place = start + 1
            continue
        found.append((text[end:start], document))
        end = place
    return Documents(found, cut)
