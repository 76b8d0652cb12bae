"""From names of files to a verdict: opens, scans, filters, judges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stethoscope.analysis.decode import Scanner
from stethoscope.analysis.decode_codes import own_codes
from stethoscope.analysis.judge import judge
from stethoscope.collect.files import LogReader, find_logs
from stethoscope.errors import DataError, UsageError
from stethoscope.model.finding import Severity
from stethoscope.model.logs import LogVerdict, Origin
from stethoscope.specs.codes import load_codes
from stethoscope.specs.moment import moment_of
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.model.incident import Match
    from stethoscope.model.logs import Log
    from stethoscope.session.decode_nodes import NodeLog
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.signature import Signatures


_NOTHING = LogVerdict("unknown", 0.0, Severity.NONE, "There is nothing to read: not one line.")


_MOST_NAMED = 8


@dataclass(slots=True)
class Decoded:
    """What logs say, and what it means."""

    log: Log
    verdict: LogVerdict
    alternatives: Sequence[LogVerdict]
    signatures: Signatures
    limits: str = ""
    """Which part of the logs alone was judged, in words; empty for all of it."""
    codes: Codes | None = None
    kernels: int = 0
    """So many kernel logs were fetched from nodes, whether they said anything or not."""
    similar: Sequence[Match] = ()
    """What of the past looks like it, where somebody looked."""

    def meaning(self, signature: str) -> str:
        """Return what an event of `signature` means, in words; empty for one that nobody knows."""
        known = self.signatures.by_id.get(signature)
        if known is not None:
            return known.meaning
        code = (self.codes or own_codes()).explain(signature)
        return code.title if code is not None else ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events count: of a span of time and of some hosts; without a limit all."""

    since: str | None = None
    until: str | None = None
    """As options write them (specs.moment); spans and times of day are before the newest line."""
    zone: tzinfo | None = None
    nodes: frozenset[str] = field(default_factory=frozenset)

    def is_of(self, host: str) -> bool:
        """Tell whether a host, with or without its domain, is one of the nodes."""
        return host in self.nodes or host.partition(".")[0] in self.nodes

    def moment(self, text: str | None, newest: float) -> float | None:
        """Return the wall seconds that an option means."""
        if text is None:
            return None
        return moment_of(text, newest) if self.zone is None else moment_of(text, newest, self.zone)


def decode(
    names: Sequence[str],
    *directories: Path,
    clock: Clock,
    zone: tzinfo | None = None,
    wanted: Wanted | None = None,
    progress: Callable[[int, int], None] | None = None,
    of_nodes: Sequence[NodeLog] = (),
) -> Decoded:
    """Read the logs of `names` and judge them; raises DataError when not one of them can be read.

    `progress` is called now and then with the bytes taken so far and those that there are (0: unknown); `of_nodes` are
    kernel logs that were fetched, and count as files.
    """
    started = clock.monotonic()
    signatures = load_signatures(*directories)
    sources = find_logs(names)
    size = sum(source.size for source in sources)
    codes = load_codes(*directories)
    scanner = Scanner(signatures, now=clock.wall(), zone=zone, size=size, codes=codes)
    total = size if all(source.path for source in sources) else 0
    taken, refused = 0, []
    for source in sources:
        reader = LogReader(source)
        scan = scanner.file(source.name, size=source.size, modified_at=source.modified_at)
        for block in reader.blocks():
            scan.feed(block)
            if progress is not None:
                progress(taken + reader.raw_bytes, total)
        taken += reader.raw_bytes
        if not scan.taken and reader.trouble:
            refused.append((source, reader.trouble))
        scan.end(reader.trouble)
    for of_node in of_nodes:
        scan = scanner.file(f"kernel log of {of_node.node}", size=len(of_node.data), origin=Origin(host=of_node.node))
        scan.feed(of_node.data)
        scan.end(of_node.trouble)
    if refused and len(refused) == len(sources):
        source, trouble = refused[0]
        raise DataError(trouble, where=source.name)
    kernels = sum(not log.trouble for log in of_nodes)
    seconds = clock.monotonic() - started
    found = judged(scanner, signatures, wanted, now=clock.wall(), seconds=seconds, kernels=kernels)
    found.codes = codes
    return found


def judged(
    scanner: Scanner, signatures: Signatures, wanted: Wanted | None, *, now: float, seconds: float, kernels: int = 0
) -> Decoded:
    """Return the verdict over what `scanner` has found so far; `now` is the newest moment where no line has a time."""
    log, limits = scanner.finish(), ""
    log.seconds = seconds
    if wanted is not None:
        all_of_it = log
        newest = max((file.last_at for file in log.files if file.last_at is not None), default=now)
        log, limits = chosen(log, wanted, newest)
        limits = f"{limits}: {len(log.events):,} of {len(all_of_it.events):,} events" if limits else ""
        if limits and not log.events and (outside := _outside(all_of_it, wanted, newest)):
            return Decoded(log, LogVerdict("unknown", 0.0, Severity.NONE, outside), [], signatures, limits)
    if not log.lines and not kernels:
        return Decoded(log, _NOTHING, [], signatures, limits)
    verdict, alternatives = judge(log, signatures)
    return Decoded(log, verdict, alternatives, signatures, limits, kernels=kernels)


def chosen(log: Log, wanted: Wanted, newest: float) -> tuple[Log, str]:
    """Return the log with the events that are wanted, and what these are in words; one without a time, or without a
    host, stays."""
    from stethoscope.clock import iso

    since, until = wanted.moment(wanted.since, newest), wanted.moment(wanted.until, newest)
    if since is not None and until is not None and until < since:
        raise UsageError(f"--until {wanted.until} is {iso(until)}, before --since {wanted.since}, {iso(since)}")
    nodes = wanted.nodes

    def fits(at: float | None, last_at: float | None, host: str | None) -> bool:
        if at is not None and until is not None and at > until:
            return False
        last = last_at if last_at is not None else at
        if last is not None and since is not None and last < since:
            return False
        return not nodes or host is None or wanted.is_of(host)

    parts = [f"since {iso(since)}"] if since is not None else []
    parts += [f"until {iso(until)}"] if until is not None else []
    parts += [f"of {', '.join(sorted(nodes))}"] if nodes else []
    found = replace(
        log,
        events=[event for event in log.events if fits(event.at, event.last_at, event.origin.host)],
        seen=[seen for seen in log.seen if fits(seen.first_at, seen.last_at, seen.origin.host)],
    )
    return found, " ".join(parts)


def _outside(log: Log, wanted: Wanted, newest: float) -> str:
    """Say that the logs hold nothing of the time or of the nodes that are wanted; empty when they do: only then nothing
    in them is good news."""
    from stethoscope.clock import iso

    firsts = [file.first_at for file in log.files if file.first_at is not None]
    since, until = wanted.moment(wanted.since, newest), wanted.moment(wanted.until, newest)
    if firsts and ((since is not None and since > newest) or (until is not None and until < min(firsts))):
        return f"No line is of that time: the logs are from {iso(min(firsts))} to {iso(newest)}."
    hosts = {seen.origin.host for seen in log.seen} | {event.origin.host for event in log.events}
    named = sorted(host for host in hosts if host is not None)
    if wanted.nodes and named and not any(map(wanted.is_of, named)):
        rest = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
        asked = ", ".join(sorted(wanted.nodes)[:_MOST_NAMED])
        return f"Not one line of {asked} was recognised; the logs name {', '.join(named[:_MOST_NAMED])}{rest}."
    return ""
