"""The same diagnosis asked step by step: each question with its facts and the answer that they give, and what a
person's own answers change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stethoscope.analysis.triage import diagnose
from stethoscope.analysis.triage_case import NONE, Case, cases_of, holds
from stethoscope.analysis.triage_flow import NOT_KNOWN, OF_FINDING, answer_of, flow_for, walked
from stethoscope.analysis.triage_places import Places
from stethoscope.analysis.triage_shown import shown
from stethoscope.model.finding import Fact
from stethoscope.model.verdict import UNKNOWN, PathStep, Verdict, Wanted
from stethoscope.specs.playbook_forms import FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stethoscope.model.verdict import Diagnosis, Scene
    from stethoscope.specs.playbook import FlowSpec, Playbooks, StepSpec, WhenSpec

ACCEPTED, CHOSEN, SKIPPED = "accepted", "chosen", "skipped"
"""How a person answered a step: as was proposed, otherwise, or not at all."""
_MOST_STEPS, _MOST_FACTS, _MOST_WANTED = 20, 8, 4
_REFUTED = 0.3
"""So sure it is that nothing fits which was found, when a person's answers speak against all of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said to a step."""

    answer: str
    how: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """A fact, and what it does to the proposed answer."""

    sign: str
    """`+` supports it, `-` contradicts it, `?` could be known."""
    fact: Fact


@dataclass(frozen=True, slots=True)
class AskStep:
    """One question as it stands now."""

    id: str
    question: str
    proposed: str
    answer: str
    """What is taken: a person's answer, else the proposed one."""
    how: str
    """ACCEPTED, CHOSEN, SKIPPED, or empty while nobody has answered."""
    confidence: float
    answers: tuple[str, ...]
    facts: tuple[Weighed, ...] = ()
    wanted: tuple[Wanted, ...] = ()
    why: tuple[str, ...] = ()
    """What of the flow says so, condition by condition."""
    decides: bool = False
    """The proposed answer comes from the root cause that was found."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A flow as far as it leads, and the diagnosis with what a person said."""

    found: Diagnosis
    flow: str = ""
    title: str = ""
    place: str = ""
    """The job that it is about, empty for none."""
    trouble: str = NONE
    """What that job does, as `triage_case` says it."""
    steps: tuple[AskStep, ...] = ()
    file: str = ""
    """Where the flow is written."""

    @property
    def at(self) -> int:
        """Return which step is to be answered next; the number of steps when none is."""
        return next((number for number, step in enumerate(self.steps) if not step.how), len(self.steps))


def ask(scene: Scene, books: Playbooks, answers: Mapping[tuple[str, str], Answer]) -> Asked:
    """Return the questions about a scene; `answers` are a person's by flow and step. What a person chose leads on, and
    of what was found only what fits it is left."""
    found = diagnose(scene, books)
    case = _case_of(scene, found, books)
    flow = flow_for(case, books)
    if flow is None:
        return Asked(found, place=case.place, trouble=case.trouble)
    own = {step: said for (id_, step), said in answers.items() if id_ == flow.id}
    found = _overridden(found, flow, case, books, own)
    case.values.update(cause=found.verdict.root_cause, layer=found.layer, scope=found.scope)
    steps = tuple(_walk(found, flow, case, own, scene))
    path = tuple(
        PathStep(
            step.id, step.question, step.answer, "you" if step.how else "auto",
            tuple(each.fact for each in step.facts if each.sign == "+"), step.confidence,
        )
        for step in steps
    )  # fmt: skip
    return Asked(
        replace(found, path=path), flow.id, flow.title, case.place, case.trouble, steps, books.files.get(flow.id, "")
    )


def _case_of(scene: Scene, found: Diagnosis, books: Playbooks) -> Case:
    """Return the job that a diagnosis is about, with what was found."""
    affected = {*found.verdict.affected, scene.focus}
    cases = sorted(cases_of(scene, Places(scene)), key=lambda case: case.place not in affected)
    said = [(step.step, step.answer) for step in found.path]
    for case in cases:
        path = walked(case, found.verdict, found.layer, found.scope, books)
        if [(step.step, step.answer) for step in path] == said:
            break
    else:
        case = Case("")
    case.values.setdefault("trouble", NONE)
    case.values.update(cause=found.verdict.root_cause, layer=found.layer, scope=found.scope)
    return case


def _with(case: Case, verdict: Verdict, books: Playbooks) -> Case:
    layer = books.classes[verdict.root_cause].layer if verdict.root_cause in books.classes else "none"
    spec = books.causes.get(verdict.root_cause)
    scope = spec.scope if spec is not None and spec.scope != "felt" else "unknown"
    return replace(case, values={**case.values, "cause": verdict.root_cause, "layer": layer, "scope": scope})


