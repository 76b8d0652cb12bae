"""The judge of job logs: cause before symptom, one verdict, at most two alternatives.

Who is who (`judge_ranks`), what the log shows (`judge_scene`), then each method names candidates: errors at their word
(`judge_generic`), ends of processes (`judge_ends`), the fabric (`judge_peers`), the host network (`judge_sockets`,
`judge_store`), collectives and what silent ranks did (`judge_collectives`, `judge_waiting`), differences between hosts
(`judge_setup`), pace (`judge_pace`). What one candidate explains is no cause; of the rest the earliest that proves
itself wins (`judge_case`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, FAINT, INFERRED, SYMPTOM, Candidate, Note, refined, settle
from stethoscope.analysis.judge_collectives import collectives
from stethoscope.analysis.judge_ends import OF_A_PROCESS, ended_by, ends, first_to_end
from stethoscope.analysis.judge_generic import alive_after, direct_errors
from stethoscope.analysis.judge_kernel_part import kernel_alone, kernel_candidates
from stethoscope.analysis.judge_pace import slow
from stethoscope.analysis.judge_peers import fabric
from stethoscope.analysis.judge_python import exceptions
from stethoscope.analysis.judge_scene import Scene, look
from stethoscope.analysis.judge_setup import set_up, tests_without_result
from stethoscope.analysis.judge_sockets import network
from stethoscope.analysis.judge_store import is_harmless_lookup, rendezvous
from stethoscope.analysis.judge_words import next_checks, sentence
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import LogVerdict

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, KnownSignatures
    from stethoscope.model.logs import Log

_HARDWARE_P0 = {
    "ib_link_fault",
    "ib_link_down",
    "nic_fault",
    "switch_fault",
    "nvlink_fault",
    "gpu_memory_fault",
    "gpu_fallen_off_bus",
    "gpu_hw_fault",
    "pcie_fault",
    "cpu_or_memory_fault",
    "node_down",
    "driver_hung",
}
_PLANNED = {"multi_job_contention", "scheduler_preemption", "straggler_or_slow_rank"}
_MAY_BE_P0 = {"fabric_manager_fault", "storage_io", "shared_fs_stall", "fs_full_or_readonly"}
_MAY_BE_P2 = {"driver_bug", "config_env_error", "version_mismatch", "topology_or_affinity"}
"""Planned work when nothing worse than a warning shows it."""
_MOST_FACTS = 6
ENDS_IN_ORDER = {0, 15, 143}
"""Exit codes of processes that ended well, or were told to end when the others had."""
_TEARDOWN = ("nccl.", "torch.", "elastic.", "slurm.", "run.", "launcher.", "ray.", "vllm.", "python.")


def judge(log: Log, signatures: KnownSignatures) -> tuple[LogVerdict, list[LogVerdict]]:
    """Return the verdict over a log and at most two alternatives."""
    alone = kernel_alone(log, signatures)
    if alone:
        return alone[0], alone[1:3]
    scene = look(log, signatures)
    if alone is not None:
        return _healthy(scene), []
    candidates = [
        *kernel_candidates(scene, signatures),
        *direct_errors(scene),
        *ends(scene),
        *exceptions(scene),
        *fabric(scene),
        *network(scene),
        *rendezvous(scene),
        *collectives(scene),
        *set_up(scene),
        *slow(scene),
    ]
    candidates = _merged(candidates)
    order = settle(candidates)
    failed = _failed(scene)
    believed = [c for c in order if c.weight >= FAINT and (failed or c.kind < SYMPTOM)]
    if not believed or (not failed and believed[0].weight < 0.5):
        return (_unknown(scene) if failed else _healthy(scene)), []
    winner = believed[0]
    others = [c for c in believed[1:] if c.root_cause != winner.root_cause][:2]
    if winner.root_cause in OF_A_PROCESS and all(c.rank is None for c in winner.culprits[:2]):
        winner.culprits = refined(winner.culprits, first_to_end(scene))
    verdict = _verdict(scene, winner, others)
    ceiling = verdict.confidence
    rivals = [other for other in others if other.explained_by is None and other.root_cause != "unknown"]
    return verdict, [_verdict(scene, other, [], ceiling=ceiling * 0.6) for other in rivals]


def _merged(candidates: list[Candidate]) -> list[Candidate]:
    """Return one candidate for each class and way of finding: what two methods see alike counts for more."""
    merged: dict[tuple[str, int], Candidate] = {}
    for candidate in sorted(candidates, key=lambda c: c.first.index if c.first else 1_000_000_000):
        known = merged.get((candidate.root_cause, candidate.kind))
        if known is None:
            merged[candidate.root_cause, candidate.kind] = candidate
            continue
        stronger, weaker = (known, candidate) if known.weight >= candidate.weight else (candidate, known)
        stronger.weight = min(0.95, stronger.weight + 0.05)
        stronger.clues = sorted({id(c): c for c in [*known.clues, *candidate.clues]}.values(), key=lambda c: c.index)
        stronger.supports += [n for n in weaker.supports if n.fact not in [s.fact for s in stronger.supports]]
        stronger.checks += [c for c in weaker.checks if c not in stronger.checks]
        stronger.culprits = refined(stronger.culprits, weaker.culprits)
        merged[candidate.root_cause, candidate.kind] = stronger
    for (cause, kind), candidate in list(merged.items()):
        direct = merged.get((cause, DIRECT))
        if kind != DIRECT and direct is not None:
            direct.weight = min(0.95, direct.weight + 0.03)
            direct.culprits = refined(direct.culprits, candidate.culprits)
            del merged[cause, kind]
    return list(merged.values())


def _failed(scene: Scene) -> bool:
    """Tell whether anything in the log went wrong that did not heal and is not the noise of a normal end."""
    ended = scene.ends()
    if tests_without_result(scene) or scene.find("torch.watchdog.progress", "torch.desync.laggards"):
        return True
    for clue in scene.clues:
        if clue.role not in {"cause", "either", "symptom"}:
            continue
        if clue.severity.rank >= Severity.INFO.rank or clue.signature == "nccl.socket.connect_retry":
            continue
        if alive_after(scene, clue) or is_harmless_lookup(clue):
            continue
        if ended and clue.role != "cause" and clue.signature.startswith(_TEARDOWN) and _after_end(scene, clue):
            continue
        return True
    return False


def _after_end(scene: Scene, clue: Clue) -> bool:
    """Tell whether a line is what processes say when others have left after a normal end."""
    if clue.signature.startswith("torch.watchdog.timeout"):
        return False
    if clue.signature == "elastic.failed" and abs(clue.number("code") or 0) not in ENDS_IN_ORDER:
        return False
    return scene.finished_before(clue)


def _healthy(scene: Scene) -> LogVerdict:
    steps, ended = scene.progress(), scene.ends()
    ready = scene.find("nccl.init.complete", "nccl.connected")
    supports = []
    if ended:
        supports.append(_fact(scene, Note("the job came to its end", ended[-1])))
    if steps:
        supports.append(_fact(scene, Note("work went on to the last lines", steps[-1])))
    if ready:
        supports.append(_fact(scene, Note("communicators were set up", ready[-1])))
    confidence = 0.95 if ended else 0.85 if steps else 0.7 if ready else 0.4
    missing = () if steps or ended else ("the log of the time of the trouble, if there was any",)
    summary = "Nothing is wrong: " + (
        "the job ran to its end"
        if ended
        else "the job makes progress"
        if steps
        else "no line of this log says otherwise"
    )
    return LogVerdict("healthy", confidence, Severity.INFO, summary, supports=tuple(supports), missing=missing)


def _unknown(scene: Scene) -> LogVerdict:
    worst = [c for c in scene.clues if c.role in {"symptom", "either", "cause"}]
    supports = tuple(_fact(scene, Note("an error that others may have caused", c)) for c in worst[:3])
    ended = scene.find(
        "elastic.failed", "elastic.event_failed", "slurm.task_exit", "launcher.deepspeed", "run.mpi_exit"
    )
    culprits = [culprit for c in ended for culprit in ended_by(scene, c)]
    missing = (
        "the logs of all ranks, from the start",
        "kernel logs of all hosts for the minute before the first error",
        "NCCL_DEBUG=INFO and the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE) on the next run",
    )
    checks = ("look for the first error by time in the logs that are not here",)
    return LogVerdict(
        "unknown",
        0.4,
        Severity.P1,
        "It failed, and nothing in this log says why",
        worst[0].signature if worst else None,
        tuple(culprits[:1]),
        supports=supports,
        next_checks=checks,
        missing=missing,
    )


def _verdict(scene: Scene, winner: Candidate, others: list[Candidate], *, ceiling: float = 1.0) -> LogVerdict:
    notes = [*winner.supports]
    notes += [Note("first line of it", winner.first)] if winner.first is not None else []
    known = {id(n.clue) for n in notes if n.clue is not None}
    notes += [Note("another line of it", c) for c in winner.clues[1:] if id(c) not in known]
    consequences = [o for o in others if o.explained_by is winner and o.root_cause != "unknown"]
    rivals = [o for o in others if o.explained_by is None and o.root_cause != "unknown"]
    contradicts = [*winner.contradicts, *[Note(f"it could also be {o.root_cause}", o.first) for o in rivals if o.first]]
    notes += [Note(f"explains what looks like {o.root_cause}", o.first) for o in consequences if o.first]
    return LogVerdict(
        winner.root_cause,
        round(min(ceiling, _confidence(winner, rivals)), 2),
        severity_of(winner),
        sentence(winner),
        winner.signature or (winner.first.signature if winner.first is not None else None),
        tuple(winner.culprits[:4]),
        tuple(_fact(scene, note) for note in notes[:_MOST_FACTS]),
        tuple(_fact(scene, note) for note in contradicts[:3]),
        next_checks(winner),
        tuple(dict.fromkeys(winner.missing)),
    )


def _confidence(winner: Candidate, rivals: list[Candidate]) -> float:
    """Return how sure it is: the weight of the evidence, less for each rival that nothing explains."""
    confidence = winner.weight
    for rival in rivals:
        if rival.kind <= winner.kind and rival.weight >= 0.5:
            confidence *= 0.85
    if winner.kind == SYMPTOM:
        confidence = min(confidence, 0.55)
    if winner.kind == INFERRED:
        confidence = min(confidence, 0.85)
    return max(0.05, min(0.97, confidence))


def _keeps_from_work(candidate: Candidate) -> bool:
    """Tell whether somebody else holds the GPU itself, so that this process got none."""
    return any(clue.signature == "cuda.busy" for clue in candidate.clues)


def severity_of(candidate: Candidate) -> Severity:
    """Return how urgent it is: P0 for suspect hardware and fabric, P2 for what a restart survives, else P1."""
    if candidate.severity is not None:
        return candidate.severity
    if candidate.root_cause in _HARDWARE_P0:
        return Severity.P0
    if candidate.root_cause in _PLANNED and not _keeps_from_work(candidate):
        return Severity.P2
    if (
        candidate.root_cause in _MAY_BE_P2
        and candidate.kind == DIRECT
        and candidate.clues
        and all(c.severity is Severity.P2 and c.role == "cause" for c in candidate.clues)
    ):
        return Severity.P2
    if candidate.root_cause in _MAY_BE_P0 and any(c.severity is Severity.P0 for c in candidate.clues):
        return Severity.P0
    return Severity.P1


def _fact(scene: Scene, note: Note) -> Fact:
    clue = note.clue
    where = (
        ""
        if clue is None
        else "/".join(str(x) for x in (clue.host, f"rank {clue.rank}" if clue.rank is not None else None) if x)
    )
    at = ""
    if clue is not None and clue.event.at is not None and not clue.event.at_is_near:
        from datetime import UTC, datetime

        at = datetime.fromtimestamp(clue.event.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    value = note.value or (clue.event.text.strip()[:200] if clue is not None else None)
    return Fact(note.fact, value, note.expected, where, at, scene.place(clue) if clue is not None else "")
