"""Draws the pictures in this directory from the simulated fleet: `make screenshots`.

SVG always, PNG where `rsvg-convert` is installed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Read when the console starts: the pictures are those of a terminal of 256 colours.
os.environ.update(TERM="xterm-256color", TEXTUAL_ANIMATIONS="none")
for name in ("NO_COLOR", "COLORTERM"):
    os.environ.pop(name, None)

from stethoscope.model.finding import Severity  # noqa: E402
from stethoscope.session.demo import DemoFleet  # noqa: E402  the environment first
from stethoscope.ui.app import StethoscopeApp  # noqa: E402

HERE = Path(__file__).resolve().parent
START_AT = "6m"
"""Simulated time of the pictures: the optic of the bundled scenario is sick by then."""
PICTURES: tuple[tuple[str, tuple[int, int], tuple[str, ...]], ...] = (
    ("fleet", (160, 45), ("right",) * 12),
    ("fleet-80x24", (80, 24), ()),
    ("node", (120, 45), ("enter",)),
    ("drift", (120, 40), ("D",)),
    ("help", (100, 48), ("question_mark",)),
    ("find", (100, 30), ("ctrl+p", *"gpu-01")),
)
WAIT_S = 240.0
"""A link is called sick only after it has been so for a while."""


async def draw(fleet: DemoFleet, wanted: set[str]) -> None:
    """Write the pictures, all from one session, once it has found what is wrong."""
    app = StethoscopeApp(fleet.open_session, "demo")
    async with app.run_test(size=PICTURES[0][1]) as pilot:
        for _ in range(int(WAIT_S / 0.5)):
            await pilot.pause(0.5)
            if _has_found(app):
                break
        else:
            print(f"nothing urgent was found within {WAIT_S:.0f} s: drawing what there is", file=sys.stderr)
        for name, size, keys in PICTURES:
            if wanted and name not in wanted:
                continue
            await pilot.resize_terminal(*size)
            # Rows settle every few seconds: the worst is on top after that.
            await pilot.pause(4.0)
            for key in ("home", *keys):
                await pilot.press(key)
                await pilot.pause(0.2)
            for _ in range(3):
                app.pull()
                await pilot.pause(0.3)
            write(name, app.export_screenshot(title="stethoscope"))
            if app.screen is not app.fleet_screen:
                await pilot.press("escape")
                await pilot.pause(0.3)
    await app.close()


def _has_found(app: StethoscopeApp) -> bool:
    if app.session is None:
        return False
    return any(finding.severity.rank <= Severity.P1.rank for finding in app.session.snapshot().findings)


def write(name: str, svg: str) -> None:
    """Write the SVG, and the PNG beside it when it can be made."""
    # Blanks must keep their width in every viewer.
    svg = svg.replace("&#160;", " ").replace("<text ", '<text xml:space="preserve" ')
    path = HERE / f"{name}.svg"
    path.write_text(svg, encoding="utf-8")
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", "--zoom", "1.2", "-o", str(path.with_suffix(".png")), str(path)], check=True)


def main() -> None:
    """Draw all pictures, or those named on the command line."""
    wanted = set(sys.argv[1:])
    with DemoFleet(scenario=None, start_at=START_AT, speed=1) as fleet:
        asyncio.run(draw(fleet, wanted))


if __name__ == "__main__":
    main()
