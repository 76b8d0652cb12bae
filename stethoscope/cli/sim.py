"""`stethoscope sim`: a simulated fleet that other programs reach over SSH on loopback."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from stethoscope.cli.say import say

SLOWEST, FASTEST = 0.1, 60.0
LATEST_START_S = 100 * 3600.0
_NARROWEST = 60


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scenario", metavar="FILE|NAME", default="demo", show_default=True, help="Scenario to play.")
@click.option("--write-fleet", metavar="FILE", type=click.Path(path_type=Path), help="Write the fleet file there.")
@click.option("--start-at", metavar="TIME", default="0s", show_default=True, help="Simulated time to start at, as 4m.")
@click.option(
    "--speed",
    metavar="X",
    type=float,
    default=1.0,
    show_default=True,
    help=f"Simulated seconds a second, {SLOWEST:g} to {FASTEST:g}.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of every node; without it a free one.")
@click.option("--with-parent", metavar="PID", type=click.IntRange(1), help="End when that process ends.")
@click.option("--list", "list_only", is_flag=True, help="Describe the bundled scenarios and every kind of fault.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print JSON (stethoscope.sim_list/1).")
@click.option(
    "--inject",
    "injected",
    metavar="'KIND PLACE key=value ...'",
    multiple=True,
    help="Let a fault come in the simulated fleet that runs; at=+30s begins it in half a minute.",
)
@click.option(
    "--control", metavar="FILE", type=click.Path(path_type=Path), help="With --inject: the control file of that fleet."
)
def command(
    scenario: str,
    write_fleet: Path | None,
    start_at: str,
    speed: float,
    port: int | None,
    with_parent: int | None,
    list_only: bool,
    as_json: bool,
    injected: tuple[str, ...],
    control: Path | None,
) -> int:
    """Serve a simulated fleet: one SSH server a node, each with its own host key, until interrupted.

    With --inject 'ib_optic_degraded gpu-007/ib/mlx5_3 at=+30s symbol_errors_per_s=40' nothing is served: the fleet that
    runs gets that fault. Exit status then: 64 for words that mean none, 69 when no fleet of yours runs.
    """
    import asyncio

    from stethoscope.errors import UsageError
    from stethoscope.sim.scenarios import open_scenario
    from stethoscope.specs.duration import duration_s

    if as_json and not list_only:
        raise UsageError("--json belongs to --list")
    if control is not None and not injected:
        raise UsageError("--control belongs to --inject")
    if list_only:
        return _list(as_json=as_json)
    if injected:
        from stethoscope.sim.control import inject

        for text in injected:
            say(inject(text, control))
        return 0
    try:
        start_at_s = duration_s(start_at)
    except ValueError as error:
        raise UsageError(f"--start-at: {error}") from error
    if start_at_s > LATEST_START_S:
        raise UsageError(f"--start-at: a fleet starts within {LATEST_START_S / 3600:.0f}h of scenario time")
    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"--speed: from {SLOWEST:g} to {FASTEST:g}")
    played = open_scenario(scenario)
    from stethoscope.sim.serve import serve

    asyncio.run(
        serve(
            played,
            fleet_file=write_fleet,
            start_at_s=start_at_s,
            speed=speed,
            port=port,
            parent=with_parent,
            say=lambda line: say(f"stethoscope sim: {line}", err=True),
        )
    )
    return 0


def _list(*, as_json: bool) -> int:
    from stethoscope.sim.listing import kind_lines, kinds_json

    document = kinds_json()
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(document).decode())
        return 0
    click.echo("Scenarios (--scenario NAME):")
    for scenario in document["scenarios"]:
        click.echo(f"  {scenario['name']:10} {scenario['title']}")
    click.echo("\nKinds of faults (in scenarios, and with --inject 'KIND PLACE key=value ...'):")
    # What is read through a pager has the width of an ordinary terminal.
    for line in kind_lines(max(_NARROWEST, shutil.get_terminal_size((80, 24)).columns)):
        click.echo(line)
    return 0
