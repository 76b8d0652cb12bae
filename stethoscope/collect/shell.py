"""What is sent to a node without Python, once its command line has said that it waits for that."""

from __future__ import annotations

import functools

from stethoscope import paths


@functools.cache
def payload() -> bytes:
    """Return a line with the length and the probe in sh, without comments and indentation."""
    script = compact(paths.bundled("probes").joinpath("stream.sh").read_text("ascii"))
    return f"{len(script)}\n{script}".encode("ascii")


def compact(script: str) -> str:
    """Return a script of sh without lines that are empty or only a comment, and without indentation; it must not have
    texts of several lines whose lines look like these."""
    lines = (line.lstrip() for line in script.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("#"))
