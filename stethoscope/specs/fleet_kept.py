"""A large fleet file as it was understood the last time: reading 2,000 hosts out of YAML takes 80 ms of each start."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stethoscope.model.scheduler import Job  # noqa: TC001  msgspec reads the annotation
from stethoscope.specs.compiled import cached
from stethoscope.specs.fleet import Fleet, FleetNode, SlurmLogin, read_fleet

LARGE = 16 * 1024
"""A file of fewer bytes is read sooner than looked for."""
_READERS = (
    "stethoscope.specs.fleet_kept",
    "stethoscope.specs.fleet",
    "stethoscope.specs.fleet_jobs",
    "stethoscope.specs.fleet_maintenance",
    "stethoscope.model.maintenance",
    "stethoscope.model.scheduler",
    "stethoscope.specs.load",
    "stethoscope.model.ids",
)


class _Kept(msgspec.Struct, frozen=True):
    """A fleet without where each setting stands in the file."""

    name: str
    nodes: tuple[FleetNode, ...]
    simulated: bool
    groups: dict[str, tuple[str, ...]]
    slurm: SlurmLogin | None
    jobs: tuple[Job, ...]
    follow_jobs: int


def kept_fleet(path: str | Path) -> Fleet:
    """Return the fleet of the file at `path` without its `origins`, from its compiled form where that is up to date;
    raises as `read_fleet` does."""
    path = Path(path)
    try:
        large = path.stat().st_size >= LARGE
    except OSError:
        large = False
    if not large:
        return read_fleet(path)
    # What the file says of paths is meant from its directory, or from the home directory.
    place = f"{path}\0{Path('~').expanduser()}"
    content = cached("fleet", [path], _READERS, lambda: _content(path), place)
    try:
        kept = msgspec.convert(content, _Kept)
    except msgspec.ValidationError:
        return read_fleet(path)
    return Fleet(kept.name, kept.nodes, kept.simulated, kept.groups, kept.slurm, kept.jobs, kept.follow_jobs)


def _content(path: Path) -> object:
    fleet = read_fleet(path)
    groups = dict(fleet.groups)
    return msgspec.to_builtins(
        _Kept(fleet.name, fleet.nodes, fleet.simulated, groups, fleet.slurm, fleet.jobs, fleet.follow_jobs)
    )
