"""Whose log a file is, as far as its name and directory say."""

from __future__ import annotations

import re

from stethoscope.model.logs import Origin

_SUFFIX = re.compile(
    r"(?:\.(?:log|txt|out|err|gz|zst|xz|json|stdout|stderr|\d{1,3}|old|bak|dmesg|journal|messages|syslog))+$"
)
_RANK = re.compile(r"(?:^|[^a-z])(?:global_?)?rank[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)
_LOCAL = re.compile(r"(?:^|[^a-z])local[-_]?rank[-_.]?(\d{1,4})(?!\d)", re.IGNORECASE)
_TASK = re.compile(r"(?:^|[^a-z])task[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NODE = re.compile(
    r"(?:^|(?<=[_./]))(?:(?:dmesg|kern|syslog|messages|journal|kernel)[-_.])?"
    r"((?:gpu|node|host|dgx|hgx|cn|nid|compute|worker|ip|h\d{3}|a\d{3}|b\d{3}|gb\d{3}|train|ml|nv|srv|server|rack)"
    r"[a-z]{0,12}(?:[-_]?(?!rank|task|std)[a-z]{0,4}\d{1,6}){1,5})(?=$|[-_.](?:std(?:out|err)|rank|task|gpu\d|dmesg|kern|log|out|err)|\.)",
    re.IGNORECASE,
)
_LOG_OF = r"^(?:dmesg|kern(?:el)?|syslog|messages|journal)[-_.]"
_ADDRESS = re.compile(rf"(?:^|{_LOG_OF})((?:\d{{1,3}}\.){{3}}\d{{1,3}})(?=$|[-_.](?!\d))")
_KERNEL_OF = re.compile(rf"{_LOG_OF}(?!boot|[a-z]+(?:$|\.))([a-z](?=[a-z-]*\d)[a-z0-9-]+)(?:$|\.)", re.IGNORECASE)
"""A file of a kernel's log that is called after a host of any name: `dmesg-storm01`, no date or turn of a log."""
_POD = re.compile(r"^([a-z0-9][a-z0-9.-]*-(?:worker|master|launcher|launch)-?\d{1,6})(?:$|[-_.])")
_TORCHRUN = re.compile(r"(?:^|/)attempt_\d+/(\d{1,4})/std(?:out|err)(?:\.log)?$")


def origin_of_name(path: str) -> Origin:
    """Return what the name of a file says: `rank7.log`, `node-003/rank_12.err`, `gpu-007.log`, `worker-3-stdout`,
    `attempt_0/5/stderr.log` (torchrun writes the local rank's files so)."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")][-3:]
    origin = Origin()
    if not parts:
        return origin
    name = _SUFFIX.sub("", parts[-1])
    local, rank, task = _LOCAL.search(name), None, _TASK.search(name)
    if local:
        origin.local_rank = int(local[1])
    else:
        rank = _RANK.search(name) or (_RANK.fullmatch(parts[-2]) if len(parts) > 1 else None)
        torchrun = _TORCHRUN.search("/".join(parts))
        if torchrun:
            origin.local_rank = int(torchrun[1])
    if rank:
        origin.rank = int(rank[1])
    if task:
        origin.task = int(task[1])
    pod = _POD.match(name)
    if pod:
        origin.pod = pod[1]
    for part in (name, *reversed(parts[:-1])):
        node = _ADDRESS.search(parts[-1] if part is name else part) or _KERNEL_OF.search(part) or _NODE.search(part)
        if node and not pod:
            origin.host = node[1]
            break
    return origin
