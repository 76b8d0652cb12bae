"""Defaults of flags from the user's `config.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.paths import config_dir, is_there

if TYPE_CHECKING:
    from collections.abc import Mapping


def apply(ctx: click.Context, verbs: Mapping[str, Any]) -> None:
    """Let the verb that is called take its defaults from the settings; costs nothing where there are none.

    Raises DataError for settings that are broken.
    """
    verb = ctx.invoked_subcommand or "watch"
    if verb not in verbs or not is_there(config_dir() / "config.yaml"):
        return
    from stethoscope.specs.config import load_config, settings_of

    loaded = load_config()
    command = ctx.command
    if loaded is None or not isinstance(command, click.Group):
        return
    called = command.get_command(ctx, verb)
    if called is None:
        return
    flags = flags_of(called)
    values = settings_of(loaded, verb, flags, verbs)
    ctx.default_map = {verb: {flags[name]: value for name, value in values.items()}}


def flags_of(command: click.Command) -> dict[str, str]:
    """Return the parameters of a verb by the names of their flags, without the dashes in front; those of a verb's own
    verbs too."""
    found: dict[str, str] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name is not None:
            for name in parameter.opts:
                if name.startswith("--"):
                    found[name[2:]] = parameter.name
    if isinstance(command, click.Group):
        for other in command.commands.values():
            found.update(flags_of(other))
    return found
