"""What is known of a terminal (ui.terminal_facts asks it)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TerminalFacts:
    """What is known of the terminal on stderr, where the console draws."""

    is_terminal: bool
    term: str
    colours: int
    """2**24, 256, 16, or 0 where none are wanted or known."""
    columns: int = 0
    lines: int = 0
    encoding: str = ""
    locale: str = ""
    no_color: bool = False
    answers: bool | None = None
    """Whether it told where its cursor is when asked; None when it was not asked."""
    ambiguous_cells: int | None = None
    """How wide it draws a character of ambiguous width."""
    multiplexer: str = ""
    """tmux or screen, when we are in one."""
    over_ssh: bool = False
