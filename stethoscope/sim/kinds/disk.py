"""Fault kinds of local disks and their file systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.sim.board import DISKS
from stethoscope.sim.kinds.kind import Kind, Line, progress
from stethoscope.specs.scenario import Param

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stethoscope.sim.effects import Effects
    from stethoscope.specs.scenario import Fault

_DIES_S = 15.0
"""How long after its first rank a job ends."""


class _OnDisk(Kind):
    """A fault of one disk of a node."""

    targets = frozenset({"disk"})

    def __init__(self, fault: Fault) -> None:
        """Find the disk."""
        super().__init__(fault)
        self.disk = DISKS.index(fault.where.name)

    def local_rank(self) -> int | None:
        """Return the rank that touches the disk first."""
        return self.node

    def kill(self, effects: Effects, since_s: float) -> None:
        """Let the rank that touched the disk `since_s` seconds ago die, and after a while its job."""
        effects.dead[self.node, self.node % effects.layout.gpu_shape[1]] = True
        job = effects.layout.job_of(self.node)
        if job is not None and since_s >= _DIES_S:
            effects.ended.add(job.id)


class LocalNvmeSlow(_OnDisk):
    """A disk behind its write cliff: milliseconds for each request, and ranks that wait for their data."""

    name = "local_nvme_slow"
    title = "A local disk gets slow under writes"
    root_cause = "storage_io"
    scope = "local"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "write_lat_ms": Param(8.0, "ms", meaning="what a write takes; 0.12 is healthy"),
        "read_lat_ms": Param(3.0, "ms", meaning="what a read takes; 0.10 is healthy"),
        "stall_s": Param(0.5, "s", meaning="for how long ranks of the node wait for data in each step"),
        "ramp": Param("60s", "s", meaning="until it is that slow"),
    }

    def ramp(self) -> tuple[float, float]:
        """Return the whole ramp."""
        return (0.0, self.number("ramp"))

    def apply(self, effects: Effects, age_s: float) -> None:
        """Slow the disk down under what is written to it, and stall the ranks."""
        reached = progress(age_s, *self.ramp())
        at = (self.node, self.disk)
        effects.write_ms[at] += max(self.number("write_lat_ms") - 0.12, 0) * reached
        effects.read_ms[at] += max(self.number("read_lat_ms") - 0.10, 0) * reached
        effects.writes_per_s[at] += 2500 * reached
        effects.disk_busy[at] += 0.95 * reached
        effects.stall_s[self.node] += self.number("stall_s") * reached
        effects.add("cpu_iowait", 12 * reached, self.node)
        effects.add("psi_io_some", 30 * reached, self.node)
        effects.add("psi_io_full", 12 * reached, self.node)
        effects.hogs.setdefault(self.node, []).append(("cache_writer", 1.0))


class NvmeWearout(_OnDisk):
    """A disk at the end of its life; at last it cannot read what it holds, and the rank that asked dies."""

    name = "nvme_wearout"
    title = "A disk is worn out"
    root_cause = "disk_wear"
    scope = "local"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "percentage_used": Param(104.0, "%", meaning="of its rated life"),
        "available_spare_pct": Param(4.0, "%", meaning="spare blocks left; 10 is its limit"),
        "reallocated": Param(217.0, "count", meaning="sectors that were replaced"),
        "wearout_indicator": Param(8.0, "points", meaning="of 100"),
        "media_errors": Param(31.0, "count", meaning="data that it lost"),
        "eio_after": Param(None, "s", meaning="when a read fails and its rank dies"),
        "read_lat_ms": Param(1.5, "ms", meaning="what a read takes; 0.10 is healthy"),
    }
    lines = (
        Line(
            "syslog", 0.0, "node",
            "smartd[1801]: Device: /dev/{ctrl}, Critical Warning (0x05): Spare Reliability",
        ),
        Line(
            "kernel", "eio_after", "node",
            "critical medium error, dev {disk}, sector 1837221888 op 0x0:(READ) flags 0x80700 phys_seg 2 prio class 0",
        ),
        Line(
            "job", "eio_after", "self",
            "[rank{rank}]: OSError: [Errno 5] Input/output error: '/local/cache/shard-00817.bin'",
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the first read that fails, and the end of the job."""
        return (self.number("eio_after"), self.number("eio_after") + _DIES_S) if self.given("eio_after") else ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Let the disk say how it is, and let a rank die of it."""
        where = self.fault.where.text
        states = {
            "nvme_percentage_used": "percentage_used",
            "nvme_available_spare": "available_spare_pct",
            "smart_wearout_indicator": "wearout_indicator",
        }
        for metric, param in states.items():
            effects.shown[where, metric] = self.number(param)
        effects.shown[where, "nvme_critical_warning"] = 5.0
        effects.count(where, "nvme_media_errors", self.number("media_errors"))
        effects.count(where, "smart_reallocated_sectors", self.number("reallocated"))
        effects.grow(where, "smart_reallocated_sectors", 1 / 240)
        effects.read_ms[self.node, self.disk] += max(self.number("read_lat_ms") - 0.10, 0)
        if self.given("eio_after") and age_s >= self.number("eio_after"):
            effects.grow(where, "nvme_media_errors", 1 / 60)
            self.kill(effects, age_s - self.number("eio_after"))


class DiskFull(_OnDisk):
    """A local file system is full."""

    name = "disk_full"
    title = "A local file system is full"
    root_cause = "fs_full_or_readonly"
    scope = "local"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {
        "used_pct": Param(100.0, "%", meaning="how full it is"),
        "crash": Param(True, "bool", meaning="the job writes there"),
    }
    lines = (
        Line(
            "job", 2.0, "self",
            "[rank{rank}]: OSError: [Errno 28] No space left on device: '/local/tmp/torchinductor/cache'",
            when={"crash": True},
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the deaths of the rank and of the job."""
        return (2.0, 2.0 + _DIES_S) if self.fault.params["crash"] else ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Fill the file system, and let a rank die that writes there."""
        where = (self.fault.where.text, "fs_used")
        before = effects.shown.get(where)
        effects.shown[where] = max(self.number("used_pct"), before if isinstance(before, float) else 0.0)
        if self.fault.params["crash"] and age_s >= 2:
            self.kill(effects, age_s - 2)


class FsReadonly(_OnDisk):
    """The kernel took a local file system's writes away."""

    name = "fs_readonly"
    title = "A local file system becomes read-only"
    root_cause = "fs_full_or_readonly"
    scope = "local"
    severity = "P1"
    params: ClassVar[Mapping[str, Param]] = {"crash": Param(True, "bool", meaning="the job writes there")}
    lines = (
        Line("kernel", 0.0, "node", "EXT4-fs ({disk}): Remounting filesystem read-only"),
        Line(
            "job", 2.0, "self",
            "[rank{rank}]: OSError: [Errno 30] Read-only file system: '/local/tmp/rank.log'",
            when={"crash": True},
        ),
    )  # fmt: skip

    def changes(self) -> Iterable[float]:
        """Return the deaths of the rank and of the job."""
        return (2.0, 2.0 + _DIES_S) if self.fault.params["crash"] else ()

    def apply(self, effects: Effects, age_s: float) -> None:
        """Take the writes away, and let a rank die that writes there."""
        effects.shown[self.fault.where.text, "fs_readonly"] = 1.0
        if self.fault.params["crash"] and age_s >= 2:
            self.kill(effects, age_s - 2)


KINDS = (LocalNvmeSlow, NvmeWearout, DiskFull, FsReadonly)
