"""One raw line of a probe, or block of the one in sh, to one typed message: cleaned, bounded, and right or refused.

After `parse` no string holds a control character (but for the line feeds of a tool's output, and the line feeds and
tabs of what a part brings), every address is in its normal form, every word in place of a number is one of
model.metric.WIRE_REASONS, and every number fits 64 bits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from stethoscope.model import wire
from stethoscope.model.metric import REASON_WORDS, WIRE_REASONS, Reason
from stethoscope.parse import shstream
from stethoscope.parse.pci import normal_pci
from stethoscope.text import clean, is_plain, is_plain_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    from stethoscope.model.wire import Cell, GpuIdentity, Message, PortIdentity

    Links = dict[str, list[list[Cell]]]

MAX_LINE = 4 * 1024 * 1024
"""Bytes of one line."""
MAX_GPUS = 64
MAX_PORTS = 64
MAX_METRICS = 512
"""Metrics of one scope in one line."""
MAX_NOTES = 64
MAX_LINKS = 64
"""NVLinks of one GPU."""
MAX_FILES = 4096
"""Files of one part, and as many of which it says why they have no text."""
MAX_RUNS = 512
"""Commands of one part: two for each disk of a big server."""
MAX_APPS = 2048
"""Processes on GPUs in one part."""
MAX_TEXT = 1024 * 1024
"""Characters of files and outputs of one part."""

_MOST_NAMES = 4096
_known_names: set[str] = set()
"""Names of metrics that were looked at before and are plain: every line of every node has the same few."""
_NAME_LIMIT, _WORD_LIMIT, _NOTE_LIMIT, _PATH_LIMIT = 120, 64, 400, 512
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}", re.ASCII)
_LATEST = 1e11
"""Wall or monotonic seconds beyond this are not a time."""
_ERROR, _ABSENT, _UNSUPPORTED = (REASON_WORDS[reason] for reason in (Reason.ERROR, Reason.ABSENT, Reason.UNSUPPORTED))
_NUMBERS = {int, float}
_WORDS = frozenset(WIRE_REASONS)
_GROUP = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_RUN_STATUS = frozenset({"ok", "absent", "timeout", "hung"})


_MOST_SHARED = 16_384
"""Characters of lists of links that are remembered, ..."""
_SHARED_LISTS = 64
"""... and of how many nodes: links without errors look alike on every node of a kind."""

_Cell = (
    Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[float, msgspec.Meta(ge=-(2.0**63), le=2.0**63)]
    | Literal["waiting", "unsupported", "permission", "hung", "lost", "error", "absent"]
    | None
)
"""A number that fits 64 bits, a word of WIRE_REASONS, or null: what nearly every cell is, and then needs no look."""
_Row = dict[str, _Cell]
_Rows = dict[str, list[_Cell]]
_NO_LINKS = msgspec.Raw(b"{}")


class _Delta(wire.Delta, tag_field="t", tag="delta", gc=False, kw_only=True):
    node: _Row = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    gpu: _Rows = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    port: _Rows = msgspec.field(default_factory=dict)  # type: ignore[assignment]


class _Full(wire.Full, tag_field="t", tag="full", gc=False, kw_only=True):
    node: _Row = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    gpu: _Rows = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    port: _Rows = msgspec.field(default_factory=dict)  # type: ignore[assignment]


class _Part(wire.Part, tag_field="t", tag="part", gc=False, kw_only=True):
    """A part whose lists of links are not read yet."""

    gpu: _Rows = msgspec.field(default_factory=dict)  # type: ignore[assignment]
    links: msgspec.Raw = _NO_LINKS  # type: ignore[assignment]


_TYPED: dict[bytes, tuple[msgspec.json.Decoder[Any], type[Message]]] = {
    b'{"t":"delt': (msgspec.json.Decoder(_Delta), wire.Delta),
    b'{"t":"full': (msgspec.json.Decoder(_Full), wire.Full),
    b'{"t":"part': (msgspec.json.Decoder(_Part), wire.Part),
}
"""By how a line begins: what reads it when all of its cells are as they should be, and what it then is."""
_NONE = (None, None)
_BEGINNING = 10
_links_decoder = msgspec.json.Decoder(dict[str, list[list[wire.Cell]]])


class ParseError(ValueError):
    """A line that is not a message of a probe; says, in cleaned words, what is wrong with it."""


def parse(raw: bytes) -> Message:
    """Return the message on one line; raises ParseError, and nothing else, when it is not one."""
    if len(raw) > MAX_LINE:
        raise ParseError(f"a line of {len(raw):,} bytes")
    try:
        typed = _typed(raw)
        message = typed or (shstream.decode(raw) if raw[:1] == b"@" else wire.decode(raw))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ParseError(clean(str(error), 200)) from None
    if not (0 <= message.seq < 2**63 and 0 <= message.mono < _LATEST and 0 <= message.wall < _LATEST):
        raise ParseError("a sequence number or clock out of range")
    match message:
        case wire.Delta():
            _check_cells(message, is_typed=typed is not None)
            if message.notes is not None:
                message.notes = _notes(message.notes)
        case wire.Part():
            _check_part(message, is_typed=typed is not None)
        case wire.Full():
            _check_cells(message, is_typed=typed is not None)
            message.notes = _notes(message.notes)
            message.gpus = _gpus(message.gpus)
            message.ports = _ports(message.ports)
        case wire.Event():
            _check_event(message)
        case wire.Hello():
            _check_hello(message)
        case wire.Bye():
            message.why = clean(message.why, _NOTE_LIMIT)
    return message


def _typed(raw: bytes) -> wire.Delta | wire.Full | wire.Part | None:
    """Return a line whose cells are all numbers that fit, known words or null; None for any other line."""
    decoder, kind = _TYPED.get(raw[:_BEGINNING], _NONE)
    if decoder is None:
        return None
    try:
        message: Any = decoder.decode(raw)
        if kind is wire.Part:
            message.links = {} if message.links is _NO_LINKS else _links(bytes(message.links))
    except msgspec.MsgspecError:
        return None
    # It is the same struct with stricter fields: to make it anew would take a tenth of the time of its reading.
    message.__class__ = kind
    typed: wire.Delta | wire.Full | wire.Part = message
    return typed


def _links(raw: bytes) -> Links:
    return _shared_links(raw) if len(raw) <= _MOST_SHARED else _checked_links(_links_decoder.decode(raw))


@lru_cache(maxsize=_SHARED_LISTS)
def _shared_links(raw: bytes) -> Links:
    """Return the lists of links, the same for the same text: nobody changes them."""
    return _checked_links(_links_decoder.decode(raw))


def _checked_links(links: Links) -> Links:
    _check_names(links, "links")
    if any(len(rows) > MAX_GPUS for rows in links.values()):
        raise ParseError("values of too many GPUs")
    rows = list(chain.from_iterable(links.values()))
    if any(len(row) > MAX_LINKS for row in rows):
        raise ParseError("too many NVLinks of one GPU")
    if _check_numbers(list(chain.from_iterable(rows))):
        return {metric: [[_word(cell) for cell in row] for row in rows] for metric, rows in links.items()}
    return links


def _check_cells(message: wire.Full | wire.Delta, *, is_typed: bool) -> None:
    for name, part in (("node", message.node), ("gpu", message.gpu), ("port", message.port)):
        if part:
            _check_names(part, name)
    if is_typed:
        return
    if message.node:
        cells = list(message.node.values())
        if _check_numbers(cells):
            message.node = dict(zip(message.node, map(_word, cells), strict=True))
    for part in (message.gpu, message.port):
        if part and _check_numbers(list(chain.from_iterable(part.values()))):
            for metric, row in part.items():
                part[metric] = [_word(cell) for cell in row]


def _check_names(part: Mapping[str, object], name: str) -> None:
    if len(part) > MAX_METRICS:
        raise ParseError(f"{len(part):,} metrics of {name}")
    if _known_names.issuperset(part):
        return
    names = "".join(part)
    if not (is_plain(names) and len(names) <= len(part) * _WORD_LIMIT):
        raise ParseError(f"a metric name of {name} that is none")
    if len(_known_names) < _MOST_NAMES:
        _known_names.update(metric for metric in part if len(metric) <= _WORD_LIMIT)


def _check_numbers(cells: Sequence[Cell]) -> bool:
    """Refuse numbers beyond 64 bits; tell whether there are words among `cells`."""
    kinds = set(map(type, cells))
    numbers = cells if kinds <= _NUMBERS else [cell for cell in cells if cell.__class__ in _NUMBERS]
    if numbers and not (min(numbers) >= -(2**63) and max(numbers) < 2**64):  # type: ignore[type-var, operator]
        raise ParseError("a number beyond 64 bits")
    return str in kinds


def _word(cell: Cell) -> Cell:
    return _ERROR if isinstance(cell, str) and cell not in WIRE_REASONS else cell


def _notes(notes: dict[str, str]) -> dict[str, str]:
    if len(notes) > MAX_NOTES:
        raise ParseError(f"{len(notes):,} notes")
    return {clean(key, _WORD_LIMIT): clean(text, _NOTE_LIMIT) for key, text in notes.items()}


def _gpus(gpus: list[GpuIdentity]) -> list[GpuIdentity]:
    if len(gpus) > MAX_GPUS:
        raise ParseError(f"{len(gpus):,} GPUs")
    if len({gpu.index for gpu in gpus}) < len(gpus) or any(not 0 <= gpu.index < 1024 for gpu in gpus):
        raise ParseError("two GPUs with one index, or an index that is none")
    return [
        wire.GpuIdentity(gpu.index, _name(gpu.name), clean(gpu.uuid, _WORD_LIMIT), normal_pci(gpu.pci)) for gpu in gpus
    ]


def _ports(ports: list[PortIdentity]) -> list[PortIdentity]:
    if len(ports) > MAX_PORTS:
        raise ParseError(f"{len(ports):,} ports")
    checked = [_port(port) for port in ports]
    if len({(port.device, port.port) for port in ports}) < len(ports):
        raise ParseError("two ports with one name")
    return checked


@lru_cache(maxsize=4096)
def _port(port: PortIdentity) -> PortIdentity:
    """Return a port with its words cleaned, the same for the same one: nodes of one kind have the same ports."""
    if not _DEVICE.fullmatch(port.device) or not 0 < port.port < 256:
        raise ParseError("a port whose device is no name")
    layer, netdev = clean(port.layer, _WORD_LIMIT), clean(port.netdev, _WORD_LIMIT)
    return wire.PortIdentity(port.device, port.port, layer, normal_pci(port.pci), netdev)


@lru_cache(maxsize=1024)
def _name(text: str) -> str:
    """Return the name of a model cleaned, the same for the same text."""
    return clean(text, _NAME_LIMIT)


def _check_event(event: wire.Event) -> None:
    event.source = clean(event.source, _WORD_LIMIT)
    event.text = clean(event.text)
    if event.at is not None and not 0 <= event.at < _LATEST:
        event.at = None
    if event.level is not None and not 0 <= event.level <= 7:
        event.level = None


def _check_hello(hello: wire.Hello) -> None:
    if hello.schema != wire.SCHEMA:
        raise ParseError(f"speaks {clean(hello.schema, _WORD_LIMIT)}, not {wire.SCHEMA}")
    hello.host = clean(hello.host, _NAME_LIMIT)
    hello.kernel = clean(hello.kernel, _NAME_LIMIT)
    hello.python = clean(hello.python, _WORD_LIMIT)
    hello.boot_id = clean(hello.boot_id, _WORD_LIMIT)
    if not (0 <= hello.pid < 2**32 and 0 <= hello.tick_s < 86_400):
        raise ParseError("a process id or tick out of range")


def _check_part(part: wire.Part, *, is_typed: bool) -> None:
    if not (_GROUP.fullmatch(part.name) and 0 <= part.s <= 86_400):
        raise ParseError("a part whose name is none, or read at an impossible pace")
    if part.links and not is_typed:
        part.links = _checked_links(part.links)
    if part.files or part.ran:
        _check_texts(part)
    if part.failed:
        _check_count(part.failed, MAX_FILES, "files without text")
        part.failed = {clean(path, _PATH_LIMIT): _why(word) for path, word in part.failed.items()}
    if part.gpu:
        _check_gpus(part, is_typed=is_typed)
    if part.apps:
        _check_count(part.apps, MAX_APPS, "processes")
        part.apps = [_app(app) for app in part.apps]
    if part.words:
        _check_count(part.words, MAX_NOTES, "words")
        part.words = {clean(key, _WORD_LIMIT): _words(value) for key, value in part.words.items()}


def _check_count(named: Sized, limit: int, what: str) -> None:
    if len(named) > limit:
        raise ParseError(f"{len(named):,} {what} in one part")


def _check_texts(part: wire.Part) -> None:
    """Check the texts of files and outputs with their names; looked at as one they are clean at once."""
    _check_count(part.files, MAX_FILES, "files")
    _check_count(part.ran, MAX_RUNS, "commands")
    paths, texts = "".join(part.files), "".join(part.files.values())
    outputs = "".join([text for ran in part.ran.values() for text in (ran.out, ran.err)])
    if len(paths) + len(texts) + len(outputs) > MAX_TEXT:
        raise ParseError("more text in one part than any node has")
    if not is_plain_lines(texts):
        part.files = {path: _text(text) for path, text in part.files.items()}
    if not (is_plain(paths) and max(map(len, part.files), default=0) <= _PATH_LIMIT):
        part.files = {clean(path, _PATH_LIMIT): text for path, text in part.files.items()}
    if part.ran:
        is_clean = is_plain_lines(outputs)
        part.ran = {clean(name, _PATH_LIMIT): _ran(ran, is_clean=is_clean) for name, ran in part.ran.items()}


def _why(word: str) -> str:
    """Return the reason of a file without text; one that is not there is a value that the node does not have."""
    return _UNSUPPORTED if word == _ABSENT else word if word in WIRE_REASONS else _ERROR


def _text(text: str) -> str:
    """Return a text with its lines and columns, each cell cleaned; most texts are clean already."""
    if is_plain_lines(text):
        return text
    return "\n".join(
        "\t".join(clean(cell, MAX_TEXT) for cell in line.split("\t")) for line in text.replace("\r\n", "\n").split("\n")
    )


def _ran(ran: wire.Ran, *, is_clean: bool) -> wire.Ran:
    if not -(2**31) <= ran.exit < 2**31:
        raise ParseError("an exit status that is none")
    if is_clean and ran.status in _RUN_STATUS:
        return ran
    return wire.Ran(ran.status if ran.status in _RUN_STATUS else _ERROR, ran.exit, _text(ran.out), _text(ran.err))


def _check_gpus(part: wire.Part, *, is_typed: bool) -> None:
    _check_names(part.gpu, "gpu")
    if any(len(row) > MAX_GPUS for row in part.gpu.values()):
        raise ParseError("values of too many GPUs")
    if not is_typed and _check_numbers(list(chain.from_iterable(part.gpu.values()))):
        part.gpu = {metric: [_word(cell) for cell in row] for metric, row in part.gpu.items()}


def _app(app: list[Cell]) -> list[Cell]:
    """Return a process as [GPU, process id, MiB or None, kind], or refuse it."""
    if len(app) != 4:
        raise ParseError("a process that is none")
    gpu, pid, memory, kind = app
    if not (isinstance(gpu, int) and 0 <= gpu < 1024 and isinstance(pid, int) and 0 < pid < 2**32):
        raise ParseError("a process or its GPU that is none")
    if isinstance(memory, str) or (memory is not None and not 0 <= memory < 2**40):
        memory = None
    return [gpu, pid, memory, kind if kind in ("C", "G", "C+G") else ""]


def _words(value: str | list[str]) -> str | list[str]:
    if isinstance(value, str):
        return clean(value, _NAME_LIMIT)
    if len(value) > MAX_GPUS:
        raise ParseError("words of too many GPUs")
    return [clean(word, _NAME_LIMIT) for word in value]
