"""`stethoscope decode --node`: fetches the kernel logs of nodes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from stethoscope.cli.source import SourceOptions, open_source, with_keys
from stethoscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.session.decode import Wanted
    from stethoscope.session.decode_nodes import NodeLog

_DAY_S = 86_400.0


def read_nodes(source: SourceOptions, node: str | None, wanted: Wanted | None, timeout: str) -> Sequence[NodeLog]:
    """Return the kernel logs of the nodes `node` of a source, of all its nodes without; since the last day where
    `wanted` does not say since when."""
    import asyncio

    from stethoscope.clock import SystemClock
    from stethoscope.model import ids
    from stethoscope.session.decode_nodes import kernel_logs
    from stethoscope.session.open import open_session
    from stethoscope.specs.duration import duration_s

    try:
        timeout_s = duration_s(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    if not source.names_nodes:
        # The nodes are named: nothing more is needed to reach them.
        source = replace(source, hosts=node)
    clock = SystemClock()
    opened = open_source(with_keys(source), clock)
    known = [one.name for one in opened.nodes]
    names = known if node is None else ids.expand(node)
    for name in names:
        if name not in known:
            raise UsageError(f'--node: no node is called "{name}" here{did_you_mean(name, known)}')
    opened.narrow(names)
    now = clock.wall()
    since = wanted.moment(wanted.since, now) if wanted is not None else None
    session = open_session(opened, clock, single_look=True, kept=False)
    narrate = sys.stderr.isatty()
    try:
        return asyncio.run(
            kernel_logs(
                session,
                names,
                now - _DAY_S if since is None else since,
                timeout_s=timeout_s,
                on_progress=_narrate if narrate else None,
            )
        )
    finally:
        if narrate:
            click.echo("\r\x1b[K", err=True, nl=False)


def _narrate(words: str) -> None:
    click.echo(f"\r\x1b[K{words}", err=True, nl=False)
