"""What a finding says: its summary, filled in, and the facts that it rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.evidence_read import Reader
from stethoscope.analysis.leaves import matches
from stethoscope.analysis.leaves_words import newest_line, usual_word
from stethoscope.analysis.said import FACTS, SAID, number, quantity, said_limit, said_share, unit_of
from stethoscope.clock import hms, iso
from stethoscope.model.finding import Fact, Finding
from stethoscope.model.metric import Kind, Metric, Missing, Reason, Scope
from stethoscope.specs.condition import Absent, Against, Compare, Leaf, LinkIs, XidSeen, leaves
from stethoscope.specs.condition_change import Changed
from stethoscope.specs.condition_kernel import KernelLog
from stethoscope.specs.condition_long import GROWTH, Long
from stethoscope.specs.condition_peers import Distant
from stethoscope.specs.condition_share import Share
from stethoscope.specs.condition_words import WordDiffers, WordIs
from stethoscope.specs.rule import Rule, fill, placeholders

if TYPE_CHECKING:
    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.moment import Moment
    from stethoscope.model.event import LogEvent

LOG_SHOWN = 96
"""Characters of a kernel line in a summary."""
_OF_ONE = {"place", "node_id", "device", "timestamp"}
"""Placeholders that are never the same at two places."""


def headline_of(rule: Rule) -> str:
    """Return the first part of a rule's summary, not yet filled, by which its places are told of together; where that
    names the place or the time, as an operator's alert does, its description."""
    first = rule.summary.split(" · ", 1)[0]
    if _OF_ONE.isdisjoint(placeholders(first)) or not rule.description:
        return first
    return rule.description.rstrip(".")


