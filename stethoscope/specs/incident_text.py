"""The text of an incident's file, in an order that people read: what is empty is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stethoscope.clock import iso
from stethoscope.model.incident import SCHEMA, Incident, Times

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDER = (
    "id", "title", "status", "severity", "root_cause", "component", "fleet", "times", "nodes", "places", "around",
    "job", "symptoms", "confidence", "resolution", "tags", "links", "author", "redacted",
)  # fmt: skip
"""Keys of the front matter behind `schema`, as they are written."""

_WIDTH = 100
"""A list that is longer has a line for each of its parts."""
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./@+()%<>=,-]|\[|\]|:(?=[^\s]))*")
"""Text that YAML reads as itself on a line of its own."""
_PLAIN_INSIDE = re.compile(r"[^\W\d_][\w ./@+()%<>=-]*")
"""The same between brackets."""
_WORDS = {"null", "true", "false", "on", "off", "yes", "no", "y", "n"}
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def incident_text(incident: Incident) -> str:
    """Return the file that says `incident`; read again it says the same."""
    return f"---\n{''.join(line + chr(10) for line in _front(incident))}---\n{_below(incident.body)}"


def _below(body: str) -> str:
    return f"\n{body}" if body else ""


def _front(incident: Incident) -> Iterator[str]:
    yield f"schema: {SCHEMA}"
    for key in ORDER:
        value = getattr(incident, key)
        if key in ("id", "title", "confidence") or value not in ("", (), 0):
            yield from _entry(key, value)
    for key, value in incident.extra:
        yield f"{scalar(key)}: {_value(value)}"


def _entry(key: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, Times):
        known = [(name, getattr(value, name)) for name in Times.__dataclass_fields__]
        lines = [f"  {name}: {time_text(wall)}" for name, wall in known if wall is not None]
        yield from ["times:", *lines] if lines else []
    elif key == "links":
        yield "links:"
        yield from (f"  - {scalar(link.how)}: {scalar(link.to)}" for link in value)
    elif isinstance(value, tuple):
        yield from _list(key, value)
    elif key == "resolution" and _fits_block(value):
        yield f"{key}: |{'' if value.endswith(chr(10)) else '-'}"
        yield from (f"  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
    elif isinstance(value, str):
        yield f"{key}: {scalar(str(value))}"
    else:
        yield f"{key}: {_value(value)}"


def _list(key: str, values: tuple[str, ...]) -> Iterator[str]:
    line = f"{key}: [{', '.join(scalar(value, inside=True) for value in values)}]"
    if len(line) <= _WIDTH:
        yield line
        return
    yield f"{key}:"
    yield from (f"  - {scalar(value)}" for value in values)


def time_text(wall: float) -> str:
    """Return `wall` (seconds since 1970) as `2026-03-14T02:14:07Z`, with three decimals where it has some."""
    thousandths = round(wall * 1000)
    seconds, rest = divmod(thousandths, 1000)
    return iso(seconds) if not rest else f"{iso(seconds)[:-1]}.{rest:03d}Z"


def scalar(text: str, *, inside: bool = False) -> str:
    """Return `text` as YAML writes it on one line, in quotes where it needs them; `inside` of brackets."""
    pattern = _PLAIN_INSIDE if inside else _PLAIN
    if pattern.fullmatch(text) and text == text.strip() and text.lower() not in _WORDS and text.isprintable():
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _value(value: Any) -> str:
    """Return a value that the file had and that we do not know, on one line."""
    if isinstance(value, str):
        return scalar(value, inside=True)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{scalar(str(key), inside=True)}: {_value(one)}' for key, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def _fits_block(text: str) -> bool:
    lines = text.removesuffix("\n").split("\n")
    # A block drops the empty lines at its end.
    return (
        len(lines) > 1
        and bool(lines[0])
        and bool(lines[-1])
        and all(line == line.strip() and line.isprintable() for line in lines)
    )
