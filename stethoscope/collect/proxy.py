"""Programs that connect to a node: what `ProxyCommand` says, or ssh on a connection that somebody has already made.

A program has one end of a socket pair as its standard input and output; the other is a socket like any other. It ends
with the link, whoever ends that, and is waited for here alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from stethoscope.collect.command import CommandError, LocalRunner
from stethoscope.collect.link import LinkFailure
from stethoscope.collect.words import not_connected
from stethoscope.model.frame import LinkState
from stethoscope.text import clean

if TYPE_CHECKING:
    from stethoscope.collect.target import Target

IN_FLIGHT = 8
"""Logins at once through one bastion: sshd's `MaxStartups 10:30:100` drops some from the tenth on."""
KEEP_S = 10.0
"""Whether somebody's connection to a bastion is there is asked again after so long."""
CHECK_S = 5.0
KILL_S = 1.0
"""A program that SIGTERM did not end is killed after so long."""
_POLL_S = 0.02
_SAID_LIMIT = 2048


class Proxy:
    """One program."""

    def __init__(self, arguments: list[str]) -> None:
        """Start it; LinkFailure when that cannot be."""
        self._loop = asyncio.get_running_loop()
        self._said = bytearray()
        self._kill_at: float | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        try:
            self.sock, theirs = socket.socketpair()
        except OSError as error:
            raise not_connected(error, arguments[0]) from None
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self.sock.close()
            raise LinkFailure(LinkState.ERROR, f"{arguments[0]}: {error.strerror}") from None
        finally:
            theirs.close()
        self.sock.setblocking(False)
        assert self._process.stderr is not None
        self._stderr: int | None = self._process.stderr.fileno()
        os.set_blocking(self._stderr, False)
        self._loop.add_reader(self._stderr, self._listen)

    @property
    def said(self) -> str:
        """Return the last line that the program said on its standard error."""
        self._listen()
        lines = [line for line in bytes(self._said).splitlines() if line.strip()]
        return clean(lines[-1], 200) if lines else ""

    def close(self) -> None:
        """End the program; `ended` tells when it is gone."""
        if self._kill_at is None:
            self._kill_at = self._loop.time() + KILL_S
            self._signal(signal.SIGTERM)
            self._reap()

    def _listen(self) -> None:
        if self._stderr is None:
            return
        try:
            data = os.read(self._stderr, 65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
        self._said += data
        del self._said[:-_SAID_LIMIT]

    def _hang_up(self) -> None:
        if self._stderr is not None:
            self._loop.remove_reader(self._stderr)
            self._stderr = None
            assert self._process.stderr is not None
            self._process.stderr.close()

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _reap(self) -> None:
        if self._process.poll() is None:
            if self._kill_at is not None and self._loop.time() >= self._kill_at:
                self._signal(signal.SIGKILL)
            self._loop.call_later(_POLL_S, self._reap)
            return
        self._hang_up()
        if not self.ended.done():
            self.ended.set_result(None)


class Proxies:
    """All programs of a fleet, and the bastions that somebody is logged in to."""

    def __init__(self, ssh_config: str | None) -> None:
        """Start nothing; `ssh_config` is what `ssh -F` gets."""
        self._ssh = ["ssh", *(["-F", ssh_config] if ssh_config is not None else [])]
        self._running: set[Proxy] = set()
        self._masters: dict[str, tuple[float, bool]] = {}
        self._asking = asyncio.Lock()
        self.gate = asyncio.Semaphore(IN_FLIGHT)

    def start(self, arguments: list[str]) -> Proxy:
        """Start a program; LinkFailure when that cannot be."""
        proxy = Proxy(arguments)
        self._running.add(proxy)
        proxy.ended.add_done_callback(lambda _: self._running.discard(proxy))
        return proxy

    async def ride(self, bastion: Target, host: str, port: int) -> list[str] | None:
        """Return the program that reaches `host` over somebody's connection to `bastion` (`ControlMaster`), None when
        there is none."""
        if bastion.config.text("ControlPath") is None:
            return None
        # `ssh` knows itself where the socket is, and checks whose it is.
        place = ["-p", str(bastion.port), "-l", bastion.user]
        async with self._asking:
            now = asyncio.get_running_loop().time()
            known = self._masters.get(bastion.name)
            if known is None or now - known[0] > KEEP_S:
                known = (now, await self._is_there(place, bastion.name))
                self._masters[bastion.name] = known
        if not known[1]:
            return None
        # Should the connection have ended meanwhile, ssh must not log in anew, once for each node.
        only = ["-o", "ControlMaster=no", "-o", "BatchMode=yes", "-o", "ProxyJump=none", "-o", "ProxyCommand=false"]
        return [*self._ssh, *place, *only, "-W", f"[{host}]:{port}", "--", bastion.name]

    async def _is_there(self, place: list[str], name: str) -> bool:
        try:
            answer = await LocalRunner().run([*self._ssh, *place, "-O", "check", "--", name], CHECK_S)
        except CommandError:
            return False
        return answer.status == 0

    async def close(self) -> None:
        """End all programs and wait until they are gone."""
        running = list(self._running)
        for proxy in running:
            proxy.close()
        if running:
            await asyncio.wait([proxy.ended for proxy in running], timeout=2 * KILL_S)