class Writer(Reader):
    """Writes the texts and facts of one rule's findings at one moment."""

    def __init__(self, rule: Rule, moment: Moment, evaluator: Evaluator) -> None:
        """Read values through `evaluator`, which has just evaluated the rule."""
        super().__init__(rule, moment, evaluator)
        self.headline = headline_of(rule)
        """First part of the summary, before it is filled."""
        self.is_same_everywhere = not placeholders(self.headline)

    def acted(self, finding: Finding, row: int, since: float) -> Finding:
        """Return the finding with what its rule's actions say at `row`; no call that they ask for is ever made."""
        rule = self._rule
        if not rule.actions and not rule.offers:
            return finding
        return replace(
            finding,
            message=self.text(rule.message, row, since),
            log=tuple(self.text(each, row, since) for each in rule.logs),
            held=tuple(self.text(each, row, since) for each in rule.held),
            offers=rule.offers,
        )

    def text(self, template: str, row: int, since: float) -> str:
        """Return `template` (a summary, a headline, an action's message) filled with what is known at `row`."""
        return fill(template, lambda name: self._value(name, row, since))

    def _value(self, name: str, row: int, since: float) -> str | None:
        node = self._moment.snapshot.nodes[self.node(row)]
        if name == "value":
            first = self._first_compare()
            value = None if first is None else self._number(first, row)
            return None if value is None else number(value)
        if name == "node_id":
            return node.name
        if name == "place":
            return self.place(row)
        if name == "device":
            return self.place(row).partition("/")[2] or node.name
        if name == "timestamp":
            return iso(since)
        if name == "link":
            return node.link.state.value
        if name == "detail":
            return node.link.detail or None
        if name == "xid":
            codes = sorted({event.xid for event in self._xids(row) if event.xid is not None})
            return f"Xid {', '.join(map(str, codes))}" if codes else None
        if name == "log":
            return self._log(row)
        if name == "word":
            return self._word(row)
        if name == "peers":
            return self._peers(row)
        if name == "total":
            return self._total(row)
        if name in ("before", "after", "changed_at"):
            return self._change(name, row)
        return self._shown(name, row)

    def _first_compare(self) -> Compare | Long | Share | None:
        """Return the first condition that compares a number: `{{value}}` is its value."""
        found = (leaf for leaf, _ in leaves(self._rule.trigger) if isinstance(leaf, Compare | Long | Share))
        return next(found, None)

    def _shown(self, name: str, row: int) -> str | None:
        metric = self._moment.catalogue[name]
        for leaf, _ in self._leaves():
            if isinstance(leaf, Compare | Long) and leaf.metric == name and leaf.aggregate != "last":
                value = self._number(leaf, row)
                if leaf.aggregate == GROWTH:
                    return None if value is None else f"{number(value)} %"
                unit = unit_of(leaf, metric)
                return None if value is None else quantity(metric, value, unit)
        table, column = self._moment.table(name)
        if column is None:
            return None
        own = self._own_row(table.scope, row, self._about(name))
        found = None if own is None else table.get(name, own)
        if found is None or isinstance(found, Missing):
            return None
        return quantity(metric, found * (metric.rate_scale if metric.kind is Kind.COUNTER else 1.0))

    def _total(self, row: int) -> str | None:
        """Return the raw total of the first counter whose condition is true at `row`."""
        for leaf, _ in self._leaves():
            if isinstance(leaf, Absent | Compare | Long) and self._is_true(leaf, row):
                table, column = self._moment.table(leaf.metric)
                own = self._own_row(table.scope, row, leaf)
                if column is not None and own is not None and leaf.metric in table.counter_index:
                    return str(int(table.totals[table.counter_index[leaf.metric], own]))
        return None

    def _log(self, row: int) -> str | None:
        """Return the newest kernel line that a condition asks for, cut to what fits beside other words."""
        for leaf, positive in leaves(self._rule.trigger):
            line = newest_line(leaf, self._moment, self.node(row)) if isinstance(leaf, KernelLog) and positive else None
            if line is not None:
                return line.text if len(line.text) <= LOG_SHOWN else f"{line.text[: LOG_SHOWN - 1]}…"
        return None

    def _word(self, row: int) -> str | None:
        """Return the version or setting that a condition asks for, as the node says it."""
        asked = [leaf for leaf, _ in leaves(self._rule.trigger) if isinstance(leaf, WordIs | WordDiffers)]
        return self._moment.words(asked[0].word)[self.node(row)] if asked else None

    def _peers(self, row: int) -> str | None:
        odd = next((leaf for leaf, _ in self._leaves() if isinstance(leaf, WordDiffers)), None)
        if odd is not None:
            return usual_word(self._moment, odd.word)
        against = next((leaf for leaf, _ in self._leaves() if isinstance(leaf, Against | Distant)), None)
        if against is None:
            return None
        median = self._median(against.metric, against.of, row)
        return None if median is None else quantity(self._moment.catalogue[against.metric], median)

    def _change(self, name: str, row: int) -> str | None:
        """Return the time of the change that a condition asks for, or the level before or after it."""
        for leaf, positive in leaves(self._rule.trigger):
            if isinstance(leaf, Changed) and positive:
                metric = self._moment.catalogue[leaf.metric]
                own = self._own_row(metric.scope, row, leaf)
                found = None if own is None else self._moment.change(leaf, own)
                if found is not None and name == "changed_at":
                    return hms(found.at)
                if found is not None:
                    return quantity(metric, found.before if name == "before" else found.after)
        return None

    def facts(self, row: int) -> list[Fact]:
        """Return what the finding at `row` rests on: the conditions that are true, then what the rule quotes."""
        facts: list[Fact] = []
        quoted: set[str] = set()
        for leaf, positive in self._leaves():
            fact = self._fact(leaf, row) if positive else None
            if fact is not None and fact.fact not in quoted:
                quoted.add(fact.fact)
                facts.append(fact)
        for name in self._rule.evidence:
            fact = self._quote(name, row)
            if fact is not None and name not in quoted:
                facts.append(fact)
        if "xid" not in quoted:
            facts += [self._xid_fact(event, row) for event in self._xids(row)[-1:]]
        return facts

    def _fact(self, leaf: Leaf, row: int) -> Fact | None:
        if isinstance(leaf, XidSeen):
            events = [event for event in self._xids(row) if matches(leaf, event, self._moment.wall)]
            return self._xid_fact(events[-1], row) if events else None
        if not self._is_true(leaf, row):
            return None
        scope = leaf.scope(self._moment.catalogue)
        own = self._own_row(scope, row, leaf)
        assert own is not None
        if isinstance(leaf, LinkIs):
            node = self._moment.snapshot.nodes[own]
            value = f"{node.link.state.value}: {node.link.detail}" if node.link.detail else node.link.state.value
            return Fact("link", value, "live", node.name, iso(node.link.since), "link")
        if isinstance(leaf, Absent):
            return self._made(
                leaf.metric, str(self._moment.table(leaf.metric)[0].get(leaf.metric, own)), "a value", own
            )
        if type(leaf) in FACTS:
            return FACTS[type(leaf)](leaf, self._moment, own)
        if isinstance(leaf, Share):
            found = self._number(leaf, row)
            said = None if found is None else float(f"{found:.4g}")
            return Fact(
                leaf.name, said, said_share(leaf), self._place_of(scope, own), iso(self._moment.wall), "console"
            )
        if type(leaf) not in SAID:
            return None
        name, expected = SAID[type(leaf)](leaf, self._moment, own)
        metric = self._moment.catalogue[leaf.reads()[0]]
        return self._made(name, self._plain(metric, self._number(leaf, row)), expected, own)

    def _plain(self, metric: Metric, value: float | None) -> float | str | None:
        """Return the value of a fact: a number, or the word of a state."""
        if value is None:
            return None
        if metric.words:
            return quantity(metric, value)
        return int(value) if value == int(value) else float(f"{value:.4g}")

    def _quote(self, name: str, row: int) -> Fact | None:
        metric = self._moment.catalogue[name]
        table, column = self._moment.table(name)
        if column is None:
            return None
        own = self._own_row(table.scope, row, self._about(name))
        if own is None:
            return None
        found = table.get(name, own)
        if isinstance(found, Missing):
            quiet = found.reason in (Reason.UNSUPPORTED, Reason.WAITING)
            return None if quiet else self._made(name, str(found), "", own)
        value = found * (metric.rate_scale if metric.kind is Kind.COUNTER else 1.0)
        expected = ""
        if metric.scope is Scope.JOB:
            usual = self._usual(name, own)
            return self._made(name, self._plain(metric, value), "" if usual is None else f"was {usual}", own)
        if metric.warn is not None and metric.worse != "none":
            expected = said_limit(metric)
        elif not metric.words:
            median = self._median(name, "model", row)
            expected = "" if median is None else f"peers {quantity(metric, median)}"
        return self._made(name, self._plain(metric, value), expected, own)

    def _usual(self, name: str, row: int) -> str | None:
        """Return what a number of a job was in its own healthy past."""
        snapshot = self._moment.snapshot
        standing = snapshot.standings.get(snapshot.jobs[row].id)
        known = None if standing is None else standing.usual.get(name)
        return None if known is None else quantity(self._moment.catalogue[name], known)

    def _made(self, name: str, value: float | str | None, expected: str, own: int) -> Fact:
        """Return a fact about a metric, whose own row it is at."""
        metric = self._moment.catalogue[name.split(" ", 1)[0]]
        node = self._moment.snapshot.nodes[int(self._moment.layout.owner[metric.scope][own])]
        where = self._place_of(metric.scope, own)
        wall = self._moment.wall if node.frame_wall is None else node.frame_wall
        if metric.group in node.parts:
            wall = self._moment.wall - self._moment.mono + node.parts[metric.group].mono
        source = "console" if metric.tier == "console" else "probe"
        if metric.scope is Scope.JOB:
            wall, source = self._moment.wall, "job log"
        return Fact(name, value, expected, where, iso(wall), source)

    def _xid_fact(self, event: LogEvent, row: int) -> Fact:
        own = next((own for own, events in self._moment.xids().items() if event in events), None)
        where = self.place(row) if own is None else self._place_of(Scope.GPU, own)
        return Fact("xid", event.text, "none", where, iso(event.at), "kernel log")
