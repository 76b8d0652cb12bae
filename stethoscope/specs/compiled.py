"""Compiled data files: what was read and checked once is kept as JSON; nothing parses YAML when nothing changed.

The key of a compiled form is the content of its sources and of the modules that read them. It is looked for beside the
bundled files first (they come compiled), then in the cache directory, which is the user's alone. A file that is broken
or cut off is made anew.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

try:
    # What hashlib has too, without OpenSSL, which takes 5 ms to load.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from stethoscope.errors import DataError
from stethoscope.paths import bundled, cache_dir, config_dir, is_there, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

DIRECTORY = "compiled"
KEPT = 6
"""Compiled forms of one kind in the cache directory: older ones are removed."""

_MAGIC = b"stethoscope.compiled/1 "
_DIGEST = 16


def playbook_files(pattern: str, *directories: Path) -> list[Path]:
    """Return the files `pattern` (`signatures/*.yaml`) of each playbook directory, the nearest directory first:
    `directories`, the user's configuration, the bundled ones."""
    found: list[Path] = []
    for directory in (*directories, config_dir() / "playbooks", bundled("playbooks")):
        if is_there(directory):
            found += sorted(directory.glob(pattern))
    return found


def cached(
    kind: str, sources: Sequence[Path], readers: Iterable[str], build: Callable[[], Any], place: str = ""
) -> Any:
    """Return what `build` makes of `sources`, a JSON value, from its compiled form where that is up to date.

    `readers` are the modules that `build` uses: another version of them compiles anew, as does another `place`, which
    is what `build` uses beside them. Raises what `build` raises.
    """
    key = _key(kind + place, sources, readers)
    name = f"{kind}-{key}.json"
    for directory in (bundled("playbooks") / DIRECTORY, cache_dir() / DIRECTORY):
        value = read(directory / name)
        if value is not None:
            return value
    value = build()
    # A full disk or a home that cannot be written costs time at the next start, no more. What was edited meanwhile is
    # not kept under the name of what it was.
    with suppress(OSError, DataError):
        if _key(kind + place, sources, readers) == key:
            write(cache_dir() / DIRECTORY / name, value)
            _tidy(cache_dir() / DIRECTORY, kind)
    return value


def write(path: Path, value: Any) -> None:
    """Keep `value` at `path` in one step, for the user alone."""
    payload = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    write_private(path, _MAGIC + _digest(payload) + b"\n" + payload)


def read(path: Path) -> Any:
    """Return what is kept at `path`; None where nothing is, or not all of it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, _, payload = content.partition(b"\n")
    if head != _MAGIC + _digest(payload):
        return None
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST).hexdigest().encode()


def _key(kind: str, sources: Sequence[Path], readers: Iterable[str]) -> str:
    total = blake2b(kind.encode(), digest_size=_DIGEST)
    for name in readers:
        total.update(_code(name))
    for path in sources:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(error.strerror or "cannot be read", where=str(path)) from error
        # The name is part of it: of two files with one id the nearer one counts, and errors name files.
        total.update(f"\0{path.name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def _code(name: str) -> bytes:
    """Return what stands for the version of a module: its source, or its name where there is none."""
    from importlib.util import find_spec
    from pathlib import Path

    module = sys.modules.get(name)
    spec = module.__spec__ if module is not None else find_spec(name)
    if spec is None or spec.origin is None:
        return name.encode()
    try:
        return Path(spec.origin).read_bytes()
    except OSError:
        return name.encode()


def _tidy(directory: Path, kind: str) -> None:
    files = sorted(directory.glob(f"{kind}-*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[KEPT:]:
        path.unlink(missing_ok=True)
