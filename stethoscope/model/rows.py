"""Which device a row of a table stands for: rows can be moved and given to another device, identities cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from stethoscope.model.fleet import Node


def first_row(node: Node, scope: Scope) -> int:
    """Return where the rows of `node` begin in the table of `scope`, -1 before it has any."""
    if scope is Scope.NODE:
        return node.index
    if scope is Scope.GPU:
        return node.gpu_first
    if scope is Scope.PORT:
        return node.port_first
    return node.device_first.get(scope, -1)


def identities(node: Node, scope: Scope) -> tuple[str, ...]:
    """Return what tells each device of `node` from any other that may come to its place, in the order of its rows.

    A board in the same slot is another one when its UUID is; ports and the devices of parts are known by their names.
    """
    if scope is Scope.NODE:
        return ("",)
    if scope is Scope.GPU:
        return tuple([gpu.uuid or gpu.pci or str(gpu.index) for gpu in node.gpus])
    if scope is Scope.PORT:
        return tuple([f"{port.device}:{port.port}" for port in node.ports])
    return node.devices.get(scope, ())


def has_same_rows(old: Node, new: Node) -> bool:
    """Tell whether two pictures of a node have the same devices in the same rows."""
    return old is new or (
        old.gpu_first == new.gpu_first
        and old.port_first == new.port_first
        and (old.gpus is new.gpus or old.gpus == new.gpus)
        and (old.ports is new.ports or old.ports == new.ports)
        and (old.devices is new.devices or old.devices == new.devices)
        and (old.device_first is new.device_first or old.device_first == new.device_first)
    )
