"""Takes off what stands in front of a message, and remembers who printed it and when.

`peel` is called with the lines of one file in their order, the state of that file beside them: what a line does not say
(the year, the time, the rank of a traceback's second line) is what the lines above said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.logs import Origin
from stethoscope.parse.logtime import Calendar, month_number
from stethoscope.parse.prefix_forms import (
    ANGLE,
    BLANK,
    BRACKET,
    DAEMONS,
    DIGIT,
    IDENT,
    ISO_STAMP,
    NO_HOST,
    PAREN,
    QUOTE,
    WORD,
)
from stethoscope.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

LINE_LIMIT = 8192
"""Longest line, in characters, that is looked at; what is behind it is not read."""

_ROUNDS = 10
_SAME_CLOCK_S = 30.0
_ZONE_STEP_S = 900.0
_FRESH_S = 60.0
_BOOT_DROP_S = 5.0
_KEPT_ORIGINS = 50_000
_FORMS = {"[": BRACKET, "(": PAREN, "<": ANGLE, " ": BLANK, ">": QUOTE, "&": QUOTE, "`": QUOTE, "'": QUOTE, '"': QUOTE}
_FORMS.update(dict.fromkeys("0123456789", DIGIT))
_CONTINUES = re.compile(
    r"\s+\S|frame #\d|Exception raised from |terminate called |Compile with `TORCH|CUDA kernel errors might be "
    r"|For debugging consider |\.\. \S+ pid \d"
)
_TRACEBACK = "Traceback (most recent call last)"
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Failure|Timeout)\b|[A-Za-z_][\w.]*: ")
_BOOT = re.compile(r"-- (?:Boot|Reboot)\b|Linux version \d")


class Outer(NamedTuple):
    """What an envelope (a JSON object around the line) says about it."""

    at: float | None = None
    host: str | None = None
    uptime_s: float | None = None
    pid: int | None = None
    pod: str | None = None
    boot: str | None = None
    """Id of the boot: a new one is a new boot of that host."""


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
        self.hosts: set[str] = {self.origin.host} if self.origin.host else set()
        self.at: float | None = None
        """Wall seconds of the last line with a stamp."""
        self.relative_at: float | None = None
        self._carried: dict[str, _Carried] = {}
        self._last = _Carried(self.origin)
        self._boots: dict[str | None, _Host] = {}
        self._origins: dict[tuple[object, ...], Origin] = {}
        self._doubtful_host = ""

    def peel(self, line: str | bytes, outer: Outer | None = None) -> Peeled:
        """Return the line without its prefixes; see the module."""
        text = clean(line, LINE_LIMIT)
        said = _Said(self)
        if outer is not None:
            said.take_outer(outer)
        for _ in range(_ROUNDS):
            match = _FORMS.get(text[:1], WORD).match(text)
            if match is None or match.lastgroup is None or not _TAKE[match.lastgroup](said, match):
                break
            text = text[match.end() :]
            if said.wants_ident:
                text = said.take_ident(text)
        return self._settle(text, said, outer)

    def _settle(self, text: str, said: _Said, outer: Outer | None) -> Peeled:
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

    def _origin(self, said: _Said) -> Origin:
        key = said.identity()
        found = self._origins.get(key)
        if found is None:
            if len(self._origins) > _KEPT_ORIGINS:
                self._origins.clear()
            found = self._origins[key] = said.origin(self.origin)
        return found

    def _merged(self, said: _Said, above: Origin) -> Origin:
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

    def knows_host(self, word: str) -> bool:
        """Tell whether `word` before a colon is the host that printed the line, as far as the lines above show."""
        if word in self.hosts:
            return True
        if not any(c.isdigit() for c in word) or NO_HOST.match(word):
            return False
        if "-" in word.strip("-") or "." in word.strip(".") or word == self._doubtful_host:
            self.hosts.add(word)
            return True
        # A word with a number may be anything: a second line that begins with it says that it is a host.
        self._doubtful_host = word
        return False


def peel(line: str | bytes, state: PeelState, outer: Outer | None = None) -> Peeled:
    """Return a line of a log without its prefixes, cleaned; never raises, whatever the bytes are."""
    return state.peel(line, outer)


class _Said:
    """What the prefixes of one line say."""

    __slots__ = (
        "dev", "host", "is_more", "is_named", "key", "local_rank", "pid", "pod", "rank", "state", "task", "tid",
        "uptime_s", "walls", "wants_ident",
    )  # fmt: skip

    def __init__(self, state: PeelState) -> None:
        self.state = state
        self.host: str | None = None
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.task: int | None = None
        self.dev: int | None = None
        self.pid: int | None = None
        self.tid: int | None = None
        self.pod: str | None = None
        self.uptime_s: float | None = None
        self.walls: list[float] = []
        self.key = ""
        self.is_named = False
        self.is_more = False
        self.wants_ident = False

    def identity(self) -> tuple[object, ...]:
        """Return what tells two origins apart."""
        return (self.host, self.rank, self.local_rank, self.task, self.dev, self.pid, self.tid, self.pod)

    def origin(self, of_file: Origin) -> Origin:
        """Return who printed the line; the file's name fills what the line leaves open."""
        return Origin(
            host=self.host or of_file.host,
            rank=self.rank if self.rank is not None else of_file.rank,
            local_rank=self.local_rank if self.local_rank is not None else of_file.local_rank,
            task=self.task,
            cuda_device=self.dev if self.dev is not None else of_file.cuda_device,
            pid=self.pid,
            tid=self.tid,
            pod=self.pod or of_file.pod,
        )

    def at(self) -> float | None:
        """Return the wall seconds of the line.

        Of several stamps the inner one is the program's own and the finer; the outer one is that of a collector and
        knows its zone: they differ by whole quarters of an hour when they are of one moment.
        """
        if len(self.walls) < 2:
            return self.walls[0] if self.walls else None
        outer, inner = self.walls[0], self.walls[-1]
        shift = round((inner - outer) / _ZONE_STEP_S) * _ZONE_STEP_S
        return inner - shift if abs(inner - outer - shift) <= _SAME_CLOCK_S else outer

    def take_outer(self, outer: Outer) -> None:
        """Take what the envelope says."""
        if outer.at is not None:
            self.walls.append(outer.at)
        self.host, self.uptime_s, self.pid, self.pod = outer.host, outer.uptime_s, outer.pid, outer.pod
        if outer.pod or (outer.host and outer.pid is not None):
            self.name(f"{outer.pod or outer.host}:{outer.pid or 0}")
        if outer.host:
            self.is_named = True

    def name(self, key: str) -> None:
        """Say who the writer is; the outermost name is the one that all its lines carry."""
        self.is_named = True
        self.key = self.key or key

    def wall(self, wall: float | None) -> None:
        """Take a stamp."""
        if wall is not None:
            self.walls.append(wall)

    def take_ident(self, text: str) -> str:
        """Take syslog's host and program off what follows its stamp."""
        self.wants_ident = False
        match = IDENT.match(text)
        if match is None:
            return text
        if match["kernel"]:
            self.host = self.host or match["host"]
            self.is_named = True
            return text[match.end() :]
        is_daemon = DAEMONS.match(match["ident"]) is not None
        if match["pid"] is None and not is_daemon:
            return text
        self.host, self.is_named = self.host or match["host"], True
        if match["pid"] is not None and not is_daemon:
            self.pid = int(match["pid"])
            self.name(f"{match['host']}:{match['pid']}")
        return f"{match['ident']}: {text[match.end() :]}" if is_daemon else text[match.end() :]

    def take_iso(self, match: re.Match[str]) -> bool:
        self.wall(_iso(self.state.calendar, match, "b"))
        self.wants_ident = True
        return True

    def take_cri(self, match: re.Match[str]) -> bool:
        self.wall(_iso(self.state.calendar, match, "i"))
        return True

    def take_bsd(self, match: re.Match[str]) -> bool:
        month = int(match["o_mon"][:-1]) if match["o_mon"].endswith("月") else month_number(match["o_mon"])
        if month is not None:
            near = self.walls[0] if self.walls else None
            self.wall(self.state.calendar.at_without_year(month, int(match["o_day"]), match["o_t"], match["o_f"], near))
        self.wants_ident = True
        return True

    def take_full(self, match: re.Match[str]) -> bool:
        year, month, day = int(match["wy"]), int(match["wm"]), int(match["wd"])
        self.wall(self.state.calendar.at(year, month, day, match["wt"], match["wf"], match["wz"]))
        self.wants_ident = True
        return True

    def take_ctime(self, match: re.Match[str]) -> bool:
        month = int(match["c_mon"][:-1]) if match["c_mon"].endswith("月") else month_number(match["c_mon"])
        if month is not None:
            year, day = int(match["c_year"]), int(match["c_day"])
            self.wall(self.state.calendar.at(year, month, day, match["c_t"], None, None))
        return True

    def take_dated(self, match: re.Match[str]) -> bool:
        month = month_number(match["f_mon"])
        if month is not None:
            year, day = int(match["f_year"]), int(match["f_day"])
            self.wall(self.state.calendar.at(year, month, day, match["f_t"], None, None))
        return True

    def take_slash(self, match: re.Match[str]) -> bool:
        year, month, day = int(match["x_year"]), int(match["x_mon"]), int(match["x_day"])
        self.wall(self.state.calendar.at(year, month, day, match["x_t"], None, None))
        return True

    def take_vllm(self, match: re.Match[str]) -> bool:
        near = self.walls[0] if self.walls else None
        calendar = self.state.calendar
        self.wall(calendar.at_without_year(int(match["v_mon"]), int(match["v_day"]), match["v_t"], None, near))
        return True

    def take_relative(self, match: re.Match[str]) -> bool:
        month = month_number(match["e_mon"])
        if month is not None:
            wall = self.state.calendar.at_without_year(month, int(match["e_day"]), match["e_t"], None)
            self.state.relative_at = wall
            self.wall(wall)
        return True

    def take_delta(self, match: re.Match[str]) -> bool:
        if self.state.relative_at is not None:
            self.state.relative_at += float(match["d_up"])
            self.wall(self.state.relative_at)
        return True

    def take_uptime(self, match: re.Match[str]) -> bool:
        self.uptime_s = float(match["u_up"])
        self.wants_ident = True
        return True

    def take_kmsg(self, match: re.Match[str]) -> bool:
        self.uptime_s = int(match["k_up"]) / 1e6
        return True

    def take_syslog(self, match: re.Match[str]) -> bool:
        stamp = ISO_STAMP.match(match["y_stamp"])
        if stamp:
            self.wall(_iso(self.state.calendar, stamp, "b"))
        if match["y_host"] != "-":
            self.host, self.is_named = match["y_host"], True
        return True

    def take_glog(self, match: re.Match[str]) -> bool:
        digits, clock = match["g_date"], match["g_t"]
        if digits and clock:
            month, day = int(digits[:-2]), int(digits[-2:])
            near = self.walls[0] if self.walls else None
            self.wall(self.state.calendar.at_without_year(month, day, clock, match["g_f"], near))
        return True

    def take_glog_py(self, match: re.Match[str]) -> bool:
        self.take_glog(match)
        pid = int(match["g_pid"])
        if self.pid is None and pid > 1:
            self.pid = pid
        return True

    def take_nccl(self, match: re.Match[str]) -> bool:
        self.host = match["n_host"]
        self.state.hosts.add(self.host)
        self.pid, self.tid = int(match["n_pid"]), int(match["n_tid"])
        if match["n_dev"] is not None and int(match["n_dev"]) >= 0:
            self.dev = int(match["n_dev"])
        self.name(f"{self.host}:{self.pid}")
        return True

    def take_rank(self, match: re.Match[str]) -> bool:
        self.rank = int(match["r_rank"])
        self.name(f"rank{self.rank}")
        return True

    def take_mpi(self, match: re.Match[str]) -> bool:
        self.rank = int(match["m_rank"])
        self.name(f"rank{self.rank}")
        return True

    def take_role(self, match: re.Match[str]) -> bool:
        self.local_rank = int(match["l_rank"])
        self.name(f"{self.host or ''}/{match['l_role']}{self.local_rank}")
        return True

    def take_srun(self, match: re.Match[str]) -> bool:
        if self.task is not None:
            return False
        self.task = int(match["s_task"])
        self.name(f"task{self.task}")
        return True

    def take_pod(self, match: re.Match[str]) -> bool:
        self.pod = match["k_pod"]
        self.name(self.pod)
        return True

    def take_pdsh(self, match: re.Match[str]) -> bool:
        if self.host is not None or not self.state.knows_host(match["p_host"]):
            return False
        self.host = match["p_host"]
        self.name(f"{self.host}:")
        return True

    def take_talos(self, match: re.Match[str]) -> bool:
        self.host, self.is_named = match["t_host"], True
        return True

    def take_ray(self, match: re.Match[str]) -> bool:
        self.pid = int(match["a_pid"])
        if match["a_rank"] is not None:
            self.rank = int(match["a_rank"])
        self.host = match["a_ip"] or self.host
        self.name(f"{match['a_name']} {self.pid} {self.host or ''}")
        return True

    def take_more(self, match: re.Match[str]) -> bool:
        self.is_more = not self.walls and self.uptime_s is None
        return True

    def take_nothing(self, match: re.Match[str]) -> bool:
        return True


def _iso(calendar: Calendar, match: re.Match[str], name: str) -> float | None:
    year, month, day = int(match[name + "y"]), int(match[name + "m"]), int(match[name + "d"])
    zone = match[name + "z"]
    return calendar.at(year, month, day, match[name + "t"], match[name + "f"], zone.strip() if zone else None)


_TAKE: dict[str, Callable[[_Said, re.Match[str]], bool]] = {
    name: getattr(_Said, f"take_{name}")
    for name in (
        "iso", "cri", "bsd", "full", "ctime", "dated", "slash", "vllm", "relative", "delta", "uptime", "kmsg", "syslog",
        "glog", "glog_py", "nccl", "rank", "mpi", "role", "srun", "pod", "pdsh", "talos", "ray", "more",
    )
}  # fmt: skip
_TAKE.update(
    submitit=_Said.take_iso,
    container=_Said.take_pod,
    **dict.fromkeys(("counter", "level", "tid", "decode", "kernel", "priority", "quote", "padded"), _Said.take_nothing),
)
