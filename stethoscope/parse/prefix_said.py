"""What the prefixes of one line say: one method for each form of `parse.prefix_forms`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stethoscope.model.logs import Origin
from stethoscope.parse.logtime import Calendar, fraction, month_number
from stethoscope.parse.prefix_forms import DAEMONS, IDENT, ISO_STAMP, OWN_STAMP

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from stethoscope.parse.prefix import PeelState

_SAME_CLOCK_S = 30.0
_ZONE_STEP_S = 900.0


class Outer(NamedTuple):
    """What an envelope (a JSON object around the line) says about it."""

    at: float | None = None
    host: str | None = None
    uptime_s: float | None = None
    pid: int | None = None
    pod: str | None = None
    boot: str | None = None
    """Id of the boot: a new one is a new boot of that host."""


class Said:
    """What the prefixes of one line say."""

    # Defaults of the class: most lines set three of them, and this is done for each line of a log.
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    dev: int | None = None
    pid: int | None = None
    tid: int | None = None
    pod: str | None = None
    path_host: str | None = None
    """Host that the name of the file says in which grep found the line."""
    uptime_s: float | None = None
    key = ""
    is_named = False
    is_more = False
    is_kernel = False
    wants_ident = False

    def __init__(self, state: PeelState) -> None:
        self.state = state
        self.walls: list[float] = []

    def identity(self) -> tuple[object, ...]:
        """Return what tells two origins apart."""
        return (
            self.host or self.path_host or self.state.shell_host,
            self.rank,
            self.local_rank,
            self.task,
            self.dev,
            self.pid,
            self.tid,
            self.pod,
        )

    def origin(self, of_file: Origin) -> Origin:
        """Return who printed the line; the file's name fills what the line leaves open."""
        return Origin(
            host=self.host or self.path_host or of_file.host or self.state.shell_host,
            rank=self.rank if self.rank is not None else of_file.rank,
            local_rank=self.local_rank if self.local_rank is not None else of_file.local_rank,
            task=self.task,
            cuda_device=self.dev if self.dev is not None else of_file.cuda_device,
            pid=self.pid,
            tid=self.tid,
            pod=self.pod or of_file.pod,
        )

    def at(self) -> float | None:
        """Return the wall seconds of the line."""
        return moment(self.walls) if self.walls else None

    def take_outer(self, outer: Outer) -> None:
        """Take what the envelope says."""
        if outer.at is not None:
            self.walls.append(outer.at)
        self.host, self.uptime_s, self.pid, self.pod = outer.host, outer.uptime_s, outer.pid, outer.pod
        if outer.pod or (outer.host and outer.pid is not None):
            self.name(f"{outer.pod or outer.host}:{outer.pid or 0}")
        if outer.host:
            self.is_named = True
        self.is_kernel = outer.uptime_s is not None

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
            self.is_kernel = True
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

    def take_go(self, match: re.Match[str]) -> bool:
        year, month, day = int(match["j_year"]), int(match["j_mon"]), int(match["j_day"])
        self.wall(self.state.calendar.at(year, month, day, match["j_t"], match["j_f"], None))
        self.wants_ident = True
        return True

    def take_opensm(self, match: re.Match[str]) -> bool:
        month = month_number(match["p_mon"])
        if month is None:
            return False
        calendar = self.state.calendar
        self.wall(calendar.at_without_year(month, int(match["p_day"]), match["p_t"], match["p_f"]))
        return True

    def take_date(self, match: re.Match[str]) -> bool:
        month = month_number(match["q_mon"])
        if month is None:
            return False
        year, day = int(match["q_year"]), int(match["q_day"])
        self.wall(self.state.calendar.at(year, month, day, match["q_t"], None, match["q_zone"]))
        return True

    def take_sel(self, match: re.Match[str]) -> None:
        """Take the time of an entry of a management controller's log, which stays in the message."""
        year, month, day = int(match["year"]), int(match["mon"]), int(match["day"])
        self.wall(self.state.calendar.at(year, month, day, match["clock"], None, None))

    def take_compose(self, match: re.Match[str]) -> bool:
        self.pod = match["w_pod"]
        self.name(self.pod)
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
        self.is_kernel = True
        self.uptime_s = float(match["u_up"])
        self.wants_ident = True
        return True

    def take_unix(self, match: re.Match[str]) -> bool:
        self.wall(float(match["z_at"]))
        self.wants_ident = True
        return True

    def take_kmsg(self, match: re.Match[str]) -> bool:
        self.is_kernel = True
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
            month, day = int(digits[-4:-2]), int(digits[-2:])
            calendar = self.state.calendar
            if len(digits) == 8:
                self.wall(calendar.at(int(digits[:4]), month, day, clock, match["g_f"], None))
            else:
                near = self.walls[0] if self.walls else None
                self.wall(calendar.at_without_year(month, day, clock, match["g_f"], near))
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
        if self.host is not None:
            return False
        is_sure = OWN_STAMP.match(match.string, match.end()) is not None
        if not self.state.knows_host(match["p_host"], is_sure=is_sure):
            return False
        self.host = match["p_host"]
        self.name(f"{self.host}:")
        return True

    def take_talos(self, match: re.Match[str]) -> bool:
        self.is_kernel = True
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

    def take_kernel(self, match: re.Match[str]) -> bool:
        self.is_kernel = True
        return True

    def take_nothing(self, match: re.Match[str]) -> bool:
        return True


def moment(walls: Sequence[float]) -> float:
    """Return the wall seconds of a line with these stamps.

    Of several stamps the inner one is the program's own and the finer; the outer one is that of a collector and knows
    its zone: they differ by whole quarters of an hour when they are of one moment.
    """
    if len(walls) < 2:
        return walls[0]
    outer, inner = walls[0], walls[-1]
    shift = round((inner - outer) / _ZONE_STEP_S) * _ZONE_STEP_S
    return inner - shift if abs(inner - outer - shift) <= _SAME_CLOCK_S else outer


def _iso(calendar: Calendar, match: re.Match[str], name: str) -> float | None:
    zone = match[name + "z"]
    wall = calendar.second(match.string[match.start(name + "y") : match.end(name + "t")], zone)
    return None if wall is None else wall + fraction(match[name + "f"])


TAKE: dict[str, Callable[[Said, re.Match[str]], bool]] = {
    name: getattr(Said, f"take_{name}")
    for name in (
        "iso", "cri", "bsd", "full", "ctime", "dated", "slash", "vllm", "relative", "delta", "uptime", "kmsg", "syslog",
        "glog", "glog_py", "nccl", "rank", "mpi", "role", "srun", "pod", "pdsh", "talos", "ray", "more",
        "kernel", "unix", "go", "opensm", "date", "compose",
    )
}  # fmt: skip
TAKE.update(
    submitit=Said.take_iso,
    container=Said.take_pod,
    **dict.fromkeys(
        ("counter", "level", "tid", "decode", "priority", "quote", "padded", "leveled", "logfmt"), Said.take_nothing
    ),
)
