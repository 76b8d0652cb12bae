"""Puts a session together: a source, the metric catalogue and the rules, from the bundled data and the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.rules import Engine
from stethoscope.clock import SystemClock
from stethoscope.session.mark import MarkFile
from stethoscope.session.night import NightKeeper
from stethoscope.session.rules_kept import KeptRules, stamps_of
from stethoscope.session.session import Session
from stethoscope.session.slow import GuardedPast, SlowKeeper
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules
from stethoscope.store.night import NightFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.collect.commands import Commands
    from stethoscope.collect.source import Source
    from stethoscope.session.taps import Tap

_OF_DEMO = (1800.0, 200 * 1024**2)
"""Seconds and bytes of a simulated fleet that are recorded."""


def open_session(
    source: Source,
    clock: Clock,
    *directories: Path,
    single_look: bool = False,
    taps: Sequence[Tap] = (),
    kept: bool = True,
) -> Session:
    """Return a session on `source`, not yet running, judged by the rules of `directories`, the user's and the bundled.

    DataError when a data file is broken. `single_look` is for verbs that see the fleet for a few seconds only; `taps`
    get all that `source` gives; `kept` is whether the night's list, and what slow counters count, outlive the session.
    """
    catalogue = load_catalogue(*directories)
    root_causes = load_root_causes(*directories)
    stamps = stamps_of(directories)
    rules = load_rules(catalogue, root_causes, *directories)
    past = None
    if kept and not source.simulated:
        past = GuardedPast(catalogue)
        taps = (*taps, SlowKeeper(past, source.fleet, clock))
    engine = Engine(rules, catalogue, single_look=single_look, past=past)
    kept_rules = KeptRules(engine, catalogue, root_causes, directories, stamps)
    marks = None if single_look else MarkFile(source.fleet)
    # One look knows what was acknowledged, and is not long enough to tell others what there is.
    night = NightKeeper(NightFile(source.fleet), writes=not single_look) if kept else NightKeeper()
    return Session(source, catalogue, clock, kept_rules, taps, remember=not single_look, marks=marks, night=night)


def open_fleet_file(
    path: Path,
    commands: Commands | None = None,
    taps: Sequence[Tap] = (),
    recordings: Path | None = None,
    playbooks: Sequence[Path] = (),
) -> Session:
    """Return a session on the fleet of a fleet file, over SSH; everything is run through `commands`, and `taps` get all
    that comes. What is found is forgotten with it: such a fleet is simulated and begins anew each time. Its last half
    hour is recorded into the directory `recordings`; `playbooks` are directories of an operator's own."""
    from stethoscope.session.resolve import Asked, ssh_source

    clock = SystemClock()
    asked = Asked(fleet=str(path)) if commands is None else Asked(fleet=str(path), commands=commands)
    source = ssh_source(asked, clock)
    if recordings is not None:
        from stethoscope.session.recorder import Recorder
        from stethoscope.store.outlets import RingOutlet
        from stethoscope.store.ring import RingLimits

        taps = (*taps, Recorder(source, clock, RingOutlet(recordings, RingLimits(*_OF_DEMO))))
    return open_session(source, clock, *playbooks, taps=taps, kept=False)


def session_maker(*directories: Path, remember: bool = True) -> Callable[[Source, Clock], Session]:
    """Return what makes sessions with the same catalogue and rules, read once; DataError when a data file is broken.
    With `remember` they keep a history, for screens."""
    catalogue = load_catalogue(*directories)
    rules = load_rules(catalogue, load_root_causes(*directories), *directories)

    def make(source: Source, clock: Clock) -> Session:
        night = NightKeeper(read_only="a recording is only looked at: say it in a console on the fleet")
        return Session(source, catalogue, clock, Engine(rules, catalogue), remember=remember, night=night)

    return make
