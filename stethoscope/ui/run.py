"""Runs the console in this terminal, for every verb that opens it."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from stethoscope.errors import UsageError
from stethoscope.heap import one_heap
from stethoscope.ui import loop

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stethoscope.ui.drilling import DrillLike
    from stethoscope.ui.look import Look
    from stethoscope.ui.session import OpenSession


def run_console(
    open_session: OpenSession,
    title: str,
    look: Look,
    *,
    keeps: bool = False,
    fresh: bool = False,
    drill: DrillLike | None = None,
    playbooks: Sequence[Path] = (),
) -> int:
    """Run the console until it is quit and return the exit code; StethoscopeError when the session cannot be opened
    or ends, UsageError when this is no terminal.

    With `keeps` what is chosen on the fleet screen is kept in the state directory, and unless `fresh` the console
    begins with what was kept the last time. With `drill` somebody is trained: its keys work. `playbooks` are
    directories of an operator's own, for triage.
    """
    # Textual draws on stderr, so that what is printed on stdout can go elsewhere.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the console needs a terminal; `stethoscope check` answers without one")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("this terminal (TERM=dumb) cannot show a screen; `stethoscope check` answers without one")
    # What is loaded until the session is open stays: the collector would look through it hundreds of times.
    gc.disable()
    one_heap()
    try:
        return loop.run(_run(open_session, title, look, keeps, fresh, drill, playbooks))
    finally:
        gc.enable()


def speaks_utf8() -> bool:
    """Tell whether the terminal's encoding, as the locale has it, can show more than ASCII."""
    return (getattr(sys.stderr, "encoding", "") or "").lower().replace("-", "").replace(
        "_", ""
    ) == "utf8" and not _plain_c()


def _plain_c() -> bool:
    # Python reads and writes UTF-8 under the C locale too, but the terminal of such a user does not have to.
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return locale in ("C", "POSIX")


async def _run(
    open_session: OpenSession,
    title: str,
    look: Look,
    keeps: bool,
    fresh: bool,
    drill: DrillLike | None,
    playbooks: Sequence[Path],
) -> int:
    from stethoscope.ui.app import StethoscopeApp

    if not speaks_utf8():
        look = replace(look, ascii_only=True)
    app = StethoscopeApp(open_session, title, look, keeps=keeps, fresh=fresh)
    app.playbooks = tuple(playbooks)
    if drill is not None:
        app.begin_drill(drill)
    try:
        # Without the mouse, what is on the screen can be marked and copied as everywhere else in the terminal.
        await app.run_async(mouse=look.mouse)
    finally:
        await app.close()
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0
