"""`stethoscope completion`: the lines that teach a shell to complete verbs, flags, metrics and files."""

from __future__ import annotations

import importlib

import click

from stethoscope.errors import UsageError

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
