"""What tools print that look into the training processes of a simulated node: stacks, environments, communicators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.sim.board import rank_pid
from stethoscope.sim.clients import READ_BYTES, WRITE_BYTES

if TYPE_CHECKING:
    from stethoscope.sim.files.view import View
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.twin import Twin

_TRAIN = "/shared/train/train.py"
_LOADER = (
    "select (selectors.py:416)", "wait (multiprocessing/connection.py:931)",
    "_poll (multiprocessing/connection.py:424)", "get (multiprocessing/queues.py:113)",
    "_try_get_data (torch/utils/data/dataloader.py:1243)",
    "_next_data (torch/utils/data/dataloader.py:1448)", "__next__ (torch/utils/data/dataloader.py:701)",
    f"train ({_TRAIN}:388)",
)  # fmt: skip
_REDUCING = (
    "all_reduce (torch/distributed/distributed_c10d.py:2501)", "wrapper (torch/distributed/c10d_logger.py:83)",
    f"reduce_gradients ({_TRAIN}:301)", f"train_step ({_TRAIN}:412)", f"train ({_TRAIN}:396)",
)  # fmt: skip
_GATHERING = (
    "all_gather_into_tensor (torch/distributed/distributed_c10d.py:3503)",
    "wrapper (torch/distributed/c10d_logger.py:83)", f"log_metrics ({_TRAIN}:455)", f"train ({_TRAIN}:401)",
)  # fmt: skip
_BARRIER = (
    "barrier (torch/distributed/distributed_c10d.py:4159)", "wrapper (torch/distributed/c10d_logger.py:83)",
    f"train ({_TRAIN}:407)",
)  # fmt: skip
_STEPPING = (
    "_engine_run_backward (torch/autograd/graph.py:825)", "backward (torch/autograd/__init__.py:347)",
    "backward (torch/_tensor.py:581)", f"train_step ({_TRAIN}:409)", f"train ({_TRAIN}:396)",
)  # fmt: skip
_STACKS = {
    "load": _LOADER,
    "wait_for_loader": _LOADER,
    "save": (
        "__exit__ (torch/serialization.py:784)", "save (torch/serialization.py:850)",
        "save_checkpoint (/shared/train/checkpointing.py:118)", f"train ({_TRAIN}:421)",
    ),
    "prepare": (
        "_map_single (datasets/arrow_dataset.py:3401)", "map (datasets/arrow_dataset.py:3074)",
        "tokenize (/shared/train/prepare.py:77)",
    ),
    "elsewhere": (f"evaluate ({_TRAIN}:512)", f"train ({_TRAIN}:431)"),
}  # fmt: skip


def stacks(view: View) -> str:
    """Return the stacks of the ranks on a node, each behind its number."""
    twin, found = view.twin, []
    for run, rank, gpu in _ranks(view):
        pid = rank_pid(view.node, gpu)
        frames = (*_frames(twin, run, (view.node, gpu), rank), f"main ({_TRAIN}:560)", f"<module> ({_TRAIN}:574)")
        state = "idle" if frames[0] in (_LOADER[0], _REDUCING[0], _GATHERING[0], _BARRIER[0]) else "active"
        found.append(
            f"rank {rank}\nProcess {pid}: python3 -u {_TRAIN} --config large.yaml\n"
            "Python v3.10.12 (/usr/bin/python3.10)\n\n"
            f'Thread {pid} ({state}): "MainThread"\n' + "".join(f"    {frame}\n" for frame in frames) + "\n"
        )
    return "".join(found)


def _ranks(view: View) -> list[tuple[JobRun, int, int]]:
    """Return the living ranks of a node: run, rank, GPU."""
    found = []
    for run in view.twin.runs.values():
        if view.node in run.job.nodes:
            row = run.job.nodes.index(view.node)
            found += [(run, row * view.gpus + gpu, gpu) for gpu in range(view.gpus) if run.alive[row, gpu]]
    return found


def _frames(twin: Twin, run: JobRun, spot: tuple[int, int], rank: int) -> tuple[str, ...]:
    doing = twin.effects.doing.get(spot)
    if doing is not None:
        return _STACKS[doing]
    if run.effect.is_saving:
        return _STACKS["save"]
    if run.step is not None:
        return _STEPPING
    if run.waits_at_barrier:
        return _BARRIER
    mismatch = run.effect.mismatch
    return _GATHERING if mismatch is not None and mismatch.stacks_differ and _is_elsewhere(rank) else _REDUCING


def _is_elsewhere(rank: int) -> bool:
    """Tell whether a rank is one of the few that have taken another branch of the program, where nobody says which."""
    return rank % 16 == 5


def environment(view: View) -> str:
    """Return versions of a node, and the variables that its ranks were started with."""
    twin, build = view.twin, view.build
    lines = [f"host driver {build.driver_version}", f"host kernel {build.kernel}", f"host nccl {build.nccl_version}"]
    for run, rank, _ in _ranks(view):
        variables = {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(view.gpus))),
            "NCCL_DEBUG": "INFO",
            "NCCL_IB_HCA": "mlx5",
            "NCCL_SOCKET_IFNAME": "bond0",
            "SLURM_JOB_ID": run.job.id,
            "WORLD_SIZE": str(len(run.job.nodes) * view.gpus),
        }
        if run.job.id in twin.effects.over_ethernet:
            variables |= {"NCCL_IB_HCA": "mlx4_0", "NCCL_SOCKET_IFNAME": "eno1"}
        if run.effect.mismatch is not None and run.effect.mismatch.recorded:
            variables["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "2000"
        variables |= run.effect.environment.get(view.node, {})
        lines += [f"rank {rank} {name}={value}" for name, value in sorted(variables.items())]
    return "".join(f"{line}\n" for line in lines)


def communicators(view: View) -> tuple[int, str, str]:
    """Return what `ncclras -v` prints of the job on a node: exit status, output, error output."""
    twin = view.twin
    run = next((run for run in twin.runs.values() if view.node in run.job.nodes and run.alive.any()), None)
    if run is None:
        return 1, "", "Connecting to localhost:28028: Connection refused\n"
    nodes, gpus = len(run.job.nodes), view.gpus
    total, operation = nodes * gpus, 6 * run.sequence_at(twin.t_s)
    dead = [rank for rank in range(total) if not run.alive[rank // gpus, rank % gpus]]
    behind = [rank for rank in range(total) if run.absent[rank // gpus, rank % gpus] and rank not in dead]
    mismatch = run.effect.mismatch
    if mismatch is not None and mismatch.ras == "ok":
        behind = []
    elif mismatch is not None and not behind and not dead:
        behind = [rank for rank in range(total) if _is_elsewhere(rank)]
    word = "INCOMPLETE" if dead else "MISMATCH" if behind else "OK"
    text = (
        f"NCCL version {view.build.nccl_version} compiled with CUDA {view.build.cuda_version}\n\n"
        "Job summary\n===========\n\n"
        "  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
        f"{nodes:7d}{gpus:11d}{1:13d}{total:11d}{total:9d}\n\nCommunicators... (0.00s)\n=============\n\n"
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
        "    #  in group  per comm  per node  per comm  in group\n"
        f"    0         1{nodes:10d}{gpus:10d}{total:10d}{total:10d}   RUNNING  {word}\n"
    )
    comm = "#0-0 (27a079b828ff1a75)"
    if dead:
        lost = "".join(
            f"  Process {rank_pid(run.job.nodes[rank // gpus], rank % gpus)} on node "
            f"{twin.layout.nodes[run.job.nodes[rank // gpus]]} managing GPU {rank % gpus}\n"
            for rank in dead
        )
        text += (
            f"\nErrors\n======\n\nDEAD\n  {_many(len(dead), 'job process')} considered dead "
            "(unreachable via the RAS network)\n"
            f"{lost}\n{comm} INCOMPLETE\n  Missing communicator data from {len(dead)} rank{'s' * (len(dead) > 1)}\n"
            f"  The missing rank{'s' * (len(dead) > 1)}: {', '.join(map(str, dead))}\n"
        )
    if behind:
        rows = "".join(
            f"  Rank {rank} -- GPU {rank % gpus} managed by process "
            f"{rank_pid(run.job.nodes[rank // gpus], rank % gpus)} on node "
            f"{twin.layout.nodes[run.job.nodes[rank // gpus]]}\n"
            for rank in behind
        )
        ahead = total - len(behind) - len(dead)
        text += (
            f"\nWarnings\n========\n\n{comm} MISMATCH\n"
            "  Communicator ranks have different collective operation counts\n"
            f"  {_have(ahead)} launched up to operation {operation}\n"
            f"  {_have(len(behind))} launched up to operation {operation - 1}\n{rows}"
        )
    return 0, text, ""


def _many(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}es are"


def _have(count: int) -> str:
    return f"{count} rank has" if count == 1 else f"{count} ranks have"


def storage_times(view: View) -> str:
    """Return how long the requests of a node to the shared file system take, as nfsiostat prints it."""
    rates = {name: float(view.twin.machine.rates[f"nfs_{name}"][view.node]) for name in _RATES}
    name = view.twin.layout.storage
    asked = rates["reads"] + rates["writes"]
    text = (
        f"{name}:/{name} mounted on /{name}:\n\n           ops/s       rpc bklog\n"
        f"{asked:16.3f}{1 + rates['backlog'] / max(asked, 1e-9):16.3f}\n\n"
    )
    for op, size in (("read", READ_BYTES), ("write", WRITE_BYTES)):
        count = rates[f"{op}s"]
        per = max(count, 1e-9)
        rtt, queue = rates[f"{op}_time"] / per, rates[f"{op}_queue"] / per
        head = f"{op}:"
        again = round(3 * rates["again"]) if op == "read" else 0
        text += (
            f"{head:<16} ops/s            kB/s           kB/op         retrans    avg RTT (ms)    avg exe (ms)"
            "  avg queue (ms)\n"
            f"{count:22.3f}{count * size / 1024:16.3f}{size / 1024:16.3f}{again:9d} "
            f"({33.3 * again / max(count, 1):.1f}%)"
            f"{rtt:16.3f}{rtt + queue:16.3f}{queue:16.3f}\n"
        )
    return text + "\n"


_RATES = ("reads", "writes", "read_time", "read_queue", "write_time", "write_queue", "again", "backlog")


def lustre_imports(view: View) -> str:
    """Return what `lctl get_param osc.*.import` prints where the shared file system is Lustre."""
    storage = view.twin.effects.storage
    wait_ms = 2.0 if storage is None else storage.read_ms
    waiting = 1 if storage is None else round(min(storage.backlog, 64))
    name, text = view.twin.layout.storage, ""
    for target in range(4):
        state = "DISCONN" if storage is not None and storage.is_silent and target == 1 else "FULL"
        text += (
            f"osc.{name}-OST{target:04d}-osc-ffff9a3c8d2e1000.import=\nimport:\n    name: {name}-OST{target:04d}-osc\n"
            f"    target: {name}-OST{target:04d}_UUID\n    state: {state}\n    rpcs:\n       inflight: {waiting}\n"
            f"       avg_waittime: {round(1000 * wait_ms)} usec\n"
        )
    return text
