"""One incident as a file: YAML front matter in a fixed order, Markdown below it, in any language.

A file is read as its author wrote it. What this version does not know is kept, the text below the front matter is kept
to the letter, and what is missing or odd costs nothing but a remark; only what cannot be understood is an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from stethoscope.errors import DataError, did_you_mean
from stethoscope.model.finding import Severity
from stethoscope.model.incident import COMPONENTS, SCHEMA, Incident, Link, Status, Times, Trouble
from stethoscope.specs.incident_text import ORDER, incident_text
from stethoscope.specs.load import Loaded, loads
from stethoscope.specs.moment import wall_of
from stethoscope.text import clean, clean_json, clean_page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    Word = TypeVar("Word", bound=StrEnum)

__all__ = ["fronts_incident", "id_error", "incident_text", "read_incident", "read_with_remarks"]

_FENCE = re.compile(r"-{3}[ \t]*\r?(?:\n|\Z)")
_END = re.compile(r"^(?:-{3}|\.{3})[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_MERGE = re.compile(r"^<{7} ", re.MULTILINE)
_TIMES = tuple(Times.__dataclass_fields__)
_SEVERITIES = {"critical": Severity.P1, "warning": Severity.P2}
"""Words of rule files that people know."""
_ROUND = 3
"""Decimals of a second that are kept."""


def read_incident(text: str, where: str) -> Incident:
    """Return the incident that a file says; errors call the file `where` and say line, column and the nearest word.

    Raises DataError.
    """
    return read_with_remarks(text, where)[0]


def read_with_remarks(text: str, where: str) -> tuple[Incident, list[Trouble]]:
    """Return the incident that a file says, and what is odd about it; DataError as `read_incident`."""
    front, body = _split(text, where)
    loaded = loads(front, where)
    if not isinstance(loaded.data, dict):
        raise DataError("the lines between --- and --- are no `name: value` lines", where=f"{where}:1")
    said = _Said(loaded)
    schema = loaded.data.get("schema")
    if schema != SCHEMA:
        raise said.error(f'"{schema}" is not {SCHEMA}' if schema is not None else f"no `schema: {SCHEMA}`", "schema")
    harmless = clean_page(body)
    if harmless != body:
        line = front.count("\n") + 2
        said.remarks.append(Trouble(where, line, "text below the front matter has characters that a terminal obeys"))
    if marks := _MERGE.search(body):
        line = text.count("\n", 0, len(text) - len(body) + marks.start()) + 1
        said.remarks.append(Trouble(where, line, "what git could not merge: keep one side and take the marks away"))
    incident = Incident(
        id=said.id(),
        title=said.line("title"),
        status=said.word("status", Status, Status.OPEN),
        severity=said.word("severity", Severity, Severity.P1, _SEVERITIES),
        root_cause=said.line("root_cause"),
        component=said.line("component"),
        fleet=said.line("fleet"),
        times=said.times(),
        nodes=said.line("nodes"),
        places=said.lines("places"),
        around=said.lines("around"),
        job=said.line("job"),
        symptoms=said.lines("symptoms"),
        confidence=said.confidence(),
        resolution=clean_page(said.text("resolution")),
        tags=said.lines("tags"),
        links=said.links(),
        author=said.line("author"),
        redacted=said.count("redacted"),
        body=harmless,
        extra=said.extra(),
    )
    return incident, said.remarks


def fronts_incident(text: str) -> bool:
    """Tell whether a Markdown file says of itself that it is an incident: a README beside them does not."""
    fence = _FENCE.match(text)
    end = _END.search(text, fence.end()) if fence else None
    front = text[fence.end() : end.start()] if fence and end else ""
    return "stethoscope.incident/" in front


def id_error(identity: str) -> str:
    """Return what is wrong with an id, in words; empty for one that can be the name of a file."""
    if _ID.fullmatch(identity) and not identity.lower().endswith(".md"):
        return ""
    return f'"{clean(identity, 80)}" is no id: letters, digits, dots and dashes, such as INC-2026-03-14-k7qmx'


def _split(text: str, where: str) -> tuple[str, str]:
    """Return the front matter with its first fence, so that lines count from that of the file, and the body."""
    fence = _FENCE.match(text)
    if fence is None:
        raise DataError("an incident begins with a line `---` and its front matter", where=f"{where}:1:1")
    end = _END.search(text, fence.end())
    if end is None:
        raise DataError("the front matter has no end: a line `---` is missing below it", where=f"{where}:1:1")
    body = text[end.end() :]
    # One empty line below the fence is layout.
    gap = 2 if body.startswith("\r\n") else 1 if body.startswith("\n") else 0
    return text[: end.start()], body[gap:]


class _Said:
    """What the front matter says, value by value."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._data: dict[Any, Any] = loaded.data
        self.remarks: list[Trouble] = []

    def error(self, message: str, *path: str | int) -> DataError:
        return self._loaded.error(message, *path)

    def id(self) -> str:
        if "id" not in self._data:
            near = did_you_mean("id", (str(key) for key in self._data))
            raise self.error(f"no `id`{near}")
        identity = self.line("id")
        if wrong := id_error(identity):
            raise self.error(wrong, "id")
        return identity

    def text(self, key: str, *path: str | int) -> str:
        """Return a text, also where it looks like a number: job 4242."""
        return self._text_of(self._data.get(key), key, *path)

    def _text_of(self, value: Any, *path: str | int) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise self.error(f"{path[0]}: text is expected here", *path)

    def line(self, key: str) -> str:
        return clean(self.text(key)).strip()

    def lines(self, key: str) -> tuple[str, ...]:
        value = self._data.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        found = (
            clean(self._text_of(one, *((key, number) if isinstance(value, list) else (key,)))).strip()
            for number, one in enumerate(values)
        )
        return tuple(one for one in found if one)

    def word(self, key: str, words: type[Word], default: Word, others: Mapping[str, Word] | None = None) -> Word:
        said = self.line(key)
        if not said:
            return default
        known: dict[str, Word] = {word.value.lower(): word for word in words} | dict(others or {})
        if said.lower() not in known:
            some = ", ".join(word.value for word in words)
            raise self.error(f'{key} "{said}" is none of {some}{did_you_mean(said.lower(), known)}', key)
        return known[said.lower()]

    def times(self) -> Times:
        said = self._data.get("times")
        if said is None:
            return Times()
        if not isinstance(said, dict):
            raise self.error("times are `began: 2026-03-14T02:14:07Z` lines below `times:`", "times")
        found: dict[str, float | None] = {}
        for key, value in said.items():
            if key not in _TIMES:
                where = self._loaded.where_key("times", key)
                raise DataError(
                    clean(f'times: "{key}" is none of {", ".join(_TIMES)}{did_you_mean(str(key), _TIMES)}'), where=where
                )
            try:
                found[key] = None if value is None else round(wall_of(str(value)), _ROUND)
            except ValueError as error:
                raise self.error(f"times: {error}", "times", key) from None
        return Times(**found)

    def confidence(self) -> float | None:
        value = self._data.get("confidence")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.error("confidence is a number from 0 to 1", "confidence")
        return float(value)

    def count(self, key: str) -> int:
        value = self._data.get(key)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**9:
            raise self.error(f"{key} is a whole number", key)
        return value

    def links(self) -> tuple[Link, ...]:
        said = self._data.get("links")
        if said is None:
            return ()
        if isinstance(said, dict):
            said = [{how: to} for how, to in said.items()]
        found: list[Link] = []
        for number, one in enumerate(said if isinstance(said, list) else [said]):
            if isinstance(one, dict) and set(one) == {"how", "to"}:
                how, to = one["how"], one["to"]
            elif isinstance(one, dict) and len(one) == 1:
                ((how, to),) = one.items()
            elif isinstance(one, dict):
                raise self.error(
                    "a link is one `how: to` line, such as `same_as: INC-2026-03-14-k7qmx`", "links", number
                )
            else:
                how, to = "url" if "://" in str(one) else "related", one
            for target in to if isinstance(to, list) else [to]:
                words = (clean(self._text_of(word, "links", number)).strip() for word in (how, target))
                found.append(Link(*words))
        return tuple(link for link in found if link.to)

    def extra(self) -> tuple[tuple[str, Any], ...]:
        known = ("schema", *ORDER)
        found = []
        for key, value in self._data.items():
            if key in known:
                continue
            if near := did_you_mean(str(key), known):
                self.remarks.append(self._remark(f'"{key}" is not known and kept{near}', key))
            found.append((clean(str(key)), clean_json(value, clean_page)))
        if self.line("component") and self.line("component") not in COMPONENTS:
            word = self.line("component")
            self.remarks.append(self._remark(f'no component "{word}"{did_you_mean(word, COMPONENTS)}', "component"))
        if not self.line("title"):
            self.remarks.append(self._remark("no title", "title"))
        return tuple(found)

    def _remark(self, message: str, *path: str | int) -> Trouble:
        where = self._loaded.where(*path)
        line = where.removeprefix(self._loaded.name).split(":")[1:2]
        return Trouble(self._loaded.name, int(line[0]) if line else 0, clean(message))
