"""What verbs that answer share to say what looks like the answer in the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from stethoscope.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.incident import Clues, Match

Called = TypeVar("Called", bound="Callable[..., object]")


def knowledge_options(command: Called) -> Called:
    """Add `--incidents DIR` and `--no-kb`."""
    command = click.option("--no-kb", is_flag=True, help="Do not look for incidents of the past that look like it.")(
        command
    )
    return click.option("--incidents", metavar="DIR", help="Where these are. [the user's data directory]")(command)


def alike(clues: Clues, incidents: str | None) -> tuple[Match, ...]:
    """Return what looks like it; what is wrong with the incidents is said on standard error."""
    from stethoscope.session.similar import looks_like

    return tuple(looks_like(clues, incidents, lambda text: say(f"stethoscope: {text}", err=True)))
