"""Stacks of many ranks: merged by place, put into words, and judged by who is elsewhere."""

from __future__ import annotations

import pytest

from stethoscope.analysis.stacks import judge_stacks, place_in_words, places_of, trunk_of
from stethoscope.parse.stacks import Frame, Process, Thread

OUTER = (Frame("main", "train.py", 618), Frame("<module>", "train.py", 702))
REDUCE = (
    Frame("all_reduce", "torch/distributed/distributed_c10d.py", 2501),
    Frame("wrapper", "torch/distributed/c10d_logger.py", 81),
    Frame("train_step", "train.py", 412),
    *OUTER,
)
LOADER = (
    Frame("wait", "threading.py", 324),
    Frame("get", "queue.py", 180),
    Frame("_try_get_data", "torch/utils/data/dataloader.py", 1132),
    Frame("__next__", "torch/utils/data/dataloader.py", 630),
    Frame("train_step", "train.py", 380),
    *OUTER,
)
SAVE = (Frame("_save", "torch/serialization.py", 862), Frame("save", "train.py", 500), *OUTER)


def process(rank: int | None, frames: tuple[Frame, ...]) -> Process:
    return Process(f"rank{rank}.txt", rank=rank, threads=[Thread("MainThread", "idle", list(frames))])


@pytest.mark.parametrize(
    ("frames", "kind", "what"),
    [
        (REDUCE, "collective", "waiting in all_reduce"),
        (LOADER, "data", "in DataLoader.__next__"),
        (SAVE, "checkpoint", "in _save (serialization.py:862)"),
        ((Frame("synchronize", "torch/cuda/__init__.py", 954), *OUTER), "gpu", "waiting for the GPU (synchronize)"),
        (
            (Frame("init_process_group", "torch/distributed/distributed_c10d.py", 1), *OUTER),
            "store",
            "waiting in init_process_group (set-up)",
        ),
        (
            (Frame("acquire", "filelock.py", 9), Frame("fetch", "data.py", 3)),
            "lock",
            "in acquire (filelock.py:9)",
        ),
        ((Frame("tokenize", "prep.py", 77), *OUTER), "code", "in tokenize (prep.py:77)"),
        ((), "code", "in no Python code"),
    ],
)
def test_a_stack_is_put_into_words(frames: tuple[Frame, ...], kind: str, what: str) -> None:
    found = place_in_words(frames)
    assert (found[0], found[1].split(", called")[0]) == (kind, what)


def test_equal_stacks_are_one_place_and_the_odd_one_comes_first() -> None:
    places = places_of([process(rank, LOADER if rank == 31 else REDUCE) for rank in range(512)])
    assert [(place.who, place.what) for place in places] == [
        ("rank 31", "in DataLoader.__next__"),
        ("ranks 0-30 and 32-511", "waiting in all_reduce"),
    ]
    assert trunk_of(places) == OUTER


@pytest.mark.parametrize(
    ("odd", "cause"),
    [(LOADER, "data_loading"), (SAVE, "ckpt_io"), ((Frame("tokenize", "prep.py", 77), *OUTER), "unknown")],
)
def test_who_is_elsewhere_while_most_wait_is_the_reason(odd: tuple[Frame, ...], cause: str) -> None:
    verdict = judge_stacks(places_of([process(rank, odd if rank == 2 else REDUCE) for rank in range(8)]))
    assert (verdict.root_cause, verdict.severity.value, [c.rank for c in verdict.culprits]) == (cause, "P1", [2])
    assert verdict.summary.startswith("Rank 2: in ")
    assert verdict.summary.endswith("; 7 others are waiting in all_reduce.")


def test_when_all_are_alike_or_nobody_waits_nobody_is_blamed() -> None:
    alike = judge_stacks(places_of([process(rank, REDUCE) for rank in range(4)]))
    assert (alike.severity.value, alike.culprits) == ("info", ())
    assert alike.summary == "4 stacks: all of them are waiting in all_reduce."
    apart = judge_stacks(places_of([process(rank, (Frame("f", "a.py", rank), *OUTER)) for rank in range(4)]))
    assert (apart.severity.value, apart.culprits) == ("info", ())


def test_ranks_without_a_stack_are_asked_for() -> None:
    verdict = judge_stacks(places_of([process(rank, LOADER if rank == 2 else REDUCE) for rank in (0, 1, 2, 4, 5)]))
    assert "stacks of rank 3" in verdict.missing


def test_processes_without_ranks_are_told_by_their_pids() -> None:
    own = process(None, LOADER)
    own.pid = 4711
    places = places_of([own, *(process(None, REDUCE) for _ in range(3))])
    assert [place.who for place in places] == ["pid 4711", "3 processes"]
    assert judge_stacks(places).summary == "Pid 4711: in DataLoader.__next__; 3 others are waiting in all_reduce."
