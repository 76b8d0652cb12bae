"""Rules that follow their files: one that changed is taken at the next look, and what it does not change goes on."""

from __future__ import annotations

import logging
import os
from threading import Lock
from typing import TYPE_CHECKING

from stethoscope.errors import DataError
from stethoscope.specs.load import SeveralDataError
from stethoscope.specs.rule_book import load_rules, rule_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stethoscope.analysis.rules import Engine
    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.specs.root_cause import RootCause
    from stethoscope.specs.rule import Rule

_log = logging.getLogger(__name__)
POLL_S = 0.9
"""Files are looked at no more often than this, by the clock of the snapshots."""
Stamps = tuple[tuple[str, int, int, int], ...]
"""Path, time of change, size and number of each file."""


class KeptRules:
    """An engine whose rules are read again when a file of them has changed; what its actions log is logged here."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Mapping[str, Metric],
        root_causes: Mapping[str, RootCause],
        directories: Sequence[Path],
        stamps: Stamps,
    ) -> None:
        """Take an engine with the rules of `directories` as they were at `stamps`."""
        self._engine = engine
        self._catalogue = catalogue
        self._root_causes = root_causes
        self._directories = tuple(directories)
        self._stamps = stamps
        self._looked: float | None = None
        self._logged: frozenset[str] = frozenset()
        self._notices: list[str] = []
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Return the memory of the samples that windows keep."""
        return self._engine.nbytes

    def rule(self, id_: str) -> Rule | None:
        """Return the rule of that id, None when there is none."""
        return self._engine.rule(id_)

    def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        """Return what is found with the rules as they stand now."""
        if self._looked is None or not 0 <= snapshot.mono - self._looked < POLL_S:
            self._looked = snapshot.mono
            self._follow()
        findings = self._engine.evaluate(snapshot)
        self._log(findings)
        return findings

    def take_notices(self) -> list[str]:
        """Return what people should know of the files, once."""
        with self._lock:
            notices, self._notices = self._notices, []
        return notices

    def _follow(self) -> None:
        stamps = stamps_of(self._directories)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            rules = load_rules(self._catalogue, self._root_causes, *self._directories)
        except DataError as error:
            self._say(f"{told(error)} · the rules of before stand")
            return
        except OSError as error:
            self._say(f"rules cannot be read: {error.strerror} · the rules of before stand")
            return
        self._engine.adopt(rules)
        self._say(f"rules read again: {len(rules)}")

    def _say(self, notice: str) -> None:
        _log.info("%s", notice)
        with self._lock:
            self._notices.append(notice)

    def _log(self, findings: Sequence[Finding]) -> None:
        """Log what the actions of new findings say, once for each."""
        active = {finding.id: finding for finding in findings if finding.log and finding.state == "active"}
        for id_ in active.keys() - self._logged:
            for text in active[id_].log:
                _log.info("%s: %s", id_, text)
        self._logged = frozenset(active)


def told(error: DataError) -> str:
    """Return what is wrong with files in one line."""
    errors = error.errors if isinstance(error, SeveralDataError) else (error,)
    more = f" (and {len(errors) - 1} more: stethoscope lint)" if len(errors) > 1 else ""
    return f"{errors[0]}{more}"


def stamps_of(directories: Sequence[Path]) -> Stamps:
    """Return the state of all rule files in reach; what cannot be seen is as if it were not there."""
    found = []
    for place in rule_places(*directories):
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith((".yaml", ".yml")):
                try:
                    stat = entry.stat()
                except OSError:
                    continue
                found.append((entry.path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(sorted(found))
