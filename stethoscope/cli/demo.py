"""`stethoscope demo`: a simulated fleet in a process of its own, and the console on it over real SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stethoscope.cli.look import look_options

if TYPE_CHECKING:
    from stethoscope.ui.look import Look


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scenario", metavar="FILE|NAME", help="Scenario to play; without it the bundled one of 64 nodes.")
@click.option("--start-at", metavar="TIME", default="4m", show_default=True, help="Simulated time to start at.")
@click.option(
    "--speed", type=click.FloatRange(0.1, 60), default=1.0, show_default=True, help="Simulated seconds a second."
)
@look_options
def command(scenario: str | None, start_at: str, speed: float, look: Look) -> int:
    """Open the console on a simulated fleet: real SSH servers on loopback, a training job, and faults that come."""
    from stethoscope.session.demo import DemoFleet

    # The fleet starts on the other core while the console is still being imported.
    with DemoFleet(scenario=scenario, start_at=start_at, speed=speed) as fleet:
        from stethoscope.ui.run import run_console

        return run_console(fleet.open_session, "demo", look)
