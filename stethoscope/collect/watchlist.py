"""The control line that tells a probe what to read rarely, made from the `watch` list of probes/manifest.yaml."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from stethoscope import paths
from stethoscope.collect import payload
from stethoscope.model import wire
from stethoscope.specs.fleet import SMALL_FLEET
from stethoscope.specs.probes import load_manifest

if TYPE_CHECKING:
    from stethoscope.specs.probes import Run, Watch


MANY_PACE = 2.0
"""Above SMALL_FLEET nodes what is read every half a minute is read so many times less often, as frames are: reading it
all takes the console more than the frames do."""


def pace_of(nodes: int) -> float:
    """Return how many times the interval of a group of the tier `medium` is on a fleet of `nodes`."""
    return 1.0 if nodes <= SMALL_FLEET else MANY_PACE


@functools.cache
def watch_line(sudo: bool, pace: float = 1.0) -> bytes:
    """Return the line, with its newline, for a node on which `sudo -n` may be used or not; `pace` is of its fleet.

    Raises DataError for a manifest that is broken. It is kept in the cache, as the payload is.
    """
    manifest = (paths.bundled("probes") / "manifest.yaml").read_bytes()
    return payload.kept(
        [b"sudo" if sudo else b"", b"%g" % pace, manifest, *payload.sources()],
        lambda: line_of(watch_groups(sudo=sudo, pace=pace)),
    )


def line_of(groups: list[dict[str, Any]]) -> bytes:
    """Return the first line for these groups, and the second stage of the probe behind it."""
    first, later = payload.stages()
    return wire.watch_line(groups, later, first)


def watch_groups(*, sudo: bool, pace: float = 1.0) -> list[dict[str, Any]]:
    """Return the groups as a control line has them, with the braces of the manifest."""
    return [_group(group, sudo=sudo, pace=pace) for group in load_manifest().watch]


def _group(group: Watch, *, sudo: bool, pace: float) -> dict[str, Any]:
    every_s = group.every_s * pace if group.tier == "medium" else group.every_s
    message: dict[str, Any] = {"name": group.id, "s": _short(every_s)}
    if group.read:
        message["read"] = [[read.path, read.keep] for read in group.read]
    if group.run:
        message["run"] = [_run(run, sudo=sudo) for run in group.run]
    return message


def _run(run: Run, *, sudo: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"id": run.id, "argv": run.argv}
    if run.limit_s != wire.LIMIT_S:
        message["limit"] = _short(run.limit_s)
    if run.each:
        message["each"] = run.each
    if run.root and sudo:
        message["sudo"] = 1
    return message


def _short(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds


def commands_of() -> list[str]:
    """Return every command that the line lets a node run, as docs/probes.md names them."""
    return [
        " ".join([*run.argv, *(["DEVICE"] if run.each else [])]) for group in load_manifest().watch for run in group.run
    ]
