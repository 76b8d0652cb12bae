"""From files with stacks of many processes to who is where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.analysis.stacks import Place, judge_stacks, places_of
from stethoscope.collect.files import LogReader, find_logs
from stethoscope.errors import DataError
from stethoscope.model.logs import Log, LogFile
from stethoscope.parse.stacks import LARGEST, read_stacks
from stethoscope.session.decode import Decoded
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.parse.stacks import Process


@dataclass(slots=True)
class StacksDecoded:
    """What the stacks say: the answer in the form of all answers about logs, and who is where."""

    decoded: Decoded
    places: list[Place]


def decode_stacks(names: Sequence[str], *directories: Path, clock: Clock) -> StacksDecoded:
    """Read stacks from files, patterns, directories or the standard input; DataError when there are none."""
    started = clock.monotonic()
    files: list[LogFile] = []
    found: list[Process] = []
    size = 0
    for source in find_logs(names):
        reader = LogReader(source)
        data = bytearray()
        for block in reader.blocks():
            data += block
            if len(data) > LARGEST:
                break
        processes = read_stacks(bytes(data), source.name)
        size += len(data)
        trouble = reader.trouble or ("" if processes else "no stacks of py-spy dump in it")
        files.append(LogFile(source.name, source.size, data.count(b"\n"), source.modified_at, trouble=trouble))
        found += _ranks_own(processes)
    if not found:
        where = files[0].name if files else " ".join(names)
        raise DataError(files[0].trouble if files else "no file is there", where=where)
    places = places_of(found)
    log = Log(files, [], bytes=size, lines=sum(file.lines for file in files), seconds=clock.monotonic() - started)
    return StacksDecoded(Decoded(log, judge_stacks(places), [], load_signatures(*directories)), places)


def _ranks_own(processes: list[Process]) -> list[Process]:
    """Return the processes of ranks: children beside them, such as workers of a loader, are left out."""
    ranked = [process for process in processes if process.rank is not None]
    return ranked or processes
