"""The option `--filter` of verbs that look once: which nodes the answer is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stethoscope.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.analysis.filter import Filter
    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.present.spans import Row

filter_option = click.option(
    "--filter", "filter_text", metavar="FILTER", help="Tell of the nodes that fit alone: 'temp>85 & rack=rack-01'."
)


def read_filter(text: str | None, directories: list[Path]) -> Filter | None:
    """Return the filter that the command line gives, read before any node is asked; None without one.

    Raises UsageError (exit 64) for one that cannot be read; metrics are those of `directories` and of the bundled
    playbooks.
    """
    if text is None:
        return None
    from stethoscope.analysis.filter import FilterError, compile_filter
    from stethoscope.specs.metric import load_catalogue

    try:
        return compile_filter(text, load_catalogue(*directories))
    except FilterError as error:
        raise UsageError(f"--filter: {error}") from None


def fitting(snapshot: FleetSnapshot, chosen: Filter) -> FleetSnapshot:
    """Return the fleet of the nodes that fit."""
    from stethoscope.analysis.filter_narrow import narrowed

    return narrowed(snapshot, chosen.nodes(snapshot))


def filter_row(chosen: Filter, fits: int, nodes: int) -> Row:
    """Return the line that says of how many nodes the answer tells."""
    from stethoscope.ui.present.spans import Span, Tone

    return (Span(f"{fits:,} of {nodes:,} nodes fit the filter {chosen}", Tone.QUIET),)


def filter_json(chosen: Filter, fits: int, nodes: int) -> dict[str, Any]:
    """Return the same for JSON."""
    return {"text": str(chosen), "nodes": nodes, "fit": fits}
