"""What tools print about a whole job that no node answers alone: Slurm's records, the dumps of the flight recorder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim import slurm

if TYPE_CHECKING:
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.twin import Twin

_FORM = "%i %T %u %P %S %N"


def printed(twin: Twin, place: str, probe: str) -> str | None:
    """Return the text of a tool for a place `job/ID`; None for any other place or tool."""
    head, _, job = place.partition("/")
    run = twin.runs.get(job) if head == "job" else None
    if run is None:
        return None
    match probe:
        case "sacct":
            return slurm.answer(twin, ["sacct", "-P", "-j", job])[1]
        case "squeue":
            return slurm.answer(twin, ["squeue", "-o", _FORM])[1]
        case "scontrol":
            return slurm.answer(twin, ["scontrol", "show", "job", job])[1]
        case "flight_recorder":
            return _dumps(twin, run)
    return None


def _dumps(twin: Twin, run: JobRun) -> str:
    """Return what PyTorch's analyser says of the dumps of a job, in the order of its trace."""
    mismatch = run.effect.mismatch
    if mismatch is None or not mismatch.recorded or twin.t_s < (run.hung_since or 0.0):
        return "no dumps: the flight recorder is off (TORCH_NCCL_TRACE_BUFFER_SIZE is 0)\n"
    total, sequence = run.alive.size, run.sequence_at(twin.t_s)
    if mismatch.behind:
        return (
            f"Not all ranks joining collective, sequence number: {sequence}\ninternal record id: {sequence}\n"
            "group info: 0:default_pg\ncollective: nccl:all_reduce\n"
            f"missing ranks: {{{', '.join(map(str, mismatch.behind))}}}\ninput sizes: [[25165824]]\n"
            f"output sizes: [[25165824]]\nworld size: {total}\ncollective state: scheduled\n"
        )
    return (
        f"Collective sequence number: {sequence} has errors\ninternal record id: {sequence}\n"
        "group info: 0:default_pg\ncollective: nccl:all_reduce\n"
        "error: collectives do not match: FULLY_MATCHED is false, COLLECTIVE_TYPE_MISMATCH Expected collective type: "
        "nccl:all_reduce does not match found collective type: nccl:all_gather_into_tensor\n"
        f"rank 5: nccl:all_gather_into_tensor [[4096]] -> [[{4096 * total}]]\n"
        "rank 0: nccl:all_reduce [[25165824]] -> [[25165824]]\n"
        f"world size: {total}\ncollective state: scheduled\n"
    )
