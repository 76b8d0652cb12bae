"""Peers and change points in the engine: what is said, when, of whom; and what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stethoscope.analysis.changed import moments_of
from stethoscope.analysis.rules import Engine
from stethoscope.errors import DataError
from stethoscope.model.metric import Scope
from stethoscope.model.scheduler import Job
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_peers import Distant
from stethoscope.specs.load import loads
from stethoscope.specs.rule import read_rules
from tests.builders import MONO, WALL, catalogue, fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.finding import Finding
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.specs.rule import Rule

GPUS = 64
EVERY_S = 5.0
PEERS = "{metric: gpu_power_draw, peers: {of: model+job, distance: 5, at_least: 0.1, direction: %s}, window: 60s}"
CHANGE = "{metric: gpu_power_draw, change: {within: 30m, direction: low, at_least: 0.1, lasting: 1m}}"


def rules(condition: str, summary: str = "it happens") -> tuple[Rule, ...]:
    text = f'rule_id: made\ndescription: made\nseverity: P1\nsummary: "{summary}"\ntrigger: [{condition}]\n'
    return read_rules(loads(text, "rules.yaml"), catalogue(), {})


def leaf(condition: str) -> object:
    (rule,) = rules(condition)
    part = rule.trigger.parts[0]  # type: ignore[union-attr]
    return getattr(part, "part", part)


def played(
    condition: str,
    power: Callable[[float], np.ndarray],
    seconds: float = 600.0,
    *,
    summary: str = "it happens",
    jobs: Callable[[float], tuple[Job, ...]] = lambda _: (),
) -> list[tuple[float, Finding]]:
    """Play a fleet of 64 GPUs with this power; return the active findings of each look, with its time."""
    base, engine, found = fleet(8), Engine(rules(condition, summary), catalogue()), []
    for number in range(int(seconds / EVERY_S)):
        at = number * EVERY_S
        looked = engine.evaluate(_at(base, at, power(at), jobs(at)))
        found += [(at, finding) for finding in looked if finding.state == "active"]
    return found


def _at(base: FleetSnapshot, at: float, power: np.ndarray, jobs: tuple[Job, ...]) -> FleetSnapshot:
    table = base.tables[Scope.GPU]
    values = table.values.copy()
    values[table.index["gpu_power_draw"]] = power
    nodes = tuple(
        replace(node, frame_mono=MONO + at, frame_wall=WALL + at, frames=node.frames + int(at)) for node in base.nodes
    )
    tables = {**base.tables, Scope.GPU: replace(table, values=values)}
    return replace(base, mono=MONO + at, wall=WALL + at, nodes=nodes, tables=tables, jobs=jobs)


def noisy(power: float | np.ndarray, at: float) -> np.ndarray:
    return power * (1 + 0.02 * np.random.default_rng(int(at) + 1).normal(size=GPUS))


def one_odd(usual: float, odd: float, row: int = 21) -> np.ndarray:
    powers = np.full(GPUS, usual)
    powers[row] = odd
    return powers


# ---------------------------------------------------------------- peers


def test_one_gpu_that_draws_less() -> None:
    found = played(PEERS % "low", lambda at: noisy(one_odd(600, 420), at), summary="low (peers {{peers}})")
    assert {finding.where for _, finding in found} == {("gpu-003/gpu/5",)}
    assert found[0][0] == 60.0
    finding = found[-1][1]
    assert finding.summary.startswith("low (peers 60")
    assert finding.evidence[0].fact == "gpu_power_draw"
    assert finding.evidence[0].expected.startswith("peers 60")


def test_no_finding_among_equals() -> None:
    assert played(PEERS % "both", lambda at: noisy(600, at)) == []


def test_half_of_them_in_another_phase() -> None:
    halves = np.where(np.arange(GPUS) < 32, 600.0, 200.0)
    assert played(PEERS % "both", lambda at: noisy(halves, at)) == []


def test_the_one_that_goes_on_when_all_others_begin_to_wait() -> None:
    def power(at: float) -> np.ndarray:
        return noisy(600 if at < 200 else one_odd(160, 600), at)

    found = played(PEERS % "high", power)
    assert {finding.where for _, finding in found} == {("gpu-003/gpu/5",)}
    # The smoothed values arrive, the group settles, then the window passes.
    assert 300.0 <= found[0][0] <= 360.0


def test_a_pause_of_all_is_nobodys_fault() -> None:
    def power(at: float) -> np.ndarray:
        # Rank by rank within ten seconds, and back again.
        late = np.arange(GPUS) % 10
        return noisy(np.where((at > 200 + late) & (at < 250 + late), 130.0, 600.0), at)

    assert played(PEERS % "both", power) == []


def test_a_new_job_is_left_alone_at_first() -> None:
    names = tuple(f"gpu-{number:03}" for number in range(1, 9))

    def jobs(at: float) -> tuple[Job, ...]:
        return (Job("1" if at < 200 else "2", state="running", nodes=names),)

    def power(at: float) -> np.ndarray:
        return noisy(600 if at < 200 else one_odd(600, 300), at)

    found = played(PEERS % "low", power, jobs=jobs)
    assert found[0][0] >= 380.0


# ---------------------------------------------------------------- change points


def test_everything_slowed_at_one_moment() -> None:
    def power(at: float) -> np.ndarray:
        return noisy(600 if at < 300 else 480, at)

    found = played(CHANGE, power, summary="power fell at {{changed_at}} · {{before}} -> {{after}}")
    first = found[0][0]
    assert 355.0 <= first <= 375.0
    assert len({finding.id for _, finding in found[3:]}) == 1
    assert len(found[-1][1].where) == GPUS
    # A snapshot at MONO + 300 s is that of WALL + 300 s.
    assert found[-1][1].summary == "power fell at 02:19:07"
    assert found[-1][1].since == "2026-03-14T02:19:07Z"
    assert found[-1][1].evidence[0].fact == "gpu_power_draw change"


def test_one_row_tells_its_levels() -> None:
    def power(at: float) -> np.ndarray:
        return noisy(one_odd(600, 600 if at < 300 else 400), at)

    found = played(CHANGE, power, summary="fell at {{changed_at}} · {{before}} -> {{after}}")
    assert found[-1][1].where == ("gpu-003/gpu/5",)
    assert found[-1][1].summary.startswith("fell at 02:19:07 · 60")


def test_a_job_that_ends_is_no_change() -> None:
    names = tuple(f"gpu-{number:03}" for number in range(1, 9))

    def jobs(at: float) -> tuple[Job, ...]:
        return (Job("1", state="running", nodes=names),) if at < 300 else ()

    assert played(CHANGE, lambda at: noisy(600 if at < 300 else 110, at), jobs=jobs) == []


def test_rows_that_changed_together_share_a_moment() -> None:
    at = np.array([100.0, np.nan, 108.0, 119.0, 400.0, 104.0])
    assert moments_of(at).tolist()[0] == moments_of(at)[2] == moments_of(at)[3] == moments_of(at)[5] == 104.0
    assert moments_of(at)[4] == 400.0
    assert np.isnan(moments_of(at)[1])
    assert len(moments_of(np.empty(0))) == 0


# ---------------------------------------------------------------- words


def test_what_is_read() -> None:
    assert leaf("{metric: gpu_temp, peers: {distance: 5}}") == Distant("gpu_temp", "model+job", 5.0, 0.05, 0.0, "both")
    assert leaf("{metric: gpu_temp, peers: {of: rail + role, distance: 4, at_least: 5 %, direction: low}}") == Distant(
        "gpu_temp", "rail+role", 4.0, 0.05, 0.0, "low"
    )
    assert leaf("{metric: gpu_temp, peers: {distance: 5, at_least: {amount: 12}}}") == Distant(
        "gpu_temp", "model+job", 5.0, 0.0, 12.0, "both"
    )
    assert leaf("{metric: gpu_temp, change: {}}") == Changed("gpu_temp", "", 300.0, "both", 6.0, 0.1, 0.0, 60.0)
    assert leaf("{metric: gpu_temp, change: {within: 1h, direction: high, sure: 8, at_least: 0.2, lasting: 5m}}") == (
        Changed("gpu_temp", "", 3600.0, "high", 8.0, 0.2, 0.0, 300.0)
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("{metric: gpu_temp, peers: {of: jobs+model, distance: 5}}", 'unknown of "jobs"; did you mean "job"?'),
        ("{metric: gpu_temp, peers: {distance: 1}}", "a distance is at least 3: nearer rows are ordinary noise"),
        ("{metric: gpu_temp, peers: {distance: 5, at_least: 5}}", "at_least is a share between 0 and 1"),
        ("{metric: gpu_temp, peers: {distance: 5, at_least: some %}}", '"some %" is no share such as 5 %'),
        (
            "{metric: gpu_temp, peers: {distance: 5, direction: down}}",
            'unknown direction "down"; known: low, high, both',
        ),
        ("{metric: gpu_temp, peers: {distance: 5, below: 1}}", 'unknown key "below"'),
        ("{metric: gpu_temp, change: 5m}", "change is a mapping such as"),
        ("{metric: gpu_temp, change: {sure: 1}}", "sure is at least 3: smaller steps are ordinary noise"),
        ("{metric: gpu_temp, change: {within: 1m}}", "within is longer than lasting (60 s) and at most 60 minutes"),
        ("{metric: gpu_temp, change: {whithin: 1m}}", 'unknown key "whithin"; did you mean "within"?'),
    ],
)
def test_mistakes_are_told(condition: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        rules(condition)
    assert message in str(error.value)
