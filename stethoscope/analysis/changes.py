"""Change points of many rows at once, against the own recent past of each: no thresholds, a few numbers per row.

Each row has a level and the size of its noise, both learned. What lies beyond half of `sure` noises on one side, sample
after sample (a CUSUM, so that one stray sample ends nothing), is a run. A run that lasts, and lies beyond `sure` noises
on average, is a change: it happened when the run began. A run that ends by itself was an excursion, such as a
checkpoint, and the next one must last longer than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.few import Few
from stethoscope.analysis.windows import fitted

if TYPE_CHECKING:
    from stethoscope.analysis.layout import Numbers
    from stethoscope.analysis.windows import Flags
    from stethoscope.model.fleet import Floats

LEARN = 12
"""Samples before anything is said of a row."""
MEMORY = 60
"""Samples over which level and noise are averaged."""
LEAST_SAMPLES = 3
"""Of a run that can be a change."""
MEAN_TO_SIGMA = 1.2533
"""Mean distance times this is the standard deviation of normal noise."""
MOST = 0.7
"""Share of a run's samples that must lie on its side."""
LONGER = 1.5
"""A change lasts so many times longer than the excursions that are usual here."""
FORGET_USUAL = 0.9
BACK = 0.3
"""A change back to within this share of the step undoes it."""
_STEADY = 4.0
"""Half `sure`s that a CUSUM reaches at most, so that as many quiet samples end a run."""
_CLIP = 6.0
"""Noises beyond which a sample says nothing more about the noise."""
_CALM = ("level", "noise", "samples")
"""What every row has; ..."""
_RUN = ("run_mean", "run_samples", "run_all", "run_spread")
_RUNS = dict.fromkeys(("up", "down", *_RUN), 0.0) | {"began": np.nan}
"""... what those have that are in a run, and what the others have there; ..."""
_PAST = {"usual_s": 0.0, "at": np.nan, "before": np.nan, "after": np.nan}
"""... and those that were in one."""
_CHANGE = ("at", "before", "after")


