"""Draws the pictures in this directory from the simulated fleet: `make screenshots`.

Those that the documentation shows stand here as SVG and PNG; every screen in three sizes, without colours, and in every
theme stands in `all/`, to be looked at after a change. PNG needs `rsvg-convert`. Names on the command line draw only
those.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# Read when the console starts: the pictures are those of a terminal of 256 colours.
os.environ.update(TERM="xterm-256color", TEXTUAL_ANIMATIONS="none")
for name in ("NO_COLOR", "COLORTERM", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
    os.environ.pop(name, None)
# Nothing of who draws is in the pictures: no settings, no views, no incidents of theirs.
HOME = Path(tempfile.mkdtemp(prefix="stethoscope-pictures-"))
os.environ["HOME"] = str(HOME)

from stethoscope.model.finding import Severity  # noqa: E402  the environment first
from stethoscope.session.demo import DemoFleet  # noqa: E402
from stethoscope.session.open import session_maker  # noqa: E402
from stethoscope.session.replay import ReplaySession  # noqa: E402
from stethoscope.store.tape import open_tape  # noqa: E402
from stethoscope.ui.app import StethoscopeApp  # noqa: E402
from stethoscope.ui.present.view import View  # noqa: E402

if TYPE_CHECKING:
    from textual.pilot import Pilot

HERE = Path(__file__).resolve().parent
SHOWN = (
    *("fleet", "fleet-80x24", "findings", "node", "drift", "logs", "help", "find"),
    *("triage", "verdict", "incidents", "incident-form"),
)
"""Pictures that the documentation shows."""
START_AT = "7m"
"""Simulated time of the pictures: the optic of the bundled scenario is sick by then, and a GPU is hot."""
LOGGED_AT = "13m45s"
"""Another GPU fell off the bus, and the job died of it."""
INCIDENTS = HERE / "incidents"
"""What the demo's console knows of earlier nights."""
RECORDED_S = 40
"""So long is the recording of which the replay is pictured."""
WAIT_S = 240.0
"""A link is called sick only after it has been so for a while."""
SMALL, USUAL, WIDE = (80, 24), (120, 40), (200, 60)


