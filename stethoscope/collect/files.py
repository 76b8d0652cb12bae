"""Opens logs: plain, gzip, zstd, xz, bzip2 by their content, named one by one, by a pattern, by a directory, or on the
standard input; read in blocks, so that a file may be larger than the memory."""

from __future__ import annotations

import codecs
import glob
import os
import re
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK = 1024 * 1024
"""Most bytes that are handed on at once."""
STDIN = "-"
_SAMPLE = 64 * 1024
_RAW = 256 * 1024
_MOST_FILES = 20_000
_PICKLE = "a pickle; the dumps of a flight recorder are read with --flight-recorder DIR"
_MAGIC = (
    (b"\x7fELF", "a program"), (b"\x89PNG", "a picture"), (b"PK\x03\x04", "a zip archive"), (b"%PDF", "a PDF"),
    (b"SQLite format 3", "a database"), (b"\x80\x02", _PICKLE), (b"\x80\x03", _PICKLE), (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE), (b"LPKSHHRH", "a binary journal: read it with journalctl --file"),
)  # fmt: skip
_TAR_AT = 257
_ROTATED = re.compile(r"(.+)\.(\d{1,3})(?:\.(?:gz|zst|xz|bz2))?")
_CONTROL = bytes(n for n in range(32) if n not in (7, 8, 9, 10, 12, 13, 27)) + b"\x7f"
_MOST_CONTROL = 0.1


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log that can be read; `path` is None for the standard input."""

    name: str
    path: str | None
    size: int = 0
    modified_at: float | None = None


def find_logs(names: Sequence[str]) -> list[LogSource]:
    """Return the logs that `names` (files, patterns, directories, `-`) stand for, each once, in their order.

    Directories give every plain file below them but hidden ones. Raises DataError for a name that is nothing.
    """
    found: dict[str, LogSource] = {}
    for name in names:
        if name == STDIN:
            found[STDIN] = LogSource("stdin", None)
            continue
        paths = [name] if os.path.lexists(name) else in_turn(glob.glob(name, recursive=True))
        if not paths:
            raise DataError(
                f"{name}: no such file" if not glob.has_magic(name) else f"{name}: no file fits this pattern"
            )
        for path in paths:
            for one in _below(path) if os.path.isdir(path) else [path]:
                found.setdefault(one, _source(one))
                if len(found) > _MOST_FILES:
                    raise DataError(f"{name}: more than {_MOST_FILES:,} files; name the ones that matter")
    return list(found.values())


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return what sorts `rank2.log` before `rank10.log`."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def in_turn(names: Sequence[str]) -> list[str]:
    """Return names in the order in which they are read: numbers as such, and what was rotated away, the oldest first,
    before the file that goes on."""
    known = set(names)

    def turn(name: str) -> tuple[tuple[tuple[int, int, str], ...], int]:
        match = _ROTATED.fullmatch(name)
        is_rotated = match is not None and match[1] in known
        return (natural(match[1]), -int(match[2])) if match is not None and is_rotated else (natural(name), 0)

    return sorted(names, key=turn)


def _below(directory: str) -> list[str]:
    found: list[str] = []
    for where, directories, files in os.walk(directory):
        directories[:] = sorted((d for d in directories if not d.startswith(".")), key=natural)
        for file in in_turn(files):
            path = os.path.join(where, file)
            # A link that leads nowhere is told as what cannot be read; pipes and sockets are not looked into unasked.
            if not file.startswith(".") and (os.path.isfile(path) or not os.path.exists(path)):
                found.append(path)
        if len(found) > _MOST_FILES:
            break
    return found


def _source(path: str) -> LogSource:
    try:
        status = os.stat(path)
    except OSError as error:
        if os.path.islink(path):
            return LogSource(path, path)
        raise DataError(f"{path}: {error.strerror}") from error
    regular = stat.S_ISREG(status.st_mode)
    return LogSource(path, path, status.st_size if regular else 0, status.st_mtime if regular else None)


class LogReader:
    """One log on its way through the decompressor; `trouble` says afterwards why it ended early."""

    def __init__(self, source: LogSource) -> None:
        """Nothing is opened before `blocks`."""
        self.source = source
        self.trouble = ""
        self.is_refused = False
        """It is no text: nothing of it was handed on."""
        self.raw_bytes = 0
        """Bytes taken from the file, compressed or not."""

    def blocks(self) -> Iterator[bytes]:
        """Yield what the log holds, decompressed, at most `BLOCK` bytes at a time; never raises for what it holds."""
        try:
            with _open(self.source) as descriptor:
                yield from self._text(self._decompressed(descriptor.fileno()))
        except OSError as error:
            self.trouble = error.strerror or str(error)

    def _text(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        sample = b""
        for block in blocks:
            sample += block
            if len(sample) >= _SAMPLE or self.source.path is None:
                break
        if not sample:
            return
        what = binary(sample)
        if what:
            self.is_refused, self.trouble = True, f"not a text: {what}"
            return
        coding = _wide(sample)
        if not coding:
            yield sample
            del sample
            yield from blocks
            return
        decoder = codecs.getincrementaldecoder(coding)("replace")
        yield decoder.decode(sample).encode("utf-8", "replace")
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "replace")

    def _decompressed(self, descriptor: int) -> Iterator[bytes]:
        head = self._read(descriptor, _RAW)
        kind = compression(head)
        if kind == "":
            yield head
            while data := self._read(descriptor, BLOCK):
                yield data
        elif kind == "zstd":
            yield from self._zstd(descriptor, head)
        else:
            yield from self._standard(descriptor, head, kind)

    def _read(self, descriptor: int, size: int) -> bytes:
        data = os.read(descriptor, size)
        self.raw_bytes += len(data)
        return data

    def _standard(self, descriptor: int, data: bytes, kind: str) -> Iterator[bytes]:
        decoder, is_begun = _decoder(kind), False
        broken: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, *_errors(kind))
        while True:
            try:
                found = decoder.decompress(data, BLOCK)
            except broken as error:
                self.trouble = f"broken {kind} data: {error}" if is_begun else f"not {kind} data: {error}"
                return
            if found:
                is_begun = True
                yield found
            if decoder.eof:
                data = (decoder.unused_data or self._read(descriptor, _RAW)).lstrip(b"\0")
                if not data or not data.startswith(_MAGIC_OF[kind]):
                    return
                decoder = _decoder(kind)
                continue
            data = _left(decoder)
            if not data and not (found and len(found) >= BLOCK):
                data = self._read(descriptor, _RAW)
                if not data:
                    self.trouble = f"the {kind} data end in the middle"
                    return

    def _zstd(self, descriptor: int, data: bytes) -> Iterator[bytes]:
        import zstandard

        decoder: Any = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
        # A few bytes can stand for very many: what is given at once depends on what came of it last.
        step, at = 512, 0
        while True:
            if at >= len(data):
                data, at = self._read(descriptor, _RAW), 0
                if not data:
                    if not decoder.eof:
                        self.trouble = "the zstd data end in the middle"
                    return
            if decoder.eof:
                if not data[at:].startswith(_MAGIC_OF["zstd"]) and len(data) - at >= 4:
                    return
                decoder = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
            piece = data[at : at + step]
            try:
                found = decoder.decompress(piece)
            except zstandard.ZstdError as error:
                self.trouble = f"broken zstd data: {error}"
                return
            at += len(piece)
            if decoder.eof:
                at -= len(decoder.unused_data or b"")
            step = min(step * 2, _RAW) if len(found) < BLOCK // 4 else max(step // 4, 64)
            for begin in range(0, len(found), BLOCK):
                yield found[begin : begin + BLOCK]


def _open(source: LogSource) -> Any:
    if source.path is None:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    mode = os.stat(source.path).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(0, "a directory")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        raise OSError(0, "neither a file nor a pipe")
    if stat.S_ISCHR(mode) and not os.path.realpath(source.path).startswith(("/dev/pts/", "/dev/tty", "/dev/null")):
        raise OSError(0, "a device, not a log")
    return open(source.path, "rb", buffering=0)


_MAGIC_OF = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "xz": b"\xfd7zXZ\x00", "bzip2": b"BZh"}


def compression(head: bytes) -> str:
    """Return how a file that begins with `head` is compressed, "" for not at all."""
    return next((kind for kind, magic in _MAGIC_OF.items() if head.startswith(magic)), "")


def _errors(kind: str) -> tuple[type[Exception], ...]:
    if kind == "gzip":
        import zlib

        return (zlib.error,)
    if kind == "xz":
        import lzma

        return (lzma.LZMAError,)
    return ()


def _decoder(kind: str) -> Any:
    if kind == "gzip":
        import zlib

        return zlib.decompressobj(31)
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(memlimit=512 * 1024 * 1024)
    import bz2

    return bz2.BZ2Decompressor()


def _left(decoder: Any) -> bytes:
    """Return input that was given and not used yet: zlib hands it back, the others keep it."""
    return getattr(decoder, "unconsumed_tail", b"")


def _wide(sample: bytes) -> str:
    if sample.startswith(codecs.BOM_UTF16_LE):
        return "utf-16"
    if sample.startswith(codecs.BOM_UTF16_BE):
        return "utf-16"
    return ""


def binary(sample: bytes) -> str:
    """Return what `sample`, the first bytes of a file, is when it is no text, else ""."""
    if _wide(sample):
        return ""
    for magic, what in _MAGIC:
        if sample.startswith(magic):
            return what
    if sample[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "a tar archive; unpack it first"
    sample = sample[:_SAMPLE]
    # Zeros are what a crash leaves of the lines that were not written yet.
    text = sample.strip(b"\0")
    if not text:
        return "nothing but zeros"
    control = len(text) - len(text.translate(None, _CONTROL))
    return "binary data" if control > _MOST_CONTROL * len(text) else ""
