"""`stethoscope sxid`: what an error code of an NVSwitch means and what to do now."""

from __future__ import annotations

import click

from stethoscope.cli.xid import answer, options


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@options
def command(words: tuple[str, ...], listed: bool, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Say what SXids mean: codes, or whole log lines in quotes. Several are read as one story."""
    return answer("sxid", words, listed=listed, as_json=as_json, playbooks=playbooks)
