"""Dumps of all ranks laid beside each other: who never came, who stands still, whose calls differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stethoscope.analysis.flight import Flight
from stethoscope.analysis.flight_verdict import judge_flight, ranks_in_words
from stethoscope.parse.flight_recorder import read_dump
from tests.flight_dumps import call, dump

if TYPE_CHECKING:
    from stethoscope.model.logs import LogVerdict


def flight(dumps: dict[int, dict[str, Any]]) -> Flight:
    return Flight([read_dump(json.dumps(document).encode(), f"rank{rank}") for rank, document in dumps.items()])


def judged(dumps: dict[int, dict[str, Any]]) -> tuple[LogVerdict, list[int | None]]:
    verdict, _ = judge_flight(flight(dumps))
    return verdict, [culprit.rank for culprit in verdict.culprits]


def world(size: int) -> dict[str, tuple[str, list[int]]]:
    return {"0": ("default_pg", list(range(size)))}


def waiting(rank: int, size: int, seq: int = 10, **more: Any) -> dict[str, Any]:
    return dump([call(100 + rank, seq, **more)], world(size), {"0": (seq, seq - 1)})


def test_a_rank_that_never_came_is_named_with_the_call() -> None:
    dumps = {rank: waiting(rank, 8) for rank in range(8)} | {3: dump([], world(8), {"0": (9, 9)})}
    verdict, ranks = judged(dumps)
    assert (verdict.signature, verdict.severity.value, ranks) == ("flight.late", "P1", [3])
    assert verdict.summary == (
        "Rank 3 never came to all_reduce number 10 of default_pg (8 ranks), and has nothing left to do on the GPU; "
        "seven ranks wait for it."
    )
    (state,) = flight(dumps).groups()
    assert (state.seq, state.late, state.waiting) == (10, [3], [0, 1, 2, 4, 5, 6, 7])


def test_completed_calls_tell_too_how_far_a_rank_came() -> None:
    done = [call(n, n, state="completed") for n in range(1, 10)]
    dumps = {rank: dump([*done, call(10, 10)], world(4)) for rank in range(3)} | {3: dump(done, world(4))}
    assert judged(dumps)[1] == [3]


def test_a_gpu_that_does_not_finish_what_others_finished_stands_still() -> None:
    groups = {"0": ("default_pg", [0, 1, 2, 3]), "1": ("TP", [2, 3])}
    free = dump([call(7, 5)], groups | {"1": ("TP", [0, 1])}, {"0": (5, 4)})
    dumps = {
        0: free,
        1: free,
        2: dump([call(7, 5), call(8, 3, group=("1", "TP"))], groups, {"0": (5, 4), "1": (3, 2)}),
        3: dump([call(3, 4), call(7, 5)], groups, {"0": (5, 3), "1": (2, 2)}),
    }
    verdict, ranks = judged(dumps)
    assert (verdict.root_cause, verdict.signature, ranks) == ("gpu_hw_fault", "flight.stuck", [3])
    assert "all_reduce number 4" in verdict.summary


def test_waiting_is_followed_through_groups_to_its_end() -> None:
    """Ranks 0 and 1 wait for 2, which waits in another group for 3, which waits for nothing."""
    whole, pair = ("0", "default_pg"), ("1", "PP")
    groups = {"0": ("default_pg", [0, 1, 2, 3]), "1": ("PP", [2, 3])}
    dumps = {
        0: dump([call(9, 10, group=whole)], groups, {"0": (10, 9)}),
        1: dump([call(9, 10, group=whole)], groups, {"0": (10, 9)}),
        2: dump([call(9, 4, group=pair)], groups, {"0": (9, 9), "1": (4, 3)}),
        3: dump([], groups, {"0": (9, 9), "1": (3, 3)}),
    }
    (wait, *_) = flight(dumps).waits()
    assert (wait.end.reason, wait.end.ranks, wait.victims) == ("late", (3,), (0, 1, 2))


def test_a_receive_points_to_the_sender() -> None:
    groups = {"7": ("PIPELINE", [4, 5])}
    dumps = {4: dump([call(1, 2, "recv 0<-1", group=("7", "PIPELINE"), is_p2p=True)], groups), 5: dump([], groups)}
    verdict, ranks = judged(dumps)
    assert ranks == [5]
    assert verdict.summary.startswith("Rank 5 never came to recv of PIPELINE (2 ranks)")


def test_ranks_without_a_dump_are_suspects_when_they_are_few() -> None:
    verdict, ranks = judged({rank: waiting(rank, 8) for rank in range(7)})
    assert (verdict.root_cause, verdict.signature, ranks) == ("peer_process_died", "flight.absent", [7])
    verdict, ranks = judged({rank: waiting(rank, 8) for rank in range(3)})
    assert (verdict.root_cause, ranks) == ("unknown", [])
    assert verdict.missing == ("the dump or the log of ranks 3-7",)


def test_another_call_at_the_same_number_is_a_mismatch() -> None:
    dumps = {rank: waiting(rank, 4) for rank in range(4)}
    dumps[2] = waiting(2, 4, op="broadcast", where="train.py:88:evaluate")
    verdict, ranks = judged(dumps)
    assert (verdict.root_cause, verdict.signature, ranks) == ("collective_mismatch_desync", "flight.mismatch", [2])
    assert verdict.summary == (
        "default_pg (4 ranks) disagree at number 10: rank 2 called broadcast 1024 at train.py:88 evaluate, "
        "ranks 0-1 and 3 all_reduce 1024."
    )


def test_sizes_and_types_that_differ_are_mismatches_where_they_must_be_alike() -> None:
    def kinds(op: str, **odd: Any) -> list[str]:
        dumps = {rank: waiting(rank, 4, op=op) for rank in range(4)} | {1: waiting(1, 4, op=op, **odd)}
        return [difference.what for difference in flight(dumps).differences()]

    assert kinds("all_reduce", sizes=[[2048]]) == ["sizes"]
    assert kinds("all_reduce", dtype="Float") == ["dtype"]
    assert kinds("all_to_all", sizes=[[2048]]) == []
    assert kinds("_all_gather_base", sizes=[[1024]]) == []


def test_a_difference_that_did_no_harm_is_none() -> None:
    finished = [call(1, 1, "all_gather", state="completed", sizes=[[5]])]
    other = [call(1, 1, "all_gather", state="completed", sizes=[[7]])]
    dumps = {0: dump(finished, world(2)), 1: dump(other, world(2))}
    verdict, _ = judged(dumps)
    assert (verdict.root_cause, verdict.severity.value) == ("healthy", "info")


def test_when_all_are_in_it_nobody_is_blamed() -> None:
    verdict, ranks = judged({rank: waiting(rank, 4) for rank in range(4)})
    assert (verdict.root_cause, verdict.signature, ranks) == ("unknown", "flight.together", [])


def test_ranks_that_wait_for_one_another_in_turn_are_told_so() -> None:
    groups = {"1": ("A", [0, 1]), "2": ("B", [0, 1])}
    dumps = {
        0: dump([call(1, 5, group=("1", "A"))], groups, {"1": (5, 4), "2": (4, 4)}),
        1: dump([call(1, 5, group=("2", "B"))], groups, {"1": (4, 4), "2": (5, 4)}),
    }
    verdict, _ = judged(dumps)
    assert (verdict.root_cause, verdict.signature) == ("collective_mismatch_desync", "flight.order")


def test_unequal_nccl_versions_are_told() -> None:
    dumps = {rank: waiting(rank, 3) for rank in range(3)} | {1: waiting(1, 3) | {"nccl_version": "2.21.5"}}
    verdict, ranks = judged(dumps)
    assert (verdict.root_cause, ranks) == ("version_mismatch", [1])
    assert verdict.summary == "The ranks run different NCCL: 2.21.5 on rank 1; 2.27.3 on ranks 0 and 2."


def test_empty_dumps_say_how_to_fill_them() -> None:
    verdict, _ = judged({0: dump([], world(2)), 1: dump([], world(2))})
    assert (verdict.root_cause, verdict.severity.value) == ("unknown", "info")


def test_ranks_in_words() -> None:
    assert ranks_in_words([7]) == "rank 7"
    assert ranks_in_words([*range(31), *range(32, 512)]) == "ranks 0-30 and 32-511"
    assert ranks_in_words(range(0, 200, 2)) == "100 ranks"


def test_between_two_ranks_other_groups_of_the_same_kind_decide() -> None:
    groups = {"1": ("TP", [0, 1]), "2": ("TP", [2, 3])}

    def pair(rank: int, op: str) -> dict[str, Any]:
        name = "1" if rank < 2 else "2"
        return dump([call(1, 5, op, group=(name, "TP"))], {name: groups[name]}, {name: (5, 4)})

    verdict, ranks = judged({0: pair(0, "broadcast"), 1: pair(1, "all_reduce"), 2: pair(2, "all_reduce")})
    assert (verdict.signature, ranks) == ("flight.mismatch", [0])
    verdict, ranks = judged({0: pair(0, "broadcast"), 1: pair(1, "all_reduce")})
    assert (verdict.signature, ranks) == ("flight.mismatch", [0, 1])


def test_old_dumps_without_groups_are_missed_by_the_gap_in_their_ranks() -> None:
    old = {rank: waiting(rank, 4) for rank in (0, 1, 3)}
    for document in old.values():
        del document["pg_config"], document["pg_status"]
    verdict, ranks = judged(old)
    assert (verdict.signature, ranks) == ("flight.absent", [2])
