"""How training programs print their steps and checkpoints: Megatron-LM's form, and that of a plain PyTorch loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_TO_DO = 500_000
_RATE = 2.95e-04


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line tells: the mean of the steps since the line before."""

    at: datetime
    done: int
    batch: int
    step_s: float
    data_s: float
    """Of rank 0's step."""
    samples_per_s: float
    loss: float
    grad_norm: float


def step(framework: str, now: Progress) -> str:
    """Return the line about the last steps."""
    if framework == "megatron":
        skipped = int(now.loss != now.loss)
        return (
            f" [{now.at:%Y-%m-%d %H:%M:%S}] iteration {now.done:8d}/{_TO_DO:8d} | consumed samples: "
            f"{now.done * now.batch:12d} | elapsed time per iteration (ms): {now.step_s * 1000:.1f} | learning rate: "
            f"{_RATE:.6E} | global batch size: {now.batch:5d} | lm loss: {now.loss:.6E} | loss scale: 1.0 | grad norm: "
            f"{now.grad_norm:.3f} | number of skipped iterations: {skipped:3d} | number of nan iterations: "
            f"{skipped:3d} |"
        )
    return (
        f"[rank0]: {now.at:%Y-%m-%d %H:%M:%S} step {now.done} | loss {now.loss:.4f} | grad_norm {now.grad_norm:.2f} | "
        f"lr {_RATE:.2e} | step_time {now.step_s:.4f} s | data_time {now.data_s:.4f} s | "
        f"{now.samples_per_s:.1f} samples/s"
    )


def saved(framework: str, job: str, done: int, took_s: float) -> tuple[str, ...]:
    """Return the lines about a checkpoint that was written beside the steps."""
    if framework == "megatron":
        return (
            f"saving checkpoint at iteration {done:7d} to /shared/train/{job} in torch_dist format",
            f"  successfully saved checkpoint from iteration {done:7d} to /shared/train/{job} [ t 1/4, p 1/2 ]",
            "(min, max) time across ranks (ms):",
            f"    save-checkpoint ................................: ({took_s * 1000 - 300:.2f}, {took_s * 1000:.2f})",
        )
    return (
        f"[rank0]: saving checkpoint to /shared/ckpt/step_{done:07d} ...",
        f"[rank0]: saved checkpoint to /shared/ckpt/step_{done:07d} in {took_s:.1f} s",
    )


def loaded(framework: str, job: str, done: int) -> str:
    """Return the line about the checkpoint from which a job goes on."""
    if framework == "megatron":
        return f"  successfully loaded checkpoint from /shared/train/{job} [ t 1/4, p 1/2 ] at iteration {done}"
    return f"[rank0]: loaded checkpoint from /shared/ckpt/step_{done:07d}, resuming at step {done}"
