"""Lines of the Hugging Face Trainer (also axolotl, LLaMA-Factory, TRL): a dictionary at every logging step.

`{'loss': 2.0491, 'grad_norm': 1.2, 'learning_rate': 1.9e-05, 'epoch': 0.28}` names no step: the bar above it does.
"""

from __future__ import annotations

import re

from stethoscope.model.job import SAME, Phase, PhaseKind, Step
from stethoscope.parse.step_words import pairs, positive, value_of

_SAVING = re.compile(r"Saving model checkpoint to \S{0,400}?checkpoint-(\d{1,12})")
_EVALUATING = re.compile(r"\*{3,} Running (?:Evaluation|Prediction)", re.IGNORECASE)
_RESUMED = re.compile(r"Continuing training from global step (\d{1,12})")
_LOSS = re.compile(r"""['"]loss['"]: """)
_EVALUATED = re.compile(r"""['"]eval_(?:loss|runtime)['"]: """)


def read(text: str) -> Step | Phase | None:
    """Return what one line tells, None for any other line."""
    logged = text.find("{'loss'")
    if logged > 0:
        # A logger's words stand before it: `[INFO|callbacks.py:310] >> {'loss': 2.3}`.
        text = text[logged:]
    if text.startswith("{"):
        return _logged(text)
    if "Saving model checkpoint" in text:
        match = _SAVING.search(text)
        return Phase(PhaseKind.CHECKPOINT_BEGIN, step=int(match[1])) if match is not None else None
    if "***** Running" in text and _EVALUATING.search(text):
        return Phase(PhaseKind.EVALUATION_BEGIN)
    match = _RESUMED.search(text) if "Continuing training" in text else None
    return Phase(PhaseKind.LOADED, step=int(match[1])) if match is not None else None


def _logged(text: str) -> Step | Phase | None:
    # Newer versions print numbers as texts: {'loss': '2.04'}.
    bare = text.replace(": '", ": ").replace("',", ",").replace("'}", "}")
    if _EVALUATED.search(text):
        return Phase(PhaseKind.EVALUATION_END, duration_s=positive(value_of(pairs(bare), "eval_runtime")))
    if not _LOSS.search(text) or '"loss"' in text:
        # JSON is not of the Trainer: somebody prints it with a step.
        return None
    found = pairs(bare)
    step = value_of(found, "global_step", "step")
    return Step(
        step=int(step) if step is not None and 0 <= step < 1e15 else SAME,
        loss=value_of(found, "loss"),
        lr=value_of(found, "learning_rate", "lr"),
        grad_norm=value_of(found, "grad_norm"),
        family="trainer",
    )
