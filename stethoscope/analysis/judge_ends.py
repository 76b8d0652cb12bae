"""How processes were ended: the scheduler's words, exit codes and signals, the out-of-memory killer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, SYMPTOM, Candidate, culprits_of, make_culprit
from stethoscope.model.finding import Severity

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene
    from stethoscope.model.logs import Culprit

_DECIDED = {
    "TIME": "the time limit of the job ended it",
    "PREEMPT": "the scheduler preempted the job",
    "REQUEUE": "the scheduler requeued the job",
    "NODE": "the scheduler lost a node of the job",
}


TABLE_LINES = 8
"""How many lines a process has in torchrun's table of failures."""
OF_A_PROCESS = {
    "cuda_app_bug",
    "gpu_oom",
    "host_oom",
    "data_loading",
    "config_env_error",
    "nccl_bug",
    "ckpt_io",
    "storage_io",
    "resource_limits",
    "version_mismatch",
    "gpu_memory_fault",
}
"""Classes that one process shows first: when its lines do not say which rank it is, the launcher's word does."""


def ends(scene: Scene) -> list[Candidate]:
    """Return what ended processes from outside."""
    return [*_scheduler(scene), *_lost_nodes(scene), *_memory(scene), *_exit_codes(scene)]


def _scheduler(scene: Scene) -> list[Candidate]:
    found: list[Candidate] = []
    decided: dict[str, list[Clue]] = {}
    for clue in scene.find("slurm.cancelled"):
        why = clue.text("why", "reason").upper()
        text = clue.event.text
        if not why and "DUE TO" in text:
            why = text.rsplit("DUE TO ", 1)[1].upper()
        for word in _DECIDED:
            if word in why:
                decided.setdefault(word, []).append(clue)
                break
    ended = scene.find("k8s.pod_ended")
    short = any(c.root_cause not in {"scheduler_preemption", None} for c in ended)
    for clue in ended:
        if clue.text("reason") in {"Evicted", "Preempted", "DeadlineExceeded"} and not short:
            decided.setdefault("PREEMPT", []).append(clue)
    for word, clues in decided.items():
        if word == "NODE":
            continue
        hosts = [make_culprit(scene, None, h) for h in dict.fromkeys(c.text("host") or c.host for c in clues) if h]
        found.append(Candidate("scheduler_preemption", 0.9, clues, DIRECT, hosts[:4], summary=_DECIDED[word]))
    stopped = scene.find("elastic.agent_stopped")
    if stopped:
        found.append(
            Candidate(
                "scheduler_preemption",
                0.6,
                stopped,
                INFERRED,
                culprits_of(scene, stopped, by_host=True),
                summary="the launcher was stopped by a signal from outside",
                missing=["the scheduler's record of the job (sacct -o State,ExitCode,Reason, or the pod's events)"],
            )
        )
    told = [c for c in scene.find("launcher.submitit") if c.text("why")]
    if told and not decided:
        culprits = culprits_of(scene, told, by_host=True)
        said = "the scheduler told the job to stop: " + told[0].text("why")
        found.append(Candidate("scheduler_preemption", 0.8, told, INFERRED, culprits, summary=said))
    by_hand = scene.find("run.interrupted")
    if by_hand and not decided:
        worked = scene.progressed_before(by_hand[0])
        found.append(
            Candidate(
                "scheduler_preemption",
                0.6 if worked else 0.3,
                by_hand,
                INFERRED if worked else SYMPTOM,
                summary="a person stopped the run at the keyboard",
                missing=["why it was stopped: did it hang or was it slow?"],
            )
        )
    silent = [c for c in scene.find("slurm.cancelled") if not c.text("why", "reason") and "DUE TO" not in c.event.text]
    if silent and not decided:
        found.append(
            Candidate(
                "scheduler_preemption",
                0.45,
                silent,
                SYMPTOM,
                [make_culprit(scene, None, silent[0].text("host") or silent[0].host)],
                summary="the job was cancelled and nothing says by whom",
                missing=["sacct -j JOB -o State,ExitCode,Reason: by a person, or because a task had failed"],
            )
        )
    return found


