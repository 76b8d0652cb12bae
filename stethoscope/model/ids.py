"""Names of places (`gpu-007/ib/mlx5_3`) and folded sets of nodes (`gpu-[001-003]`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NODES = 20_000
"""More nodes than this in one set is a typing mistake: `gpu[1-99999999]`."""


def gpu_place(node: str, index: int) -> str:
    """Return the id of GPU `index` of `node`, such as `gpu-007/gpu/3`."""
    return f"{node}/gpu/{index}"


def port_name(device: str, port: int = 1) -> str:
    """Return the name of a port of a node: `mlx5_3`, with `:2` behind it for a second port of the adapter."""
    return device if port == 1 else f"{device}:{port}"


def port_place(node: str, device: str, port: int = 1) -> str:
    """Return the id of an InfiniBand or RoCE port: `gpu-007/ib/mlx5_3`."""
    return f"{node}/ib/{port_name(device, port)}"


def job_place(job: str) -> str:
    """Return the id of a job: `job/4242`."""
    return f"job/{job}"


_KINDS = {Scope.NVLINK: "nvlink/", Scope.PCIE: "pcie/", Scope.NET: "net/", Scope.DISK: "disk/", Scope.FS: "fs"}


def device_place(node: str, scope: Scope, name: str) -> str:
    """Return the id of a device that is known by its name: `gpu-007/nvlink/5/11`, `gpu-007/disk/nvme1n1`; a file system
    is known by where it is mounted: `gpu-007/fs/scratch`, the root `gpu-007/fs/`."""
    return f"{node}/{_KINDS[scope]}{name}"


def node_of(place: str) -> str:
    """Return the first part of a place: its node (or `job`, `leaf` ... for places that are not on a node)."""
    return place.split("/", 1)[0]


def expand(text: str) -> list[str]:
    """Return the nodes of a node set such as `gpu[001-064],login1`, in order.

    Raises UsageError for a set that does not parse, is empty, or names more than MAX_NODES nodes.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    for low, high in re.findall(r"(\d+)-(\d+)", text):
        if int(high) - int(low) >= MAX_NODES:
            raise UsageError(f'node set "{text}" names more than {MAX_NODES:,} nodes')
    try:
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
    except (NodeSetException, ValueError) as error:
        raise UsageError(f'cannot read node set "{text}": {error}') from error
    if not nodes:
        raise UsageError(f'node set "{text}" names no node')
    if len(nodes) > MAX_NODES:
        raise UsageError(f'node set "{text}" names {len(nodes):,} nodes; the limit is {MAX_NODES:,}')
    return [str(node) for node in nodes]


def fold(nodes: Iterable[str]) -> str:
    """Return the shortest text for a set of nodes: `gpu-[001-003,007]`; names that do not fold are joined by commas."""
    return _fold(tuple(nodes))


@lru_cache(maxsize=1024)
def _fold(nodes: tuple[str, ...]) -> str:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    if not nodes:
        return ""
    if len(nodes) == 1:
        return nodes[0]
    try:
        folded = NodeSet.fromlist(list(nodes), resolver=RESOLVER_NOGROUP)
    except (NodeSetException, ValueError):
        return ",".join(sorted(set(nodes)))
    return str(folded)
