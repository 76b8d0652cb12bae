"""Errors that a person is meant to read, each with the exit code of its kind.

StethoscopeError
├── UsageError      64  the command line asks for something that does not exist or does not fit together
├── DataError       65  a file (fleet, scenario, rules ...) is broken; says where and, if it can, the nearest right word
├── UnreachableError 69 no node could be reached
└── InternalError   70  a defect of ours
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_HEALTHY = 0
EXIT_PLANNED = 1
EXIT_URGENT = 2
EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_UNREACHABLE = 69
EXIT_INTERNAL = 70


class StethoscopeError(Exception):
    """Something that is told to the user in one line, without a traceback."""

    exit_code = EXIT_INTERNAL


class UsageError(StethoscopeError):
    """The command line does not make sense."""

    exit_code = EXIT_USAGE


class DataError(StethoscopeError):
    """A data file is broken; `where` is `file:line:column` as far as known."""

    exit_code = EXIT_DATA

    def __init__(self, message: str, *, where: str = "") -> None:
        """Keep the place apart from the message so that lists of errors can be sorted by place."""
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class UnreachableError(StethoscopeError):
    """Not one node of the fleet answered."""

    exit_code = EXIT_UNREACHABLE


class InternalError(StethoscopeError):
    """A defect of the program itself."""

    exit_code = EXIT_INTERNAL


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "x"?` for the nearest known word, or an empty string when none is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""
