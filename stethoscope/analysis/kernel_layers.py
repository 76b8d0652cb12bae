"""What rests on what in the kernel's lines: file systems on disks, devices on the PCIe ports above them, the record of
a hardware error on the lines that say what it was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_incidents import host_of, near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.analysis.kernel_incidents import Incident, Sign

_LAYERS = {"pcie": 0, "aer": 0, "nvme": 1, "blk": 2, "md": 3, "ext4": 4, "xfs": 4, "fs": 4}
"""Families of storage, the lowest layer first."""
_MAPPED = re.compile(r"(?:dm-|md|nbd|loop|bcache)\d")
_PARTITION = re.compile(
    r"(?P<disk>nvme\d{1,3})(?:[cn]\d{1,3}){0,2}(?:p\d{1,3})?\Z|(?P<sd>(?:sd|vd|xvd|hd)[a-z]{1,3})\d{0,3}\Z"
)
_FAILS_S = 60.0
"""From the trouble of a disk to that of what rests on it: the kernel tries again for half a minute."""
_REPAIR_S = 30.0
_LOGGED_S = 60.0


def layer_of(sign: Sign) -> int | None:
    """Return the layer of storage that an event is of, None when it is of none."""
    return _LAYERS.get(sign.event.signature.partition(".")[0])


def rests_on_disk(main: Incident, part: Incident) -> bool:
    """Tell whether `part` is of a file system or volume on the disk that `main` saw fail before."""
    lower, upper = layer_of(main.first), layer_of(part.first)
    if not lower or upper is None or lower >= upper or main.first.index > part.first.index:
        return False
    below, above = _disk(main.first), _disk(part.first)
    same = below == above or any(name is None or _MAPPED.match(name) is not None for name in (below, above))
    return same and any(near(sign, part.first, _FAILS_S) for sign in main.signs)


def is_attempt_to_repair(main: Incident, part: Incident) -> bool:
    """Tell whether `part` is what drivers said when the kernel tried to bring back the link whose port `main` names."""
    if not all(sign.event.signature == "aer.recovery" for sign in part.signs):
        return False
    return any(
        sign.event.signature.startswith("aer.uncorrected")
        and (near(sign, other, _REPAIR_S) or near(other, sign, _REPAIR_S))
        for sign in main.signs
        for other in part.signs
    )


def gpus_below(incident: Incident, port: str | None) -> list[str]:
    """Return the slots of GPUs, other than `port`, whose driver could not take part when the kernel tried to bring a
    link back."""
    signs = [sign for sign in incident.signs if sign.event.signature == "aer.recovery"]
    slots = [sign.event.pci for sign in signs if sign.event.fields.get("driver") == "nvidia" and sign.event.pci]
    return [slot for slot in dict.fromkeys(slots) if slot != port]


def lowest(signs: Sequence[Sign]) -> Sign | None:
    """Return the earliest event of the lowest layer when all are of storage and of more than one layer."""
    layers = [layer_of(sign) for sign in signs]
    if None in layers or len(set(layers)) < 2:
        return None
    return min(signs, key=lambda sign: (layer_of(sign) or 0, sign.index))


def without_repeats(signs: Sequence[Sign]) -> list[Sign]:
    """Return the events without those that only say that machine checks were logged, where a line near them says which,
    and that it was repaired."""
    repaired = [sign for sign in signs if sign.event.signature in ("edac.ce", "mce.corrected")]
    if not repaired:
        return list(signs)
    lost = {host_of(sign) for sign in signs if sign.event.signature in ("edac.ue", "mce.panic", "memory_failure")}
    return [
        sign
        for sign in signs
        if sign.event.signature != "mce.logged"
        or "status" in sign.event.fields
        or host_of(sign) in lost
        or not any(
            host_of(other) == host_of(sign) and (near(sign, other, _LOGGED_S) or near(other, sign, _LOGGED_S))
            for other in repaired
        )
    ]


def what_failed(incident: Incident) -> Sign | None:
    """Return the event that says what kind of hardware the firmware reports an error of."""
    return next((sign for sign in incident.signs if sign.event.signature == "ghes.section"), None)


def _disk(sign: Sign) -> str | None:
    name = (sign.event.device or "").partition("/")[2] or str(sign.event.fields.get("dev") or "")
    match = _PARTITION.match(name)
    return (match["disk"] or match["sd"]) if match is not None else name or None
