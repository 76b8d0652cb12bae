"""`stethoscope drill`: plays scenarios of the simulated fleet and scores what the unattended diagnosis says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY, EXIT_PLANNED, EXIT_URGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stethoscope.session.drill_score import Row

SCHEMA = "stethoscope.drill/1"
MOST_JOBS = 64


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", metavar="DIR|FILE|NAME...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document ({SCHEMA}).")
@click.option(
    "--jobs", metavar="N", type=click.IntRange(1, MOST_JOBS), default=1, show_default=True,
    help="Play so many scenarios at once, each in a process.",
)  # fmt: skip
@click.option(
    "--ssh", is_flag=True, help="Play them one by one over real connections to simulated nodes, in real time."
)
@click.option(
    "--speed", metavar="X", type=click.FloatRange(0.1, 20), default=1.0, show_default=True,
    help="With --ssh: simulated seconds a second; rules of long windows need their time.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Say nothing on stderr while playing.")
def command(paths: tuple[Path, ...], as_json: bool, jobs: int, ssh: bool, speed: float, quiet: bool) -> int:
    """Play scenarios in virtual time, ask the diagnosis, and print what was expected and what it said.

    Scenarios are files, all of a directory, or a bundled one by its name: demo, training.

    Exit status: 0 when every answer is right and in time, 1 when one is not, 2 when somebody would have been woken for
    nothing (a false alarm), 65 when a scenario cannot be played; the others are played all the same.
    """
    from stethoscope.errors import UsageError
    from stethoscope.session.drill import drill_all, scenario_files
    from stethoscope.session.drill_score import score

    if ssh and jobs > 1:
        raise UsageError("--ssh plays one scenario after the other: it cannot be had with --jobs")
    if speed != 1.0 and not ssh:
        raise UsageError("--speed belongs to --ssh: virtual time goes as fast as it can")

    def tell(text: str) -> None:
        if not quiet:
            say(f"stethoscope drill: {text}", err=True)

    names = scenario_files(paths, tell)
    rows: list[Row] = []
    for number, row in enumerate(_over_ssh(names, speed, tell) if ssh else drill_all(names, jobs), 1):
        rows.append(row)
        said = row.error.partition("\n")[0] or f"{_mark(row)} in {row.seconds:.1f} s"
        tell(f"{number}/{len(names)} {row.name}: {said}")
    total = score(rows)
    if as_json:
        import msgspec

        document = {"schema": SCHEMA, "results": [row.as_json() for row in rows], "score": total}
        click.echo(msgspec.json.encode(document).decode())
    else:
        print_rows(rows)
    return exit_status(rows)


def _over_ssh(names: Sequence[str], speed: float, tell: Callable[[str], None]) -> Iterator[Row]:
    from stethoscope.session.drill_ssh import drill_over_ssh

    for name in names:
        yield drill_over_ssh(name, speed, tell)


def exit_status(rows: Sequence[Row]) -> int:
    """Return how a drill ends for the shell."""
    if any(row.error for row in rows):
        return EXIT_DATA
    if any(row.false_alarms for row in rows):
        return EXIT_URGENT
    return EXIT_HEALTHY if all(row.is_right for row in rows) else EXIT_PLANNED


def print_rows(rows: Sequence[Row]) -> None:
    """Print the table, what was missed under each row, and the score."""
    from stethoscope.session.drill_score import score

    lines: list[tuple[str, ...]] = [("scenario", "expected", "got", "detected", "false", "score")]
    lines += [_cells(row) for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    for at, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True)]
        cells += [cell.rjust(width) for cell, width in zip(line[3:], widths[3:], strict=True)]
        say("  ".join(cells).rstrip())
        for remark in _remarks(rows[at - 1]) if at else ():
            say(f"    {remark}")
    total = score(rows)
    parts = [
        f"{name.replace('_', ' ')} {value:.0%}"
        for name in ("scope", "layer", "root_cause", "culprits", "severity", "in_time")
        if (value := total[name]) is not None
    ]
    took = total["detect_s_median"]
    parts.append(f"half of them detected within {took:.0f} s" if took is not None else "nothing detected")
    parts.append(f"{total['false_alarms']} false alarm{'' if total['false_alarms'] == 1 else 's'}")
    say(f"{total['right']} of {total['n']} right: {', '.join(parts)}")
    if total["broken"]:
        say(f"{total['broken']} could not be played")


def _cells(row: Row) -> tuple[str, ...]:
    if row.got is None:
        return row.name, "-", "cannot be played", "-", "-", "-"
    got, expect = row.got, row.expect
    detected = "-" if got.detect_s is None else f"{got.detect_s:.0f} s"
    said = _answer(got.scope, got.root_cause, got.culprits)
    if expect is None:
        return row.name, "not said", said, "-", "-", "-"
    share = sum(row.points.values()) / len(row.points)
    wanted = _answer(expect.scope, expect.root_cause, expect.culprits)
    return row.name, wanted, said, detected, str(got.false_alarms), f"{share:.0%}"


def _answer(scope: str, root_cause: str, culprits: Sequence[str]) -> str:
    places = ", ".join(culprits[:2]) + (f" and {len(culprits) - 2} more" if len(culprits) > 2 else "")
    return f"{scope} {root_cause}" + (f" {places}" if places else "")


def _remarks(row: Row) -> list[str]:
    """Return what is to be said of a row that is not all right."""
    if row.error:
        return [line for line in row.error.split("\n") if line]
    missed = [
        f"{name.replace('_', ' ')}{' (half)' if point else ''}" for name, point in row.points.items() if point < 1.0
    ]
    assert row.got is not None
    late = " · " + (f"detected after {row.got.detect_s:.0f} s" if row.got.detect_s is not None else "not detected")
    said = [f"missed: {', '.join(missed)}{late if 'in time' in missed else ''}"] if missed else []
    return said + [f"false alarm: {text}" for text in row.got.false]


def _mark(row: Row) -> str:
    if row.expect is None:
        return "played"
    return "right" if row.is_right else "not all right"
