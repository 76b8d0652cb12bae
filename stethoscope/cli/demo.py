"""`stethoscope demo`: a simulated fleet in a process of its own, and the console on it over real SSH."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stethoscope.cli.look import look_options
from stethoscope.cli.playbooks import directories as directories_of
from stethoscope.cli.playbooks import playbooks_option

if TYPE_CHECKING:
    from stethoscope.ui.look import Look


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--scenario", metavar="FILE|NAME", help="Scenario to play; without it the bundled one of 64 nodes.")
@click.option("--start-at", metavar="TIME", default="4m", show_default=True, help="Simulated time to start at.")
@click.option(
    "--speed", type=click.FloatRange(0.1, 60), default=1.0, show_default=True, help="Simulated seconds a second."
)
@click.option(
    "--drill",
    metavar="[random|KIND|SCENARIO]",
    is_flag=False,
    flag_value="",
    help="Train somebody: the console asks what is wrong and scores the answer. Alone nothing happens until ctrl+t, or "
    "`stethoscope sim --inject` elsewhere, lets a fault come; random, or a kind, comes by itself.",
)
@click.option("--seed", type=click.IntRange(0), help="With --drill: the same seed chooses the same.")
@click.option(
    "--score", metavar="FILE", type=click.Path(path_type=Path), help="With --drill: keep the score there, as JSON."
)
@playbooks_option
@look_options
def command(
    scenario: str | None,
    start_at: str,
    speed: float,
    drill: str | None,
    seed: int | None,
    score: Path | None,
    playbooks: tuple[str, ...],
    look: Look,
) -> int:
    """Open the console on a simulated fleet: real SSH servers on loopback, a training job, and faults that come."""
    from stethoscope.session.demo import DemoFleet

    directories = directories_of(playbooks)
    if drill is not None:
        return _drill(drill, scenario, start_at, speed, seed, score, look)
    for name, value in (("--seed", seed), ("--score", score)):
        if value is not None:
            from stethoscope.errors import UsageError

            raise UsageError(f"{name} belongs to --drill")

    # The fleet starts on the other core while the console is still being imported.
    with DemoFleet(scenario=scenario, start_at=start_at, speed=speed, playbooks=directories) as fleet:
        from stethoscope.ui.run import run_console

        return run_console(fleet.open_session, "demo", look, playbooks=directories)


def _drill(
    word: str, scenario: str | None, start_at: str, speed: float, seed: int | None, score: Path | None, look: Look
) -> int:
    from stethoscope.cli.say import say
    from stethoscope.session.demo import DemoFleet
    from stethoscope.session.training import Training, plan_of

    plan = plan_of(word, scenario)
    with DemoFleet(scenario=plan.scenario, start_at=start_at, speed=speed) as fleet:
        from stethoscope.ui.run import run_console

        training = Training(fleet, plan, speed, seed)
        code = run_console(training.open_session, "demo", look, drill=training)
        training.close()
    say("\n\n".join("\n".join(report.lines()) for report in training.reports))
    if score is not None:
        import msgspec

        from stethoscope.errors import UsageError
        from stethoscope.paths import write_private

        try:
            write_private(score, msgspec.json.format(msgspec.json.encode(training.as_json())) + b"\n")
        except OSError as error:
            raise UsageError(f"--score {score}: {error.strerror or error}") from error
    return code