class Picture(NamedTuple):
    """One picture: what is pressed from the fleet screen on, with which choices and in which theme."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    view: tuple[tuple[str, str], ...] = ()
    theme: str = "dark"
    settle_s: float = 0.5


def _in_three_sizes(name: str, keys: tuple[str, ...] = (), **view: str) -> list[Picture]:
    chosen = tuple(view.items())
    return [
        Picture(name, USUAL, keys, chosen),
        Picture(f"{name}-80x24", SMALL, keys, chosen),
        Picture(f"{name}-200x60", WIDE, keys, chosen),
        Picture(f"{name}-mono", USUAL, keys, chosen, "mono"),
    ]


PROBE = ("enter", "o", *"nvlink", "enter", "enter")
PICTURES: tuple[Picture, ...] = (
    Picture("fleet", (160, 45), ("right",) * 12),
    *_in_three_sizes("fleet")[1:],
    *_in_three_sizes("cells", density="cells"),
    *_in_three_sizes("blocks", density="blocks"),
    *_in_three_sizes("groups", group="rack"),
    *_in_three_sizes("peers", mode="peers"),
    *_in_three_sizes("filter", ("slash", *"temp>85 | xm")),
    *_in_three_sizes("heat", ("H",)),
    *_in_three_sizes("findings", ("F",)),
    *_in_three_sizes("finding", ("F", "enter")),
    *_in_three_sizes("job", ("J",)),
    *_in_three_sizes("node", ("enter",)),
    *_in_three_sizes("drift", ("D",)),
    *_in_three_sizes("probe", PROBE),
    *(one._replace(settle_s=6.0) for one in _in_three_sizes("result", (*PROBE, "enter"))),
    *_in_three_sizes("help", ("question_mark",)),
    *_in_three_sizes("find", ("ctrl+p", *"gpu-01")),
    *_in_three_sizes("incidents", ("I",)),
    *_in_three_sizes("incident", ("I", *"gpu-021", "enter")),
    *(one._replace(settle_s=3.0) for one in _in_three_sizes("triage", ("t",))),
    *(one._replace(settle_s=3.0) for one in _in_three_sizes("verdict", ("t", "v"))),
    *(one._replace(settle_s=2.0) for one in _in_three_sizes("incident-form", ("t", "v", "i"))),
    *(Picture(f"theme-{theme}", USUAL, theme=theme) for theme in ("light", "contrast", "safe", "ascii")),
    *(Picture(f"theme-{theme}-blocks", USUAL, (), (("density", "blocks"),), theme) for theme in ("light", "safe")),
)
JOB = ("L", "o", *"a job by", "enter", *"4242", "enter")
LOGGED: tuple[Picture, ...] = (
    *(one._replace(settle_s=6.0) for one in _in_three_sizes("logs", ("L",))),
    *(one._replace(settle_s=9.0) for one in _in_three_sizes("job-log", JOB)),
    *(one._replace(settle_s=3.0) for one in _in_three_sizes("explained", ("L", "down", "down", "down", "enter"))),
)
REPLAYED: tuple[Picture, ...] = tuple(_in_three_sizes("replay"))


async def draw(fleet: DemoFleet, wanted: set[str]) -> None:
    """Write the pictures, all from one session, once it has found what is wrong; then those of its recording."""
    pictures = [picture for picture in PICTURES if not wanted or picture.name in wanted]
    replayed = [picture for picture in REPLAYED if not wanted or picture.name in wanted]
    app = StethoscopeApp(fleet.open_session, "demo")
    async with app.run_test(size=(160, 45)) as pilot:
        for _ in range(int(WAIT_S / 0.5)):
            await pilot.pause(0.5)
            if _has_found(app):
                break
        else:
            print(f"nothing urgent was found within {WAIT_S:.0f} s: drawing what there is", file=sys.stderr)
        recording = asyncio.create_task(record(fleet)) if replayed else None
        for picture in pictures:
            await draw_one(app, pilot, picture)
        path = await recording if recording is not None else None
    await app.close()
    if path is None:
        return

    async def replay() -> ReplaySession:
        return ReplaySession(open_tape(path), session_maker(), at=RECORDED_S / 2, speed=1)

    app = StethoscopeApp(replay, f"replay {path.name}")
    async with app.run_test(size=USUAL) as pilot:
        for picture in replayed:
            await pilot.pause(2.0)
            await draw_one(app, pilot, picture)
    await app.close()
    shutil.rmtree(path.parent)


async def draw_logs(fleet: DemoFleet, wanted: set[str]) -> None:
    """Write the pictures of logs, from a fleet whose kernels have something to tell."""
    app = StethoscopeApp(fleet.open_session, "demo")
    async with app.run_test(size=USUAL) as pilot:
        for _ in range(int(WAIT_S / 0.5)):
            await pilot.pause(0.5)
            if app.session is not None and app.session.snapshot().events:
                break
        for picture in LOGGED:
            if not wanted or picture.name in wanted:
                await draw_one(app, pilot, picture)
    await app.close()


async def record(fleet: DemoFleet) -> Path:
    """Record the fleet for a while, as `stethoscope record` does."""
    path = Path(tempfile.mkdtemp(prefix="stethoscope-")) / "demo.sthr"
    command = (sys.executable, "-m", "stethoscope", "record", "--fleet", str(fleet.fleet_file))
    child = await asyncio.create_subprocess_exec(*command, "--output", str(path), "--duration", f"{RECORDED_S}s")
    await child.wait()
    return path


async def draw_one(app: StethoscopeApp, pilot: Pilot[None], picture: Picture) -> None:
    """Show what `picture` says, write it, and go back to the fleet."""
    await pilot.resize_terminal(*picture.size)
    app.set_look(picture.theme)
    app.fleet_screen.take_view(View.from_dict(dict(picture.view)))
    # Rows settle every few seconds: the worst is on top after that.
    await pilot.pause(3.5)
    for key in ("home", *picture.keys):
        await pilot.press(key)
        await pilot.pause(0.3)
    app.pull()
    await pilot.pause(picture.settle_s)
    app.pull()
    await pilot.pause(0.3)
    write(picture.name, app.export_screenshot(title="stethoscope"))
    for _ in range(5):
        if app.screen is not app.fleet_screen or picture.keys:
            await pilot.press("escape")
            await pilot.pause(0.2)
    app.set_look("dark")


def _has_found(app: StethoscopeApp) -> bool:
    if app.session is None:
        return False
    found = [finding for finding in app.session.snapshot().findings if finding.severity.rank <= Severity.P1.rank]
    return len(found) > 1


def write(name: str, svg: str) -> None:
    """Write the SVG, and the PNG beside it when it can be made."""
    # Blanks must keep their width in every viewer.
    svg = svg.replace("&#160;", " ").replace("<text ", '<text xml:space="preserve" ')
    directory, zoom = (HERE, "1.2") if name in SHOWN else (HERE / "all", "0.7")
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}.svg"
    path.write_text(svg, encoding="utf-8")
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", "--zoom", zoom, "-o", str(path.with_suffix(".png")), str(path)], check=True)
        if name not in SHOWN:
            path.unlink()


def main() -> None:
    """Draw all pictures, or those named on the command line."""
    wanted = set(sys.argv[1:])
    shutil.copytree(INCIDENTS, HOME / ".local" / "state" / "stethoscope" / "demo-incidents")
    with DemoFleet(scenario=None, start_at=START_AT, speed=1) as fleet:
        asyncio.run(draw(fleet, wanted))
    if not wanted or wanted & {picture.name for picture in LOGGED}:
        with DemoFleet(scenario=None, start_at=LOGGED_AT, speed=1) as fleet:
            asyncio.run(draw_logs(fleet, wanted))
    shutil.rmtree(HOME, ignore_errors=True)


if __name__ == "__main__":
    main()
