"""`stethoscope triage`: what is wrong, why, and what to do; asked step by step, or with --auto not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.knowledge import knowledge_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.cli.source import SourceOptions, source_options, with_keys
from stethoscope.errors import EXIT_HEALTHY, EXIT_PLANNED, EXIT_URGENT, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.model.metric import Metric
    from stethoscope.model.verdict import Diagnosis, Scene


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@source_options
@click.option("--auto", is_flag=True, help="Ask nothing: take every answer that the facts give.")
@click.option("--job", metavar="ID", help="About this job alone.")
@click.option(
    "--about",
    metavar="PLACE",
    help="About a node, a device of it, a rack or a leaf: gpu-007, gpu-007/ib/mlx5_3, rack/r02.",
)
@click.option("--at", metavar="TIME", help="With --replay: 02:14:07 (UTC), an ISO 8601 time, +5m, -5m. [its end]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.triage/1).")
@click.option("--watch", metavar="TIME", default="20s", show_default=True, help="How long a fleet is watched first.")
@click.option("--no-measure", is_flag=True, help="Run nothing on nodes but the stream probe.")
@knowledge_options
@playbooks_option
def command(
    source: SourceOptions,
    auto: bool,
    job: str | None,
    about: str | None,
    at: str | None,
    as_json: bool,
    watch: str,
    no_measure: bool,
    incidents: str | None,
    no_kb: bool,
    playbooks: tuple[str, ...],
) -> int:
    """Say what is wrong, to whom, why that is believed, what would settle it, and what is safe to do now.

    Watches the fleet for a while and leads from question to question to the verdict; enter takes the proposed answer.
    With --auto it asks nothing, runs the measurements that would settle it, and answers. With --replay from what a
    recording holds. --bundle FILE beside nodes or a recording freezes the evidence into a new file, and alone answers
    from such a file. Exit status: 0 healthy, 1 something to be planned (P2), 2 something urgent (P0, P1), 69 when no
    node was reached.
    """
    if not auto:
        if as_json:
            raise UsageError("--json is the answer of --auto: say it too")
        from stethoscope.cli.triage_ask import need_terminal

        need_terminal()
    if job is not None and about is not None:
        raise UsageError("--job and --about: say one of them")
    if source.recording(writes_bundle=True) is None and at is not None:
        raise UsageError("--at is a time of a recording: say which one with --replay")
    from stethoscope.cli.triage_look import Looking, triage

    focus = f"job/{job}" if job is not None else about or ""
    source = with_keys(source) if source.replay is None else source

    def remember(found: Diagnosis, scene: Scene) -> Diagnosis:
        return found if no_kb else _with_alike(found, scene, incidents)

    looking = Looking(source, directories_of(playbooks), focus, at, _seconds(watch), not no_measure, remember)
    outcome = triage(looking, auto=auto)
    if outcome.found is not None and outcome.prints:
        found, scene = outcome.found, outcome.scene
        catalogue = {} if scene is None else scene.snapshot.catalogue
        _print(found if scene is None else remember(found, scene), catalogue, as_json=as_json)
    if outcome.status is not None:
        return outcome.status
    return EXIT_HEALTHY if outcome.found is None else exit_code(outcome.found)


def _seconds(watch: str) -> float:
    from stethoscope.specs.duration import duration_s

    try:
        return duration_s(watch)
    except ValueError as error:
        raise UsageError(f"--watch: {error}") from None


def _with_alike(found: Diagnosis, scene: Scene, incidents: str | None) -> Diagnosis:
    """Return the diagnosis with what of the past looks like it; nothing does where nothing is wrong."""
    from stethoscope.model.verdict import HEALTHY

    if found.verdict.root_cause == HEALTHY:
        return found
    from dataclasses import replace

    from stethoscope.cli.knowledge import alike
    from stethoscope.session.incident_draft import clues_of

    matches = alike(clues_of(found, scene.snapshot, scene.entries), incidents)
    return replace(found, similar=tuple(match.as_json() for match in matches))


def _print(found: Diagnosis, catalogue: Mapping[str, Metric], *, as_json: bool) -> None:
    if as_json:
        import msgspec

        say(msgspec.json.encode(found.as_json()).decode())
        return
    for line in lines_of(found, catalogue):
        say(line)


def exit_code(found: Diagnosis) -> int:
    """Return the exit status that a diagnosis stands for."""
    severity = found.verdict.severity.value
    if severity in ("P0", "P1"):
        return EXIT_URGENT
    return EXIT_PLANNED if severity == "P2" else EXIT_HEALTHY


def lines_of(found: Diagnosis, catalogue: Mapping[str, Metric]) -> list[str]:
    """Return a diagnosis as lines for people; values have the units of the metrics in `catalogue`."""
    from stethoscope.ui.present.numbers import fact_cells

    verdict = found.verdict
    head = f"{verdict.severity.value}  " if verdict.severity.value.startswith("P") else ""
    lines = [f"{head}{verdict.root_cause} ({verdict.confidence:.0%} sure)", f"    {verdict.summary}"]
    if verdict.places:
        lines.append(f"    culprit: {', '.join(verdict.places)}")
    lines.append(f"    scope {found.scope}, layer {found.layer}")
    for title, facts in (("because", verdict.supports), ("against it", verdict.contradicts)):
        if facts:
            lines += ["", f"{title}:"]
            for fact in facts:
                what, said = fact_cells(fact, catalogue)
                value = f": {said}" if said else ""
                expected = f" (expected {fact.expected})" if fact.expected else ""
                lines.append(f"  {what}{value}{expected}{f' at {fact.where}' if fact.where else ''}")
    if verdict.rules_out:
        lines += ["", "not:", *(f"  {cause}: {because}" for cause, because in verdict.rules_out)]
    if found.alternatives:
        lines += ["", "or else:"]
        lines += [f"  {one.root_cause} ({one.confidence:.0%}): {one.summary}" for one in found.alternatives]
    if found.also:
        lines += ["", "also:", *(f"  {one.severity.value} {one.root_cause}: {one.summary}" for one in found.also)]
    if found.wanted:
        lines += ["", "what would settle it:"]
        lines += [f"  {one.place}: {one.command or one.probe} - {one.settles}" for one in found.wanted]
    if found.similar:
        lines += ["", "looks like:", *(line for one in found.similar for line in _alike_lines(one))]
    if found.actions:
        lines += ["", "now:", *(f"  {action}" for action in found.actions)]
    if found.path:
        lines += ["", "the way there:", *(f"  {step.question} {step.answer}" for step in found.path)]
    return lines


def _alike_lines(one: Mapping[str, Any]) -> Iterator[str]:
    kind = ", a well-known kind" if one["status"] == "reference" else ""
    yield f"  {one['id']}{kind}: {one['title']} ({', '.join(one['reasons'])})"
    if one["fixed_by"]:
        yield f"    {'helps' if kind else 'fixed by'}: {' '.join(one['fixed_by'].split())}"
