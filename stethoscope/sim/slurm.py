"""What Slurm's commands print about a simulated fleet, in the forms of version 24.11."""

from __future__ import annotations

import itertools
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stethoscope.errors import UsageError
from stethoscope.model.ids import expand, fold
from stethoscope.sim.logs import path_of

if TYPE_CHECKING:
    from stethoscope.sim.run import JobRun
    from stethoscope.sim.twin import Twin

VERSION = "24.11.7"
PARTITION = "train"
_FORM = {
    "allocated": ["ALLOCATED"], "idle": ["IDLE"], "down*": ["DOWN", "NOT_RESPONDING"], "drained": ["IDLE", "DRAIN"],
    "draining": ["ALLOCATED", "DRAIN"], "inval": ["IDLE", "DRAIN", "INVALID_REG"],
}  # fmt: skip
_CORES = 96


def answer(twin: Twin, words: list[str]) -> tuple[int, str, str]:
    """Return exit status, output and error output of one of Slurm's commands."""
    match words:
        case ["scontrol", "--version"]:
            return 0, f"slurm {VERSION}\n", ""
        case ["scontrol", "show", "node" | "nodes", *rest]:
            return _show_node(twin, rest)
        case ["scontrol", "show", "job" | "jobs", *rest]:
            return _show_job(twin, rest)
        case ["scontrol", "show", "partition", *rest]:
            if [word for word in rest if not word.startswith("-")] not in ([], [PARTITION]):
                return 1, "", "Partition not found\n"
            nodes = fold(twin.layout.nodes)
            return (
                0,
                f"PartitionName={PARTITION} Default=YES Nodes={nodes} State=UP TotalNodes={len(twin.layout.nodes)}\n",
                "",
            )
        case ["scontrol", "show", "topology"]:
            return 0, _topology(twin), ""
        case ["squeue", *_, form]:
            return 0, _squeue(twin, form), ""
        case ["sacct", *rest]:
            return _sacct(twin, rest)
    return 1, "", f"{words[0]}: invalid arguments\n"


def _show_node(twin: Twin, rest: list[str]) -> tuple[int, str, str]:
    names = [word for word in rest if not word.startswith("-")]
    try:
        wanted = expand(names[0]) if names else twin.layout.nodes
    except UsageError:
        wanted = names
    unknown = [name for name in wanted if name not in twin.layout.numbers]
    if unknown:
        return 1, f"Node {unknown[0]} not found\n", ""
    rows = [twin.layout.numbers[name] for name in wanted]
    if "--json" in rest:
        meta = {"slurm": {"version": {"major": "24", "micro": "7", "minor": "11"}, "release": VERSION}}
        document = {"nodes": [_node_json(twin, row) for row in rows], "meta": meta, "errors": [], "warnings": []}
        return 0, json.dumps(document) + "\n", ""
    parts = [_node_fields(twin, row) for row in rows]
    if "-o" in rest or "--oneliner" in rest:
        return 0, "".join(" ".join(lines) + "\n" for lines in parts), ""
    return 0, "".join("\n   ".join(lines) + "\n\n" for lines in parts), ""


def _node_fields(twin: Twin, row: int) -> list[str]:
    name, states = twin.layout.nodes[row], _FORM.get(twin.slurm_state(row), ["UNKNOWN"])
    lines = [
        f"NodeName={name} Arch=x86_64 CoresPerSocket=48",
        f"Gres=gpu:{_model(twin)}:{twin.layout.gpu_shape[1]}(S:0-1)",
        f"NodeAddr={name} NodeHostName={name} Version={VERSION}",
        f"OS=Linux {twin.builds.of(row).kernel} #123-Ubuntu SMP",
        f"State={'+'.join(states)} ThreadsPerCore=2 Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={PARTITION}",
    ]
    reason = twin.slurm_reason(row)
    if reason is not None:
        lines.append(f"Reason={reason[0]} [{reason[1]}@{_time(twin.wall_at_0 + reason[2])}]")
    return lines


def _node_json(twin: Twin, row: int) -> dict[str, Any]:
    name = twin.layout.nodes[row]
    reason, owner, since_s = twin.slurm_reason(row) or ("", "", 0.0)
    return {
        "name": name,
        "address": name,
        "hostname": name,
        "state": _FORM.get(twin.slurm_state(row), ["UNKNOWN"]),
        "gres": f"gpu:{_model(twin)}:{twin.layout.gpu_shape[1]}(S:0-1)",
        "partitions": [PARTITION],
        "reason": reason,
        "reason_set_by_user": owner,
        "reason_changed_at": {
            "set": bool(reason),
            "infinite": False,
            "number": int(twin.wall_at_0 + since_s) if reason else 0,
        },
        "version": VERSION,
    }


