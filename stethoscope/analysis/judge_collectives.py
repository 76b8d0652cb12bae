"""Collectives that did not complete: where each rank stood in its group, and which rank is the odd one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stethoscope.analysis.judge_case import DIRECT, INFERRED, Candidate, Note, culprits_of, make_culprit
from stethoscope.analysis.judge_generic import alive_after
from stethoscope.analysis.judge_peers import settings_differ
from stethoscope.analysis.judge_scene import before
from stethoscope.analysis.judge_waiting import reason_of

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import Clue, Scene

START_UP = 10
"""Up to this number in the sequence a wait belongs to the start of the job."""
FEW = 4
MOST_GROUPS = 64
UNSAID = "?"
"""Operation of a rank that says only how far it came."""
_GROUP = re.compile(r"\[PG (?:ID )?(?P<pg>\d+)(?: PG GUID (?P<guid>[^\s(\]]+))?")


@dataclass(slots=True)
class Row:
    """Where one rank stood in one group."""

    rank: int
    clue: Clue
    seq: int | None = None
    """Number of the collective it waits in; None when it waits in none."""
    op: str = ""
    numel: int | None = None
    group_rank: int | None = None
    """Its rank in the group."""
    enqueued: int | None = None
    completed: int | None = None
    timeout_ms: int | None = None

    @property
    def call(self) -> tuple[str, int | None]:
        """Return what it waits in: operation and size."""
        return self.op, self.numel

    @property
    def is_barrier(self) -> bool:
        """Tell whether it waits in a barrier, which is an all-reduce of one element."""
        return self.op in {"BARRIER", ""} or (self.op == "ALLREDUCE" and self.numel == 1)


@dataclass(slots=True)
class Table:
    """All ranks of one group."""

    group: str
    rows: dict[int, Row] = field(default_factory=dict)

    def waiting(self) -> dict[int, Row]:
        """Return the ranks that wait in a collective."""
        return {rank: row for rank, row in self.rows.items() if row.seq is not None}

    def idle(self) -> dict[int, Row]:
        """Return the ranks that had completed all that they had issued."""
        return {
            rank: row
            for rank, row in self.rows.items()
            if row.seq is None and row.enqueued is not None and row.enqueued == row.completed
        }

    def members(self) -> set[int]:
        """Return the global ranks that the group seems to have, from those of it that are known; empty when unclear."""
        pairs = sorted({(row.group_rank, rank) for rank, row in self.rows.items() if row.group_rank is not None})
        if len(pairs) < 2 or all(inner == rank for inner, rank in pairs):
            return set()
        (first, low), (last, high) = pairs[0], pairs[-1]
        if last == first or (high - low) % (last - first):
            return set()
        stride = (high - low) // (last - first)
        if stride < 1 or any(rank - low != (inner - first) * stride for inner, rank in pairs):
            return set()
        return {low + (inner - first) * stride for inner in range(last + 1)}


def collectives(scene: Scene) -> list[Candidate]:
    """Return what the time-outs of collectives say about the rank that is missing, behind or ahead."""
    found = [*_said_outright(scene), *_desync_report(scene), *_horovod(scene)]
    tables = _tables(scene)
    if tables:
        tables.sort(key=lambda t: (-len(t.waiting()), -len(t.rows)))
        judged = [c for t in tables[:MOST_GROUPS] if (c := _judge(scene, t)) is not None]
        named = [c for c in judged if c.culprits or c.root_cause != "unknown"]
        found += (named or judged)[:1]
    stuck = scene.find("torch.watchdog.stuck") or scene.find("torch.watchdog.gil")
    if stuck and not any(t.waiting() for t in tables):
        gil = scene.find("torch.watchdog.gil")
        weight = 0.65 if gil else 0.45
        found.append(
            Candidate(
                "cuda_app_bug" if gil else "unknown",
                weight,
                [*stuck, *gil],
                INFERRED,
                culprits_of(scene, stuck[:1]),
                summary="the watchdog thread itself hung in a call: a lock held inside of CUDA, or a driver that hangs",
                missing=["stacks of that process (py-spy dump --native PID), dmesg of its host"],
            )
        )
    return found


def _said_outright(scene: Scene) -> list[Candidate]:
    found = []
    proof = scene.find("torch.mismatch")
    if proof:
        ranks = [r for c in proof[:1] if (r := c.number("rank_a")) is not None]
        culprits = [make_culprit(scene, rank, None) for rank in ranks] or culprits_of(scene, proof)
        found.append(Candidate("collective_mismatch_desync", 0.95, proof, DIRECT, culprits))
    sizes = scene.find("nccl.ib.size_mismatch", "nccl.socket.truncated")
    if sizes:
        differ = settings_differ(scene)
        cause = "config_env_error" if differ else "collective_mismatch_desync"
        peer = sizes[0].text("ip", "peer") or _peer_in(sizes[0].event.text)
        culprits = [make_culprit(scene, None, scene.who.named(peer))] if peer else culprits_of(scene, sizes[:1])
        notes = [Note("sender and receiver disagree on the size of a message", sizes[0]), *differ]
        checks = [
            "compare the 'set by environment' lines, ~/.nccl.conf and /etc/nccl.conf of all hosts and make them equal"
        ]
        found.append(Candidate(cause, 0.85, sizes, DIRECT, culprits, supports=notes, checks=checks if differ else []))
    return found


def _peer_in(text: str) -> str:
    named = re.search(r"peer ([^\s<]+)<", text)
    return named[1] if named else ""


def _desync_report(scene: Scene) -> list[Candidate]:
    """PyTorch's own report names the ranks that did not join."""
    clues = scene.find("torch.desync.laggards", "torch.desync.member")
    missing = [
        c for c in scene.find("torch.desync.member") if c.number("next") is not None or "didn't join" in c.event.text
    ]
    named = [c for c in clues if c.signature == "torch.desync.laggards" and c.text("ranks")]
    ranks = [int(r) for c in (missing or named)[:1] for r in re.findall(r"\d+", c.text("ranks"))]
    if not ranks:
        return []
    cause, weight, notes = reason_of(scene, ranks, clues[0])
    culprits = [make_culprit(scene, rank, None) for rank in ranks[:FEW]] if len(ranks) <= FEW else []
    note = Note(f"the report of PyTorch names {_ranks(ranks)} as not having joined", (missing or named)[0])
    if cause is None:
        cause, weight = "collective_mismatch_desync", 0.6
    return [Candidate(cause, max(weight, 0.6), clues, INFERRED, culprits, supports=[note, *notes])]


