"""File systems from /proc/self/mountinfo, df, /proc/self/mountstats and Lustre's connections.

One row for each file system: a device that is mounted several times is named by its shortest mount point, a remote one
by where it is mounted.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.facts import Devices, Facts
from stethoscope.model.metric import Scope
from stethoscope.parse.groups.values import ERROR, HUNG, PERMISSION, UNSUPPORTED, answer, bounded, numbers, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_REMOTE = frozenset({"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "wekafs", "panfs", "cifs", "smb3"})
_DATA = re.compile(
    r"ext[234]|xfs|btrfs|zfs|f2fs|jfs|bcachefs|ntfs3?|exfat|vfat|nfs4?|lustre|gpfs|beegfs|ceph|wekafs|panfs|cifs|smb3|9p"
    r"|virtiofs|fuseblk|fuse\.\S+",
    re.ASCII,
)
"""What holds data; the rest is of the kernel, or read-only by its nature."""
_NOT_DATA = frozenset(
    {"fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse", "fuse.snapfuse", "fuse.squashfuse", "fuse.squashfuse_ll"}
    | {"fuse.fuse-overlayfs", "fuse.sshfs", "fuse.encfs", "fuse.gocryptfs"}
)
"""Views of something else, and what a user mounts for himself."""
_PASSING = ("/var/lib/kubelet/", "/run/", "/var/run/", "/var/snap/", "/snap/", "/tmp/", "/proc/", "/sys/")  # noqa: S108
"""What is mounted here comes and goes with pods and sessions."""
_OF_CONTAINERS = ("/var/lib/docker/", "/var/lib/containers/", "/var/lib/containerd/")
"""What is mounted here is a part of what is mounted elsewhere, unless it is the root of a device."""
_OCTAL = re.compile(r"\\([0-7]{3})", re.ASCII)
_DF = re.compile(r"(\S(?:.*?\S)?) +(\S+) +(-|\d+) +(-|\d+) +(-|-?\d+) +(-|\d+%) +(/.*)", re.ASCII)
_DF_COLUMNS, _DF_HEAD = 7, "Filesystem "
_MOST_SHARED = 16_384
"""Characters of a list of mounts that is remembered."""
_LONGEST = 8192
"""Characters of a line: two paths of the longest kind."""
_COMPLAINT = re.compile(r"df: ['‘`]?(/.*?)['’]?: (.+)")
_NFS_MOUNT = re.compile(r"\S+ mounted on (\S+) with fstype nfs4? ?.*")
_OF_NFS = " with fstype nfs"
_OF_LUSTRE = "/proc/fs/lustre/"
_LUSTRE = re.compile(r"/proc/fs/lustre/(?:mdc|osc)/(.+?)-(?:MDT|OST)[0-9a-fA-F]{4}-[^/]*/state", re.ASCII)
_LUSTRE_STATES = {
    "CLOSED": 1, "NEW": 2, "DISCONN": 3, "CONNECTING": 4, "REPLAY": 5, "REPLAY_LOCKS": 6, "REPLAY_WAIT": 7,
    "RECOVER": 8, "FULL": 9, "EVICTED": 10, "IDLE": 11,
}  # fmt: skip
_WORST_FIRST = (10, 3, 1, 4, 5, 6, 7, 8, 2, 9, 11)
_GIB_BLOCKS = 1024 * 1024
"""Blocks of 1 KiB in a GiB."""
_LOOKS = ("df_local", "df_inodes", "df_remote")
_METRICS = (
    "fs_used", "fs_inodes_used", "fs_size", "fs_available", "fs_readonly", "nfs_retrans", "lustre_state",
)  # fmt: skip


class _Mount(NamedTuple):
    point: str
    kind: str
    source: str
    readonly: bool
    root: str
    """What of the file system is mounted: more than `/` is a part that is shown a second time."""

    @property
    def remote(self) -> bool:
        return self.kind in _REMOTE


class _Space(NamedTuple):
    """A line of df: blocks or inodes; None stands for `-`."""

    total: int | None
    used: int | None
    free: int | None


class _Df(NamedTuple):
    """What one df said: lines by mount point and by device, complaints by mount point, a word when it said nothing."""

    word: str
    by_point: dict[str, list[str]]
    by_source: dict[str, list[str]]
    complaints: dict[str, str]

    def of(self, mount: _Mount) -> _Space | str:
        found = self.by_point.get(mount.point) or (None if mount.remote else self.by_source.get(mount.source))
        if found is not None:
            # Most lines are of what holds no data, and their numbers are never asked for.
            return _Space(whole(found[2]), whole(found[3]), whole(found[4]))
        complaint = self.complaints.get(mount.point)
        if complaint is not None:
            return PERMISSION if "ermission" in complaint else ERROR
        return self.word or UNSUPPORTED


def read(part: wire.Part) -> Facts:
    """Return the file systems with their space, inodes, state and retransmissions, and how many looks hang."""
    looks = {name: _df(part, name) for name in _LOOKS}
    hung = sum(1 for look in looks.values() if look.word == HUNG)
    notes = {}
    complaints = [f"{point}: {said}" for look in looks.values() for point, said in look.complaints.items()]
    if hung:
        notes["mounts"] = "df does not come back: a file system does not answer"
    elif complaints:
        notes["mounts"] = "; ".join(dict.fromkeys(complaints))
    node: dict[str, Cell] = {"mounts_hung": hung} if any(name in part.ran for name in _LOOKS) else {}
    text = part.files.get("/proc/self/mountinfo")
    if text is None:
        return Facts(part.name, node=node, notes=notes)
    mounts = _chosen(text)
    points, about = (_shown if len(text) <= _MOST_SHARED else _shown.__wrapped__)(mounts)
    retransmitted = _retransmitted(part.files.get("/proc/self/mountstats", ""))
    lustre = _lustre(part)
    rows = [
        (
            *_space(looks["df_remote" if mount.remote else "df_local"].of(mount)),
            int(mount.readonly),
            retransmitted.get(mount.point, UNSUPPORTED) if mount.kind.startswith("nfs") else UNSUPPORTED,
            lustre.get(mount.source.rpartition("/")[2], UNSUPPORTED) if mount.kind == "lustre" else UNSUPPORTED,
        )
        for mount in mounts
    ]
    inodes = [UNSUPPORTED if mount.remote else _share(looks["df_inodes"].of(mount)) for mount in mounts]
    columns: list[list[Cell]] = [[row[position] for row in rows] for position in range(6)]
    used, size, available, readonly, retrans, state = columns
    values = dict(zip(_METRICS, (used, inodes, size, available, readonly, retrans, state), strict=True))
    devices = Devices(points, values, about)
    return Facts(part.name, node=node, devices={Scope.FS: devices}, notes=notes)


def _chosen(text: str) -> tuple[_Mount, ...]:
    """Return one mount for each file system, by mount point."""
    found: dict[str, _Mount] = {}
    for entry in text.split("\n"):
        # The options behind it may have the node's own address in them, and else nodes of one kind mount the same.
        mounted, _, options = entry.rstrip().rpartition(" ")
        mount = _mount(mounted, is_readonly="ro" in options.split(",")) if len(entry) <= _LONGEST else None
        if mount is None or mount.point.startswith(_PASSING):
            continue
        if mount.root != "/" and mount.point.startswith(_OF_CONTAINERS):
            continue
        # What is mounted later on the same point hides what was there before.
        key = mount.point if mount.remote or not mount.source else f"{mount.kind} {mount.source}"
        known = found.get(key)
        if known is None or mount.remote or len(mount.point) < len(known.point):
            found[key] = mount
    by_point = {mount.point: mount for mount in found.values()}
    return tuple([by_point[point] for point in sorted(by_point)])


@lru_cache(maxsize=64)
def _shown(mounts: tuple[_Mount, ...]) -> tuple[tuple[str, ...], Mapping[str, Mapping[str, str]]]:
    """Return the names and the words of file systems, the same for the same ones."""
    about = {mount.point: {"type": mount.kind, "device": mount.source} for mount in mounts}
    return tuple(about), about


@lru_cache(maxsize=2048)
def _mount(mounted: str, *, is_readonly: bool) -> _Mount | None:
    """Return a line of mountinfo but for its last word, in which it is said whether the file system is read-only; the
    optional fields before the dash can be any number."""
    left, dash, right = mounted.partition(" - ")
    head, tail = left.split(), right.split(" ")
    if not dash or len(head) < 6 or len(tail) < 2 or tail[0] in _NOT_DATA or not _DATA.fullmatch(tail[0]):
        return None
    readonly = is_readonly or "ro" in head[5].split(",")
    return _Mount(_unescaped(head[4]), tail[0], _unescaped(tail[1]), readonly, head[3])


def _unescaped(text: str) -> str:
    """Return a path with its spaces; other characters that were escaped are control characters, and stay so."""
    if "\\" not in text:
        return text
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)) if match[1] in ("040", "134", "043") else match[0], text)


def _df(part: wire.Part, name: str) -> _Df:
    ran, word = answer(part, name)
    if ran is None or word:
        return _Df(word, {}, {}, {})
    points: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {}
    for entry in ran.out.split("\n"):
        words = entry.split()
        if len(words) != _DF_COLUMNS or words[6][0] != "/":
            # Devices, types and mount points with spaces in them, and the head.
            match = None if entry.startswith(_DF_HEAD) or len(entry) > _LONGEST else _DF.fullmatch(entry.rstrip())
            if match is None:
                continue
            words = list(match.groups())
        points[words[6]] = words
        sources.setdefault(words[0], words)
    said = ran.err.split("\n") if ran.err else ()
    complaints = {match[1]: match[2] for match in map(_COMPLAINT.fullmatch, said) if match}
    return _Df(ERROR if ran.exit and not points else "", points, sources, complaints)


def _space(space: _Space | str) -> tuple[Cell, Cell, Cell]:
    """Return used in percent of what programs can have, as df does, then size and what is available in GiB."""
    if isinstance(space, str):
        return space, space, space
    if space.total is None:
        return UNSUPPORTED, UNSUPPORTED, UNSUPPORTED
    # Below 0 root has begun to use the blocks that are kept for it.
    available = ERROR if space.free is None else max(0, space.free) / _GIB_BLOCKS
    return _share(space), space.total / _GIB_BLOCKS, available


def _share(space: _Space | str) -> Cell:
    if isinstance(space, str):
        return space
    if not space.total or space.used is None or space.free is None:
        return UNSUPPORTED
    usable = space.used + max(0, space.free)
    return 100 * space.used / usable if usable else UNSUPPORTED


def _retransmitted(text: str) -> dict[str, Cell]:
    """Return for each NFS mount how many requests were sent again: transmissions less operations, of the operations
    that the probe reads."""
    found: dict[str, Cell] = {}
    for block in f"\n{text}".split("\ndevice ")[1:]:
        head, *lines = block.split("\n") if _OF_NFS in block else ("",)
        match = _NFS_MOUNT.fullmatch(head.strip())
        if match is None:
            continue
        point = _unescaped(match[1])
        again: int | None = 0
        for entry in lines:
            name, colon, rest = entry.strip().partition(": ")
            if not (colon and name.isupper()):
                continue
            counts = numbers(rest.split(None, 2)[:2])
            if again is None or counts is None or len(counts) < 2:
                again = None
            else:
                again = bounded(again + max(0, counts[1] - counts[0]))
        found[point] = ERROR if again is None else again
    return found


def _lustre(part: wire.Part) -> dict[str, Cell]:
    """Return the worst state among the connections of each Lustre file system, by its name."""
    states: dict[str, set[int]] = {}
    for path, text in part.files.items():
        match = _LUSTRE.fullmatch(path) if path.startswith(_OF_LUSTRE) else None
        state = _LUSTRE_STATES.get(text.strip().rpartition(":")[2].strip()) if match else None
        if match and state is not None:
            states.setdefault(match[1], set()).add(state)
    return {name: next(state for state in _WORST_FIRST if state in found) for name, found in states.items()}
