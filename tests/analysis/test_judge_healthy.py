"""Nothing wrong: scary words, retries that succeeded, the noise of a normal end; and not knowing."""

from __future__ import annotations

import pytest

from stethoscope.analysis.judge_words import clock, quoted
from tests.analysis.job_lines import answer, bars, started, steps, verdict_of

TESTS = [
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1",
    *started("h1", "10.1.1.1", 0, 2),
]
ROW = "  8589934592    2147483648     float     sum      -1    32000.1  268.43  469.31      0" + (
    "    31990.2  268.52  469.47      0"
)


@pytest.mark.parametrize(
    "lines",
    [
        bars(30),
        [*bars(10), "WARNING:botocore: Connection reset by peer, retrying (1/5)", *bars(10), "Training complete."],
        ["test_oom.py::test_handles_cuda_oom PASSED", "INFO simulated failure: error expected and handled"],
        [
            *steps(10, 60),
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            *steps(60, 200),
        ],
        [
            *started("a1", "10.1.0.1", 0, 8),
            "a1:5:9 [0] NCCL INFO socketFinalizeAccept: wrong magic 564ab9f2 != 6ba4d1b2",
            *steps(10, 200),
        ],
        [
            "[W socket.cpp:663] [c10d] The IPv6 network addresses of (node-0, 29500) cannot be retrieved (gai error:"
            " -2 - Name or service not known).",
            *bars(10),
        ],
        [
            *started("a1", "10.1.0.1", 0, 16),
            *[
                f"a1:1000:1009 [0] NCCL INFO socketPollConnect: connect to 10.1.0.2<43811> returned Connection refused,"
                f" retrying ({i}/34) after sleep for {i}00 msec"
                for i in range(1, 7)
            ],
            *steps(10, 200),
        ],
        [
            *steps(1950, 2010, total=2000),
            "[rank7]:[W314 02:12:10.0 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=67, addr=[a3]:41220,"
            " remote=[a1]:29500): Broken pipe",
        ],
        [*TESTS, ROW, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 142.318"],
        ["rx_discards_phy: 0", "ECC errors: 0"],
    ],
)
def test_nothing_is_wrong(lines: list[str]) -> None:
    verdict = verdict_of(lines)
    assert answer(verdict) == ("healthy", "info", [])
    assert verdict.summary.startswith("Nothing is wrong: ")


def test_how_sure_it_is_depends_on_what_is_seen() -> None:
    assert verdict_of("hello").confidence == 0.4
    assert verdict_of(bars(10)).confidence == 0.85
    assert verdict_of(bars(10), "Training complete. Model saved to /out").confidence == 0.95


def test_a_test_without_any_result_is_unknown() -> None:
    verdict = verdict_of(TESTS)
    assert answer(verdict) == ("unknown", "P1", [])
    assert "stacks of the ranks while it hangs (py-spy dump)" in verdict.missing


def test_an_error_that_says_nothing_is_unknown_with_what_is_missing() -> None:
    verdict = verdict_of(
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
    )
    assert answer(verdict) == ("unknown", "P1", [])
    assert verdict.confidence == 0.4
    assert verdict.missing[0] == "the logs of all ranks, from the start"


def test_words() -> None:
    assert quoted("misc/ibvwrap.cc:229 NCCL WARN Call failed") == "Call failed"
    assert quoted("init.cc:1057 (commAlloc) NCCL WARN Two ranks") == "Two ranks"
    assert quoted("x" * 200, 10) == "xxxxxxx..."
    assert clock(1_773_454_447.0) == "at 02:14:07 UTC"
    assert clock(None) == ""


@pytest.mark.parametrize(
    "step",
    [
        "[trace]: [batch={n}/4800]:",
        "{{'loss': 1.1, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.{n}}}",
        "2026-03-14 02:10:11,212 - mmdet - INFO - Epoch [1][{n}/7330]\tlr: 2.0e-02, memory: 4021, loss: 1.1",
        "[2026-03-14 02:10:11,412] [INFO] [logging.py:96:log_dist] [Rank 0] step={n}, skipped=0, lr=[1e-05]",
        "Epoch 0: :   3%|1     | {n}/5000 [01:12<10:23, v_num=3, reduced_train_loss=9.21, global_step={n}.0]",
    ],
)
def test_steps_of_many_frameworks_show_that_an_error_was_survived(step: str) -> None:
    caught = "WARNING: caught torch.cuda.OutOfMemoryError: CUDA out of memory, batch skipped"
    lines = [step.format(n=n) for n in range(100, 130)]
    assert verdict_of(lines[:15], caught, lines[15:]).root_cause == "healthy"
    assert verdict_of(lines, "[rank3]: torch.OutOfMemoryError: CUDA out of memory.").root_cause == "gpu_oom"
