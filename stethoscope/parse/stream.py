"""One raw line of a probe, or block of the one in sh, to one typed message: cleaned, bounded, and right or refused.

After `parse` no string holds a control character (but for the line feeds of a tool's output), every address is in
its normal form, every word in place of a number is one of model.metric.WIRE_REASONS, and every number fits 64 bits.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from stethoscope.model import wire
from stethoscope.model.metric import REASON_WORDS, WIRE_REASONS, Reason
from stethoscope.parse import shstream
from stethoscope.parse.pci import normal_pci
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.model.wire import Cell, GpuIdentity, Message, PortIdentity

MAX_LINE = 4 * 1024 * 1024
"""Bytes of one line."""
MAX_GPUS = 64
MAX_PORTS = 64
MAX_METRICS = 512
"""Metrics of one scope in one line."""
MAX_NOTES = 64
MAX_RESULT = 1024 * 1024
"""Characters of a tool's output."""

_NAME_LIMIT, _WORD_LIMIT, _NOTE_LIMIT = 120, 64, 400
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,47}", re.ASCII)
_LATEST = 1e11
"""Wall or monotonic seconds beyond this are not a time."""
_ERROR = REASON_WORDS[Reason.ERROR]
_NUMBERS = {int, float}


class ParseError(ValueError):
    """A line that is not a message of a probe; says, in cleaned words, what is wrong with it."""


def parse(raw: bytes) -> Message:
    """Return the message on one line; raises ParseError, and nothing else, when it is not one."""
    if len(raw) > MAX_LINE:
        raise ParseError(f"a line of {len(raw):,} bytes")
    try:
        message = shstream.decode(raw) if raw[:1] == b"@" else wire.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ParseError(clean(str(error), 200)) from None
    if not (0 <= message.seq < 2**63 and 0 <= message.mono < _LATEST and 0 <= message.wall < _LATEST):
        raise ParseError("a sequence number or clock out of range")
    match message:
        case wire.Delta():
            _check_cells(message)
            if message.notes is not None:
                message.notes = _notes(message.notes)
        case wire.Full():
            _check_cells(message)
            message.notes = _notes(message.notes)
            message.gpus = _gpus(message.gpus)
            message.ports = _ports(message.ports)
        case wire.Event():
            _check_event(message)
        case wire.Hello():
            _check_hello(message)
        case wire.Result():
            _check_result(message)
        case wire.Bye():
            message.why = clean(message.why, _NOTE_LIMIT)
    return message


def _check_cells(message: wire.Full | wire.Delta) -> None:
    for name, part in (("node", message.node), ("gpu", message.gpu), ("port", message.port)):
        if not part:
            continue
        if len(part) > MAX_METRICS:
            raise ParseError(f"{len(part):,} metrics of {name}")
        names = "".join(part)
        if not (names.isascii() and names.isprintable() and len(names) <= len(part) * _WORD_LIMIT):
            raise ParseError(f"a metric name of {name} that is none")
    if message.node:
        cells = list(message.node.values())
        if _check_numbers(cells):
            message.node = dict(zip(message.node, map(_word, cells), strict=True))
    for part in (message.gpu, message.port):
        if part and _check_numbers(list(chain.from_iterable(part.values()))):
            for metric, row in part.items():
                part[metric] = [_word(cell) for cell in row]


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
        wire.GpuIdentity(gpu.index, clean(gpu.name, _NAME_LIMIT), clean(gpu.uuid, _WORD_LIMIT), normal_pci(gpu.pci))
        for gpu in gpus
    ]


def _ports(ports: list[PortIdentity]) -> list[PortIdentity]:
    if len(ports) > MAX_PORTS:
        raise ParseError(f"{len(ports):,} ports")
    if any(not _DEVICE.fullmatch(port.device) or not 0 < port.port < 256 for port in ports):
        raise ParseError("a port whose device is no name")
    if len({(port.device, port.port) for port in ports}) < len(ports):
        raise ParseError("two ports with one name")
    return [
        wire.PortIdentity(
            port.device,
            port.port,
            clean(port.layer, _WORD_LIMIT),
            normal_pci(port.pci),
            clean(port.netdev, _WORD_LIMIT),
        )
        for port in ports
    ]


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


def _check_result(result: wire.Result) -> None:
    result.probe = clean(result.probe, _WORD_LIMIT)
    result.status = clean(result.status, _WORD_LIMIT)
    lines = result.text[:MAX_RESULT].split("\n")
    result.text = "\n".join(clean(line) for line in lines)[:MAX_RESULT]
    if not (-(2**63) <= result.id < 2**63) or (result.exit is not None and not -(2**31) <= result.exit < 2**31):
        raise ParseError("a result number out of range")
