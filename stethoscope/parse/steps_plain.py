"""Steps as people print them by hand: `step 120 | loss 2.31 | 0.81 s/step | 812 samples/s`, `iter 16: time 562ms`.

A line counts when it names a step and beside it a loss or a speed; what speaks of validation alone does not.
"""

from __future__ import annotations

import re

from stethoscope.model.job import Phase, PhaseKind, Step
from stethoscope.parse.step_words import NUMBER, number, positive, share


def _compiled(*parts: str) -> re.Pattern[str]:
    return re.compile("".join(parts), re.IGNORECASE)


_NUM = rf"(?P<v>{NUMBER})"
_END = r"(?![\w.])"
_IS = r"[ \t]*[:=]?[ \t]*"
_PER = r"[ \t_]*(?:/|per)[ \t_]*"
_BIG = r"\d[\d,]{0,14}"
_STEP = _compiled(
    r"(?:^|[^\w./-])(?:global[ _]?|train(?:ing)?[ _]?)?(?:step|iter(?:ation)?|it)s?\b(?:\(train\))?",
    rf"[ \t]*[:=#]?[ \t]*\[?[ \t]*(?P<n>{_BIG})(?:[ \t]*(?:/|of)[ \t]*(?P<total>{_BIG}))?{_END}",
)
_EPOCH_BATCH = _compiled(
    r"\bepoch(?:\(train\))?(?P<colon>:)?[ \t]*\[(?P<epoch>\d{1,9})(?:/\d{1,9})?\][ \t]*",
    r"\[?[ \t]*(?P<n>\d{1,12})/(?P<total>\d{1,12})\]",
)
_NOT_TRAINING = _compiled(r"\b(?:valid(?:ation)?|val|eval(?:uation)?|test)[ _]?(?:step|iter|loss|set)?\b")
_TRAINING = _compiled(r"\btrain")
_LOSS = _compiled(
    r"(?:^|[^\w/])(?P<of>[A-Za-z]\w{0,20}[ ])?(?:train(?:ing)?[ _/]?|lm[ _]|total[ _]|avg[ _])?loss\b",
    r"(?:[ ]train(?:ing)?(?:[ ]\(curr\))?)?",
    _IS,
    _NUM,
    _END,
)
_OF_A_PART = _compiled(
    r"(?:actor|critic|unsupervised|policy|value|kl|aux(?:iliary)?|balanc(?:e|ing)|moe|router|entropy|reward|dev|cls|",
    r"val(?:id(?:ation)?)?|eval(?:uation)?|test|box|bbox|mask|distillation|generator|discriminator|best|min|max|",
    r"previous|last|initial|local|target)[ ]",
)
"""Words that make a loss that of something else."""
_SECONDS = r"[ \t]*(?P<unit>ms|msecs?|secs?|seconds?|s)\b"
_STEPS = r"(?:steps?|it(?:er(?:ation)?)?s?|batch(?:es)?)\b"
_TIME = _compiled(r"(?<![\w.-])", _NUM, r"[ \t]*(?P<unit>ms|msecs?|secs?|seconds?|s)", _PER, _STEPS)
_RATE = _compiled(r"(?<![\w.-])", _NUM, r"[ \t]*", _STEPS, _PER, r"s(?:ec(?:ond)?)?\b")
_RATE_AFTER = _compiled(r"(?:^|[\s,|;])", _STEPS, _PER, r"s(?:ec(?:ond)?)?[ \t]*[:= ][ \t]*", _NUM, _END)
_NAMED_TIME = _compiled(
    r"(?:^|[^\w/]|/(?=step|iter|batch))(?P<of>[A-Za-z]\w{0,20}[ ])?",
    r"(?:(?:(?:step|iter(?:ation)?|batch)[ _]?)?time|dt|(?:step|iter)[ _]?duration|took)",
    _IS,
    _NUM,
    _SECONDS,
)
_TIME_PER_STEP = _compiled(r"\btime(?:[ _]per[ _]|/)(?:step|iter(?:ation)?|batch)\b", _IS, _NUM, _SECONDS)
_OF_MORE = _compiled(
    r"(?:total|elapsed|wall|eta|remaining|left|val(?:idation)?|eval(?:uation)?|data|load(?:ing)?|forward|backward|fwd|",
    r"bwd|epoch|comm|optim(?:izer)?|run|cumulative|start|save|checkpoint)[ ]",
)
"""Words that make a time that of something else than a step."""
_NAMED_SECONDS = _compiled(r"(?:^|[,|;])[ \t]*(?P<unit>s)econds[ \t]*[:=][ \t]*", _NUM, _END)
_LONE_MS = _compiled(r"\|[ \t]*", _NUM, r"[ \t]*(?P<unit>ms)[ \t]*(?=\||$)")
_UNIT_IN_NAME = _compiled(
    r"\b(?:step|iter(?:ation)?|batch)[ _]?time[ _]?\(?(?P<unit>ms|s|sec)\)?[ \t]*[:=][ \t]*", _NUM, _END
)
_METER = _compiled(r"(?:^|[\s,])time:?[ \t]+(?P<v>\d{1,9}\.\d{1,9})(?=,?[ \t]+(?:\(|data|memory|last_time)|[ \t]*$)")
_METER_DATA = _compiled(r"(?:^|[\s,])data(?:_time)?:?[ \t]+(?P<v>\d{1,9}\.\d{1,9})(?=[ \t]|,|$)")
_DATA_TIME = _compiled(r"\bdata(?:[ _-]?(?:load(?:ing|er)?|wait))?[ _]?(?:time)?", _IS, _NUM, _SECONDS)
_LR = _compiled(r"\b(?:lr|learning[ _]rate)\b", _IS, _NUM)
_NORM = _compiled(r"\b(?:grad(?:ient)?[ _]?norm|gnorm|norm)\b", _IS, _NUM)
_BATCH = _compiled(r"\b(?:global[ _]batch(?:[ _]size)?|gbs)\b", _IS, _NUM, _END)
_SAVE = _compiled(r"\b(?:sav(?:ing|ed)|writ(?:ing|ten|e))\b.{0,40}?\bcheckpoint")
_SAVE_TIME = _compiled(r"\b(?:in|took)[ \t:]+(?P<v>\d{1,7}(?:\.\d{1,9})?)", _SECONDS)
_LOADED = _compiled(
    r"\b(?:loaded|resum(?:ed|ing)|restored)\b.{0,40}?\bcheckpoint|\bresum(?:ed|ing) (?:training )?(?:from|at) step\b"
)
_EVALUATING = _compiled(
    r"^(?:\W|\w+ - )*(?:(?:running|starting|begin(?:ning)?) )?(?:evaluation|validation|evaluating|validating)\b"
)


