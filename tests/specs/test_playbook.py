"""Triage playbooks: what is wrong with a file is named with its position and the nearest known word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.analysis.triage_selftest import wrong_cases
from stethoscope.errors import DataError
from stethoscope.specs.playbook import load_playbooks

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "schema: stethoscope.triage/1\n"


def written(directory: Path, text: str) -> Path:
    """Write one file of triage/ into a playbooks directory and return that."""
    (directory / "triage").mkdir()
    (directory / "triage" / "own.yaml").write_text(HEAD + text, encoding="utf-8")
    return directory


def test_what_ships_loads_and_its_cases_pass() -> None:
    books = load_playbooks()
    assert {"slow", "hang", "xid", "storage", "node", "loss"} <= books.flows.keys()
    assert list(wrong_cases(books)) == []


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        (
            "signs:\n- {id: a, probe: [lspci], find: 'x', says: y, shows: [ib_link_falt]}\n",
            "own.yaml:3",
            'unknown root cause "ib_link_falt"; did you mean "ib_link_fault"?',
        ),
        ("signs:\n- {id: a, probe: [lspci], find: '(', says: y}\n", "own.yaml:3", "no regular expression"),
        ("signs:\n- {id: a, probe: [lspci], find: 'x', says: 'on {gpu}'}\n", "own.yaml:3", 'no group "gpu"'),
        (
            "pictures:\n- {id: a, root_cause: gpu_power, when: {fact: late_hots}, at: job, weight: 0.5, says: x}\n",
            "own.yaml:3",
            'unknown fact "late_hots"; did you mean "late_host"?',
        ),
        (
            "flow: {id: f, title: t, starts: [{fact: trouble}], steps: [{id: one, question: q, "
            "answers: [{answer: a, then: tow}]}]}\n",
            "own.yaml:2",
            'unknown step "tow"',
        ),
        (
            "flow: {id: f, title: t, starts: [{fact: trouble}], steps: [{id: one, question: q, "
            "answers: [{answer: a}]}, {id: two, question: q, answers: [{answer: a}]}]}\n",
            "own.yaml:2",
            'no answer leads to the step "two"',
        ),
        (
            "confidence:\n- {evidence: 0.5, right: 0.6}\n- {evidence: 0.7, right: 0.5}\n",
            "own.yaml:4",
            "more evidence than before, and right as often at least",
        ),
        ("heard:\n- {signature: a, was: host_om, root_cause: unknown}\n", "own.yaml:3", 'unknown root cause "host_om"'),
        (
            "pictures:\n- {id: a, root_cause: gpu_power, when: {}, at: job, weight: 0.5, says: x}\n",
            "own.yaml:3",
            "a condition has one of",
        ),
    ],
)
def test_errors_say_where_and_what_was_meant(tmp_path: Path, text: str, position: str, words: str) -> None:
    with pytest.raises(DataError) as caught:
        load_playbooks(written(tmp_path, text))
    assert position in str(caught.value)
    assert words in str(caught.value)


def test_the_nearest_definition_counts(tmp_path: Path) -> None:
    text = "flow: {id: slow, title: ours, starts: [{fact: trouble}], steps: [{id: one, question: q, answers: []}]}\n"
    books = load_playbooks(written(tmp_path, text))
    assert books.flows["slow"].title == "ours"


def test_a_case_that_fails_is_told(tmp_path: Path) -> None:
    text = "signs:\n- {id: a, probe: [lspci], find: 'x+', says: y, finds: [yyy], leaves: [xx]}\n"
    books = load_playbooks(written(tmp_path, text))
    assert list(wrong_cases(books, "a")) == ["sign a: does not find 'yyy'", "sign a: finds 'xx'"]
