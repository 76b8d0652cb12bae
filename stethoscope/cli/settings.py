"""Defaults of flags from the user's `config.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.errors import DataError
from stethoscope.paths import config_dir, is_there

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stethoscope.specs.load import Loaded

_LOOKS_AT_THEM = ("doctor", "lint", "completion")
"""Verbs that have no settings, and two of which tell what is wrong with them."""


def apply(ctx: click.Context, verbs: Mapping[str, Any]) -> None:
    """Let the verb that is called take its defaults from the settings; costs nothing where there are none.

    Raises DataError for settings that are broken.
    """
    verb = ctx.invoked_subcommand or "watch"
    if verb not in verbs or verb in _LOOKS_AT_THEM or not is_there(config_dir() / "config.yaml"):
        return
    from stethoscope.specs.config import SECTIONS, load_config, settings_of, unknown_names

    loaded = load_config()
    command = ctx.command
    if loaded is None or not isinstance(command, click.Group):
        return
    called = command.get_command(ctx, verb)
    if called is None:
        return
    flags = flags_of(called)
    # Only a name that this verb does not know is worth the time to ask all of them.
    if set(loaded.data) - {"schema", *SECTIONS, *flags, *verbs}:
        for error in unknown_names(loaded, {name: flags_of(other) for name, other in _all(command, ctx)}):
            raise error
    values = settings_of(loaded, verb, flags, verbs)
    for error in _wrong_values(loaded, ctx, verb, called, values):
        raise error
    ctx.default_map = {verb: {flags[name]: value for name, value in values.items()}}


def wrong_settings(ctx: click.Context) -> list[DataError]:
    """Return what is wrong with the settings: names that no verb has, and values that a flag does not take."""
    from stethoscope.specs.config import load_config, settings_of, unknown_names
    from stethoscope.specs.lemons import limits_of

    root = ctx.find_root()
    if not isinstance(root.command, click.Group):
        return []
    try:
        loaded = load_config()
        if loaded is None:
            return []
        verbs = dict(_all(root.command, root))
        errors = unknown_names(loaded, {name: flags_of(verb) for name, verb in verbs.items()})
        for name, verb in verbs.items():
            own = loaded.data.get(name)
            if not isinstance(own, dict) or set(own) <= set(flags_of(verb)):
                values = settings_of(loaded, name, flags_of(verb), verbs)
                errors += _wrong_values(loaded, root, name, verb, values)
        limits_of(loaded)
    except DataError as error:
        return [error]
    return list({str(error): error for error in errors}.values())


def _all(group: click.Group, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None:
            yield name, command


def _wrong_values(
    loaded: Loaded, ctx: click.Context, verb: str, command: click.Command, values: Mapping[str, Any]
) -> Iterator[DataError]:
    """Yield an error, with its line, for every value that its flag does not take."""
    for parameter in command.params:
        for name in (option[2:] for option in parameter.opts if option.startswith("--")):
            if name not in values or not isinstance(parameter, click.Option):
                continue
            try:
                parameter.type_cast_value(ctx, values[name])
            except click.BadParameter as error:
                own = loaded.data.get(verb)
                place = (verb, name) if isinstance(own, dict) and name in own else (name,)
                yield loaded.error(f"{name}: {error.message}", *place)


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
        for _, other in _all(command, click.Context(command)):
            found.update(flags_of(other))
    return found
