"""Finds the signatures in logs: a pass for their literals over blocks of bytes, then prefixes off and regexes on the
lines that were hit.

The same scanner takes files, pipes and live lines. Nothing here opens a file or asks for the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.decode_codes import CODE_ANCHORS, find_code
from stethoscope.analysis.decode_events import EventStore, in_order, is_harmless, once_each, place_of
from stethoscope.analysis.decode_file import FileScan
from stethoscope.analysis.decode_lines import Hit, LineCounter, all_lines, hit_lines, is_typed, pieces
from stethoscope.model.logs import Event, Log, LogFile, Origin, Seen
from stethoscope.parse.logname import origin_of_name
from stethoscope.parse.prefix import Peeled, PeelState

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    import ahocorasick_rs

    from stethoscope.analysis.decode_events import Folded
    from stethoscope.specs.codes import Codes
    from stethoscope.specs.signature import Signature, Signatures

_ENOUGH = 1000
_OFTEN = 0.03
"""What means no harm, was said so often, and is in such a share of all lines, is looked for no more: it would only cost
time."""
_LOOK_AT_ALL = 64 * 1024 * 1024
"""Up to this size of all files together each line is looked at, so that the last sign of life of each rank is known."""
_MOST_SETS = 20_000
_DENSE = 1000
"""One hit in so many bytes is many."""


class Scanner:
    """One scan over any number of files and live lines."""

    def __init__(
        self,
        signatures: Signatures,
        *,
        now: float,
        zone: tzinfo | None = None,
        size: int = 0,
        codes: Codes | None = None,
    ) -> None:
        """Look for `signatures` and `codes` (the usual ones).

        Stamps without a zone are of `zone` (UTC), those without a year are before `now` (wall seconds) or before the
        file's last change. `size` is that of all files, as far as it is known.
        """
        self._signatures = signatures
        self._codes = codes
        self._now = now
        self.looks_at_all = size <= _LOOK_AT_ALL
        self._zone = zone
        self._anchors: list[bytes] = []
        self._by_anchor: list[tuple[Signature, ...]] = []
        self._automaton: ahocorasick_rs.BytesAhoCorasick | None = None
        self._fast: ahocorasick_rs.BytesAhoCorasick | None = None
        self._said: dict[str, int] = {}
        self._quiet: set[str] = set()
        self._wanted: dict[tuple[int, ...], tuple[tuple[Signature, ...], bool]] = {}
        """Anchors of a line -> what is looked for in it."""
        self._is_stale = True
        self.generation = 0
        """Grows when what is looked for changes."""
        self._is_dense = False
        self._lines = 0
        """Lines of the files before the present one."""
        self._files: list[FileScan] = []
        self._live: dict[str, FileScan] = {}
        self.store = EventStore()
        self._seen: dict[tuple[object, ...], Seen] = {}
        self.matched = 0

    def file(
        self, name: str, *, size: int = 0, modified_at: float | None = None, origin: Origin | None = None
    ) -> FileScan:
        """Begin a file: feed what it holds to what is returned, then end it."""
        self._lines = sum(scan.file.lines for scan in self._files)
        scan = FileScan(
            self,
            LogFile(name=name, size=size, modified_at=modified_at),
            number=len(self._files),
            state=PeelState(
                newest=modified_at if modified_at is not None else self._now,
                zone=self._zone,
                origin=origin or origin_of_name(name),
            ),
        )
        self._files.append(scan)
        return scan

    def feed_line(self, text: str | bytes, origin: Origin | None = None, *, name: str = "") -> list[Event]:
        """Take one live line of the stream `name` and return the events in it: new ones, or grown by it."""
        scan = self._live.get(name)
        if scan is None:
            scan = self._live[name] = self.file(name, origin=origin)
        raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
        scan.feed(raw.rstrip(b"\n") + b"\n")
        return self.store.news()

    def news(self) -> list[Event]:
        """Return the events that are new, or grew, since the last call."""
        return self.store.news()

    def finish(self) -> Log:
        """Return what was found so far; more may be fed and asked for again."""
        for scan in self._files:
            scan.note()
        files = [scan.file for scan in self._files]
        events = in_order(self.store.events)
        return Log(
            files=files,
            events=once_each(events, files) if len(files) > 1 else events,
            seen=list(self._seen.values()),
            bytes=sum(scan.taken for scan in self._files),
            lines=sum(file.lines for file in files),
            matched=self.matched,
        )

    def hits(self, data: bytes) -> list[tuple[int, int, int]]:
        """Return (number of the anchor, start, end) of every anchor in `data`, in the order of their ends."""
        assert self._automaton is not None
        return self._automaton.find_matches_as_indexes(data, overlapping=True)

    def lines(self, data: bytes, counter: LineCounter, overlap: int = 0) -> Iterator[Hit]:
        """Yield the lines of a large block with what was found in them; hits that end within the first `overlap` bytes
        were there before.

        Hits of which no two overlap are found faster and tell which lines have any; where those are many, all hits of
        the block at once are cheaper than those of each line.
        """
        assert self._fast is not None
        if not self._is_dense:
            rough = [hit for hit in self._fast.find_matches_as_indexes(data) if hit[2] > overlap]
            if not rough:
                return
            self._is_dense = len(rough) * _DENSE > len(data)
        if not self._is_dense:
            for line in hit_lines(data, rough, counter):
                anchors = [number for number, _, _ in self.hits(line.raw)]
                if any(self.looked_for(anchors)):
                    yield line._replace(anchors=anchors)
            return
        hits = self.hits(data)
        if overlap:
            hits = [hit for hit in hits if hit[2] > overlap]
        # A flood goes on, mostly.
        self._is_dense = len(hits) * _DENSE > len(data)
        for line in all_lines(data, hits, counter.at(0)):
            if line.anchors and any(self.looked_for(line.anchors)):
                yield line

    def anchor(self, number: int) -> bytes:
        """Return an anchor by its number."""
        return self._anchors[number]

    def look(self, peeled: Peeled) -> None:
        """Count a line as a sign of life of who printed it."""
        origin = peeled.origin
        key: tuple[object, ...]
        if origin.rank is not None:
            key = ("rank", origin.rank)
        elif origin.pid is not None:
            key = ("process", origin.host, origin.pod, origin.pid)
        elif origin.task is not None or origin.local_rank is not None:
            key = ("task", origin.host, origin.pod, origin.task, origin.local_rank)
        else:
            key = ("host", origin.host, origin.pod)
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = Seen(origin=origin)
        seen.lines += 1
        if peeled.text:
            seen.last_text = peeled.text
        if peeled.at is not None:
            if seen.first_at is None:
                seen.first_at = peeled.at
            seen.last_at = peeled.at if seen.last_at is None else max(seen.last_at, peeled.at)

    def match(self, scan: FileScan, line: int, peeled: Peeled, anchors: Iterable[int]) -> None:
        """Look for the signatures of `anchors` in a line and keep the events."""
        candidates, has_code = self.looked_for(anchors)
        if not candidates and not has_code:
            return
        for piece in pieces(peeled, scan.state):
            text = piece.text
            if is_typed(text):
                continue
            found = False
            if has_code and (code := find_code(text, self._codes)) is not None:
                found = True
                self.store.add(
                    scan.number,
                    line,
                    piece,
                    code.signature,
                    code.role,
                    code.severity,
                    code.fields,
                    code.pci,
                    fold_by=code.fold_by,
                )
            for signature, match in self._signatures.find(text, candidates) if candidates else ():
                found = True
                self.keep(scan, line, piece, signature, signature.fields(match))
            self.matched += found

    def keep(
        self, scan: FileScan, line: int, piece: Peeled, signature: Signature, fields: dict[str, str | int]
    ) -> Folded | None:
        """Make an event of what a signature found; what is returned is `EventStore.add`'s."""
        variant = self.store.variant(signature, fields)
        pci, device = place_of(piece.text, signature.culprit, fields)
        folded = self.store.add(
            scan.number,
            line,
            piece,
            signature.id,
            variant.role,
            variant.severity,
            fields,
            pci,
            device,
            signature.fold_by,
        )
        if is_harmless(signature):
            self.count(scan, line, signature)
        return folded

    def count(self, scan: FileScan, line: int, signature: Signature) -> None:
        """Count a line that means no harm: what is said too often in a large file is looked for no more."""
        if scan.is_small:
            return
        count = self._said[signature.id] = self._said.get(signature.id, 0) + 1
        if count >= _ENOUGH and count >= _OFTEN * (self._lines + line):
            self._quiet.add(signature.id)
            self._is_stale = True
            self._wanted.clear()
            self.generation += 1

    def find(self, text: str, candidates: Iterable[Signature]) -> list[tuple[Signature, re.Match[str]]]:
        """Return which of `candidates` match a line without its prefixes, as `Signatures.find`."""
        return self._signatures.find(text, candidates)

    def looked_for(self, anchors: Iterable[int]) -> tuple[tuple[Signature, ...], bool]:
        """Return the signatures that anchors stand for and are still looked for, and whether there is a code."""
        key = tuple(anchors)
        wanted = self._wanted.get(key)
        if wanted is None:
            if len(self._wanted) > _MOST_SETS:
                self._wanted.clear()
            groups = [self._by_anchor[number] for number in dict.fromkeys(key)]
            found = {signature.id: signature for group in groups for signature in group}
            wanted = tuple(s for s in found.values() if s.id not in self._quiet), not all(groups)
            self._wanted[key] = wanted
        return wanted

    def arm(self, *, is_fast: bool) -> None:
        """Build what finds the anchors, where it is not built yet; before each block, because their numbers change."""
        if not self._is_stale and not (is_fast and self._fast is None):
            return
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        if self._is_stale:
            self._wanted.clear()
            self.generation += 1
            self._anchors = list(CODE_ANCHORS)
            self._by_anchor = [()] * len(CODE_ANCHORS)
            for anchor, group in self._signatures.anchors.items():
                left = tuple(signature for signature in group if signature.id not in self._quiet)
                if left:
                    self._anchors.append(anchor)
                    self._by_anchor.append(left)
            self._automaton = BytesAhoCorasick(self._anchors, implementation=Implementation.ContiguousNFA)
            self._is_stale, self._fast = False, None
        if is_fast and self._fast is None:
            # Twice as fast and five times as long to build.
            self._fast = BytesAhoCorasick(self._anchors, implementation=Implementation.DFA)
