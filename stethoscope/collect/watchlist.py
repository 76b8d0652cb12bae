"""What a probe reads rarely, made from the `watch` list of probes/manifest.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model import wire
from stethoscope.specs.fleet import SMALL_FLEET
from stethoscope.specs.probes import load_manifest

if TYPE_CHECKING:
    from stethoscope.specs.probes import Run, Watch


MANY_PACE = 2.0
"""Above SMALL_FLEET nodes what is not read every minute is read so many times less often, as frames are: reading it
all takes the console more than the frames do."""


def pace_of(nodes: int) -> float:
    """Return how many times its interval a group is apart (see `wire.paced`) on a fleet of `nodes`."""
    return 1.0 if nodes <= SMALL_FLEET else MANY_PACE


def watch_groups(*, sudo: bool, pace: float = 1.0) -> list[dict[str, Any]]:
    """Return the groups, with the braces of the manifest, for a node on which `sudo -n` may be used or not; `pace` is
    of its fleet. Raises DataError for a manifest that is broken."""
    return [_group(group, sudo=sudo, pace=pace) for group in load_manifest().watch]


def _group(group: Watch, *, sudo: bool, pace: float) -> dict[str, Any]:
    message: dict[str, Any] = {"name": group.id, "s": _short(wire.paced(group.every_s, pace))}
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
