"""Why a data file does not fit its type: every error with its position, not only the first."""

from __future__ import annotations

import enum
import re
import types
import typing
from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.errors import DataError, did_you_mean
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.specs.load import Loaded

MAX_ERRORS = 20
"""More errors than this say nothing new about a file."""

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}

_Path = tuple[str | int, ...]


def explain(loaded: Loaded, type_: Any, data: Any, path: _Path) -> list[DataError]:
    """Return what keeps `data`, at `path` of the file, from being a `type_`, in the order of the file, at most
    MAX_ERRORS."""
    errors = []
    for here, message, at_key in _walk(data, type_, path):
        where = loaded.where_key(*here) if at_key else loaded.where(*here)
        errors.append(DataError(message, where=where))
        if len(errors) == MAX_ERRORS:
            break
    return sorted(errors, key=lambda error: _by_position(error.where))


def _by_position(where: str) -> tuple[int, int]:
    numbers = re.search(r":(\d+):(\d+)$", where)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _walk(data: Any, type_: Any, path: _Path) -> Iterator[tuple[_Path, str, bool]]:
    try:
        msgspec.convert(data, type_)
    except msgspec.ValidationError as error:
        inner = list(_parts(data, _member(data, type_), path))
        yield from inner or [(path, _in_words(str(error), data, path) + _nearest(data, type_), False)]


def _nearest(data: Any, type_: Any) -> str:
    """Return the nearest of the words that a type allows, or all of a few."""
    if typing.get_origin(type_) is typing.Annotated:
        type_ = typing.get_args(type_)[0]
    known = list(typing.get_args(type_)) if typing.get_origin(type_) is typing.Literal else []
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        known = [member.value for member in type_]
    words = [word for word in known if isinstance(word, str)]
    if not words or not isinstance(data, str) or data in words:
        return ""
    return did_you_mean(data, words) or f"; known: {', '.join(words)}" * (len(words) <= 12)


def _parts(data: Any, type_: Any, path: _Path) -> Iterator[tuple[_Path, str, bool]]:
    """Yield the errors of the parts of `data`; none when the whole is of the wrong kind or `type_` has no parts."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct) and isinstance(data, dict):
        yield from _struct(data, type_, path)
    elif origin in (list, tuple, set, frozenset) and isinstance(data, list):
        if origin is tuple and arguments[-1:] != (...,):
            if len(arguments) != len(data):
                return
            for position, (item, item_type) in enumerate(zip(data, arguments, strict=True)):
                yield from _walk(item, item_type, (*path, position))
            return
        for position, item in enumerate(data):
            yield from _walk(item, arguments[0], (*path, position))
    elif origin is dict and isinstance(data, dict):
        for key, value in data.items():
            try:
                msgspec.convert(key, arguments[0])
            except msgspec.ValidationError as error:
                yield (*path, key), "key: " + _in_words(str(error), key, ()), True
            yield from _walk(value, arguments[1], (*path, key))


def _struct(data: dict[Any, Any], type_: type[msgspec.Struct], path: _Path) -> Iterator[tuple[_Path, str, bool]]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
    tag_field = type_.__struct_config__.tag_field
    for key, value in data.items():
        if key in fields:
            yield from _walk(value, fields[key].type, (*path, key))
        elif key != tag_field:
            near = did_you_mean(str(key), fields)
            yield (*path, key), f'unknown key "{clean(str(key), 60)}"{near}', True
    for name, field in fields.items():
        if field.required and name not in data:
            yield path, f'the key "{name}" is missing', False


def _member(data: Any, type_: Any) -> Any:
    """Return the member of a union that `data` was meant to be, or the type itself."""
    if typing.get_origin(type_) is typing.Annotated:
        return _member(data, typing.get_args(type_)[0])
    if typing.get_origin(type_) not in (typing.Union, types.UnionType):
        return type_
    members = [member for member in typing.get_args(type_) if member is not type(None)]
    if isinstance(data, dict):
        for member in members:
            config = getattr(member, "__struct_config__", None)
            if config is not None and config.tag_field is not None and data.get(config.tag_field) == config.tag:
                return member
        members = [m for m in members if hasattr(m, "__struct_config__") or typing.get_origin(m) is dict]
    elif isinstance(data, list):
        members = [m for m in members if typing.get_origin(m) in (list, tuple, set, frozenset)]
    return members[0] if len(members) == 1 else type_


def _in_words(message: str, data: Any, path: _Path) -> str:
    message = message.split(" - at `", 1)[0]
    message = re.sub(r"`([^`]*)`", lambda match: _type_in_words(match[1]), message)
    name = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
    shown = f" {clean(repr(data), 40)}" if isinstance(data, str | int | float) and data is not None else ""
    return clean(f"{name}{message[:1].lower()}{message[1:]}{shown if 'got' in message else ''}", 300)


def _type_in_words(types_: str) -> str:
    return " or ".join(_WORDS.get(word.strip(), word.strip()) for word in types_.split("|"))