def _horovod(scene: Scene) -> list[Candidate]:
    """Horovod's stall warning lists the ranks that have not come."""
    clues = scene.find("run.horovod_stalled")
    if not clues or alive_after(scene, clues[-1]):
        return []
    listed = [c for c in scene.find("run.horovod_missing") if before(clues[0], c)]
    ranks = sorted({int(r) for c in listed for r in re.findall(r"\d+", c.text("rank", "ranks"))})
    ranks = ranks or sorted({c.event.origin.task for c in listed if c.event.origin.task is not None})
    note = Note(
        f"Horovod waits for {_ranks(ranks)}" if ranks else "Horovod waits for ranks that it does not list", clues[0]
    )
    cause, weight, notes = reason_of(scene, ranks, clues[0])
    if cause is None:
        cause, weight = "collective_mismatch_desync", 0.5
    return [_named(scene, cause, weight, clues, ranks, [note, *notes])]


def _tables(scene: Scene) -> list[Table]:
    groups: dict[str, Table] = {}

    def row(clue: Clue) -> Row | None:
        rank = clue.event.origin.rank
        if rank is None:
            rank = clue.number("rank")
        if rank is None:
            return None
        named = _GROUP.search(clue.event.text)
        key = (named["guid"] or named["pg"]) if named else ""
        table = groups.setdefault(key, Table(key))
        return table.rows.setdefault(rank, Row(rank, clue, group_rank=clue.number("rank")))

    for clue in scene.find("torch.watchdog.timeout"):
        one = row(clue)
        if one is not None and one.seq is None:
            one.seq, one.op = clue.number("seq"), clue.text("op")
            one.numel = clue.number("numel_in")
            one.timeout_ms = clue.number("timeout_ms")
            if one.seq is None:
                one.seq = -1
    for clue in scene.find("torch.watchdog.progress", "torch.watchdog.dump_signal"):
        one = row(clue)
        if one is not None and clue.number("enq") is not None:
            one.enqueued, one.completed = clue.number("enq"), clue.number("done")
    if "" in groups and len(groups) > 1:
        unnamed = groups.pop("")
        into = max(groups.values(), key=lambda t: len(t.rows.keys() & unnamed.rows.keys()))
        for rank, one in unnamed.rows.items():
            known = into.rows.setdefault(rank, one)
            if known.seq is None:
                known.seq, known.op, known.numel, known.timeout_ms = one.seq, one.op, one.numel, one.timeout_ms
                known.clue = one.clue
    for table in groups.values():
        for one in table.rows.values():
            if one.seq is None and one.enqueued is not None and (one.completed or 0) < one.enqueued:
                one.seq, one.op = (one.completed or 0) + 1, UNSAID
    return list(groups.values())


