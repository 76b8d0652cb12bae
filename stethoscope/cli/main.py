"""The `stethoscope` command: a lazy group, so that `--help` imports no verb."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import warnings
from typing import TYPE_CHECKING

import click

from stethoscope import __version__
from stethoscope.cli.say import say
from stethoscope.cli.settings import apply
from stethoscope.errors import EXIT_INTERNAL, StethoscopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from click.shell_completion import CompletionItem

VERBS: dict[str, tuple[str, str]] = {
    "watch": ("stethoscope.cli.watch", "Open the live console on a fleet."),
    "check": ("stethoscope.cli.check", "Look once and say what is wrong."),
    "findings": ("stethoscope.cli.findings", "Print findings with evidence, follow them, acknowledge them."),
    "triage": ("stethoscope.cli.triage", "Say what is wrong, why, and what to do now."),
    "drift": ("stethoscope.cli.drift", "Compare versions and settings: which nodes differ."),
    "growth": ("stethoscope.cli.growth", "Show which slow counters moved over days and weeks."),
    "node": ("stethoscope.cli.node", "Show every value of one node."),
    "job": ("stethoscope.cli.job", "Say how training jobs go, from their logs."),
    "record": ("stethoscope.cli.record", "Record a fleet without a screen."),
    "replay": ("stethoscope.cli.replay", "Open the console on a recording."),
    "demo": ("stethoscope.cli.demo", "Open the console on a simulated fleet."),
    "probe": ("stethoscope.cli.probe", "Ask nodes on demand: mlxlink, smartctl, dcgmi diag ..."),
    "sim": ("stethoscope.cli.sim", "Serve a simulated fleet over SSH on loopback."),
    "drill": ("stethoscope.cli.drill", "Play scenarios and score what the diagnosis says of them."),
    "scenario": ("stethoscope.cli.scenario", "Check scenarios, or begin one from a recording."),
    "decode": ("stethoscope.cli.decode", "Decode logs: what happened first, to whom, what to do."),
    "xid": ("stethoscope.cli.xid", "Say what an Xid means and what to do now."),
    "sxid": ("stethoscope.cli.sxid", "Say what an SXid of an NVSwitch means and what to do now."),
    "explain": ("stethoscope.cli.explain", "Explain a kind of log line, or list all that are known."),
    "kb": ("stethoscope.cli.kb", "Incidents: record, search, compare, count, export, learn."),
    "fleet": ("stethoscope.cli.fleet", "Write a fleet file, show it, test every node."),
    "journal": ("stethoscope.cli.journal", "Show what was run on which node."),
    "doctor": ("stethoscope.cli.doctor", "Say what is in the way: terminal, keys, paths."),
    "completion": ("stethoscope.cli.completion", "Print what a shell needs to complete verbs and flags."),
    "playbook": ("stethoscope.cli.playbook", "List and draw the triage playbooks, run their cases."),
    "rules": ("stethoscope.cli.rules", "List rules, explain one, run their own tests."),
    "lint": ("stethoscope.cli.lint", "Check the data files: metrics, rules, signatures, codes."),
}
"""Verb -> (module that holds the command `command`, or MODULE:NAME; one line of help)."""
SECTIONS = (
    ("What is wrong now", ("watch", "check", "findings", "triage", "node", "job", "drift", "growth", "probe")),
    ("What it means", ("decode", "xid", "sxid", "explain")),
    ("What was", ("kb", "record", "replay", "journal")),
    ("On a simulated fleet", ("demo", "sim", "drill", "scenario")),
    ("Set up", ("fleet", "doctor", "completion", "rules", "playbook", "lint")),
)
"""How the help lists the verbs."""


class LazyGroup(click.Group):
    """A group that knows its verbs by name and imports one only when it is called."""

    verbs: Mapping[str, tuple[str, str]] = VERBS
    sections: Sequence[tuple[str, Sequence[str]]] = ()
    """Titles and the verbs below them; without any the help has one list of all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in their order of use."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the verb and return its command."""
        if cmd_name not in self.verbs:
            return None
        module, _, name = self.verbs[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name or "command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs that begin so, without importing any."""
        from click.shell_completion import CompletionItem

        known = self.verbs.items()
        found = [CompletionItem(name, help=text) for name, (_, text) in known if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing any."""
        widest = max(map(len, self.verbs))
        for title, names in self.sections or (("Verbs", tuple(self.verbs)),):
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), self.verbs[name][1]) for name in names])


class _Stethoscope(LazyGroup):
    sections = SECTIONS


@click.group(cls=_Stethoscope, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stethoscope")
@click.option("--debug", is_flag=True, envvar="STETHOSCOPE_DEBUG", help="Write a debug log, without secrets.")
@click.pass_context
def group(ctx: click.Context, debug: bool) -> None:
    """The console for the engineer on call for a GPU training cluster.

    Without a verb it watches this machine; `demo` shows a simulated fleet. Every verb has --help.
    """
    if debug:
        _start_log()
    apply(ctx, VERBS)
    if ctx.invoked_subcommand is None:
        watch = importlib.import_module("stethoscope.cli.watch")
        ctx.invoke(watch.command)


def _start_log() -> None:
    from stethoscope.debug import log_path, start_log

    try:
        say(f"stethoscope: debug log in {start_log()}", err=True)
    except OSError as error:
        raise UsageError(f"--debug: {log_path()} cannot be written: {error.strerror}") from error


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    # What a library warns its programmers of belongs into the debug log, not across the screen.
    import logging

    logging.getLogger("stethoscope").info("%s:%d: %s: %s", filename, lineno, category.__name__, message)


def _open_what_is_closed() -> None:
    # `>&-`: without this the next file that is opened gets the number of the stream, and is written to.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def main() -> None:
    """Run the command line; errors meant for people become one line on stderr and the exit code of their kind."""
    _open_what_is_closed()
    if not sys.warnoptions:
        warnings.showwarning = _log_warning
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        page = io.StringIO()
        error.show(page)
        say(page.getvalue().rstrip("\n"), err=True)
        sys.exit(64)
    except StethoscopeError as error:
        say(f"stethoscope: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001  any other is a defect of ours, and 1 would say "findings of P2"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            # Files of our own are named: this is a full disk behind the standard output.
            say(f"stethoscope: the output cannot be written: {error.strerror}", err=True)
            sys.exit(EXIT_INTERNAL)
        from stethoscope.debug import report_crash
        from stethoscope.redact import redact

        say(redact(f"stethoscope: a defect: {type(error).__name__}: {error}"), err=True)
        report = report_crash(error)
        if report is not None:
            say(f"stethoscope: what is needed to mend it is in {report}, without secrets", err=True)
        sys.exit(EXIT_INTERNAL)
    sys.exit(code if isinstance(code, int) else 0)
