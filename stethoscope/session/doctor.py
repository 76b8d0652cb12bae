"""What stands in the console's way: the terminal, the paths, incidents, SSH, the versions, the data files."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stethoscope import __version__
from stethoscope.debug import package_versions
from stethoscope.paths import cache_dir, config_dir, state_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stethoscope.model.terminal import TerminalFacts

LEVELS = ("ok", "warning", "critical")
_OF_MANY = ("cache", "incidents")
"""Directories in which others may write: a team shares its incidents."""
LEAST_BYTES = 256 * 1024 * 1024
"""With less room a recording of the night does not fit."""


class Remark(NamedTuple):
    """One thing that was looked at."""

    topic: str
    level: str
    """One of LEVELS."""
    says: str
    do: str = ""
    """What to do about it."""


def examine(terminal: TerminalFacts) -> list[Remark]:
    """Return what was looked at, in the order of a console's start."""
    return [*_versions(), *_terminal(terminal), *_paths(), *_incidents(), *_ssh(), *_data()]


def _versions() -> Iterator[Remark]:
    yield Remark(
        "version", "ok", f"stethoscope {__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    versions = package_versions()
    absent = [name for name, version in versions.items() if version == "absent"]
    yield Remark("", "ok", ", ".join(f"{name} {version}" for name, version in versions.items() if name not in absent))
    if absent:
        yield Remark("", "critical", f"not installed: {', '.join(absent)}", "run `make setup` again")


def _terminal(terminal: TerminalFacts) -> Iterator[Remark]:
    if not terminal.is_terminal:
        yield Remark("terminal", "critical", "there is none on stdin and stderr",
                     "start it in a terminal; `stethoscope check` needs none")  # fmt: skip
        return
    if terminal.term in ("", "dumb"):
        yield Remark("terminal", "critical", f"TERM={terminal.term or 'unset'}: no screen can be drawn",
                     "set TERM to what the terminal is, such as xterm-256color")  # fmt: skip
    elif terminal.columns < 80 or terminal.lines < 24:
        yield Remark("terminal", "warning", f"{terminal.term}, {terminal.columns}x{terminal.lines}",
                     "80x24 and more is what the screens are made for")  # fmt: skip
    else:
        inside = f" in {terminal.multiplexer}" if terminal.multiplexer else ""
        yield Remark("terminal", "ok", f"{terminal.term}{inside}, {terminal.columns}x{terminal.lines}")
    if terminal.no_color:
        yield Remark("colours", "ok", "none: NO_COLOR is set; levels are told by their signs")
    elif terminal.colours < 256:
        many = terminal.colours or "no"
        yield Remark("colours", "warning", f"{many} colours as TERM says",
                     "with 256 magnitudes are easier to tell: TERM=xterm-256color, in tmux tmux-256color")  # fmt: skip
    else:
        yield Remark("colours", "ok", "256 and more" if terminal.colours > 256 else "256")
    yield from _characters(terminal)
    if terminal.multiplexer == "tmux":
        yield Remark(
            "keys", "ok", "in tmux its prefix key does not come through; copying needs `set -g set-clipboard on`"
        )
    else:
        yield Remark("keys", "ok", "ctrl+p and ctrl+q must reach the console; most terminals let them")
    if terminal.over_ssh:
        yield Remark("line", "ok", "over SSH; on a thin line `ssh -C` makes it ten times fewer bytes")


def _characters(terminal: TerminalFacts) -> Iterator[Remark]:
    utf8 = terminal.encoding.lower().replace("-", "").replace("_", "") == "utf8"
    if not utf8 or terminal.locale in ("C", "POSIX"):
        known = f"encoding {terminal.encoding or 'unknown'}, locale {terminal.locale or 'unset'}"
        yield Remark("characters", "warning", f"{known}: ASCII signs are drawn", "set LANG to one that ends in .UTF-8")
    elif terminal.answers is False:
        yield Remark("characters", "warning", "the terminal did not say how wide it draws them",
                     "if columns do not line up, start with --ascii")  # fmt: skip
    elif terminal.ambiguous_cells == 2:
        yield Remark("characters", "warning", "characters of ambiguous width take two cells: ASCII signs are drawn",
                     "set them to narrow in the terminal's settings")  # fmt: skip
    else:
        yield Remark("characters", "ok", f"{terminal.encoding}, locale {terminal.locale or 'unset'}, single width")


def _paths() -> Iterator[Remark]:
    for topic, path in (("settings", config_dir()), ("state", state_dir()), ("cache", cache_dir())):
        yield _path(topic, path)
    nearest = next((parent for parent in (state_dir(), *state_dir().parents) if parent.is_dir()), Path("/"))
    free = shutil.disk_usage(nearest).free
    room = f"{free / 2**30:.1f} GiB free"
    if free < LEAST_BYTES:
        yield Remark("", "warning", f"{room} for recordings", "free some, or start with --keep-size or --no-record")
    else:
        yield Remark("", "ok", f"{room} for recordings")


def _path(topic: str, path: Path) -> Remark:
    if not path.exists():
        parent = next((parent for parent in path.parents if parent.exists()), None)
        if parent is None or not os.access(parent, os.W_OK | os.X_OK):
            return Remark(topic, "warning", f"{path} cannot be made", f"let {parent} be written by this user")
        return Remark(topic, "ok", f"{path}, not there yet")
    if not path.is_dir():
        return Remark(topic, "critical", f"{path} is no directory", "move it away")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Remark(topic, "warning", f"{path} cannot be written", f"chown it to user {os.getuid()}")
    mode = stat.S_IMODE(path.stat().st_mode)
    if topic not in _OF_MANY and mode & 0o022:
        return Remark(topic, "warning", f"{path} can be written by others ({mode:04o})", f"chmod 700 {path}")
    return Remark(topic, "ok", str(path))


def _incidents() -> Iterator[Remark]:
    from stethoscope.errors import DataError
    from stethoscope.session.incidents import Library, incidents_dir

    try:
        directory = incidents_dir()
    except DataError:
        # The settings are told of by themselves.
        return
    remark = _path("incidents", directory)
    if remark.level != "ok" or not directory.exists():
        yield remark
        return
    library = Library(directory)
    try:
        count, troubles = len(library.all()), library.troubles
    except DataError as error:
        yield Remark("incidents", "warning", str(error), "make the directory readable, or name another one")
        return
    yield remark._replace(says=f"{directory}, {count:,} of them")
    if troubles:
        yield Remark(
            "", "warning", f"{len(troubles)} of the files broken or odd", "see `stethoscope kb list --troubles`"
        )


def _ssh() -> Iterator[Remark]:
    program = shutil.which("ssh")
    yield (
        Remark("ssh", "ok", f"{program}, for the shell that `s` opens")
        if program
        else Remark("ssh", "warning", "no ssh program: `s` on a node's screen cannot open a shell", "install one")
    )
    agent = os.environ.get("SSH_AUTH_SOCK", "")
    if not agent:
        yield Remark("", "ok", "no agent (SSH_AUTH_SOCK is unset): keys come from files")
    elif not Path(agent).is_socket():
        yield Remark("", "warning", f"the agent's socket {agent} is not there",
                     "in tmux it is often that of an older login: set SSH_AUTH_SOCK to the present one")  # fmt: skip
    else:
        yield Remark("", "ok", f"agent at {agent}")
    home = Path.home() / ".ssh"
    for name, what in (("config", "configuration"), ("known_hosts", "known hosts")):
        path = home / name
        if not path.exists():
            yield Remark("", "ok", f"no {path}")
            continue
        try:
            with path.open("rb") as file:
                count = sum(1 for line in file if line.strip() and not line.startswith(b"#"))
        except OSError as error:
            yield Remark("", "warning", f"{path} cannot be read: {error.strerror}", "its owner must be this user")
        else:
            yield Remark("", "ok", f"{what}: {path}, {count:,} lines")


def _data() -> Iterator[Remark]:
    from stethoscope.session.lint import lint

    result = lint()
    if result.errors:
        first, count = result.errors[0], len(result.errors)
        yield Remark("data files", "critical", f"{count} wrong; the first: {first}", "see `stethoscope lint`")
    else:
        yield Remark("data files", "ok", "metrics, rules, scenarios and probes are right")
