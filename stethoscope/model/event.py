"""Log lines of nodes, cleaned, as the console keeps them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One cleaned log line of a node."""

    node: str
    source: str
    """kernel, job, slurm ..."""
    text: str
    at: float
    """Wall seconds of the console's clock: how long ago the node says it was, else the time it was received."""
    level: int | None = None
    xid: int | None = None
    """The Xid code, when the line is one."""
    pci: str | None = None
    """Address of the device the line is about, as `0000:4f:00`."""
