"""From names of files to a verdict: opens, scans, filters, judges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stethoscope.analysis.decode import Scanner
from stethoscope.collect.files import LogReader, find_logs
from stethoscope.errors import DataError
from stethoscope.model.finding import Severity
from stethoscope.model.logs import Log, LogVerdict
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.specs.signature import Signatures


@dataclass(slots=True)
class Decoded:
    """What logs say, and what it means."""

    log: Log
    verdict: LogVerdict
    alternatives: Sequence[LogVerdict]
    signatures: Signatures


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events count: of a span of time (wall seconds) and of some hosts; without a limit all."""

    since: float | None = None
    until: float | None = None
    nodes: frozenset[str] = field(default_factory=frozenset)


def decode(
    names: Sequence[str],
    *directories: Path,
    clock: Clock,
    zone: tzinfo | None = None,
    wanted: Wanted | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Decoded:
    """Read the logs of `names` and judge them; raises DataError when not one of them can be read.

    `progress` is called now and then with the bytes taken so far and those that there are (0: unknown).
    """
    started = clock.monotonic()
    signatures = load_signatures(*directories)
    sources = find_logs(names)
    scanner = Scanner(signatures, now=clock.wall(), zone=zone)
    total = sum(source.size for source in sources) if all(source.path for source in sources) else 0
    taken, refused = 0, []
    for source in sources:
        reader = LogReader(source)
        scan = None
        for block in reader.blocks():
            scan = scan or scanner.file(source.name, size=source.size, modified_at=source.modified_at)
            scan.feed(block)
            if progress is not None:
                progress(taken + reader.raw_bytes, total)
        taken += reader.raw_bytes
        if scan is None and reader.trouble:
            refused.append((source, reader.trouble))
        scan = scan or scanner.file(source.name, size=source.size, modified_at=source.modified_at)
        scan.end(reader.trouble)
    if refused and len(refused) == len(sources):
        source, trouble = refused[0]
        raise DataError(trouble, where=source.name)
    return judged(scanner, signatures, wanted, seconds=clock.monotonic() - started)


def judged(scanner: Scanner, signatures: Signatures, wanted: Wanted | None, *, seconds: float) -> Decoded:
    """Return the verdict over what `scanner` has found so far."""
    log = scanner.finish()
    if wanted is not None:
        log = chosen(log, wanted)
    log.seconds = seconds
    try:
        from stethoscope.analysis.judge import judge
    except ImportError:
        reason = "there is no judge yet"
        return Decoded(log, LogVerdict("unknown", 0.0, Severity.INFO, reason), [], signatures)
    verdict, alternatives = judge(log, signatures)
    return Decoded(log, verdict, alternatives, signatures)


def chosen(log: Log, wanted: Wanted) -> Log:
    """Return the log with the events that are wanted; one without a time, or without a host, stays."""

    def fits(at: float | None, last_at: float | None, host: str | None) -> bool:
        if at is not None and wanted.until is not None and at > wanted.until:
            return False
        last = last_at if last_at is not None else at
        if last is not None and wanted.since is not None and last < wanted.since:
            return False
        return not wanted.nodes or host is None or host in wanted.nodes or host.partition(".")[0] in wanted.nodes

    return replace(
        log,
        events=[event for event in log.events if fits(event.at, event.last_at, event.origin.host)],
        seen=[seen for seen in log.seen if fits(seen.first_at, seen.last_at, seen.origin.host)],
    )
