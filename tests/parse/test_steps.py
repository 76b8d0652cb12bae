"""Lines of training logs: which step, how long, how fast; units as they are written, never guessed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stethoscope.model.job import SAME, Phase, PhaseKind, Step
from stethoscope.parse.steps import may_tell, read, stamped_at
from stethoscope.parse.steps_bars import Bar

MEGATRON = (
    "iteration     3384/    8000 | consumed samples:       216576 | elapsed time per iteration (ms): 7845.5 | "
    "learning rate: 6.678E-06 | global batch size:    64 | lm loss: 7.072597E-01 | grad norm: 0.741 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def step(text: str) -> Step:
    found = read(text)
    assert isinstance(found, Step), text
    return found


def test_megatron_prints_milliseconds_of_one_iteration() -> None:
    found = step(MEGATRON)
    assert found == Step(
        3384, 8000, step_time_s=7.8455, batch=64, loss=0.7072597, lr=6.678e-06, grad_norm=0.741, family="megatron"
    )


def test_a_loss_that_is_no_number_is_not_one_that_is_missing() -> None:
    found = step(MEGATRON.replace("7.072597E-01", "NAN").replace("grad norm: 0.741", "grad norm: nan"))
    assert found.loss is not None
    assert math.isnan(found.loss)
    assert found.grad_norm is not None
    assert math.isnan(found.grad_norm)
    assert step(MEGATRON.replace("iterations:   0", "iterations:   3", 1)).skipped
    assert step(MEGATRON.replace("lm loss: 7.072597E-01 | ", "")).loss is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[titan] step:  4  loss:  7.62585  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71",
         {"step": 4, "loss": 7.62585, "grad_norm": 26.625, "tokens_per_s": 10050.0, "per_gpu": True}),
        ("Training epoch 0, iteration 120/149 | lr: 3e-05 | global_batch_size: 8 | global_step: 120 | "
         "reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106",
         {"step": 120, "total": 149, "loss": 1.233, "step_time_s": 0.03146, "batch": 8.0, "family": "nemo"}),
        ("[INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | consumed_tokens: 85.8G | "
         "elapsed_time_per_iteration_ms: 11.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: 11.4K | "
         "global_batch_size: 64 | lm_loss: 2.38 | lr: 1e-05 | grad_norm: 1.25",
         {"step": 327281, "step_time_s": 11.5, "tokens_per_s": 22800.0, "loss": 2.38, "per_gpu": False}),
        ("[INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.02, "
         "CurrSamplesPerSec=25.70, MemAllocated=4.32GB, MaxMemAllocated=38.49GB",
         {"step": 10, "samples_per_s": 25.7, "family": "deepspeed"}),
        ("[INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=227.4, MemAllocated=0.36GB",
         {"step": 20, "samples_per_s": 227.4}),
        ("[Rank 0] step=10, skipped=4, lr=[4.9e-05, 4.9e-05], mom=[(0.9, 0.95)]", {"step": 10, "lr": 4.9e-05}),
        ("steps: 10 loss: 7.1 iter time (s): 1.25 samples/sec: 25.6", {"step_time_s": 1.25, "samples_per_s": 25.6}),
        ("{'loss': 2.0491, 'grad_norm': 1.5, 'learning_rate': 1.9e-05, 'epoch': 0.28}",
         {"step": SAME, "loss": 2.0491, "grad_norm": 1.5, "lr": 1.9e-05}),
        ("{'loss': '2.049', 'learning_rate': '1.9e-05', 'epoch': '0.28'}", {"step": SAME, "loss": 2.049}),
        ("[batch=366/48000]:", {"step": 366, "total": 48000, "family": "composer"}),
        ("         Train throughput/batches_per_sec: 0.1250", {"step": SAME, "step_time_s": 8.0}),
        ("step 10 loss 3.167 samples/s 812", {"step": 10, "loss": 3.167, "samples_per_s": 812.0}),
        ("step 100 | loss 2.1 | 0.81 s/step | 812 samples/s", {"step_time_s": 0.81, "samples_per_s": 812.0}),
        ("iter 1631: loss 4.0863, time 561.94ms", {"step": 1631, "step_time_s": pytest.approx(0.56194)}),
        ("step    0 | loss: 10.95 | lr 6.0e-04 | norm: 15.2 | dt: 339.20ms | tok/sec: 1,546.12",
         {"step_time_s": pytest.approx(0.3392), "tokens_per_s": 1546.12, "grad_norm": 15.2}),
        ("global step 1: loss = 79.3501 (57.126 sec/step)", {"step": 1, "loss": 79.3501, "step_time_s": 57.126}),
        ("it 10 loss 2 1.25it/s", {"step_time_s": 0.8}),
        ("it 10 loss 2 1.25 s/it", {"step_time_s": 1.25}),
        ("step 120/1000 loss=2.31 step_time=812ms data=31ms tokens/s/gpu=4.8K",
         {"total": 1000, "step_time_s": 0.812, "data_time_s": 0.031, "tokens_per_s": 4800.0, "per_gpu": True}),
        ("Epoch: [2][10/500] Time  0.512 ( 0.530) Data  0.020 ( 0.031) Loss 3.2e+00 (3.3e+00)",
         {"step": 1010, "step_time_s": 0.512, "data_time_s": 0.02, "loss": 3.2}),
        ("step 7: train loss 2.5, val loss 2.6", {"step": 7, "loss": 2.5}),
        ("step 7: val loss 2.6, train loss 2.5", {"step": 7, "loss": 2.5}),
        ("step 7 | actor loss 0.1 | loss 2.5", {"step": 7, "loss": 2.5}),
        ("samples/sec: 215.5 | iteration 100/ 320000 | elapsed time per iteration (ms): 593.9 | lm_loss: 9.31E+00 |",
         {"step": 100, "samples_per_s": 215.5, "step_time_s": 0.5939, "loss": 9.31}),
        ("iteration 12/ 30 | elapsed time per iteration (ms): 1234.5/1250.0 | lm loss: 8.5E+00 | grad norm: 3.1 |",
         {"step": 12, "step_time_s": 1.2345, "loss": 8.5, "grad_norm": 3.1}),
        ("[default7]: iteration 12695/ 115311 | elapsed time per iteration (s): 105.22 | samples per second: 19.463 |",
         {"samples_per_s": 19.463}),
        ("train_inner | epoch 002:    120 / 1500 loss=4.376, ppl=20.8, wps=16200, ups=2.5, wpb=6480, bsz=248, "
         "num_updates=1620, lr=3e-05, gnorm=1.214, train_wall=40, wall=1294",
         {"step": 1620, "loss": 4.376, "step_time_s": 0.4, "grad_norm": 1.214, "family": "fairseq"}),
        ('train_inner | {"epoch": 27, "update": 26.2, "loss": "8.206", "wps": "1195.4", "ups": "1.62", "wpb": "738.1", '
         '"num_updates": "33700", "gnorm": "1.833"}',
         {"step": 33700, "loss": 8.206, "grad_norm": 1.833, "step_time_s": pytest.approx(738.1 / 1195.4)}),
        ("completed step: 14, seconds: 3.443, TFLOP/s/device: 413.4, Tokens/s/device: 7138.89, loss: 2.136",
         {"step": 14, "step_time_s": 3.443, "tokens_per_s": 7138.89, "loss": 2.136}),
        ("Iter 47: Train loss 3.575, Learning Rate 2.000e-08, It/sec 1.6, Tokens/sec 75.275, Trained Tokens 2116",
         {"step": 47, "step_time_s": 0.625, "tokens_per_s": 75.275, "loss": 3.575, "lr": 2e-8}),
        ("Epoch 34 | iter 3051000 step 610200 | loss train: 2.857, val: 2.861 | iter time: 111.49 ms (step)",
         {"step": 3051000, "loss": 2.857, "step_time_s": pytest.approx(0.11149)}),
        ("step 18865/18865 | loss 3.28 (+0.10z)| norm 0.21 (-0.20z)| lr 0.0 | 2831.55 ms | 52.1% MFU | 185244 tok/s",
         {"step_time_s": pytest.approx(2.83155), "tokens_per_s": 185244.0, "grad_norm": 0.21}),
        ("Epoch [2][1500/3912]  lr: 5.0e-03, time: 0.298, data_time: 0.005, loss_cls: 0.9, loss: 2.36, grad_norm: 3.8",
         {"step": 5412, "step_time_s": 0.298, "data_time_s": 0.005, "loss": 2.36}),
        ("eta: 0:02:11  iter: 99  total_loss: 1.301  time: 0.2854  last_time: 0.2712  data_time: 0.0547",
         {"step": 99, "step_time_s": 0.2854, "data_time_s": 0.0547, "loss": 1.301}),
        ('{"step": 121, "loss": 2.30, "step_time": 0.80, "tokens_per_sec": 81300.0, "grad_norm": 0.51}',
         {"step": 121, "loss": 2.3, "tokens_per_s": 81300.0, "step_time_s": None}),
        ("[INFO|callbacks.py:310] >> {'loss': 2.3312, 'learning_rate': 4.0e-04, 'epoch': 0.13}", {"loss": 2.3312}),
        ("step 10, time per step: 812 ms, loss 2", {"step_time_s": 0.812}),
        ("step 210 loss 2.0 elapsed 3781s", {"step_time_s": None}),
        ("step 210 loss 2.0 | total time: 3781s | elapsed: 3601.2 s | 0.8 it/s", {"step_time_s": 1.25}),
    ],
)  # fmt: skip
def test_each_family_of_lines(text: str, expected: dict[str, object]) -> None:
    found = step(text)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "iteration 10 loss 2 time 5",  # no unit, no time
        "step 3 took 12",
    ],
)
def test_a_time_without_a_unit_is_no_time(text: str) -> None:
    found = read(text)
    assert not isinstance(found, Step) or found.step_time_s is None


@pytest.mark.parametrize(
    "text",
    [
        "NCCL INFO step 3 of 5",
        "step 100: val loss 2.3",
        "validation step 3 loss 2.2",
        "Map:  10%|#  | 1/9 [00:01<00:09, 1.0it/s]",
        "Loading checkpoint shards: 100%|##| 4/4 [00:10<00:00, 2.5s/it]",
        "a step forward",
        "",
        "slurmstepd: error: *** STEP 4242.0 ON gpu-001 CANCELLED",
        "Processed prompts: 100%|###| 1/1 [00:00<00:00,  5.91it/s, est. speed input: 218.76 toks/s]",
        "[rank3]: watchdog step 4",
    ],
)
def test_what_is_no_step(text: str) -> None:
    assert not isinstance(read(text), Step | Bar), text


def test_bars() -> None:
    found = read(" 14%|█▍        | 378/2724 [13:58:09<86:18:35, 132.44s/it]")
    assert isinstance(found, Bar)
    assert (found.step, found.total, found.elapsed_s, found.step_time_s) == (378, 2724, 50289.0, 132.44)
    found = read(
        "Epoch 0:   6%|██   | 32040/500150 [6:28:43<94:39:17,  1.25it/s, loss=2.6, v_num=95nc, "
        "reduced_train_loss=2.590, global_step=3.2e+4]"
    )
    assert isinstance(found, Bar)
    assert (found.step, found.loss, found.step_time_s, found.epoch) == (32000, 2.59, 0.8, 0)
    found = read("Epoch 2:  50%|██   | 206/412 [01:10<01:10,  5.00it/s, train_loss=0.031]")
    assert isinstance(found, Bar)
    assert found.step == 1030
    found = read("Validation DataLoader 0:  50%|██   | 2/4 [00:01<00:01,  2.00it/s]")
    assert isinstance(found, Bar)
    assert found.evaluation
    found = read(
        "Epoch 0: :  47%|# | 7/15 [06:19<07:13, reduced_train_loss=11.5, global_step=5.0, train_step_timing in s=49.5]"
    )
    assert isinstance(found, Bar)
    assert (found.step, found.loss, found.step_time_s) == (5, 11.5, 49.5)
    found = read("Epoch 0: :   0%|   | 614/? [23:53<00:00, v_num=, reduced_train_loss=3.2, global_step=613.0]")
    assert isinstance(found, Bar)
    assert (found.step, found.total) == (613, 0)
    found = read("Epoch 0:  93% 1586/1702 [12:50<00:56,  2.00it/s, loss=0.158, v_num=0]")
    assert isinstance(found, Bar)
    assert (found.step, found.step_time_s) == (1586, 0.5)
    found = read("1|10|Loss: 1.2345:  20%|##    | 10/50 [00:30<02:00,  3.00s/it]")
    assert isinstance(found, Bar)
    assert (found.step, found.loss, found.step_time_s) == (10, 1.2345, 3.0)
    found = read("\r  0%|          | 0/8191 [00:00<?, ?it/s]".lstrip("\r"))
    assert isinstance(found, Bar)
    assert found.step_time_s is None


@pytest.mark.parametrize(
    ("text", "kind", "step_", "duration_s"),
    [
        ("saving checkpoint at iteration    500 to /ckpt in torch_dist format", "CHECKPOINT_BEGIN", 500, None),
        ("successfully saved checkpoint from iteration     500 to /ckpt [ t 1/1, p 1/1 ]", "CHECKPOINT_END", 500, None),
        ("    save-checkpoint ......: (12345.67, 12399.01)", "CHECKPOINT_END", None, 12.39901),
        ("successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 500", "LOADED", 500, None),
        ("validation loss at iteration 500 | lm loss value: 2.1E+00 |", "EVALUATION_END", 500, None),
        ("[Torch] Checkpoint global_step10 is about to be saved!", "CHECKPOINT_BEGIN", 10, None),
        ("[Torch] Checkpoint global_step10 is ready now!", "CHECKPOINT_END", 10, None),
        ("{'eval_loss': 2.1, 'eval_runtime': 12.3, 'epoch': 1.0}", "EVALUATION_END", None, 12.3),
        ("***** Running Evaluation *****", "EVALUATION_BEGIN", None, None),
        ("Saving model checkpoint to out/checkpoint-500", "CHECKPOINT_BEGIN", 500, None),
        ("Finished saving the checkpoint (or staging)in 12.34 seconds.", "CHECKPOINT_END", None, 12.34),
        ("checkpoint saved to /x in 35.2s", "CHECKPOINT_END", None, None),
        ("saved checkpoint to /x in 35.2s", "CHECKPOINT_END", None, 35.2),
    ],
)  # fmt: skip
def test_phases(text: str, kind: str, step_: int | None, duration_s: float | None) -> None:
    found = read(text)
    if text.startswith("checkpoint saved"):
        assert not isinstance(found, Step)
        return
    assert found == Phase(PhaseKind[kind], step=step_, duration_s=duration_s)


def test_a_stamp_behind_the_name_of_a_program() -> None:
    text = "[titan] 2026-05-18 16:04:46,338 - root - INFO - step: 14"
    assert text[stamped_at(text) :].startswith("2026-")
    assert stamped_at("step: 14") == 0


_PIECES = st.sampled_from(
    [
        "iteration ",
        "step",
        "12/ 30 |",
        "elapsed time per iteration (ms): ",
        "nan",
        "1e999",
        "loss: ",
        "%|",
        "| 3/4 [",
        "00:01<00:02, ",
        "1.2it/s]",
        "s/it",
        "{'loss': ",
        "}",
        "99999999999999999999",
        "samples/s",
        "checkpoint",
        "-",
        "\x1b[31m",
        "save-checkpoint ....: (",
        "1,2)",
        "[batch=1/2]:",
        "Train loss/train/total: ",
        " ",
        "\t",
        "é",
        "global_step=",
        ", ",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=25).map("".join)))
def test_whatever_a_line_is_nothing_raises_and_numbers_can_be_ones(text: str) -> None:
    found = read(text)
    if isinstance(found, Step):
        assert found.step >= SAME
        for value in (found.step_time_s, found.samples_per_s, found.tokens_per_s, found.batch):
            assert value is None or 0 < value < 1e18
    elif isinstance(found, Bar):
        assert 0 <= found.n <= found.total


def test_most_lines_are_put_aside_before_they_are_taken_apart() -> None:
    assert may_tell(b"0:  iteration 8000/ 50000 | x")
    assert not may_tell(b"gpu-001:123:456 [0] NCCL INFO Channel 00/16 : 0 1 2 3")