def _lost_nodes(scene: Scene) -> list[Candidate]:
    named = scene.find("slurm.node_failure", "slurm.down")
    cancelled = [c for c in scene.find("slurm.cancelled") if "NODE FAIL" in c.event.text.upper()]
    lost = [c for c in scene.find("k8s.pod_ended") if c.text("reason") in {"NodeNotReady", "NodeLost"}]
    panics = scene.find("os.panic", "mce.panic")
    clues = [*named, *cancelled, *lost, *panics]
    if not clues:
        return _unreachable(scene)
    hosts = dict.fromkeys(c.text("host", "node") for c in named if c.text("host", "node"))
    if not hosts:
        hosts = dict.fromkeys(c.host for c in [*panics, *lost] if c.host)
    if not hosts:
        hosts = dict.fromkeys(_named_by_most(scene))
    culprits = [make_culprit(scene, None, scene.who.named(host)) for host in hosts if host][:4]
    return [
        Candidate(
            "node_down",
            0.9 if hosts else 0.6,
            clues,
            DIRECT,
            culprits,
            severity=Severity.P0,
            summary="a node of the job is gone, and the others lost their peer",
            checks=["is the node reachable: BMC, ping, sinfo -R; console and SEL for panic, power, machine check"],
            missing=["the kernel log of the lost node: hardware or network"],
        )
    ]


def _unreachable(scene: Scene) -> list[Candidate]:
    """The launcher cannot reach a host that took part before."""
    clues = [c for c in scene.find("launcher.host_unreachable") if scene.progressed_before(c)]
    if not clues:
        return []
    hosts = dict.fromkeys(c.text("host") for c in clues if c.text("host"))
    culprits = [make_culprit(scene, None, scene.who.named(host)) for host in hosts][:4]
    return [
        Candidate(
            "node_down",
            0.65,
            clues,
            INFERRED,
            culprits if len(hosts) <= 4 else [],
            severity=Severity.P0,
            summary="the launcher cannot reach a host that took part before",
            missing=["is it down or only cut off: its BMC and console"],
        )
    ]


def _named_by_most(scene: Scene) -> list[str]:
    """The peer that most others complain about, when a node is lost and nobody names it."""
    peers: dict[str, set[object]] = {}
    for clue in scene.find("nccl.ib.completion", "nccl.socket.closed_by_peer", "nccl.socket.recv_failed"):
        peer = clue.text("ip", "peer")
        if peer:
            peers.setdefault(scene.who.named(peer), set()).add(clue.rank if clue.rank is not None else clue.host)
    best = sorted(peers, key=lambda name: -len(peers[name]))
    return best[:1]


def _memory(scene: Scene) -> list[Candidate]:
    """The kernel's, the cgroup's, Slurm's or the kubelet's word that memory ran out."""
    clues = scene.find("os.oom_global", "os.oom_memcg", "slurm.oom", "k8s.oomkilled")
    clues += [c for c in scene.find("k8s.pod_ended") if c.root_cause == "host_oom"]
    clues += [c for c in scene.find("slurm.task_exit") if "Out Of Memory" in c.event.text]
    clues += [c for c in scene.find("ray.actor_died") if "low on memory" in c.event.text]
    clues += scene.find("ray.memory_pressure")
    clues.sort(key=lambda clue: clue.index)
    if not clues:
        return []
    culprits = []
    killed = [pid for c in clues if (pid := c.number("pid")) is not None]
    for pid in killed:
        rank = _rank_of_pid(scene, pid)
        host = next((c.host for c in clues if c.host), None)
        if rank is not None:
            culprits.append(make_culprit(scene, rank, host))
    if not culprits:
        tasks = [make_culprit(scene, c.number("task"), c.text("host")) for c in clues if c.text("host")]
        culprits = tasks or culprits_of(scene, clues)
    return [Candidate("host_oom", 0.9, clues, DIRECT, culprits[:4])]


def _rank_of_pid(scene: Scene, pid: int) -> int | None:
    """The rank of a process: from its lines, or its place in the list that a launcher stops one after the other."""
    known = {rank for (_, number, _), (_, rank) in scene.who.rank_of_process.items() if number == pid}
    if len(known) == 1:
        return known.pop()
    for signature in ("launcher.deepspeed", "elastic.stopping"):
        pids = sorted({p for c in scene.find(signature) if (p := c.number("pid")) is not None})
        if pid in pids and pids == list(range(pids[0], pids[0] + len(pids))) and not scene.several_hosts:
            return pids.index(pid)
    failed = [c for c in scene.find("elastic.failed") if c.number("pid") == pid]
    if failed and not scene.several_hosts:
        return failed[0].number("local_rank")
    return None


def _exit_codes(scene: Scene) -> list[Candidate]:
    """Exit codes: what they say when the process itself said nothing."""
    found: dict[str, Candidate] = {}
    for clue in scene.find("elastic.failed", "elastic.signal", "slurm.task_exit", "launcher.deepspeed", "run.mpi_exit"):
        code = _code(clue)
        if code in (6, 134) or code is None:
            continue
        cause, weight, kind, text = _meaning_of(scene, code)
        if cause in found:
            found[cause].clues.append(clue)
            continue
        candidate = Candidate(cause, weight, [clue], kind, ended_by(scene, clue), summary=text)
        candidate.missing = _what_code_lacks(cause)
        found[cause] = candidate
    if not found and not scene.find("elastic.failed"):
        found.update(_tables(scene))
    exited = scene.find("loader.exited")
    if exited and "host_oom" not in found:
        found["host_oom"] = Candidate("host_oom", 0.5, exited, INFERRED, culprits_of(scene, exited))
        found["host_oom"].missing = _what_code_lacks("host_oom")
    return list(found.values())


