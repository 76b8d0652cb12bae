"""Logs that grow: a new answer whenever the verdict changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.decode import Scanner
from stethoscope.collect.files import find_logs
from stethoscope.collect.follow import Follower
from stethoscope.errors import DataError
from stethoscope.session.decode import Decoded, judged
from stethoscope.specs.codes import load_codes
from stethoscope.specs.signature import load_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from stethoscope.analysis.decode_file import FileScan
    from stethoscope.clock import Clock
    from stethoscope.collect.follow import Grown
    from stethoscope.model.logs import Event
    from stethoscope.session.decode import Wanted
    from stethoscope.specs.signature import Signatures

POLL_S = 0.5
_LOOK_AGAIN_S = 5.0
"""Between two looks for new files of the names."""
_JUDGE_SHARE = 5.0
"""Judging takes at most one part in so many of the time."""
_SETTLE_S = 1.0
"""What comes together is judged together."""
_HEAD = 4096
_PACKED = (".gz", ".zst", ".xz", ".bz2")


class Followed:
    """Logs on their way, as long as somebody wants to know."""

    def __init__(
        self,
        names: Sequence[str],
        *directories: Path,
        clock: Clock,
        zone: tzinfo | None = None,
        wanted: Wanted | None = None,
    ) -> None:
        """Find the logs; DataError for a name that is nothing."""
        self.signatures: Signatures = load_signatures(*directories)
        self._names, self._clock, self._wanted = names, clock, wanted
        self._codes = load_codes(*directories)
        self._scanner = Scanner(self.signatures, now=clock.wall(), zone=zone, codes=self._codes)
        self._started = clock.monotonic()
        self._followers = {source.name: Follower(source) for source in find_logs(names)}
        self._scans: dict[str, FileScan] = {}
        self._looked_s = self._started
        self._heads: dict[str, bytes] = {}
        """How the file begins that has or had this name, and below: this inode. Kept over a rotation."""
        self._inodes: dict[tuple[int, int], bytes] = {}
        self._moved: set[str] = set()
        """Names of files that were read under another name before they were rotated."""

    @property
    def is_over(self) -> bool:
        """Tell whether nothing can come any more."""
        return all(follower.is_over for follower in self._followers.values())

    def take(self) -> list[Event]:
        """Read what came, and return the events in it: new ones, and those that grew."""
        now = self._clock.monotonic()
        if now - self._looked_s >= _LOOK_AGAIN_S:
            self._look_again()
            self._looked_s = now
        for name, follower in self._followers.items():
            for grown in follower.more():
                if self._was_read(name, follower, grown):
                    continue
                if grown.is_fresh or name not in self._scans:
                    self._end(name)
                    source = follower.source
                    self._scans[name] = self._scanner.file(name, modified_at=source.modified_at)
                self._scans[name].feed(grown.data)
                self._scans[name].file.trouble = grown.trouble
            if follower.is_over:
                self._end(name)
        return self._scanner.news()

    def answer(self) -> Decoded:
        """Return the verdict over all that came so far."""
        seconds = self._clock.monotonic() - self._started
        found = judged(self._scanner, self.signatures, self._wanted, now=self._clock.wall(), seconds=seconds)
        found.codes = self._codes
        return found

    def close(self) -> None:
        """Let go of the files."""
        for name, follower in self._followers.items():
            follower.close()
            self._end(name)

    def _was_read(self, name: str, follower: Follower, grown: Grown) -> bool:
        """Tell whether these bytes were taken already, before a rotation gave their file this name or packed it."""
        inode = follower.identity
        if grown.is_fresh:
            head = grown.data[:_HEAD]
            before = self._inodes.get(inode) if inode else self._heads.get(_unpacked(name))
            # Inodes are used again, so that the bytes must be the same too.
            self._moved.discard(name)
            if before and before == head[: len(before)] and name not in self._heads:
                self._moved.add(name)
        else:
            head = self._heads.get(name, b"")
            head += grown.data[: _HEAD - len(head)]
        self._heads[name] = head
        if inode:
            self._inodes[inode] = head
        return name in self._moved

    def _end(self, name: str) -> None:
        scan = self._scans.pop(name, None)
        if scan is not None:
            scan.end()

    def _look_again(self) -> None:
        try:
            found = find_logs(self._names)
        except DataError:
            # A name between two rotations; those that are known are looked at all the same.
            return
        for source in found:
            self._followers.setdefault(source.name, Follower(source))


def answers(
    followed: Followed, clock: Clock, wait: Callable[[float], None], on_news: Callable[[list[Event]], None]
) -> Iterator[Decoded]:
    """Yield the first answer, and a new one whenever the verdict is another; `on_news` gets the events in between.

    Ends when nothing can come any more; `wait` is called with the seconds until the next look.
    """
    followed.take()
    answer = followed.answer()
    yield answer
    told, next_s = gist(answer), clock.monotonic()
    changed_s: float | None = None
    while True:
        is_over = followed.is_over
        if not is_over:
            wait(POLL_S)
        news, now = followed.take(), clock.monotonic()
        if news:
            on_news(news)
            changed_s = now if changed_s is None else changed_s
        if changed_s is not None and (is_over or (now >= next_s and now - changed_s >= _SETTLE_S)):
            answer = followed.answer()
            changed_s, next_s = None, now + _JUDGE_SHARE * (clock.monotonic() - now)
            if gist(answer) != told:
                told = gist(answer)
                yield answer
        if is_over:
            return


def _unpacked(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in _PACKED if name.endswith(suffix)), "")


def gist(decoded: Decoded) -> tuple[object, ...]:
    """Return what makes a verdict another one."""
    verdict = decoded.verdict
    return verdict.root_cause, verdict.severity, verdict.signature, verdict.culprits
