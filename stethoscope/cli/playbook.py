"""`stethoscope playbook`: which flows there are, how one runs, and whether their own cases pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.specs.playbook import AnswerSpec, CauseSpec, FlowSpec, Playbooks, WhenSpec

_HELP = {"help_option_names": ["-h", "--help"]}
_END = "verdict"


@click.group(context_settings=_HELP)
def command() -> None:
    """List the triage playbooks, draw one, run their cases. An operator's own stand in DIR/triage/*.yaml."""


@command.command("list", context_settings=_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.playbooks/1).")
@playbooks_option
def list_(as_json: bool, playbooks: tuple[str, ...]) -> int:
    """List flows, and the root causes that the diagnosis knows."""
    books = _books(playbooks)
    flows = sorted(books.flows.values(), key=lambda flow: (flow.order, flow.id))
    if as_json:
        import msgspec

        document = {
            "schema": "stethoscope.playbooks/1",
            "flows": [
                {"id": flow.id, "title": flow.title, "steps": len(flow.steps), "file": books.files[flow.id]}
                for flow in flows
            ],
            "causes": sorted(books.causes),
            "pictures": [picture.id for picture in books.pictures],
            "signs": [sign.id for sign in books.signs],
        }
        say(msgspec.json.encode(document).decode())
        return EXIT_HEALTHY
    for flow in flows:
        say(f"{flow.id:12} {flow.title} ({len(flow.steps)} steps, {len(flow.cases)} cases)")
    say(f"{len(books.causes)} root causes, {len(books.pictures)} pictures of ranks, {len(books.signs)} signs of tools")
    return EXIT_HEALTHY


@command.command("show", context_settings=_HELP)
@click.argument("name")
@playbooks_option
def show(name: str, playbooks: tuple[str, ...]) -> int:
    """Draw a flow, or say what is known of a root cause."""
    books = _books(playbooks)
    if name in books.flows:
        lines = _flow_lines(books.flows[name])
    elif name in books.causes:
        lines = _cause_lines(books.causes[name], books)
    else:
        known = [*books.flows, *books.causes]
        raise UsageError(f'no flow and no root cause is called "{name}"{did_you_mean(name, known)}')
    for line in lines:
        say(line)
    return EXIT_HEALTHY


@command.command("test", context_settings=_HELP)
@click.argument("name", required=False)
@playbooks_option
def test(name: str | None, playbooks: tuple[str, ...]) -> int:
    """Run the cases of all playbooks, or of one flow, picture or sign. Exit status: 0 they pass, 65 some do not."""
    from stethoscope.analysis.triage_selftest import count_cases, wrong_cases

    books = _books(playbooks)
    known = [*books.flows, *(one.id for one in books.pictures), *(one.id for one in books.signs)]
    if name is not None and name not in known:
        raise UsageError(f'nothing with cases is called "{name}"{did_you_mean(name, known)}')
    wrong = list(wrong_cases(books, name or ""))
    for line in wrong:
        say(line)
    count = "" if name else f"{count_cases(books)} cases: "
    say(f"{count}{len(wrong)} wrong" if wrong else f"{count}nothing wrong")
    return EXIT_DATA if wrong else EXIT_HEALTHY


def _books(playbooks: tuple[str, ...]) -> Playbooks:
    from stethoscope.specs.playbook import load_playbooks

    return load_playbooks(*directories(playbooks))


def _flow_lines(flow: FlowSpec) -> Iterator[str]:
    yield f"{flow.id}: {flow.title}"
    yield f"begins with: {' or '.join(_words(when) for when in flow.starts)}"
    for step in flow.steps:
        yield ""
        yield f"[{step.id}] {step.question}"
        for answer in step.answers:
            yield f"  |- {answer.answer}{_condition(answer)} -> {answer.then or _END}"
        if step.else_then:
            yield f"  |- cannot be told -> {step.else_then}"
        if step.measure:
            yield f"  '  measure: {', '.join(step.measure)}"


def _condition(answer: AnswerSpec) -> str:
    return f"  ({_words(answer.when)})" if answer.when is not None else ""


def _words(when: WhenSpec) -> str:
    if when.all:
        return " and ".join(_words(each) for each in when.all)
    if when.any:
        return " or ".join(_words(each) for each in when.any)
    if when.none is not None:
        return f"not {_words(when.none)}"
    if when.finding:
        return f"found {' or '.join(when.finding)}"
    if when.event:
        return f"logged {' or '.join(when.event)}"
    if when.equals is not None:
        return f"{when.fact} is {when.equals}"
    if when.one_of:
        return f"{when.fact} is {' or '.join(when.one_of)}"
    limits = [f"over {when.over:g}"] if when.over is not None else []
    limits += [f"under {when.under:g}"] if when.under is not None else []
    return f"{when.fact} {' and '.join(limits)}".rstrip()


def _cause_lines(cause: CauseSpec, books: Playbooks) -> Iterator[str]:
    known = books.classes[cause.root_cause]
    yield f"{cause.root_cause} ({known.layer}): {known.meaning}"
    yield f"culprit: {cause.part}; scope: {cause.scope}; a job {', '.join(cause.job)}"
    levels = cause.severity
    yield f"severity: stopped {levels.stopped}, slower {levels.slower}, a little {levels.little}, else {levels.none}"
    for shown in cause.shown_by:
        yield f"shown by ({shown.weight:.2f}): {', '.join(shown.rules)}"
    for picture in books.pictures:
        if picture.root_cause == cause.root_cause:
            yield f"shown by ({picture.weight:.2f}): {picture.says}, when {_words(picture.when)}"
    for sign in books.signs:
        if cause.root_cause in sign.shows:
            yield f"shown by ({sign.weight:.2f}): {'/'.join(sign.probe)}: {sign.says}"
    for follows in cause.explains:
        yield f"explains ({follows.at}): {', '.join(follows.causes)}"
    for other in cause.unlike:
        yield f"not {other.root_cause}: {other.because}"
    for settled in cause.settled_by:
        yield f"settled by {settled.probe} ({settled.at}): {settled.settles}"
    for text in (cause.now, cause.then):
        if text:
            yield f"do: {text}"