def _meaning_of(scene: Scene, code: int) -> tuple[str, float, int, str]:
    """Return the class, weight, kind and words of an exit code or signal."""
    if code in (9, 137):
        return "host_oom", 0.5, INFERRED, "a process was killed from outside (SIGKILL)"
    if code in (7, 135):
        return "shm_too_small", 0.5, INFERRED, "a process got a bus error (SIGBUS)"
    if code in (11, 139):
        return crash(scene)
    if code in (15, 143):
        return "scheduler_preemption", 0.4, SYMPTOM, "a process was stopped from outside (SIGTERM)"
    return "peer_process_died", 0.35, SYMPTOM, f"a process ended with code {code}"


def _tables(scene: Scene) -> dict[str, Candidate]:
    """Tables of torchrun without its line of the failure: the rank under "Root Cause" is the first of its host."""
    found: dict[str, Candidate] = {}
    fields = scene.find("elastic.field")
    for head in scene.find("elastic.child_failed"):
        if "Root Cause" not in head.event.text:
            continue
        table: dict[str, str] = {}
        for clue in fields:
            if clue.event.file == head.event.file and 0 < clue.event.line - head.event.line <= TABLE_LINES:
                table.setdefault(clue.text("field"), clue.text("value"))
        rank = re.match(r"\d+", table.get("rank", ""))
        code = re.match(r"-?\d+", table.get("exitcode", ""))
        if rank is None or code is None:
            continue
        cause, weight, kind, text = _meaning_of(scene, abs(int(code[0])))
        if cause not in found:
            found[cause] = Candidate(cause, weight, [], kind, [], summary=text, missing=_what_code_lacks(cause))
        found[cause].clues.append(head)
        found[cause].culprits.append(make_culprit(scene, int(rank[0]), None))
    return found


def _what_code_lacks(cause: str) -> list[str]:
    if cause == "host_oom":
        return ["dmesg -T | grep -iE 'oom|killed process' of that host, memory.events of the job's cgroup"]
    if cause == "peer_process_died":
        return ["the log of the rank that ended first"]
    return []


def crash(scene: Scene) -> tuple[str, float, int, str]:
    """Return the class, weight, kind and words of a crash in native code: inside of NCCL where a frame says so."""
    if scene.find("nccl.crash_frame"):
        return "nccl_bug", 0.7, INFERRED, "native code crashed inside of NCCL"
    return "cuda_app_bug", 0.45, INFERRED, "native code crashed (SIGSEGV)"


def _code(clue: Clue) -> int | None:
    """Return the exit code or signal as a positive number."""
    if clue.signature in {"elastic.signal", "run.mpi_exit"}:
        return clue.number("num")
    code = clue.number("code", "rc")
    if code is not None:
        return abs(code)
    text = clue.event.text
    exited = re.search(r"exit(?:ed with exit)? code (\d+)", text)
    if exited:
        return int(exited[1])
    for word, number in (
        ("Killed", 9),
        ("Segmentation fault", 11),
        ("Bus error", 7),
        ("Aborted", 6),
        ("Terminated", 15),
    ):
        if word in text:
            return number
    return None


def first_to_end(scene: Scene) -> list[Culprit]:
    """Return the one process that launchers name as having failed by itself; none when they name several or none."""
    named: list[Culprit] = []
    for clue in scene.find("elastic.failed", "elastic.event_failed", "slurm.task_exit", "run.mpi_exit"):
        if _code(clue) in {15, 143}:
            continue
        for culprit in ended_by(scene, clue):
            if culprit.rank is not None and culprit not in named:
                named.append(culprit)
    return named if len(named) == 1 else []


def ended_by(scene: Scene, clue: Clue) -> list[Culprit]:
    """Return the process that this line says has ended."""
    rank = clue.number("rank")
    host = clue.text("host") or clue.host
    pid = clue.number("pid")
    if rank is None and pid is not None:
        rank = _rank_of_pid(scene, pid)
    if rank is None and clue.signature == "elastic.failed" and not scene.several_hosts:
        rank = clue.number("local_rank")
    if rank is None and clue.signature == "slurm.task_exit" and scene.who.tasks_are_ranks:
        task = re.match(r"\d+", clue.text("task"))
        rank = int(task[0]) if task else None
    if rank is None and not host:
        return []
    return [make_culprit(scene, rank, scene.who.named(host) if host else None)]
