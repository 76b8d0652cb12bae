"""Steps of fairseq: `train_inner | epoch 002: 120 / 1500 loss=4.376, wps=16200, ups=2.5, num_updates=1620`, or JSON."""

from __future__ import annotations

import re

from stethoscope.model.job import Step
from stethoscope.parse.step_words import count, number, pairs, positive, value_of

_LINE = re.compile(r"\bepoch (\d{1,7}): +(\d{1,12}) / (\d{1,12}) (?=loss=)")


def read(text: str) -> Step | None:
    """Return what one line tells, None for any other line."""
    if "wps" not in text or "valid" in text:
        return None
    match = _LINE.search(text)
    if match is not None:
        found = pairs(text[match.end() :])
    elif "train_inner" in text and "num_updates" in text:
        found = pairs(text[text.find("{") :].replace('"', ""))
    else:
        return None
    updates = value_of(found, "num_updates")
    step = count(str(updates)) if updates is not None else None
    if step is None and match is not None:
        step = (int(match[1]) - 1) * int(match[3]) + int(match[2])
    if step is None or step < 0:
        return None
    words, speed = positive(value_of(found, "wpb")), positive(value_of(found, "wps"))
    return Step(
        step,
        # `ups` has two digits behind the point: of slow steps it says nothing.
        step_time_s=words / speed if words and speed else None,
        tokens_per_s=speed,
        loss=value_of(found, "loss"),
        lr=number(found["lr"][0]) if "lr" in found else None,
        grad_norm=value_of(found, "gnorm"),
        family="fairseq",
    )
