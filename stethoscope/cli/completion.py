"""`stethoscope completion`: the lines that teach a shell to complete verbs, flags, metrics, nodes and groups."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from stethoscope.errors import StethoscopeError, UsageError

if TYPE_CHECKING:
    from stethoscope.specs.fleet import Fleet

_WHERE = {
    "bash": 'eval "$(stethoscope completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(stethoscope completion zsh)"   in ~/.zshrc, after compinit',
    "fish": "stethoscope completion fish > ~/.config/fish/completions/stethoscope.fish",
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("shell", type=click.Choice(list(_WHERE)))
def command(shell: str) -> int:
    """Print what the shell needs to complete verbs, flags and names.

    \b
    bash   eval "$(stethoscope completion bash)"   in ~/.bashrc
    zsh    eval "$(stethoscope completion zsh)"    in ~/.zshrc, after compinit
    fish   stethoscope completion fish > ~/.config/fish/completions/stethoscope.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise UsageError(f"no completion is known for {shell}")
    group = importlib.import_module("stethoscope.cli.main").group
    click.echo(found(group, {}, "stethoscope", "_STETHOSCOPE_COMPLETE").source())
    return 0


def metrics(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[object]:
    """Return the metrics whose id contains what was begun, with their titles, for the shell."""
    from click.shell_completion import CompletionItem

    from stethoscope.specs.metric import load_catalogue

    known = load_catalogue().values()
    return [CompletionItem(metric.id, help=metric.title) for metric in known if metric.fleet and begun in metric.id]


def nodes(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[object]:
    """Return the nodes of the fleet that the line names so far, or of the user's; the last one of a set is begun."""
    from click.shell_completion import CompletionItem

    fleet = _fleet(ctx)
    before, comma, last = begun.rpartition(",")
    return [CompletionItem(f"{before}{comma}{node.name}") for node in fleet.nodes if node.name.startswith(last)]


def groups(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[object]:
    """Return the groups of that fleet."""
    from click.shell_completion import CompletionItem

    found = _fleet(ctx).groups.items()
    return [CompletionItem(name, help=f"{len(members)} nodes") for name, members in found if name.startswith(begun)]


def probes(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[object]:
    """Return the probes that may be asked for."""
    from click.shell_completion import CompletionItem

    from stethoscope.specs.probes import load_manifest

    known = load_manifest().ondemand
    return [CompletionItem(probe.id, help=probe.summary) for probe in known if probe.id.startswith(begun)]


def _fleet(ctx: click.Context) -> Fleet:
    """Return the fleet of `--fleet`, of the settings, or of the user's fleet file; one without nodes where none can be
    read: a shell that completes has nowhere to say why."""
    from stethoscope.paths import config_dir
    from stethoscope.specs.config import load_config
    from stethoscope.specs.fleet import Fleet, read_fleet

    try:
        settings = load_config()
        of_settings = settings.data.get("fleet") if settings is not None else None
        return read_fleet(ctx.params.get("fleet") or of_settings or config_dir() / "fleet.yaml")
    except (StethoscopeError, OSError):
        return Fleet("", ())