def _speed_of(what: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of `812 samples/s` and of `samples/s: 812`, with K and M."""
    unit = rf"{what}{_PER}s(?:ec(?:ond)?)?"
    of_gpu = r"(?P<gpu>[ \t_/]*(?:per[ _]|/)?(?:gpu|device|rank))?"
    return (
        _compiled(rf"(?P<name>[A-Za-z_]{{2,40}}[:=]?[ \t]*)?(?<![\w.]){_NUM}(?P<k>[KM]?)[ \t]*{unit}{of_gpu}\b"),
        _compiled(rf"\b{unit}{of_gpu}\b(?P<is>[ \t]*[:=])?[ \t]*{_NUM}(?P<k>[KM]?){_END}"),
    )


_SAMPLES = _speed_of(r"(?:samples?|seq(?:uence)?s?|images?|imgs?|examples?)")
_TOKENS = _speed_of(r"(?:tokens?|toks?)")


def read(text: str) -> Step | Phase | None:
    """Return what one line tells, None for any other line."""
    match = _EPOCH_BATCH.search(text) or _STEP.search(text)
    if match is not None and not _NOT_TRAINING.search(text[: match.start()] or " "):
        found = _step(text, match)
        if found is not None:
            return found
    return _phase(text)


def _step(text: str, match: re.Match[str]) -> Step | None:
    n, total = int(match["n"].replace(",", "")), int((match["total"] or "0").replace(",", ""))
    is_meter = match.re is _EPOCH_BATCH
    if is_meter:
        # `Epoch: [0]` of PyTorch's examples is the first, as is `Epoch [1]` of mmengine.
        n += max(0, int(match["epoch"]) - (match["colon"] is None)) * total
    rest = text[match.end() :]
    is_lone_validation = _NOT_TRAINING.search(rest) is not None and _TRAINING.search(text) is None
    loss = _of_itself(_LOSS, _OF_A_PART, text)
    step_time_s = _time_s(text, is_meter=is_meter)
    samples, _ = _speed(_SAMPLES, text)
    tokens, per_gpu = _speed(_TOKENS, text)
    if is_lone_validation or (loss is None and step_time_s is None and samples is None and tokens is None):
        return None
    return Step(
        step=n,
        total=None if is_meter else total or None,
        step_time_s=step_time_s,
        samples_per_s=samples,
        tokens_per_s=tokens,
        per_gpu=per_gpu,
        batch=positive(_found(_BATCH, text)),
        loss=None if loss is None else number(loss["v"]),
        lr=_found(_LR, text),
        grad_norm=_found(_NORM, text),
        data_time_s=share(_data_time_s(text, is_meter=is_meter)),
        family="plain",
    )


def _time_s(text: str, *, is_meter: bool) -> float | None:
    for match in (
        _TIME.search(text),
        _UNIT_IN_NAME.search(text),
        _TIME_PER_STEP.search(text),
        _of_itself(_NAMED_TIME, _OF_MORE, text),
        _NAMED_SECONDS.search(text),
        _LONE_MS.search(text),
    ):
        seconds = positive(_in_seconds(match))
        if seconds is not None:
            return seconds
    rate = positive(_found(_RATE, text)) or positive(_found(_RATE_AFTER, text))
    if rate is not None:
        return 1.0 / rate
    # `Time 0.512 (0.530)` of the meters of PyTorch's examples, and `time: 0.99` of mmengine, are seconds.
    return positive(_found(_METER, text)) if is_meter or "data_time" in text else None


def _data_time_s(text: str, *, is_meter: bool) -> float | None:
    if is_meter or "data_time:" in text:
        return _found(_METER_DATA, text)
    return _seconds(_DATA_TIME, text)


def _of_itself(pattern: re.Pattern[str], other: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first match that no word of `other` before it makes one of something else."""
    return next((m for m in pattern.finditer(text) if m["of"] is None or not other.fullmatch(m["of"])), None)


def _found(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return number(match["v"]) if match is not None else None


def _seconds(pattern: re.Pattern[str], text: str) -> float | None:
    return _in_seconds(pattern.search(text))


def _in_seconds(match: re.Match[str] | None) -> float | None:
    value = number(match["v"]) if match is not None else None
    if match is None or value is None:
        return None
    return value / 1e3 if match["unit"].lower().startswith("ms") else value


def _speed(patterns: tuple[re.Pattern[str], re.Pattern[str]], text: str) -> tuple[float | None, bool]:
    """Return a speed, and whether it is that of one GPU."""
    before, after = (pattern.search(text) for pattern in patterns)
    # `loss 3.2 samples/s 812`: a number that has a name of its own before it is not the one.
    match = after if before is None or (after is not None and (after["is"] or before["name"])) else before
    if match is None:
        return None, False
    value = number(match["v"])
    factor = {"K": 1e3, "M": 1e6}.get(match["k"].upper(), 1.0)
    return positive(None if value is None else value * factor), bool(match["gpu"])


def _phase(text: str) -> Phase | None:
    if "heckpoint" in text or "HECKPOINT" in text:
        if _LOADED.search(text):
            return Phase(PhaseKind.LOADED)
        saving = _SAVE.search(text)
        if saving is None:
            return None
        took = _seconds(_SAVE_TIME, text[saving.start() :])
        is_end = took is not None or "saved" in saving[0].lower() or "written" in saving[0].lower()
        return Phase(PhaseKind.CHECKPOINT_END if is_end else PhaseKind.CHECKPOINT_BEGIN, duration_s=positive(took))
    return Phase(PhaseKind.EVALUATION_BEGIN) if _EVALUATING.match(text) else None
