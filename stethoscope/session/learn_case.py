"""The draft of a case for a triage flow: the facts that led through its questions, kept so that they always will."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from stethoscope.analysis.triage_case import ENDED, NONE, SLOWER, STOPPED
from stethoscope.analysis.triage_flow import answer_of, flow_for
from stethoscope.analysis.triage_selftest import case_of
from stethoscope.model.incident_body import section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.model.incident import Incident
    from stethoscope.specs.playbook import FlowSpec, Playbooks
    from stethoscope.specs.playbook_forms import StepSpec, WhenSpec

Facts = dict[str, str | float | bool | list[str]]

_STEP = re.compile(r"\d+\. (?P<text>.+?)(?: \((?:agreed|said by a person|skipped)\))?")
_CASES = re.compile(r"^  cases:\n(?:  - .*\n|    .*\n)*\Z", re.MULTILINE)
_MOST = 20


def case_draft(incident: Incident, books: Playbooks) -> tuple[tuple[str, str, str] | None, list[str]]:
    """Return the flow, the name of its file and that file with the case in it; and why there is none."""
    steps = [match["text"] for line in _path(incident) if (match := _STEP.fullmatch(line.strip()))]
    if not steps:
        return None, ["no case: the incident keeps no path of questions and answers"]
    for flow in books.flows.values():
        asked = _asked(flow, steps)
        if not asked:
            continue
        answers = [answer for _, answer in asked]
        for facts in _tried(asked, incident, books):
            if _given(flow, facts, books) == answers:
                return _file(flow, facts, answers, incident, books)
        return None, [f"no case: facts alone do not lead to its answers in the flow {flow.id}"]
    return None, ["no case: no flow asks these questions now"]


def _path(incident: Incident) -> list[str]:
    return section(incident.body, "path").splitlines()


def _asked(flow: FlowSpec, texts: Sequence[str]) -> list[tuple[StepSpec, str]]:
    """Return the steps and the answers that were given, where all of these are questions of the flow."""
    found = []
    for text in texts:
        step = next((step for step in flow.steps if text.startswith(f"{step.question} ")), None)
        if step is None:
            return []
        found.append((step, text[len(step.question) + 1 :].strip()))
    return found


def _tried(asked: Sequence[tuple[StepSpec, str]], incident: Incident, books: Playbooks) -> Iterator[Facts]:
    """Yield facts that may lead to these answers, with what the incident says of itself."""
    known: Facts = {}
    if incident.root_cause in books.classes:
        known = {"layer": books.classes[incident.root_cause].layer, "cause": incident.root_cause}
    wanted: Facts = {}
    for step, answer in asked:
        for each in step.answers:
            if each.answer == answer and each.when is not None:
                wanted |= _meets(each.when)
    for trouble in dict.fromkeys((str(wanted.get("trouble", NONE)), SLOWER, STOPPED, ENDED, NONE)):
        yield {"trouble": trouble, **{name: value for name, value in wanted.items() if name != "trouble"}, **known}


def _meets(when: WhenSpec) -> Facts:
    """Return facts with which a condition holds, as far as facts alone can."""
    if when.fact:
        if when.one_of:
            return {when.fact: when.one_of[0]}
        if when.equals is not None:
            return {when.fact: when.equals}
        if when.over is not None:
            return {when.fact: when.over + 1.0}
        return {when.fact: when.under - 1.0} if when.under is not None else {when.fact: True}
    found: Facts = {}
    for each in (*when.all, *when.any[:1]):
        found |= _meets(each)
    return found


def _given(flow: FlowSpec, facts: Mapping[str, str | float | bool | list[str]], books: Playbooks) -> list[str]:
    asked = case_of(facts)
    begun = flow_for(asked, books)
    if begun is None or begun.id != flow.id:
        return []
    steps = {step.id: step for step in flow.steps}
    given: list[str] = []
    at = flow.steps[0].id
    while at and len(given) < _MOST:
        taken, at, _ = answer_of(steps[at], asked)
        given.append(taken)
    return given


def _file(
    flow: FlowSpec, facts: Facts, answers: list[str], incident: Incident, books: Playbooks
) -> tuple[tuple[str, str, str] | None, list[str]]:
    path = Path(books.files[flow.id])
    text = path.read_text(encoding="utf-8").rstrip("\n") + "\n"
    case = {"name": f"{incident.id} {incident.root_cause}".strip(), "facts": facts, "answers": answers}
    line = yaml.safe_dump(case, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10_000).strip()
    if _CASES.search(text):
        return (flow.id, path.name, f"{text}  - {line}\n"), []
    if "\n  cases:" in text:
        return None, [f"no case: the cases of {path.name} do not stand at its end: add there: - {line}"]
    return (flow.id, path.name, f"{text}  cases:\n  - {line}\n"), []