class Detector:
    """What is remembered of each row, and how a sample moves it."""

    def __init__(self, sure: float, lasting_s: float, *, share: float = 0.0, resolution: float = 0.0) -> None:
        """A change is `sure` noises high, `share` of the level at least, and lasts `lasting_s` seconds; noise is never
        taken for less than `resolution`."""
        self._sure, self._lasting_s = sure, lasting_s
        self._share, self._resolution = share, resolution
        self._calm = {name: np.zeros(0) for name in _CALM}
        self._runs, self._past = Few(_RUNS), Few(_PAST)

    @property
    def at(self) -> Floats:
        """Return when each row changed last (seconds of the samples' clock), NaN where it did not or came back."""
        return self._past.whole("at")

    @property
    def before(self) -> Floats:
        """Return the level before the last change."""
        return self._past.whole("before")

    @property
    def after(self) -> Floats:
        """Return the level after it."""
        return self._past.whole("after")

    @property
    def knows(self) -> Flags:
        """Return of which rows enough samples were seen."""
        return np.asarray(self._calm["samples"] >= LEARN)

    @property
    def nbytes(self) -> int:
        """Return the memory of the state."""
        return sum(array.nbytes for array in self._calm.values()) + self._runs.nbytes + self._past.nbytes

    def fit(self, changed: Flags) -> None:
        """Take as many rows as `changed` has; forget those that are set in it."""
        for name, array in self._calm.items():
            self._calm[name] = fitted(array, changed, _blank(name)).astype(np.float64)
        self._runs.fit(changed)
        self._past.fit(changed)

    def forget(self, rows: Flags) -> None:
        """Learn these rows anew: they do something else now."""
        if rows.any():
            for name, array in self._calm.items():
                array[rows] = _blank(name)
            self._runs.forget(rows)
            # How long excursions last here is known all the same.
            past = self._past.rows[rows[self._past.rows]]
            nothing = np.full(len(past), np.nan)
            self._past.put(past, {"usual_s": self._past.at(past)["usual_s"]} | dict.fromkeys(_CHANGE, nothing))

    def take(self, values: Floats, at: Floats, new: Flags) -> None:
        """Take a sample of the rows that have a `new` one, read at `at` seconds; a value may be NaN."""
        rows = np.flatnonzero(new & np.isfinite(values))
        if not len(rows):
            return
        running = np.zeros(len(values), dtype=bool)
        running[self._runs.rows] = True
        now = {name: array[rows] for name, array in self._calm.items()}
        z, off, sigma, learning = self._measured(now, values[rows])
        # Of most rows nothing but level and noise moves.
        calm = ~running[rows] & (np.abs(z) <= self._sure / 2)
        if not calm.all():
            self._take_others(values, at, rows[~calm])
            rows, off, sigma, learning = rows[calm], off[calm], sigma[calm], learning[calm]
            now = {name: array[calm] for name, array in now.items()}
        self._learn(now, off, sigma, np.ones(len(rows), dtype=bool), learning)
        for name, array in self._calm.items():
            array[rows] = now[name]

    def _take_others(self, values: Floats, at: Floats, rows: Numbers) -> None:
        """Take a sample of rows that are in a run, or begin one."""
        now = {name: array[rows] for name, array in self._calm.items()} | self._runs.at(rows) | self._past.at(rows)
        z, off, sigma, learning = self._measured(now, values[rows])
        outside = self._run(now, values[rows], at[rows], z)
        self._learn(now, off, sigma, now["run_samples"] == 0, learning)
        self._declare(now, at[rows], sigma, outside)
        for name, array in self._calm.items():
            array[rows] = now[name]
        self._runs.put(rows, now)
        self._past.put(rows, now)

    def _measured(self, now: dict[str, Floats], x: Floats) -> tuple[Floats, Floats, Floats, Flags]:
        """Return how far samples lie from their level, in noises and as they are, the noise, and which rows learn yet;
        the first sample of a row is its level."""
        now["level"] = np.where(now["samples"] == 0, x, now["level"])
        sigma = np.maximum(now["noise"] * MEAN_TO_SIGMA, self._resolution)
        sigma = np.maximum(sigma, np.abs(now["level"]) * self._share / self._sure)
        off = x - now["level"]
        # Without any noise so far, whatever is not the same is as far away as anything can be.
        far = np.copysign(2 * self._sure, off) * (off != 0)
        z = np.divide(off, sigma, out=far, where=sigma > 0)
        learning = now["samples"] < LEARN
        return np.where(learning, 0.0, np.clip(z, -2 * self._sure, 2 * self._sure)), off, sigma, learning

    def _run(self, now: dict[str, Floats], x: Floats, at: Floats, z: Floats) -> Flags:
        """Begin, go on with, or end the run of each row; return which samples are of a run."""
        half = self._sure / 2
        side = now["up"] > 0
        was = now["run_samples"] > 0
        now["up"] = np.clip(now["up"] + z - half, 0.0, _STEADY * half)
        now["down"] = np.clip(now["down"] - z - half, 0.0, _STEADY * half)
        runs = (now["up"] > 0) | (now["down"] > 0)
        turned = was & runs & (side != (now["up"] > 0)) & ~((now["up"] > 0) & (now["down"] > 0))
        ended = was & (~runs | turned)
        lasted_s = np.where(ended, at - now["began"], 0.0)
        counted = ended & (now["run_samples"] >= LEAST_SAMPLES)
        now["usual_s"] = np.where(counted, np.maximum(lasted_s, now["usual_s"] * FORGET_USUAL), now["usual_s"])
        # What strays for a sample or two is noise that was not seen before.
        strayed = ended & ~counted
        away = np.abs(now["run_mean"] - now["level"])
        now["noise"] += np.where(strayed, away - now["noise"], 0.0) / MEMORY
        begins = runs & (~was | turned)
        now["began"] = np.where(begins, at, np.where(runs, now["began"], np.nan))
        for name in _RUN:
            now[name] = np.where(begins | ~runs, 0.0, now[name])
        # A stray sample within the run is not of the new level, and must not spoil it.
        outside = runs & (np.where(now["up"] > 0, z, -z) > half)
        counts = np.where(outside, now["run_samples"] + 1, now["run_samples"])
        step = np.where(outside, x - now["run_mean"], 0.0)
        now["run_mean"] += step / np.maximum(counts, 1)
        more = outside & (counts > 1)
        now["run_spread"] += np.where(more, (np.abs(step) - now["run_spread"]) / np.maximum(counts - 1, 1), 0.0)
        now["run_samples"] = counts
        now["run_all"] += runs
        return np.asarray(outside)

    def _learn(self, now: dict[str, Floats], off: Floats, sigma: Floats, quiet: Flags, learning: Flags) -> None:
        """Move level and noise of the rows that are in no run."""
        now["samples"] = np.where(quiet, np.minimum(now["samples"] + 1, 1e6), now["samples"])
        weight = np.where(quiet, 1 / np.clip(now["samples"], 1, MEMORY), 0.0)
        limit = np.where(learning | (sigma == 0), np.inf, _CLIP * sigma)
        held = np.clip(off, -limit, limit)
        now["level"] += weight * held
        # The first sample says nothing about noise.
        counted = np.where(quiet & (now["samples"] > 1), 1 / np.clip(now["samples"] - 1, 1, MEMORY), 0.0)
        now["noise"] += counted * (np.abs(held) - now["noise"])

    def _declare(self, now: dict[str, Floats], at: Floats, sigma: Floats, outside: Flags) -> None:
        """Turn runs that have lasted up to this sample into changes."""
        lasted_s = np.where(now["run_samples"] >= LEAST_SAMPLES, at - now["began"], -1.0)
        needed_s = np.maximum(self._lasting_s, LONGER * now["usual_s"])
        high = np.abs(now["run_mean"] - now["level"]) >= self._sure * sigma
        changed = outside & (lasted_s >= needed_s) & high & (now["run_samples"] >= MOST * now["run_all"])
        if not changed.any():
            return
        step = now["after"] - now["before"]
        undone = changed & (np.abs(now["run_mean"] - now["before"]) <= BACK * np.abs(step))
        went_s = np.where(undone, now["began"] - now["at"], 0.0)
        now["usual_s"] = np.maximum(now["usual_s"], went_s)
        now["at"] = np.where(undone, np.nan, np.where(changed, now["began"], now["at"]))
        now["before"] = np.where(undone, np.nan, np.where(changed, now["level"], now["before"]))
        now["after"] = np.where(undone, np.nan, np.where(changed, now["run_mean"], now["after"]))
        now["level"] = np.where(changed, now["run_mean"], now["level"])
        now["noise"] = np.where(changed, now["run_spread"], now["noise"])
        now["samples"] = np.where(changed, np.maximum(now["run_samples"], LEARN), now["samples"])
        now["began"] = np.where(changed, np.nan, now["began"])
        for name in ("up", "down", *_RUN):
            now[name] = np.where(changed, 0.0, now[name])


def _blank(name: str) -> float:
    """Return what stands in a row of which no sample was taken."""
    return np.nan if name == "level" else 0.0
