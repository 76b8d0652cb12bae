"""What one part of a probe says (`wire.Part`), read: values, devices by name, words, processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stethoscope.model.metric import Scope
from stethoscope.model.wire import Cell


class Devices(msgspec.Struct, frozen=True, gc=False):
    """The devices of one scope that a group found, and their values in the same order."""

    names: tuple[str, ...]
    """As they stand in a place: `nvme0n1`, `0000:81:00.0`, `eth0`, `5/11` (GPU and link), `/scratch`."""
    values: Mapping[str, Sequence[Cell]] = {}
    """Metric -> a number or the word of a reason for each device."""
    about: Mapping[str, Mapping[str, str]] = {}
    """Device -> words about it: model, driver, type, what it is above or behind."""
    whole: bool = True
    """These are all devices of the scope: one that was there and is not named is gone. False for a group that only adds
    values to what another one found."""


class GpuProcess(msgspec.Struct, frozen=True, gc=False):
    """A process that holds a GPU."""

    pid: int
    gpu: int
    """Index of the GPU."""
    memory_mib: float | None = None
    kind: str = ""
    """C computes, G draws, C+G does both."""
    name: str = ""
    user: str = ""
    state: str = ""
    """Letter of its state as in ps: D waits for the kernel, Z is dead and not collected."""
    slurm_job: str = ""
    pod: str = ""
    """UID of the Kubernetes pod."""
    container: str = ""
    """Short id of the container that it runs in, when it is no pod's."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """A process that waits without end for the kernel (D) or is dead and not collected (Z)."""

    pid: int
    state: str
    name: str = ""
    user: str = ""
    waits_in: str = ""
    """The kernel function that it waits in, where the kernel tells."""
    on_gpu: bool = False
    """It holds, or held, a GPU."""


class Facts(msgspec.Struct, frozen=True, gc=False):
    """One part, read; metrics of its group that it does not name are not supported on this node."""

    group: str
    same: bool = False
    """Read again, and nothing has changed: everything else is empty."""
    node: Mapping[str, Cell] = {}
    gpu: Mapping[str, Sequence[Cell]] = {}
    """In the order of the inventory of the last full frame."""
    devices: Mapping[Scope, Devices] = {}
    words: Mapping[str, str] = {}
    """Versions and settings of the node, by the ids of `analysis.drift`: driver_version, cpu_governor ..."""
    gpu_words: Mapping[str, tuple[str, ...]] = {}
    """The same for each GPU: gpu_vbios_version ..."""
    processes: tuple[GpuProcess, ...] | None = None
    """None when the group does not look."""
    tasks: tuple[Task, ...] | None = None
    notes: Mapping[str, str] = {}
    """What the group cannot see, and why, as in frames."""
