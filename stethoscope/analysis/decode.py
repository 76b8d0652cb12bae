"""Finds the signatures in logs: a pass for their literals over blocks of bytes, then prefixes off and regexes on the
lines that were hit.

The same scanner takes files, pipes and live lines. Nothing here opens a file or asks for the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.decode_codes import CODE_ANCHORS, find_code
from stethoscope.analysis.decode_events import EventStore, in_order, place_of
from stethoscope.analysis.decode_file import FileScan
from stethoscope.analysis.decode_lines import is_typed, pieces
from stethoscope.model.logs import Event, Log, LogFile, Origin, Seen
from stethoscope.parse.logname import origin_of_name
from stethoscope.parse.prefix import Peeled, PeelState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    import ahocorasick_rs

    from stethoscope.specs.signature import Signature, Signatures

_ENOUGH = 20_000
"""How often something that means no harm is taken down, before it is looked for no more."""


class Scanner:
    """One scan over any number of files and live lines."""

    def __init__(self, signatures: Signatures, *, now: float, zone: tzinfo | None = None) -> None:
        """Look for `signatures`; stamps without a zone are of `zone` (UTC), those without a year are before `now`
        (wall seconds) or before the file's last change."""
        self._signatures = signatures
        self._now = now
        self._zone = zone
        self._anchors: list[bytes] = []
        self._by_anchor: list[tuple[Signature, ...]] = []
        self._automaton: ahocorasick_rs.BytesAhoCorasick | None = None
        self._said: dict[str, int] = {}
        self._silenced: set[str] = set()
        self._files: list[FileScan] = []
        self._live: dict[str, FileScan] = {}
        self._store = EventStore()
        self._seen: dict[tuple[object, ...], Seen] = {}
        self.matched = 0
        self._arm()

    def file(
        self, name: str, *, size: int = 0, modified_at: float | None = None, origin: Origin | None = None
    ) -> FileScan:
        """Begin a file: feed what it holds to what is returned, then end it."""
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
        return self._store.news()

    def news(self) -> list[Event]:
        """Return the events that are new, or grew, since the last call."""
        return self._store.news()

    def finish(self) -> Log:
        """Return what was found so far; more may be fed and asked for again."""
        files = [scan.file for scan in self._files]
        return Log(
            files=files,
            events=in_order(self._store.events),
            seen=list(self._seen.values()),
            bytes=sum(scan.taken for scan in self._files),
            lines=sum(file.lines for file in files),
            matched=self.matched,
        )

    def hits(self, data: bytes) -> list[tuple[int, int, int]]:
        """Return (number of the anchor, start, end) of every anchor in `data`, in the order of their ends."""
        assert self._automaton is not None
        return self._automaton.find_matches_as_indexes(data, overlapping=True)

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
        candidates: dict[str, Signature] = {}
        has_code = False
        for number in anchors:
            group = self._by_anchor[number]
            if not group:
                has_code = True
            for signature in group:
                candidates[signature.id] = signature
        for piece in pieces(peeled, scan.state):
            text = piece.text
            if is_typed(text):
                continue
            found = False
            if has_code and (code := find_code(text)) is not None:
                found = True
                self._store.add(
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
            for signature, match in self._signatures.find(text, candidates.values()) if candidates else ():
                found = True
                self._keep(scan, line, piece, signature, signature.fields(match))
            self.matched += found

    def _keep(
        self, scan: FileScan, line: int, piece: Peeled, signature: Signature, fields: dict[str, str | int]
    ) -> None:
        variant = self._store.variant(signature, fields)
        pci, device = place_of(piece.text, signature.culprit, fields)
        self._store.add(
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
        if variant.role in ("context", "benign"):
            count = self._said[signature.id] = self._said.get(signature.id, 0) + 1
            if count == _ENOUGH:
                # What is said so often is in every line of a healthy log; the rest of it would only cost time.
                self._silenced.add(signature.id)
                self._arm()

    def _arm(self) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        self._anchors = list(CODE_ANCHORS)
        self._by_anchor = [()] * len(CODE_ANCHORS)
        for anchor, group in self._signatures.anchors.items():
            left = tuple(signature for signature in group if signature.id not in self._silenced)
            if left:
                self._anchors.append(anchor)
                self._by_anchor.append(left)
        self._automaton = BytesAhoCorasick(self._anchors, implementation=Implementation.ContiguousNFA)
