"""What verbs print for people passes here: names of files and words of the command line may hold anything."""

from __future__ import annotations

import click

from stethoscope.text import clean


def say(text: str, *, err: bool = False) -> None:
    """Print `text`, of one or more lines, without anything that a terminal would obey."""
    click.echo("\n".join(clean(line, max(len(line), 1)) for line in text.split("\n")), err=err)
