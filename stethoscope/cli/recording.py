"""What verbs that record have in common: sizes, limits of the ring, and the recorders themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from stethoscope.clock import Clock
    from stethoscope.collect.source import Source
    from stethoscope.session.recorder import Recorder
    from stethoscope.store.ring import RingLimits

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Return the bytes of `2G`, `500M` or `1048576` (powers of 1024); ValueError for anything else or below 1 MiB."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a size such as 2G or 500M')
    size = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])
    if size < 1024**2:
        raise ValueError("less than 1M")
    return size


def ring_limits(age: str, size: str) -> RingLimits:
    """Return the limits that the options mean; UsageError when they mean none."""
    from stethoscope.specs.duration import duration_s
    from stethoscope.store.ring import RingLimits

    try:
        age_s = duration_s(age)
    except ValueError as error:
        raise UsageError(f"--keep-time: {error}") from None
    try:
        return RingLimits(age_s=age_s, size=parse_size(size))
    except ValueError as error:
        raise UsageError(f"--keep-size: {error}") from None


def file_recorder(source: Source, clock: Clock, path: str, option: str) -> Recorder:
    """Return a recorder into the file at `path`, already made; UsageError when that cannot be."""
    from stethoscope.session.recorder import Recorder
    from stethoscope.store.outlets import FileOutlet

    recorder = Recorder(source, clock, FileOutlet(Path(path)))
    try:
        recorder.open()
    except FileExistsError:
        raise UsageError(f"{option}: {path} is there already; recordings are not written over") from None
    except OSError as error:
        raise UsageError(f"{option}: {path}: {error.strerror}") from None
    return recorder


def ring_recorder(source: Source, clock: Clock, limits: RingLimits) -> Recorder:
    """Return a recorder into the ring of the source's fleet."""
    from stethoscope.session.recorder import Recorder
    from stethoscope.store.outlets import RingOutlet
    from stethoscope.store.ring import ring_directory

    return Recorder(source, clock, RingOutlet(ring_directory(source.fleet), limits))
