"""Drills: scenarios are played, the unattended diagnosis is asked as a person would ask it, and what it says is scored.

The diagnosis gets a scene, which holds what a real fleet shows; what a scenario expects is looked at only behind it.
"""

from __future__ import annotations

import signal
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.analysis.triage import diagnose
from stethoscope.errors import StethoscopeError, UsageError
from stethoscope.session.drill_found import Record, detect_s, false_alarms
from stethoscope.session.drill_score import Got, Row, points
from stethoscope.session.played import Played, kit
from stethoscope.sim.scenarios import bundled, open_scenario
from stethoscope.specs.duration import duration_s
from stethoscope.specs.load import load
from stethoscope.specs.playbook import load_playbooks
from stethoscope.specs.scenario import SCHEMA
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from stethoscope.model.verdict import Diagnosis
    from stethoscope.specs.playbook import Playbooks
    from stethoscope.specs.scenario import Scenario

ASK_AGAIN_S = 15.0
"""While what is found changes, the diagnosis is asked no more often than this."""
ROUTINE_S = 300.0
"""And this often while nothing changes: what is measured on demand alone would not be seen."""
ROUNDS, AT_ONCE = 4, 32
"""So often it may ask for measurements in a row, and for so many at once."""
STALE_S = 120.0
"""What was measured longer ago is measured again when it is wanted."""


@lru_cache(maxsize=1)
def playbooks() -> Playbooks:
    """Return what the diagnosis is asked with; DataError when a file of it is broken."""
    return load_playbooks()


def ready() -> None:
    """Read all that a drill needs, once; DataError when a file of it is broken."""
    kit()
    playbooks()


class Drilled:
    """One scenario being played, and what was found and said so far."""

    def __init__(self, scenario: Scenario) -> None:
        """Begin at its start."""
        self.played = Played(scenario)
        self.record = Record()
        self.diagnosis: Diagnosis | None = None
        self.asked: dict[tuple[str, str], float] = {}
        """When each measurement was made last."""
        self._loud: frozenset[str] = frozenset()
        self._version = 0
        self._asked_s = 0.0

    def run(self) -> Diagnosis:
        """Play to the end, and return what the diagnosis says there."""
        self.played.advance(self.played.twin.scenario.duration_s, self._look)
        return self._diagnosed()

    def _look(self) -> None:
        t_s, version = self.played.t_s, self.played.watch.version
        self.record.look(t_s, self.played.snapshot)
        loud = self.record.loud
        is_other = version != self._version or (loud and loud != self._loud)
        if t_s - self._asked_s >= (ASK_AGAIN_S if is_other else ROUTINE_S):
            self._loud, self._version, self._asked_s = loud, version, t_s
            self._diagnosed()

    def _diagnosed(self) -> Diagnosis:
        """Ask, measure what would settle it, and ask again, until nothing more is wanted that was not asked for."""
        found = diagnose(self.played.scene(), playbooks())
        t_s = self.played.t_s
        for _ in range(ROUNDS):
            wanted = [
                (one.place, one.probe)
                for one in found.wanted
                if t_s - self.asked.get((one.place, one.probe), -STALE_S) >= STALE_S
            ][:AT_ONCE]
            if not wanted:
                break
            self.asked.update(dict.fromkeys(wanted, t_s))
            answers = [self.played.measure(place, probe) for place, probe in wanted]
            if any(answers):
                found = diagnose(self.played.scene(), playbooks())
        self.record.hear(t_s, found)
        self.diagnosis = found
        return found


def drill(name: str) -> Row:
    """Play the scenario of a file, or a bundled one by its name, and score what was said; what cannot be played is a
    row with its error."""
    started = time.perf_counter()
    try:
        scenario = open_scenario(name)
    except (StethoscopeError, OSError) as error:
        return Row(id_of(name), name, error=str(error))
    drilled = Drilled(scenario)
    found = drilled.run()
    return scored(name, scenario, drilled.record, found, drilled.asked, time.perf_counter() - started)


