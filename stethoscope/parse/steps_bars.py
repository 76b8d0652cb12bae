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

_BAR = re.compile(
    r"(?P<about>[^|]{0,120}?)\d{1,3}%\|[^|]{0,600}\| *(?P<n>\d{1,12})(?:\.\d+)?/(?P<total>\d{1,12}) *"
    r"\[(?:(?P<d>\d{1,4}) days?, )?(?P<elapsed>\d{1,5}:\d\d(?::\d\d)?)<[^,\]]{1,30}, *(?P<rate>" + NUMBER + r"|\?)"
    r"(?P<unit>it/s|s/it|[a-z]{1,12}/s|s/[a-z]{1,12})(?P<more>[^\]]{0,600})"
)
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

    @property
    def step(self) -> int:
        """Return the step: as the bar says it, else counted over all epochs."""
        said = value_of(self.values, "global_step")
        if said is not None and said == said and 0 <= said < 1e15:
            return int(said)
        return (self.epoch or 0) * self.total + self.n

    @property
    def loss(self) -> float | None:
        """Return the loss that the bar shows."""
        return value_of(self.values, "reduced_train_loss", "train_loss", "train_loss_step", "loss")


def read(text: str) -> Bar | None:
    """Return the last bar of a line, None when it has none of training or evaluation."""
    if "%|" not in text:
        return None
    match = None
    for match in _BAR.finditer(text):  # noqa: B007  bars that are drawn over each other: the last one counts
        pass
    if match is None:
        return None
    about = match["about"].strip()
    evaluation = bool(_EVALUATION.search(about))
    if not evaluation and not _TRAINING.fullmatch(about):
        return None
    n, total = count(match["n"]), count(match["total"])
    if n is None or not total or n > total:
        return None
    unit = match["unit"]
    # `s/it` and `it/s` are one another's inverse; of other units only those of steps are steps.
    if unit.strip("/s") not in ("it", "ba", "step", "tep") and unit not in ("it/s", "s/it", "step/s", "s/step"):
        return None
    rate = positive(number(match["rate"]))
    step_time_s = None if rate is None else rate if unit.startswith("s/") else 1.0 / rate
    epoch = _EPOCH.search(about)
    return Bar(
        n,
        total,
        _elapsed_s(match["d"], match["elapsed"]),
        positive(step_time_s),
        evaluation,
        int(epoch[1]) if epoch is not None else None,
        pairs(match["more"]),
    )


def _elapsed_s(days: str | None, clock: str) -> float:
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds + 86_400.0 * int(days or 0)
