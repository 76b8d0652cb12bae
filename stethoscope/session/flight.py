"""From a directory of flight recorder dumps to a verdict."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.analysis.flight import Flight
from stethoscope.analysis.flight_verdict import judge_flight
from stethoscope.collect.files import LogSource, find_logs
from stethoscope.errors import DataError
from stethoscope.model.logs import Log, LogFile
from stethoscope.parse.flight_recorder import LARGEST, read_dump
from stethoscope.session.decode import Decoded
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.parse.flight_recorder import Dump

_GZIP = b"\x1f\x8b"


@dataclass(slots=True)
class FlightDecoded:
    """What the dumps say: the answer in the form of all answers about logs, and the dumps laid beside each other."""

    decoded: Decoded
    flight: Flight


def decode_flight(
    names: Sequence[str],
    *directories: Path,
    clock: Clock,
    progress: Callable[[int, int], None] | None = None,
) -> FlightDecoded:
    """Read the dumps of `names` (files, patterns, directories) and judge them.

    Files that are no dumps, and ranks that left none, are told of; raises DataError when not one can be read.
    `directories` are those of signatures; `progress` is called with the bytes taken so far and all of them.
    """
    started = clock.monotonic()
    sources = [source for source in find_logs(names) if source.path is not None]
    dumps: dict[int, Dump] = {}
    files: list[LogFile] = []
    total, taken = sum(source.size for source in sources), 0
    refused: DataError | None = None
    for source in sources:
        file = LogFile(name=source.name, size=source.size, modified_at=source.modified_at)
        files.append(file)
        try:
            dump = read_dump(_content(source), source.name)
        except DataError as error:
            refused = refused or error
            file.trouble = error.message
        else:
            kept = dumps.get(dump.rank)
            if kept is None or len(kept.calls) < len(dump.calls):
                dumps[dump.rank] = dump
        taken += source.size
        if progress is not None:
            progress(taken, total)
    if not dumps:
        raise refused or DataError("no flight recorder dump is there", where=" ".join(names))
    flight = Flight([dumps[rank] for rank in sorted(dumps)])
    verdict, alternatives = judge_flight(flight)
    log = Log(files, [], bytes=total, seconds=clock.monotonic() - started)
    return FlightDecoded(Decoded(log, verdict, alternatives, load_signatures(*directories)), flight)


def _content(source: LogSource) -> bytes:
    """Return what is in a file, plain or gzipped, one byte more than a dump may have at most."""
    assert source.path is not None
    try:
        with open(source.path, "rb") as file:
            head = file.read(len(_GZIP))
            if head != _GZIP:
                return head + file.read(LARGEST)
        with gzip.open(source.path, "rb") as packed:
            return packed.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged gzip"
        raise DataError(reason, where=source.name) from None
