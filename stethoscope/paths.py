"""Where the program's own files are: bundled data, and the user's directories of configuration, state, data and cache
(XDG on every Unix)."""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path

_NAME = "stethoscope"


def bundled(kind: str) -> Path:
    """Return the directory of the data that came with the program: `playbooks` or `probes`."""
    here = Path(__file__).resolve().parent
    packaged = here / "_bundled" / kind
    return packaged if packaged.is_dir() else here.parent / kind


def _xdg(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    base = Path(value) if value.startswith("/") else Path.home() / default
    return base / _NAME


def config_dir() -> Path:
    """Return the directory of the user's configuration."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def state_dir() -> Path:
    """Return the directory of what the program remembers between runs."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def data_dir() -> Path:
    """Return the directory of what the user wrote with the program and keeps: incidents."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def cache_dir() -> Path:
    """Return the directory of what can be computed again."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def of_fleet(kind: str, fleet: str, suffix: str) -> Path:
    """Return where what is remembered of one fleet is kept in the state directory: `kind/NAME-HASH.suffix`."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", fleet)[:60].lstrip(".")
    # The name alone would be the same for `a/b` and `a_b`.
    return state_dir() / kind / f"{readable}-{zlib.crc32(fleet.encode('utf-8', 'surrogatepass')):08x}.{suffix}"


def is_there(path: Path) -> bool:
    """Tell whether there is something at `path`; a name that no file can have, or a directory that may not be looked
    into, has nothing for us."""
    # That of pathlib raises for both.
    return os.path.exists(path)


def is_directory(path: Path) -> bool:
    """Tell whether `path` is a directory that we can see, as `is_there`."""
    return os.path.isdir(path)


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step, readable by the user alone; missing directories get mode 0700."""
    import tempfile  # 4 ms that a start which only reads does not need

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
