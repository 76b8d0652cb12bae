"""`stethoscope kb`: the incidents of before, recorded, found, compared and counted."""

from __future__ import annotations

import click

from stethoscope.cli.kb_add import add
from stethoscope.cli.kb_change import close, edit, link
from stethoscope.cli.kb_files import export, import_
from stethoscope.cli.kb_find import list_, search, show, similar
from stethoscope.cli.kb_shared import HELP
from stethoscope.cli.kb_stats import reindex, stats


class _InOrder(click.Group):
    """A group whose verbs stand in their order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs as they were added."""
        return list(self.commands)


@click.group(cls=_InOrder, context_settings=HELP)
def command() -> None:
    """The incident knowledge base: what happened, what it was, what fixed it.

    One Markdown file an incident, in a directory that can be a git repository.
    """


for _verb in (search, show, list_, similar, add, close, edit, link, stats, export, import_, reindex):
    command.add_command(_verb)
