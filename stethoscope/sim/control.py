"""The control line of a running simulated fleet: a socket that its owner alone can reach, through which faults come in.

One line of JSON each way. `{"do": "inject", "text": "KIND PLACE key=value ..."}` lets a fault come, `{"do": "state"}`
asks where the fleet stands.
"""

from __future__ import annotations

import asyncio
import glob
import json
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stethoscope.errors import DataError, StethoscopeError, UnreachableError, UsageError
from stethoscope.sim.scenarios import vocabulary
from stethoscope.specs.scenario_read import read_fault
from stethoscope.text import clean

if TYPE_CHECKING:
    from stethoscope.specs.scenario import Fault

PREFIX = "stethoscope-sim-"
"""How the private directory of a fleet is called, in the system's directory for what is temporary."""
NAME = "control"
_LONGEST = 16_384
_ANSWER_S = 5.0


class Control:
    """Listens for one fleet."""

    def __init__(self, server: Any) -> None:
        """Take what serves the fleet (sim.server.FleetServer): its twin gets the faults."""
        self._server = server
        self._listener: asyncio.Server | None = None
        self._path = Path()

    async def start(self, directory: Path) -> Path:
        """Listen in a directory that nobody else can enter; return the path of the socket."""
        self._path = directory / NAME
        self._listener = await asyncio.start_unix_server(self._talk, str(self._path), limit=_LONGEST)
        self._path.chmod(0o600)
        return self._path

    async def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.close()
            self._path.unlink(missing_ok=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), _ANSWER_S)
            writer.write(json.dumps(self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
        except ValueError:
            return {"ok": False, "error": "not one line of JSON"}
        twin = self._server.twin
        if isinstance(asked, dict) and asked.get("do") == "inject":
            try:
                fault = read_fault(str(asked.get("text", "")), twin.scenario, vocabulary(), twin.t_s, name="inject")
                twin.inject(fault)
            except StethoscopeError as error:
                message = error.message if isinstance(error, DataError) else str(error)
                return {"ok": False, "error": message}
            return {"ok": True, "t_s": twin.t_s, "said": _said(fault, twin.t_s), "fault": _fault_json(fault)}
        if isinstance(asked, dict) and asked.get("do") == "state":
            faults = [_fault_json(fault) for fault in twin.faults]
            return {"ok": True, "scenario": twin.scenario.id, "t_s": twin.t_s, "faults": faults}
        return {"ok": False, "error": "nothing that can be done: inject or state"}


def _said(fault: Fault, now_s: float) -> str:
    wait_s = fault.at_s - now_s
    when = "now" if wait_s < 1 else f"in {wait_s:.0f} s"
    until = "" if fault.until_s is None else f", for {fault.until_s - fault.at_s:.0f} s"
    return f"{fault.kind} at {fault.where.text} {when}{until}"


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "kind": fault.kind, "where": fault.where.text, "at_s": fault.at_s, "until_s": fault.until_s,
        "params": dict(fault.params),
    }  # fmt: skip


def running() -> list[Path]:
    """Return the control sockets of the simulated fleets of this user that run on this machine."""
    found = []
    pattern = os.path.join(glob.escape(tempfile.gettempdir()), f"{PREFIX}*", NAME)
    for name in sorted(glob.glob(pattern)):
        with suppress(OSError):
            about = os.stat(os.path.dirname(name))
            if about.st_uid == os.getuid() and not about.st_mode & 0o077 and ask(Path(name), {"do": "state"})["ok"]:
                found.append(Path(name))
    return found


def ask(path: Path, question: dict[str, Any]) -> dict[str, Any]:
    """Put one question to a running fleet; OSError when nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(_ANSWER_S)
        line.connect(str(path))
        line.sendall(json.dumps(question).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = line.recv(65_536)
            if not part:
                break
            answer += part
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "ok" not in found:
        raise ConnectionError("no answer of a simulated fleet")
    return found


def inject(text: str, control: Path | None = None) -> str:
    """Let a fault come in the simulated fleet that runs (of several the one at `control`); return what was done.

    UsageError for words that mean no fault, or when several fleets run; UnreachableError when none does.
    """
    if control is None:
        there = running()
        if not there:
            raise UnreachableError("no simulated fleet of yours runs here: start one with `stethoscope sim`")
        if len(there) > 1:
            listed = ", ".join(str(path) for path in there)
            raise UsageError(f"{len(there)} simulated fleets run here: say which one with --control: {listed}")
        control = there[0]
    try:
        answer = ask(control, {"do": "inject", "text": text})
    except OSError as error:
        raise UnreachableError(f"{control}: {error.strerror or error}") from None
    if not answer["ok"]:
        raise UsageError(f"--inject: {clean(str(answer.get('error', '')), 2000)}")
    return clean(str(answer.get("said", "")), 400)