def _overridden(found: Diagnosis, flow: FlowSpec, case: Case, books: Playbooks, own: Mapping[str, Answer]) -> Diagnosis:
    """Return the diagnosis with only what fits the answers that a person gave otherwise than was proposed."""
    against = [step for step in flow.steps if step.id in own and own[step.id].how == CHOSEN]
    known = [found.verdict, *found.alternatives]
    left = [
        verdict
        for verdict in known
        if all(_fits(step, own[step.id].answer, _with(case, verdict, books), case) for step in against)
    ]
    if len(left) == len(known):
        return found
    if left:
        first = left[0]
        known_class = books.classes.get(first.root_cause)
        cause = books.causes.get(first.root_cause)
        wanted = sorted(found.wanted, key=lambda one: one.for_cause != first.root_cause)
        scope = found.scope if first is found.verdict else "unknown"
        actions = found.actions
        if first is not found.verdict:
            scope = cause.scope if cause is not None and cause.scope != "felt" else scope
            actions = tuple(text for text in (cause.now, cause.then) if text) if cause is not None else ()
        layer = known_class.layer if known_class is not None else "none"
        return replace(
            found, scope=scope, layer=layer, verdict=first, alternatives=tuple(left[1:]), wanted=tuple(wanted),
            actions=actions,
        )  # fmt: skip
    verdict = found.verdict
    summary = f"By your answers it is not {verdict.root_cause}, and nothing else that was found fits them"
    refuted = Verdict(
        UNKNOWN, _REFUTED, verdict.severity, summary, affected=verdict.affected, since=verdict.since,
        next_checks=tuple(dict.fromkeys(probe for step in against for probe in step.measure)),
    )  # fmt: skip
    wanted = [*found.wanted, *(one for step in against for one in _measures(step, case))]
    return replace(
        found, layer="none", verdict=refuted, alternatives=tuple(known[:2]),
        wanted=tuple({(one.place, one.probe): one for one in wanted}.values()),
        actions=("Measure what would settle it before anything is changed",),
    )  # fmt: skip


def _fits(step: StepSpec, answer: str, case: Case, before: Case) -> bool:
    """Tell whether a root cause, written into `case`, fits a person's answer."""
    chosen = next((each for each in step.answers if each.answer == answer), None)
    if chosen is None:
        return True
    if chosen.causes:
        return str(case.values["cause"]) in chosen.causes
    if not _asks_what_is_found(step):
        return True
    taken, _, when = answer_of(step, case)
    if taken == answer:
        return True
    if chosen.when is not None and not _is_found(chosen.when):
        # The person knows something that nobody measured; it says nothing about causes.
        return True
    # What speaks here is a fact that the person denies: any cause may be.
    return when is not None and not _is_found(when) and answer_of(step, before)[2] is when


def _asks_what_is_found(step: StepSpec) -> bool:
    return any(each.when is not None and _is_found(each.when) for each in step.answers)


def _is_found(when: WhenSpec) -> bool:
    """Tell whether a condition asks for what was found, and not for a fact."""
    return any(leaf.fact in OF_FINDING for leaf in _leaves(when))


def _leaves(when: WhenSpec) -> Iterator[WhenSpec]:
    below = (*when.all, *when.any, *((when.none,) if when.none is not None else ()))
    if not below:
        yield when
    for each in below:
        yield from _leaves(each)


# ---- the way


def _walk(found: Diagnosis, flow: FlowSpec, case: Case, own: Mapping[str, Answer], scene: Scene) -> Iterator[AskStep]:
    steps = {step.id: step for step in flow.steps}
    at, walked_steps = flow.steps[0].id if flow.steps else "", 0
    while at in steps and walked_steps < _MOST_STEPS:
        step = steps[at]
        walked_steps += 1
        proposed, then, when = answer_of(step, case)
        said = own.get(step.id)
        if said is not None and said.how == ACCEPTED and said.answer != proposed:
            # What was accepted is not what is proposed now: it is asked again.
            said = None
        answer = proposed
        if said is not None and said.how == SKIPPED:
            answer = NOT_KNOWN
            last = next((each.then for each in step.answers if each.when is None), "")
            then = step.else_then or last or then
        elif said is not None and said.how == CHOSEN:
            answer = said.answer
            then = next((each.then for each in step.answers if each.answer == answer), step.else_then)
        is_found = when is None or _is_found(when)
        confidence = 0.0 if proposed == NOT_KNOWN else found.verdict.confidence if is_found else 1.0
        yield AskStep(
            step.id,
            step.question,
            proposed,
            answer,
            said.how if said is not None else "",
            confidence,
            tuple(each.answer for each in step.answers),
            tuple(_facts(step, when, case, found, scene, is_told=proposed != NOT_KNOWN))[:_MOST_FACTS],
            tuple(_wanted(step, proposed, when, case, found))[:_MOST_WANTED],
            tuple(_why(step, case)),
            when is not None and is_found,
        )
        at = then


