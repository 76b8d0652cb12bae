"""Parts as they come from a node, for the tests of their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stethoscope.model import wire
from stethoscope.parse.parts import read_part
from stethoscope.parse.stream import parse

if TYPE_CHECKING:
    from stethoscope.model.facts import Devices, Facts
    from stethoscope.model.metric import Scope


def part(name: str, files: dict[str, str] | None = None, **fields: Any) -> wire.Part:
    """Return a part that has come over the wire."""
    message = parse(wire.encode(wire.Part(seq=1, mono=1.0, wall=1.0, name=name, s=30.0, files=files or {}, **fields)))
    assert isinstance(message, wire.Part)
    return message


def facts(name: str, files: dict[str, str] | None = None, **fields: Any) -> Facts:
    """Return what a part says."""
    return read_part(part(name, files, **fields))


def row(devices: Devices, name: str) -> dict[str, Any]:
    """Return the values of one device by metric."""
    place = devices.names.index(name)
    return {metric: column[place] for metric, column in devices.values.items()}


def only(said: Facts, scope: Scope) -> Devices:
    """Return the devices of a scope; all columns have one value for each."""
    devices = said.devices[scope]
    assert all(len(column) == len(devices.names) for column in devices.values.values())
    return devices
