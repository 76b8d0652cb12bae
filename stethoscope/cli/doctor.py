"""`stethoscope doctor`: what on this machine and terminal stands in the console's way."""

from __future__ import annotations

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema stethoscope.doctor/1).")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Look at the terminal, the locale, the paths, SSH and the versions, and say what is in the way and what to do.

    Exits 0 when all is well, 1 when something could be better, 2 when the console cannot work like this.
    """
    from stethoscope.cli.say import say
    from stethoscope.cli.settings import wrong_settings
    from stethoscope.session.doctor import LEVELS, Remark, examine
    from stethoscope.ui.run import speaks_utf8
    from stethoscope.ui.terminal_facts import terminal_facts

    remarks = examine(terminal_facts())
    remarks += [Remark("settings", "warning", str(error), "mend the line") for error in wrong_settings(ctx)]
    worst = max((LEVELS.index(remark.level) for remark in remarks), default=0)
    if as_json:
        import json

        entries = [
            {"topic": remark.topic, "level": remark.level, "says": remark.says, "do": remark.do} for remark in remarks
        ]
        click.echo(json.dumps({"schema": "stethoscope.doctor/1", "remarks": entries}, ensure_ascii=True))
        return worst
    signs = dict(zip(LEVELS, "·▲✖" if speaks_utf8() else ".!X", strict=True))
    topic = ""
    for remark in remarks:
        name = remark.topic if remark.topic != topic else ""
        topic = remark.topic
        say(f"{signs[remark.level]} {name:<10} {remark.says}")
        if remark.do:
            say(f"{'':<13}{remark.do}")
    return worst
