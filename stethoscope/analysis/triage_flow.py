"""The way through a flow: each question with the answer that the facts give, and what answered it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.analysis.triage_case import NONE, Case, holds
from stethoscope.model.verdict import PathStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.finding import Fact
    from stethoscope.model.verdict import Verdict
    from stethoscope.specs.playbook import FlowSpec, Playbooks, StepSpec, WhenSpec

NOT_KNOWN = "cannot be told"
OF_FINDING = ("cause", "layer", "scope")
"""What conditions ask of what was found, and not of a fact."""
_MOST = 20


def flow_for(case: Case, books: Playbooks) -> FlowSpec | None:
    """Return the flow that begins with what the case shows, the first in order."""
    for flow in sorted(books.flows.values(), key=lambda one: (one.order, one.id)):
        if any(holds(each, case) for each in flow.starts):
            return flow
    return None


def walked(case: Case | None, verdict: Verdict, layer: str, scope: str, books: Playbooks) -> tuple[PathStep, ...]:
    """Return the steps that lead to a verdict."""
    asked = replace(case, values={**case.values}) if case is not None else Case("")
    asked.values.setdefault("trouble", NONE)
    asked.values.update(cause=verdict.root_cause, layer=layer, scope=scope)
    flow = flow_for(asked, books)
    if flow is None:
        return ()
    steps = {step.id: step for step in flow.steps}
    path: list[PathStep] = []
    at = flow.steps[0].id if flow.steps else ""
    while at and len(path) < _MOST:
        step = steps[at]
        taken, then, when = answer_of(step, asked)
        evidence = tuple(dict.fromkeys(_evidence(when, asked, verdict)))
        path.append(PathStep(step.id, step.question, taken, "auto", evidence, verdict.confidence))
        at = then
    return tuple(path)


def answer_of(step: StepSpec, case: Case) -> tuple[str, str, WhenSpec | None]:
    """Return the answer that the facts give to a question, where it leads, and the condition that decided it."""
    is_unknown = False
    for answer in step.answers:
        if answer.when is None:
            if is_unknown and step.else_then:
                break
            return answer.answer, answer.then, None
        held = holds(answer.when, case)
        if held:
            return answer.answer, answer.then, answer.when
        is_unknown = is_unknown or held is None
    return NOT_KNOWN, step.else_then, None


def _evidence(when: WhenSpec | None, case: Case, verdict: Verdict) -> Iterator[Fact]:
    if when is None:
        return
    if when.fact in OF_FINDING:
        yield from verdict.supports[:3]
    elif when.fact in case.evidence:
        yield case.evidence[when.fact]
    for each in (*when.all, *when.any):
        yield from _evidence(each, case, verdict)
