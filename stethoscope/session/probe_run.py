"""One on-demand probe on some nodes of a fleet, from the first connection to the last answer: what `probe run` does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError, did_you_mean
from stethoscope.model import ids
from stethoscope.session.aims import GROUPS, Aim, Refusal, driver_hangs, refusal
from stethoscope.session.ondemand import Preview, Step, preview_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from stethoscope.model.fleet import FleetSnapshot, Node
    from stethoscope.session.probe_result import Result
    from stethoscope.session.session import Session
    from stethoscope.specs.probes import OnDemand

POLL_S = 0.1
PART_S = 20.0
"""Longest wait, once a node sends values, for those that are read rarely."""


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What came of it."""

    preview: Preview
    results: tuple[Result, ...]
    """In the order of the preview; empty when nothing was to be run."""
    reached: tuple[str, ...]


def places_of(texts: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the places that people mean by node sets (`gpu-[001-003]`) and devices of them
    (`gpu-[001-003]/ib/mlx5_3`), all of `known` where nothing is said; UsageError for a node that is not known."""
    places: list[str] = []
    for text in texts:
        nodes, slash, device = text.rstrip("/").partition("/")
        for name in ids.expand(nodes):
            if name not in known:
                raise UsageError(f'no node is called "{name}" here{did_you_mean(name, known)}')
            places.append(f"{name}{slash}{device}")
    return list(dict.fromkeys(places)) or list(known)


async def run_probe(
    session: Session,
    name: str,
    places: Sequence[str],
    *,
    force: bool = False,
    dry_run: bool = False,
    timeout_s: float = 40.0,
    on_progress: Callable[[str], None] | None = None,
) -> ProbeRun:
    """Connect to the nodes of `session`, not yet running, run a probe on `places` (see `places_of`), and end.

    Nodes that are not reached within `timeout_s` are results as well. UsageError for a probe or device that does not
    exist; what ends the source ends this. `on_progress` gets a line about what is being waited for.
    """
    runs, clock = session.ondemand, session.clock
    probe = runs.probe(name)
    started = clock.monotonic()
    running = asyncio.create_task(session.run())
    try:
        wanted = list(dict.fromkeys(ids.node_of(place) for place in places))
        seen: dict[str, float] = {}
        while True:
            snapshot, now = session.snapshot(latest=True), clock.monotonic()
            left = [node for node in wanted if not _is_ready(snapshot.node(node), probe, seen, now)]
            if not left or now - started > timeout_s:
                break
            if on_progress is not None:
                on_progress(f"connecting to {len(wanted):,} nodes, {len(wanted) - len(left):,} done")
            if running.done():
                running.result()
                break
            await asyncio.wait({running}, timeout=POLL_S)
        snapshot = session.snapshot(latest=True)
        reached = tuple(node for node in wanted if snapshot.node(node).frames)
        preview = _preview(session, probe, places, snapshot, reached)
        if dry_run:
            return ProbeRun(preview, (), reached)
        batch = runs.start(preview, force=force)
        assert batch.task is not None
        while not batch.task.done():
            if on_progress is not None:
                on_progress(batch.progress(clock.monotonic()))
            await asyncio.wait({batch.task}, timeout=POLL_S)
        batch.task.result()
        by_step = {result.aim: result for result in batch.results}
        return ProbeRun(preview, tuple(by_step[step.aim] for step in preview.steps), reached)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _is_ready(node: Node, probe: OnDemand, seen: dict[str, float], now: float) -> bool:
    """Tell whether a node need not be waited for: it failed, or all is known that the probe needs."""
    if not node.frames:
        return node.link.next_try is not None
    since = seen.setdefault(node.name, now)
    needs = {GROUPS[probe.target]} if probe.target in GROUPS and not probe.whole else set[str]()
    if probe.loads_gpu and not driver_hangs(node):
        needs.add("gpu")
    return needs <= node.parts.keys() or now - since > PART_S


def _preview(
    session: Session, probe: OnDemand, places: Sequence[str], snapshot: FleetSnapshot, reached: Sequence[str]
) -> Preview:
    """Return the preview, in which nodes that were not reached or have nothing to look at are steps that are refused;
    UsageError when none has."""
    there = [place for place in places if ids.node_of(place) in reached]
    steps: dict[Aim, Step] = {}
    try:
        steps = _steps(session, probe, there)
    except UsageError as error:
        # Among many nodes one may well be without what the others have.
        nothing = 0
        for place in there:
            try:
                steps |= _steps(session, probe, [place])
            except UsageError as one:
                nothing += 1
                aim = Aim(ids.node_of(place), (), place)
                steps[aim] = Step(aim, sudo=False, refusal=Refusal(str(one)))
        if nothing == len(there):
            raise error from None
    for place in places:
        node = snapshot.node(ids.node_of(place))
        if node.name not in reached:
            aim = Aim(node.name, (), place)
            refused = refusal(snapshot, probe, aim) or Refusal("it has sent nothing yet")
            steps[aim] = Step(aim, sudo=False, refusal=refused)
    return preview_of(probe, tuple(steps.values()))


def _steps(session: Session, probe: OnDemand, places: Sequence[str]) -> dict[Aim, Step]:
    return {step.aim: step for step in session.ondemand.preview(probe.id, places).steps} if places else {}
