"""The playbooks' own cases: facts and the answers that they must lead to, samples that signs must find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import NONE, Case, holds
from stethoscope.analysis.triage_flow import answer_of, flow_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.specs.playbook import FlowSpec, Playbooks

_MOST = 20


def count_cases(books: Playbooks) -> int:
    """Return how many cases the playbooks have."""
    flows = sum(len(flow.cases) for flow in books.flows.values())
    pictures = sum(len(one.holds) + len(one.fails) for one in books.pictures)
    return flows + pictures + sum(len(one.finds) + len(one.leaves) for one in books.signs)


def wrong_cases(books: Playbooks, only: str = "") -> Iterator[str]:
    """Yield what is wrong, a line for each case; with `only` of that flow, picture or sign."""
    for id_ in sorted(books.flows):
        if not only or only == id_:
            yield from _of_flow(books.flows[id_], books)
    for picture in books.pictures:
        if only and only != picture.id:
            continue
        for wanted, groups in ((True, picture.holds), (False, picture.fails)):
            for number, facts in enumerate(groups, 1):
                if (holds(picture.when, case_of(facts)) is True) is not wanted:
                    word = "does not hold" if wanted else "holds"
                    yield f"picture {picture.id}: {word} with facts {number} of {'holds' if wanted else 'fails'}"
    for sign in books.signs:
        if only and only != sign.id:
            continue
        for wanted, texts in ((True, sign.finds), (False, sign.leaves)):
            for text in texts:
                if (books.patterns[sign.id].search(text) is not None) is not wanted:
                    yield f"sign {sign.id}: {'does not find' if wanted else 'finds'} {text[:60]!r}"


def _of_flow(flow: FlowSpec, books: Playbooks) -> Iterator[str]:
    steps = {step.id: step for step in flow.steps}
    for case in flow.cases:
        asked = case_of(case.facts)
        begun = flow_for(asked, books)
        if begun is None or begun.id != flow.id:
            other = "no flow begins" if begun is None else f"{begun.id} begins"
            yield f"flow {flow.id}: case {case.name}: {other} with its facts"
            continue
        given: list[str] = []
        at = flow.steps[0].id if flow.steps else ""
        while at and len(given) < _MOST:
            taken, at, _ = answer_of(steps[at], asked)
            given.append(taken)
        if given != case.answers:
            yield f"flow {flow.id}: case {case.name}: answers {given}, not {case.answers}"


def case_of(facts: Mapping[str, str | float | bool | list[str]]) -> Case:
    """Return a case with these facts."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}
    return Case("job/1", values={"trouble": NONE, **values})
