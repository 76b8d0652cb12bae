"""`stethoscope decode --flight-recorder`: the dumps of all ranks laid beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stethoscope.clock import Clock
    from stethoscope.model.logs import LogVerdict
    from stethoscope.session.flight import FlightDecoded


def show_flight(
    names: Sequence[str],
    *directories: Path,
    clock: Clock,
    as_json: bool,
    every: bool,
    ascii_only: bool,
    progress: Callable[[int, int], None] | None = None,
) -> LogVerdict:
    """Print what the dumps of directories, files or patterns say; return the verdict for the exit status."""
    from stethoscope.session.flight import decode_flight

    answer = decode_flight(names, *directories, clock=clock, progress=progress)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(flight_json(answer)).decode())
        return answer.decoded.verdict
    from stethoscope.cli.paint import print_rows
    from stethoscope.ui.present.flight import flight_rows

    print_rows(lambda glyphs, cells, _: flight_rows(answer, glyphs, cells, every=every), ascii_only=ascii_only)
    return answer.decoded.verdict


def flight_json(answer: FlightDecoded) -> dict[str, Any]:
    """Return the document of `decode`, with `flight_recorder` beside the verdict."""
    from stethoscope.cli.decode_json import decoded_json

    flight = answer.flight
    return {
        **decoded_json(answer.decoded),
        "flight_recorder": {
            "ranks": sorted(flight.dumps),
            "absent": flight.absent,
            "versions": {str(rank): dump.version for rank, dump in sorted(flight.dumps.items())},
            "nccl_versions": {str(rank): dump.nccl_version for rank, dump in sorted(flight.dumps.items())},
            "groups": [
                {
                    "name": state.key.name, "description": state.description, "ranks": list(state.key.ranks),
                    "seq": state.seq, "op": state.op or None, "sizes": state.sizes or None, "waiting": state.waiting,
                    "started": state.started, "done": state.done, "late": state.late, "absent": state.absent,
                }
                for state in flight.groups()
            ],
            "ends": [
                {
                    "reason": wait.end.reason, "ranks": list(wait.end.ranks),
                    "group": wait.end.key.name if wait.end.key is not None else None, "seq": wait.end.seq,
                    "op": wait.end.op, "waited_for_by": list(wait.victims),
                }
                for wait in flight.waits()
            ],
            "differences": [
                {
                    "group": difference.key.name, "seq": difference.seq, "what": difference.what,
                    "usual": difference.usual, "usual_ranks": list(difference.usual_ranks), "odd": difference.odd,
                    "odd_ranks": list(difference.odd_ranks), "where": difference.where or None,
                }
                for difference in flight.differences()
            ],
        },
    }  # fmt: skip
