"""Conditions that compare no number: versions and settings of nodes, what is known of a device, and the kernel log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from stethoscope.analysis.alike import filled, settled
from stethoscope.analysis.leaves import without_lines
from stethoscope.analysis.windows import FALSE, TRUE, UNKNOWN, Verdicts
from stethoscope.clock import iso
from stethoscope.model.finding import Fact
from stethoscope.model.metric import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.analysis.conditions import Evaluator
    from stethoscope.analysis.layout import Layout
    from stethoscope.analysis.leaves import Answer
    from stethoscope.analysis.moment import Moment
    from stethoscope.model.event import LogEvent
    from stethoscope.specs.condition_kernel import KernelLog
    from stethoscope.specs.condition_words import About, WordDiffers, WordIs

LEAST_ALIKE = 3
"""So many nodes must have the same word before another one is the odd one out, ..."""
MOST_ODD = 0.2
"""... and no more than this share may have any other, unless it is a single one: an upgrade that is under way is no
fault of the nodes that have it behind them or before them."""
_ABOUT: WeakKeyDictionary[Layout, dict[About, Verdicts]] = WeakKeyDictionary()
"""What devices are does not change while the layout stands."""


def word_is(leaf: WordIs, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which nodes have one of the words; a node that did not say is not known."""
    return _of_words(leaf, moment, lambda said: said in leaf.words), None


def word_differs(leaf: WordDiffers, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which nodes have another word than nearly all."""
    usual = usual_word(moment, leaf.word)
    if usual is None:
        return filled(len(moment.snapshot.nodes), UNKNOWN, np.int8), None
    return _of_words(leaf, moment, lambda said: said != usual), None


def usual_word(moment: Moment, word: str) -> str | None:
    """Return what nearly all nodes say, None where there is no such word."""
    words = moment.words(word)
    return moment.recall.made(("usual word", word), (words,), lambda: _usual(words))


def _usual(words: list[str | None]) -> str | None:
    counts = Counter(said for said in words if said is not None)
    if not counts:
        return None
    usual, alike = counts.most_common(1)[0]
    odd = counts.total() - alike
    return usual if alike >= LEAST_ALIKE and odd <= max(1, MOST_ODD * counts.total()) else None


def about(leaf: About, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which devices are of the kind; nothing is known of one that nothing is said of."""
    known = _ABOUT.setdefault(moment.layout, {})
    if leaf not in known:
        known[leaf] = _known_about(leaf, moment)
    return known[leaf], None


def _known_about(leaf: About, moment: Moment) -> Verdicts:
    verdicts = np.full(moment.rows(leaf.of), np.int8(UNKNOWN))
    # Nodes of one kind share what is said of their devices.
    known: dict[tuple[int, int], Verdicts] = {}
    for node in moment.snapshot.nodes:
        first, devices = node.device_first.get(leaf.of, -1), node.devices.get(leaf.of, ())
        if first < 0:
            continue
        shared = (id(devices), id(node.about))
        if shared not in known:
            said = [node.about.get((leaf.of, device), {}).get(leaf.key) for device in devices]
            told = [UNKNOWN if one is None else TRUE if one in leaf.words else FALSE for one in said]
            known[shared] = np.array(told, np.int8)
        verdicts[first : first + len(devices)] = known[shared]
    return settled(verdicts)


def kernel_log(leaf: KernelLog, moment: Moment, evaluator: Evaluator) -> Answer:
    """Tell which nodes have such a line in their kernel log."""
    by_name = moment.snapshot.by_name
    lines = moment.kernel_lines()
    true = [
        by_name[name]
        for kind in leaf.kinds
        for name, event in lines.get(kind, {}).items()
        if name in by_name and event.at >= moment.wall - leaf.window_s
    ]
    return without_lines(moment, Scope.NODE, true), None


def newest_line(leaf: KernelLog, moment: Moment, row: int) -> LogEvent | None:
    """Return the newest line that makes the leaf true for the node at `row`."""
    name = moment.snapshot.nodes[row].name
    lines = [moment.kernel_lines().get(kind, {}).get(name) for kind in leaf.kinds]
    young = [line for line in lines if line is not None and line.at >= moment.wall - leaf.window_s]
    return max(young, key=lambda line: line.at, default=None)


def fact_of_line(leaf: KernelLog, moment: Moment, row: int) -> Fact | None:
    """Return the newest line as a fact."""
    line = newest_line(leaf, moment, row)
    return None if line is None else Fact("kernel_log", line.text, "none", line.node, iso(line.at), "kernel log")


def fact_of_word(leaf: WordIs | WordDiffers, moment: Moment, row: int) -> Fact | None:
    """Return what the node says as a fact, and what nearly all others say."""
    name = moment.snapshot.nodes[row].name
    usual = usual_word(moment, leaf.word)
    expected = "" if usual is None else f"others {usual}"
    return Fact(leaf.word, moment.words(leaf.word)[row], expected, name, iso(moment.wall), "probe")


def _of_words(leaf: WordIs | WordDiffers, moment: Moment, is_so: Callable[[str], bool]) -> Verdicts:
    words, fresh = moment.words(leaf.word), moment.fresh

    def judge() -> Verdicts:
        verdicts = np.array([UNKNOWN if said is None else (TRUE if is_so(said) else FALSE) for said in words], np.int8)
        verdicts[~fresh] = UNKNOWN
        return settled(verdicts)

    return moment.recall.made(leaf, (words, fresh), judge)
