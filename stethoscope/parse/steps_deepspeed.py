"""Steps and checkpoints of DeepSpeed's engine: two lines a step, one with the rate and one with the learning rate."""

from __future__ import annotations

import re

from stethoscope.model.job import Phase, PhaseKind, Step
from stethoscope.parse.step_words import NUMBER, count, number, positive

_TIMER = re.compile(
    r"(?:global_step=|\b\d{1,9}/)(\d{1,12}), RunningAvgSamplesPerSec=("
    + NUMBER
    + r"), CurrSamplesPerSec=("
    + NUMBER
    + ")"
)
_OPTIMIZER = re.compile(r"\bstep=(\d{1,12}), skipped=(\d{1,12}), lr=\[(" + NUMBER + ")?")
_PIPE = re.compile(
    r"steps: (\d{1,12}) loss: ("
    + NUMBER
    + r") (?:\S+ )?iter time \(s\): ("
    + NUMBER
    + r") samples/sec: ("
    + NUMBER
    + ")"
)
_BEGIN = re.compile(r"\bCheckpoint (?:global_step)?(\d{1,12}) is (?:begin to save|about to be saved)!?", re.IGNORECASE)
_END = re.compile(r"\bCheckpoint (?:global_step)?(\d{1,12}) is ready now", re.IGNORECASE)


def read(text: str) -> Step | Phase | None:
    """Return what one line tells, None for any other line."""
    if "SamplesPerSec" in text:
        match = _TIMER.search(text)
        if match is not None:
            return Step(int(match[1]), samples_per_s=positive(number(match[3])), family="deepspeed")
    elif "skipped=" in text:
        match = _OPTIMIZER.search(text)
        if match is not None:
            return Step(int(match[1]), lr=number(match[3] or ""), family="deepspeed")
    elif "iter time (s):" in text:
        match = _PIPE.search(text)
        if match is not None:
            return Step(
                int(match[1]),
                loss=number(match[2]),
                step_time_s=positive(number(match[3])),
                samples_per_s=positive(number(match[4])),
                family="deepspeed",
            )
    elif "heckpoint" in text:
        for pattern, kind in ((_BEGIN, PhaseKind.CHECKPOINT_BEGIN), (_END, PhaseKind.CHECKPOINT_END)):
            match = pattern.search(text)
            if match is not None:
                return Phase(kind, step=count(match[1]))
    return None
