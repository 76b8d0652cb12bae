"""Collectives that did not complete: who is missing, who is ahead, and what the missing one did."""

from __future__ import annotations

import pytest

from stethoscope.analysis.judge_collectives import Row, Table
from stethoscope.analysis.judge_scene import Clue
from stethoscope.model.finding import Severity
from stethoscope.model.logs import Event
from tests.analysis.job_lines import answer, bars, by, idle, started, stood_at, timed_out, verdict_of


def test_one_rank_in_another_call_is_the_odd_one() -> None:
    others = [timed_out(rank, 902, old=True) for rank in range(8) if rank != 6]
    verdict = verdict_of(others, timed_out(6, 902, op="ALLGATHER", numel=512, old=True))
    assert answer(verdict) == ("collective_mismatch_desync", "P1", [(6, None)])
    assert "ranks 0-5, 7 in ALLREDUCE of 4096; rank 6 in ALLGATHER of 512" in verdict.summary


def test_one_rank_ahead_is_the_odd_one() -> None:
    verdict = verdict_of([timed_out(rank, 339, op="BROADCAST") for rank in (1, 2, 3)], timed_out(0, 341))
    assert answer(verdict) == ("collective_mismatch_desync", "P1", [(0, None)])


def test_everybody_alike_is_unknown_and_says_what_is_missing() -> None:
    verdict = verdict_of([timed_out(rank, 1580) for rank in range(8)])
    assert answer(verdict) == ("unknown", "P1", [])
    assert verdict.confidence <= 0.5
    assert len(verdict.missing) == 3


def test_a_silent_rank_that_began_to_save_is_the_checkpoint() -> None:
    verdict = verdict_of(
        [f"2026-03-14 01:1{i}:00,000 - root - INFO - Step {i}: batch_loss 0.2, 1.3 s/step" for i in range(4)],
        "2026-03-14 01:14:53,000 - root - INFO - Saving latest checkpoint to /ckpt/step_4",
        [line for rank in range(1, 8) for line in (timed_out(rank, 77), stood_at(rank, 77, 76))],
        idle(0, 76),
    )
    assert answer(verdict) == ("ckpt_io", "P1", [(0, None)])
    assert verdict.confidence >= 0.75


def test_a_checkpoint_that_was_written_is_not_the_reason() -> None:
    verdict = verdict_of(
        "2026-03-14 01:14:40,000 - root - INFO - Saving latest checkpoint to /ckpt/step_4",
        "2026-03-14 01:14:50,000 - root - INFO -   successfully saved checkpoint from iteration    4 to /ckpt/step_4",
        [line for rank in range(1, 8) for line in (timed_out(rank, 77), stood_at(rank, 77, 76))],
        idle(0, 76),
    )
    assert answer(verdict) == ("collective_mismatch_desync", "P1", [(0, None)])
    assert verdict.confidence <= 0.5


def test_a_silent_rank_that_prepares_data_outlives_the_time_out() -> None:
    bar = "Running tokenizer on dataset:   9%|###  | 280000/2969526 [29:55<4:48:08, 155.57 examples/s]"
    waits = [timed_out(rank, 2, numel=1, timeout_ms=1_800_000, old=True) for rank in (1, 2, 3)]
    assert answer(verdict_of(bar, waits)) == ("timeout_too_short", "P1", [(0, None)])


def test_ranks_whose_input_ended_early_wait_in_the_barrier() -> None:
    verdict = verdict_of(
        [f"rank {rank} | epoch 0 finished after 3102 batches (iterator exhausted)" for rank in (2, 3)],
        [timed_out(rank, 900) for rank in (0, 1)],
        [timed_out(rank, 900, numel=1) for rank in (2, 3)],
    )
    assert answer(verdict) == ("data_loading", "P1", [(2, None), (3, None)])


def test_a_missing_rank_of_a_group_is_found_by_its_place_in_the_group() -> None:
    group = "ID 3 PG GUID 3(TENSOR_MODEL_PARALLEL_GROUP)"
    verdict = verdict_of(bars(5), [stood_at(rank, 7003, 7000, group=group, inner=rank - 4) for rank in (4, 5, 7)])
    assert answer(verdict) == ("unknown", "P1", [(6, None)])
    assert verdict.missing == ("the log of rank 6",)


def test_the_report_of_pytorch_is_believed() -> None:
    verdict = verdict_of(
        [timed_out(rank, 96120) for rank in range(8) if rank != 5],
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        "\t   - [5] finished collective #96119, but didn't join collective #96120 (count from 1)",
    )
    assert answer(verdict) == ("collective_mismatch_desync", "P1", [(5, None)])


def test_a_proof_of_different_collectives_wins() -> None:
    proof = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective:"
        " CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE), but Rank 0 is running collective:"
        " CollectiveFingerPrint(SequenceNumber=12, OpType=BARRIER)."
    )
    verdict = verdict_of(by(1, proof, traceback=False))
    assert (verdict.root_cause, verdict.confidence) == ("collective_mismatch_desync", 0.95)


def test_horovod_lists_who_is_missing() -> None:
    verdict = verdict_of(
        "[2026-03-14 01:14:53.1: W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered"
        " or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.",
        "Missing ranks:",
        "2: [DistributedAdam_Allreduce/cond_14/HorovodAllreduce_grads_14_0]",
    )
    assert answer(verdict) == ("collective_mismatch_desync", "P1", [(2, None)])


def test_a_rank_that_never_began_is_named() -> None:
    lines = [
        line for rank in range(8) if rank != 3 for line in started("hh", "10.1.1.1", rank, 8, device=rank, ready=False)
    ]
    late = "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
    verdict = verdict_of(lines, late)
    assert answer(verdict) == ("peer_process_died", "P1", [(3, "hh")])
    assert verdict.confidence <= 0.5


@pytest.mark.parametrize(
    ("pairs", "members"),
    [
        ({4: 0, 5: 1, 7: 3}, {4, 5, 6, 7}),
        ({0: 0, 16: 2}, {0, 8, 16}),
        ({0: 0, 1: 1, 3: 3}, set()),
        ({4: 0}, set()),
        ({4: 0, 9: 2}, set()),
        ({4: 0, 5: 1, 9: 2}, set()),
    ],
)
def test_members_of_a_group(pairs: dict[int, int], members: set[int]) -> None:
    clue = Clue(0, Event("torch.watchdog.progress", "context", Severity.P1, ""), None, None, None)
    table = Table("x", {rank: Row(rank, clue, group_rank=inner) for rank, inner in pairs.items()})
    assert table.members() == members
