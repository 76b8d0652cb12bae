"""Words that a filter knows beside metrics: what may be asked about a node that is no number of the catalogue."""

from __future__ import annotations

from stethoscope.model.metric import Scope

FIELDS: dict[str, str] = {
    "host": "name of the node",
    "rack": "rack of the fleet file",
    "pod": "pod of the fleet file",
    "leaf": "leaf switch that a port is plugged into",
    "job": "id or name of a job on the node",
    "user": "who runs a job, or a process on a GPU",
    "partition": "Slurm partition of a job on the node",
    "state": "live stale lost connecting, hung, idle, drained, or words of the link and of Slurm",
    "severity": "severity of a finding: P0 is above P1",
    "finding": "rule, cause or words of a finding",
    "driver": "version of the GPU driver",
    "cuda": "CUDA version of the driver",
    "kernel": "version of the kernel",
    "product": "vendor and model of the machine",
    "model": "model of a GPU, or of a disk inside disk[...]",
    "device": "a device by its own name, inside gpu[...], ib[...] and the like",
}
"""Name of each, and what it is."""

SCOPE_WORDS: dict[str, Scope] = {
    "gpu": Scope.GPU,
    "ib": Scope.PORT,
    "port": Scope.PORT,
    "nvlink": Scope.NVLINK,
    "pcie": Scope.PCIE,
    "net": Scope.NET,
    "disk": Scope.DISK,
    "fs": Scope.FS,
}
"""Words before `[...]` that say which device the conditions in it are about; the first of a scope is how it is
printed."""

QUANTIFIERS = ("all", "any")

RESERVED = frozenset({*FIELDS, *SCOPE_WORDS, *QUANTIFIERS, "missing", "none", "warn", "critical"})
"""Words that cannot name a metric."""
