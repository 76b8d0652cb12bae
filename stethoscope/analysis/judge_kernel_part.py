"""Kernel lines beside those of a job: the kernel's judge speaks for them, alone or as one voice of several."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, Candidate, Note, make_culprit
from stethoscope.analysis.judge_kernel import judge_kernel
from stethoscope.analysis.judge_scene import of_kernel
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import KnownSignatures, Scene
    from stethoscope.model.logs import Log, LogVerdict

STORM = 3
"""So many link errors are no accident."""
_NODE = ("slurm.gres_low", "k8s.device_plugin")
"""What a scheduler says of a node's hardware, not of a job."""
_OF_JOBS = ("slurm.", "k8s.", "container.exit")
"""What schedulers say of jobs and pods."""
_SHARED = ("nfs.", "lustre.", "beegfs.", "gpfs.", "weka.", "ceph.")
_SETTLED_ELSEWHERE = {"host_oom", "healthy", "unknown", "scheduler_preemption"}


def kernel_alone(log: Log, signatures: KnownSignatures | None = None) -> list[LogVerdict] | None:
    """Return the verdicts of a log that holds kernel lines and none of a job; None for other logs."""
    if not any(of_kernel(event) for event in log.events):
        return None
    if any(not of_kernel(event) for event in log.events if event.role != "benign"):
        return None
    if all(event.signature.startswith(_OF_JOBS) and event.signature not in _NODE for event in log.events):
        return None
    return judge_kernel(log, signatures)


def kernel_candidates(scene: Scene, signatures: KnownSignatures | None = None) -> list[Candidate]:
    """Return what the kernel lines of a mixed log say."""
    events = [event for event in scene.log.events if of_kernel(event) and not event.signature.startswith(_OF_JOBS)]
    if not any(event.role in {"cause", "either", "symptom"} for event in events):
        return []
    found = []
    for verdict in judge_kernel(replace(scene.log, events=events), signatures):
        if verdict.root_cause in _SETTLED_ELSEWHERE:
            continue
        cause = verdict.root_cause
        if cause == "shared_fs_stall" and len({c.host for c in scene.family(*_SHARED) if c.host}) < 2:
            cause = "storage_io"  # one host's mount; many hosts would be the file system
        clues = [c for c in scene.clues if c.signature == verdict.signature] or [
            c for c in scene.clues if of_kernel(c.event)
        ]
        culprits = [c if c.host else replace(c, host=scene.who.only_host()) for c in verdict.culprits]
        found.append(
            Candidate(
                cause,
                verdict.confidence,
                clues,
                DIRECT,
                culprits,
                summary=verdict.summary,
                is_sentence=True,
                severity=verdict.severity if verdict.severity is Severity.P0 else None,
                supports=[Note("the kernel log says so", clues[0])] if clues else [],
                checks=list(verdict.next_checks),
                missing=list(verdict.missing),
                signature=verdict.signature,
            )
        )
    return [*found, *_bus_before_loss(scene)]


def _bus_before_loss(scene: Scene) -> list[Candidate]:
    """Errors of a PCIe link that come before a GPU is lost are the reason of the loss."""
    errors = scene.family("aer.")
    lost = [c for c in scene.find("xid.79") + scene.family("nvrm.off_bus", "nvrm.gpu_lost") if of_kernel(c.event)]
    if not errors or not lost or errors[0].index > lost[0].index:
        return []
    count = sum(c.event.count for c in errors if c.signature.startswith(("aer.corrected", "aer.uncorrected")))
    if count < STORM:
        return []
    culprits = [make_culprit(scene, None, lost[0].host, lost[0].event.device or errors[0].event.device)]
    note = Note(f"{count} errors of the PCIe link before the GPU was lost", errors[0], str(count), "0")
    return [Candidate("pcie_fault", 0.9, [*errors, *lost], DIRECT, culprits, supports=[note])]
