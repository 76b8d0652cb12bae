"""`stethoscope decode --follow`: the answer, each new kind of trouble as it comes, the answer when it changes."""

from __future__ import annotations

import select
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.model.logs import Event, LogVerdict
    from stethoscope.session.decode import Decoded
    from stethoscope.session.decode_follow import Followed

_PAUSED = 130


def follow_logs(
    followed: Followed,
    show: Callable[[Decoded], None],
    *,
    ascii_only: bool,
    is_quiet: bool,
    exit_code: Callable[[LogVerdict], int],
) -> int:
    """Show answers until what is read ends or the user ends it; return the exit status of the last one."""
    from stethoscope.clock import SystemClock
    from stethoscope.session.decode_follow import answers

    told: set[tuple[object, ...]] = set()

    def news(events: list[Event]) -> None:
        if not is_quiet:
            _print_news(events, told, ascii_only=ascii_only)

    status = 0
    is_first = True
    try:
        for decoded in answers(followed, SystemClock(), _wait, news):
            if not is_first and not is_quiet:
                click.echo("")
            # First of all: who reads the answer may end it before the next line here.
            status = exit_code(decoded.verdict)
            show(decoded)
            is_first = False
            told |= {_kind(event) for event in decoded.log.events}
            if sys.stderr.isatty() and not is_quiet:
                click.echo("following; ctrl+c ends", err=True)
    except KeyboardInterrupt:
        return status if not is_first else _PAUSED
    except BrokenPipeError:
        return status
    finally:
        followed.close()
    return status


def _wait(seconds: float) -> None:
    """Sleep; BrokenPipeError as soon as nobody reads what is printed any more (`| head`)."""
    poller = select.poll()
    try:
        poller.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        time.sleep(seconds)
        return
    if poller.poll(seconds * 1000):
        raise BrokenPipeError


def _kind(event: Event) -> tuple[object, ...]:
    return event.signature, event.origin.host, event.pci, event.device


def _print_news(events: list[Event], told: set[tuple[object, ...]], *, ascii_only: bool) -> None:
    """Print the events of a kind that was not told yet: a flood is told once, the next answer counts it."""
    from stethoscope.cli.paint import print_rows
    from stethoscope.ui.present.decoded_events import news_rows

    fresh = []
    for event in events:
        if event.role in ("cause", "either", "symptom") and _kind(event) not in told:
            told.add(_kind(event))
            fresh.append(event)
    if fresh:
        print_rows(
            lambda glyphs, cells, is_terminal: news_rows(fresh, glyphs, cells, is_cut=is_terminal),
            ascii_only=ascii_only,
        )