def _judge(scene: Scene, table: Table) -> Candidate | None:
    waiting, idle = table.waiting(), table.idle()
    if not waiting:
        return None
    clues = sorted((row.clue for row in waiting.values()), key=lambda clue: clue.index)
    onset = _onset(waiting, clues)
    candidate = (
        _different_calls(scene, waiting, clues)
        or _different_numbers(scene, waiting, clues)
        or _alone(scene, table, waiting, idle, clues)
        or _absent(scene, table, waiting, idle, clues)
        or _all_alike(scene, waiting, clues)
    )
    candidate.onset = onset
    return candidate


def _onset(waiting: dict[int, Row], clues: list[Clue]) -> float | None:
    """Return when the wait began: a watchdog fires exactly its time-out after the collective was issued."""
    first = clues[0].event
    timeouts = [row.timeout_ms for row in waiting.values() if row.timeout_ms]
    if first.at is None or first.at_is_near or not timeouts:
        return None
    return first.at - min(timeouts) / 1000


def _different_calls(scene: Scene, waiting: dict[int, Row], clues: list[Clue]) -> Candidate | None:
    """The same number, another operation or size: the ranks left their common order."""
    by_seq: dict[int, dict[tuple[str, int | None], list[int]]] = {}
    for rank, row in waiting.items():
        if row.seq is not None and row.seq >= 0 and row.op != UNSAID:
            by_seq.setdefault(row.seq, {}).setdefault(row.call, []).append(rank)
    mixed = [calls for calls in by_seq.values() if len(calls) > 1]
    if not mixed:
        return None
    calls = max(mixed, key=lambda groups: sum(map(len, groups.values())))
    barrier = [rank for ranks in calls.values() for rank in ranks if waiting[rank].is_barrier]
    fewest = min(calls.values(), key=len)
    odd = sorted(barrier) if barrier and len(barrier) < len(waiting) else sorted(fewest)
    said = "; ".join(f"{_ranks(ranks)} in {op} of {numel}" for (op, numel), ranks in calls.items())
    notes = [Note(f"at the same number of the sequence the ranks wait in different calls: {said}", clues[0])]
    ended = [c for c in scene.find("work.data_end") if c.index < clues[0].index]
    uneven = {r for c in ended if (r := c.number("rank") if c.number("rank") is not None else c.rank) is not None}
    if barrier and (ended or scene.find("loader.length_differs")):
        odd = sorted(uneven & set(waiting)) or odd
        shown = ended[0] if ended else scene.find("loader.length_differs")[0]
        notes.append(Note(f"{_ranks(odd)} came to the end of their input while the others had more", shown))
        return _named(scene, "data_loading", 0.8, clues, odd, notes)
    return _named(scene, "collective_mismatch_desync", 0.8, clues, odd, notes)


def _different_numbers(scene: Scene, waiting: dict[int, Row], clues: list[Clue]) -> Candidate | None:
    """Some ranks ahead of or behind the others: the odd ones are suspect."""
    numbers = Counter(row.seq for row in waiting.values())
    if len(numbers) < 2:
        return None
    usual, most = numbers.most_common(1)[0]
    odd = sorted(rank for rank, row in waiting.items() if row.seq != usual)
    if len(odd) >= most and len(waiting) > 2:
        odd = sorted(rank for rank, row in waiting.items() if row.seq == min(s for s in numbers if s is not None))
    first = waiting[odd[0]]
    side = "ahead of" if (first.seq or 0) > (usual or 0) else "behind"
    same_call = len({row.call for row in waiting.values()}) == 1
    note = Note(
        f"{_ranks(odd)} {side} the others: number {first.seq} against {usual}", first.clue, str(first.seq), str(usual)
    )
    if side == "behind" and same_call:
        cause, weight, notes = reason_of(scene, odd, clues[0])
        if cause is not None and weight >= 0.6:
            return _named(scene, cause, weight, clues, odd, [note, *notes])
    return _named(scene, "collective_mismatch_desync", 0.8, clues, odd, [note])


