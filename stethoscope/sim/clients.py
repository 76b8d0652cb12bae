"""The shared file system as the nodes of a fleet meet it: how long they wait for it, and what their clients count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.sim.job_effects import Storage

if TYPE_CHECKING:
    from stethoscope.sim.effects import Effects
    from stethoscope.sim.machine import Machine
    from stethoscope.sim.noise import Floats
    from stethoscope.sim.run import JobRun

SLOTS = 64
"""Requests that a client has under way at once."""
READ_BYTES, WRITE_BYTES = 262_144, 1_048_576
_READS, _WRITES = 30.0, 4.0
"""Requests a second of a node whose loaders work at their healthy pace."""
_AGAIN = 0.5
"""Requests a second that a client sends again while its server is silent."""


def wait_share(run: JobRun, effects: Effects) -> Floats:
    """Return for which share (0..1) of a step each node of a job waits for a file system."""
    if run.step is None:
        return np.zeros(len(run.rows))
    share: Floats = np.minimum(effects.io_stall_s[run.rows].max(axis=1) / run.step.step_s, 1.0)
    return share


def rates(now: Machine, effects: Effects) -> dict[str, Floats]:
    """Return how fast the counters of each node's client grow: requests, and milliseconds that they were queued and
    under way, in sum."""
    storage = effects.storage or Storage()
    reads, writes = _READS * now.loading, _WRITES * now.loading + effects.nfs_writes
    # What waits for a slot waits on the client; the rest of the time the server has it.
    queued = 0.0 if storage.backlog <= 2 else min(storage.backlog / (storage.backlog + SLOTS), 0.85)
    return {
        "nfs_reads": reads,
        "nfs_writes": writes,
        "nfs_read_time": reads * storage.read_ms * (1 - queued),
        "nfs_read_queue": reads * storage.read_ms * queued,
        "nfs_write_time": writes * storage.write_ms * (1 - queued),
        "nfs_write_queue": writes * storage.write_ms * queued,
        "nfs_again": np.full(len(now.loading), _AGAIN if storage.is_silent else 0.0),
        "nfs_backlog": (reads + writes) * max(storage.backlog - 1.0, 0.0),
    }


def stuck_tasks(share: Floats) -> Floats:
    """Return how many tasks of a node are in uninterruptible sleep when it waits for so much of its time."""
    tasks: Floats = np.rint(np.where(share > 0.02, 2 + 6 * share, 0.0))
    return tasks
