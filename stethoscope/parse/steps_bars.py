"""Progress bars of tqdm, as the Hugging Face Trainer and PyTorch Lightning draw them.

`14%|█▍ | 378/2724 [13:58:09<86:18:35, 132.44s/it, loss=2.6]`; the rate is tqdm's own, smoothed. A bar whose words
before it are not those of training (loading shards, mapping a data set) tells nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.parse.step_words import NUMBER, count, number, pairs, positive, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_RATE = (
    r"(?:, *(?P<rate>"
    + NUMBER
    + r"|\?)(?P<unit>it/s|s/it|[a-z]{1,12}/s|s/[a-z]{1,12})(?=[,\]]))?(?P<more>[^\]]{0,600})"
)
_BAR = re.compile(
    r"(?P<about>[^|]{0,120}?)\d{1,3}%(?:\|[^|]{0,600}\|)? *(?P<n>\d{1,12})(?:\.\d+)?/(?P<total>\d{1,12}|\?) *"
    r"\[(?:(?P<d>\d{1,4}) days?, )?(?P<elapsed>\d{1,5}:\d\d(?::\d\d)?)<[^,\]]{1,30}" + _RATE
)
_OPEN = re.compile(
    r"(?P<about>[^|]{0,120}?)(?P<n>\d{1,12})it \[(?:(?P<d>\d{1,4}) days?, )?(?P<elapsed>\d{1,5}:\d\d(?::\d\d)?)" + _RATE
)
"""Where nobody knows how many there will be: `Epoch 1: : 7it [00:30, 4.36s/it, global_step=7.000]`."""
_TUNE = re.compile(r"\d{1,7}\|(\d{1,12})\|Loss: (" + NUMBER + r"):")
"""torchtune puts its own step and loss before the bar."""
_TRAINING = re.compile(
    r"\[?(?:rank ?\d{1,7}|\d{1,9})?\]?:?\s*(?:(?:train(?:ing)?|epochs?|steps?|iterations?|iters?)\b[^|]{0,60})?",
    re.IGNORECASE,
)
_EVALUATION = re.compile(
    r"\b(?:valid(?:ation|ating)?|eval(?:uat\w{2,4})?|sanity checking|testing|predicting)\b", re.IGNORECASE
)
_EPOCH = re.compile(r"\bepochs? ?:? ?(\d{1,7})\b", re.IGNORECASE)


class Bar(NamedTuple):
    """One bar."""

    n: int
    total: int
    elapsed_s: float
    step_time_s: float | None
    evaluation: bool
    """Its words say that nothing is trained meanwhile."""
    epoch: int | None
    values: Mapping[str, tuple[str, str]]
    """What stands behind the rate."""
    own: tuple[int, float | None] | None = None
    """Step and loss that stand before the bar."""

    @property
    def step(self) -> int:
        """Return the step: as the bar says it, else counted over all epochs."""
        if self.own is not None:
            return self.own[0]
        said = value_of(self.values, "global_step")
        if said is not None and said == said and 0 <= said < 1e15:
            return int(said)
        return (self.epoch or 0) * self.total + self.n

    @property
    def loss(self) -> float | None:
        """Return the loss that the bar shows."""
        if self.own is not None:
            return self.own[1]
        return value_of(self.values, "reduced_train_loss", "train_loss", "train_loss_step", "loss")


def read(text: str) -> Bar | None:
    """Return the last bar of a line, None when it has none of training or evaluation."""
    if "it [" not in text and "%" not in text:
        return None
    match = None
    tune = _TUNE.search(text)
    if tune is not None:
        text = text[tune.end() :]
    for match in (_OPEN if "it [" in text else _BAR).finditer(text):  # noqa: B007  bars that are drawn over each other: the last one counts
        pass
    if match is None:
        return None
    about = match["about"].strip()
    evaluation = bool(_EVALUATION.search(about))
    if not evaluation and not _TRAINING.fullmatch(about):
        return None
    values = pairs(match["more"])
    total_text = match.groupdict().get("total") or "?"
    n, total = count(match["n"]), 0 if total_text == "?" else count(total_text)
    if n is None or total is None or (n > total if total else "global_step" not in values):
        return None
    unit = match["unit"] or "it/s"
    # `s/it` and `it/s` are one another's inverse; of other units only those of steps are steps.
    if unit.strip("/s") not in ("it", "ba", "step", "tep") and unit not in ("it/s", "s/it", "step/s", "s/step"):
        return None
    rate = positive(number(match["rate"])) if match["rate"] else None
    step_time_s = None if rate is None else rate if unit.startswith("s/") else 1.0 / rate
    # The timer of NeMo is that of the step; the bar's rate has data and validation in it.
    timing = positive(value_of(values, "train_step_timing in s"))
    epoch = _EPOCH.search(about)
    return Bar(
        n,
        total,
        _elapsed_s(match["d"], match["elapsed"]),
        timing or positive(step_time_s),
        evaluation,
        int(epoch[1]) if epoch is not None else None,
        values,
        (int(tune[1]), number(tune[2])) if tune is not None else None,
    )


def _elapsed_s(days: str | None, clock: str) -> float:
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds + 86_400.0 * int(days or 0)
