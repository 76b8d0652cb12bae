"""What this terminal says of itself, asked without the console."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import suppress

from stethoscope.model.terminal import TerminalFacts

ANSWER_S = 0.5
"""So long a terminal gets to answer; one behind a slow line takes a fifth of a second."""
_POSITION = re.compile(rb"\x1b\[(\d{1,5});(\d{1,5})R")


def terminal_facts() -> TerminalFacts:
    """Return what the environment and the terminal itself say; asks it only when there is one."""
    environment = os.environ
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    columns = lines = 0
    with suppress(OSError):
        size = os.get_terminal_size(sys.stderr.fileno())
        columns, lines = size.columns, size.lines
    term = environment.get("TERM", "")
    no_color = bool(environment.get("NO_COLOR"))
    width = _ambiguous_width() if is_terminal and term != "dumb" else None
    return TerminalFacts(
        is_terminal=is_terminal,
        term=term,
        colours=0 if no_color else _colours(term, environment.get("COLORTERM", "")),
        columns=columns,
        lines=lines,
        encoding=getattr(sys.stderr, "encoding", "") or "",
        locale=environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or "",
        no_color=no_color,
        answers=None if not is_terminal or term == "dumb" else width is not None,
        ambiguous_cells=width,
        multiplexer="tmux" if environment.get("TMUX") else "screen" if environment.get("STY") else "",
        over_ssh=bool(environment.get("SSH_CONNECTION")),
    )


def _colours(term: str, said: str) -> int:
    if term in ("", "dumb") or term.endswith("-m"):
        return 0
    if said in ("truecolor", "24bit"):
        return 2**24
    return 256 if "256" in term or term in ("xterm-kitty", "alacritty", "foot", "wezterm", "xterm-ghostty") else 16


def _ambiguous_width() -> int | None:
    """Return how far the cursor goes for a character of ambiguous width, None when the terminal does not say."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    try:
        former = termios.tcgetattr(descriptor)
    except termios.error:
        return None
    try:
        tty.setcbreak(descriptor)
        os.write(sys.stderr.fileno(), b"\r\xe2\x96\xb2\x1b[6n\r\x1b[K")
        answer, until = b"", time.monotonic() + ANSWER_S
        while (left := until - time.monotonic()) > 0:
            if not select.select([descriptor], [], [], left)[0]:
                break
            answer += os.read(descriptor, 64)
            match = _POSITION.search(answer)
            if match is not None:
                return int(match[2]) - 1
    except OSError:
        return None
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, former)
    return None
