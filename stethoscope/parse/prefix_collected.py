"""What those who collect lines put in front of them: grep its file names, consoles a login prompt, Loki its labels,
clush and ansible a headline."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stethoscope.parse.logname import origin_of_name
from stethoscope.parse.logtime import month_number
from stethoscope.parse.prefix_forms import GREPPED

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.parse.prefix_said import Said

PATH = re.compile(GREPPED)
LABELS = re.compile(r'(?P<labels>\{(?:[a-z_]{1,40}="[^"]{0,255}"(?:, ?)?){1,20}\} )')
"""The labels of a stream, as Loki's client writes them."""
_HOST_LABEL = re.compile(r'\b(?:hostname|host|node_name|node|nodename|instance)="([A-Za-z0-9][\w.-]{0,252})')
_HEADLINE = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252}) \| [A-Z]{2,12}!? \| rc=\d{1,3} (?:\| \([a-z]{1,8}\) )?>>\Z", re.ASCII
)
_NAME = re.compile(r"(?P<host>[A-Za-z0-9][\w.\[\],-]{0,252})(?: \(\d{1,6}\))?\Z", re.ASCII)
_RULE = re.compile(r"-{8,}\Z")


class Headlines:
    """Reads whose lines follow from what stands above them: a name between two rules, or ansible's line."""

    __slots__ = ("_name", "waits")

    def __init__(self) -> None:
        """Begin above the first line."""
        self.waits = False
        """The line above may begin a headline."""
        self._name = ""

    def host(self, text: str) -> str | None:
        """Return the host whose lines begin below `text`, None when it is no headline."""
        if _RULE.match(text):
            host, self._name = self._name, ""
            self.waits = not host
            return host or None
        named = _NAME.match(text) if self.waits and not self._name else None
        self._name = named["host"] if named is not None else ""
        self.waits = named is not None
        headline = _HEADLINE.match(text)
        return headline["host"] if headline is not None else None


@lru_cache(maxsize=1024)
def _host_of(path: str) -> str | None:
    return origin_of_name(path).host


def _grepped(said: Said, match: re.Match[str]) -> bool:
    said.path_host = _host_of(match["h_path"])
    return True


def _login(said: Said, match: re.Match[str]) -> bool:
    said.host, said.is_named = said.host or match["i_host"], True
    # What a console prints is of one machine.
    said.state.shell_host = said.host
    return True


def _labels(said: Said, match: re.Match[str]) -> bool:
    named = _HOST_LABEL.search(match["labels"])
    if named is not None:
        said.host, said.is_named = said.host or named[1], True
    return True


def _bsd_year(said: Said, match: re.Match[str]) -> bool:
    month = month_number(match["u_mon"])
    if month is None:
        return False
    year, day = int(match["u_year"]), int(match["u_day"])
    said.wall(said.state.calendar.at(year, month, day, match["u_t"], match["u_f"], None))
    said.wants_ident = True
    return True


def _nothing(said: Said, match: re.Match[str]) -> bool:
    return True


COLLECTED: dict[str, Callable[[Said, re.Match[str]], bool]] = {
    "grepped": _grepped,
    "login": _login,
    "labels": _labels,
    "bsd_year": _bsd_year,
    "numbered": _nothing,
    "guest": _nothing,
}
