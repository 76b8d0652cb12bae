"""`~/.ssh/config` for thousands of nodes: each file is read and split once, and a node walks only the blocks that can
concern it.

What the options mean is asyncssh's; here is only which lines it sees. A block whose `Host` line has plain names alone
is looked up by name; all others are evaluated in their order, as in the file.
"""

from __future__ import annotations

import getpass
import re
import shlex
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from asyncssh.config import ConfigParseError, SSHClientConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USER_CONFIG = Path("~/.ssh/config")
SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_SYSTEM_DIRECTORY = Path("/etc/ssh")
_OPTION = re.compile(r"([A-Za-z0-9_-]+)[ \t]*(?:=[ \t]*)?(.*)", re.DOTALL)
_TOKEN = re.compile(r"%(.)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:\[\]-]+")
_COLLECTED = ("IdentityFile", "CertificateFile", "SendEnv")
_QUOTING = re.compile(r"['\"\\]")
_WHOLE_LINE = frozenset({"proxycommand", "remotecommand"})
_WILD = frozenset("*?!,[]")

_Line = tuple[int, str, tuple[str, ...]]


@dataclass(slots=True)
class _Split:
    """One file as blocks: what stands before the first `Host` or `Match`, then one per such line."""

    blocks: list[list[_Line]] = field(default_factory=lambda: [[]])
    always: list[int] = field(default_factory=lambda: [0])
    by_name: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    runs_programs: bool = False

    def lines(self, host: str) -> Iterator[_Line]:
        named = self.by_name.get(host)
        for position in sorted({*self.always, *named}) if named else self.always:
            yield from self.blocks[position]


class NodeConfig(SSHClientConfig):
    """What the configuration files say about one host name."""

    files: ConfigFiles

    def parse(self, path: Path) -> None:
        """Apply the lines of the file at `path` that can concern the host."""
        self._path = path
        self._line_no = 0
        self._matching = True
        self._tokens = {"%": "%"}
        for line_no, option, words in self.files.split(path).lines(self._orig_host):
            self._line_no = line_no
            if not self._matching and option not in self._conditionals:
                continue
            known = self._handlers.get(option)
            if known is None:
                continue
            name, handler = known
            arguments = list(words)
            if not arguments:
                self._error(f"Missing {name} value")
            if option == "match":
                self._fill_in_programs(arguments)
            handler(self, name, arguments)
            if arguments:
                self._error(f"Extra data at end: {' '.join(arguments)}")
        self._set_tokens()
        for name in self._percent_expand:
            value = self._options.get(name)
            if isinstance(value, list):
                self._options[name] = [self._expand_val(item) for item in value]
            elif isinstance(value, str):
                self._options[name] = self._expand_val(value)

    def _fill_in_programs(self, arguments: list[str]) -> None:
        """Put host, port and user in place of their tokens in the commands of a `Match` line, as ssh does."""
        for position, word in enumerate(arguments[:-1]):
            command = arguments[position + 1]
            if word.lower().removeprefix("!") != "exec" or "%" not in command:
                continue
            if not _PLAIN_NAME.fullmatch(self._orig_host):
                self._error(f"a name that cannot go into a command: {self._orig_host}")
            self._set_tokens()
            arguments[position + 1] = _TOKEN.sub(self._expand_token, command)
            self._tokens = {"%": "%"}

    def _strict_checking(self, option: str, arguments: list[str]) -> None:
        self._options.setdefault(option, arguments.pop(0).lower())

    def _way(self, option: str, arguments: list[str]) -> None:
        # A jump host and a proxy command are two answers to one question: the first that is given counts.
        value = arguments.pop(0)
        if not any(name in self._options for name in ("ProxyJump", "ProxyCommand")):
            self._options[option] = None if value.lower() == "none" else value

    def put(self, option: str, value: object) -> None:
        """Set an option, whatever the files say."""
        self._options[option] = value

    def text(self, option: str) -> str | None:
        """Return the value of a text option, or None when it is not set."""
        value = self.get(option)
        return value if isinstance(value, str) else None

    def texts(self, option: str) -> list[str] | None:
        """Return the values of an option that can be given several times; None when it is not set."""
        value = self.get(option)
        return [str(item) for item in value] if isinstance(value, list) else None

    _handlers = {  # noqa: RUF012 -- an instance variable to the class above
        **SSHClientConfig._handlers,
        "stricthostkeychecking": ("StrictHostKeyChecking", _strict_checking),
        "proxyjump": ("ProxyJump", _way),
        "proxycommand": ("ProxyCommand", _way),
        "controlpath": ("ControlPath", SSHClientConfig._set_string),
    }
    # What a fleet file says of the address comes later, and belongs into the command.
    _percent_expand = SSHClientConfig._percent_expand - {"ProxyCommand"}