def _facts(
    step: StepSpec, when: WhenSpec | None, case: Case, found: Diagnosis, scene: Scene, *, is_told: bool
) -> Iterator[Weighed]:
    told: set[Fact] = set()
    probes = {one.probe for one in scene.measured}

    def told_once(sign: str, facts: Sequence[Fact]) -> Iterator[Weighed]:
        for fact in facts:
            if fact not in told:
                told.add(fact)
                yield Weighed(sign, fact)

    if when is not None:
        yield from told_once("+", [fact for leaf in _leaves(when) for fact in shown(leaf, case, scene)])
        if _is_found(when):
            # What somebody has just measured is what they look for.
            strong = sorted(found.verdict.supports, key=lambda fact: fact.source not in probes)
            yield from told_once("+", strong[:4])
            yield from told_once("-", found.verdict.contradicts[:2])
    for other in step.answers:
        if other.when is None or other.when is when:
            continue
        for leaf in _leaves(other.when):
            sign, facts = _of_other(leaf, case, found, is_chosen=when is not None)
            yield from told_once(sign if is_told else "?", facts)
    if not told and is_told and _asks_what_is_found(step):
        # No other answer holds: what was found is what speaks for this one.
        yield from told_once("+", found.verdict.supports[:4])


def _of_other(leaf: WhenSpec, case: Case, found: Diagnosis, *, is_chosen: bool) -> tuple[str, list[Fact]]:
    """Return what a condition of another answer says about the one that is proposed."""
    held = holds(leaf, case)
    if held is None:
        return "?", [Fact(FACTS.get(leaf.fact, leaf.fact), "not known", "", case.place, "", "")]
    if held:
        return "-", [case.evidence[leaf.fact]] if leaf.fact in case.evidence else []
    if is_chosen:
        return "+", []
    if leaf.fact == "layer":
        part = str(leaf.equals or " or ".join(leaf.one_of))
        what = f"what is found is of the layer {found.layer}" if found.layer != "none" else "nothing is found there"
        return "+", [Fact(what, found.verdict.root_cause, f"not {part}", ", ".join(found.verdict.places[:2]), "", "")]
    if leaf.fact in FACTS and leaf.fact not in (*OF_FINDING, "trouble"):
        return "+", [Fact(FACTS[leaf.fact], "not seen", "", case.place, "", "seen")]
    return "+", []


def _wanted(step: StepSpec, proposed: str, when: WhenSpec | None, case: Case, found: Diagnosis) -> Iterator[Wanted]:
    decided = when is not None and _is_found(when)
    here = [one for one in found.wanted if decided or one.probe in step.measure]
    yield from here
    if proposed == NOT_KNOWN and not here:
        yield from _measures(step, case)


def _measures(step: StepSpec, case: Case) -> Iterator[Wanted]:
    """Yield the measurements that a step itself names, on the first node of the job."""
    for place in sorted(case.nodes)[:1]:
        for probe in step.measure:
            yield Wanted(place, probe, step.question)


def _why(step: StepSpec, case: Case) -> Iterator[str]:
    decided = False
    for each in step.answers:
        if each.when is None:
            words = "when no other answer holds"
            held: bool | None = True
        else:
            words, held = condition_words(each.when), holds(each.when, case)
        sign = "+" if held and not decided else "." if held is False else "?" if held is None else "."
        decided = decided or bool(held)
        leads = f"; leads to {each.then}" if each.then else ""
        yield f'{sign} "{each.answer}" {words}{leads}'


def condition_words(when: WhenSpec) -> str:
    """Return a condition in words."""
    if when.all:
        return "when " + " and ".join(condition_words(each).removeprefix("when ") for each in when.all)
    if when.any:
        return "when " + " or ".join(condition_words(each).removeprefix("when ") for each in when.any)
    if when.none is not None:
        return f"when not ({condition_words(when.none).removeprefix('when ')})"
    if when.finding:
        return f"when found: {', '.join(when.finding)}"
    if when.event:
        return f"when the logs have {', '.join(name.rstrip('.') for name in when.event)}"
    meaning = FACTS.get(when.fact, when.fact).partition(":")[0]
    if when.one_of:
        return f"when {meaning} is {' or '.join(when.one_of)}"
    if when.equals is not None:
        return f"when {meaning} is {when.equals}"
    bounds = [f"over {when.over:g}" if when.over is not None else "", f"under {when.under:g}" if when.under else ""]
    said = " and ".join(bound for bound in bounds if bound)
    return f"when {meaning}: {said}" if said else f"when seen: {meaning}"
