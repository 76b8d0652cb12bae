"""How far the clock is from its source, as chrony, systemd or ntpd say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.facts import Facts
from stethoscope.parse.groups.values import ERROR, HUNG, UNSUPPORTED, answer, real

if TYPE_CHECKING:
    from stethoscope.model import wire
    from stethoscope.model.wire import Cell

_TRACKING_FIELDS = 14
_UNSYNCHRONISED = "Not synchronised"
_PEER_COLUMNS = 10
_ITSELF, _ITSELF_NTPD = "7F7F0101", ".LOCL."
"""Reference of a daemon that follows the clock that it keeps, because it has no other."""


class _Clock(NamedTuple):
    offset_s: Cell
    """The node's clock minus its source's: above 0 the node is ahead."""
    synchronised: Cell
    source: str


def read(part: wire.Part) -> Facts:
    """Return what the daemon that keeps the time says; systemd knows whether the kernel's clock is synchronised by
    any."""
    found = _chrony(part) or _ntpd(part)
    systemd = _systemd(part)
    if found is None:
        found = systemd or _Clock(*_neither(part), "")
    elif found.synchronised not in (0, 1) and systemd is not None:
        found = found._replace(synchronised=systemd.synchronised)
    words = {"time_source": found.source} if found.source else {}
    node = {"clock_offset": found.offset_s, "clock_synchronised": found.synchronised}
    return Facts(part.name, node=node, words=words)


def _neither(part: wire.Part) -> tuple[Cell, Cell]:
    words = [answer(part, name)[1] for name in ("chrony", "timedate", "ntpq")]
    word = HUNG if HUNG in words else UNSUPPORTED
    return word, word


def _chrony(part: wire.Part) -> _Clock | None:
    """Return what `chronyc -c tracking` says, None where it does not reach the daemon.

    The fifth field is what is still to be added to the system's clock: above 0 the clock is behind, "slow of NTP time".
    """
    ran, word = answer(part, "chrony")
    if ran is None or word:
        return None
    fields = ran.out.strip().split("\n")[-1].split(",")
    if len(fields) < _TRACKING_FIELDS:
        return None
    leap, correction = fields[13].strip(), real(fields[4])
    if leap == _UNSYNCHRONISED or fields[0].strip() == _ITSELF:
        return _Clock(UNSUPPORTED, 0, "chrony")
    return _Clock(ERROR if correction is None else -correction, 1, "chrony")


def _ntpd(part: wire.Part) -> _Clock | None:
    """Return what `ntpq -pn` says of the peer that it follows: its clock minus ours, in milliseconds."""
    ran, word = answer(part, "ntpq")
    if ran is None or word:
        return None
    peers = [entry for entry in ran.out.split("\n") if len(entry.split()) >= _PEER_COLUMNS and "refid" not in entry]
    if not peers:
        return None
    for entry in peers:
        if entry[0] in "*o" and _ITSELF_NTPD not in entry:
            offset_ms = real(entry.split()[8])
            return _Clock(ERROR if offset_ms is None else -offset_ms / 1000, 1, "ntpd")
    return _Clock(UNSUPPORTED, 0, "ntpd")


def _systemd(part: wire.Part) -> _Clock | None:
    """Return what `timedatectl show` says: whether the kernel's clock is synchronised, not how well."""
    ran, word = answer(part, "timedate")
    if ran is None or word:
        return None
    said = dict(entry.partition("=")[::2] for entry in ran.out.split("\n"))
    synchronised = {"yes": 1, "no": 0}.get(said.get("NTPSynchronized", "").strip())
    if synchronised is None:
        return None
    return _Clock(UNSUPPORTED, synchronised, "systemd-timesyncd" if said.get("NTP", "").strip() == "yes" else "")
