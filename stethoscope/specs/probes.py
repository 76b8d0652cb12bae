"""`probes/manifest.yaml`: what can run on a node, what the stream probe reads rarely, and what runs on demand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from stethoscope.model.wire import SLOW_S
from stethoscope.paths import bundled
from stethoscope.specs.load import Loaded, SeveralDataError, Spec, convert, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stethoscope.errors import DataError

FILTERS = ("once", "nonzero", "count", "link", "only", "ethtool", "tasks")
"""What a `keep` may begin with; probes/watch.py does them."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
"""It becomes the name of a file, of a module, and a word of a command line."""


class Stream(Spec, frozen=True):
    """A probe that streams."""

    id: str
    file: str
    mode: Literal["stream"]
    tiers: list[str]
    wire: str
    needs: dict[str, str | bool | list[str]]
    uses: list[str]
    parts: list[str] = msgspec.field(default_factory=list)
    instead_of: str = ""


class Read(Spec, frozen=True):
    """Files that a group reads.

    `keep` says what of them: empty everything; `once` everything, but read anew every five minutes at most; `nonzero`
    the lines that do not end in 0; `count` each distinct content with how many files have it; `link` where a link
    leads; `only REGEX` the lines that match; `ethtool REGEX` the statistics of that network interface whose names
    match; `tasks` the processes in state D or Z.
    """

    path: str
    keep: str = ""


class Run(Spec, frozen=True):
    """A command that a group runs: `each` runs it for every file that the pattern finds, with the name behind it."""

    id: str
    argv: list[str]
    each: str = ""
    root: bool = False
    """It needs root: `sudo -n` before it for others, where the fleet file allows that."""
    limit_s: float = 10.0


class Watch(Spec, frozen=True):
    """One group of what is read rarely."""

    id: str
    title: str
    every_s: float
    tier: Literal["medium", "slow"]
    read: list[Read] = msgspec.field(default_factory=list)
    run: list[Run] = msgspec.field(default_factory=list)


class OnDemand(Spec, frozen=True):
    """A probe that runs when somebody asks: a script in probes/ondemand, given to `sh -s` with its arguments."""

    id: str
    title: str
    summary: str
    """One sentence: what it tells."""
    script: str
    target: Literal["node", "gpu", "port", "disk", "net", "pci"] = "node"
    """What its argument names."""
    whole: bool = False
    """Without an argument it looks at all of the node, instead of being run for each device."""
    peers: int = 0
    """So many nodes of the same job at the most are its arguments."""
    only: str = ""
    """Names of the devices that it is for, as a regular expression; of ports the name of their link layer."""
    tool: str = ""
    """The command that must be there."""
    seconds: float = 2.0
    """What it takes as a rule."""
    limit_s: float = 30.0
    disturbs: Literal["nothing", "little", "jobs"] = "nothing"
    loads_gpu: bool = False
    """It computes on GPUs, and is refused where one is busy."""
    asks_driver: bool = False
    """It calls the GPU driver, and is refused where that does not answer: it would wait there for ever as well."""
    root: Literal["no", "better", "needed"] = "no"
    parser: str = ""
    """Module of stethoscope/parse/tools that reads what it prints."""


class Manifest(Spec, frozen=True):
    """The whole of `manifest.yaml`."""

    schema: Literal["stethoscope.probes/1"]
    probes: list[Stream]
    watch: list[Watch] = msgspec.field(default_factory=list)
    ondemand: list[OnDemand] = msgspec.field(default_factory=list)


def load_manifest(path: Path | None = None) -> Manifest:
    """Return the manifest of the bundled probes, or the one at `path`; raises DataError, with the position."""
    loaded = load(path or bundled("probes") / "manifest.yaml")
    manifest = convert(loaded, Manifest)
    errors = list(_errors(loaded, manifest))
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralDataError(errors)
    return manifest


def _errors(loaded: Loaded, manifest: Manifest) -> Iterator[DataError]:
    for part in ("watch", "ondemand"):
        seen = set[str]()
        for position, entry in enumerate(getattr(manifest, part)):
            if entry.id in seen:
                yield loaded.error(f'"{entry.id}" stands here twice', part, position, "id")
            seen.add(entry.id)
    for position, probe in enumerate(manifest.ondemand):
        for name in ("id", "parser"):
            if not _NAME.fullmatch(getattr(probe, name) or "none"):
                yield loaded.error(f"{name} consists of small letters, digits and _", "ondemand", position, name)
        if probe.script != f"{probe.id}.sh":
            yield loaded.error(f"the script of {probe.id} is called {probe.id}.sh", "ondemand", position, "script")
        try:
            re.compile(probe.only)
        except re.error as error:
            yield loaded.error(f"not a regular expression: {error}", "ondemand", position, "only")
        if not 1 <= probe.limit_s <= 600:
            yield loaded.error("limit_s is 1 to 600", "ondemand", position, "limit_s")
    for position, group in enumerate(manifest.watch):
        if not 5 <= group.every_s <= 86_400:
            yield loaded.error("every_s is 5 to 86400", "watch", position, "every_s")
        if (group.tier == "medium") != (group.every_s < SLOW_S):
            yield loaded.error("medium is what is read more often than once a minute", "watch", position, "tier")
        for number, run in enumerate(group.run):
            # On the wire they are one text.
            if any(len(word.split()) != 1 for word in run.argv):
                yield loaded.error("words of a command have no blanks", "watch", position, "run", number, "argv")
        for number, read in enumerate(group.read):
            if read.keep and read.keep.split(" ")[0] not in FILTERS:
                message = f'"{read.keep}" is not a way to keep text: {", ".join(FILTERS)}'
                yield loaded.error(message, "watch", position, "read", number, "keep")
