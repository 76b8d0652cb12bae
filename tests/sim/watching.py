"""The console's watch line, as the bundled manifest makes it, and what simulated nodes answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stethoscope.model import wire
from stethoscope.parse.parts import read_part
from stethoscope.sim.parts import Order
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from stethoscope.specs.probes import load_manifest

if TYPE_CHECKING:
    from stethoscope.model.facts import Facts
    from stethoscope.sim.twin import Twin


def groups() -> list[dict[str, Any]]:
    """Return the groups of the manifest as the control line has them."""
    return [
        {
            "name": watch.id,
            "s": watch.every_s,
            "read": [[read.path, read.keep] for read in watch.read],
            "run": [
                {
                    "id": run.id,
                    "argv": run.argv,
                    "each": run.each,
                    "sudo": run.root,
                }
                for run in watch.run
            ],
        }
        for watch in load_manifest().watch
    ]


def speaker(world: Twin, node: int) -> Speaker:
    """Return a speaker of a node that watches everything."""
    speaking = Speaker(world, node, 2.0)
    speaking.watch(msgspec.convert(groups(), tuple[Order, ...]))
    return speaking


def parts(world: Twin, node: int) -> dict[str, wire.Part]:
    """Return the first part of every group of a node."""
    found = {}
    for line in speaker(world, node).parts(Readings(world), world.t_s, 99):
        part = wire.decode(line)
        assert isinstance(part, wire.Part)
        found[part.name] = part
    return found


def facts(world: Twin, node: int) -> dict[str, Facts]:
    """Return what the parts of a node say, by group."""
    return {name: read_part(part) for name, part in parts(world, node).items()}
