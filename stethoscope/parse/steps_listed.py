"""Steps of programs that print a list of names and numbers: torchtitan, NeMo, nanotron, Composer."""

from __future__ import annotations

import re

from stethoscope.model.job import SAME, Phase, PhaseKind, Step
from stethoscope.parse.step_words import NUMBER, count, number, pairs, positive, seconds_of, share, value_of

_TITAN = re.compile(r"\bstep: +(\d{1,12}) +loss: +(" + NUMBER + r")")
_TITAN_SAVED = re.compile(r"Finished saving the checkpoint.{0,60}? in (" + NUMBER + r") seconds")
_TITAN_SAVING = re.compile(r"Saving (?:the|a full) checkpoint|Saving the checkpoint \(or staging")
_TITAN_LOADED = re.compile(r"Finished loading the checkpoint|Loading the checkpoint at step (\d{1,12})")
_NEMO = re.compile(r"Training epoch \d{1,9}, iteration (\d{1,12})/(\d{1,12}) \|")
_NANOTRON = re.compile(r"\biteration: (\d{1,12}) / (\d{1,12}) \| ")
_NANOTRON_SAVING = re.compile(r"Saving checkpoint at (\S{1,400})")
_COMPOSER = re.compile(r"\[(?:epoch=\d{1,9}(?:/\d{1,9})?\]\[)?batch=(\d{1,12})/(\d{1,12})\]")
_COMPOSER_VALUE = re.compile(r"^\s+Train ([\w/-]{1,80}): (" + NUMBER + r")\s*$")


def read(text: str) -> Step | Phase | None:
    """Return what one line tells, None for any other line."""
    if "step: " in text and (match := _TITAN.search(text)) is not None:
        return _titan(text, match)
    if "Training epoch" in text and (match := _NEMO.search(text)) is not None:
        return _nemo(text, match)
    if "iteration: " in text and (match := _NANOTRON.search(text)) is not None:
        return _nanotron(text, match)
    if "batch=" in text and (match := _COMPOSER.search(text)) is not None:
        return Step(int(match[1]), int(match[2]) or None, family="composer")
    if "Train " in text and (match := _COMPOSER_VALUE.match(text)) is not None:
        return _composer(match[1], number(match[2]))
    return _phase(text) if "checkpoint" in text else None


def _titan(text: str, match: re.Match[str]) -> Step:
    found = pairs(text[match.end() :].replace("  ", " , "))
    return Step(
        step=int(match[1]),
        loss=number(match[2]),
        grad_norm=value_of(found, "grad_norm"),
        # `tps` is of one device; older ones call it `wps`.
        tokens_per_s=positive(value_of(found, "tps", "wps")),
        per_gpu=True,
        step_time_s=positive(seconds_of(found, "time_metrics/end_to_end(s)", "end_to_end")),
        family="torchtitan",
    )


def _nemo(text: str, match: re.Match[str]) -> Step:
    found = pairs(text[match.end() - 1 :])
    step = value_of(found, "global_step")
    return Step(
        step=int(match[1]) if step is None or not 0 <= step < 1e15 else int(step),
        total=int(match[2]) or None,
        loss=value_of(found, "reduced_train_loss", "loss"),
        lr=value_of(found, "lr"),
        grad_norm=value_of(found, "grad_norm"),
        batch=positive(value_of(found, "global_batch_size")),
        step_time_s=positive(value_of(found, "train_step_timing in s")),
        family="nemo",
    )


def _nanotron(text: str, match: re.Match[str]) -> Step:
    found = pairs(text[match.end() - 2 :])
    elapsed = value_of(found, "elapsed_time_per_iteration_ms")
    return Step(
        step=int(match[1]),
        total=int(match[2]) or None,
        step_time_s=positive(None if elapsed is None else elapsed / 1e3),
        tokens_per_s=positive(value_of(found, "tokens_per_sec")),
        batch=positive(value_of(found, "global_batch_size")),
        loss=value_of(found, "lm_loss", "loss"),
        lr=value_of(found, "lr"),
        grad_norm=value_of(found, "grad_norm"),
        family="nanotron",
    )


def _composer(name: str, value: float | None) -> Step | None:
    if value is None:
        return None
    if name == "loss/train/total":
        return Step(SAME, loss=value, family="composer")
    if name == "throughput/batches_per_sec":
        rate = positive(value)
        return None if rate is None else Step(SAME, step_time_s=1.0 / rate, family="composer")
    if name == "throughput/samples_per_sec":
        return Step(SAME, samples_per_s=positive(value), family="composer")
    if name == "throughput/tokens_per_sec":
        return Step(SAME, tokens_per_s=positive(value), family="composer")
    if name == "time/data_loading":
        return Step(SAME, data_time_s=share(value), family="composer")
    return None


def _phase(text: str) -> Phase | None:
    saved = _TITAN_SAVED.search(text)
    if saved is not None:
        return Phase(PhaseKind.CHECKPOINT_END, duration_s=positive(number(saved[1])))
    loaded = _TITAN_LOADED.search(text)
    if loaded is not None:
        return Phase(PhaseKind.LOADED, step=count(loaded[1]) if loaded[1] else None)
    if _TITAN_SAVING.search(text) or _NANOTRON_SAVING.search(text):
        return Phase(PhaseKind.CHECKPOINT_BEGIN)
    return None
