"""Whether what a triage is to be about is there at all: about what is not, nothing wrong would be found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model.ids import device_place, gpu_place, port_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.model.verdict import Scene

_MOST_TOLD = 5


def check_focus(scene: Scene, focus: str) -> None:
    """Raise UsageError where `focus` (a node, a device of it, a job, a leaf, rack or pod) is not known in `scene`."""
    first, _, rest = focus.partition("/")
    snapshot = scene.snapshot
    if not focus or first == "storage" or _is_named(scene, focus):
        return
    if first == "job":
        known = [job.id for job in (*snapshot.jobs, *scene.jobs)]
        _need("job", rest.partition("/")[0], known)
    elif first in ("leaf", "rack", "pod"):
        _need(first, rest, _around(snapshot, first))
    else:
        _need("node", first, snapshot.by_name)
        node = snapshot.node(first)
        # Before the first frame nobody knows what is built in; a GPU that is gone is still one to ask about.
        if rest and node.frames and not rest.startswith("gpu/"):
            known = [*_devices(node)]
            if focus not in known:
                raise UsageError(f"nothing is known of {focus}{did_you_mean(focus, known)}")


def _is_named(scene: Scene, focus: str) -> bool:
    return any(focus in entry.finding.where for entry in scene.entries)


def _need(what: str, name: str, known: Iterable[str]) -> None:
    names = list(dict.fromkeys(known))
    if name in names:
        return
    near = did_you_mean(name, names)
    if not near and len(names) <= _MOST_TOLD:
        near = f"; known: {', '.join(names)}" if names else "; none is known"
    raise UsageError(f'no {what} is called "{name}" here{near}')


def _around(snapshot: FleetSnapshot, kind: str) -> Iterator[str]:
    for node in snapshot.nodes:
        if kind == "leaf":
            yield from node.leaves.values()
        else:
            name = node.rack if kind == "rack" else node.pod
            if name:
                yield name


def _devices(node: Node) -> Iterator[str]:
    for gpu in node.gpus:
        yield gpu_place(node.name, gpu.index)
    for port in node.ports:
        yield port_place(node.name, port.device, port.port)
    for scope, names in node.devices.items():
        for name in names:
            yield device_place(node.name, scope, name)
