"""A real OpenSSH server on loopback for tests: own keys and port, the current user, any environment."""

from __future__ import annotations

import getpass
import os
import shlex
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from stethoscope.specs.fleet import Fleet, FleetNode
from tests import needs

USER = getpass.getuser()


class Sshd:
    """One running server; everything it needs is under `directory`."""

    def __init__(
        self, directory: Path, *, environment: dict[str, str] | None = None, force: str = "", extra: str = ""
    ) -> None:
        """Start it; `environment` is that of its commands, `force` a command line that replaces what clients ask for
        ($SSH_ORIGINAL_COMMAND), `extra` more lines of its configuration."""
        self._sshd = needs.tool("sshd")
        needs.tool("ssh-keygen")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.host_key = self.new_key("host")
        self.identity = self.new_key("id")
        self.authorized = directory / "authorized_keys"
        self.authorized.write_bytes(self.identity.with_suffix(".pub").read_bytes())
        self.authorized.chmod(0o600)
        self.known_hosts = directory / "known_hosts"
        self.config = directory / "ssh_config"
        self.config.write_text("")
        self.log = directory / "sshd.log"
        self.port = free_port()
        self.address = "127.0.0.1"
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in (environment or {}).items())
        self._lines = [
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.authorized}",
            f"PidFile {directory / 'sshd.pid'}",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintMotd no",
            "MaxStartups 500",
            "LogLevel VERBOSE",
            *([f"SetEnv {variables}"] if variables else []),
            *([f"ForceCommand {force}"] if force else []),
            *extra.splitlines(),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.trust()

    def new_key(self, name: str, kind: str = "ed25519") -> Path:
        """Make a key pair `name` and return the path of its private half."""
        path = self.directory / name
        for old in (path, path.with_name(f"{name}.pub")):
            old.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", str(path)], check=True)
        return path

    def start(self) -> None:
        """Start the server and wait until it answers."""
        config = self.directory / "sshd_config"
        config.write_text("\n".join(self._lines) + "\n")
        self._process = subprocess.Popen(
            [self._sshd, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("ab"),
            start_new_session=True,
        )
        until = time.monotonic() + 10
        while True:
            with suppress(OSError), socket.create_connection((self.address, self.port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"sshd did not start: {self.log.read_text()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the server and every session of it."""
        if self._process is not None:
            for pid in (*self.sessions(), self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def sessions(self) -> list[int]:
        """Return the process ids of the server's own processes, one or two a session."""
        assert self._process is not None
        return children_of(self._process.pid, name="sshd")

    def commands(self) -> list[int]:
        """Return the process ids of everything that runs in sessions of this server."""
        assert self._process is not None
        everything = children_of(self._process.pid)
        servers = set(children_of(self._process.pid, name="sshd"))
        return [pid for pid in everything if pid not in servers]

    def trust(self, *names: str) -> None:
        """Write known_hosts: this server's key under its address and `names`."""
        key = self.host_key.with_suffix(".pub").read_text().split()[:2]
        hosts = [f"[{name}]:{self.port}" for name in (self.address, *names)]
        self.known_hosts.write_text(f"{','.join(hosts)} {' '.join(key)}\n")

    def node(self, name: str, **settings: object) -> FleetNode:
        """Return a node that is this server."""
        given: dict[str, object] = {
            "address": self.address,
            "port": self.port,
            "user": USER,
            "identity_file": str(self.identity),
            "known_hosts": str(self.known_hosts),
            "tick_s": 0.2,
            **settings,
        }
        return FleetNode(name, **given)  # type: ignore[arg-type]

    def fleet(self, *names: str, **settings: object) -> Fleet:
        """Return a fleet of nodes that are all this server."""
        return Fleet("test", tuple(self.node(name, **settings) for name in names))


def free_port() -> int:
    """Return a TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def children_of(root: int, name: str = "") -> list[int]:
    """Return the ids of all processes under `root`, of those called `name...` only if given."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                head, _, rest = (entry / "stat").read_text().rpartition(")")
                parents[int(entry.name)] = (int(rest.split()[1]), head.partition("(")[2])
    found, level = [], [root]
    while level:
        level = [pid for pid, (parent, _) in parents.items() if parent in level]
        found += level
    return [pid for pid in found if parents[pid][1].startswith(name)]
