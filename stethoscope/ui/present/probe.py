"""On-demand probes for people: what there is and what it costs, what would be run, what was said."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from stethoscope.clock import hms
from stethoscope.model.ids import fold
from stethoscope.model.metric import REASON_WORDS, Missing
from stethoscope.session.probe_result import Status, result_json
from stethoscope.ui.present.numbers import number
from stethoscope.ui.present.spans import Level, Row, Span, Tone, level_tone, pad, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stethoscope.model.report import Item
    from stethoscope.session.ondemand import Preview, Step
    from stethoscope.session.probe_result import Result, Section
    from stethoscope.session.probe_run import ProbeRun
    from stethoscope.specs.probes import OnDemand
    from stethoscope.ui.present.spans import Glyphs

_DISTURBS = {"nothing": "harmless", "little": "disturbs little", "jobs": "disturbs jobs"}
_ROOT = {"no": "", "better": "better as root", "needed": "needs root"}
_AIMED = {
    "node": "a node",
    "gpu": "a GPU",
    "port": "an adapter port",
    "disk": "a disk",
    "net": "a network interface",
    "pci": "a PCIe device",
}
_LEVELS = {"critical": Level.CRITICAL, "warning": Level.WARNING}
_NUMBERED = re.compile(r"/\d+$")
_INDENT = 3
_LONGEST = 4096
"""Characters of a line that are looked at where the lines are counted too."""
_NAME = 38


def cost(probe: OnDemand, dot: str = "·") -> str:
    """Return what running a probe costs: `3 s · harmless · better as root`."""
    parts = [f"{probe.seconds:g} s", _DISTURBS[probe.disturbs], _ROOT[probe.root]]
    if probe.loads_gpu:
        parts.append("refused while a GPU is busy")
    return f" {dot} ".join(part for part in parts if part)


def list_rows(probes: Iterable[OnDemand], glyphs: Glyphs, cells: int = 10_000) -> list[Row]:
    """Return a line for each probe: its id, what it is, what it looks at, what it costs; two where one is too long."""
    probes = list(probes)
    wide = max((len(probe.id) for probe in probes), default=0)
    title = max((len(probe.title) for probe in probes), default=0)
    costs = [f"{aimed(probe)}, {cost(probe, glyphs.dot)}" for probe in probes]
    fits = wide + title + 5 + max(map(len, costs), default=0) <= cells
    rows: list[Row] = []
    for probe, words in zip(probes, costs, strict=True):
        name = Span(f" {probe.id:{wide}}  ", Tone.STRONG)
        if fits:
            rows.append((name, Span(f"{probe.title:{title}}  "), Span(words, Tone.QUIET)))
        else:
            rows.append((name, Span(probe.title)))
            lines = wrap(words, max(20, cells - wide - 3))
            rows += [(Span(" " * (wide + 3)), Span(line, Tone.QUIET)) for line in lines]
    return rows


def aimed(probe: OnDemand) -> str:
    """Return what a probe looks at: `an adapter port`, `a GPU or the whole node`."""
    return f"{_AIMED[probe.target]} or the whole node" if probe.whole else _AIMED[probe.target]


def probe_rows(probe: OnDemand, commands: str, about: str, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return what a probe tells, costs and runs."""
    rows: list[Row] = [
        (Span(f" {probe.id}", Tone.STRONG), Span(f"  {probe.title}")),
        (),
        *_named("tells", probe.summary, cells),
        *_named("costs", f"{cost(probe, glyphs.dot)}; ended after {probe.limit_s:g} s", cells),
        *_named("looks at", aimed(probe), cells),
        *_named("needs", probe.tool or "sh", cells),
        *_named("harm", about, cells),
        (),
        (Span(" script", Tone.QUIET), Span("   $1 is what it looks at, $tool the command", Tone.QUIET)),
    ]
    rows += [(Span(f"{' ' * _INDENT}{line}"),) for line in commands.split("\n")]
    return rows


def _named(name: str, text: str, cells: int) -> list[Row]:
    """Return a quiet name and a text behind it, wrapped."""
    lines = wrap(text, max(20, cells - 13)) or [""]
    return [(Span(pad("" if place else f" {name}", 12), Tone.QUIET), Span(line)) for place, line in enumerate(lines)]


