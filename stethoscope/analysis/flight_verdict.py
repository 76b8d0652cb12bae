"""The verdict over flight recorder dumps in words: which rank never came, stands still, or called something else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, LogVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.analysis.flight import End, Flight, GroupState, Waits
    from stethoscope.analysis.flight_differ import Difference, Key
    from stethoscope.parse.flight_recorder import Call

_MOST_FACTS = 5
_WHAT = {"op": "other calls", "sizes": "other sizes", "dtype": "another type of data"}
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def judge_flight(flight: Flight) -> tuple[LogVerdict, list[LogVerdict]]:
    """Return the verdict over the dumps and at most two alternatives."""
    waits, differences = flight.waits(), flight.differences()
    found = [_mismatch(flight, difference) for difference in differences[:1]]
    own = [wait for wait in waits if wait.end.reason in ("late", "stuck")]
    for reason in ("late", "stuck"):
        same = [wait for wait in own if wait.end.reason == reason]
        if same:
            found.append(_culprit_verdict(flight, same))
    if not own:
        found += [_absent_verdict(flight, [wait]) for wait in waits if wait.end.reason == "absent"][:1]
    found += [_cycle(flight, wait) for wait in waits if wait.end.reason == "cycle"][:1]
    if not found:
        found += [_together(flight, wait) for wait in waits if wait.end.reason == "together"][:1]
    found += _versions(flight)
    if not found:
        return _nothing(flight), []
    found.sort(key=lambda verdict: -verdict.confidence)
    return found[0], found[1:3]


def ranks_in_words(ranks: Iterable[int], most: int = 12) -> str:
    """Return `rank 7`, `ranks 0-30 and 32`, or how many there are."""
    order = sorted(ranks)
    if not order:
        return "no rank"
    spans: list[list[int]] = []
    for rank in order:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    if len(spans) > most:
        return f"{len(order):,} ranks"
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in spans]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"rank{'s' if len(order) > 1 else ''} {text}"


def group_in_words(flight: Flight, key: Key) -> str:
    """Return what a group is called: what it is for, else its name."""
    description = flight.descriptions.get(key, "")
    named = description if description not in ("", "undefined") else f"group {key.name}"
    return f"{named} ({len(key.ranks)} ranks)"


def _culprit_verdict(flight: Flight, waits: Sequence[Waits]) -> LogVerdict:
    first = waits[0].end
    ranks = sorted({rank for wait in waits for rank in wait.end.ranks})
    victims = {rank for wait in waits for rank in wait.victims} - set(ranks)
    call = _call(first)
    where = group_in_words(flight, first.key) if first.key is not None else "a group"
    wait = f"{_count(len(victims))} {'rank waits' if len(victims) == 1 else 'ranks wait'} for {_it(ranks)}"
    who = ranks_in_words(ranks).capitalize()
    if first.reason == "late":
        summary = f"{who} never came to {call} of {where}, and {_have(ranks)} nothing left to do on the GPU; {wait}."
        return LogVerdict(
            "unknown", 0.6, Severity.P1, summary, "flight.late", _culprits(ranks), _facts(flight, waits),
            next_checks=(
                f"what {ranks_in_words(ranks)} did then: stacks (py-spy dump --pid PID), log, dmesg of the host",
                "host side: data loading, checkpoint, evaluation, a lock, or code that only some ranks run",
            ),
            missing=(f"a stack of {ranks_in_words(ranks)} while it hangs",),
        )  # fmt: skip
    summary = (
        f"{who} {'does' if len(ranks) == 1 else 'do'} not finish what {'its' if len(ranks) == 1 else 'their'} peers "
        f"finished: {call} of {where}; {'its GPU stands' if len(ranks) == 1 else 'their GPUs stand'} still, and {wait}."
    )
    return LogVerdict(
        "gpu_hw_fault", 0.6, Severity.P1, summary, "flight.stuck", _culprits(ranks), _facts(flight, waits),
        next_checks=(
            f"kernel log of the host of {ranks_in_words(ranks)}: Xid, GSP, PCIe",
            "nvidia-smi on that host; whether a kernel runs for ever (utilisation 100 %, power low)",
        ),
        missing=("the kernel log of that host: it would tell a broken GPU from a kernel that never ends",),
    )  # fmt: skip


def _absent_verdict(flight: Flight, waits: Sequence[Waits]) -> LogVerdict:
    end = waits[0].end
    ranks, victims = list(end.ranks), waits[0].victims
    where = group_in_words(flight, end.key) if end.key is not None else "a group"
    few = len(ranks) <= max(1, len(flight.world) // 4)
    summary = (
        f"There is no dump of {ranks_in_words(ranks)}; {_count(len(victims))} "
        f"{'rank waits' if len(victims) == 1 else 'ranks wait'} in {_call(end)} of {where}."
    )
    return LogVerdict(
        "peer_process_died" if few else "unknown", 0.5 if few else 0.3, Severity.P1, summary, "flight.absent",
        _culprits(ranks) if few else (), _facts(flight, waits),
        next_checks=(
            f"the log of {ranks_in_words(ranks)}, and of its host: killed, crashed, out of memory?",
            "whether its dump was written somewhere else: TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        ),
        missing=(f"the dump or the log of {ranks_in_words(ranks)}",),
    )  # fmt: skip


def _mismatch(flight: Flight, difference: Difference) -> LogVerdict:
    odd, usual = ranks_in_words(difference.odd_ranks), ranks_in_words(difference.usual_ranks)
    where = f" at {difference.where}" if difference.where else ""
    summary = (
        f"{group_in_words(flight, difference.key)} disagree at number {difference.seq}: {odd} called {difference.odd}"
        f"{where}, {usual} {difference.usual}."
    )
    both = (*difference.usual_ranks, *difference.odd_ranks)
    fact = Fact(
        f"{odd}: {_WHAT[difference.what]} at number {difference.seq}", difference.odd, difference.usual,
        f"group {difference.key.name}", _time(difference.created_ns), "flight recorder",
    )  # fmt: skip
    return LogVerdict(
        "collective_mismatch_desync", 0.9 if difference.is_clear else 0.8, Severity.P1, summary,
        "flight.mismatch", _culprits(difference.odd_ranks if difference.is_clear else both), (fact,),
        next_checks=(
            "code that some ranks alone run: an early exit, a branch on data or rank, a last and smaller batch",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run checks every call before it is made",
        ),
    )  # fmt: skip


def _cycle(flight: Flight, wait: Waits) -> LogVerdict:
    ranks = wait.end.ranks
    return LogVerdict(
        "collective_mismatch_desync", 0.55, Severity.P1,
        f"{ranks_in_words(ranks).capitalize()} wait for one another in different calls: their order is not the same.",
        "flight.order", (), _facts(flight, [wait]),
        next_checks=("the order in which groups are used on these ranks; streams that overlap collectives",),
    )  # fmt: skip


def _together(flight: Flight, wait: Waits) -> LogVerdict:
    end = wait.end
    where = group_in_words(flight, end.key) if end.key is not None else "a group"
    absent = f" (no dump of {ranks_in_words(flight.absent)})" if flight.absent else ""
    return LogVerdict(
        "unknown", 0.4, Severity.P1,
        f"All of {where} are in {_call(end)} and nobody finishes{absent}: nobody is late, what carries "
        "the data stands still.",
        "flight.together", (), _facts(flight, [wait]),
        next_checks=(
            "links and GPUs of all of these hosts: stethoscope check; dmesg for Xid, mlx5, link down",
            "NCCL's log of that time: completions with errors, retries, sockets",
        ),
        missing=("NCCL_DEBUG=INFO logs and the kernel logs of these hosts",),
    )  # fmt: skip


def _versions(flight: Flight) -> list[LogVerdict]:
    said: dict[str, list[int]] = {}
    for rank, dump in flight.dumps.items():
        if dump.nccl_version:
            said.setdefault(dump.nccl_version, []).append(rank)
    if len(said) < 2:
        return []
    texts = [f"{version} on {ranks_in_words(ranks)}" for version, ranks in sorted(said.items())]
    fewest = min(said.values(), key=len)
    return [
        LogVerdict(
            "version_mismatch", 0.5, Severity.P1, f"The ranks run different NCCL: {'; '.join(texts)}.",
            "flight.versions", _culprits(fewest), next_checks=("the image or the environment of these ranks",),
        )
    ]  # fmt: skip


def _nothing(flight: Flight) -> LogVerdict:
    recorded = sum(len(dump.calls) for dump in flight.dumps.values())
    if not recorded and not any(dump.standings for dump in flight.dumps.values()):
        return LogVerdict(
            "unknown", 0.2, Severity.INFO, "The dumps are empty: nothing was recorded.",
            missing=("dumps of a run with TORCH_NCCL_TRACE_BUFFER_SIZE (or TORCH_FR_BUFFER_SIZE) above 0",),
        )  # fmt: skip
    missing = (f"the dumps of {ranks_in_words(flight.absent)}",) if flight.absent else ()
    return LogVerdict(
        "healthy", 0.7, Severity.INFO, "Nothing is pending: every call that was recorded is completed.", missing=missing
    )


def _facts(flight: Flight, waits: Sequence[Waits]) -> tuple[Fact, ...]:
    told: set[int] = set()
    facts = []
    for wait in waits:
        if not told or set(wait.end.ranks) - told:
            facts.append(_fact(flight, wait.end, wait.victims))
        told.update(wait.end.ranks)
    for state in flight.groups():
        if state.seq is not None and told & {*state.late, *state.absent} and len(facts) < _MOST_FACTS:
            facts.append(_group_fact(flight, state))
    return tuple({fact.fact: fact for fact in facts}.values())[:_MOST_FACTS]


def _fact(flight: Flight, end: End, victims: Sequence[int]) -> Fact:
    said = {
        "late": "never came to it", "stuck": "did not finish it, others did", "absent": "left no dump",
        "together": "are all in it", "cycle": "wait for one another",
    }[end.reason]  # fmt: skip
    at = min((c.created_ns for c in _pending_at(flight, end)), default=0)
    return Fact(
        f"{_call(end)}: {ranks_in_words(end.ranks)} {said}; {_waits(victims)}", len(victims), "",
        f"group {end.key.name}" if end.key is not None else "", _time(at), "flight recorder",
    )  # fmt: skip


def _call(end: End) -> str:
    """Return a call in words; sends and receives are not numbered alike on both sides."""
    return end.op if end.op in ("send", "recv", "") else f"{end.op} number {end.seq}"


def _group_fact(flight: Flight, state: GroupState) -> Fact:
    gone = [f"{ranks_in_words(state.late)} never came"] if state.late else []
    gone += [f"there is no dump of {ranks_in_words(state.absent)}"] if state.absent else []
    return Fact(
        f"{group_in_words(flight, state.key)}: {_waits(state.waiting)} in {state.op} number {state.seq}, "
        f"{' and '.join(gone)}",
        len(state.late) + len(state.absent), "", f"group {state.key.name}", "", "flight recorder",
    )  # fmt: skip


def _pending_at(flight: Flight, end: End) -> list[Call]:
    if end.key is None:
        return []
    found = (flight.calls(rank, end.key).get(end.seq) for rank in end.key.ranks)
    return [call for call in found if call is not None and call.is_pending]


def _culprits(ranks: Iterable[int]) -> tuple[Culprit, ...]:
    return tuple(Culprit(rank=rank) for rank in sorted(ranks))


def _count(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def _waits(ranks: Sequence[int]) -> str:
    return f"{ranks_in_words(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"


def _it(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "them"


def _have(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _time(nanoseconds: int) -> str:
    if not 0 < nanoseconds < 1 << 62:
        return ""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
