"""`stethoscope sim`: a simulated fleet that other programs reach over SSH on loopback."""

from __future__ import annotations

from pathlib import Path

import click

from stethoscope.cli.say import say

SLOWEST, FASTEST = 0.1, 60.0
LATEST_START_S = 100 * 3600.0


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
@click.option("--list", "list_only", is_flag=True, help="List the bundled scenarios and end.")
def command(
    scenario: str,
    write_fleet: Path | None,
    start_at: str,
    speed: float,
    port: int | None,
    with_parent: int | None,
    list_only: bool,
) -> int:
    """Serve a simulated fleet: one SSH server a node, each with its own host key, until interrupted."""
    import asyncio

    from stethoscope.errors import UsageError
    from stethoscope.sim.scenarios import bundled, open_scenario
    from stethoscope.specs.duration import duration_s

    if list_only:
        for name, path in bundled().items():
            click.echo(f"{name}\t{open_scenario(str(path)).title}")
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
