"""`stethoscope kb`: the incidents of before, recorded, found, compared and counted."""

from __future__ import annotations

import click

from stethoscope.cli.kb_shared import HELP
from stethoscope.cli.main import LazyGroup


class Verbs(LazyGroup):
    """The verbs of `kb`, in their order of use: a search has to answer at once, so that each is imported alone."""

    verbs = {  # noqa: RUF012  as its base has it
        "search": ("stethoscope.cli.kb_find:search", "Search them, best first, in any language."),
        "show": ("stethoscope.cli.kb_find:show", "Show one: times, evidence, cause, fix."),
        "list": ("stethoscope.cli.kb_find:list_", "List them, the latest first."),
        "similar": ("stethoscope.cli.kb_similar:similar", "Say what of before looks like this, and why."),
        "add": ("stethoscope.cli.kb_add:add", "Record one: from a triage, a log, a finding, by hand."),
        "close": ("stethoscope.cli.kb_change:close", "Say that one is over, and what fixed it."),
        "edit": ("stethoscope.cli.kb_change:edit", "Change one in $EDITOR, also a broken one."),
        "link": ("stethoscope.cli.kb_change:link", "Say how one hangs together with another."),
        "stats": ("stethoscope.cli.kb_stats:stats", "Draw how many, of what, how long, what repeats."),
        "export": ("stethoscope.cli.kb_files:export", "Write some into one file for the morning."),
        "import": ("stethoscope.cli.kb_files:import_", "Take in tables and post-mortems."),
        "learn": ("stethoscope.cli.kb_learn:learn", "Draft what the next night should know: signature, rule, case."),
        "reindex": ("stethoscope.cli.kb_stats:reindex", "Make the index anew."),
    }


@click.group(cls=Verbs, context_settings=HELP)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The incident knowledge base: what happened, what it was, what fixed it.

    One Markdown file an incident, in a directory that can be a git repository.
    """
    # What the settings say of `kb` is meant for each of its verbs.
    ctx.default_map = dict.fromkeys(Verbs.verbs, ctx.default_map or {})
