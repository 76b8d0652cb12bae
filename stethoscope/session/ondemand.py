"""On-demand probes: what would run and what forbids it, many nodes at once, and what was said, kept with its time."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stethoscope.clock import hms
from stethoscope.collect import ondemand
from stethoscope.collect.command import CommandError
from stethoscope.collect.commands import ON_DEMAND
from stethoscope.errors import UsageError, did_you_mean
from stethoscope.session.aims import Aim, Refusal, aims_of, devices_of, refusal
from stethoscope.session.probe_result import Key, Result, Section, Status, read_answer
from stethoscope.specs.probes import OnDemand, load_manifest
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stethoscope.clock import Clock
    from stethoscope.collect.source import Source
    from stethoscope.model.fleet import FleetSnapshot

AT_ONCE = 64
"""Nodes that are asked at the same time; one script at a time on each."""
KEPT = 64 * 1024 * 1024
"""Characters of results that are kept at the most."""
STUCK_S = 3600.0
"""For so long no second tool of the kind is started beside one that did not end, unless it is forced."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run that could be done."""

    aim: Aim
    sudo: bool
    """`sudo -n` may be used there."""
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be done, exactly, before it is."""

    probe: OnDemand
    steps: tuple[Step, ...]
    commands: str
    """The script, without comments."""
    about: str
    """What it runs and why that is harmless."""
    sha256: str
    """Of what is sent."""

    def line(self, step: Step) -> str:
        """Return the command line of a step."""
        return ondemand.command(self.probe.id, self.probe.limit_s, step.aim.arguments, sudo=step.sudo)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that are asked, each once."""
        return tuple(dict.fromkeys(step.aim.node for step in self.steps))


@dataclass(slots=True)
class Batch:
    """A preview that is being run."""

    preview: Preview
    started: float
    """Monotonic seconds."""
    results: list[Result] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        """Tell whether all results are there."""
        return len(self.results) == len(self.preview.steps)

    def progress(self, now: float) -> str:
        """Return where it stands: `asking 16 nodes for mlxlink, 12 back, 3 s`."""
        nodes = self.preview.nodes
        open_ = {step.aim.node for step in self.preview.steps} - self._back()
        count = f"{len(nodes)} nodes" if len(nodes) > 1 else nodes[0] if nodes else "nobody"
        return f"asking {count} for {self.preview.probe.id}, {len(nodes) - len(open_)} back, {now - self.started:.0f} s"

    def _back(self) -> set[str]:
        left: dict[str, int] = {}
        for step in self.preview.steps:
            left[step.aim.node] = left.get(step.aim.node, 0) + 1
        for result in self.results:
            left[result.aim.node] -= 1
        return {node for node, count in left.items() if count == 0}


