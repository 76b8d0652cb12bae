"""What findings share, from one moment to the next: broken paths of the monitor itself, then common causes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis import causes, service
from stethoscope.analysis.alike import is_any
from stethoscope.analysis.blind import Path, Sight, is_about_sight
from stethoscope.analysis.causal import SLOWS, STOPS, WAITS
from stethoscope.analysis.causes import Affected, Cause, Held, Known
from stethoscope.analysis.fanin import fan_in
from stethoscope.analysis.joined import Joined, join
from stethoscope.analysis.sharing import Sharing
from stethoscope.analysis.windows import UNKNOWN, Flags, Verdicts
from stethoscope.model.finding import Severity
from stethoscope.model.metric import Scope
from stethoscope.specs.condition import leaves
from stethoscope.specs.condition_change import Changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stethoscope.analysis.moment import Moment
    from stethoscope.model.fleet import Floats, Node
    from stethoscope.specs.rule import Rule

EARLY_S, STOPPED_S = 60.0, 600.0
"""A change is noticed at most so much before, and so long after, what stopped or slowed down the job."""


@dataclass(frozen=True, slots=True)
class Dark:
    """What the monitor does not see because of itself."""

    path: Path
    parts: dict[int, list[int]]
    """Number of a rule about sight -> nodes that it found."""


_NOTHING_JOINED: tuple[tuple[int, ...], list[Joined], object] = ((), [], None)


class Correlation:
    """Finds what findings of a list of rules share."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Remember nothing yet."""
        self._rules = rules
        self._about_sight = [number for number, rule in enumerate(rules) if is_about_sight(rule)]
        self._stops = [
            number
            for number, rule in enumerate(rules)
            # Errors that were corrected are of the same kind, and stop nobody.
            if rule.root_cause in STOPS and rule.severity is Severity.P0
        ]
        self._holds_up = [number for number, rule in enumerate(rules) if _holds_up(rule)]
        self._waits = [
            number
            for number, rule in enumerate(rules)
            if rule.root_cause in WAITS and rule.scope in (Scope.GPU, Scope.PORT)
        ]
        self._of_changes = [
            number
            for number, rule in enumerate(rules)
            if any(isinstance(leaf, Changed) and positive for leaf, positive in leaves(rule.trigger))
        ]
        self._sight = Sight()
        self._held = [Held() for _ in rules]
        self._sharing: Sharing | None = None
        self._excused_mono: float | None = None
        """Moment of the `_excusable`."""
        self._excusable: list[Node] = []
        self._known: dict[int, Known] = {}
        """By number of the rule: what was found of it last."""
        self._joined = _NOTHING_JOINED

    def forget(self) -> None:
        """Take that nothing is found at all."""
        for held in self._held:
            held.below_since.clear()
        self._sight.forget()
        self._known.clear()
        self._joined = _NOTHING_JOINED

    def dark(self, moment: Moment, active: dict[str, Flags], *, single_look: bool) -> list[Dark]:
        """Return what the monitor does not see because of itself, and take that out of `active`, by rule id.

        What it is too early to tell about is taken out too, but for one who looks only once.
        """
        unseen = np.zeros(len(moment.snapshot.nodes), dtype=bool)
        for number in self._about_sight:
            unseen |= active[self._rules[number].id]
        in_service = np.ones(len(unseen), dtype=bool)
        if unseen.any():
            in_service = ~self._excused(moment, None)
        paths, early = self._sight.look(moment, unseen, in_service)
        if single_look:
            early[:] = False
        found = []
        for path in paths:
            parts = {}
            for number in self._about_sight:
                rows = np.flatnonzero(active[self._rules[number].id] & path.nodes).tolist()
                if rows:
                    parts[number] = rows
            if parts:
                found.append(Dark(path, parts))
        hidden = early
        for path in paths:
            hidden |= path.nodes
        if hidden.any():
            for number in self._about_sight:
                active[self._rules[number].id] = active[self._rules[number].id] & ~hidden
        return found

    def stopped(self, moment: Moment, seen: dict[str, Flags], since: Sequence[Floats]) -> dict[tuple[int, int], int]:
        """Take out of `seen`, by rule id, what changed on the nodes of a job when something stopped or slowed down the
        job, and who waits there since it stopped; return how many findings that were, by number and row of the rule
        that was first there."""
        counts: dict[tuple[int, int], int] = {}
        for earlier, later in ((self._holds_up, self._of_changes), (self._stops, self._waits)):
            follows = [number for number in later if is_any(seen[self._rules[number].id])]
            first = [number for number in earlier if is_any(seen[self._rules[number].id])] if follows else []
            if first:
                self._take_out(first, follows, moment, seen, since, counts)
        return counts

    def _take_out(
        self,
        first: Sequence[int],
        follows: Sequence[int],
        moment: Moment,
        seen: dict[str, Flags],
        since: Sequence[Floats],
        counts: dict[tuple[int, int], int],
    ) -> None:
        jobs = self._shared(moment).jobs()
        if not any(jobs):
            # Where nobody says who works for whom, what falls everywhere at that moment fell because of it.
            jobs = ["all"] * len(jobs)
        began: dict[str, tuple[float, int, int]] = {}
        for number in first:
            rule = self._rules[number]
            for row in np.flatnonzero(seen[rule.id]).tolist():
                job = jobs[moment.layout.owner[rule.scope][row]]
                if job:
                    own = (float(since[number][row]), number, row)
                    began[job] = min(began.get(job, own), own)
        if not began:
            return
        at = np.array([began[job][0] if job in began else np.nan for job in jobs], dtype=np.float64)
        for number in follows:
            rule = self._rules[number]
            owner = moment.layout.owner[rule.scope]
            later = since[number] - at[owner]
            after = seen[rule.id] & (later >= -EARLY_S) & (later <= STOPPED_S)
            seen[rule.id] = seen[rule.id] & ~after
            places = owner[after].tolist()
            for node in set(places) if rule.per_node else places:
                place = began[jobs[node]][1:]
                counts[place] = counts.get(place, 0) + 1

    def causes(
        self,
        moment: Moment,
        active: Mapping[str, Flags],
        seen: Mapping[str, Flags],
        verdicts: Callable[[int], Verdicts],
        headline: Callable[[int, int], str],
        since: Sequence[Floats],
        started: float,
    ) -> list[Joined]:
        """Return the common causes of what is `seen` of what is `active`, by rule id; `headline` is what a rule (its
        number) says of a row."""
        found: dict[int, Affected] = {}
        of_rules: dict[int, list[Cause]] = {}
        for number, rule in enumerate(self._rules):
            held = self._held[number]
            if rule.scope is Scope.JOB or not (is_any(seen[rule.id]) or held.below_since):
                held.below_since.clear()
                continue
            owner = moment.layout.owner[rule.scope]
            owned = owner >= 0
            in_service = owned & ~self._excused(moment, rule)[owner]
            own_active = active[rule.id] & in_service
            population = in_service & ((verdicts(number) != UNKNOWN) | own_active)
            affected = Affected(
                rule.scope,
                rule.per_node,
                owner,
                in_service,
                population,
                own_active,
                seen[rule.id] & in_service,
                since[number],
                started,
                len(moment.snapshot.nodes),
            )
            found[number] = affected
            before = self._known.get(number)
            if before is not None and before.stands(affected, self._shared(moment), held):
                found[number], of_rules[number] = before.affected, before.causes
                continue
            below_since = dict(held.below_since)
            of_rules[number] = []
            for part in self._happenings(number, affected, headline):
                of_rules[number] += causes.find(part, self._shared(moment), held, moment.mono)
            # What changed at which moment is known by the words of now.
            if number not in self._of_changes:
                kept = replace(affected, since=affected.since.copy())
                self._known[number] = Known(kept, self._shared(moment), below_since, of_rules[number])
                found[number] = kept
        # What was found when nodes had other things in common, or of another layout, is not found again as it was.
        self._known = {number: known for number, known in self._known.items() if known.sharing is self._sharing}
        if not any(of_rules.values()):
            self._joined = _NOTHING_JOINED
            return []
        return self._join(found, of_rules, self._shared(moment))

    def _join(
        self, found: Mapping[int, Affected], of_rules: Mapping[int, list[Cause]], shared: Sharing
    ) -> list[Joined]:
        """Return the causes of several rules together, which are those of last time where these are what they were."""
        of = (*found, *map(id, found.values()), *map(id, of_rules.values()), id(shared))
        if of != self._joined[0]:
            # What is named by its id is kept with it.
            self._joined = (of, join(self._rules, found, of_rules, shared), (found, of_rules, shared))
        return self._joined[1]

    def _happenings(self, number: int, affected: Affected, headline: Callable[[int, int], str]) -> Iterable[Affected]:
        """Return what a rule found, apart for each moment where it speaks of one: what changed at another moment has
        another cause."""
        if number not in self._of_changes:
            return [affected]
        parts: dict[str, list[int]] = {}
        for row in np.flatnonzero(affected.seen).tolist():
            parts.setdefault(headline(number, row), []).append(row)
        if len(parts) < 2:
            return [affected]
        return [_only(affected, rows) for rows in parts.values()]

    def suspect(self, entry: Joined, moment: Moment) -> str:
        """Return what to say of the port that others wait for, empty where there is none."""
        return fan_in(entry, self._rules[entry.first], moment, self._shared(moment))

    def _shared(self, moment: Moment) -> Sharing:
        if self._sharing is None:
            self._sharing = Sharing(moment.snapshot, moment.layout)
        elif not self._sharing.fits(moment.layout, moment.mono):
            self._sharing = self._sharing.renewed(moment.snapshot, moment.layout)
        return self._sharing

    def _excused(self, moment: Moment, rule: Rule | None) -> Flags:
        """Return the nodes on which a finding of `rule` would blame nobody."""
        nodes = moment.snapshot.nodes
        if self._excused_mono != moment.mono:
            self._excused_mono = moment.mono
            self._excusable = [
                node
                for node in nodes
                if (node.maintenance or node.scheduler is not None) and service.may_be_excused(node)
            ]
        excused = np.zeros(len(nodes), dtype=bool)
        for node in self._excusable:
            excused[node.index] = bool(service.excuse(node, rule, moment.wall))
        return excused


def _holds_up(rule: Rule) -> bool:
    """Tell whether what a rule finds stops a job, or slows it down."""
    return rule.root_cause in STOPS | SLOWS and rule.severity in (Severity.P0, Severity.P1)


def _only(affected: Affected, rows: list[int]) -> Affected:
    """Return what a rule found with these rows as the only ones that are known to be affected."""
    own = np.zeros_like(affected.active)
    own[rows] = True
    return replace(
        affected,
        population=affected.population & (own | ~affected.active),
        active=affected.active & own,
        seen=affected.seen & own,
    )
