"""`stethoscope replay`: the console on a recording, or what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.look import look_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import DataError
from stethoscope.text import clean

if TYPE_CHECKING:
    from stethoscope.session.replay import ReplaySession
    from stethoscope.ui.look import Look


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="Where to begin: 02:14:07 (UTC), an ISO 8601 time, +5m from the start, -5m.")
@click.option("--speed", type=click.FloatRange(0.125, 64), default=1.0, show_default=True, help="Recorded s a second.")
@click.option("--info", is_flag=True, help="Print what is in the recording, and end.")
@click.option("--json", "as_json", is_flag=True, help="With --info: print one JSON document (stethoscope.replay/1).")
@playbooks_option
@look_options
def command(
    path: Path,
    at: str | None,
    speed: float,
    info: bool,
    as_json: bool,
    playbooks: tuple[str, ...],
    look: Look,
) -> int:
    """Open the console on a recording, or on all of a directory: everything is worked out again from the raw lines.

    `space` pauses, `,` and `.` go back and on by 10 s, `n` goes to the next change; `?` shows all keys.
    """
    from stethoscope.paths import is_there

    if not is_there(path):
        raise DataError("no such file or directory", where=str(path))
    if info or as_json:
        return _print_info(path, as_json=as_json)
    return run_replay(path, look, at, speed, playbooks=playbooks)


def run_replay(
    path: Path,
    look: Look,
    at: str | None = None,
    speed: float = 1.0,
    *,
    playbooks: tuple[str, ...] = (),
) -> int:
    """Run the console on the recording at `path`, beginning at the time that `at` means."""

    from stethoscope.ui.run import run_console

    async def open_session() -> ReplaySession:
        return _open(path, at, speed, playbooks)

    title = clean(f"replay {path.name}", 80)
    return run_console(open_session, title, look, playbooks=directories_of(playbooks))


def _open(path: Path, at: str | None, speed: float, playbooks: tuple[str, ...]) -> ReplaySession:
    from stethoscope.session.open import session_maker
    from stethoscope.session.replay import ReplaySession, parse_at
    from stethoscope.store.tape import open_tape

    tape = open_tape(path)
    start = 0.0 if at is None else parse_at(at, tape)
    return ReplaySession(tape, session_maker(*directories_of(playbooks)), at=start, speed=speed)


def _print_info(path: Path, *, as_json: bool) -> int:
    import msgspec

    from stethoscope.session.info import describe, info_json, info_lines
    from stethoscope.store.tape import open_tape

    info = describe(open_tape(path))
    if as_json:
        click.echo(msgspec.json.encode(info_json(info)).decode())
        return 0
    for line in info_lines(info):
        say(line)
    return 0
