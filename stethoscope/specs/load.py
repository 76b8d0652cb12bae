"""Data files: YAML read without its surprises, and errors that name `file:line:column` and the nearest known key.

Plain scalars are what they look like: `1e-12` is a number, a date is text, `true` and `false` alone are truth values.
What YAML readers disagree about is refused in a value: `on`, `off`, `yes`, `no` (text as keys), `1:30`, `017`, and
numbers that are not finite.
"""

from __future__ import annotations

import math
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from stethoscope.errors import DataError
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

MAX_BYTES = 32 * 1024 * 1024
"""A larger file is not one that people edit."""
MAX_DEPTH = 60
_STREAMS = ("/dev/", "/proc/")
"""Where a shell puts what it pipes into a command: `--fleet <(make-fleet)`."""
MAX_VALUES = 2_000_000
"""Values of one file with its aliases followed: ten lines of aliases can stand for billions."""

_PLAIN, _TEXT, _LIST, _MAPPING = "plain", "text", "list", "mapping"
_STRING_TAGS = {_TEXT, "tag:yaml.org,2002:str", "!"}
_COMPOSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SWITCHES = {form for word in ("on", "off", "yes", "no") for form in (word, word.capitalize(), word.upper())}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
_PREFIXED = re.compile(r"[-+]?0(?:x[0-9a-fA-F]+|o[0-7]+|b[01]+)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-9_]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER_STARTS = frozenset("+-.0123456789")


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the types that files are converted to: an unknown key is an error. Subclasses say `frozen=True` too."""


class SeveralDataError(DataError):
    """Several things that are wrong with one file, one line each."""

    def __init__(self, errors: list[DataError]) -> None:
        """Keep `errors` apart beside the text of all of them."""
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)


class _Composer(_COMPOSER):  # type: ignore[misc]
    def resolve(self, kind: type[yaml.Node], _value: object, implicit: tuple[bool, bool] | bool) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _TEXT
        return _LIST if kind is yaml.SequenceNode else _MAPPING


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a data file as dicts, lists, text and numbers, and the way back to where each part stands."""

    name: str
    """What errors call the file: its path."""
    text: str
    data: Any
    many: bool = False
    """The data is a list of documents, whatever their number."""
    written: dict[tuple[str | int, ...], str | int] = field(default_factory=dict, compare=False)
    """Path whose last key was given another name since -> the key as it stands in the file."""

    def where(self, *path: str | int) -> str:
        """Return `file:line:column` of the value at `path`, or of the nearest part around it that exists."""
        return self._where(path, key=False)

    def where_key(self, *path: str | int) -> str:
        """Return `file:line:column` of the key that ends `path`."""
        return self._where(path, key=True)

    def _where(self, path: tuple[str | int, ...], *, key: bool) -> str:
        steps = [self.written.get(path[: depth + 1], step) for depth, step in enumerate(path)]
        return _position(self.name, _find(_compose(self.name, self.text, many=self.many), tuple(steps), key=key))

    def error(self, message: str, *path: str | int) -> DataError:
        """Return an error about the value at `path`; a message is one line, whatever words of the file are in it."""
        return DataError(clean(message), where=self.where(*path))


def load(path: str | Path, *, many: bool = False, data: Any = None) -> Loaded:
    """Return the content of the YAML file at `path`, with `many` that of all its documents as a list; DataError says
    what is wrong with it and where. `data` is that content where it was read before."""
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(_STREAMS)):
            # A pipe that nobody writes to would keep us waiting for ever.
            raise DataError("no regular file", where=str(path))
        with Path(path).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(error.strerror or "cannot be read", where=str(path)) from error
    if len(raw) > MAX_BYTES:
        raise DataError(f"larger than {MAX_BYTES // 2**20} MiB", where=str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError("not UTF-8 text", where=f"{path}:{line}") from error
    return loads(text, str(path), many=many) if data is None else Loaded(str(path), text, data, many)


def loads(text: str, name: str = "text", *, many: bool = False) -> Loaded:
    """Return the content of YAML `text`; errors call it `name`."""
    node = _compose(name, text, many=many)
    if node is None:
        return Loaded(name, text, None)
    if "*" in text:
        _count(name, node, {}, set())
    return Loaded(name, text, _value(name, node, MAX_DEPTH), many)


def convert(loaded: Loaded, type_: type[T]) -> T:
    """Return the content of a file as `type_` (of Spec types); DataError or SeveralDataError, with positions."""
    return convert_part(loaded, loaded.data, (), type_)


def convert_part(loaded: Loaded, data: Any, path: tuple[str | int, ...], type_: type[T]) -> T:
    """Return a part of a file, `data` at `path`, as `type_`, as `convert` does with the whole."""
    try:
        return msgspec.convert(data, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        # Explaining is a second, slower pass that only broken files pay for.
        from stethoscope.specs.explain import explain

        errors = explain(loaded, type_, data, path) or [DataError(clean(str(error)), where=loaded.where(*path))]
        raise several(errors) from None


def several(errors: Sequence[DataError]) -> DataError:
    """Return one error that says what all of `errors` say; there is at least one."""
    flat = [one for error in errors for one in (error.errors if isinstance(error, SeveralDataError) else (error,))]
    return flat[0] if len(flat) == 1 else SeveralDataError(flat)


def _compose(name: str, text: str, *, many: bool = False) -> yaml.Node | None:
    try:
        composer = _Composer(text)
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        raise _syntax_error(name, error) from None
    try:
        node: yaml.Node | None = _documents(composer) if many else composer.get_single_node()
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        raise _syntax_error(name, error) from None
    finally:
        composer.dispose()
    return node


def _documents(composer: Any) -> yaml.Node | None:
    nodes = []
    while composer.check_node():
        nodes.append(composer.get_node())
        if len(nodes) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} documents")
    return yaml.SequenceNode(_LIST, nodes, nodes[0].start_mark, nodes[-1].end_mark) if nodes else None


def _syntax_error(name: str, error: Exception) -> DataError:
    if isinstance(error, RecursionError):
        return DataError(f"nested deeper than {MAX_DEPTH} levels", where=name)
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        message = clean(" ".join(part for part in (error.context, error.problem) if part))
        return DataError(message, where=f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name)
    return DataError(clean(str(error).splitlines()[0] if str(error) else "not readable as YAML"), where=name)


def _position(name: str, node: yaml.Node | None) -> str:
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}" if node is not None else name


