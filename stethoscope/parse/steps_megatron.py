"""Steps and checkpoints of Megatron-LM and Megatron-DeepSpeed.

`iteration 5426/ 250000 | consumed samples: 43408 | elapsed time per iteration (ms): 4247.9 | lm loss: 2.23E+00 | ...`
is the mean of the iterations since the line before it.
"""

from __future__ import annotations

import re

from stethoscope.model.job import Phase, PhaseKind, Step
from stethoscope.parse.step_words import count, number, pairs, positive, value_of

_STEP = re.compile(r"\biteration +(\d{1,12})/ *(\d{1,12}) *\|")
_SAVING = re.compile(r"saving checkpoint at iteration +(\d{1,12})")
_SAVED = re.compile(r"successfully saved checkpoint (?:from|at) iteration +(\d{1,12})")
_LOADED = re.compile(r"successfully loaded checkpoint .{0,300}?(?:at|iteration) +(?:iteration +)?(\d{1,12})\b")
_VALIDATED = re.compile(r"validation loss at (?:iteration|the end of)[ \w]{0,20}?(?: (\d{1,12}))?\b")
_SAVE_TIME = re.compile(r"^\s*save-checkpoint *\.{2,}: *\( *([\d.]{1,20}) *, *([\d.]{1,20}) *\)")


def read(text: str) -> Step | Phase | None:
    """Return what one line tells, None for any other line."""
    if "iteration" not in text:
        return _timer(text) if "save-checkpoint" in text else None
    match = _STEP.search(text)
    if match is None:
        return _phase(text)
    found = pairs(text[match.end() :])
    loss = value_of(found, "lm loss", "lm_loss", "loss", "total loss", "reduced_train_loss", "mlm loss")
    elapsed = value_of(found, "elapsed time per iteration (ms)")
    skipped = value_of(found, "number of skipped iterations")
    # GPT-NeoX puts its rate before the iteration.
    rate = value_of(found, "samples per second")
    if rate is None:
        rate = value_of(pairs(text[: match.start()]), "samples/sec")
    return Step(
        step=int(match[1]),
        total=int(match[2]) or None,
        step_time_s=positive(None if elapsed is None else elapsed / 1e3),
        samples_per_s=positive(rate),
        tokens_per_s=positive(value_of(found, "tokens per second", "tokens/sec")),
        batch=positive(value_of(found, "global batch size")),
        loss=loss,
        lr=value_of(found, "learning rate"),
        grad_norm=value_of(found, "grad norm"),
        skipped=bool(skipped),
        family="megatron",
    )


def _timer(text: str) -> Phase | None:
    """Return the time of a checkpoint, as the table of timers has it: the longest of all ranks."""
    match = _SAVE_TIME.search(text)
    longest = number(match[2]) if match is not None else None
    duration_s = positive(None if longest is None else longest / 1e3)
    return None if duration_s is None else Phase(PhaseKind.CHECKPOINT_END, duration_s=duration_s)


def _phase(text: str) -> Phase | None:
    for pattern, kind in (
        (_SAVED, PhaseKind.CHECKPOINT_END),
        (_SAVING, PhaseKind.CHECKPOINT_BEGIN),
        (_LOADED, PhaseKind.LOADED),
        (_VALIDATED, PhaseKind.EVALUATION_END),
    ):
        match = pattern.search(text)
        if match is not None:
            return Phase(kind, step=count(match[1]) if match[1] else None)
    return None
