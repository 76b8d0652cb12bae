"""Pictures of the screens; everything else about them is asserted as text elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stethoscope.ui.look import Look
from tests.builders import DEVICES, fleet
from tests.ui.scenes import hostile, sick, troubled
from tests.ui.test_console import app_on, ready
from tests.ui.test_drift_screen import OLD, POWER, drifted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

    from stethoscope.ui.app import StethoscopeApp


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    async def before(pilot: Pilot[None]) -> None:
        app: StethoscopeApp = await ready(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.1)
        for _ in range(2):
            app.pull()
            await pilot.pause()

    return before


@pytest.mark.parametrize(
    ("size", "keys"),
    [
        pytest.param((80, 24), ("down", "down"), id="fleet-narrow"),
        pytest.param((160, 50), (*["down"] * 3, *["right"] * 5), id="fleet-wide"),
        pytest.param((80, 24), ("b", "space", "down"), id="racks-narrow"),
        pytest.param((200, 60), ("b", "down", "right", "right"), id="racks-wide"),
        pytest.param((300, 80), ("b", "b", "b", "down", "x"), id="leaves-widest"),
        pytest.param((100, 30), ("/", *"temp>8"), id="filter"),
        pytest.param((120, 40), (*["down"] * 4, "enter"), id="node"),
        pytest.param((100, 50), ("?",), id="help"),
    ],
)
def test_the_screen_looks_as_it_did(snap_compare: Any, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    assert snap_compare(app_on(troubled()), terminal_size=size, run_before=pressing(*keys))


@pytest.mark.parametrize(
    ("scene", "size", "keys", "ascii_only"),
    [
        pytest.param("still", (80, 24), ("down",), False, id="healthy-narrow"),
        pytest.param("still", (200, 60), ("down", "down", "right"), False, id="healthy-wide"),
        pytest.param("sick", (80, 24), ("down", "down"), False, id="sick-narrow"),
        pytest.param("sick", (200, 60), ("pagedown", "right"), False, id="sick-wide"),
        pytest.param("sick", (100, 40), ("G",), True, id="sick-ascii"),
        pytest.param("hostile", (120, 40), ("a",), False, id="hostile"),
    ],
)
def test_a_node_looks_as_it_did(
    snap_compare: Any, scene: str, size: tuple[int, int], keys: tuple[str, ...], ascii_only: bool
) -> None:
    made = {"still": lambda: fleet(8, name="prod-a", devices=DEVICES), "sick": sick, "hostile": hostile}[scene]()
    app = app_on(made, Look(ascii_only=ascii_only))
    assert snap_compare(app, terminal_size=size, run_before=pressing("enter", *keys))


@pytest.mark.parametrize("size", [pytest.param((80, 24), id="narrow"), pytest.param((120, 40), id="wide")])
def test_drift_looks_as_it_did(snap_compare: Any, size: tuple[int, int]) -> None:
    snapshot = drifted(gpu_003=OLD, gpu_007=OLD, gpu_005=POWER)
    assert snap_compare(app_on(snapshot), terminal_size=size, run_before=pressing("D", "down"))
