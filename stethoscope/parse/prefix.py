"""Takes off what stands in front of a message, and remembers who printed it and when.

`peel` is called with the lines of one file in their order, the state of that file beside them: what a line does not say
(the year, the time, the rank of a traceback's second line) is what the lines above said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.logs import Origin
from stethoscope.parse.logtime import Calendar
from stethoscope.parse.prefix_collected import COLLECTED, LABELS, PATH, Headlines
from stethoscope.parse.prefix_forms import (
    ANGLE,
    BLANK,
    BRACKET,
    DIGIT,
    NO_HOST,
    PAREN,
    PROMPT,
    QUOTE,
    SEL,
    STATED,
    WORD,
)
from stethoscope.parse.prefix_said import TAKE, Outer, Said, moment
from stethoscope.text import clean

if TYPE_CHECKING:
    from datetime import tzinfo

    from stethoscope.parse.prefix_shape import Shape, Who

LINE_LIMIT = 8192
"""Longest line, in characters, that is looked at; what is behind it is not read."""

_ROUNDS = 10
_PROMPT_AT = 40
_FRESH_S = 60.0
_BOOT_DROP_S = 5.0
_KEPT_ORIGINS = 50_000
_KEPT_WRITERS = 4096
_FORMS = {"[": BRACKET, "(": PAREN, "<": ANGLE, " ": BLANK, ">": QUOTE, "&": QUOTE, "`": QUOTE, "'": QUOTE, '"': QUOTE}
_FORMS.update(dict.fromkeys("0123456789", DIGIT))
_FORMS.update(dict.fromkeys("./", PATH) | {"{": LABELS})
_TAKE = {**TAKE, **COLLECTED}
_CONTINUES = re.compile(
    r"\s+\S|frame #\d|Exception raised from |terminate called |Compile with `TORCH|CUDA kernel errors might be "
    r"|For debugging consider |\.\. \S+ pid \d"
)
_TRACEBACK = "Traceback (most recent call last)"
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure|Timeout)\b|[A-Za-z_][\w.]*: ")
_KERNEL = ("NVRM: ", "nvidia-nvswitch")
_GPU_NODE = re.compile(r"gpu-?\d{1,6}")
_BOOT = re.compile(r"-- (?:Boot|Reboot)\b|Linux version \d")


class Peeled(NamedTuple):
    """A line without its prefixes."""

    text: str
    at: float | None
    """Wall seconds."""
    at_is_near: bool
    """`at` is that of a line above."""
    uptime_s: float | None
    origin: Origin
    """Shared between lines of one origin: copy it before changing it."""
    key: str
    """Names the writer within the file: lines with equal keys were printed one after the other. Empty when no prefix
    names a writer."""
    is_own: bool
    """The line itself says who printed it."""


@dataclass(slots=True)
class _Carried:
    """What the last line of a writer said."""

    origin: Origin
    at: float | None = None
    uptime_s: float | None = None
    is_traceback: bool = False


@dataclass(slots=True)
class _Host:
    boot: int = 0
    boot_id: str | None = None
    uptime_s: float | None = None
    began_at: float | None = None
    """Wall seconds of its boot, from a line with both times."""


class PeelState:
    """What the lines of one file said so far."""

    def __init__(self, *, newest: float, zone: tzinfo | None = None, origin: Origin | None = None) -> None:
        """Start a file that was last written at `newest` (wall seconds); `origin` is what its name says."""
        self.calendar = Calendar(newest=newest) if zone is None else Calendar(zone=zone, newest=newest)
        self.origin = origin or Origin()
        self.shell_host: str | None = None
        """Host of the last shell prompt: what stands below was pasted from there."""
        self.hosts: set[str] = {self.origin.host} if self.origin.host else set()
        self.at: float | None = None
        """Wall seconds of the last line with a stamp."""
        self.first_at: float | None = None
        self.last_at: float | None = None
        """Earliest and latest stamp of all lines."""
        self.kernel_lines = 0
        self.relative_at: float | None = None
        self._carried: dict[str, _Carried] = {}
        self._last = _Carried(self.origin)
        self._boots: dict[str | None, _Host] = {}
        self._origins: dict[tuple[object, ...], Origin] = {}
        self._doubtful_host = ""
        self._headlines = Headlines()
        self._said = Said(self)

    def peel(self, line: str | bytes, outer: Outer | None = None) -> Peeled:
        """Return the line without its prefixes; see the module."""
        text = clean(line, LINE_LIMIT)
        said = self._said = Said(self)
        if outer is not None:
            said.take_outer(outer)
        for _ in range(_ROUNDS):
            match = _FORMS.get(text[:1], WORD).match(text)
            if match is None or match.lastgroup is None or not _TAKE[match.lastgroup](said, match):
                break
            text = text[match.end() :]
            if said.wants_ident:
                text = said.take_ident(text)
        if "@" in text[:_PROMPT_AT] and (prompt := PROMPT.match(text)):
            self.shell_host = prompt["host"]
        elif not said.walls and " AT " in text and (stated := STATED.search(text)):
            said.take_iso(stated)
        elif not said.walls and "| " in text[:_PROMPT_AT] and (entry := SEL.match(text)):
            said.take_sel(entry)
        elif (self._headlines.waits or text[:8] == "--------" or text[-2:] == ">>") and not said.walls:
            self.shell_host = self._headlines.host(text) or self.shell_host
        return self._settle(text, said, outer)

    def peel_known(self, raw: bytes, shape: Shape) -> tuple[Who, float] | None:
        """Do what `peel` does with a line of a known shape, and return who printed it and when; None when only `peel`
        can tell."""
        who = shape.writers.get(shape.writer(raw))
        if who is None or who.shell_host != self.shell_host:
            return None
        key = who.key
        last = self._carried.get(key)
        if last is None or last.is_traceback or (not key and self._last.is_traceback):
            return None
        walls: list[float] = []
        for stamp in shape.stamps:
            wall = stamp.wall(raw, self.calendar, walls[0] if walls else None)
            if wall is None:
                return None
            walls.append(wall)
        self.at = at = walls[0] if len(walls) == 1 else moment(walls)
        if self.last_at is None or at > self.last_at:
            self.last_at = at
        if self.first_at is None or at < self.first_at:
            self.first_at = at
        if shape.is_kernel or who.is_kernel:
            self.kernel_lines += 1
        last.origin, last.at, last.uptime_s = who.origin, at, None
        self._last = last
        return who, at

    def learn(self, raw: bytes, shape: Shape) -> None:
        """Remember what `peel` has just read in a line of a shape."""
        from stethoscope.parse.prefix_shape import Who

        said = self._said
        if len(said.walls) != len(shape.stamps):
            return
        if len(shape.writers) > _KEPT_WRITERS:
            shape.writers.clear()
        shape.writers[shape.writer(raw)] = Who(
            said.key, self._origin(said), said.is_named, said.is_kernel, self.shell_host
        )

    def _settle(self, text: str, said: Said, outer: Outer | None) -> Peeled:
        at, uptime_s = said.at(), said.uptime_s
        key = said.key
        carried = self._carried.get(key) if key else self._last
        is_own = said.is_named
        continues = said.is_more or (carried is not None and self._continues(text, carried, is_named=is_own))
        origin = self._merged(said, carried.origin) if continues and carried is not None else self._origin(said)
        if uptime_s is not None or (outer is not None and outer.boot) or _BOOT.match(text):
            origin, at = self._boot(origin, at, uptime_s, outer.boot if outer is not None else None, text)
        near = False
        if at is None:
            at, near = self._near(carried, has_uptime=uptime_s is not None)
            if continues and carried is not None and uptime_s is None:
                uptime_s = carried.uptime_s
        else:
            self.at = at
            if self.last_at is None or at > self.last_at:
                self.last_at = at
            if self.first_at is None or at < self.first_at:
                self.first_at = at
        if said.is_kernel or text.startswith(_KERNEL):
            self.kernel_lines += 1
        if text or is_own:
            self._remember(key, origin, at, uptime_s, text)
        return Peeled(text, at, near, uptime_s, origin, key, is_own or continues)

    def _remember(self, key: str, origin: Origin, at: float | None, uptime_s: float | None, text: str) -> None:
        last = self._carried.get(key)
        if last is None:
            if len(self._carried) > _KEPT_ORIGINS:
                self._carried.clear()
            last = self._carried[key] = _Carried(origin)
        else:
            last.origin = origin
        last.at, last.uptime_s = at, uptime_s
        if text.startswith(_TRACEBACK):
            last.is_traceback = True
        elif last.is_traceback and text and not text[0].isspace():
            last.is_traceback = False
        self._last = last

    @staticmethod
    def _continues(text: str, carried: _Carried, *, is_named: bool) -> bool:
        if not text:
            return True
        if is_named and not carried.is_traceback:
            return bool(_CONTINUES.match(text))
        if carried.is_traceback:
            return text[0].isspace() or bool(_ERROR_LINE.match(text))
        return bool(_CONTINUES.match(text))

    def _near(self, carried: _Carried | None, *, has_uptime: bool) -> tuple[float | None, bool]:
        """Return the time of the line above: of the same writer when that is about as late as the file."""
        if has_uptime and self.at is None:
            return None, False
        own = carried.at if carried is not None else None
        if own is not None and (self.at is None or own >= self.at - _FRESH_S):
            return own, True
        return self.at, self.at is not None

    def _origin(self, said: Said) -> Origin:
        key = said.identity()
        found = self._origins.get(key)
        if found is None:
            if len(self._origins) > _KEPT_ORIGINS:
                self._origins.clear()
            found = self._origins[key] = said.origin(self.origin)
        return found

    def _merged(self, said: Said, above: Origin) -> Origin:
        """Return what the line says, with the rest from the line above that it continues."""
        key = ("more", id(above), *said.identity())
        found = self._origins.get(key)
        # The entry keeps `above` alive through its own fields only, so an id may be that of another by now.
        if found is None or found.boot != above.boot or found.pid not in (said.pid, above.pid):
            own = said.origin(self.origin)
            found = self._origins[key] = replace(
                above,
                host=own.host or above.host,
                rank=own.rank if own.rank is not None else above.rank,
                local_rank=own.local_rank if own.local_rank is not None else above.local_rank,
                task=own.task if own.task is not None else above.task,
                pid=own.pid if own.pid is not None else above.pid,
                pod=own.pod or above.pod,
            )
        return found

    def _boot(
        self, origin: Origin, at: float | None, uptime_s: float | None, boot_id: str | None, text: str
    ) -> tuple[Origin, float | None]:
        host = self._boots.setdefault(origin.host, _Host())
        fell = uptime_s is not None and host.uptime_s is not None and uptime_s < host.uptime_s - _BOOT_DROP_S
        changed = boot_id is not None and host.boot_id is not None and boot_id != host.boot_id
        # `Linux version` is the first line of a boot: a fall of the clock that comes with it is the same one.
        announced = bool(_BOOT.match(text)) and host.uptime_s is not None and not (uptime_s and uptime_s > _FRESH_S)
        if fell or changed or announced:
            host.boot += 1
            host.began_at = None
        if boot_id is not None:
            host.boot_id = boot_id
        if uptime_s is not None:
            host.uptime_s = uptime_s
            if at is not None:
                host.began_at = at - uptime_s
            elif host.began_at is not None:
                at = host.began_at + uptime_s
        elif announced:
            host.uptime_s = None
        return (replace(origin, boot=host.boot) if origin.boot != host.boot else origin), at

    def knows_host(self, word: str, *, is_sure: bool = False) -> bool:
        """Tell whether `word` before a colon is the host that printed the line, as far as the lines above show, or,
        `is_sure`, what stands behind it."""
        if word in self.hosts:
            return True
        if not any(c.isdigit() for c in word) or (NO_HOST.match(word) and not (is_sure and _GPU_NODE.fullmatch(word))):
            return False
        if "-" in word.strip("-") or "." in word.strip(".") or is_sure or word == self._doubtful_host:
            self.hosts.add(word)
            return True
        # A word with a number may be anything: a second line that begins with it says that it is a host.
        self._doubtful_host = word
        return False


def peel(line: str | bytes, state: PeelState, outer: Outer | None = None) -> Peeled:
    """Return a line of a log without its prefixes, cleaned; never raises, whatever the bytes are."""
    return state.peel(line, outer)


def shape(text: str) -> Shape | None:
    """Return the shape of a line of harmless ASCII, None when it has none that all lines like it share."""
    from stethoscope.parse.prefix_shape import shape_of

    return shape_of(text, _stands_alone, _KERNEL)


def _stands_alone(text: str) -> bool:
    return not (text.startswith(_TRACEBACK) or _CONTINUES.match(text) or _BOOT.match(text))
