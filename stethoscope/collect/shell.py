"""What is sent to a node without Python, once its command line has said that it waits for that."""

from __future__ import annotations

import functools

from stethoscope import paths
from stethoscope.collect import shgroups

PARTS = ("smi.sh", "log.sh", "stream.sh")
"""The files of the probe in sh, in the order in which it needs them."""
LATER = ("watch.sh", "watch_gpu.sh")
"""Those that come when something is read rarely."""


def script() -> str:
    """Return the probe in sh, without comments and indentation."""
    return "\n".join(compact(_source(part)) for part in PARTS)


@functools.cache
def payload() -> bytes:
    """Return a line with the length and the probe in sh."""
    return _with_length("%d", script())


@functools.cache
def watch_line(sudo: bool, pace: float = 1.0) -> bytes:
    """Return what follows the first full frame: a control line with the length, and the script that reads what is read
    rarely, for a node on which `sudo -n` may be used or not; `pace` as watchlist.pace_of says it of the fleet."""
    return watch_line_of(shgroups.functions(sudo=sudo, pace=pace))


def watch_line_of(functions: str) -> bytes:
    """Return the control line for functions of the groups, as shgroups makes them."""
    return _with_length(
        '{"do":"watch","bytes":%d}', "\n".join([*(compact(_source(part)) for part in LATER), functions])
    )


def compact(text: str) -> str:
    """Return a script of sh without lines that are empty or only a comment, and without indentation; it must not have
    texts of several lines whose lines look like these."""
    lines = (line.lstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _source(part: str) -> str:
    return paths.bundled("probes").joinpath(part).read_text("ascii")


def _with_length(head: str, text: str) -> bytes:
    return f"{head % len(text)}\n{text}".encode("ascii")
