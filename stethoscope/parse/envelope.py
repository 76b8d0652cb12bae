"""Logs whose lines are JSON objects (the journal's, Docker's, those of log shippers) or come in parts (containerd's):
the text inside, with what the object says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stethoscope.parse.journal import Entries, Form, fields_of, form_of
from stethoscope.parse.prefix_forms import DAEMONS, ISO_STAMP
from stethoscope.parse.prefix_said import Outer
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.parse.logtime import Calendar

LONGEST_OBJECT = 1024 * 1024
_MOST_PARTS = 1024 * 1024
_NAME_LIMIT = 253
_CRI = (b" stdout P ", b" stderr P ", b" stdout F ", b" stderr F ")
_SEPARATOR = b"\x1e"
"""In front of each object of `journalctl -o json-seq`."""
_FRAME = b"data: {"
"""Of `journalctl -o json-sse`."""
_OF_KERNEL = ("NVRM: ", "SXid (")
_CRI_FIRST = 64
"""How far the mark of containerd can be from the start of its line."""


class _Object(msgspec.Struct, gc=False):
    """What is read of an object; everything else in it is skipped."""

    message: Any = msgspec.field(default=None, name="MESSAGE")
    realtime: Any = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")
    source_realtime: Any = msgspec.field(default=None, name="_SOURCE_REALTIME_TIMESTAMP")
    source_monotonic: Any = msgspec.field(default=None, name="_SOURCE_MONOTONIC_TIMESTAMP")
    boot: Any = msgspec.field(default=None, name="_BOOT_ID")
    host: Any = msgspec.field(default=None, name="_HOSTNAME")
    transport: Any = msgspec.field(default=None, name="_TRANSPORT")
    ident: Any = msgspec.field(default=None, name="SYSLOG_IDENTIFIER")
    pid: Any = msgspec.field(default=None, name="_PID")
    log: Any = None
    line: Any = None
    msg: Any = None
    other_message: Any = msgspec.field(default=None, name="message")
    stream: Any = None
    time: Any = None
    ts: Any = None
    timestamp: Any = None
    at_timestamp: Any = msgspec.field(default=None, name="@timestamp")
    hostname: Any = None
    kubernetes: Any = None


class Inner(NamedTuple):
    """A line that was inside something."""

    text: bytes
    number: int
    """Line of the file that it began on."""
    outer: Outer | None


class Unwrapper:
    """Takes the lines of one file out of what they are wrapped in."""

    def __init__(self, calendar: Calendar, form: Form | None = None) -> None:
        """Times without a zone are read as `calendar` does; `form` is that of entries of several lines."""
        self._calendar = calendar
        self._entries = Entries(form) if form is not None else None
        self._decoder = msgspec.json.Decoder(_Object)
        self._parts: dict[bytes, tuple[list[bytes], int, Outer | None]] = {}

    def lines(self, data: bytes, first: int) -> Iterator[Inner]:
        """Yield the lines inside `data`, which begins with line `first` of the file."""
        if self._entries is not None:
            # What follows the last line feed is no line.
            for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), first):
                for entry, began in self._entries.take(raw, number):
                    yield from self._entry(entry, began)
            return
        for number, raw in enumerate(data.split(b"\n"), first):
            if raw[:1] == b"{" or raw[:7] == _FRAME or raw[:1] == _SEPARATOR:
                yield from self._object(raw.removeprefix(b"data: ").removeprefix(_SEPARATOR), number)
            elif raw:
                yield from self._container(raw, number)

    def rest(self) -> Iterator[Inner]:
        """Yield the lines whose last part never came."""
        if self._entries is not None:
            for entry, began in self._entries.rest():
                yield from self._entry(entry, began)
        for stream in list(self._parts):
            parts, number, outer = self._parts.pop(stream)
            yield Inner(b"".join(parts), number, outer)

    def read(self, raw: bytes) -> tuple[bytes, Outer, bool] | None:
        """Return what an object holds: the text, what is said of it, whether it goes on in the next one."""
        if len(raw) > LONGEST_OBJECT:
            return None
        try:
            found = self._decoder.decode(raw)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            return None
        if found.message is not None or found.realtime is not None:
            return self._journal(found)
        if isinstance(found.log, str):
            outer = Outer(at=self._time(found.time), host=_name(found.hostname), pod=_pod(found.kubernetes))
            # Docker cuts at 16 KiB; what is no end of a line goes on.
            is_part = isinstance(found.stream, str) and not found.log.endswith("\n")
            return found.log.encode("utf-8", "replace"), outer, is_part
        said: tuple[Any, ...] = (found.other_message, found.msg, found.line)
        if isinstance(found.line, str) and any(mark in found.line for mark in _OF_KERNEL):
            # An agent says in its message what it makes of a line of the kernel, and gives the line beside it.
            said = (found.line,)
        for text in said:
            if isinstance(text, str):
                stamps = (found.at_timestamp, found.timestamp, found.time, found.ts)
                at = next((at for stamp in stamps if (at := self._time(stamp)) is not None), None)
                return (
                    text.encode("utf-8", "replace"),
                    Outer(at, _name(found.hostname), pod=_pod(found.kubernetes)),
                    False,
                )
        return None

    def _entry(self, lines: list[bytes], number: int) -> Iterator[Inner]:
        if self._entries is not None and self._entries.form == "pretty":
            yield from self._object(b"\n".join(lines).removesuffix(b","), number)
            return
        try:
            found = msgspec.convert(fields_of(lines), _Object)
        except (msgspec.ValidationError, ValueError):
            return
        text, outer, _ = self._journal(found)
        for line in text.split(b"\n"):
            if line:
                yield Inner(line, number, outer)

    def _object(self, raw: bytes, number: int) -> Iterator[Inner]:
        read = self.read(raw)
        if read is None:
            yield Inner(raw, number, None)
            return
        text, outer, is_part = read
        stream = b"{"
        parts, began, first = self._parts.pop(stream, ([], number, outer))
        parts.append(text)
        if is_part and sum(map(len, parts)) < _MOST_PARTS:
            self._parts[stream] = (parts, began, first)
            return
        for line in b"".join(parts).split(b"\n"):
            if line:
                yield Inner(line, began, first)

    def _container(self, raw: bytes, number: int) -> Iterator[Inner]:
        mark = next((at for word in _CRI if (at := raw.find(word, 0, _CRI_FIRST)) > 0), -1)
        # Only a stamp stands before it: somewhere in a line it is what a program says.
        if mark < 0 or b" " in raw[:mark]:
            yield Inner(raw, number, None)
            return
        stream, is_part = raw[mark : mark + 7], raw[mark + 8 : mark + 9] == b"P"
        if stream not in self._parts and not is_part:
            yield Inner(raw, number, None)
            return
        # The first part keeps its stamp, the others only go on.
        parts, began, outer = self._parts.pop(stream, ([], number, None))
        parts.append(raw[mark + 10 :] if parts else raw[: mark + 8] + b"F" + raw[mark + 9 :])
        if is_part and sum(map(len, parts)) < _MOST_PARTS:
            self._parts[stream] = (parts, began, outer)
        else:
            yield Inner(b"".join(parts), began, outer)

    def _journal(self, found: _Object) -> tuple[bytes, Outer, bool]:
        at = _micros(_first(found.source_realtime)) or _micros(_first(found.realtime))
        pid = _first(found.pid)
        is_kernel = _first(found.transport) == "kernel"
        outer = Outer(
            at=at,
            host=_name(_first(found.host)),
            uptime_s=_micros(_first(found.source_monotonic)) if is_kernel else None,
            pid=int(pid) if isinstance(pid, str) and pid.isdecimal() and len(pid) < 10 and not is_kernel else None,
            boot=str(_first(found.boot)) if found.boot is not None else None,
        )
        text = _bytes(found.message)
        ident = _first(found.ident)
        if isinstance(ident, str) and not is_kernel and ident != "kernel" and DAEMONS.match(ident):
            text = ident.encode("utf-8", "replace") + b": " + text
        return text, outer, False

    def _time(self, stamp: object) -> float | None:
        if isinstance(stamp, bool):
            return None
        if isinstance(stamp, (int, float)):
            for unit in (1e9, 1e6, 1e3, 1.0):
                if 5e8 <= stamp / unit < 7.2e9:
                    return stamp / unit
            return None
        match = ISO_STAMP.match(stamp) if isinstance(stamp, str) else None
        if match is None:
            return None
        year, month, day = int(match["by"]), int(match["bm"]), int(match["bd"])
        zone = match["bz"]
        return self._calendar.at(year, month, day, match["bt"], match["bf"], zone.strip() if zone else None)


def unwrapper_of(data: bytes, calendar: Calendar, *, is_in_parts: bool) -> Unwrapper | None:
    """Return what takes the lines of a file out of what they are wrapped in, as its first block `data` shows; None
    when they are not."""
    form = form_of(data)
    if form is None and not is_in_parts and not is_wrapped(data, calendar):
        return None
    return Unwrapper(calendar, form)


def is_wrapped(data: bytes, calendar: Calendar) -> bool:
    """Tell whether the lines of a block are inside something: judged by its first lines that look so."""
    if data[:1] == _SEPARATOR or data[:7] == _FRAME:
        data = data.replace(b"\ndata: ", b"\n").replace(b"\n" + _SEPARATOR, b"\n")
        data = data.removeprefix(b"data: ").removeprefix(_SEPARATOR)
    unwrapper = Unwrapper(calendar)
    at = tries = 0
    while tries < 8:
        if data[at : at + 1] == b"{":
            end = data.find(b"\n", at)
            if unwrapper.read(data[at : end if end >= 0 else len(data)]) is not None:
                return True
            tries += 1
        at = data.find(b"\n{", at) + 1
        if at <= 0:
            break
    return False


def _first(value: object) -> object:
    """Return the value of a field of the journal, the first one when it has several."""
    return value[0] if isinstance(value, list) and value and not isinstance(value[0], int) else value


def _bytes(message: object) -> bytes:
    """Return a MESSAGE: a text, or an array of byte numbers when it holds anything strange; several: the first."""
    if isinstance(message, str):
        return message.encode("utf-8", "replace")
    if isinstance(message, list):
        if message and isinstance(message[0], (str, list)):
            inner = message[0]
            return inner.encode("utf-8", "replace") if isinstance(inner, str) else _numbers(inner)
        return _numbers(message)
    return b""


def _numbers(values: list[object]) -> bytes:
    return bytes(n if isinstance(n, int) and 0 <= n < 256 else 63 for n in values)


def _micros(value: object) -> float | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value) / 1e6
    return value / 1e6 if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _name(value: object) -> str | None:
    return clean(value, _NAME_LIMIT) or None if isinstance(value, str) else None


def _pod(kubernetes: object) -> str | None:
    if not isinstance(kubernetes, dict):
        return None
    return _name(kubernetes.get("pod_name") or kubernetes.get("pod"))
