"""The demo's child process: it serves, it says why it cannot, and it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stethoscope.errors import DataError, UsageError
from stethoscope.session.demo import DemoFleet


async def test_the_demo_opens_a_session_on_a_fleet_that_is_gone_afterwards() -> None:
    with DemoFleet(scenario=None, start_at="4m", speed=1.0) as fleet:
        session = await fleet.open_session()
        assert len(session.source.nodes) == 64
        assert session.source.simulated
        file = fleet.fleet_file
        assert file.exists()
        assert session.source.commands.journal is not None, "what is run in a demo is kept as everywhere"
    assert not file.parent.exists()


async def test_what_the_child_complains_about_is_said_in_its_own_words() -> None:
    with DemoFleet(scenario="nope", start_at="4m", speed=1.0) as fleet, pytest.raises(UsageError, match=r"^no scen"):
        await fleet.open_session()
    with DemoFleet(scenario=None, start_at="banana", speed=1.0) as fleet, pytest.raises(UsageError, match=r"^--start"):
        await fleet.open_session()


async def test_a_broken_scenario_is_broken_data(tmp_path: Path) -> None:
    scenario = tmp_path / "x.yaml"
    scenario.write_text("schema: stethoscope.scenario/1\nid: [\n")
    with DemoFleet(scenario=str(scenario), start_at="0s", speed=1.0) as fleet, pytest.raises(DataError, match="yaml"):
        await fleet.open_session()


def test_after_kill_9_of_the_console_nothing_is_left(tmp_path: Path) -> None:
    code = (
        "import asyncio, time\n"
        "from stethoscope.session.demo import DemoFleet\n"
        "with DemoFleet(scenario=None, start_at='4m', speed=1.0) as fleet:\n"
        "    asyncio.run(fleet.open_session())\n"
        "    print(fleet._child.pid, fleet.fleet_file.parent, flush=True)\n"
        "    time.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as console:
        assert console.stdout is not None
        pid, directory = console.stdout.readline().split()
        console.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (Path(f"/proc/{pid}").exists() or Path(directory).exists()):
        time.sleep(0.05)
    assert not Path(directory).exists()
    assert list(tmp_path.iterdir()) == []
