"""Whose a process is, from /proc/PID/cgroup: a Slurm job, a Kubernetes pod, or a container."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_JOB = re.compile(r"/job_(\d{1,10})(?=/|$)", re.ASCII | re.MULTILINE)
"""`/slurm/uid_1000/job_4242/step_0` under cgroup v1, `/system.slice/slurmstepd.scope/job_4242/step_0` under v2."""
_POD = re.compile(r"pod([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])")
"""systemd's slices write the UID with `_`; a static pod has a hash."""
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_SHORT = 12
_LONGEST = 8192


class Owner(NamedTuple):
    """What a process belongs to; empty for what it does not."""

    slurm_job: str = ""
    pod: str = ""
    container: str = ""


def owner(text: str) -> Owner:
    """Return whose the process with these control groups is."""
    return _owner(text[:_LONGEST])


@lru_cache(maxsize=1024)
def _owner(text: str) -> Owner:
    job, pod = _JOB.search(text), _POD.search(text)
    if pod is not None:
        return Owner(job[1] if job else "", pod[1].replace("_", "-"))
    # The innermost one is the container that the process is in.
    containers = _CONTAINER.findall(text)
    return Owner(job[1] if job else "", "", containers[-1][:_SHORT] if containers else "")