def _alone(
    scene: Scene, table: Table, waiting: dict[int, Row], idle: dict[int, Row], clues: list[Clue]
) -> Candidate | None:
    """Few wait while most had completed everything they had issued: the few went where nobody followed."""
    observed = {c.rank for c in scene.find("torch.watchdog.dump_observed") if c.rank is not None} - set(waiting)
    others = idle.keys() | observed
    if not others or (len(waiting) >= len(others) and len(waiting) > 1):
        return None
    behind = [row for row in idle.values() if row.enqueued is not None]
    ranks = sorted(waiting)
    row = waiting[ranks[0]]
    reason, weight, notes = reason_of(scene, sorted(others), clues[0])
    shown = behind[0].clue if behind else row.clue
    note = Note(f"only {_ranks(ranks)} entered number {row.seq}; the others had nothing left to do", shown)
    if reason in {"ckpt_io", "timeout_too_short"} and weight >= 0.75:
        return _named(scene, reason, weight, clues, sorted(others), [note, *notes])
    return _named(scene, "collective_mismatch_desync", 0.8 if behind else 0.55, clues, ranks, [note])


def _absent(
    scene: Scene, table: Table, waiting: dict[int, Row], idle: dict[int, Row], clues: list[Clue]
) -> Candidate | None:
    """Most wait and a few never came: what those did last is the reason."""
    members = table.members() or set(range(max([*scene.who.expected(), *waiting], default=-1) + 1))
    never = sorted(idle) or sorted(members - set(waiting))
    observed = {c.rank for c in scene.find("torch.watchdog.dump_observed") if c.rank is not None} - set(waiting)
    if not idle and observed:
        never = sorted(observed)
    if not never or (not idle and len(never) > max(FEW, len(waiting))):
        return None
    if not idle and not observed and not scene.who.world and len(waiting) < 3 * len(never):
        return None  # how many there are is a guess from the numbers of those who speak
    row = next(iter(waiting.values()))
    shown = idle[never[0]].clue if never[0] in idle else clues[0]
    note = Note(
        f"{_ranks(sorted(waiting))} wait{'s' * (len(waiting) == 1)} in number {row.seq}; {_ranks(never)} never came",
        shown,
    )
    cause, weight, notes = reason_of(scene, never, clues[0], at_start=(row.seq or 0) <= START_UP)
    if cause is None and not idle and not observed and not _speaks(scene, never):
        weight = 0.35
        candidate = _named(scene, "unknown", weight, clues, never if len(never) <= FEW // 2 else [], [note])
        candidate.missing = [f"the log of {_ranks(never)}"]
        return candidate
    if cause is None:
        candidate = _named(scene, "collective_mismatch_desync", 0.5, clues, never, [note])
        candidate.missing = [f"what {_ranks(never)} did: stacks (py-spy dump) or its own log at that time"]
        return candidate
    return _named(scene, cause, weight, clues, never, [note, *notes])


def _speaks(scene: Scene, ranks: list[int]) -> bool:
    return any(clue.rank in ranks for clue in scene.clues)


def _all_alike(scene: Scene, waiting: dict[int, Row], clues: list[Clue]) -> Candidate:
    """Everybody waits in the same call: nobody in the logs is the odd one."""
    row = next(iter(waiting.values()))
    cause, weight, notes = reason_of(scene, [], clues[0], at_start=(row.seq or 0) <= START_UP)
    call = f" ({row.op} of {row.numel})" if row.op not in {"", UNSAID} else ""
    note = Note(f"{len(waiting)} ranks wait in the same call, none is ahead: number {row.seq}{call}", clues[0])
    if cause is not None and weight >= 0.6:
        return _named(scene, cause, weight, clues, [], [note, *notes])
    candidate = _named(scene, "unknown", 0.5, clues, [], [note])
    candidate.missing = [
        "logs of ranks that are not here, if any",
        "kernel logs of all hosts for the minute the wait began (Xid, NVLink, link events)",
        "TORCH_NCCL_TRACE_BUFFER_SIZE set (flight recorder), NCCL_DEBUG=INFO, py-spy stacks during the next hang",
    ]
    return candidate


def _named(
    scene: Scene, cause: str, weight: float, clues: list[Clue], ranks: list[int], notes: list[Note]
) -> Candidate:
    culprits = [make_culprit(scene, rank, None) for rank in ranks] if len(ranks) <= FEW else []
    kind = INFERRED
    return Candidate(cause, weight, clues, kind, culprits, supports=notes)


def _ranks(ranks: list[int]) -> str:
    """Return ranks as words, runs folded: ranks 0-3, 7."""
    if not ranks:
        return "no rank"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    said = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:12]) + (" ..." if len(runs) > 12 else "")
    return f"rank {said}" if len(ranks) == 1 else f"ranks {said}"
