"""Stacks of many ranks laid together: who is where, the odd ones out first, and what that says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from stethoscope.analysis.flight_verdict import ranks_in_words
from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, LogVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.parse.stacks import Frame, Process

Kind = Literal["collective", "gpu", "data", "checkpoint", "store", "lock", "code"]
_MOST_CULPRITS: Final = 64
_COLLECTIVES: Final = (
    "all_reduce", "allreduce", "all_gather", "reduce_scatter", "broadcast", "barrier", "all_to_all", "alltoall",
    "reduce", "gather", "scatter", "send", "recv", "isend", "irecv", "batch_isend_irecv", "monitored_barrier",
)  # fmt: skip
_STORE: Final = (
    "init_process_group", "_store_based_barrier", "new_group", "rendezvous", "next_rendezvous", "_get_store",
)  # fmt: skip
_GPU: Final = ("synchronize", "query", "elapsed_time", "empty_cache")
_CHECKPOINT: Final = (
    "save_checkpoint", "load_checkpoint", "torch/serialization.py", "/checkpoint/", "checkpointing.py",
    "dist_checkpointing", "safetensors",
)  # fmt: skip
_LOCKS: Final = ("wait", "acquire", "get", "join", "select", "poll")
_DATA: Final = ("torch/utils/data/", "datasets/", "webdataset", "dataloader", "streaming/base")
_LIBRARY: Final = (
    "threading.py", "queue.py", "selectors.py", "multiprocessing/", "concurrent/", "asyncio/", "socket.py", "ssl.py",
    "subprocess.py", "<frozen", "torch/", "site-packages/", "lib/python", ".so", "contextlib.py", "functools.py",
)  # fmt: skip
_CAUSES: Final[dict[Kind, tuple[str, float]]] = {
    "data": ("data_loading", 0.75),
    "checkpoint": ("ckpt_io", 0.7),
    "collective": ("collective_mismatch_desync", 0.5),
    "code": ("unknown", 0.55),
    "store": ("unknown", 0.5),
    "lock": ("unknown", 0.5),
    "gpu": ("unknown", 0.5),
}
"""What it means when a few ranks are elsewhere while most wait, and how sure that is."""


@dataclass(slots=True)
class Place:
    """Ranks whose main threads stand at the same place."""

    frames: tuple[Frame, ...]
    kind: Kind
    what: str
    """In words: `waiting in all_reduce`, `in DataLoader.__next__`."""
    processes: list[Process] = field(default_factory=list)

    @property
    def ranks(self) -> list[int]:
        """Return the ranks that are known."""
        return sorted(process.rank for process in self.processes if process.rank is not None)

    @property
    def who(self) -> str:
        """Return the ranks, or the pids where no rank is known, in words."""
        ranks = self.ranks
        if len(ranks) == len(self.processes):
            return ranks_in_words(ranks)
        pids = sorted(process.pid for process in self.processes if process.pid is not None)
        if len(pids) == len(self.processes) and len(pids) <= 4:
            return f"pid{'s' if len(pids) > 1 else ''} {', '.join(map(str, pids))}"
        return f"{len(self.processes)} process{'es' if len(self.processes) > 1 else ''}"


def places_of(processes: Iterable[Process]) -> list[Place]:
    """Return where the ranks are, the fewest first."""
    found: dict[tuple[Frame, ...], Place] = {}
    for process in processes:
        if process.main is None:
            continue
        frames = tuple(process.main.frames)
        place = found.get(frames)
        if place is None:
            kind, what = place_in_words(frames)
            place = found[frames] = Place(frames, kind, what)
        place.processes.append(process)
    return sorted(found.values(), key=lambda place: (len(place.processes), place.ranks[:1] or [1 << 30], place.what))


def trunk_of(places: Sequence[Place]) -> tuple[Frame, ...]:
    """Return the outer frames that all stacks share, the outermost last."""
    if len(places) < 2:
        return ()
    shared: list[Frame] = []
    for level in zip(*(reversed(place.frames) for place in places), strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return tuple(reversed(shared))


def place_in_words(frames: Sequence[Frame]) -> tuple[Kind, str]:
    """Return what a stack does: of what kind, and in words, as its innermost telling function says."""
    for frame in frames:
        path, function = frame.file, frame.function
        if "torch/distributed/" in path or "deepspeed/comm" in path or "megatron/core/parallel" in path:
            if function.startswith(_STORE):
                return "store", f"waiting in {function} (set-up)"
            if function.startswith(_COLLECTIVES):
                return "collective", f"waiting in {function}"
        if any(word in path or word in function for word in _CHECKPOINT):
            return "checkpoint", f"in {function} ({_short(frame)})"
        if any(word in path for word in _DATA):
            return "data", f"in {_data(frames)}"
        if path.endswith(("torch/cuda/__init__.py", "torch/cuda/streams.py")) and function in _GPU:
            return "gpu", f"waiting for the GPU ({function})"
    own = next((f for f in frames if not any(word in f.file for word in _LIBRARY)), None)
    inner = frames[0] if frames else None
    if inner is not None and inner.function in _LOCKS and (own is not inner or inner.function == "acquire"):
        where = f", called by {own.function} ({_short(own)})" if own is not None and own is not inner else ""
        return "lock", f"in {inner.function} ({_short(inner)}){where}"
    if own is None:
        return "code", f"in {inner.function} ({_short(inner)})" if inner is not None else "in no Python code"
    return "code", f"in {own.function} ({_short(own)})"


def judge_stacks(places: Sequence[Place]) -> LogVerdict:
    """Return the verdict over where the ranks are: when most wait for others, the few elsewhere are the reason."""
    total = sum(len(place.processes) for place in places)
    kinds: dict[tuple[Kind, str], list[Place]] = {}
    for place in places:
        kinds.setdefault((place.kind, place.what), []).append(place)
    sizes = {key: sum(len(place.processes) for place in own) for key, own in kinds.items()}
    (kind, what), most = max(sizes.items(), key=lambda item: item[1])
    others = [place for place in places if (place.kind, place.what) != (kind, what)]
    facts = tuple(_fact(place, total) for place in places[:6])
    waits = kind in ("collective", "gpu", "store")
    if total == 1 or not others:
        alike = "all of them are" if total > 1 else "it is"
        return LogVerdict(
            "unknown", 0.3, Severity.INFO, f"{_number(total)} {'stacks' if total != 1 else 'stack'}: {alike} {what}.",
            supports=facts,
            missing=(_absent(places) or ("stacks of the other ranks",)) if waits else (),
        )  # fmt: skip
    if not waits or most * 2 <= total:
        return LogVerdict(
            "unknown", 0.3, Severity.INFO,
            f"{_number(total)} stacks at {len(places)} places; the most, {most}, are {what}: nobody waits for anybody.",
            supports=facts, missing=("the same stacks again a minute later: who moved?",),
        )  # fmt: skip
    odd = others[0]
    cause, sure = _CAUSES[odd.kind]
    apart = [place for place in others if place.kind == odd.kind] if odd.kind != "code" else others
    ranks = sorted({rank for place in apart for rank in place.ranks})
    who = ranks_in_words(ranks) if ranks else odd.who
    return LogVerdict(
        cause, sure, Severity.P1,
        f"{who[:1].upper()}{who[1:]}: {odd.what}; {_number(most)} others are {what}.",
        f"stacks.{odd.kind}", _culprits(apart), facts,
        next_checks=_checks(odd.kind, who),
        missing=("the same stacks again a minute later: do they move?", *_absent(places)),
    )  # fmt: skip


def _absent(places: Sequence[Place]) -> tuple[str, ...]:
    """Return whose stacks are not here, as far as the numbers of the others tell."""
    ranks = {rank for place in places for rank in place.ranks}
    absent = set(range(max(ranks, default=-1) + 1)) - ranks
    return (f"stacks of {ranks_in_words(absent)}",) if absent and len(absent) < len(ranks) else ()


def _checks(kind: Kind, who: str) -> tuple[str, ...]:
    first = {
        "data": f"stacks of the loader's workers of {who} (py-spy dump --subprocesses); storage latency of that host",
        "checkpoint": f"whether the file that {who} writes still grows; the shared file system (stethoscope check)",
        "gpu": f"dmesg and nvidia-smi of the host of {who}: its GPU does not finish",
        "store": f"whether {who} reaches the rendezvous host",
        "lock": f"all threads of {who} (py-spy dump --native): who holds the lock?",
        "collective": f"why {who} called something else: a branch that only some ranks take",
        "code": f"what {who} does there, and whether it moves: two more stacks, a minute apart",
    }[kind]
    return (first, "flight recorder dumps tell who never came to which call: decode --flight-recorder")


def _data(frames: Sequence[Frame]) -> str:
    for frame in frames:
        if "dataloader.py" in frame.file and frame.function == "__next__":
            return "DataLoader.__next__"
    frame = next(frame for frame in frames if any(word in frame.file for word in _DATA))
    return f"{frame.function} ({_short(frame)})"


def _short(frame: Frame) -> str:
    file = frame.file.rpartition("/")[2]
    return f"{file}:{frame.line}" if frame.line is not None else file


def _fact(place: Place, total: int) -> Fact:
    first = place.processes[0]
    return Fact(f"{place.who} {'is' if len(place.processes) == 1 else 'are'} {place.what}", len(place.processes), "",
                first.host or "", "", first.file.rpartition("/")[2])  # fmt: skip


def _culprits(places: Iterable[Place]) -> tuple[Culprit, ...]:
    found = [
        Culprit(rank=process.rank, host=process.host)
        for place in places
        for process in place.processes
        if process.rank is not None or process.host
    ]
    return tuple(sorted(found, key=lambda culprit: (culprit.rank is None, culprit.rank or 0)))[:_MOST_CULPRITS]


def _number(count: int) -> str:
    return f"{count:,}"