class OnDemandRuns:
    """Runs on-demand probes on the nodes of one source and keeps what they said."""

    def __init__(
        self,
        source: Source,
        clock: Clock,
        snapshot: Callable[[], FleetSnapshot],
        on_result: Callable[[Result], None] = lambda _result: None,
    ) -> None:
        """Run on the nodes of `source`; `snapshot` gives their state, `on_result` gets every result."""
        self._source: Any = source
        self._clock = clock
        self._snapshot = snapshot
        self._on_result = on_result
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self.results: dict[Key, Result] = {}
        self._size = 0
        self._stuck: dict[tuple[str, str], Result] = {}
        """By node and tool, what did not end there."""
        self.batches: list[Batch] = []
        """Those that are running."""
        self._forbidden = ""

    @cached_property
    def probes(self) -> dict[str, OnDemand]:
        """Return the probes of the manifest by id; DataError when it is broken."""
        return {probe.id: probe for probe in load_manifest().ondemand}

    @property
    def why_not(self) -> str:
        """Return why nothing can be run here at all, else nothing."""
        if not hasattr(self._source, "run_script"):
            return "a recording runs nothing"
        if self._forbidden:
            return self._forbidden
        return "--read-only allows no command but the stream probe" if self._source.read_only else ""

    def forbid(self, words: str) -> None:
        """Run nothing from now on; `words` say why."""
        self._forbidden = words

    def probe(self, name: str) -> OnDemand:
        """Return a probe; UsageError when there is none of that id."""
        if name not in self.probes:
            raise UsageError(f'no probe is called "{name}"{did_you_mean(name, self.probes)}')
        return self.probes[name]

    def preview(self, name: str, places: Iterable[str]) -> Preview:
        """Return what running a probe on nodes and devices would do; UsageError for what does not exist."""
        probe, snapshot = self.probe(name), self._snapshot()
        may_sudo = {spec.name: getattr(spec, "sudo", False) for spec in self._source.nodes}
        steps = [
            Step(
                aim,
                probe.root != "no" and may_sudo.get(aim.node, False),
                self._refusal(snapshot, probe, aim),
            )
            for aim in aims_of(snapshot, probe, places)
        ]
        return preview_of(probe, steps)

    def aims(self, name: str, node: str) -> list[Aim]:
        """Return every device of a node that a probe can be aimed at; UsageError where it needs one and none is
        known."""
        return devices_of(self._snapshot(), self.probe(name), node)

    def results_of(self, node: str) -> list[Result]:
        """Return the last results of a node, the newest first."""
        mine = [result for result in self.results.values() if result.aim.node == node]
        return sorted(mine, key=lambda result: -result.at)

    def start(self, preview: Preview, *, force: bool = False) -> Batch:
        """Run all of a preview; results come into the batch as they come, in the background. `force` runs what may be
        forced although it is refused."""
        batch = Batch(preview, self._clock.monotonic())
        self.batches.append(batch)
        batch.task = asyncio.create_task(self._run(batch, force=force))
        return batch

    def _keep(self, result: Result) -> None:
        """Keep a result in place of the one before, and let the oldest go where all are too large together."""
        if result.key in self.results and result.status in (Status.REFUSED, Status.NOT_RUN):
            # What did not run says nothing that is newer than what did.
            return
        before = self.results.pop(result.key, None)
        self._size += result.size - (before.size if before is not None else 0)
        self.results[result.key] = result
        while self._size > KEPT and len(self.results) > 1:
            oldest = next(iter(self.results))
            self._size -= self.results.pop(oldest).size
        there = (result.aim.node, self.probes[result.probe].tool)
        if result.status is Status.STUCK:
            self._stuck[there] = result
        elif there in self._stuck and self._stuck[there].key == result.key:
            del self._stuck[there]

    def _refusal(self, snapshot: FleetSnapshot, probe: OnDemand, aim: Aim) -> Refusal | None:
        if self.why_not:
            return Refusal(self.why_not)
        refused = refusal(snapshot, probe, aim)
        if refused is None:
            stuck = self._stuck.get((aim.node, probe.tool))
            if stuck is not None and snapshot.wall - stuck.at < STUCK_S:
                words = f"the last {probe.tool} is stuck there since {hms(stuck.at - stuck.seconds)} UTC"
                return Refusal(words, can_force=True)
        return refused

    async def close(self) -> None:
        """Give up what is running."""
        tasks = [batch.task for batch in self.batches if batch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, batch: Batch, *, force: bool) -> None:
        try:
            await asyncio.gather(*(self._step(batch, step, force=force) for step in batch.preview.steps))
        finally:
            self.batches.remove(batch)

    async def _step(self, batch: Batch, step: Step, *, force: bool) -> None:
        async with self._turns.setdefault(step.aim.node, asyncio.Lock()), self._slots:
            result = await self._asked(batch.preview, step, force=force)
        batch.results.append(result)
        self._keep(result)
        self._on_result(result)

    async def _asked(self, preview: Preview, step: Step, *, force: bool) -> Result:
        probe, aim, started = preview.probe, step.aim, self._clock.monotonic()

        def result(status: Status, words: str, sections: Sequence[Section] = (), *, forced: bool = False) -> Result:
            now = self._clock.monotonic()
            return Result(
                probe.id, aim, self._clock.wall(), now - started, status, words, tuple(sections), forced=forced
            )

        # A job may have begun since the preview was shown.
        lasting = step.refusal if step.refusal is not None and not step.refusal.can_force else None
        refused = lasting or self._refusal(self._snapshot(), probe, aim)
        if refused is not None and not (force and refused.can_force):
            return result(Status.REFUSED, refused.words)
        line, text = preview.line(step), ondemand.script(probe.id)
        forced = f" forced although {refused.words};" if refused is not None else ""
        journal = self._source.commands.journal
        if journal is not None:
            journal.keep(text, preview.sha256)
        words = f"{probe.id} {' '.join(aim.arguments)}".strip() + f":{forced} {line} < {preview.sha256}.sh"
        try:
            answer = await self._source.commands.run(
                aim.node,
                ON_DEMAND,
                words,
                lambda: self._source.run_script(aim.node, line, text, probe.limit_s),
            )
        except CommandError as error:
            return result(Status.NOT_RUN, str(error), forced=refused is not None)
        except Exception as error:  # noqa: BLE001  a defect met on one node must not cost the others
            words = f"{type(error).__name__}: {clean(str(error), 200)}"
            return result(Status.NOT_RUN, words, forced=refused is not None)
        seconds = self._clock.monotonic() - started
        status, told, sections = await asyncio.to_thread(read_answer, answer, probe, aim.node, seconds)
        return result(status, told, sections, forced=refused is not None)


def preview_of(probe: OnDemand, steps: Sequence[Step]) -> Preview:
    """Return the preview of a probe with its script."""
    digest = hashlib.sha256(ondemand.script(probe.id).encode()).hexdigest()
    return Preview(probe, tuple(steps), ondemand.commands_of(probe.id), ondemand.about(probe.id), digest)
