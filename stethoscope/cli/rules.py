"""`stethoscope rules`: which rules there are, what one asks, and whether their own tests pass."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from stethoscope.cli.playbooks import directories, playbooks_option
from stethoscope.cli.say import say
from stethoscope.errors import EXIT_DATA, EXIT_HEALTHY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stethoscope.session.rules import Rules
    from stethoscope.specs.rule import Rule

_LABEL = 12


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List rules, explain one, run their own tests. Nothing is asked of any node.

    Rules are files in rules/ of the bundled playbooks, of ~/.config/stethoscope/playbooks, and of each --playbooks DIR.
    """


def _json(document: Any) -> None:
    import msgspec

    click.echo(msgspec.json.encode(document).decode())


def _complain(rules: Rules) -> int:
    """Say what is wrong with rule files; return the exit status for it."""
    for error in rules.book.errors:
        say(f"stethoscope: {error}", err=True)
    return EXIT_DATA if rules.book.errors else EXIT_HEALTHY


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.rules_list/1).")
@playbooks_option
def list_(as_json: bool, playbooks: tuple[str, ...]) -> int:
    """List every rule: how urgent, what about, from which file, and whether it is on.

    Exit status: 0, or 65 when a rule file is broken; the others are listed all the same.
    """
    from stethoscope.session.rules import LIST_SCHEMA, Rules, listed

    rules = Rules(*directories(playbooks))
    lines = [listed(rule) for rule in rules.book.rules] + [listed(rule, why) for rule, why in rules.book.others]
    lines.sort(key=lambda line: (line["id"], line["state"] != "on"))
    if as_json:
        _json({"schema": LIST_SCHEMA, "rules": lines, "errors": [str(error) for error in rules.book.errors]})
        return _complain(rules)
    width = max((len(line["id"]) for line in lines), default=0)
    for line in lines:
        state = "" if line["state"] == "on" else f"  [{line['state']}]"
        severity = line["severity"] or "off"
        say(f"{severity:<4}  {line['id']:<{width}}  {line['scope']:<8}  {line['description']}{state}")
    on = len(rules.book.rules)
    off = f", {len(lines) - on} not in use" if len(lines) > on else ""
    click.echo(f"{on} rules{off}", err=True)
    return _complain(rules)


@command.command()
@click.argument("name", metavar="RULE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.rules_explain/1).")
@playbooks_option
def explain(name: str, as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Say what a rule asks in words, what it does, and what nothing here measures of it."""
    from stethoscope.session.rules import Rules

    rules = Rules(*directories(playbooks))
    found = rules.named([name])
    exact = [rule for rule in found if rule.id == name] or found
    if as_json:
        documents = [rules.explained(rule) for rule in exact]
        _json(documents[0] if len(documents) == 1 else documents)
        return _complain(rules)
    for number, rule in enumerate(exact):
        if number:
            click.echo()
        _page(rule, rules.explained(rule))
    return _complain(rules)


def _page(rule: Rule, said: dict[str, Any]) -> None:
    say(f"{rule.id}: {rule.description}")
    cause = f", root cause {rule.root_cause}" if rule.root_cause else ""
    _line("severity", f"{rule.severity.value}, confidence {rule.confidence:g}{cause}")
    about = f"each {rule.scope.value}" if not rule.per_node else f"all {rule.scope.value}s of a node together"
    _line("about", about)
    _lines("when", said["condition"])
    if said["more_sure"]:
        _lines(f"{said['more_sure']['confidence']:g} when", said["more_sure"]["condition"])
    _line("says", rule.summary)
    hides = [f"{key.replace('_', ' ')}: {_joined(value)}" for key, value in said["explains"].items() if value]
    _lines("hides", hides)
    _line("alert", rule.message)
    _lines("log", rule.logs)
    _lines("held back", [f"{call} (calls are never made)" for call in rule.held])
    _line("offers", ", ".join(rule.offers))
    _lines("unknown", [f"{name}: nothing here measures it" for name in said["unmeasured"]])
    _lines("tests", [f"{test.expect:<4}  {test.name}" for test in rule.tests] or ["none"])
    _line("file", rule.where)


def _joined(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def _lines(label: str, lines: Sequence[str]) -> None:
    for line in lines:
        _line(label, line)
        label = ""


def _line(label: str, text: str) -> None:
    if not text:
        return
    deep = len(text) - len(text.lstrip())
    wrapped = textwrap.wrap(text.strip(), 108 - deep, subsequent_indent="  ", break_on_hyphens=False)
    for part in wrapped:
        say(f"{label:<{_LABEL}}{' ' * deep}{part}".rstrip())
        label = ""


@command.command()
@click.argument("names", metavar="[RULE|FILE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (stethoscope.rules_test/1).")
@playbooks_option
def test(names: tuple[str, ...], as_json: bool, playbooks: tuple[str, ...]) -> int:
    """Run the tests that rules carry: of all rules, or of some rules or files.

    A FILE that is no part of a playbooks directory is read too. Exit status: 0 all pass, 65 one fails or a file is
    broken.
    """
    from stethoscope.session.rules import TEST_SCHEMA, Rules

    rules = Rules(*directories(playbooks))
    chosen = rules.named(names)
    runs = []
    for run in rules.run(chosen):
        runs.append(run)
        if not as_json:
            passed = "ok  " if not run.message else "FAIL"
            said = f": {run.message}" if run.message else ""
            say(f"{passed}  {run.rule.id}: {run.name} ({run.expect}){said}")
    failed = sum(bool(run.message) for run in runs)
    if as_json:
        results = [
            {"rule": run.rule.id, "test": run.name, "expect": run.expect, "passed": not run.message,
             "message": run.message or None, "where": run.where or None}
            for run in runs
        ]  # fmt: skip
        _json({"schema": TEST_SCHEMA, "results": results, "passed": len(runs) - failed, "failed": failed})
    without = [rule.id for rule in chosen if not rule.tests]
    if without:
        say(f"without tests: {', '.join(without[:10])}{' ...' if len(without) > 10 else ''}", err=True)
    ended = f"{failed} failed" if failed else "all pass"
    click.echo(f"{len(runs):,} tests of {len(chosen):,} rule{'s' * (len(chosen) != 1)}: {ended}", err=True)
    return _complain(rules) or (EXIT_DATA if failed else EXIT_HEALTHY)