def preview_rows(preview: Preview, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return what would be done: where and with what, what forbids it, and the exact commands."""
    probe = preview.probe
    rows: list[Row] = [
        *_named("tells", probe.summary, cells),
        *_named("costs", f"{cost(probe, glyphs.dot)}; ended after {probe.limit_s:g} s", cells),
        *_named("harm", preview.about, cells),
    ]
    rows += _steps(preview, cells, glyphs)
    rows += [(), (Span(" script", Tone.QUIET),)]
    rows += [(Span(f"{' ' * _INDENT}{line}"),) for line in preview.commands.split("\n")]
    going = [step for step in preview.steps if step.refusal is None or step.refusal.can_force]
    if going:
        rows += [(), (Span(" command line, over the connection that stands", Tone.QUIET),)]
        lines = wrap(preview.line(going[0]), max(20, cells - _INDENT), break_on_hyphens=False)
        rows += [(Span(f"{' ' * _INDENT}{line}"),) for line in lines]
        if len(going) > 1:
            rows.append((Span(f"{' ' * _INDENT}and {len(going) - 1} more, each with its own arguments", Tone.QUIET),))
        lines = wrap(f"sha256 of the script {preview.sha256}", max(20, cells - _INDENT))
        rows += [(Span(f"{' ' * _INDENT}{line}", Tone.QUIET),) for line in lines]
    return rows


def _steps(preview: Preview, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return the nodes by what is done there: with which arguments, as whom, or why not."""
    grouped: dict[tuple[str, str, bool], list[str]] = {}
    for step in preview.steps:
        refused = step.refusal
        words = f"refused: {refused.words}" if refused else _as_whom(preview.probe, step)
        what = " ".join(step.aim.arguments)
        grouped.setdefault((what, words, refused is not None), []).append(step.aim.node)
    rows: list[Row] = []
    for (what, words, is_refused), nodes in grouped.items():
        sign = glyphs.level(Level.WARNING) if is_refused else glyphs.level(Level.NORMAL)
        text = " ".join(filter(None, (fold(nodes), what)))
        for place, line in enumerate(wrap(f"{text}  {words}", max(20, cells - 15)) or [""]):
            head = Span(pad("" if place or rows else " where", 12), Tone.QUIET)
            mark = Span(f"{' ' if place else sign} ", level_tone(Level.WARNING) if is_refused else Tone.QUIET)
            rows.append((head, mark, Span(line, level_tone(Level.WARNING) if is_refused else Tone.PLAIN)))
    return rows


def _as_whom(probe: OnDemand, step: Step) -> str:
    if probe.root == "no":
        return "as the user who logged in"
    if step.sudo:
        return "as root, or with sudo -n" + (", else without" if probe.root == "better" else ", else not at all")
    return "as root only; sudo is not allowed there" if probe.root == "needed" else "as the user who logged in"


def value_words(item: Item) -> str:
    """Return a value with its unit, or why there is none."""
    value = item.value
    if isinstance(value, Missing):
        return f"? {REASON_WORDS[value.reason]}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        text = str(value)
    elif isinstance(value, float):
        text = number(value)
    else:
        return value
    return f"{text} {item.unit}".rstrip()


def result_rows(result: Result, cells: int, glyphs: Glyphs, *, raw: bool = True, most: int | None = None) -> list[Row]:
    """Return a result: how it went, what is wrong first, then every value, then what the tool printed, of each command
    `most` lines at the most."""
    is_fine = result.status is Status.OK
    tone = Tone.QUIET if is_fine else level_tone(Level.WARNING)
    sign = glyphs.level(Level.NORMAL if is_fine else Level.WARNING)
    is_run = result.status not in (Status.REFUSED, Status.NOT_RUN)
    head = f"{hms(result.at)} UTC" + (f", took {number(result.seconds)} s" if is_run else "")
    rows: list[Row] = [
        (
            Span(f" {sign} ", tone),
            Span(result.aim.place, Tone.STRONG),
            Span(f"  {result.probe}  {result.status.value}", tone),
            Span(f"  {head}", Tone.QUIET),
        )
    ]
    if result.forced:
        rows.append((Span(f"{' ' * _INDENT}run although it was refused", level_tone(Level.WARNING)),))
    rows += [(Span(f"{' ' * _INDENT}{line}", tone),) for line in wrap(result.words, max(20, cells - _INDENT))]
    items = result.items
    wrong = [item for item in items if item.level]
    if wrong or result.remarks:
        rows.append(())
        rows += [_item_row(item, cells, glyphs) for item in wrong]
        for remark in result.remarks:
            lines = wrap(remark, max(20, cells - 5)) or [""]
            for place, line in enumerate(lines):
                mark = " " if place else glyphs.level(Level.WARNING)
                rows.append((Span(f" {mark} ", level_tone(Level.WARNING)), Span(line, level_tone(Level.WARNING))))
    rows += _value_rows([item for item in items if not item.level], result.aim.place, cells, glyphs)
    if raw:
        for section in result.sections:
            rows += _raw_rows(section, most)
    return rows


def _value_rows(items: Sequence[Item], place: str, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return the values, those of one thing together; of things that differ only by a number (lanes, links) the same
    value stands in one line for all."""
    groups: dict[str, dict[str, list[Item]]] = {}
    for item in items:
        stem = _NUMBERED.sub("", item.where)
        groups.setdefault(stem, {}).setdefault(item.name, []).append(item)
    rows: list[Row] = []
    for stem, names in groups.items():
        numbers = dict.fromkeys(item.where for alike in names.values() for item in alike)
        single = len(numbers) == 1
        title = next(iter(numbers)) if single else f"{stem}/*  ({len(numbers)})"
        rows += [(), (Span(f" {title or place}", Tone.QUIET),)]
        for alike in names.values():
            if single or len(alike) == 1:
                rows += [_item_row(item, cells, glyphs, with_where=not single) for item in alike]
            else:
                rows += _alike_rows(alike, cells, glyphs)
    return rows


def _alike_rows(items: Sequence[Item], cells: int, glyphs: Glyphs) -> list[Row]:
    """Return the same value of several things: one word where all agree, else one after the other in their order."""
    words = [value_words(item) for item in items]
    if len(set(words)) == 1:
        text = f"{words[0]}  (all {len(words)})" if len(words) > 1 else words[0]
    else:
        units = {item.unit for item in items}
        plain_ = [value_words(item._replace(unit="")) for item in items] if len(units) == 1 else words
        text = "  ".join(plain_) + (f"  {items[0].unit}" if len(units) == 1 else "")
    wide = _name_cells(cells)
    tone = Tone.MISSING if all(isinstance(item.value, Missing) for item in items) else Tone.PLAIN
    name = pad(items[0].name.replace("_", " "), wide, glyphs.ellipsis)
    return [
        (Span("   "), Span(pad("" if place else name, wide), Tone.QUIET), Span(f" {line}", tone))
        for place, line in enumerate(wrap(text, max(16, cells - wide - 5)) or [""])
    ]


def _name_cells(cells: int) -> int:
    return min(_NAME, max(12, cells // 2 - 4))


def _item_row(item: Item, cells: int, glyphs: Glyphs, *, with_where: bool = False) -> Row:
    level = _LEVELS.get(item.level, Level.MISSING if isinstance(item.value, Missing) else Level.NORMAL)
    tone = level_tone(level) if item.level else Tone.MISSING if isinstance(item.value, Missing) else Tone.PLAIN
    name = item.name.replace("_", " ")
    if (item.level or with_where) and item.where:
        name = f"{item.where} {name}"
    sign = glyphs.level(level) if item.level else " "
    wide = _name_cells(cells)
    shown = pad(name, wide, glyphs.ellipsis) if width(name) <= wide else f"{name} "
    return (Span(f" {sign} ", tone), Span(shown, Tone.QUIET), Span(f" {value_words(item)}", tone))


def _raw_rows(section: Section, most: int | None) -> list[Row]:
    ended = "" if section.exit in (0, None) else f"   exit {section.exit}"
    rows: list[Row] = [(), (Span(f" $ {section.command}", Tone.STRONG), Span(ended, level_tone(Level.WARNING)))]
    if section.unread:
        rows.append((Span(f"{' ' * _INDENT}no values: {section.unread}", Tone.MISSING),))
    if section.report is not None and section.report.unknown:
        names = ", ".join(section.report.unknown[:8])
        more = f" and {len(section.report.unknown) - 8} more" if len(section.report.unknown) > 8 else ""
        rows.append((Span(f"{' ' * _INDENT}not read: {names}{more}", Tone.MISSING),))
    for text, tone in ((section.text, Tone.PLAIN), (section.err, Tone.MISSING)):
        lines = text.strip("\n").split("\n") if text.strip() else []
        shown = lines if most is None else [line[:_LONGEST] for line in lines[:most]]
        rows += [(Span(f"{' ' * _INDENT}{line.expandtabs()}", tone),) for line in shown]
        if len(shown) < len(lines):
            words = f"and {len(lines) - len(shown):,} more lines, which w saves"
            rows.append((Span(f"{' ' * _INDENT}{words}", Tone.MISSING),))
    return rows


def summary_rows(results: Sequence[Result], glyphs: Glyphs) -> list[Row]:
    """Return a line for each way in which runs went, with the nodes folded, those that gave nothing first."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for result in results:
        words = result.words.replace(result.aim.node, "the node")
        grouped.setdefault((result.status.value, words), []).append(result.aim.node)
    rows: list[Row] = []
    for (status, words), nodes in sorted(grouped.items(), key=lambda group: group[0][0] == "ok"):
        is_fine = status == "ok"
        tone = Tone.QUIET if is_fine else level_tone(Level.WARNING)
        sign = glyphs.level(Level.NORMAL if is_fine else Level.WARNING)
        names = list(dict.fromkeys(nodes))
        count = f" ({len(nodes)} runs)" if len(nodes) != len(names) else ""
        rows.append(
            (Span(f" {sign} ", tone), Span(f"{fold(names)}{count}", Tone.STRONG), Span(f"  {words or status}", tone))
        )
    return rows


def run_rows(run: ProbeRun, cells: int, glyphs: Glyphs) -> list[Row]:
    """Return what `probe run` prints: the results, one after the other, and how they went where there are many."""
    rows: list[Row] = []
    if len(run.results) > 1:
        rows += summary_rows(run.results, glyphs)
    for result in run.results:
        if len(run.results) == 1 or result.sections:
            if rows:
                rows.append(())
            rows += result_rows(result, cells, glyphs)
    return rows


def probe_json(probe: OnDemand) -> dict[str, Any]:
    """Return a probe as it stands in the document of `probe list --json`."""
    return {
        "id": probe.id,
        "title": probe.title,
        "summary": probe.summary,
        "target": probe.target,
        "whole": probe.whole,
        "tool": probe.tool,
        "seconds": probe.seconds,
        "limit_s": probe.limit_s,
        "disturbs": probe.disturbs,
        "loads_gpu": probe.loads_gpu,
        "root": probe.root,
    }


def run_json(run: ProbeRun, *, dry_run: bool) -> dict[str, Any]:
    """Return the document of `probe run --json`."""
    preview = run.preview
    steps = [
        {
            "node": step.aim.node,
            "place": step.aim.place,
            "arguments": list(step.aim.arguments),
            "sudo": step.sudo,
            "refused": step.refusal.words if step.refusal else None,
            "can_force": step.refusal.can_force if step.refusal else None,
        }
        for step in preview.steps
    ]
    return {
        "schema": "stethoscope.probe_run/1",
        "probe": probe_json(preview.probe),
        "script": preview.commands,
        "sha256": preview.sha256,
        "dry_run": dry_run,
        "steps": steps,
        "results": [result_json(result) for result in run.results],
        "summary": {
            "runs": len(run.results),
            "answered": sum(result.answered for result in run.results),
            "critical": sum(item.level == "critical" for result in run.results for item in result.items),
            "warnings": sum(item.level == "warning" for result in run.results for item in result.items),
        },
    }
