"""Jobs judged by their logs: slow against their own past, and silent where all is as it should be."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.analysis.job_judge import JobJudge
from stethoscope.model.job import JobLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.job import Standing

START = 1_773_454_447.0


class Log:
    """Writes Megatron's lines, one every ten iterations."""

    def __init__(self, *, is_start: bool = True, zone_s: float = 0.0) -> None:
        self.judge = JobJudge(START)
        self.judge.reader.begin(is_start=is_start)
        self.at, self.step, self.zone_s = START, 0, zone_s
        self.random = random.Random(7)

    def say(self, text: str) -> None:
        self.judge.reader.feed(text.encode() + b"\n", now=self.at, is_new=True)

    def run(
        self, lines: int, seconds: float = 0.8, *, batch: int = 512, loss: Callable[[int], float] | None = None
    ) -> Log:
        for _ in range(lines):
            step_s = seconds * (1 + self.random.gauss(0, 0.01))
            self.step, self.at = self.step + 10, self.at + 10 * step_s
            value = 2.0 + 1 / self.step + self.random.gauss(0, 0.02) if loss is None else loss(self.step)
            stamp = datetime.fromtimestamp(self.at + self.zone_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
            self.say(
                f" [{stamp}] iteration {self.step:8d}/   50000 | elapsed time per iteration (ms): {step_s * 1e3:.1f} | "
                f"global batch size: {batch} | lm loss: {value:.6E} | grad norm: 0.4 | "
                "number of skipped iterations: 0 |"
            )
        return self

    def standing(self, later_s: float = 1.0) -> Standing:
        return self.judge.standing(JobLog(), self.at + later_s, may_hang=True)

    def value(self, name: str, later_s: float = 1.0) -> float | None:
        return self.standing(later_s).values.get(name)


def test_a_steady_job_has_its_numbers_and_nothing_to_say() -> None:
    standing = Log().run(60).standing()
    assert standing.values["job_step_time"] == pytest.approx(0.8, rel=0.03)
    assert standing.values["job_throughput"] == pytest.approx(640, rel=0.03)
    assert abs(standing.values["job_throughput_change"]) < 5
    assert standing.values["job_loss_variance"] < 0.001
    assert standing.values["job_loss_state"] == 0
    assert standing.log.family == "megatron"
    assert set(standing.since) == {"job_step_age"}


def test_slower_steps_are_told_against_the_past_with_the_moment_from_which_on() -> None:
    log = Log().run(40)
    began = log.at
    standing = log.run(6, 1.2).standing()
    assert standing.values["job_throughput_change"] == pytest.approx(-33.3, abs=2)
    assert standing.since["job_throughput_change"] == pytest.approx(began + 12, abs=1)
    assert standing.usual["job_step_time"] == pytest.approx(0.8, rel=0.03)
    # It does not become usual by lasting, and ends when it is over.
    assert log.run(300, 1.2).value("job_throughput_change") == pytest.approx(-33.3, abs=2)
    after = log.run(12).standing()
    assert abs(after.values["job_throughput_change"]) < 5
    assert "job_throughput_change" not in after.since


def test_warm_up_is_left_out() -> None:
    log = Log().run(2, 8.0).run(30)
    assert abs(log.value("job_throughput_change") or 0) < 5
    assert (log.value("job_step_time_variation") or 0) < 0.05


def test_a_checkpoint_and_the_step_behind_it_are_no_slow_down() -> None:
    log = Log().run(20)
    for took in (30, 31, 29, 30, 75):
        log.say(f"saving checkpoint at iteration {log.step} to /ckpt")
        during = log.standing(20)
        assert during.phase == "checkpoint"
        assert during.values["job_step_limit"] >= 900
        log.at += took
        log.say(f"  successfully saved checkpoint from iteration {log.step} to /ckpt")
        log.run(1, 4.0).run(8)
    standing = log.standing()
    assert abs(standing.values["job_throughput_change"]) < 5
    assert standing.values["job_step_time_variation"] < 0.05
    assert standing.values["job_checkpoint_write_time"] == 75
    assert standing.values["job_checkpoint_ratio"] == 2.5
    assert len(standing.checkpoints) == 5


def test_the_lines_of_all_ranks_are_one_checkpoint() -> None:
    log = Log().run(20)
    log.say("saving checkpoint at iteration 200 to /ckpt")
    log.at += 30
    for _ in range(8):
        log.say("successfully saved checkpoint from iteration 200 to /ckpt")
    log.say("    save-checkpoint ......: (30100.00, 31500.00)")
    assert [took for _, took in log.run(3).standing().checkpoints] == [31.5]


def test_a_larger_batch_is_no_slow_down() -> None:
    assert abs(Log().run(30, 0.4, batch=256).run(20, 0.9, batch=512).value("job_throughput_change") or 0) < 5


def test_an_evaluation_may_take_long() -> None:
    log = Log().run(20)
    log.say("***** Running Evaluation *****")
    assert log.standing(600).values["job_step_limit"] >= 1800


def test_a_restart_from_a_checkpoint_is_one_and_its_loss_may_begin_higher() -> None:
    log = Log().run(60)
    log.say("successfully loaded checkpoint from /ckpt at iteration 300")
    log.step = 300
    standing = log.run(40).standing()
    assert standing.restarts == 1
    assert standing.values["job_loss_state"] == 0
    assert abs(standing.values["job_throughput_change"]) < 5


def test_a_step_that_several_ranks_print_counts_once() -> None:
    judge = JobJudge(START)
    judge.reader.begin(is_start=False)
    for step in range(1, 40):
        for rank in (0, 1, 2, 3):
            judge.reader.feed(
                f"[rank{rank}]: step {step} loss 2.0 | 1.0 s/step\n".encode(), now=START + step, is_new=True
            )
        # A slow rank prints the step of before.
        judge.reader.feed(f"[rank7]: step {step - 1} loss 2.0 | 1.0 s/step\n".encode(), now=START + step, is_new=True)
    standing = judge.standing(JobLog(), START + 40, may_hang=True)
    assert standing.step_time.steps == tuple(range(1, 40))
    assert standing.restarts == 0


def test_no_step_for_long() -> None:
    log = Log().run(30)
    standing = log.standing(300)
    assert standing.values["job_step_age"] == 300
    assert standing.values["job_step_limit"] == 300
    assert "job_step_age" not in log.judge.standing(JobLog(trouble="no such file"), log.at + 300, may_hang=False).values


def test_a_pause_that_ended_by_itself_may_come_again() -> None:
    log = Log().run(30)
    log.at += 400
    log.run(30)
    assert log.standing(300).values["job_step_limit"] == pytest.approx(1.5 * 410, abs=10)


def test_a_log_that_is_flushed_in_bursts_may_be_silent_as_long_as_before() -> None:
    judge = JobJudge(START)
    judge.reader.begin(is_start=False)
    for burst in range(6):
        lines = "".join(f"step {burst * 100 + at} loss 2.0 | 1.0 s/step\n" for at in range(1, 101))
        judge.reader.feed(lines.encode(), now=START + burst * 100.0, is_new=True)
    assert judge.standing(JobLog(), START + 590, may_hang=True).values["job_step_limit"] == 300


def test_loss_that_is_no_number_or_runs_away() -> None:
    nan = Log().run(30).run(2, loss=lambda _: float("nan"))
    assert nan.value("job_loss_state") == 2
    assert nan.value("job_loss") is None
    away = Log().run(60).run(25, loss=lambda step: 2.0 + (step - 600) / 40)
    assert away.value("job_loss_state") == 1
    assert "job_loss_state" in away.standing().since
    # One step that overflowed, and a loss that falls in a step because the learning rate did, are as they should be.
    assert Log().run(30).run(1, loss=lambda _: float("nan")).run(1).value("job_loss_state") == 0
    falls = Log().run(60).run(60, loss=lambda _: 1.2)
    assert falls.value("job_loss_state") == 0


def test_a_loss_that_falls_does_not_vary_and_one_that_swings_does() -> None:
    assert (Log().run(60, loss=lambda step: 10 - step / 100).value("job_loss_variance") or 0) < 1e-6
    assert (Log().run(60, loss=lambda step: 2.0 if step % 20 else 0.5).value("job_loss_variance") or 0) > 0.05


def test_stamps_of_another_zone_are_moved_to_the_clock_of_the_console() -> None:
    log = Log(zone_s=8 * 3600).run(30).run(6, 1.2)
    assert log.standing().since["job_throughput_change"] == pytest.approx(log.at - 60, abs=1)


def test_a_log_that_is_read_from_its_past_on() -> None:
    source = Log().run(60)
    judge = JobJudge(source.at)
    judge.reader.begin(is_start=False)
    judge.reader.feed(b"\n".join(source.judge.reader.told) + b"\n", now=source.at + 5, is_new=False)
    standing = judge.standing(JobLog(), source.at + 5, may_hang=True)
    assert standing.values["job_step_age"] == pytest.approx(5, abs=1)
    assert abs(standing.values["job_throughput_change"]) < 5


def test_bars_and_dictionaries_of_a_trainer() -> None:
    judge = JobJudge(START)
    judge.reader.begin(is_start=True)
    for n in range(1, 61):
        clock = f"{n // 4:02d}:{n % 4 * 15:02d}"
        bar = f"\r  3%|▎  | {n}/2000 [{clock}<9:00:00, 15.1s/it]"
        judge.reader.feed(bar.encode(), now=START + 15 * n, is_new=True)
        if n % 10 == 0:
            judge.reader.feed(
                b"\n{'loss': 2.5, 'grad_norm': 1.5, 'learning_rate': 1e-05}\n", now=START + 15 * n, is_new=True
            )
        if n == 30:
            # The bar of an evaluation, which has no words either.
            judge.reader.feed(b"\r 10%|#  | 1/10 [00:01<00:09, 1.0s/it]\r", now=START + 15 * n, is_new=True)
    standing = judge.standing(JobLog(), START + 901, may_hang=True)
    assert standing.values["job_step_time"] == 15
    assert standing.values["job_loss"] == 2.5
    assert standing.last is not None
    assert (standing.last.step, standing.last.total) == (60, 2000)


def test_long_logs_keep_a_bounded_series_and_the_past_that_was_dropped() -> None:
    log = Log().run(2300).run(900, 1.2)
    assert len(log.judge.reader.entries.entries) <= 2000
    assert log.value("job_throughput_change") == pytest.approx(-33.3, abs=2)


_LINES = st.sampled_from([
    b"step 1 loss 2 1.0 s/it", b"step 5 loss nan 1.0 s/it", b"step 3 loss inf", b"iteration 7/ 9 | lm loss: NAN |",
    b"saving checkpoint at iteration 7", b"successfully saved checkpoint from iteration 7", b"[batch=3/9]:",
    b"{'loss': 1e999}", b" 1%|# | 1/9 [00:01<00:09, 1.0it/s]", b"[2026-03-14 02:14:07,123] step 9 loss 1 2 s/it",
    b"***** Running Evaluation *****", b"\xff\xfe step 2 loss 1", b"step 99999999999 loss 1 0.0001 ms/it",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.one_of(_LINES, st.binary(max_size=80)), st.floats(-10, 100), st.booleans()), max_size=40))
