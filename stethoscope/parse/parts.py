"""One part of a probe, the raw text of a group of files and commands, to facts (probes/manifest.yaml, `watch`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.model.facts import Facts
from stethoscope.parse.groups import bmc, clock, disks, gpu, host, identity, mounts, net, pcie, smart, tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stethoscope.model import wire

READERS: Mapping[str, Callable[[wire.Part], Facts]] = {
    "gpu": gpu.read,
    "pcie": pcie.read,
    "disks": disks.read,
    "mounts": mounts.read,
    "net": net.read,
    "host": host.read,
    "clock": clock.read,
    "tuning": tuning.read,
    "identity": identity.read,
    "smart": smart.read,
    "bmc": bmc.read,
}


def read_part(message: wire.Part) -> Facts:
    """Return what a cleaned part says; a group that nobody reads says nothing, and text that makes no sense is a reason
    in place of a number."""
    if message.same:
        return Facts(message.name, same=True)
    reader = READERS.get(message.name)
    return Facts(message.name) if reader is None else reader(message)
