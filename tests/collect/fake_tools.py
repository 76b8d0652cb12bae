"""Programs for the PATH of a test that stand for the tools of a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def tool(directory: Path, name: str, body: str) -> Path:
    """Write a program of sh and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def path_with(directory: Path) -> str:
    """Return a PATH in which the programs of `directory` come first."""
    return f"{directory}:{os.environ['PATH']}"


def not_root(directory: Path) -> None:
    """Let scripts believe that they do not run as root."""
    tool(directory, "id", "echo 1000")


def sudo(directory: Path, *, allows: str = "*") -> None:
    """Let `sudo -n` run what the pattern of sh fits, and say of everything else that it needs a password; what it runs
    stands in `sudo.log`."""
    tool(
        directory,
        "sudo",
        f"""[ "$1" = -n ] || exit 9
shift
ask=
[ "$1" = -l ] && {{ ask=1; shift; }}
case "$*" in
  {allows}) ;;
  *) echo 'sudo: a password is required' >&2; exit 1 ;;
esac
[ -n "$ask" ] && exit 0
echo "$*" >> {directory}/sudo.log
exec "$@"
""",
    )
