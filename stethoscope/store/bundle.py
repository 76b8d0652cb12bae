"""A bundle: what was known when a verdict was given, in one file to keep and to send.

A tar whose members are zstd frames, so that `tar` and `zstd` alone open it. The last member is the manifest: one JSON
line for each other member, in their order, each with the checksum of its content and with one over all lines before it,
so that lines can be added behind and none can be changed or taken out unseen.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from stethoscope.errors import DataError
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = "stethoscope.bundle/1"
SUFFIX = ".bundle"
MANIFEST = "manifest.jsonl"
LARGEST = 2 * 1024**3
"""Bytes of one member, unpacked, that a reader takes ..."""
LARGEST_TEXT = 64 * 1024**2
"""... and of one that is read into memory."""
_MOST = 200
"""Members."""
_LEVEL = 3
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle: its name, what it is, and its content or where that is."""

    name: str
    about: str
    content: bytes | Path


@dataclass(frozen=True, slots=True)
class Listed:
    """A member as the manifest has it."""

    name: str
    about: str
    size: int
    sha256: str


def write_bundle(path: Path, head: Mapping[str, Any], members: Iterable[Member]) -> int:
    """Write a bundle for the user alone, all of it or nothing, and return its bytes.

    `head` is what the manifest says first. FileExistsError when there is something at `path`, OSError when it cannot be
    written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            lines: list[str] = []
            _append_line(lines, {"schema": SCHEMA, **head})
            for member in members:
                size, digest = _put(tar, member.name, member.content)
                line = {"name": member.name, "about": member.about, "size": size, "sha256": digest}
                _append_line(lines, line)
            _put(tar, MANIFEST, "".join(lines).encode())
        _name(temporary, path)
        return path.stat().st_size
    finally:
        Path(temporary).unlink(missing_ok=True)


def _name(temporary: str, path: Path) -> None:
    """Give a file its name, over nothing that is there."""
    try:
        # Unlike a rename, a link does not write over what somebody has put there meanwhile.
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        # A file system without hard links.
        if path.exists():
            raise FileExistsError(17, "there is a file of this name") from error
        Path(temporary).rename(path)


def _append_line(lines: list[str], said: Mapping[str, Any]) -> None:
    chain = hashlib.sha256("".join(lines).encode()).hexdigest()
    lines.append(json.dumps({**said, "before": chain}, ensure_ascii=True) + "\n")


def _put(tar: tarfile.TarFile, name: str, content: bytes | Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    with tempfile.TemporaryFile() as packed:
        with (
            content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as source,
            zstandard.ZstdCompressor(level=_LEVEL).stream_writer(packed, closefd=False) as out,
        ):
            while piece := source.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                out.write(piece)
        about = tarfile.TarInfo(f"{name}.zst")
        about.mode, about.size = 0o600, packed.tell()
        packed.seek(0)
        tar.addfile(about, packed)
    return size, digest.hexdigest()


def is_bundle(path: Path) -> bool:
    """Tell whether a file looks like a bundle, and not like anything else that can be opened."""
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return False
    return head[257:262] == b"ustar"


class Bundle:
    """A bundle that was opened: what it says of itself, and its members, checked when they are read."""

    def __init__(self, path: Path) -> None:
        """Open `path`; DataError when it is no bundle, or its manifest was changed."""
        self.path = path
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115  closed by `close`
            self._files = {info.name: info for info in self._tar.getmembers()[: _MOST + 1] if info.isreg()}
        except OSError as error:
            raise DataError(error.strerror or "cannot be read", where=str(path)) from None
        except tarfile.TarError:
            raise DataError("this is no bundle", where=str(path)) from None
        self.head, self.members = self._manifest()

    def close(self) -> None:
        """Let go of the file."""
        self._tar.close()

    def _manifest(self) -> tuple[dict[str, Any], dict[str, Listed]]:
        text = self._unpacked(MANIFEST, LARGEST_TEXT)
        lines = text.decode("utf-8", "replace").splitlines(keepends=True)
        said: list[dict[str, Any]] = []
        for number, line in enumerate(lines):
            try:
                one = json.loads(line)
            except (ValueError, RecursionError):
                one = None
            before = hashlib.sha256("".join(lines[:number]).encode()).hexdigest()
            if not isinstance(one, dict) or one.get("before") != before:
                raise DataError(f"line {number + 1} of the manifest was changed", where=str(self.path))
            said.append(one)
        if not said or said[0].get("schema") != SCHEMA:
            raise DataError("this is no bundle", where=str(self.path))
        listed: dict[str, Listed] = {}
        for one in said[1:]:
            name, about, size, digest = (one.get(key) for key in ("name", "about", "size", "sha256"))
            if isinstance(name, str) and isinstance(size, int) and isinstance(digest, str):
                listed[name] = Listed(clean(name, 200), clean(str(about), 400), size, digest)
        return said[0], listed

    def read(self, name: str) -> bytes:
        """Return the content of a member; DataError when there is none, or it is not what the manifest says."""
        content = self._unpacked(name, LARGEST_TEXT)
        self._check(name, hashlib.sha256(content).hexdigest())
        return content

    def extract(self, name: str, to: Path) -> None:
        """Write the content of a member into a new file of the user alone; DataError as `read`."""
        digest, size = hashlib.sha256(), 0
        with self._packed(name) as packed, to.open("xb") as out:
            to.chmod(0o600)
            try:
                with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as reader:
                    while piece := reader.read(_PIECE):
                        size += len(piece)
                        if size > LARGEST:
                            raise DataError(f"{name} is larger than {LARGEST:,} bytes", where=str(self.path))
                        digest.update(piece)
                        out.write(piece)
            except zstandard.ZstdError:
                raise DataError(f"{name} is damaged", where=str(self.path)) from None
        self._check(name, digest.hexdigest())

    def _check(self, name: str, digest: str) -> None:
        listed = self.members.get(name)
        if listed is None or listed.sha256 != digest:
            raise DataError(f"{name} is not what the manifest says", where=str(self.path))

    def _packed(self, name: str) -> IO[bytes]:
        info = self._files.get(f"{name}.zst")
        file = self._tar.extractfile(info) if info is not None else None
        if file is None:
            raise DataError(f"this bundle has no {name}", where=str(self.path))
        return file

    def _unpacked(self, name: str, most: int) -> bytes:
        with self._packed(name) as packed:
            try:
                with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed) as reader:
                    content = reader.read(most + 1)
            except (zstandard.ZstdError, tarfile.TarError):
                raise DataError(f"{name} is damaged", where=str(self.path)) from None
        if len(content) > most:
            raise DataError(f"{name} is larger than {most:,} bytes", where=str(self.path))
        return content


def unpack_directory() -> Path:
    """Return a new directory of the user alone, for what a bundle holds while it is looked at."""
    return Path(tempfile.mkdtemp(prefix="stethoscope-bundle-"))


def remove_directory(path: Path) -> None:
    """Remove it again."""
    shutil.rmtree(path, ignore_errors=True)
