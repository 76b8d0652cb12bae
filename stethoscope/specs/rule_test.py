"""What a test of a rule says: samples of one place among others, and what the rule must make of them."""

from __future__ import annotations

import math
import re
import zlib
from typing import Annotated, Any, Literal

import msgspec

from stethoscope.specs.load import Spec

Cells = list[int | float | str] | int | float | str
"""Samples: a number, the word of a reason, or text that stands for several (see `expanded`)."""
Series = dict[str, Cells | dict[str | int, Cells]]
"""Metric -> samples, of all devices of its kind alike, or for each device by its name."""

MAX_SAMPLES = 20_000
"""More samples than this in one series are a typing mistake."""
_TIMES = re.compile(r"(.*?)\s*[x×]\s*(\d{1,5})")
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_RAMP = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")
_STEP = re.compile(r"\+\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NOISE = re.compile(rf"({_NUMBER})\s*~\s*(\d+(?:\.\d+)?)")


class TestSpec(Spec, frozen=True):
    """A series of samples of one place among healthy peers, and what the rule must make of it."""

    name: str
    expect: Literal["P0", "P1", "P2", "info", "none"]
    series: Series = msgspec.field(default_factory=dict)
    """Counters as totals."""
    peers: Series = msgspec.field(default_factory=dict)
    """The same for the peers."""
    peer_count: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    every: int | float | str = "5s"
    """Time between two samples; behind more than ten minutes nobody looked in between."""
    busy: bool | None = None
    """GPUs at work, or idle ones: what the series do not say is as it is there."""
    gpus: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    """GPUs of each node, when they are more than the series name."""
    job: bool = False
    """Subject and peers run one job."""
    link: list[str] | str = "live"
    frames: int | None = None
    """Samples that are sent at all; nothing comes afterwards."""
    xid: dict[int, int] = msgspec.field(default_factory=dict)
    """Number of the sample -> Xid in the kernel log."""
    kernel: dict[int, str] = msgspec.field(default_factory=dict)
    """Number of the sample -> line in the kernel log."""
    words: dict[str, str] = msgspec.field(default_factory=dict)
    """Versions and settings of the subject: driver_version, cpu_governor ..."""
    peer_words: dict[str, str] = msgspec.field(default_factory=dict)
    """The same for the peers."""
    about: dict[str, str] = msgspec.field(default_factory=dict)
    """What is known of each device that the series name: driver, type, rotational ..."""
    expected_gpus: int | None = None
    expected_ib_gbps: float | None = None
    summary: str | None = None
    where: list[str] | str | None = None
    """Where the finding must be, on the subject: `gpu/3`, `disk/nvme0n1`; empty for the node."""
    single_look: bool = False
    each: str | None = None
    """For which rule of a template this test is; None is for all."""


def expanded(cells: Cells, seed: str = "") -> list[Any]:
    """Return the samples that `cells` stand for; ValueError for none, or too many.

    `40 x6` is six times 40; `60..90 x7` goes from 60 to 90 in seven samples; `+5 x10` adds 5 to the sample before, ten
    times; `70~2 x40` wavers by at most 2 around 70, differently for each `seed`. A counter's samples are totals.
    """
    samples: list[Any] = []
    for cell in cells if isinstance(cells, list) else [cells]:
        match = _TIMES.fullmatch(cell) if isinstance(cell, str) else None
        text, times = (match[1], int(match[2])) if match else (cell, 1)
        samples += _some(text, times, samples[-1] if samples else 0, f"{seed}:{len(samples)}")
        if len(samples) > MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples")
    if not samples:
        raise ValueError("an empty series")
    return samples


def _some(cell: Any, times: int, before: Any, seed: str) -> list[Any]:
    if not isinstance(cell, str):
        return [cell] * times
    text = cell.strip()
    if ramp := _RAMP.fullmatch(text):
        first, last = float(ramp[1]), float(ramp[2])
        return [_plain(first + (last - first) * at / max(1, times - 1)) for at in range(times)]
    if _STEP.fullmatch(text):
        if not isinstance(before, int | float):
            raise ValueError(f'"{text}" needs a number before it')
        return [_plain(before + float(text) * (at + 1)) for at in range(times)]
    if noise := _NOISE.fullmatch(text):
        middle, most = float(noise[1]), float(noise[2])
        return [middle + most * math.sin(zlib.crc32(f"{seed}+{at}".encode())) for at in range(times)]
    return [_number(text)] * times


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _number(text: str) -> Any:
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            number = read()
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            return number
    return text
