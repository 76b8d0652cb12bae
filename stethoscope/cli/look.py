"""How the console looks, makes itself heard, and where its incidents are: options of every verb that opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.completion import metrics
from stethoscope.ui.look import Look

if TYPE_CHECKING:
    from collections.abc import Callable


THEMES = ("dark", "light", "contrast", "safe", "mono", "ascii")
"""Those of ui.theme, which is not imported before there is a console."""


def look_options(function: Callable[..., int]) -> Callable[..., int]:
    """Give a verb the options and, in their place, one argument `look`."""
    import functools

    @functools.wraps(function)
    def called(
        *args: Any,
        ascii_only: bool,
        theme: str,
        metric: str | None,
        bell: bool,
        title: bool,
        mouse: bool,
        incidents: str | None,
        **kwargs: Any,
    ) -> int:
        look = Look(
            ascii_only=ascii_only, theme=theme, metric=metric, bell=bell, title=title, mouse=mouse, incidents=incidents
        )
        return function(*args, look=look, **kwargs)

    options = (
        click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone."),
        click.option(
            "--theme", type=click.Choice(THEMES), default=THEMES[0], show_default=True, help="Colours to draw with."
        ),
        click.option(
            "--metric", metavar="ID", shell_complete=metrics, help="Metric of the fleet screen to start with."
        ),
        click.option("--bell/--no-bell", default=True, show_default=True, help="Ring when a P0 is found."),
        click.option(
            "--title/--no-title", default=True, show_default=True, help="Say in the terminal's title what was found."
        ),
        click.option(
            "--mouse/--no-mouse", default=True, show_default=True, help="Take clicks and the wheel; shift marks text."
        ),
        click.option(
            "--incidents",
            metavar="DIR",
            help="Where the incidents are. [incidents: of the settings, else the user's data]",
        ),
    )
    for option in reversed(options):
        called = option(called)
    return called
