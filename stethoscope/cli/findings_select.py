"""Which findings a verb tells of: options of `findings`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from stethoscope.model.night import Entry

SEVERITIES = ("P0", "P1", "P2", "info")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted."""

    everything: bool = False
    """Also what is only information, and what cleared."""
    since_s: float | None = None
    """What was active within so many seconds."""
    severity: str | None = None
    """At least so urgent."""
    rule: str | None = None
    nodes: frozenset[str] | None = None

    def of(self, entries: Iterable[Entry], now: float, *, every: bool = False) -> list[Entry]:
        """Return the entries that are wanted; with `every` those that cleared are, unless something else is asked."""
        return [entry for entry in entries if self.takes(entry, now, every=every)]

    def takes(self, entry: Entry, now: float, *, every: bool = False) -> bool:
        """Tell whether an entry is wanted."""
        finding = entry.finding
        least = self.severity or ("info" if self.everything else "P2")
        if SEVERITIES.index(finding.severity.value) > SEVERITIES.index(least):
            return False
        if self.rule is not None and not fnmatchcase(finding.rule, self.rule):
            return False
        if self.nodes is not None and not self.nodes & {place.partition("/")[0] for place in finding.where}:
            return False
        end = entry.cleared_at
        if self.since_s is not None:
            return end is None or end >= now - self.since_s
        return end is None or self.everything or every


def check_rule(wanted: str | None, directories: Sequence[Path], others: Iterable[str] = ()) -> None:
    """Raise UsageError for a `--rule` that neither a rule in reach has nor `others` are: nothing found would be no
    answer."""
    if wanted is None:
        return
    from stethoscope.errors import did_you_mean
    from stethoscope.session.rules import Rules

    rules = Rules(*directories)
    names = {*others, *(rule.id for rule in rules.book.rules), *(rule.id for rule, _ in rules.book.others)}
    if not any(fnmatchcase(name, wanted) for name in names):
        raise UsageError(f'--rule: no rule "{wanted}"{did_you_mean(wanted, names)}')


_OPTIONS = (
    click.option("--all", "everything", is_flag=True, help="Also what is only information, and what cleared tonight."),
    click.option("--since", metavar="TIME", help="What is active, or was within this time: 2h, 30m."),
    click.option("--severity", type=click.Choice(SEVERITIES), help="At least so urgent. [P2]"),
    click.option("--rule", metavar="RULE", help="Findings of this rule; * and ? stand for others: 'ib_*'."),
    click.option("--node", metavar="SET", help="Findings on these nodes: 'gpu[001-016]'."),
)


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options; it gets them as one argument, `selection`."""

    @functools.wraps(function)
    def with_selection(
        *args: Any,
        everything: bool,
        since: str | None,
        severity: str | None,
        rule: str | None,
        node: str | None,
        **options: Any,
    ) -> Any:
        return function(*args, selection=_read(everything, since, severity, rule, node), **options)

    decorated: Callable[..., Any] = with_selection
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _read(everything: bool, since: str | None, severity: str | None, rule: str | None, node: str | None) -> Selection:
    from stethoscope.specs.duration import duration_s

    try:
        since_s = None if since is None else duration_s(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    nodes = None
    if node is not None:
        from stethoscope.model.ids import expand

        nodes = frozenset(expand(node))
    return Selection(everything, since_s, severity, rule, nodes)
