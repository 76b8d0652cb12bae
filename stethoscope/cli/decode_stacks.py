"""`stethoscope decode --stacks`: who is where, from stacks of many ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.model.logs import LogVerdict
    from stethoscope.session.stacks import StacksDecoded


def show_stacks(
    names: Sequence[str], *directories: Path, clock: Clock, as_json: bool, every: bool, ascii_only: bool
) -> LogVerdict:
    """Print who is where as these files say; return the verdict for the exit status."""
    from stethoscope.session.stacks import decode_stacks

    answer = decode_stacks(names, *directories, clock=clock)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(stacks_json(answer)).decode())
        return answer.decoded.verdict
    from stethoscope.cli.paint import print_rows
    from stethoscope.ui.present.stacks import stacks_rows

    print_rows(lambda glyphs, cells, _: stacks_rows(answer, glyphs, cells, every=every), ascii_only=ascii_only)
    return answer.decoded.verdict


def stacks_json(answer: StacksDecoded) -> dict[str, Any]:
    """Return the document of `decode`, with `stacks` beside the verdict."""
    from stethoscope.cli.decode_json import decoded_json

    return {
        **decoded_json(answer.decoded),
        "stacks": [
            {
                "ranks": place.ranks,
                "processes": [
                    {"rank": process.rank, "host": process.host, "pid": process.pid, "file": process.file}
                    for process in place.processes
                ],
                "kind": place.kind,
                "what": place.what,
                "frames": [frame.text for frame in place.frames],
            }
            for place in answer.places
        ],
    }
