"""`stethoscope growth`: what slow counters counted over days and weeks, as far as this machine remembers it."""

from __future__ import annotations

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

SHOWN = 50


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--of", "fleet", metavar="FLEET", help="Only the fleet of this name. [all that were watched from here]")
@click.option("--node", metavar="SET", help="Only these nodes, such as 'gpu[001-004]'.")
@click.option("--all", "every", is_flag=True, help=f"Print every line, not only the latest {SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.growth/1).")
@playbooks_option
def command(fleet: str | None, node: str | None, every: bool, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Print which slow counters moved within 30 days: ECC, remapped rows, link downs, SMART, wear, PCIe replays.

    Nothing is asked of any node: consoles and checks on real fleets remember what they saw. Exit status: 0, also when
    nothing moved; 65 when what is remembered cannot be read.
    """
    from stethoscope.clock import SystemClock, iso
    from stethoscope.model.ids import expand, node_of
    from stethoscope.session.growth import growth_json, remembered
    from stethoscope.specs.metric import load_catalogue

    now = SystemClock().wall()
    found = remembered(load_catalogue(*directories(playbooks)), now, fleet=fleet)
    if node is not None:
        wanted = set(expand(node))
        found = found._replace(rows=tuple(row for row in found.rows if node_of(row.place) in wanted))
    for error in found.errors:
        click.echo(f"stethoscope: {error}", err=True)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(growth_json(found, iso(now))).decode())
    else:
        shown = found.rows if every else found.rows[:SHOWN]
        lines: list[tuple[str, ...]] = [("where", "what", "24 h", "7 d", "30 d", "stands at")]
        lines += [
            (row.place, row.metric.title, *map(_signed, row.amounts), "?" if row.total is None else f"{row.total:.10g}")
            for row in shown
        ]
        if shown:
            widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
            for line in lines:
                left = [cell.ljust(width) for cell, width in zip(line[:2], widths[:2], strict=True)]
                right = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
                click.echo("  ".join([*left, *right]).rstrip())
        if len(found.rows) > len(shown):
            click.echo(f"{len(found.rows) - len(shown):,} more: --all")
        if not found.fleets:
            click.echo("nothing is remembered: no console or check on a real fleet has run here", err=True)
        elif not found.rows:
            click.echo(f"nothing moved within 30 days on {found.devices:,} devices", err=True)
    return EXIT_DATA if found.errors else EXIT_HEALTHY


def _signed(amount: float) -> str:
    return "" if not amount else f"{amount:+.10g}"
