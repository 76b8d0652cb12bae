"""File systems of a simulated node: what is mounted, how full it is, and how its servers answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.sim import clients
from stethoscope.sim.board import node_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stethoscope.sim.files.view import View


@dataclass(frozen=True, slots=True)
class Mount:
    """One file system; sizes in KiB."""

    path: str
    source: str
    kind: str
    size_kib: int
    used: float
    """Share (0..1) of the space that is used."""
    inodes: int
    device: str
    options: str = "rw,relatime"
    opened: str = "rw"
    disks: tuple[int, ...] = ()
    """Numbers of the disks that it lies on."""
    is_remote: bool = False


LOCAL = (
    Mount("/", "/dev/nvme0n1p2", "ext4", 3_689_104_128, 0.06, 234_291_200, "259:2",
          opened="rw,errors=remount-ro", disks=(0,)),
    Mount("/boot/efi", "/dev/nvme0n1p1", "vfat", 1_098_632, 0.006, 0, "259:1",
          opened="rw,fmask=0022,dmask=0022,codepage=437,iocharset=iso8859-1,shortname=mixed,errors=remount-ro",
          disks=(0,)),
    Mount("/local", "/dev/md0", "xfs", 7_498_045_440, 0.55, 750_066_688, "9:0",
          opened="rw,attr2,inode64,logbufs=8,logbsize=32k,sunit=1024,swidth=2048,noquota", disks=(1, 2)),
)  # fmt: skip
_IN_MEMORY = (("/run", 211_337_216, 3_284), ("/dev/shm", 1_056_702_464, 0), ("/run/lock", 5120, 0))  # noqa: S108 - a name
"""Path, size and use (KiB) of what lies in memory."""
_NFS_OPTIONS = (
    "rw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,nconnect=8,timeo=600,retrans=2,sec=sys,"
    "clientaddr={address},local_lock=none,addr=10.0.255.10"
)
_COUNTED = ("reads", "writes", "read_time", "read_queue", "write_time", "write_queue", "again", "backlog")
_LUSTRE_SERVERS = "10.0.254.1@o2ib:10.0.254.2@o2ib"
_TARGETS = ("MDT0000-mdc", "OST0000-osc", "OST0001-osc", "OST0002-osc", "OST0003-osc")


@lru_cache(maxsize=64)
def _all(storage: str, kind: str) -> tuple[Mount, ...]:
    remote = []
    if kind == "nfs":
        remote.append(
            Mount(f"/{storage}", f"{storage}:/{storage}", "nfs4", 1_099_511_627_776, 0.55, 4_294_967_296, "0:61",
                  is_remote=True, opened=_NFS_OPTIONS)
        )  # fmt: skip
    if kind == "lustre" or storage != "scratch":
        name = storage if kind == "lustre" else "scratch"
        remote.append(
            Mount(f"/{name}", f"{_LUSTRE_SERVERS}:/{name}", "lustre", 2_199_023_255_552, 0.41, 3_200_000_000, "0:64",
                  is_remote=True, opened="rw,checksum,flock,user_xattr,lruresize,lazystatfs,encrypt")
        )  # fmt: skip
    return (*LOCAL, *remote)


def mounts(view: View) -> tuple[Mount, ...]:
    """Return the file systems of a node: its own, and what all share."""
    return _all(view.twin.layout.storage, view.twin.layout.storage_kind)


def is_silent(view: View, kinds: Iterable[str]) -> bool:
    """Tell whether a look at the remote file systems of these types does not come back."""
    storage = view.twin.effects.storage
    own = "nfs4" if view.twin.layout.storage_kind == "nfs" else "lustre"
    return storage is not None and storage.is_silent and own in kinds


def files(view: View) -> dict[str, str]:
    """Return the mount table, the statistics of NFS, and the connections of Lustre."""
    found = {"/proc/self/mountinfo": _mountinfo(view), "/proc/self/mountstats": _mountstats(view)}
    name = next((mount.path[1:] for mount in mounts(view) if mount.kind == "lustre"), None)
    for target in _TARGETS if name is not None else ():
        # A client that gets no answer from one target of its servers is disconnected from it.
        lost = target.startswith("OST0001") and is_silent(view, ("lustre",))
        found[f"/proc/fs/lustre/{target[-3:]}/{name}-{target}-ffff9a3c8d2e1000/state"] = (
            f"current_state: {'DISCONN' if lost else 'FULL'}\nstate_history:\n - [ 1773200000, CONNECTING ]\n"
            " - [ 1773200000, FULL ]\n"
        )
    return found


def used(view: View, mount: Mount) -> float:
    """Return the share (0..1) of a file system that is used. A scenario may say it of a disk; the local array fills
    slowly with what jobs leave."""
    if mount.path == "/local":
        share = mount.used + 0.12 * (view.draw("local space", 1)[0] - 0.5) + min(view.loading_s * 2e-9, 0.05)
    elif mount.path == "/":
        share = mount.used + 0.02 * view.draw("root space", 1)[0]
    else:
        return mount.used
    return min(_said(view, "fs_used", 100 * share, mount) / 100, 1.0)


def is_read_only(view: View, mount: Mount) -> bool:
    """Tell whether a file system no longer takes writes."""
    return mount.path in ("/", "/local") and _said(view, "fs_readonly", 0, mount) > 0


def _said(view: View, metric: str, usual: float, mount: Mount) -> float:
    """Return what is said of a file system by one of its disks."""
    for disk in mount.disks:
        usual = view.state(metric, usual, disk=disk)
    return usual


def df(view: View, arguments: list[str]) -> str:
    """Return what df prints with these arguments: local file systems with -l, those of the given types with -t."""
    kinds = {arguments[place + 1] for place, word in enumerate(arguments[:-1]) if word == "-t"}
    local = any(word.startswith("-") and "l" in word for word in arguments)
    inodes = any(word.startswith("-") and "i" in word for word in arguments)
    head: tuple[str, ...] = (
        ("Filesystem", "Type", "Inodes", "IUsed", "IFree", "IUse%", "Mounted on")
        if inodes
        else ("Filesystem", "Type", "1024-blocks", "Used", "Available", "Capacity", "Mounted on")
    )
    rows = [head]
    if not kinds:
        rows.extend(_row("tmpfs", "tmpfs", size, taken, 0, path) for path, size, taken in _IN_MEMORY)
    for mount in mounts(view):
        if (kinds and mount.kind not in kinds) or (local and mount.is_remote):
            continue
        if inodes:
            taken = int(mount.inodes * min(used(view, mount) * 0.05, 1.0))
            rows.append(_row(mount.source, mount.kind, mount.inodes, taken, 0, mount.path))
        else:
            kept = mount.size_kib // 20 if mount.kind == "ext4" else 0
            room = mount.size_kib - kept
            rows.append(_row(mount.source, mount.kind, mount.size_kib, int(room * used(view, mount)), kept, mount.path))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "".join(
        f"{row[0]:<{widths[0]}} {row[1]:<{widths[1]}} "
        f"{' '.join(f'{row[column]:>{widths[column]}}' for column in range(2, 6))} {row[6]}\n"
        for row in rows
    )


def _row(source: str, kind: str, size: int, taken: int, kept: int, path: str) -> tuple[str, ...]:
    """Return one line of df; `kept` is what only root may use."""
    free = max(size - kept - taken, 0)
    # df rounds up.
    share = f"{-(-100 * taken // (taken + free))}%" if taken + free else "-"
    return source, kind, str(size), str(taken), str(free), share, path


def _mountinfo(view: View) -> str:
    address = node_address(view.node)
    lines = ["22 29 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw\n"]
    lines.append("23 29 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw\n")
    for number, mount in enumerate(mounts(view)):
        options, opened = mount.options, mount.opened.format(address=address)
        if is_read_only(view, mount):
            options, opened = options.replace("rw", "ro", 1), opened.replace("rw", "ro", 1)
        parent = 1 if mount.path == "/" else 29
        lines.append(
            f"{29 + 7 * number} {parent} {mount.device} / {mount.path} {options} shared:{number + 1} - {mount.kind} "
            f"{mount.source} {opened}\n"
        )
    return "".join(lines)


def _mountstats(view: View) -> str:
    found = mounts(view)
    lines = [f"device {mount.source} mounted on {mount.path} with fstype {mount.kind}" for mount in found]
    place = next((number for number, mount in enumerate(found) if mount.kind == "nfs4"), None)
    if place is None:
        return "\n".join(lines) + "\n"
    lines[place] += " statvers=1.1"
    lines[place + 1 : place + 1] = _nfs(view, found[place])
    return "\n".join(lines) + "\n"


def _nfs(view: View, mount: Mount) -> list[str]:
    """Return what the client counts for an NFS mount."""
    age = round(view.uptime_s - 40)
    counts = {name: view.total(f"nfs_{name}")[0] for name in _COUNTED}
    reads, writes = counts["reads"] + 51_200, counts["writes"] + 9_120
    looks = int(12 * view.loading_s) + age // 4
    retried = view.count("nfs_retrans", int(3 * view.draw("nfs retrans", 1)[0])) + counts["again"]
    read, write = clients.READ_BYTES, clients.WRITE_BYTES
    requests = reads + writes + looks
    waited = counts["backlog"] + requests // 9
    return [
        f"\topts:\t{mount.opened.format(address=node_address(view.node))}",
        f"\tage:\t{age}",
        "\tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255",
        "\tsec:\tflavor=1,pseudoflavor=1",
        f"\tbytes:\t{reads * read} {writes * write} 0 0 {reads * read} {writes * write} {reads * 64} 0",
        "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)",
        f"\txprt:\ttcp 0 0 2 0 0 {requests} {requests} 0 {3 * requests} {waited} 64 {requests // 9} {requests // 3}",
        "\tper-op statistics",
        _operation("NULL", 1, 0, (44, 24), 0, 0),
        _operation("READ", reads, retried, (200, read + 96), counts["read_queue"], counts["read_time"]),
        _operation("WRITE", writes, 0, (write + 244, 168), counts["write_queue"], counts["write_time"]),
        _operation("COMMIT", writes // 16, 0, (200, 128), 0, 3 * (writes // 16)),
        _operation("GETATTR", looks, 0, (196, 240), 0, looks),
        _operation("LOOKUP", looks // 8, 0, (212, 300), 0, looks // 8),
        "",
    ]


def _operation(name: str, count: int, retried: int, sizes: tuple[int, int], queue_ms: int, answer_ms: int) -> str:
    """Return one line: requests, transmissions, time-outs, bytes out and in, milliseconds queued, answered, in all."""
    sent, received = sizes
    return (
        f"\t{name:>12}: {count} {count + retried} 0 {count * sent} {count * received} {queue_ms} {answer_ms} "
        f"{queue_ms + answer_ms + count // 50} 0"
    )