class ConfigFiles:
    """The SSH client configuration of this user, or of one file given instead."""

    def __init__(self, only: str | None = None) -> None:
        """Use the user's and the system's files, or the file `only` (`none` for no file at all), as `ssh -F` does."""
        if only is None:
            paths = [USER_CONFIG.expanduser(), SYSTEM_CONFIG]
            self._paths: Sequence[Path] = [path for path in paths if path.is_file()]
        else:
            self._paths = [] if only == "none" else [Path(only).expanduser()]
        self._split: dict[Path, _Split] = {}
        self.local_user = getpass.getuser()
        self._config: Any = type("BoundNodeConfig", (NodeConfig,), {"files": self})

    @property
    def runs_programs(self) -> bool:
        """Tell whether the files that were read so far have a `Match exec`, which keeps who evaluates them waiting."""
        return any(split.runs_programs for split in self._split.values())

    def split(self, path: Path) -> _Split:
        """Return the blocks of the file at `path`, read at the first call."""
        known = self._split.get(path)
        if known is None:
            known = self._split[path] = _read(path)
        return known

    def evaluate(self, host: str, user: str | None = None, port: int | None = None) -> NodeConfig:
        """Return what the files say about `host`; `user` and `port` are those given elsewhere, which win.

        Raises ValueError with file and line when a file cannot be understood, OSError when it cannot be read.
        """
        config = self._evaluate(None, host, user, port, final=False)
        if config.has_match_final():
            # The second reading adds to the first, as with ssh; what is collected over all blocks then stands twice.
            config = self._evaluate(config, host, user, port, final=True)
            for option in _COLLECTED:
                texts = config.texts(option)
                if texts is not None:
                    config.put(option, list(dict.fromkeys(texts)))
        config.loaded = True
        return config

    def _evaluate(
        self, last: NodeConfig | None, host: str, user: str | None, port: int | None, *, final: bool
    ) -> NodeConfig:
        given_user, given_port = () if user is None else user, () if port is None else port
        config = self._config(last, False, False, final, self.local_user, given_user, host, given_port)
        for path in self._paths:
            if path.parent == _SYSTEM_DIRECTORY:
                config._default_path = _SYSTEM_DIRECTORY
            config.parse(path)
        return cast("NodeConfig", config)


def _read(path: Path) -> _Split:
    split = _Split()
    block = split.blocks[0]
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        for line_no, raw in enumerate(file, 1):
            text = raw.strip()
            if not text or text[0] == "#":
                continue
            try:
                option, words = _words(text)
            except ValueError as error:
                raise ConfigParseError(f"{path} line {line_no}: {error}") from None
            if option in ("host", "match"):
                position = len(split.blocks)
                block = []
                split.blocks.append(block)
                split.runs_programs |= option == "match" and any(word.lower() in ("exec", "!exec") for word in words)
                if option == "host" and words and not any(_WILD.intersection(word) for word in words):
                    for word in words:
                        split.by_name[word].append(position)
                else:
                    split.always.append(position)
            block.append((line_no, option, words))
    return split


def _words(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the option of one line, in lower case, and its arguments; ValueError for a quote without its end."""
    match = _OPTION.match(text)
    if match is None:
        return text.lower(), ()
    option, rest = match[1].lower(), match[2]
    if option in _WHOLE_LINE:
        return option, (rest.strip(),) if rest.strip() else ()
    # Splitting as a shell takes fifty times as long, and most lines have nothing for a shell.
    words = shlex.split(rest) if _QUOTING.search(rest) else rest.split()
    comment = next((position for position, word in enumerate(words) if word.startswith("#")), None)
    return option, tuple(words[:comment])
