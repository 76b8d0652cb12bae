"""Runs a simulated fleet until it is told to end."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stethoscope.clock import SystemClock
from stethoscope.errors import UsageError
from stethoscope.sim import fleetfile
from stethoscope.sim.control import PREFIX, Control
from stethoscope.sim.login import LoginServer
from stethoscope.sim.server import FleetServer, quiet_logs
from stethoscope.sim.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from stethoscope.specs.scenario import Scenario

_PARENT_CHECK_S = 0.5


async def serve(
    scenario: Scenario,
    *,
    fleet_file: Path | None = None,
    start_at_s: float = 0.0,
    speed: float = 1.0,
    port: int | None = None,
    parent: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve `scenario` until SIGINT, SIGTERM or SIGHUP, or until the process `parent` is gone; `say` gets one line when
    the fleet serves. Without `fleet_file` the file lies beside the keys, in a private directory that goes with the
    fleet."""
    quiet_logs()
    _allow_files(3 * scenario.fleet.nodes + 64)
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end.set)
    server = FleetServer(Twin(scenario), SystemClock(), start_at_s=start_at_s, speed=speed)
    login = LoginServer(server)
    control = Control(server)
    private = Path(tempfile.mkdtemp(prefix=PREFIX))
    written = fleet_file.resolve() if fleet_file is not None else private / "fleet.yaml"
    try:
        fleetfile.make_room(written)
        await server.start(port)
        await login.start()
        line = await control.start(private)
        try:
            fleetfile.write(server, written, private, login)
        except OSError as error:
            raise UsageError(f"{written}: {error.strerror}") from error
        say(f"{_summary(scenario, server)}, fleet file {written}, control {line}")
        watch = None if parent is None else asyncio.create_task(_watch(parent, end))
        await end.wait()
        if watch is not None:
            watch.cancel()
    finally:
        await control.close()
        await login.close()
        await server.close()
        shutil.rmtree(private, ignore_errors=True)
        # A fleet that is gone leaves no file that says how to reach it.
        if server.nodes and fleet_file is not None:
            written.unlink(missing_ok=True)
            if parent is not None:
                # The directory was made for this run by a parent that may have been killed.
                with suppress(OSError):
                    written.parent.rmdir()


def _allow_files(count: int) -> None:
    """Raise the limit of open files to `count` as far as the system lets us: a listener and two connections a node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _summary(scenario: Scenario, server: FleetServer) -> str:
    fleet, first = scenario.fleet, server.nodes[0]
    return (
        f"serving {scenario.id}: {fleet.nodes} nodes x {fleet.gpus_per_node} {fleet.gpu}, "
        f"first {first.name} at {first.address}:{first.port}"
    )


async def _watch(parent: int, end: asyncio.Event) -> None:
    direct = os.getppid() == parent
    while os.getppid() == parent if direct else _exists(parent):
        await asyncio.sleep(_PARENT_CHECK_S)
    end.set()


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