def scored(
    name: str, scenario: Scenario, record: Record, found: Diagnosis, asked: Iterable[tuple[str, str]], seconds: float
) -> Row:
    """Return the row of a scenario that was played to its end; `asked` are the places and probes that were measured."""
    expect = scenario.expect
    alarms = () if expect is None else false_alarms(scenario, expect, record)
    verdict = found.verdict
    got = Got(
        scope=found.scope,
        layer=found.layer,
        root_cause=verdict.root_cause,
        severity=verdict.severity.value,
        culprits=verdict.places,
        confidence=verdict.confidence,
        detect_s=None if expect is None else detect_s(scenario, expect, record),
        false_alarms=len(alarms),
        summary=verdict.summary,
        false=tuple(f"{one.severity.value} {one.rule}: {one.summary} [{', '.join(one.where[:3])}]" for one in alarms),
        asked=tuple(f"{place} {probe}" for place, probe in asked),
    )
    limit_s = None if expect is None or expect.detect_within is None else duration_s(expect.detect_within)
    return Row(
        scenario.id, name, expect, got, "", limit_s, seconds, {} if expect is None else points(expect, got, limit_s)
    )


# ---- many


def scenario_files(paths: Sequence[Path], skipped: Callable[[str], None] = lambda _: None) -> list[str]:
    """Return the scenarios that people name: files, every scenario of a directory, or bundled ones by their names;
    `skipped` gets what lies in a directory and is none. UsageError for what is not there."""
    names: list[str] = []
    for path in paths:
        if path.is_dir():
            found = [one for one in sorted(path.iterdir()) if one.suffix in (".yaml", ".yml")]
            meant = [one for one in found if is_scenario(one)]
            for one in found:
                if one not in meant:
                    skipped(f"{one}: not a scenario ({SCHEMA}), left out")
            if not meant:
                raise UsageError(f"{path}: no scenario in this directory")
            names += map(str, meant)
        elif path.exists():
            # A file called as no scenario is called is no name of a bundled one.
            names.append(str(path) if path.suffix in (".yaml", ".yml") or path.name != str(path) else f"./{path}")
        elif str(path) in bundled():
            names.append(str(path))
        else:
            raise UsageError(f"{path}: no such file or directory, and no bundled scenario ({', '.join(bundled())})")
    return list(dict.fromkeys(names))


def is_scenario(path: Path) -> bool:
    """Tell whether a file means to be a scenario; one that cannot be read as YAML may be one."""
    try:
        data = load(path).data
    except StethoscopeError:
        return True
    return isinstance(data, dict) and ("expect" in data or str(data.get("schema", "")).startswith(SCHEMA[:-1]))


def id_of(name: str) -> str:
    """Return what a scenario that cannot be played calls itself, else what its file is called."""
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    try:
        data = load(name).data
    except (StethoscopeError, OSError):
        return stem
    said = data.get("id") if isinstance(data, dict) else None
    return clean(said, 120) if isinstance(said, str) else stem


def drill_all(names: Sequence[str], jobs: int = 1) -> Iterator[Row]:
    """Yield the rows of scenarios in their order, played by so many processes; DataError when rules, signatures or
    playbooks are broken."""
    ready()
    if jobs <= 1 or len(names) <= 1:
        for name in names:
            yield _drill_safely(name)
        return
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=get_context("spawn")) as pool:
        # Ctrl-C goes to all processes of the terminal; the others are ended by this one, without a word.
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            started = [(name, pool.submit(_drill_safely, name)) for name in names]
        finally:
            signal.signal(signal.SIGINT, usual)
        for name, row in started:
            try:
                yield row.result()
            except BrokenExecutor:
                # A process that was killed takes the others of the pool with it; what is left is played here.
                yield _drill_safely(name)
            except (KeyboardInterrupt, GeneratorExit):
                pool.shutdown(wait=False, cancel_futures=True)
                for process in active_children():
                    process.terminate()
                raise


def _drill_safely(name: str) -> Row:
    try:
        return drill(name)
    except Exception as error:  # noqa: BLE001  a defect that one scenario meets must not cost the others
        return Row(id_of(name), name, error=f"a defect: {type(error).__name__}: {error}")
