"""Groups of nodes by name: those of ClusterShell's configuration (`groups.conf`), as `clush -w @name` takes them."""

from __future__ import annotations

import re

from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.text import clean

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")


def split_set(text: str) -> list[str]:
    """Return the parts of a node set at its outer commas: `gpu[1,3],@rack1` -> gpu[1,3] and @rack1."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text)
    return [part.strip() for part in parts if part.strip()]


def clustershell_group(name: str) -> list[str]:
    """Return the nodes of a group of ClusterShell's sources (`name`, or `source:name`); UsageError without any."""
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError, GroupSourceNoUpcall

    if not _NAME.fullmatch(name):
        raise UsageError(f'"@{clean(name, 60)}" is not the name of a group')
    from ClusterShell.NodeSet import NodeSetException, std_group_resolver

    source, _, group = name.rpartition(":")
    try:
        nodes = ",".join(std_group_resolver().group_nodes(group, source or None))
    except (GroupSourceNoUpcall, GroupSourceError, GroupResolverError, NodeSetException, OSError) as error:
        raise UsageError(f"group @{name}: {clean(str(error), 200)}") from None
    if not nodes.strip(", "):
        raise UsageError(f"there is no group @{name}{did_you_mean(group, clustershell_names(source))}")
    return ids.expand(nodes)


def clustershell_names(source: str = "") -> list[str]:
    """Return the names of the groups of a source, or of the default one; none when it cannot tell."""
    from ClusterShell.NodeSet import std_group_resolver
    from ClusterShell.NodeUtils import GroupResolverError, GroupSourceError

    try:
        return sorted(std_group_resolver().grouplist(source or None))
    except (GroupSourceError, GroupResolverError, OSError):
        return []