def _find(node: yaml.Node | None, path: tuple[str | int, ...], *, key: bool) -> yaml.Node | None:
    for depth, step in enumerate(path):
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                if isinstance(key_node, yaml.ScalarNode) and _same_key(key_node, step):
                    node = key_node if key and depth == len(path) - 1 else value_node
                    break
            else:
                return node
        else:
            return node
    return node


def _same_key(node: yaml.ScalarNode, step: str | int) -> bool:
    try:
        return bool(_key("", node) == step)
    except DataError:
        return False


def _count(name: str, node: yaml.Node, known: dict[int, int], open_: set[int]) -> int:
    """Return the number of values under `node`, aliases followed."""
    if id(node) in known:
        return known[id(node)]
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in open_ or len(open_) > MAX_DEPTH:
        raise DataError("an alias stands inside of what it names, or too deep", where=_position(name, node))
    open_.add(id(node))
    total = 1
    for part in node.value:
        total += sum(_count(name, n, known, open_) for n in (part if isinstance(part, tuple) else (part,)))
    open_.discard(id(node))
    if total > MAX_VALUES:
        raise DataError(f"stands for more than {MAX_VALUES:,} values", where=_position(name, node))
    known[id(node)] = total
    return total


def _value(name: str, node: yaml.Node, depth: int) -> Any:
    if node.tag == _PLAIN:
        return _scalar(name, node)
    if node.tag in _STRING_TAGS and isinstance(node, yaml.ScalarNode):
        return node.value
    if depth <= 0:
        raise DataError(f"nested deeper than {MAX_DEPTH} levels", where=_position(name, node))
    if node.tag == _LIST:
        return [_value(name, item, depth - 1) for item in node.value]
    if node.tag == _MAPPING:
        return _mapping(name, node, depth)
    raise DataError(f"the tag {clean(node.tag, 60)} is not used here", where=_position(name, node))


def _mapping(name: str, node: yaml.Node, depth: int) -> dict[Any, Any]:
    values: dict[Any, Any] = {}
    merged: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        if key_node.tag == _PLAIN and key_node.value == "<<":
            for source in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                if not isinstance(source, yaml.MappingNode):
                    raise DataError("only a mapping can be merged with <<", where=_position(name, source))
                merged = {**_value(name, source, depth - 1), **merged}
            continue
        key = _key(name, key_node)
        if key in values:
            raise DataError(f'the key "{clean(str(key), 60)}" stands here twice', where=_position(name, key_node))
        values[key] = _value(name, value_node, depth - 1)
    return {**merged, **values} if merged else values


def _key(name: str, node: yaml.Node) -> str | int:
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _STRING_TAGS or node.value in _SWITCHES:
            return str(node.value)
        if node.tag == _PLAIN:
            key = _scalar(name, node)
            if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
                return key
    raise DataError("a key is text or a whole number", where=_position(name, node))


def _scalar(name: str, node: yaml.Node) -> str | int | float | bool | None:
    value: str = node.value
    if not value or value[0] not in _NUMBER_STARTS:
        if value in _SWITCHES:
            truth = "true" if value.lower() in ("on", "yes") else "false"
            raise DataError(
                f'{value} is a truth value to some readers and text to others: write {truth}, or "{value}"',
                where=_position(name, node),
            )
        return _WORDS.get(value, value) if len(value) < 6 else value
    if _INTEGER.fullmatch(value):
        if len(value) > 40:
            raise DataError("a number of more than 40 digits", where=_position(name, node))
        return int(value)
    if _PREFIXED.fullmatch(value) and len(value) <= 80:
        return int(value, 0)
    if _OCTAL.fullmatch(value):
        raise DataError(
            f'{clean(value, 40)} is octal to some readers: write "{clean(value, 40)}" for text, or no leading zero',
            where=_position(name, node),
        )
    if _FLOAT.fullmatch(value):
        number = float(value)
        if math.isfinite(number):
            return number
        raise DataError(f"{clean(value, 40)} is too large for a number", where=_position(name, node))
    if _SEXAGESIMAL.fullmatch(value):
        raise DataError(
            f'{clean(value, 40)} is a number of base 60 to some readers: write "{clean(value, 40)}" for text, '
            "or plain seconds",
            where=_position(name, node),
        )
    if _NOT_FINITE.fullmatch(value):
        raise DataError(f"{value} is not a number that can be compared with", where=_position(name, node))
    return value


def refuse_hidden(loaded: Loaded, value: Any, *path: str | int) -> None:
    """Raise DataError for a text that a terminal would obey or not show: names in this file stand on every screen."""
    if isinstance(value, str):
        if value != clean(value, max(len(value), 1)):
            raise loaded.error(f'"{clean(value, 60)}" has characters that cannot be shown', *path)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            refuse_hidden(loaded, item, *path, number)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and key != clean(key, max(len(key), 1)):
                where = loaded.where_key(*path, key)
                raise DataError(f'the key "{clean(key, 60)}" has characters that cannot be shown', where=where)
            refuse_hidden(loaded, item, *path, key)
