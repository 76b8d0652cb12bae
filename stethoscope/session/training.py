"""Drill mode of the console: lets faults come in the simulated fleet, takes the answers of who is trained, scores them.

The console gets what a real fleet shows; what is broken stays here and in the simulated fleet until the drill is over.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from secrets import randbelow
from typing import TYPE_CHECKING, Any, NamedTuple

from stethoscope.clock import SystemClock
from stethoscope.errors import UsageError
from stethoscope.model.verdict import HEALTHY, UNKNOWN
from stethoscope.session.drill_found import Record, detect_s, same_places
from stethoscope.session.training_score import SCHEMA, Reply, Report, Said, Truth, false_accusations, marks
from stethoscope.sim.board import DISKS
from stethoscope.sim.chosen import places_of, surprise
from stethoscope.sim.control import ask, inject
from stethoscope.sim.kinds.registry import KINDS
from stethoscope.sim.scenarios import bundled, open_scenario
from stethoscope.specs.place import Place
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.scenario import Expect, Fault
from stethoscope.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.verdict import Diagnosis
    from stethoscope.session.demo import DemoFleet
    from stethoscope.session.session import Session
    from stethoscope.session.triage import Witness
    from stethoscope.specs.scenario import Scenario

SCENARIO = "training"
"""The bundled scenario in which nothing happens by itself."""
RANDOM = "random"
LOOK_S, WITNESS_S, ASK_AGAIN_S, ROUTINE_S = 1.0, 5.0, 15.0, 120.0
"""How often findings are looked at, how often the diagnosis takes in what there is, and how often it is asked while
what is found changes, and while nothing does."""
SOONEST_S, LATEST_S = 20, 90
"""A fault that the command line asks for comes so long after the fleet serves."""

Choice = tuple[str, str, str]
"""Title, explanation, id."""


class Plan(NamedTuple):
    """What a drill begins with."""

    scenario: str
    """File or bundled name."""
    kind: str | None
    """A fault that comes by itself: its kind, empty for a surprise, None for none."""


def plan_of(word: str, scenario: str | None) -> Plan:
    """Return what the word behind --drill means: nothing, `random`, a kind of fault, or a scenario; UsageError for
    anything else."""
    from stethoscope.errors import did_you_mean

    if word in ("", RANDOM) or word in KINDS:
        kind = None if not word else "" if word == RANDOM else word
        return Plan(scenario or SCENARIO, kind)
    if word in bundled() or "/" in word or word.endswith((".yaml", ".yml")):
        if scenario is not None:
            raise UsageError("--drill and --scenario both name a scenario: give one")
        return Plan(word, None)
    near = did_you_mean(word, [*KINDS, *bundled(), RANDOM])
    said = f'--drill: no kind of fault and no scenario "{clean(word, 80)}"{near}; `sim --list` describes them'
    raise UsageError(said.replace("?;", "?"))


class Training:
    """One drill, from the start of the console to its end: rounds of faults and answers."""

    def __init__(self, fleet: DemoFleet, plan: Plan, speed: float, seed: int | None = None) -> None:
        """Drill on `fleet`, which plays the plan's scenario at `speed`; `seed` chooses what is left open."""
        self.scenario: Scenario = open_scenario(plan.scenario)
        self.reports: list[Report] = []
        self._fleet, self._plan, self._speed = fleet, plan, speed
        self._seed = 1 + randbelow(99_999) if seed is None else seed
        self._random = Random(self._seed)  # noqa: S311  chooses what breaks, nothing secret
        self._has_chosen = False
        self._causes = load_root_causes()
        self._clock = SystemClock()
        self._control: Path | None = None
        self._base = 0.0
        """Seconds of the clock at scenario second 0."""
        self._began_s = 0.0
        """Start of this round."""
        self._record = Record()
        self._replies: list[Reply] = []
        self._said: list[Said] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def t_s(self) -> float:
        """Return the second of the scenario that it is now."""
        return (self._clock.monotonic() - self._base) * self._speed

    # ---- beside the console

    async def open_session(self) -> Session:
        """Open the fleet's session, and begin to watch it as the unattended diagnosis does."""
        from stethoscope.session.triage import Witness

        witness = Witness(self._clock.wall())
        session = await self._fleet.open_session(taps=(witness,))
        self._control = await self._fleet.control()
        state = await asyncio.to_thread(ask, self._control, {"do": "state"})
        self._base = self._clock.monotonic() - float(state["t_s"]) / self._speed
        self._began_s = self.t_s
        if self._plan.kind is not None:
            kind, place = self._surprise(self._plan.kind)
            await self.begin(kind, place, self._random.randrange(SOONEST_S, LATEST_S))
        self._task = asyncio.create_task(self._watch(session, witness))
        return session

    async def _watch(self, session: Session, witness: Witness) -> None:
        from stethoscope.analysis.triage import diagnose
        from stethoscope.specs.playbook import load_playbooks

        books = load_playbooks()
        looked_s = asked_s = self.t_s
        known, version = self._record.loud, 0
        while True:
            await asyncio.sleep(LOOK_S)
            now_s, snapshot = self.t_s, session.snapshot()
            self._record.look(now_s, snapshot)
            if now_s - looked_s < WITNESS_S * self._speed:
                continue
            looked_s = now_s
            witness.look(session)
            is_other = self._record.loud != known or witness.watch.version != version
            if now_s - asked_s >= (ASK_AGAIN_S if is_other else ROUTINE_S) * self._speed:
                asked_s, known, version = now_s, self._record.loud, witness.watch.version
                self._hear(now_s, await asyncio.to_thread(diagnose, witness.scene(session), books))

    def _hear(self, now_s: float, found: Diagnosis) -> None:
        verdict = found.verdict
        is_new = not self._said or (self._said[-1].cause, self._said[-1].places) != (verdict.root_cause, verdict.places)
        if is_new and verdict.root_cause != HEALTHY:
            self._said.append(Said(now_s, verdict.root_cause, verdict.places, verdict.confidence))

    # ---- who trains

    def kinds(self) -> list[Choice]:
        """Return what can come: title, where, id."""
        order = sorted(KINDS.items(), key=lambda item: (item[1].root_cause == HEALTHY, item[0]))
        return [
            (name, kind.title if kind.root_cause != HEALTHY else f"harmless: {kind.title}", name)
            for name, kind in order
        ]

    def places(self, kind: str) -> list[str]:
        """Return where a kind can come."""
        return places_of(kind, self.scenario)

    def _surprise(self, kind: str) -> tuple[str, str]:
        self._has_chosen = True
        return surprise(self._random, self.scenario, kind)

    async def begin(self, kind: str, place: str, wait_s: float) -> None:
        """Let a fault come in so many seconds; an empty kind or place is chosen by the seed. UsageError when it cannot
        be, UnreachableError when the fleet is gone."""
        if not kind or not place:
            kind, place = self._surprise(kind)
        at = f" at=+{wait_s * self._speed:.0f}s" if wait_s else ""
        await asyncio.to_thread(inject, f"{kind} {place}{at}", self._control)

    # ---- who is trained

    def causes(self) -> list[Choice]:
        """Return what can be answered, by layer: first that nothing is wrong."""
        first = [HEALTHY, UNKNOWN]
        ids = [*(one for one in first if one in self._causes), *(one for one in self._causes if one not in first)]
        return [(one, f"{self._causes[one].meaning} ({self._causes[one].layer})", one) for one in ids]

    def suspects(self, snapshot: FleetSnapshot) -> list[Choice]:
        """Return places to blame: those that findings name, then all of them."""
        named = dict.fromkeys(
            place
            for finding in snapshot.findings
            if finding.severity.value.startswith("P")
            for place in (*finding.where, *((finding.cause,) if "/" in finding.cause else ()))
        )
        listed = [(place, "", place) for place in blamable(self.scenario) if place not in named]
        return [*((place, "named by a finding", place) for place in named), *listed]

    def reply(self, cause: str, place: str) -> None:
        """Take an answer."""
        layer = self._causes[cause].layer if cause in self._causes else ""
        self._replies.append(Reply(self.t_s, cause, place, layer))

    # ---- the score

    async def finish(self) -> list[str]:
        """End this round, and return its score for people; what comes later belongs to the next one."""
        return self._finish(await asyncio.to_thread(self._state))

    def close(self) -> None:
        """Score what was left open when the console ended."""
        if self._control is None:
            return
        state, now_s = self._state(), self.t_s
        is_open = any(self._began_s <= one["at_s"] <= now_s for one in state.get("faults", ()))
        if is_open or self._replies or not self.reports:
            self._finish(state)

    def as_json(self) -> dict[str, Any]:
        """Return all rounds as a document."""
        return {"schema": SCHEMA, "rounds": [report.as_json() for report in self.reports]}

    def _state(self) -> dict[str, Any]:
        if self._control is None:
            return {}
        try:
            return ask(self._control, {"do": "state"})
        except OSError:
            return {}

    def _finish(self, state: dict[str, Any]) -> list[str]:
        now_s = self.t_s
        truths = [self._truth(one) for one in state.get("faults", ()) if 0 < one["at_s"] <= now_s]
        fresh = [one for one in truths if one.at_s >= self._began_s]
        to_come = sum(one["at_s"] > now_s for one in state.get("faults", ()))
        notes = [f"{to_come} more {'was' if to_come == 1 else 'were'} still to come."] if to_come else []
        notes += [] if state else ["The simulated fleet is gone: what was broken cannot be told any more."]
        if self._task is not None and self._task.done() and not self._task.cancelled() and self._task.exception():
            notes.append(f"The watch beside the console ended: {clean(str(self._task.exception()), 200)}")
        report = Report(
            marks=marks(fresh, self._replies, self._said),
            harmless=tuple(one for one in fresh if one.is_harmless),
            false=false_accusations(truths, self._replies),
            replies=tuple(self._replies),
            lasted_s=now_s - self._began_s,
            base_wall=self._clock.wall() - now_s / self._speed,
            speed=self._speed,
            seed=self._seed if self._has_chosen else None,
            notes=tuple(notes),
        )
        self.reports.append(report)
        self._replies, self._said, self._began_s = [], [], now_s
        return report.lines()

    def _truth(self, told: dict[str, Any]) -> Truth:
        kind, where = KINDS[told["kind"]], clean(str(told["where"]), 200)
        layer = self._causes[kind.root_cause].layer if kind.root_cause in self._causes else ""
        names = same_places(self.scenario, where)
        parts = where.split("/")
        if len(parts) == 4 and parts[1] == "nvlink":
            # Who names the GPU of a link has found the part.
            names = (*names, f"{parts[0]}/gpu/{parts[2]}")
        truth = Truth(told["kind"], kind.title, where, float(told["at_s"]), kind.root_cause, layer, names)
        return truth if truth.is_harmless else replace(truth, found_s=self._found_s(truth))

    def _found_s(self, truth: Truth) -> float | None:
        kind = KINDS[truth.kind]
        fault = Fault(truth.at_s, None, truth.kind, Place(truth.where, ""), {})
        expect = Expect(kind.scope, truth.layer, truth.root_cause, (truth.where,), kind.severity)
        return detect_s(replace(self.scenario, events=(fault,)), expect, self._record)


def blamable(scenario: Scenario) -> list[str]:
    """Return the places that an answer can name, large ones first; of NVLinks their GPUs."""
    fleet, names = scenario.fleet, scenario.fleet.node_names()
    nodes = range(fleet.nodes)
    found = [*names, *(f"job/{job.id}" for job in scenario.jobs), "storage/shared"]
    found += dict.fromkeys(f"rack/{fleet.rack(node)}" for node in nodes)
    found += dict.fromkeys(
        f"leaf/{fleet.leaf(node, port)}" for node in nodes for port in range(fleet.ib_ports_per_node)
    )
    for name in names:
        found += [f"{name}/gpu/{gpu}" for gpu in range(fleet.gpus_per_node)]
        found += [f"{name}/ib/mlx5_{port}" for port in range(fleet.ib_ports_per_node)]
        found += [f"{name}/disk/{disk}" for disk in DISKS]
    for job in scenario.jobs:
        found += [f"job/{job.id}/rank/{rank}" for rank in range(len(job.nodes) * fleet.gpus_per_node)]
    return [*found, "fleet"]
