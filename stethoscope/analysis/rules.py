"""The rules engine: snapshots in, findings out. Pure but for what its windows and findings remember of the past."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis import service, telling
from stethoscope.analysis.alike import Recall, is_any
from stethoscope.analysis.awake import Awake
from stethoscope.analysis.causal import WAITS
from stethoscope.analysis.conditions import Evaluator, watched_s
from stethoscope.analysis.correlate import FOLD_ABOVE, UNFOLD_BELOW, count_units, in_order, units, visible
from stethoscope.analysis.correlation import Correlation
from stethoscope.analysis.evidence import Writer
from stethoscope.analysis.layout import Layout
from stethoscope.analysis.leaves import SINGLE_LOOK_S
from stethoscope.analysis.moment import Moment
from stethoscope.analysis.rule_state import RuleState
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Flags, Verdicts
from stethoscope.clock import iso
from stethoscope.model.finding import Finding, Severity
from stethoscope.model.grid import is_uniform
from stethoscope.model.ids import fold, node_of
from stethoscope.model.metric import Scope
from stethoscope.specs.condition import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stethoscope.analysis.past import Past
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.model.metric import Metric
    from stethoscope.specs.rule import Rule

CLEAR_AFTER_S = 30.0
"""A finding clears when its condition was false for this long."""
KEEP_CLEARED_S = 600.0
"""A cleared finding is still told for this long."""
MAX_CLEARED = 1000
GAP_S = 30.0
"""After a longer pause between two snapshots nothing is known to have held through it."""
LINGER_S = 60.0
"""What is not urgent comes up so long, and the window of its rule, after what explained it ended."""
MAX_EVIDENCE_PLACES = 3
"""Places of one finding whose facts are quoted."""
SINGLE_LOOK_CONFIDENCE = 0.8
"""Factor on the confidence of a finding that was not watched for as long as its rule asks."""


@dataclass(frozen=True, slots=True)
class _Shown:
    finding: Finding
    parts: Mapping[int, tuple[int, ...]]
    """Number of the rule -> rows of its scope; what has a common cause may be found by several."""


class Engine:
    """Evaluates rules on one snapshot after the other."""

    def __init__(
        self,
        rules: Sequence[Rule],
        catalogue: Mapping[str, Metric],
        *,
        single_look: bool = False,
        past: Past | None = None,
    ) -> None:
        """With `single_look`, for an engine that sees a few seconds only, windows shrink to what can be seen and the
        findings are less sure. `past` is what is remembered of weeks, where that outlives the engine."""
        self._past = past
        self._rules = tuple(rules)
        self._in_order = in_order(self._rules)
        self._catalogue = catalogue
        self._single_look = single_look
        self._reset()

    def _reset(self) -> None:
        self._evaluator = Evaluator(self._catalogue, single_look=self._single_look, past=self._past)
        self._plan()
        self._states = [RuleState() for _ in self._rules]
        self._awake = Awake()
        self._correlation = Correlation(self._rules)
        self._layout: Layout | None = None
        self._recall = Recall()
        self._mono: float | None = None
        self._started = self._wall = 0.0
        self._because: dict[tuple[int, int], int] = {}
        self._shown: dict[str, _Shown] = {}
        self._cleared: dict[str, tuple[float, Finding]] = {}

    def _plan(self) -> None:
        self._plans = []
        for rule in self._rules:
            self._plans.append(self._evaluator.prepare(rule.trigger, rule.scope))
            if rule.more_sure is not None:
                self._evaluator.prepare(rule.more_sure, rule.scope)
        self._watched_s = [watched_s(rule.trigger, single_look=self._single_look) for rule in self._rules]

    def adopt(self, rules: Sequence[Rule]) -> None:
        """Take other rules from the next look on; one whose conditions are what they were goes on as if nothing was."""
        known = {rule.id: (number, rule) for number, rule in enumerate(self._rules)}
        before, states = self._rules, self._states
        self._rules = tuple(rules)
        self._in_order = in_order(self._rules)
        self._states, numbers = [], {}
        for number, rule in enumerate(self._rules):
            old, former = known.get(rule.id, (-1, rule))
            kept = old >= 0 and (former.trigger, former.scope) == (rule.trigger, rule.scope)
            self._states.append(states[old] if kept else RuleState())
            if kept:
                numbers[old] = number
        conditions = [
            (part, rule.scope) for rule in self._rules for part in (rule.trigger, rule.more_sure) if part is not None
        ]
        flags = {} if self._layout is None else {s: np.ones(len(o), bool) for s, o in self._layout.owner.items()}
        self._evaluator.adopt(conditions, flags)
        self._plan()
        self._recall = Recall()
        for number, state in enumerate(self._states):
            if number not in numbers.values() and flags:
                state.fit(flags[self._rules[number].scope])
        self._correlation = Correlation(self._rules)
        shown, self._shown = self._shown, {}
        for id_, entry in shown.items():
            if all(old in numbers for old in entry.parts):
                self._shown[id_] = replace(entry, parts={numbers[old]: rows for old, rows in entry.parts.items()})
            elif self._mono is not None and before:
                # The rule is gone, or asks something else: what it found is over.
                finding = replace(entry.finding, state="cleared", cleared_at=iso(self._wall))
                self._cleared[id_] = (self._mono, finding)

    @property
    def nbytes(self) -> int:
        """Return the memory of the samples that windows keep."""
        return self._evaluator.nbytes

    def rule(self, id_: str) -> Rule | None:
        """Return the rule of that id, None when there is none."""
        return next((rule for rule in self._rules if rule.id == id_), None)

    def evaluate(self, snapshot: FleetSnapshot) -> tuple[Finding, ...]:
        """Return every active finding and those cleared lately, the most urgent first; the time is the snapshot's.

        A snapshot from before the last one, as after a jump in a recording, starts everything anew.
        """
        if self._mono is not None and snapshot.mono < self._mono:
            self._reset()
        layout = self._fit(snapshot)
        if self._mono is None:
            # Nothing is known of what was before the first look.
            self._started = snapshot.wall
        gap_s = 0.0 if self._mono is None else snapshot.mono - self._mono
        if gap_s > GAP_S:
            self._evaluator.forget(samples=gap_s > KEEP_CLEARED_S)
        self._mono, self._wall = snapshot.mono, snapshot.wall
        moment = Moment(snapshot, layout, self._catalogue, self._recall)
        self._evaluator.take(moment)
        asleep = None if self._single_look else self._awake.look(snapshot)
        for rule, state, plan, watched in zip(self._rules, self._states, self._plans, self._watched_s, strict=True):
            verdicts = self._evaluator.judge(plan, moment)
            if asleep is not None:
                verdicts = np.where(asleep[layout.owner[rule.scope]], np.int8(UNKNOWN), verdicts)
            self._advance(rule, state, verdicts, moment, watched)
        shown = self._tell(moment)
        self._clear(shown, moment)
        self._evaluator.rest()
        findings = [*(entry.finding for entry in shown.values()), *(finding for _, finding in self._cleared.values())]
        return tuple(sorted(findings, key=lambda f: (f.state != "active", f.severity.rank, f.since, f.id)))

    def _tell(self, moment: Moment) -> dict[str, _Shown]:
        """Return by id what is found: what the monitor cannot see, common causes, then what stands for itself."""
        active = {rule.id: state.active for rule, state in zip(self._rules, self._states, strict=True)}
        if not any(state.is_active for state in self._states):
            self._correlation.forget()
            return {}
        dark = self._correlation.dark(moment, active, single_look=self._single_look)
        seen = visible(self._in_order, active, moment.layout)
        since = [state.since for state in self._states]
        self._because = self._correlation.stopped(moment, seen, since)
        for rule, state in zip(self._rules, self._states, strict=True):
            # What nobody saw needs no time to clear: it must not come up for that when what explained it ends.
            if state.is_active:
                state.active &= seen[rule.id] | np.isnan(state.false_since)
                self._linger(rule, state, seen)
        verdicts, headline = self._verdicts(moment), self._headlines(moment)
        joined = self._correlation.causes(moment, active, seen, verdicts, headline, since, self._started)
        numbers = {
            number for parts in (*(one.parts for one in dark), *(one.parts for one in joined)) for number in parts
        }
        writers = {number: Writer(self._rules[number], moment, self._evaluator) for number in numbers}
        shown: dict[str, _Shown] = {}
        for broken in dark:
            finding = telling.of_dark(broken, writers, since, moment.snapshot)
            shown[finding.id] = _Shown(finding, {number: tuple(rows) for number, rows in broken.parts.items()})
        for entry in joined:
            id_ = f"{self._rules[entry.first].id}@{entry.id}"
            parts = {number: tuple(rows) for number, rows in entry.parts.items() if rows}
            before = self._shown.get(id_)
            alike = before.finding if before is not None and before.parts == parts else None
            suspect = self._correlation.suspect(entry, moment)
            finding = telling.of_cause(
                id_, entry, self._rules, writers, since, moment.wall, suspect=suspect, before=alike
            )
            shown[id_] = _Shown(finding, parts)
            for number, rows in parts.items():
                rule = self._rules[number]
                seen[rule.id] = seen[rule.id].copy()
                seen[rule.id][list(rows)] = False
        for number, rule in enumerate(self._rules):
            if is_any(seen[rule.id]):
                shown.update(self._findings(number, seen[rule.id], moment))
        return shown

    def _linger(self, rule: Rule, state: RuleState, seen: dict[str, Flags]) -> None:
        """Take out of `seen` what was explained until a moment ago: its windows still hold what is over."""
        if rule.severity.rank < Severity.P2.rank and rule.root_cause not in WAITS:
            return
        mono = self._mono or 0.0
        hidden = state.active & ~seen[rule.id]
        if hidden.any():
            if state.quiet_until is None:
                state.quiet_until = np.full(len(hidden), -np.inf)
            window_s = max(getattr(leaf, "window_s", 0.0) for leaf, _ in leaves(rule.trigger))
            state.quiet_until[hidden] = (
                mono + LINGER_S + window_s + watched_s(rule.trigger, single_look=self._single_look)
            )
        if state.quiet_until is not None:
            state.quiet_until[~state.active] = -np.inf
            seen[rule.id] = seen[rule.id] & (state.quiet_until <= mono)

    def _headlines(self, moment: Moment) -> Callable[[int, int], str]:
        def of(number: int, row: int) -> str:
            writer = Writer(self._rules[number], moment, self._evaluator)
            return writer.text(writer.headline, row, float(self._states[number].since[row]))

        return of

    def _verdicts(self, moment: Moment) -> Callable[[int], Verdicts]:
        return lambda number: self._evaluator.judge(self._plans[number], moment)

    def _fit(self, snapshot: FleetSnapshot) -> Layout:
        if self._layout is not None and self._layout.fits(snapshot):
            return self._layout
        layout = Layout(snapshot)
        changed = {scope: layout.changed(scope, self._layout) for scope in layout.owner}
        self._evaluator.fit(changed)
        for rule, state in zip(self._rules, self._states, strict=True):
            state.fit(changed[rule.scope])
        # Tables of devices never shrink; that of jobs does when jobs end.
        rows_before = {} if self._layout is None else {scope: len(rows) for scope, rows in self._layout.owner.items()}
        gone = {
            scope: {*np.flatnonzero(flags).tolist(), *range(len(flags), rows_before.get(scope, 0))}
            for scope, flags in changed.items()
        }
        self._shown = {
            id_: entry
            for id_, entry in self._shown.items()
            if not any(gone[self._rules[rule].scope].intersection(rows) for rule, rows in entry.parts.items())
        }
        for rule, state in zip(self._rules, self._states, strict=True):
            for row in gone[rule.scope].intersection(state.headlines):
                del state.headlines[row]
        self._layout, self._recall = layout, Recall()
        return layout

    def _advance(self, rule: Rule, state: RuleState, verdicts: Verdicts, moment: Moment, watched: float) -> None:
        if not state.is_active:
            if (verdicts[0] if is_uniform(verdicts) else verdicts.max(initial=FALSE)) < TRUE:
                state.calm(len(verdicts))
                return
            state.active = np.zeros(len(verdicts), np.bool_)
            state.since, state.false_since = np.full((2, len(verdicts)), np.nan)
        true = (verdicts == TRUE) & (moment.layout.owner[rule.scope] >= 0)
        state.since[true & ~state.active] = max(self._started, moment.wall - watched)
        state.active |= true
        state.holds = true
        state.is_active = bool(state.active.any())
        if not state.is_active:
            state.headlines.clear()
            return
        false = state.active & (verdicts == FALSE)
        state.false_since[~false] = np.nan
        state.false_since[false & np.isnan(state.false_since)] = moment.mono
        state.active &= ~(moment.mono - state.false_since >= CLEAR_AFTER_S)

    def _findings(self, number: int, flags: Flags, moment: Moment) -> dict[str, _Shown]:
        rule, state = self._rules[number], self._states[number]
        writer = Writer(rule, moment, self._evaluator)
        if state.told is None or not np.array_equal(state.told[0], flags):
            state.told = (flags, tuple(np.flatnonzero(flags).tolist()))
        rows = state.told[1]
        by_headline: dict[tuple[str, str], Sequence[int]] = {}
        excuses: Mapping[str, Sequence[int]] = {"": rows}
        nodes = moment.snapshot.nodes
        if rule.scope is not Scope.JOB and moment.once("any excuse", lambda: any(map(service.may_be_excused, nodes))):
            excuses = service.excuses(moment.snapshot, rule, rows, moment.layout.owner[rule.scope])
        for why, excused in excuses.items():
            if writer.is_same_everywhere:
                by_headline[writer.headline, why] = excused
                continue
            alike: dict[str, list[int]] = {}
            for row in excused:
                headline = writer.text(writer.headline, row, float(state.since[row]))
                alike.setdefault(headline, []).append(row)
            by_headline.update({(headline, why): tuple(group) for headline, group in alike.items()})
        shown = {}
        for (headline, why), group in by_headline.items():
            places = count_units(rule, group, moment.layout.owner[rule.scope])
            because = f" · {why}" if why else ""
            folded = f"{headline}{because}"
            if places > FOLD_ABOVE or (folded in state.folded and places >= UNFOLD_BELOW):
                state.folded.add(folded)
                id_ = f"{rule.id}@fleet" + ("" if writer.is_same_everywhere else f":{headline}") + because
                shown[id_] = self._made(id_, number, group, folded, writer, moment)
                continue
            state.folded.discard(folded)
            for part in units(rule, group, moment.layout.owner[rule.scope]):
                place = writer.place(part[0])
                id_ = f"{rule.id}@{node_of(place) if rule.per_node else place}"
                text = writer.text(rule.summary, part[0], float(state.since[part[0]])) + because
                shown[id_] = self._made(id_, number, part, text, writer, moment)
        return shown

    def _made(self, id_: str, number: int, rows: Sequence[int], summary: str, writer: Writer, moment: Moment) -> _Shown:
        rule, state = self._rules[number], self._states[number]
        before, at = self._shown.get(id_), np.array(rows)
        parts: Mapping[int, tuple[int, ...]] = {number: tuple(rows)}
        if before is not None and before.parts == parts:
            parts = before.parts
            if not state.holds[at].any():
                return before
            places, nodes = before.finding.where, before.finding.nodes
        else:
            places = tuple(writer.place(row) for row in rows)
            nodes = fold(writer.nodes(rows))
        facts = [fact for row in rows[:MAX_EVIDENCE_PLACES] for fact in writer.facts(row)]
        quoted = dict.fromkeys(writer.node(row) for row in rows[:MAX_EVIDENCE_PLACES])
        of_job = rule.scope is Scope.JOB
        said = [None if of_job else service.fact(moment.snapshot.nodes[node], moment.wall) for node in quoted]
        facts += [fact for fact in said if fact is not None]
        confidence = rule.confidence
        if rule.more_sure is not None:
            surer = self._evaluator.verdicts(rule.more_sure, rule.scope, moment)
            confidence = rule.sure if bool((surer[at] == TRUE).any()) else confidence
        if self._single_look and watched_s(rule.trigger, single_look=False) > SINGLE_LOOK_S:
            confidence *= SINGLE_LOOK_CONFIDENCE
        began = float(state.since[at].min())
        if writer.knows_better:
            began = min(writer.began(row, began) for row in rows)
        finding = Finding(
            id=id_,
            rule=rule.id,
            severity=rule.severity
            if of_job
            else service.lowered(rule, moment.snapshot.nodes[writer.node(rows[0])], moment.wall),
            where=places,
            nodes=nodes,
            since=iso(began),
            summary=summary,
            confidence=round(confidence, 3),
            root_cause=rule.root_cause,
            evidence=tuple(facts),
            explained=sum(self._because.get((number, row), 0) for row in rows) if self._because else 0,
        )
        return _Shown(writer.acted(finding, rows[0], began), parts)

    def _clear(self, shown: dict[str, _Shown], moment: Moment) -> None:
        """Keep for a while what was shown and is no longer true; what is only hidden or folded now is not cleared."""
        for id_, entry in self._shown.items():
            if id_ in shown:
                continue
            states = [(self._states[rule], list(rows)) for rule, rows in entry.parts.items()]
            if not any(state.active[rows].any() for state, rows in states):
                at = moment.mono - moment.wall
                since = np.concatenate([state.false_since[rows] for state, rows in states])
                # A row that stands for another device by now does not know any more.
                ended = float(since.max(initial=-np.inf, where=~np.isnan(since)))
                ended = (ended if np.isfinite(ended) else moment.mono) - at
                finding = replace(entry.finding, state="cleared", cleared_at=iso(ended))
                self._cleared[id_] = (moment.mono, finding)
        self._cleared = {
            id_: (at, finding)
            for id_, (at, finding) in list(self._cleared.items())[-MAX_CLEARED:]
            if id_ not in shown and moment.mono - at < KEEP_CLEARED_S
        }
        self._shown = shown