def _show_job(twin: Twin, rest: list[str]) -> tuple[int, str, str]:
    names = [word for word in rest if not word.startswith("-")]
    if names and names[0] not in twin.runs:
        return 1, "", "slurm_load_jobs error: Invalid job id specified\n"
    records = []
    for job in names or twin.runs:
        run = twin.runs[job]
        nodes = [twin.layout.nodes[row] for row in run.job.nodes]
        state, code, reason = outcome(run, twin.t_s)
        records.append(
            [
                f"JobId={job} JobName=train-{job}",
                "UserId=alice(1001) GroupId=research(1001) MCS_label=N/A",
                f"JobState={state} Reason={reason} Dependency=(null)",
                f"Requeue=1 Restarts={int(run.began_s is not None)} BatchFlag=1 Reboot=0 ExitCode={code}",
                f"StartTime={_started(twin, run)} EndTime={_ended(twin, run)} Deadline=N/A",
                f"Partition={PARTITION} AllocNode:Sid=login:4242",
                f"NodeList={fold(nodes)}",
                f"BatchHost={nodes[0]}",
                f"NumNodes={len(nodes)} NumCPUs={len(nodes) * _CORES}",
                "WorkDir=/shared/train",
                f"StdOut={path_of(job)}",
            ]
        )
    joiner, end = (" ", "\n") if "-o" in rest else ("\n   ", "\n\n")
    return 0, "".join(joiner.join(lines) + end for lines in records), ""


def outcome(run: JobRun, t_s: float) -> tuple[str, str, str]:
    """Return state, exit code and reason of a job in Slurm's words."""
    state = run.state(t_s).state
    if state == "RUNNING":
        return state, "0:0", "None"
    if run.end is not None:
        reason = {"TIMEOUT": "TimeLimit", "PREEMPTED": "Preempted", "NODE_FAIL": "NodeDown"}.get(state, "None")
        return state, run.end.exit_code, reason
    return state, "1:0", "NonZeroExitCode"


def _started(twin: Twin, run: JobRun) -> str:
    """Return when a job was started: those that ran when the scenario began a good while before."""
    return _time(twin.wall_at_0 + (run.began_s if run.began_s is not None else 0.0))


def _ended(twin: Twin, run: JobRun) -> str:
    return "Unknown" if run.ended_at is None else _time(twin.wall_at_0 + run.ended_at)


def _sacct(twin: Twin, rest: list[str]) -> tuple[int, str, str]:
    """Return what `sacct -P` prints of one job (-j ID) or of all: the job, its script, its step."""
    wanted = [after for before, after in itertools.pairwise(rest) if before in ("-j", "--jobs")]
    rows = ["JobID|JobName|State|ExitCode|Reason|Start|End|NodeList"]
    for job, run in twin.runs.items():
        if wanted and job not in wanted[0].split(","):
            continue
        state, code, reason = outcome(run, twin.t_s)
        shown = "CANCELLED by 1001" if state == "CANCELLED" else state
        nodes = fold([twin.layout.nodes[row] for row in run.job.nodes])
        tail = f"{_started(twin, run)}|{_ended(twin, run)}|{nodes}"
        rows.append(f"{job}|train-{job}|{shown}|{code}|{reason}|{tail}")
        ended = run.end is not None and state not in ("COMPLETED", "FAILED")
        first = next((exits for spot, exits in twin.effects.exits.items() if spot[0] in run.job.nodes), None)
        step = "0:15" if ended else code if first is None or first >= 0 else f"0:{-first}"
        rows.append(f"{job}.batch|batch|{'CANCELLED' if ended else state}|{'0:15' if ended else code}||{tail}")
        rows.append(f"{job}.0|train|{'CANCELLED' if ended else state}|{step}||{tail}")
    return 0, "".join(f"{row}\n" for row in rows), ""


def _squeue(twin: Twin, form: str) -> str:
    running = []
    for job, run in twin.runs.items():
        if run.ended_at is None:
            running.append((job, "alice", _started(twin, run), list(run.job.nodes)))
    for job, there in twin.effects.foreign_jobs.items():
        running.append((job, "bob", _time(twin.wall_at_0), list(there)))
    lines = []
    for job, user, started, rows in running:
        nodes = [twin.layout.nodes[row] for row in rows]
        values = {
            "i": job, "T": "RUNNING", "P": PARTITION, "u": user, "S": started, "B": nodes[0], "N": fold(nodes),
            "j": f"train-{job}", "%": "%",
        }  # fmt: skip
        lines.append(
            "".join(values.get(part[1:], part) if part[:1] == "%" else part for part in re.split(r"(%[A-Za-z%])", form))
        )
    return "".join(f"{line}\n" for line in lines)


def _topology(twin: Twin) -> str:
    fleet = twin.layout.fleet
    racks: dict[str, list[str]] = {}
    pods: dict[str, dict[str, None]] = {}
    for row, name in enumerate(twin.layout.nodes):
        racks.setdefault(fleet.rack(row), []).append(name)
        pods.setdefault(fleet.pod(row), {})[fleet.rack(row)] = None
    lines = [f"SwitchName={rack} Level=0 LinkSpeed=1 Nodes={fold(names)}" for rack, names in racks.items()]
    lines += [f"SwitchName={pod} Level=1 LinkSpeed=1 Switches={fold(names)}" for pod, names in pods.items()]
    return "\n".join(lines) + "\n"


def _model(twin: Twin) -> str:
    return twin.layout.fleet.gpu.split("-")[0].lower()


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S")
