"""The debug log (`--debug`) and the report of a crash: files for the user alone, without secrets."""

from __future__ import annotations

import logging
import os
import platform
import sys
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from stethoscope import __version__
from stethoscope.paths import state_dir, write_private
from stethoscope.redact import redact

if TYPE_CHECKING:
    from pathlib import Path

LOG_BYTES = 5 * 1024 * 1024
LOG_FILES = 3
REPORTS = 20
"""Crash reports that are kept."""
_PACKAGES = ("textual", "rich", "asyncssh", "nvidia-ml-py", "psutil", "PyYAML", "msgspec", "numpy", "ClusterShell",
             "zstandard", "click")  # fmt: skip

_log = logging.getLogger("stethoscope")


class _WithoutSecrets(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return one record, however many lines it has, without secrets."""
        return redact(super().format(record))


def log_path() -> Path:
    """Return where the debug log is."""
    return state_dir() / "logs" / "debug.log"


def start_log() -> Path:
    """Write everything that is logged into the debug log, of at most LOG_FILES files of LOG_BYTES, and return its
    path; raises OSError when it cannot be written."""
    from logging.handlers import RotatingFileHandler

    path = log_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)
    former = os.umask(0o077)
    try:
        handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES - 1, encoding="utf-8")
    finally:
        os.umask(former)
    formatter = _WithoutSecrets("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    _log.setLevel(logging.DEBUG)
    _log.info("stethoscope %s, Python %s on %s", __version__, platform.python_version(), platform.platform())
    return path


def report_crash(error: BaseException) -> Path | None:
    """Write what is needed to understand `error` into a file and return its path, None when it cannot be written.

    It holds versions, the command line, the terminal, and the traceback with lines of the program but no values of
    variables; secrets are taken out.
    """
    with suppress(OSError):
        directory = state_dir() / "crashes"
        now = time.gmtime()
        path = directory / f"{time.strftime('%Y-%m-%dT%H-%M-%SZ', now)}-{os.getpid()}.txt"
        write_private(path, redact(_report(error)).encode("utf-8", "replace"))
        for old in sorted(directory.glob("*.txt"))[:-REPORTS]:
            with suppress(OSError):
                old.unlink()
        return path
    return None


def _report(error: BaseException) -> str:
    lines = [
        f"stethoscope {__version__}",
        f"at       {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}",
        f"python   {platform.python_version()} on {platform.platform()}",
        f"command  {' '.join(sys.argv)}",
        f"terminal TERM={os.environ.get('TERM', '')} COLORTERM={os.environ.get('COLORTERM', '')} "
        f"LANG={os.environ.get('LC_ALL') or os.environ.get('LANG', '')} size {_size()}",
        f"packages {', '.join(f'{name} {version}' for name, version in package_versions().items())}",
        "",
        "".join(traceback.format_exception(error)).rstrip(),
    ]
    with suppress(OSError):
        tail = log_path().read_text("utf-8", "replace").splitlines()[-200:]
        lines += ["", "the end of the debug log:", *tail]
    return "\n".join(lines) + "\n"


def _size() -> str:
    with suppress(OSError):
        size = os.get_terminal_size(2)
        return f"{size.columns}x{size.lines}"
    return "none"


def package_versions() -> dict[str, str]:
    """Return the versions of the libraries that the console stands on, by their names; "absent" for one that is not
    there."""
    from importlib import metadata

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found