def test_whatever_a_log_has_nothing_raises(lines: list[tuple[bytes, float, bool]]) -> None:
    judge, now = JobJudge(START), START
    for line, passed_s, is_new in lines:
        now += passed_s
        judge.reader.feed(line + b"\n", now=now, is_new=is_new)
        standing = judge.standing(JobLog(), now, may_hang=True)
        assert all(value == value for value in standing.values.values())


def test_steps_that_swing_are_no_slow_down_and_one_among_them_is() -> None:
    chance = random.Random(5)
    log = Log().run(40)
    for _ in range(150):
        log.run(1, max(0.2, chance.gauss(0.8, 0.24)))
        assert (log.value("job_throughput_change") or 0.0) > -20
    assert (Log().run(60).run(10, 1.2).value("job_throughput_change") or 0.0) < -20


def test_what_waited_for_data_before_the_steps_became_slower_is_remembered() -> None:
    judge, at = JobJudge(START), START
    judge.reader.begin(is_start=True)
    for step in range(1, 81):
        took_s, data_s = (1.0, 0.05) if step <= 50 else (1.25, 0.3)
        at += took_s
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        line = (
            f"[rank0]: {stamp} step {step} | loss 2.1000 | step_time {took_s:.4f} s | data_time {data_s:.4f} s | "
            f"{512 / took_s:.1f} samples/s"
        )
        judge.reader.feed(line.encode() + b"\n", now=at, is_new=True)
    standing = judge.standing(JobLog(), at, may_hang=True)
    assert standing.values["job_data_share"] == pytest.approx(0.24, abs=0.01)
    assert standing.usual["job_data_share"] == pytest.approx(0.05, abs=0.005)
